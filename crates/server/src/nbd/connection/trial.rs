//! Whether rests pay, by trying.
//!
//! A rest makes rounds fewer and larger, and puts the thread to sleep. Where calls are dear that is a third of all work; where
//! waking is dear the client waits for it, and gets a third less done. No figure known beforehand tells the two kinds of
//! machine apart, so a busy client is served in both ways by turns, and then for a while in the better one: that of which time
//! and processor time, multiplied, are less. So to be faster may cost as much more as it is faster.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Answers in a turn: some tens of milliseconds of a busy client.
const TURN: u32 = 8192;

/// Turns of a trial, with and without rests one after the other.
const TRIAL: u32 = 6;

/// Turns until the next trial.
const HOLDS: u32 = 90;

/// A moment by the clock, and by the processor time of this thread.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    time: Instant,
    processor: Duration,
}

impl Moment {
    /// This one.
    pub(super) fn now() -> Self {
        let processor = clock_gettime(ClockId::ThreadCPUTime);
        Self {
            time: Instant::now(),
            processor: Duration::new(processor.tv_sec as u64, processor.tv_nsec as u32),
        }
    }
}

/// Trials of a client.
pub(super) struct Trial {
    /// Turns so far since the latest trial began.
    turn: u32,
    answers: u32,
    /// When the present turn began; `None` until it does.
    began: Option<Moment>,
    /// Time and processor time of the trial's turns with rests, and of those without.
    took: [[Duration; 2]; 2],
    /// What the latest trial said.
    pays: bool,
}

impl Trial {
    pub(super) const fn new() -> Self {
        Self { turn: 0, answers: 0, began: None, took: [[Duration::ZERO; 2]; 2], pays: true }
    }

    /// So many answers are on their way: whether a rest may be taken behind them.
    pub(super) fn rests(&mut self, answers: usize, now: impl Fn() -> Moment) -> bool {
        let began = *self.began.get_or_insert_with(&now);
        self.answers += answers as u32;
        if self.answers >= TURN {
            let now = now();
            self.end_turn([now.time - began.time, now.processor.saturating_sub(began.processor)]);
            self.answers = 0;
            self.began = Some(now);
        }
        if self.turn < TRIAL { self.turn.is_multiple_of(2) } else { self.pays }
    }

    fn end_turn(&mut self, took: [Duration; 2]) {
        if self.turn < TRIAL {
            let sums = &mut self.took[self.turn as usize % 2];
            *sums = [sums[0] + took[0], sums[1] + took[1]];
        }
        self.turn += 1;
        if self.turn == TRIAL {
            let [with, without] =
                self.took.map(|[time, processor]| time.as_secs_f64() * processor.as_secs_f64());
            self.pays = with <= without;
        } else if self.turn == TRIAL + HOLDS {
            self.turn = 0;
            self.took = Default::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which part of a client's answers may be followed by rests, if one takes so many nanoseconds with them and without, and
    /// so many of processor time.
    fn share(with: (u64, u64), without: (u64, u64)) -> f64 {
        const BATCH: u32 = 16;
        let rounds = 10 * (TRIAL + HOLDS) * TURN / BATCH;
        let (mut trial, mut now, mut resting, mut rests) = (Trial::new(), Moment::now(), 0, true);
        for _ in 0..rounds {
            let (time, processor) = if rests { with } else { without };
            now.time += Duration::from_nanos(time) * BATCH;
            now.processor += Duration::from_nanos(processor) * BATCH;
            rests = trial.rests(BATCH as usize, || now);
            resting += u32::from(rests);
        }
        f64::from(resting) / f64::from(rounds)
    }

    #[test]
    fn the_better_way_is_kept_and_the_other_one_tried_now_and_then() {
        let tried = f64::from(TRIAL / 2) / f64::from(TRIAL + HOLDS);
        let table = [
            ("faster and cheaper without", (5800, 4420), (4230, 4020), tried),
            ("faster and hardly dearer without", (4600, 3580), (3860, 3660), tried),
            ("a little faster at twice the cost", (29_800, 11_350), (25_900, 23_150), 1.0 - tried),
            ("cheaper with", (6000, 4000), (6000, 5500), 1.0 - tried),
        ];
        for (what, with, without, expected) in table {
            let share = share(with, without);
            assert!((share - expected).abs() < 0.01, "{what}: {share} instead of {expected}");
        }
    }
}
