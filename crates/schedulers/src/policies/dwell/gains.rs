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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at_ms;

    #[test]
    fn before_measurements_the_gain_is_that_of_the_power_of_two_below() {
        let gains = Gains::new();
        let shares = [0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 63, 64, 1_000].map(|number| gains.share(number));
        assert_eq!(shares, [256, 256, 215, 215, 180, 180, 150, 125, 125, 105, 105, 105, 105]);
        assert_eq!(gains.time(Span::from_millis(256), 8), Span::from_millis(150));
    }

    /// Of the last 64 requests with that number in the device, that one included, as long as they were random.
    #[test]
    fn measurements_replace_the_expected_gain() {
        let mut gains = Gains::new();
        let work = Span::from_millis(10);
        gains.sent(at_ms(0));
        for n in 0..500 {
            gains.sent(at_ms(10 * n));
            assert_eq!(gains.in_device(), 2);
            assert_eq!(gains.busy(at_ms(10 * n + 5)), Span::from_millis(if n == 0 { 5 } else { 10 }));
            gains.ended(at_ms(10 * n + 5), Some(work));
        }
        // The device turned to each request when it had completed the one before: 5 ms earlier than this one was sent.
        assert!(gains.share(2).abs_diff(256) < 3, "{}", gains.share(2));
        assert_eq!([1, 4].map(|number| gains.share(number)), [256, 180]);
        let before = gains.share(2);
        gains.sent(at_ms(6_000));
        gains.ended(at_ms(9_000), None);
        assert_eq!(gains.share(2), before, "it was not random");
        gains.ended(at_ms(9_000), None);
        // To an idle device the time begins with the request.
        gains.sent(at_ms(20_000));
        assert_eq!((gains.in_device(), gains.busy(at_ms(20_004))), (1, Span::from_millis(4)));
    }

    #[test]
    fn synchronous_writes_elsewhere_have_a_measurement_of_their_own() {
        let mut gains = Gains::new();
        let work = Span::from_millis(10);
        assert_eq!(gains.written(work), work);
        for n in 0..100 {
            gains.sent(at_ms(10 * n));
            gains.wrote(at_ms(10 * n + 1), work);
            gains.ended(at_ms(10 * n + 1), None);
        }
        assert!(gains.written(work) < Span::from_micros(1_100), "{}", gains.written(work));
        assert_eq!(gains.share(1), 256);
    }
}
