//! The program of a job.

use elevator::model::Random;
use elevator::{Flags, Op, Sector, Sectors, Span, Time};
use machine::{Await, Io, Next, Program};

use super::job::{Job, Pattern};

/// A job on its way.
struct Running {
    job: Job,
    random: Random,
    /// When it started, once it has.
    started: Option<Time>,
    issued: u64,
    writes: u64,
    /// The latest request was a write.
    wrote: bool,
    /// Blocks of the region that sequential reads have passed, and others: fio keeps a place for each.
    positions: [u64; 2],
    /// The step to take before the next request.
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

/// What stands between a request and the next one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Request,
    Room,
    Flush,
    FlushDone,
    Think,
    Pace,
}

pub(super) fn program(job: &Job, number: u64) -> Box<dyn Program> {
    let random = Random::new(job.seed ^ number.rotate_left(32));
    Box::new(Running {
        job: job.clone(),
        random,
        started: None,
        issued: 0,
        writes: 0,
        wrote: false,
        positions: [0; 2],
        due: Due::Request,
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
            match self.due {
                Due::Request if self.ending.is_some() || self.is_over(now, started) => return self.end(),
                Due::Request => return self.request(),
                due => {
                    if let Some(next) = self.between(due, started) {
                        return next;
                    }
                }
            }
        }
    }
}

impl Running {
    fn is_over(&self, now: Time, started: Time) -> bool {
        let out_of_time = self.job.runtime.is_some_and(|runtime| now.since(started) >= runtime);
        let out_of_bytes = self.issued * self.job.block.bytes() >= self.job.io_bytes && !self.job.time_based;
        out_of_time || out_of_bytes
    }

    /// Waits for what is still in flight, makes it durable if it is asked to, then ends.
    fn end(&mut self) -> Next {
        let (ending, next) = match self.ending {
            None => (Ending::Drains, Next::Await(Await::All)),
            Some(Ending::Drains) if self.job.fsync_end && self.writes > 0 => (Ending::Flushes, flush()),
            Some(Ending::Flushes) => (Ending::Over, Next::Await(Await::All)),
            Some(_) => (Ending::Over, Next::Exit),
        };
        self.ending = Some(ending);
        next
    }

    fn request(&mut self) -> Next {
        let op = if self.random.below(100) < self.job.reads_percent {
            Op::Read
        } else if self.job.trims {
            Op::Discard
        } else {
            Op::Write
        };
        let start = self.place(op);
        self.issued += 1;
        self.wrote = op == Op::Write;
        self.writes += u64::from(self.wrote);
        self.due = Due::Room;
        let flags = Flags { sync: true, ..Flags::default() };
        Next::Submit(Io { op, start, sectors: self.job.block, flags })
    }

    fn place(&mut self, op: Op) -> Sector {
        let blocks = self.job.region_bytes / self.job.block.bytes();
        let block = match self.job.pattern {
            Pattern::Random => self.random.below(blocks),
            Pattern::Sequential => {
                let position = &mut self.positions[usize::from(op == Op::Read)];
                *position += 1;
                (*position - 1) % blocks
            }
        };
        Sector(self.job.offset.0 + block * u64::from(self.job.block.0))
    }

    /// The next thing to do between two requests, `None` if that one is not asked for.
    fn between(&mut self, due: Due, started: Time) -> Option<Next> {
        let (next, after) = match due {
            Due::Request => (None, Due::Request),
            Due::Room => (Some(Next::Await(Await::Fewer(self.job.iodepth))), Due::Flush),
            Due::Flush if self.flush_is_due() => (Some(flush()), Due::FlushDone),
            Due::Flush => (None, Due::Think),
            Due::FlushDone => (Some(Next::Await(Await::All)), Due::Think),
            Due::Think => {
                let thinks = self.job.think > Span::ZERO && self.issued.is_multiple_of(self.job.think_every);
                (thinks.then_some(Next::Think(self.job.think)), Due::Pace)
            }
            Due::Pace => {
                let paced = self.job.pace > Span::ZERO;
                (paced.then(|| Next::Until(started + self.job.pace * self.issued)), Due::Request)
            }
        };
        self.due = after;
        next
    }

    fn flush_is_due(&self) -> bool {
        self.job.fsync > 0 && self.wrote && self.writes.is_multiple_of(self.job.fsync)
    }
}

fn flush() -> Next {
    let flags = Flags { sync: true, ..Flags::default() };
    Next::Submit(Io { op: Op::Flush, start: Sector(0), sectors: Sectors::ZERO, flags })
}
