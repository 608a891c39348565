//! Time as kernels of the 2.6 years told it: in ticks of 1/HZ second.
//!
//! Several windows of the anticipatory scheduler and of CFQ are counted in ticks, so their lengths depend on the HZ that
//! the kernel was built with; a policy that follows them has it as a parameter.

use elevator::{Span, Time};

/// A point in time or a length of it, in ticks.
pub(crate) type Jiffies = u64;

/// The clock of a kernel with some HZ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticks {
    /// Nanoseconds in a tick.
    length: u64,
    /// A point in time, and the ticks that had happened by then.
    origin: (Time, Jiffies),
}

impl Ticks {
    /// Ticks of 1/`hz` second, in whole nanoseconds.
    pub(crate) const fn of_hz(hz: u64) -> Self {
        Self { length: 1_000_000_000 / if hz == 0 { 1 } else { hz }, origin: (Time::ZERO, 0) }
    }

    /// From `now` on ticks of another length. They are counted on, so that no point in time that has passed jumps when it is
    /// told in ticks. One that lies ahead has to be told anew, or it comes so much sooner or later.
    pub(crate) const fn change_hz(&mut self, now: Time, hz: u64) -> Retelling {
        let (before, tick) = (*self, self.at(now));
        *self = Self { origin: (before.time(tick), tick), ..Self::of_hz(hz) };
        Retelling { now: tick, before, after: *self }
    }

    /// How many ticks have happened at a point in time.
    pub(crate) const fn at(self, time: Time) -> Jiffies {
        self.origin.1 + time.since(self.origin.0).as_nanos() / self.length
    }

    /// A length of time in whole ticks, as `HZ/8` and the like truncate; but never 0, unless it is none at all.
    pub(crate) const fn of(self, span: Span) -> Jiffies {
        let ticks = span.as_nanos() / self.length;
        if ticks == 0 && span.as_nanos() > 0 { 1 } else { ticks }
    }

    /// A length of time in ticks, rounded up, as `msecs_to_jiffies` does.
    pub(crate) const fn rounded_up(self, span: Span) -> Jiffies {
        span.as_nanos().div_ceil(self.length)
    }

    /// When that tick happens, if it is not before the clock's last change.
    pub(crate) const fn time(self, jiffies: Jiffies) -> Time {
        let since = self.span(jiffies.saturating_sub(self.origin.1));
        Time::from_nanos(self.origin.0.as_nanos().saturating_add(since.as_nanos()))
    }

    /// How long so many ticks are.
    pub(crate) const fn span(self, jiffies: Jiffies) -> Span {
        Span::from_nanos(jiffies.saturating_mul(self.length))
    }
}

/// How to tell points in time after a change of the ticks' length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retelling {
    now: Jiffies,
    before: Ticks,
    after: Ticks,
}

impl Retelling {
    /// Lets what lies ahead come with the first tick at which it was to have come.
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
    fn spans_truncate_as_the_kernels_constants_do() {
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
    fn another_hz_counts_on() {
        let mut ticks = Ticks::of_hz(1000);
        let anew = ticks.change_hz(Time::from_nanos(10_500_000), 250);
        assert_eq!(ticks.at(Time::from_nanos(10_500_000)), 10);
        assert_eq!(ticks.at(Time::from_nanos(14_000_000)), 11);
        assert_eq!(ticks.time(11), Time::from_nanos(14_000_000));
        let retold = [3, 10, 14, 15].map(|mut point| {
            anew.apply(&mut point);
            point
        });
        assert_eq!(retold, [3, 10, 11, 12], "14 ms are a tick's beginning, 15 ms are not");
    }
}
