//! The measured gain of the device's own ordering: the time of random requests by their number in the device.

use elevator::{Span, Time};

use super::measured::{Measured, scaled};

/// One, in the fixed point of shares.
const ONE: u64 = 256;
/// By powers of two of the requests in the device: the time relative to that in the order of dispatch, of a drive that orders by
/// positioning time.
const PRIOR: [u64; 6] = [ONE, 215, 180, 150, 125, 105];
/// Weight of the latest request in the mean, as a divisor.
const WEIGHT: u64 = 64;

/// Mean time of random requests by the number in the device, relative to the estimate for the order of their dispatch.
pub(super) struct Gains {
    /// Sums of actual and of estimated times, decayed, by powers of two of the requests in the device.
    times: [(u64, u64); PRIOR.len()],
    /// Times of synchronous writes after requests elsewhere.
    writes: Measured,
    in_device: u32,
    /// When the device turned to the request that it completes next.
    since: Time,
}

impl Gains {
    pub(super) fn new() -> Self {
        // Sixteen requests of eight milliseconds.
        let times = PRIOR.map(|prior| (500_000 * prior, 500_000 * ONE));
        Self { times, writes: Measured::begun(Span::from_millis(1)), in_device: 0, since: Time::ZERO }
    }

    /// A request goes to the device.
    pub(super) const fn sent(&mut self, now: Time) {
        if self.in_device == 0 {
            self.since = now;
        }
        self.in_device += 1;
    }

    /// Requests in the device.
    pub(super) const fn in_device(&self) -> u32 {
        self.in_device
    }

    /// For how long the device has worked on the request that it completes now.
    pub(super) fn busy(&self, now: Time) -> Span {
        now.since(self.since)
    }

    /// The device has completed a request, of that estimated work if it counts.
    pub(super) fn ended(&mut self, now: Time, work: Option<Span>) {
        if let Some(work) = work {
            let (actual, estimated) = &mut self.times[Self::class(u64::from(self.in_device))];
            *actual += now.since(self.since).as_nanos();
            *estimated += work.as_nanos();
            *actual -= *actual / WEIGHT;
            *estimated -= *estimated / WEIGHT;
        }
        self.in_device = self.in_device.saturating_sub(1);
        self.since = now;
    }

    /// The device has completed a synchronous write after a request elsewhere.
    pub(super) fn wrote(&mut self, now: Time, work: Span) {
        self.writes.add(self.busy(now), work);
    }

    /// The mean time of a synchronous write elsewhere whose estimate is `work`.
    pub(super) fn written(&self, work: Span) -> Span {
        self.writes.scaled(work)
    }

    const fn class(in_device: u64) -> usize {
        match in_device.checked_ilog2() {
            None => 0,
            Some(class) if class as usize >= PRIOR.len() => PRIOR.len() - 1,
            Some(class) => class as usize,
        }
    }

    /// The mean time of a request relative to its estimate if the device has so many, in 1/256.
    pub(super) fn share(&self, in_device: u64) -> u64 {
        let (actual, estimated) = self.times[Self::class(in_device)];
        actual * ONE / estimated.max(1)
    }

    /// The mean time of a request whose estimate is `work` if the device has so many.
    pub(super) fn time(&self, work: Span, in_device: u64) -> Span {
        let (actual, estimated) = self.times[Self::class(in_device)];
        scaled(work, actual, estimated)
    }
}
