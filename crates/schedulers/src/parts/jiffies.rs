//! Time in ticks of 1/HZ second, as in Linux 2.6 kernels.
//!
//! Several intervals of the anticipatory scheduler and of CFQ are counted in ticks, so that their lengths depend on the HZ of the
//! kernel's configuration. Policies that follow these sources have HZ as a tunable.

use elevator::{Span, Time};

/// A point in time or a length of it, in ticks.
pub(crate) type Jiffies = u64;

/// The tick clock of a kernel with a given HZ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticks {
    /// Nanoseconds in a tick.
    length: u64,
    /// A time, and the number of ticks up to it.
    origin: (Time, Jiffies),
}

impl Ticks {
    /// Ticks of 1/`hz` second, in whole nanoseconds.
    pub(crate) const fn of_hz(hz: u64) -> Self {
        Self { length: 1_000_000_000 / if hz == 0 { 1 } else { hz }, origin: (Time::ZERO, 0) }
    }

    /// Changes the tick length from `now` on. Ticks are counted on, so times in the past keep their tick numbers; stored
    /// times in the future must be converted with the result.
    pub(crate) const fn change_hz(&mut self, now: Time, hz: u64) -> Conversion {
        let (before, tick) = (*self, self.at(now));
        *self = Self { origin: (before.time(tick), tick), ..Self::of_hz(hz) };
        Conversion { now: tick, before, after: *self }
    }

    /// The number of ticks up to a time.
    pub(crate) const fn at(self, time: Time) -> Jiffies {
        self.origin.1 + time.since(self.origin.0).as_nanos() / self.length
    }

    /// A length of time in whole ticks, truncated like `HZ/8`; at least 1, unless the length is 0.
    pub(crate) const fn of(self, span: Span) -> Jiffies {
        let ticks = span.as_nanos() / self.length;
        if ticks == 0 && span.as_nanos() > 0 { 1 } else { ticks }
    }

    /// A length of time in ticks, rounded up, as `msecs_to_jiffies` does.
    pub(crate) const fn rounded_up(self, span: Span) -> Jiffies {
        span.as_nanos().div_ceil(self.length)
    }

    /// The time of a tick, if it is not before the clock's last change.
    pub(crate) const fn time(self, jiffies: Jiffies) -> Time {
        let since = self.span(jiffies.saturating_sub(self.origin.1));
        Time::from_nanos(self.origin.0.as_nanos().saturating_add(since.as_nanos()))
    }

    /// The length of a number of ticks.
    pub(crate) const fn span(self, jiffies: Jiffies) -> Span {
        Span::from_nanos(jiffies.saturating_mul(self.length))
    }
}

/// Converts tick numbers after a change of the tick length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversion {
    now: Jiffies,
    before: Ticks,
    after: Ticks,
}

impl Conversion {
    /// Converts a tick in the future to the first new tick at or after its time.
    pub(crate) const fn apply(&self, point: &mut Jiffies) {
        if *point > self.now {
            let time = self.before.time(*point);
            let tick = self.after.at(time);
            *point = if self.after.time(tick).as_nanos() < time.as_nanos() { tick + 1 } else { tick };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_truncated_like_the_kernels_constants() {
        let lengths = |hz| [6, 20, 125].map(|ms| Ticks::of_hz(hz).of(Span::from_millis(ms)));
        assert_eq!(lengths(1000), [6, 20, 125]);
        assert_eq!(lengths(250), [1, 5, 31]); // 4, 20 and 124 ms: the stream paper's numbers
        assert_eq!(lengths(100), [1, 2, 12]);
        assert_eq!(Ticks::of_hz(250).of(Span::ZERO), 0);
        assert_eq!(Ticks::of_hz(250).rounded_up(Span::from_millis(2)), 1);
    }

    #[test]
    fn a_tick_happens_when_its_number_is_reached() {
        let ticks = Ticks::of_hz(250);
        assert_eq!(ticks.at(Time::from_nanos(7_999_999)), 1);
        assert_eq!(ticks.time(2), Time::from_nanos(8_000_000));
        assert_eq!(ticks.at(ticks.time(2)), 2);
    }

    #[test]
    fn a_change_of_hz_continues_the_count() {
        let mut ticks = Ticks::of_hz(1000);
        let anew = ticks.change_hz(Time::from_nanos(10_500_000), 250);
        assert_eq!(ticks.at(Time::from_nanos(10_500_000)), 10);
        assert_eq!(ticks.at(Time::from_nanos(14_000_000)), 11);
        assert_eq!(ticks.time(11), Time::from_nanos(14_000_000));
        let converted = [3, 10, 14, 15].map(|mut point| {
            anew.apply(&mut point);
            point
        });
        assert_eq!(converted, [3, 10, 11, 12], "a tick begins at 14 ms, none at 15 ms");
    }
}
