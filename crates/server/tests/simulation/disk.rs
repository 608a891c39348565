//! A simulated disk with a volatile cache. It completes jobs in any order and late, fails some, executes some in several short steps, and
//! may lose all data that is not durable at a power loss.
//!
//! A sector holds a stamp, which stands at the sector's beginning and end; zero is a sector of zeroes.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::rc::Rc;

use elevator::queue::{Barriers, Cache};
use elevator::{Op, Random, Sector, Span, Time};
use rustix::io::Errno;
use server::backend::{Backend, Done, Geometry, Job, Payload, Piece};
use server::simulation::{Calls, carry_out};

use crate::causes::Causes;

pub const SECTOR: usize = 512;

/// A fault of the disk that the oracle must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    /// A flush forgets one write that it should make durable.
    LosesWrite,
    /// A flush makes nothing durable, and is acknowledged.
    FlushesNothing,
    /// A write with forced unit access is not durable.
    IgnoresFua,
    /// One job completes a second time under its tag.
    AnswersTwice,
    /// One job never completes.
    NeverAnswers,
    /// One write completes before its last sector is written.
    WritesShort,
    /// One read returns the sector's content before the latest write.
    ReadsStale,
    /// A job that hangs is returned as failed after the request timeout, and its write is carried out later.
    LandsLate,
    /// A failed job is answered without an error.
    HidesError,
    /// A full disk acknowledges writes that it does not carry out.
    HidesFull,
    /// The kill of a server undoes its latest write.
    LosesAtKill,
    /// A switch of the scheduler loses a request in the device.
    LosesAtSwitch,
    /// Bytes that a client did not send before it left are taken for zeroes.
    RunsCutOff,
    /// A request for which there was no memory is acknowledged.
    AcknowledgesRefused,
    /// The server starts a write to the sectors of an overdue one.
    ForgetsOverdue,
    /// A job that was carried out is returned as failed.
    FailsHealthy,
    /// A scheduler delays requests beyond the bound that it states.
    BreaksBound,
}

/// The mean number of occasions for one mutation.
const OCCASIONS: u64 = 40;

/// Rates of faults: the mean number of occasions for one fault; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A call fails with EIO, some sectors moved.
    pub error: u64,
    /// A call moves less than it should.
    pub short: u64,
    /// A call is interrupted.
    pub interrupted: u64,
    /// A job takes a thousand times as long.
    pub late: u64,
    /// A job completes only after a reset of the device, a minute later.
    pub hung: u64,
    /// A job is never returned, if the server has a limit for that.
    pub lost: u64,
}

#[derive(Clone, Copy, Default)]
struct Content {
    current: u64,
    before: u64,
    durable: u64,
    /// The number of the write that is durable.
    order: u64,
}

/// A write that a power loss may undo.
struct Volatile {
    sector: u32,
    stamp: u64,
    order: u64,
}

struct Running {
    job: Job,
    started: Time,
    /// When the server's limit for it began.
    begun: Time,
    /// Its effect comes after its answer, at this time.
    lands: Option<Time>,
    /// A flush covers the writes below this number.
    covers: u64,
    /// It is never returned.
    is_lost: bool,
    /// The sectors of the request, of which this may be a piece.
    whole: Range<u64>,
}

pub struct Disk {
    contents: Vec<Content>,
    volatile: Vec<Volatile>,
    /// The number of the next write.
    order: u64,
    jobs: Vec<Option<Running>>,
    due: BinaryHeap<Reverse<(Time, u64, u32)>>,
    started: u64,
    zeroes_as_data: bool,
    random: Random,
    pub geometry: Geometry,
    pub faults: Faults,
    /// Longest service time without faults.
    pub service: Span,
    /// Writes fail with ENOSPC.
    pub full: bool,
    /// The disk refuses to punch holes.
    pub no_punch: bool,
    /// After this time the server fails a request, and gives the disk no other write for its sectors until the disk has returned it.
    pub timeout: Option<Span>,
    pub mutation: Option<Mutation>,
    /// Writes that are carried out after their answer, and when.
    landing: Vec<(Time, u32, Vec<u64>)>,
    /// Occasions until the mutation happens again.
    occasions: u64,
    twice: Option<Job>,
    /// The faults that explain a failed request.
    pub causes: Causes,
    /// Jobs that were never returned.
    pub lost: u64,
    /// The first violation of the back end's interface by the server.
    pub violation: Option<String>,
}

