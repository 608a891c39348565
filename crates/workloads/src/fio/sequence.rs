//! A job's requests one after the other: which comes next and when, whether it is made of the device or of a kernel.

use elevator::Random;
use elevator::{Direction, Span};

use super::job::{Job, Pattern};

/// How far a job is. Times count from its start.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    job: Job,
    random: Random,
    /// Requests made, by direction. Sequential ones have a place for each direction, as in fio.
    made: [u64; 2],
}

impl Sequence {
    /// Of the job that is the `number`-th of its file.
    pub(crate) fn new(job: &Job, number: u64) -> Self {
        Self { job: job.clone(), random: Random::new(job.seed ^ number.rotate_left(32)), made: [0; 2] }
    }

    /// Requests made.
    pub(crate) fn made(&self) -> u64 {
        self.made[0] + self.made[1]
    }

    /// Of these, writes and discards.
    pub(crate) fn written(&self) -> u64 {
        self.made[Direction::Write as usize]
    }

    pub(crate) fn is_over(&self, passed: Span) -> bool {
        let out_of_time = self.job.runtime.is_some_and(|runtime| passed >= runtime);
        let bytes = self.made().saturating_mul(self.job.block.bytes());
        out_of_time || (bytes >= self.job.io_bytes && !self.job.time_based)
    }

    /// The direction of the next request, and when it is due. Each direction has a rate of its own: one that is ahead of it lets
    /// the other go first.
    pub(crate) fn draw(&mut self) -> (Direction, Span) {
        let reads = self.random.below(100) < self.job.reads_percent;
        let (drawn, other) = match reads {
            true => (Direction::Read, Direction::Write),
            false => (Direction::Write, Direction::Read),
        };
        let due = |way: Direction| self.job.pace * self.made[way as usize];
        let mixed = !matches!(self.job.reads_percent, 0 | 100);
        let way = if mixed && due(other) < due(drawn) { other } else { drawn };
        (way, self.within_runtime(due(way)))
    }

    /// Makes it: where it begins in the region, in bytes.
    pub(crate) fn take(&mut self, way: Direction) -> u64 {
        let block = self.job.block.bytes();
        let blocks = (self.job.region_bytes / block).max(1);
        let before = self.made[way as usize];
        self.made[way as usize] += 1;
        block
            * match self.job.pattern {
                Pattern::Random => self.random.below(blocks),
                Pattern::Sequential => before % blocks,
            }
    }

    /// How long it thinks after the latest request, if it does.
    pub(crate) fn thinks(&self, passed: Span) -> Option<Span> {
        let thinks = self.job.think > Span::ZERO && self.made().is_multiple_of(self.job.think_every.max(1));
        thinks.then(|| self.within_runtime(passed + self.job.think) - passed)
    }

    fn within_runtime(&self, span: Span) -> Span {
        self.job.runtime.map_or(span, |runtime| span.min(runtime))
    }
}
