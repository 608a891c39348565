//! The requests in the device, their dispatch times, and their expected duration.

use alloc::vec::Vec;

use elevator::{Request, Span, Time};

/// A request in the device.
#[derive(Clone, Copy)]
struct Sent {
    at: Time,
    serial: u64,
    urgent: bool,
    /// Sectors of background data.
    background: u64,
}

/// Requests in the device, in order of dispatch.
#[derive(Default)]
pub(super) struct InDevice {
    sent: Vec<Sent>,
    /// The time of the latest completion, of the latest dispatch to the empty device, or of the latest call of `rested`.
    since: Time,
    /// The recent service time: a decaying average in which a new sample weighs one eighth.
    usual: Span,
}

impl InDevice {
    pub(super) const fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// The number of urgent requests in the device.
    pub(super) fn urgent(&self) -> u64 {
        self.sent.iter().filter(|sent| sent.urgent).count() as u64
    }

    /// The sectors of background data in the device.
    pub(super) fn background(&self) -> u64 {
        self.sent.iter().map(|sent| sent.background).sum()
    }

    /// Whether a request has been in the device for the time `long`.
    pub(super) fn keeps_for(&self, now: Time, long: Span) -> bool {
        self.sent.first().is_some_and(|sent| now.since(sent.at) >= long)
    }

    /// Whether a request has been in the device for the time `long`, or its requests are expected to take as long.
    pub(super) fn is_busy_for(&self, now: Time, long: Span) -> bool {
        self.keeps_for(now, long) || !self.sent.is_empty() && self.usual * (self.sent.len() as u64) >= long
    }

    /// The idle time since the last call.
    pub(super) fn rested(&mut self, now: Time) -> Span {
        if self.sent.is_empty() { now.since(core::mem::replace(&mut self.since, now)) } else { Span::ZERO }
    }

    pub(super) fn takes(&mut self, at: Time, request: &Request, urgent: bool, background: u64) {
        if self.sent.is_empty() {
            self.since = at;
        }
        self.sent.push(Sent { at, serial: request.serial, urgent, background });
    }

    /// A request completed; returns the time for which the device was busy with it.
    pub(super) fn gives_back(&mut self, now: Time, request: &Request) -> Span {
        self.sent.retain(|sent| sent.serial != request.serial);
        let took = now.since(self.since);
        self.since = now;
        self.usual = (self.usual * 7 + took) / 8;
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at_ms, request};

    #[test]
    fn the_expected_duration_is_the_usual_time_of_all_requests() {
        let mut device = InDevice::default();
        let nth = |serial| Request { serial, ..request(0, 8) };
        for n in 0..64 {
            device.takes(at_ms(n * 10), &nth(n), false, 0);
            assert_eq!(device.gives_back(at_ms(n * 10 + 10), &nth(n)), Span::from_millis(10));
        }
        assert_eq!(device.rested(at_ms(642)), Span::from_millis(2));
        assert_eq!(device.rested(at_ms(643)), Span::from_millis(1), "the rest was returned before");
        let long = Span::from_millis(25);
        assert!(!device.is_busy_for(at_ms(640), long));
        (64..66).for_each(|n| device.takes(at_ms(640), &nth(n), false, 0));
        assert!(!device.is_busy_for(at_ms(640), long), "two take 20 ms");
        assert!(device.is_busy_for(at_ms(665), long), "but one of them has been there for 25");
        assert_eq!(device.rested(at_ms(665)), Span::ZERO);
        device.takes(at_ms(640), &nth(66), true, 0);
        assert!(device.is_busy_for(at_ms(640), long) && device.urgent() == 1);
    }
}
