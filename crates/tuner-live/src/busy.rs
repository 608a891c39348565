//! For how much of a window a device was busy: something had been asked of it, and was not back yet.
//!
//! # Idea
//! It is reckoned from when requests arrive above the scheduler to when they come back, so a request that a scheduler holds back for
//! another keeps the device busy: somebody waits for it. The kernel's own `io_ticks` will not do: it counts whole ticks of its clock (1 to
//! 10 ms) in which there was any request, so a thousand requests a second of 20 µs each make a device that is always busy.

use elevator::{Span, Time};

/// Whose end was not reported in that time is believed to be lost: as long as the kernel lets a request take before it gives it up.
const LOST: Span = Span::from_secs(30);

/// Follows a device from window to window.
#[derive(Clone, Default, Debug)]
pub(crate) struct Busy {
    /// When requests arrived that are not back yet.
    under_way: Vec<Time>,
}

impl Busy {
    /// In a window from `start` to `end` requests arrived at these times, and others, which had arrived and came back then, ended: how long
    /// the device was busy.
    pub(crate) fn window(
        &mut self,
        (start, end): (Time, Time),
        arrived: impl Iterator<Item = Time>,
        ended: &mut [(Time, Time)],
    ) -> Span {
        ended.sort_unstable();
        self.under_way.extend(arrived);
        self.under_way.sort_unstable();
        let mut back = ended.iter().map(|&(arrived, _)| arrived).peekable();
        self.under_way.retain(|&arrived| {
            while back.next_if(|&other| other < arrived).is_some() {}
            back.next_if_eq(&arrived).is_none() && end.since(arrived) < LOST
        });
        let waiting = self.under_way.first().map(|&arrived| (arrived, end));
        let (mut busy, mut until) = (Span::ZERO, start);
        let before = ended.partition_point(|&(arrived, _)| waiting.is_none_or(|(first, _)| arrived <= first));
        for (from, to) in ended[..before].iter().copied().chain(waiting) {
            let from = from.max(until);
            if to > from {
                busy += to.since(from);
                until = to;
            }
        }
        busy
    }

    /// Nobody looks from here on.
    pub(crate) fn let_go(&mut self) {
        self.under_way.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// Milliseconds of the n-th window of 100 ms in which the device was busy.
    fn busy(of: &mut Busy, n: u64, arrived: &[u64], ended: &[(u64, u64)]) -> u64 {
        let mut ended: Vec<_> = ended.iter().map(|&(from, to)| (ms(from), ms(to))).collect();
        let span = of.window((ms(100 * n), ms(100 * n + 100)), arrived.iter().map(|&at| ms(at)), &mut ended);
        span.as_nanos() / 1_000_000
    }

    #[test]
    fn requests_that_overlap_count_once_and_gaps_do_not() {
        let ended = [(10, 20), (15, 40), (16, 18), (70, 80)];
        assert_eq!(busy(&mut Busy::default(), 0, &[10, 15, 16, 70], &ended), 40);
        assert_eq!(busy(&mut Busy::default(), 0, &[], &[]), 0);
    }

    #[test]
    fn what_is_not_back_at_the_end_keeps_it_busy_until_it_is() {
        let mut of = Busy::default();
        assert_eq!(busy(&mut of, 0, &[20, 60, 60], &[(20, 30)]), 10 + 40);
        assert_eq!(busy(&mut of, 1, &[], &[(60, 130)]), 100, "the other one is not");
        assert_eq!(busy(&mut of, 2, &[250], &[(60, 240), (250, 260)]), 40 + 10);
        assert_eq!(busy(&mut of, 3, &[], &[]), 0);
    }

    #[test]
    fn a_request_whose_end_was_lost_does_not_keep_it_busy_for_ever() {
        let mut of = Busy::default();
        busy(&mut of, 0, &[50], &[]);
        assert_eq!((busy(&mut of, 299, &[], &[]), busy(&mut of, 300, &[], &[])), (100, 0));
        busy(&mut of, 301, &[30_150], &[]);
        of.let_go();
        assert_eq!(busy(&mut of, 302, &[], &[]), 0);
    }
}