impl Disk {
    pub fn new(sectors: u64, random: Random) -> Self {
        let geometry = Geometry {
            capacity: Sector(sectors),
            block_bytes: 512,
            depth: 1,
            rotational: false,
            read_only: false,
            discards: true,
            cache: Cache::WriteBack { fua: true },
            barriers: Barriers::Completed,
        };
        Self {
            contents: vec![Content::default(); sectors as usize],
            volatile: Vec::new(),
            order: 1,
            jobs: Vec::new(),
            due: BinaryHeap::new(),
            started: 0,
            zeroes_as_data: false,
            random,
            geometry,
            faults: Faults::default(),
            service: Span::from_millis(1),
            full: false,
            no_punch: false,
            timeout: None,
            mutation: None,
            landing: Vec::new(),
            occasions: OCCASIONS,
            twice: None,
            causes: Causes::new(sectors as usize),
            lost: 0,
            violation: None,
        }
    }

    /// Changes the kind of cache. With a write-through cache all data is durable.
    pub fn set_cache(&mut self, cache: Cache) {
        self.geometry.cache = cache;
        if cache == Cache::WriteThrough {
            for Volatile { sector, stamp, order } in std::mem::take(&mut self.volatile) {
                self.settle(sector, stamp, order);
            }
        }
    }

    fn once_in(&mut self, n: u64) -> bool {
        n > 0 && self.random.once_in(n)
    }

    /// A power loss: interrupts jobs in flight, and each write that is not durable survives or not.
    pub fn lose_power(&mut self) {
        let cut: Vec<Running> = self.jobs.iter_mut().filter_map(Option::take).collect();
        for running in cut {
            if self.random.once_in(2) && running.job.op != Op::Flush {
                self.torn(running.job);
            }
        }
        let survival = 1 + self.random.below(4);
        for at in 0..self.volatile.len() {
            let survives = self.random.once_in(survival);
            let Volatile { sector, stamp, order } = self.volatile[at];
            if survives {
                self.settle(sector, stamp, order);
            }
        }
        self.volatile.clear();
        for content in &mut self.contents {
            (content.current, content.before) = (content.durable, content.durable);
        }
        self.restart();
    }

    /// The server is killed. The kernel completes the submitted jobs, but those that it never returns only in part.
    pub fn lose_server(&mut self) {
        for at in 0..self.jobs.len() {
            let Some(running) = self.jobs[at].take() else { continue };
            let is_cut_off = running.is_lost && self.random.once_in(2);
            if !is_cut_off {
                let _ = self.carry_out(running);
            } else if running.job.op != Op::Flush {
                self.torn(running.job);
            }
        }
        if self.mutation == Some(Mutation::LosesAtKill)
            && let Some(write) = self.volatile.last()
        {
            let content = &mut self.contents[write.sector as usize];
            content.current = content.before;
        }
        self.restart();
    }

    /// The scheduler is switched.
    pub fn switched(&mut self) {
        if self.mutation == Some(Mutation::LosesAtSwitch) {
            let running = self.jobs.iter_mut().find(|running| running.is_some());
            let _ = running.and_then(Option::take);
        }
    }

    fn restart(&mut self) {
        self.due.clear();
        self.jobs.clear();
        self.landing.clear();
        self.causes = Causes::new(self.contents.len());
        (self.full, self.twice, self.zeroes_as_data) = (false, None, false);
    }

    /// Writes some sectors of an interrupted write.
    fn torn(&mut self, job: Job) {
        let saved = self.faults;
        self.faults = Faults { error: 2, short: 2, ..Faults::default() };
        let _ = self.carry_out(Running {
            job,
            started: Time::ZERO,
            begun: Time::ZERO,
            lands: None,
            covers: u64::MAX,
            is_lost: false,
            whole: 0..0,
        });
        self.faults = saved;
    }

    fn settle(&mut self, sector: u32, stamp: u64, order: u64) {
        let content = &mut self.contents[sector as usize];
        if order > content.order {
            (content.durable, content.order) = (stamp, order);
        }
    }

