//! The program of a job, at the level of requests.

use std::collections::VecDeque;
use std::rc::Rc;

use elevator::{Direction, Flags, Op, SECTOR_BYTES, Sector, Sectors, Span, Time};
use machine::{Await, Io, Next, Program};

use super::job::Job;
use super::run::{NAP, Run};
use super::sequence::{Access, Sequence};

/// A running job.
struct Running {
    job: Job,
    /// The number of its stage.
    stage: usize,
    run: Rc<Run>,
    sequence: Sequence,
    /// When it started.
    started: Option<Time>,
    /// The time until which it sleeps.
    sleeps: Option<Time>,
    due: Due,
    ending: Option<Ending>,
    /// Requests that are held back until their batch is complete.
    batch: VecDeque<Next>,
    /// Requests in flight that have not been reaped: at most `iodepth`.
    unreaped: u32,
}

/// Stages of the end of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It waits for requests in flight.
    Drains,
    /// It waits for its last flush.
    Flushes,
    Over,
}

/// The next action: draw a request, submit it, or one of those between two requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Draw,
    Request(Direction),
    /// A batch is submitted.
    Submit,
    Room,
    Flush,
    FlushDone,
    /// fio pauses with nothing in flight.
    Quiet,
    Think,
}

pub(super) fn program(job: &Job, number: u64, stage: usize, run: Rc<Run>) -> Box<dyn Program> {
    Box::new(Running {
        job: job.clone(),
        stage,
        run,
        sequence: Sequence::new(job, number),
        started: None,
        sleeps: None,
        due: Due::Draw,
        ending: None,
        batch: VecDeque::new(),
        unreaped: 0,
    })
}

impl Program for Running {
    fn next(&mut self, now: Time) -> Next {
        let Some(started) = self.started else {
            let starts = (self.run.began(now) + self.job.start_delay).max(now);
            self.started = Some(starts);
            return self.sleep(now, starts, Next::Think(starts.since(now)));
        };
        let must_end = self.run.must_end(&self.job, self.stage);
        if let Some(until) = self.sleeps.take().filter(|&until| until > now && !must_end) {
            return self.sleep(now, until, Next::Until(until));
        }
        loop {
            let passed = now.since(started);
            let over = self.ending.is_some() || must_end || self.sequence.is_over(passed);
            let (next, after) = match self.due {
                Due::Draw | Due::Request(_) if over && !self.batch.is_empty() => (None, Due::Submit),
                Due::Draw | Due::Request(_) if over => return self.end(),
                Due::Draw => {
                    let (way, at) = self.sequence.draw(passed);
                    let until = started + at;
                    ((at > passed).then(|| self.sleep(now, until, Next::Until(until))), Due::Request(way))
                }
                Due::Request(way) => {
                    let request = self.request(way);
                    self.batch.push_back(request);
                    (None, if self.is_batch_complete(passed) { Due::Submit } else { Due::Draw })
                }
                Due::Submit => match self.batch.pop_front() {
                    Some(request) => {
                        self.unreaped += 1;
                        (Some(request), Due::Submit)
                    }
                    None => (None, Due::Room),
                },
                Due::Room => (self.reap(), Due::Flush),
                Due::Flush if self.flushes() => {
                    self.sequence.sync_file();
                    (Some(flush()), Due::FlushDone)
                }
                Due::Flush => (None, Due::Quiet),
                Due::FlushDone => (Some(Next::Await(Await::All)), Due::Quiet),
                Due::Quiet if self.sequence.begins_to_verify() => (Some(Next::Await(Await::All)), Due::Draw),
                Due::Quiet if self.sequence.think_due(passed) => (Some(Next::Await(Await::All)), Due::Think),
                Due::Quiet => (None, Due::Draw),
                Due::Think => {
                    let span = self.sequence.think(passed);
                    (Some(self.sleep(now, now + span, Next::Think(span))), Due::Draw)
                }
            };
            self.due = after;
            if let Some(next) = next {
                return next;
            }
        }
    }
}

impl Running {
    /// Waits for requests in flight, flushes if the job asks for it, then ends.
    fn end(&mut self) -> Next {
        let (ending, next) = match self.ending {
            None => (Ending::Drains, Next::Await(Await::All)),
            Some(Ending::Drains) if self.job.fsync_end && self.has_written() => (Ending::Flushes, flush()),
            Some(Ending::Flushes) => (Ending::Over, Next::Await(Await::All)),
            Some(_) => {
                self.run.ended(&self.job, self.stage);
                (Ending::Over, Next::Exit)
            }
        };
        self.ending = Some(ending);
        next
    }

    /// Sleeps by `whole`, or for a nap if the job may have to end meanwhile.
    fn sleep(&mut self, now: Time, until: Time, whole: Next) -> Next {
        let nap = now + NAP;
        if self.job.ends.is_none() || until <= nap {
            return whole;
        }
        self.sleeps = Some(until);
        Next::Until(nap)
    }

    /// Whether what is held back is submitted now: the batch or the queue is full, or the job pauses, flushes or verifies next.
    fn is_batch_complete(&self, passed: Span) -> bool {
        let held = self.batch.len() as u32;
        let batch = if self.job.batch.submit == 0 { self.job.iodepth } else { self.job.batch.submit };
        held >= batch
            || self.unreaped + held >= self.job.iodepth
            || self.flushes()
            || self.sequence.begins_to_verify()
            || self.sequence.think_due(passed)
    }

    /// Waits for completions once the queue is full; as in fio, none are reaped before.
    fn reap(&mut self) -> Option<Next> {
        if self.unreaped < self.job.iodepth {
            return None;
        }
        self.unreaped = self.job.batch.rest(self.job.iodepth);
        Some(Next::Await(Await::Fewer(self.unreaped + 1)))
    }

    fn has_written(&self) -> bool {
        (!self.job.trims || self.job.writes_trimmed) && self.sequence.written() > 0
    }

    fn flushes(&self) -> bool {
        !self.job.trims && self.sequence.sync_due().is_some()
    }

    fn request(&mut self, way: Direction) -> Next {
        let Access { file, at, bytes, discards } = self.sequence.take(way);
        let op = match way {
            Direction::Read => Op::Read,
            Direction::Write if discards => Op::Discard,
            Direction::Write => Op::Write,
        };
        let start = Sector(self.job.regions[file].offset.0 + at / SECTOR_BYTES);
        let flags = Flags { sync: true, fua: self.job.sync && op == Op::Write, ..Flags::default() };
        Next::Submit(Io { op, start, sectors: Sectors::from_bytes(bytes), flags })
    }
}

fn flush() -> Next {
    let flags = Flags { sync: true, ..Flags::default() };
    Next::Submit(Io { op: Op::Flush, start: Sector(0), sectors: Sectors::ZERO, flags })
}
