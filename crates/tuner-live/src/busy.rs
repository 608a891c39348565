//! Busy time: for how much of a window at least one request was in flight.
//!
//! # Idea
//! A request is in flight from its arrival above the scheduler to its completion, so time for which a scheduler holds it back counts.
//! The kernel's `io_ticks` is too coarse: it counts whole ticks (1 to 10 ms) with any request, so that a thousand requests of 20 µs per
//! second make the device seem always busy.

use elevator::{Span, Time};

/// A completion that is later than this counts as lost: the kernel's request timeout.
const LOST: Span = Span::from_secs(30);

/// The requests in flight, from window to window.
#[derive(Clone, Default, Debug)]
pub(crate) struct Busy {
    /// Arrival times of the requests in flight.
    under_way: Vec<Time>,
}

impl Busy {
    /// The busy time of a window from `start` to `end`, in which requests arrived at `arrived` and the requests `ended` (arrival, completion)
    /// completed.
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

    /// Forgets the requests in flight: the capture is closed.
    pub(crate) fn reset(&mut self) {
        self.under_way.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// The busy time of the n-th window of 100 ms, in milliseconds.
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
    fn requests_in_flight_at_the_end_keep_the_device_busy() {
        let mut of = Busy::default();
        assert_eq!(busy(&mut of, 0, &[20, 60, 60], &[(20, 30)]), 10 + 40);
        assert_eq!(busy(&mut of, 1, &[], &[(60, 130)]), 100, "the other one is not");
        assert_eq!(busy(&mut of, 2, &[250], &[(60, 240), (250, 260)]), 40 + 10);
        assert_eq!(busy(&mut of, 3, &[], &[]), 0);
    }

    #[test]
    fn a_lost_completion_does_not_keep_the_device_busy_for_ever() {
        let mut of = Busy::default();
        busy(&mut of, 0, &[50], &[]);
        assert_eq!((busy(&mut of, 299, &[], &[]), busy(&mut of, 300, &[], &[])), (100, 0));
        busy(&mut of, 301, &[30_150], &[]);
        of.reset();
        assert_eq!(busy(&mut of, 302, &[], &[]), 0);
    }
}