    /// Whether a write of this stamp is lost if the power fails now.
    pub fn volatile_stamps(&self) -> impl Iterator<Item = (u32, u64)> {
        self.volatile.iter().map(|write| (write.sector, write.stamp))
    }

    fn put(&mut self, sector: u32, stamp: u64, durable: bool) {
        let order = self.order;
        self.order += 1;
        let content = &mut self.contents[sector as usize];
        (content.before, content.current) = (content.current, stamp);
        let durable = durable && self.mutation != Some(Mutation::IgnoresFua);
        if durable || self.geometry.cache == Cache::WriteThrough {
            self.settle(sector, stamp, order);
        } else {
            self.volatile.push(Volatile { sector, stamp, order });
        }
    }

    /// Whether the server fails a job that it started then.
    fn is_overdue(&self, now: Time, begun: Time) -> bool {
        self.timeout.is_some_and(|timeout| now.since(begun) >= timeout)
    }

    /// Whether a job was overdue since then, or is and explains the failure of a request for these sectors (none for a flush): the job is the
    /// request's, or a write to its sectors, or all tags are taken by such jobs.
    pub fn overdue_since(&self, now: Time, since: Time, first: u32, sectors: u32, flushes: bool) -> bool {
        if self.causes.overdue_since(since) {
            return true;
        }
        let (mut overdue, mut explains) = (0, false);
        for Running { job, begun, is_lost, whole, .. } in self.jobs.iter().flatten() {
            if self.is_overdue(now, *begun) {
                let overlaps = whole.start < u64::from(first + sectors) && u64::from(first) < whole.end;
                overdue += 1;
                explains |= !is_lost || overlaps || (flushes && job.op == Op::Flush);
            }
        }
        explains || overdue >= self.geometry.depth
    }

    /// The jobs of the disk, as text.
    pub fn describe_jobs(&self, now: Time) -> String {
        let jobs = self.jobs.iter().flatten().map(|Running { job, begun, is_lost, .. }| {
            let (lost, overdue) = (if *is_lost { " lost" } else { "" }, self.is_overdue(now, *begun));
            format!("{} {}+{} since {begun:?}{lost}, overdue: {overdue}", job.op, job.start.0, job.sectors.0)
        });
        let jobs = jobs.collect::<Vec<_>>().join("; ");
        format!("at {now:?} with the limit {:?} the disk has {jobs}", self.timeout)
    }

    /// Whether the mutation happens now.
    fn mutates(&mut self, mutation: Mutation) -> bool {
        if self.mutation != Some(mutation) {
            return false;
        }
        self.occasions -= 1;
        let now = self.occasions == 0;
        if now {
            self.occasions = OCCASIONS;
        }
        now
    }

    fn carry_out(&mut self, running: Running) -> (Job, Result<(), Errno>) {
        let mut zeroes_as_data = self.zeroes_as_data;
        let mut calls = Served { disk: self, covers: running.covers };
        let ended = carry_out(running.job, &mut zeroes_as_data, &mut calls);
        self.zeroes_as_data = zeroes_as_data;
        ended
    }

    fn start(&mut self, now: Time, job: Job) {
        let tag = job.tag.0 as usize;
        if self.jobs.len() <= tag {
            self.jobs.resize_with(tag + 1, || None);
        }
        if self.jobs[tag].is_some() || tag >= self.geometry.depth as usize {
            self.violation =
                Some(format!("a job was started under the tag {tag}, which is in use or too large"));
        }
        let longest = self.service.as_nanos();
        let mut takes = longest / 16 + self.random.below(longest);
        if self.once_in(self.faults.late) {
            takes *= 1000;
        }
        let mut lands = None;
        if self.once_in(self.faults.hung) {
            takes += 60_000_000_000;
            if self.mutation == Some(Mutation::LandsLate) && job.op == Op::Write {
                lands = Some(now + Span::from_nanos(takes));
                takes = 21_000_000_000;
            }
        }
        self.check_late(now, &job);
        if self.mutates(Mutation::NeverAnswers) {
            return;
        }
        let at = now + Span::from_nanos(takes);
        self.started += 1;
        let is_lost = self.loses();
        if is_lost {
            self.lost += 1;
        } else {
            self.due.push(Reverse((at, self.started, job.tag.0)));
        }
        // A flush need not cover writes during its execution. The sync of any other job follows the job's own writes.
        let covers = if job.op == Op::Flush { self.order } else { u64::MAX };
        let (begun, whole) = (self.causes.begun(now, &job), self.causes.whole(&job));
        self.jobs[tag] = Some(Running { job, started: now, begun, lands, covers, is_lost, whole });
    }

