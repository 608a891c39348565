//! Dies and channels.
//!
//! *Theory of operation.* A die does one operation at a time. It prefers waiting reads, but at most `reads_before_program` in a row
//! while a program or an erase waits. A read behind a running program waits for its end, or suspends it if the die supports that. A
//! page that was read goes over the channel from the die's register, while the die may read the next (cache read). A program's data
//! goes over the channel first. A channel is first come, first served.
//!
//! *Not modelled.* Independent reads of planes, read retries, wear, and program times that depend on the page's bit.

use std::collections::VecDeque;

use elevator::{Span, Time};

use super::event_queue::{Event, EventQueue, moving};
use super::parameters::{FlashParameters, PAGE_SECTORS};

/// An operation of a die.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Job {
    /// Read part of a flash page.
    Read(Read),
    /// Program one page in each plane.
    Program {
        /// The write buffer's unit; `None` for pages that garbage collection copies.
        unit: Option<u64>,
        /// The data is already in the die.
        loaded: bool,
    },
    /// Read pages that are to be programmed elsewhere.
    Copy {
        /// Number of flash pages.
        reads: u32,
    },
    /// Erase one block in each plane.
    Erase,
}

/// A read of part of a flash page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Read {
    /// The command that waits for it.
    pub(super) command: Option<u32>,
    /// The flash page.
    pub(super) page: u64,
    /// Mapping pages that are transferred.
    pub(super) mapping_pages: u32,
    /// Sectors for the host.
    pub(super) sectors: u32,
}

const NO_PAGE: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Die {
    reads: VecDeque<Read>,
    work: VecDeque<Job>,
    running: Option<Running>,
    suspended: Option<Suspended>,
    generation: u32,
    reads_in_a_row: u32,
    /// The flash page in the register.
    register: u64,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    job: Job,
    /// `None` while a program's data is being transferred.
    ends: Option<Time>,
    suspends_left: u32,
}

#[derive(Clone, Copy, Debug)]
struct Suspended {
    job: Job,
    rest: Span,
    suspends_left: u32,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    waiting: VecDeque<Transfer>,
    active: Option<Transfer>,
}

#[derive(Clone, Copy, Debug)]
struct Transfer {
    die: u32,
    job: Job,
    takes: Span,
}

/// All dies and channels. Die `d` is on channel `d` modulo their number, so that adjacent dies are on different channels.
#[derive(Clone, Debug)]
pub(super) struct Flash {
    p: FlashParameters,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    program_transfer: Span,
}

impl Flash {
    pub(super) fn new(p: FlashParameters) -> Self {
        let die = Die {
            reads: VecDeque::new(),
            work: VecDeque::new(),
            running: None,
            suspended: None,
            generation: 0,
            reads_in_a_row: 0,
            register: NO_PAGE,
        };
        let bytes = u64::from(p.page_bytes) * u64::from(p.planes);
        Self {
            dies: vec![die; p.dies() as usize],
            channels: vec![Channel::default(); p.channels as usize],
            program_transfer: moving(bytes, p.channel_megabytes_per_second),
            p,
        }
    }

    /// Queues a read. Flash pages are striped over the dies by address.
    pub(super) fn read(&mut self, read: Read, now: Time, events: &mut EventQueue) {
        let d = (read.page % self.dies.len() as u64) as u32;
        let die = &mut self.dies[d as usize];
        die.reads.push_back(read);
        let delay = match die.running {
            None => Span::ZERO,
            Some(running) => match die.suspend(running, now) {
                true => Span::from_nanos(self.p.suspend_ns),
                false => return,
            },
        };
        self.serve(d, now, delay, events);
    }

    /// Queues any operation other than a read.
    pub(super) fn work(&mut self, d: u32, job: Job, now: Time, events: &mut EventQueue) {
        self.dies[d as usize].work.push_back(job);
        if self.dies[d as usize].running.is_none() {
            self.serve(d, now, Span::ZERO, events);
        }
    }

    /// Starts the next operation of an idle die, after `delay`.
    fn serve(&mut self, d: u32, now: Time, delay: Span, events: &mut EventQueue) {
        while let Some(next) = self.dies[d as usize].next(self.p.reads_before_program) {
            if self.start(d, next, now + delay, events) {
                return;
            }
        }
    }

    /// Returns false if the die can start another operation at once.
    fn start(&mut self, d: u32, next: Suspended, now: Time, events: &mut EventQueue) -> bool {
        let die = &mut self.dies[d as usize];
        if let Job::Read(read) = next.job {
            if read.page == die.register {
                self.transfer(d, next.job, now, events);
                return false;
            }
            die.register = read.page;
        } else {
            die.register = NO_PAGE;
        }
        let takes = match next.job {
            _ if next.rest > Span::ZERO => next.rest + Span::from_nanos(self.p.resume_ns),
            Job::Program { loaded: false, .. } => {
                die.running = Some(Running { job: next.job, ends: None, suspends_left: next.suspends_left });
                self.transfer(d, next.job, now, events);
                return true;
            }
            job => self.takes(job),
        };
        self.dies[d as usize].run(d, next, now + takes, self.p.suspends_per_operation, events);
        true
    }

