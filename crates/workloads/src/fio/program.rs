//! The program of a job.

use elevator::{Direction, Flags, Op, SECTOR_BYTES, Sector, Sectors, Time};
use machine::{Await, Io, Next, Program};

use super::job::Job;
use super::sequence::Sequence;

/// A job on its way.
struct Running {
    job: Job,
    sequence: Sequence,
    /// When it started, once it has.
    started: Option<Time>,
    /// The latest request was a write.
    wrote: bool,
    due: Due,
    ending: Option<Ending>,
}

/// How far a job is that has no more requests to make.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Waiting for what is in flight.
    Drains,
    /// Its last flush is on its way.
    Flushes,
    Over,
}

/// The next step: to draw a request, to make it, or what stands between it and the one after it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Draw,
    Request(Direction),
    Room,
    Flush,
    FlushDone,
    /// Nothing may be in flight while it thinks.
    Quiet,
    Think,
}

pub(super) fn program(job: &Job, number: u64) -> Box<dyn Program> {
    Box::new(Running {
        job: job.clone(),
        sequence: Sequence::new(job, number),
        started: None,
        wrote: false,
        due: Due::Draw,
        ending: None,
    })
}

impl Program for Running {
    fn next(&mut self, now: Time) -> Next {
        let Some(started) = self.started else {
            self.started = Some(now + self.job.start_delay);
            return Next::Think(self.job.start_delay);
        };
        loop {
            let passed = now.since(started);
            let over = self.ending.is_some() || self.sequence.is_over(passed);
            let (next, after) = match self.due {
                Due::Draw | Due::Request(_) if over => return self.end(),
                Due::Draw => {
                    let (way, at) = self.sequence.draw();
                    ((at > passed).then_some(Next::Until(started + at)), Due::Request(way))
                }
                Due::Request(way) => (Some(self.request(way)), Due::Room),
                Due::Room => (Some(Next::Await(Await::Fewer(self.job.iodepth))), Due::Flush),
                Due::Flush if self.flush_is_due() => (Some(flush()), Due::FlushDone),
                Due::Flush => (None, Due::Quiet),
                Due::FlushDone => (Some(Next::Await(Await::All)), Due::Quiet),
                Due::Quiet if self.sequence.thinks(passed).is_some() => {
                    (Some(Next::Await(Await::All)), Due::Think)
                }
                Due::Quiet => (None, Due::Draw),
                Due::Think => (self.sequence.thinks(passed).map(Next::Think), Due::Draw),
            };
            self.due = after;
            if let Some(next) = next {
                return next;
            }
        }
    }
}

impl Running {
    /// Waits for what is still in flight, makes it durable if it is asked to, then ends.
    fn end(&mut self) -> Next {
        let (ending, next) = match self.ending {
            None => (Ending::Drains, Next::Await(Await::All)),
            Some(Ending::Drains) if self.job.fsync_end && self.has_written() => (Ending::Flushes, flush()),
            Some(Ending::Flushes) => (Ending::Over, Next::Await(Await::All)),
            Some(_) => (Ending::Over, Next::Exit),
        };
        self.ending = Some(ending);
        next
    }

    fn has_written(&self) -> bool {
        !self.job.trims && self.sequence.written() > 0
    }

    fn request(&mut self, way: Direction) -> Next {
        let op = match way {
            Direction::Read => Op::Read,
            Direction::Write if self.job.trims => Op::Discard,
            Direction::Write => Op::Write,
        };
        self.wrote = op == Op::Write;
        let start = Sector(self.job.offset.0 + self.sequence.take(way) / SECTOR_BYTES);
        let flags = Flags { sync: true, ..Flags::default() };
        Next::Submit(Io { op, start, sectors: self.job.block, flags })
    }

    fn flush_is_due(&self) -> bool {
        self.job.fsync > 0 && self.wrote && self.sequence.written().is_multiple_of(self.job.fsync)
    }
}

fn flush() -> Next {
    let flags = Flags { sync: true, ..Flags::default() };
    Next::Submit(Io { op: Op::Flush, start: Sector(0), sectors: Sectors::ZERO, flags })
}