    /// Whether a new job is never returned. Some tags remain for others.
    fn loses(&mut self) -> bool {
        let lost = self.jobs.iter().flatten().filter(|running| running.is_lost).count() as u64;
        let rate = self.faults.lost;
        self.timeout.is_some() && 2 * (lost + 1) < u64::from(self.geometry.depth) && self.once_in(rate)
    }

    /// A write must not come between an older one that has failed for its lateness and that one's end: the older one would replace it.
    fn check_late(&mut self, now: Time, job: &Job) {
        let Some(timeout) = self.timeout else { return };
        let changes = |op| matches!(op, Op::Write | Op::Discard);
        let late = self.jobs.iter().flatten().find(|running| {
            // The server compares its limit from time to time.
            let is_late = now.since(running.started).as_nanos() > timeout.as_nanos() * 3 / 2;
            let overlaps = running.job.start < job.start + job.sectors
                && job.start < running.job.start + running.job.sectors;
            is_late && overlaps && changes(running.job.op) && changes(job.op)
        });
        if let Some(late) = late {
            let (sector, begun) = (job.start.0, late.started);
            self.violation = Some(format!(
                "a write to sector {sector} was started before an overdue one of {begun:?} returned"
            ));
        }
    }

    /// Writes whose effect comes after their answer.
    fn land(&mut self, now: Time) {
        for (_, first, stamps) in self.landing.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>() {
            for (sector, stamp) in (first..).zip(stamps) {
                self.put(sector, stamp, false);
            }
        }
    }

    fn poll(&mut self, now: Time) -> Option<Done> {
        if let Some(job) = self.twice.take() {
            return Some(Done { job, at: now, result: Ok(()) });
        }
        self.land(now);
        let running = loop {
            let &Reverse((at, _, tag)) = self.due.peek()?;
            if at > now {
                return None;
            }
            self.due.pop();
            // A mutation may have lost it.
            if let Some(running) = self.jobs[tag as usize].take() {
                break (at, running);
            }
        };
        let (at, running) = running;
        let begun = running.begun;
        if self.is_overdue(now, begun) {
            self.causes.was_overdue(now);
        }
        if let Some(lands) = running.lands {
            self.causes.failed(now, begun, &running.job, Errno::IO);
            self.landing.push((lands, running.job.start.0 as u32, stamps(&running.job)));
            return Some(Done { job: running.job, at, result: Err(Errno::IO) });
        }
        if self.mutates(Mutation::AnswersTwice) {
            let Job { tag, op, start, sectors, fua, .. } = running.job;
            self.twice = Some(Job { tag, op, start, sectors, fua, pieces: Vec::new() });
        }
        let (job, mut result) = self.carry_out(running);
        if let Err(error) = result {
            self.causes.failed(now, begun, &job, error);
        } else if self.mutates(Mutation::FailsHealthy) {
            result = Err(Errno::IO);
        }
        if self.mutation == Some(Mutation::HidesError) && result == Err(Errno::IO) {
            result = Ok(());
        }
        Some(Done { job, at, result })
    }
}

/// The stamps of a write's sectors.
fn stamps(job: &Job) -> Vec<u64> {
    let of = |piece: &Piece| match &piece.payload {
        Payload::Data(data) => {
            let sectors = data.as_chunks::<SECTOR>().0.iter();
            sectors.map(|sector| u64::from_le_bytes(sector[..8].try_into().unwrap())).collect()
        }
        _ => vec![0; piece.sectors.0 as usize],
    };
    job.pieces.iter().flat_map(of).collect()
}

/// The calls of one job.
struct Served<'a> {
    disk: &'a mut Disk,
    covers: u64,
}