    fn takes(&self, job: Job) -> Span {
        Span::from_nanos(match job {
            Job::Read(_) => self.p.page_read_ns,
            Job::Copy { reads } => self.p.page_read_ns * u64::from(reads),
            Job::Program { .. } => self.p.page_program_ns,
            Job::Erase => self.p.block_erase_ns,
        })
    }

    /// Ends a die's operation. Returns it if it was a program.
    pub(super) fn die_done(
        &mut self,
        d: u32,
        generation: u32,
        now: Time,
        events: &mut EventQueue,
    ) -> Option<Job> {
        let die = &mut self.dies[d as usize];
        if die.generation != generation {
            return None;
        }
        let job = die.running.take()?.job;
        if matches!(job, Job::Read(_) | Job::Copy { .. }) {
            self.transfer(d, job, now, events);
        }
        self.serve(d, now, Span::ZERO, events);
        matches!(job, Job::Program { .. }).then_some(job)
    }

    fn transfer(&mut self, d: u32, job: Job, now: Time, events: &mut EventQueue) {
        let rate = self.p.channel_megabytes_per_second;
        let takes = match job {
            Job::Read(read) => moving(u64::from(read.mapping_pages) * PAGE_SECTORS * 512, rate),
            // Out to the controller for error correction, and in again.
            Job::Copy { .. } => self.program_transfer * 2,
            _ => self.program_transfer,
        };
        let c = d % self.p.channels;
        self.channels[c as usize].waiting.push_back(Transfer { die: d, job, takes });
        self.start_transfer(c, now, events);
    }

    fn start_transfer(&mut self, c: u32, now: Time, events: &mut EventQueue) {
        let channel = &mut self.channels[c as usize];
        if channel.active.is_some() {
            return;
        }
        channel.active = channel.waiting.pop_front();
        if let Some(transfer) = channel.active {
            events.push(now + transfer.takes, Event::Channel(c));
        }
    }

    /// Ends a transfer. Returns the read whose data has arrived in the controller.
    pub(super) fn channel_done(&mut self, c: u32, now: Time, events: &mut EventQueue) -> Option<Read> {
        let Transfer { die: d, job, .. } = self.channels[c as usize].active.take()?;
        self.start_transfer(c, now, events);
        match job {
            Job::Read(read) => return Some(read),
            Job::Copy { .. } => self.program_copies(d, now, events),
            _ => self.program_loaded(d, now, events),
        }
        None
    }

    fn program_copies(&mut self, d: u32, now: Time, events: &mut EventQueue) {
        let die = &mut self.dies[d as usize];
        die.work.push_front(Job::Program { unit: None, loaded: true });
        if die.running.is_none() {
            self.serve(d, now, Span::ZERO, events);
        }
    }

    fn program_loaded(&mut self, d: u32, now: Time, events: &mut EventQueue) {
        let program = Span::from_nanos(self.p.page_program_ns);
        let die = &mut self.dies[d as usize];
        if let Some(Running { job, suspends_left, .. }) = die.running {
            let next = Suspended { job, rest: Span::ZERO, suspends_left };
            die.run(d, next, now + program, self.p.suspends_per_operation, events);
        }
    }
}

impl Die {
    /// The next operation.
    fn next(&mut self, reads_before_program: u32) -> Option<Suspended> {
        let other_waits = self.suspended.is_some() || !self.work.is_empty();
        if (!other_waits || self.reads_in_a_row < reads_before_program)
            && let Some(read) = self.reads.pop_front()
        {
            self.reads_in_a_row = if other_waits { self.reads_in_a_row + 1 } else { 0 };
            return Some(fresh(Job::Read(read)));
        }
        self.reads_in_a_row = 0;
        self.suspended.take().or_else(|| self.work.pop_front().map(fresh))
    }

    fn run(&mut self, d: u32, next: Suspended, ends: Time, suspends: u32, events: &mut EventQueue) {
        self.generation = self.generation.wrapping_add(1);
        let resumed = next.rest > Span::ZERO;
        let suspends_left = if resumed { next.suspends_left } else { suspends };
        self.running = Some(Running { job: next.job, ends: Some(ends), suspends_left });
        events.push(ends, Event::Die(d, self.generation));
    }

    /// Suspends the running program or erase for a read, if possible.
    fn suspend(&mut self, running: Running, now: Time) -> bool {
        let suspendable = matches!(running.job, Job::Program { .. } | Job::Erase);
        let rest = running.ends.map_or(Span::ZERO, |ends| ends.since(now));
        if !suspendable || running.suspends_left == 0 || rest == Span::ZERO {
            return false;
        }
        self.generation = self.generation.wrapping_add(1);
        self.running = None;
        self.reads_in_a_row = 0;
        self.suspended = Some(Suspended { job: running.job, rest, suspends_left: running.suspends_left - 1 });
        true
    }
}

/// An operation that has not begun.
fn fresh(job: Job) -> Suspended {
    Suspended { job, rest: Span::ZERO, suspends_left: 0 }
}