impl Served<'_> {
    /// The number of bytes that a call moves, or its error. `write`: the call may fail for lack of space.
    fn goes(&mut self, bytes: usize, write: bool) -> (usize, Result<(), Errno>) {
        let disk = &mut *self.disk;
        if disk.once_in(disk.faults.interrupted) {
            return (0, Err(Errno::INTR));
        }
        let sectors = (bytes / SECTOR) as u64;
        let part = |disk: &mut Disk| disk.random.below(sectors + 1) as usize * SECTOR;
        if write && disk.full && disk.random.once_in(2) {
            return (part(disk), Err(Errno::NOSPC));
        }
        if disk.once_in(disk.faults.error) {
            return (part(disk), Err(Errno::IO));
        }
        if sectors > 1 && disk.once_in(disk.faults.short) {
            return ((1 + disk.random.below(sectors - 1)) as usize * SECTOR, Ok(()));
        }
        (bytes, Ok(()))
    }
}

impl Calls for Served<'_> {
    fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<usize, Errno> {
        let (bytes, result) = self.goes(to.len(), false);
        result?;
        let stale = self.disk.mutates(Mutation::ReadsStale);
        let first = offset as usize / SECTOR;
        for (sector, to) in (first..).zip(to[..bytes].as_chunks_mut::<SECTOR>().0) {
            let content = &self.disk.contents[sector];
            let stamp = if stale { content.before } else { content.current }.to_le_bytes();
            to[..8].copy_from_slice(&stamp);
            to[SECTOR - 8..].copy_from_slice(&stamp);
        }
        Ok(bytes)
    }

    fn write(&mut self, offset: u64, from: &[u8], durable: bool) -> Result<usize, Errno> {
        if self.disk.full && self.disk.mutates(Mutation::HidesFull) {
            return Ok(from.len());
        }
        let (bytes, result) = self.goes(from.len(), true);
        let first = (offset as usize / SECTOR) as u32;
        let short = usize::from(self.disk.mutates(Mutation::WritesShort));
        let moved = &from[..bytes].as_chunks::<SECTOR>().0[..(bytes / SECTOR).saturating_sub(short)];
        for (sector, from) in (first..).zip(moved) {
            let [begin, end] =
                [0, SECTOR - 8].map(|at| u64::from_le_bytes(from[at..at + 8].try_into().unwrap()));
            if begin != end {
                self.disk.violation = Some(format!("sector {sector}: data of two writes, {begin} and {end}"));
            }
            self.disk.put(sector, begin, durable);
        }
        result.map(|()| bytes)
    }

    fn punch(&mut self, offset: u64, bytes: u64) -> Result<(), Errno> {
        if self.disk.no_punch {
            return Err(Errno::OPNOTSUPP);
        }
        let whole = bytes as usize;
        let (bytes, result) = self.goes(whole, false);
        let first = (offset as usize / SECTOR) as u32;
        // A punch is never short, because it is not continued.
        let sectors = if result.is_ok() { whole } else { bytes } / SECTOR;
        for sector in 0..sectors as u32 {
            self.disk.put(first + sector, 0, false);
        }
        result
    }

    fn sync(&mut self) -> Result<(), Errno> {
        self.goes(0, false).1?;
        let covers = self.covers;
        let disk = &mut *self.disk;
        if disk.mutation == Some(Mutation::FlushesNothing) {
            return Ok(());
        }
        let forgets = disk.mutates(Mutation::LosesWrite);
        let volatile = std::mem::take(&mut disk.volatile);
        for (at, write) in volatile.into_iter().enumerate() {
            if write.order >= covers {
                disk.volatile.push(write);
            } else if !(forgets && at == 0) {
                disk.settle(write.sector, write.stamp, write.order);
            }
        }
        Ok(())
    }
}

/// A disk that survives the servers that use it.
#[derive(Clone)]
pub struct Shared(pub Rc<RefCell<Disk>>);

impl Backend for Shared {
    fn geometry(&self) -> Geometry {
        self.0.borrow().geometry
    }

    fn start(&mut self, now: Time, job: Job) {
        self.0.borrow_mut().start(now, job);
    }

    fn poll(&mut self, now: Time) -> Option<Done> {
        self.0.borrow_mut().poll(now)
    }

    fn next_event(&self) -> Option<Time> {
        self.0.borrow().due.peek().map(|Reverse((at, ..))| *at)
    }

    fn describe(&self) -> String {
        "a simulated disk".to_string()
    }
}
