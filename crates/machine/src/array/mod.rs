//! A disk array below the engine: one address space, and a queue, a scheduler and a drive for each member, as in md.
//!
//! A request is split at stripe units into parts and completes with its last part. RAID 5 writes have two stages, reads and
//! writes; as in md, a thread of the array issues both. A [`Coordinator`] may observe and direct the members' schedulers.

mod coordination;
mod jobs;
mod member;

use std::collections::VecDeque;

use disks::Ideal;
use disks::array::{Access, Geometry, MemberSector, Part, StripeCache};
use elevator::array::{ArrayRequest, ArrayRequestId, Coordinator, Member};
use elevator::queue::{Accepted, Event, Finished, Notice, Observer, Options, Submission, Token};
use elevator::{Flags, Op, Outcome, Process, Sector, Sectors, Time};

use crate::block::Block;
use crate::limit::Devices;
use crate::measure::DeviceStats;
use crate::program::Io;

use self::coordination::Coordination;
use self::jobs::{Job, Jobs, Stage};
use self::member::Disk;

pub use member::ArrayMember;

/// The issuer of a RAID 5 write's reads and writes: md's thread `raid5d`.
const ARRAY_THREAD: Process = Process::single(u32::MAX);

/// The parts of an array.
pub struct ArraySetup {
    /// The layout of data.
    pub geometry: Geometry,
    /// The failed member, whose drive is not used.
    pub failed: Option<u32>,
    /// A cache in front of reads.
    pub stripe_cache: Option<StripeCache>,
    /// Options of the members' queues. The depth is limited to each drive's.
    pub options: Options,
    /// The members, in order.
    pub members: Vec<ArrayMember>,
    /// The coordinator of the members' schedulers.
    pub coordinator: Option<Box<dyn Coordinator>>,
    /// An observer of the array's whole requests: `Submitted` and `Finished`.
    pub observer: Option<Box<dyn Observer>>,
}

/// Several disks behind one address space.
pub(crate) struct Array {
    geometry: Geometry,
    failed: Option<u32>,
    disks: Vec<Disk>,
    jobs: Jobs,
    access: Access,
    stripe_cache: Option<StripeCache>,
    /// Jobs whose stage is complete.
    over: Vec<u32>,
    notices: VecDeque<Notice>,
    coordination: Option<Coordination>,
    observer: Option<Box<dyn Observer>>,
}

impl Array {
    pub(crate) fn new(setup: ArraySetup) -> Self {
        let ArraySetup { geometry, failed, stripe_cache, options, members, coordinator, observer } = setup;
        let coordination = coordinator.map(|mut coordinator| {
            if let Some(failed) = failed {
                coordinator.lost(Time::ZERO, Member(failed));
            }
            Coordination::new(coordinator, members.len())
        });
        let disk = |(index, member): (usize, ArrayMember)| {
            let ArrayMember { scheduler, drive, observer } = member;
            let coordinated =
                coordination.as_ref().map(|coordination| coordination.observer(Member(index as u32)));
            let others: Box<dyn Observer> = Box::new((coordinated, observer));
            Disk { block: Block::new(options, scheduler, drive, Some(others)), changed: false }
        };
        let disks = members.into_iter().enumerate().map(disk).collect();
        Self {
            geometry,
            failed,
            disks,
            jobs: Jobs::default(),
            access: Access::default(),
            stripe_cache,
            over: Vec::new(),
            notices: VecDeque::new(),
            coordination,
            observer,
        }
    }

    /// Submits a job's next stage to the members. An access beyond the array's end fails.
    fn begin_stage(&mut self, now: Time, id: u32) {
        let Job { submission, stage, .. } = *self.jobs.job(id);
        let mut awaited = Vec::new();
        if stage == Stage::Flush {
            let present = (0..self.geometry.members()).filter(|&member| Some(member) != self.failed);
            self.access.then.clear();
            self.access.then.extend(present.map(|member| Part {
                member,
                op: Op::Flush,
                start: Sector(0),
                sectors: Sectors::ZERO,
            }));
        } else if submission.start + submission.sectors > self.geometry.capacity() {
            return self.finish(now, id, Outcome::Failed);
        } else {
            let Submission { op, start, sectors, .. } = submission;
            self.geometry.access(op, start, sectors, self.failed, &mut self.access);
            if op == Op::Read
                && let Some(cache) = &mut self.stripe_cache
            {
                cache.leave_missing(&mut self.access.then, &mut awaited);
            }
        }
        let before = stage == Stage::Before && !self.access.before.is_empty();
        if !before && stage == Stage::Before {
            self.jobs.job_mut(id).stage = Stage::Then;
        }
        let parts = std::mem::take(if before { &mut self.access.before } else { &mut self.access.then });
        self.jobs.job_mut(id).waits_for = (parts.len() + awaited.len()) as u32;
        awaited.into_iter().for_each(|part| self.jobs.awaits(id, part));
        if stage != Stage::Flush
            && let Some(coordination) = &mut self.coordination
            && self.jobs.announce(id)
        {
            coordination.coordinator.arrived(
                now,
                &ArrayRequest {
                    id: ArrayRequestId(id),
                    op: submission.op,
                    start: submission.start,
                    sectors: submission.sectors,
                    parts: parts.len() as u32,
                },
            );
        }
        for part in &parts {
            self.send(now, id, part);
        }
        if self.jobs.job(id).waits_for == 0 {
            self.stage_over(now, id);
        }
        *(if before { &mut self.access.before } else { &mut self.access.then }) = parts;
    }

    fn send(&mut self, now: Time, id: u32, part: &Part) {
        let Submission { flags, priority, process, op, causes, .. } = self.jobs.job(id).submission;
        let by_itself = op == Op::Write && self.geometry.parity(0).is_some();
        let token = Token(u64::from(self.jobs.part(id)));
        let submission = Submission {
            token,
            op: part.op,
            start: part.start,
            sectors: part.sectors,
            flags: Flags { preflush: false, fua: flags.fua && part.op == Op::Write, ..flags },
            priority,
            process: if by_itself { Some(ARRAY_THREAD) } else { process },
            causes,
        };
        match &mut self.stripe_cache {
            Some(cache) if op == Op::Read => cache.sends(token.0 as u32, part),
            Some(cache) if part.op != Op::Read => cache.forget(part),
            _ => {}
        }
        let disk = &mut self.disks[part.member as usize];
        disk.changed = true;
        if let Some(coordination) = &mut self.coordination {
            coordination.sends(token, ArrayRequestId(id));
        }
        let accepted = disk.block.submit(now, submission);
        if accepted == Accepted::Asleep && self.jobs.job(id).is_first {
            self.jobs.sleeps(token.0 as u32);
        }
    }

    /// The requests that a member needs for an access's data.
    fn data_on(&self, member: u32, io: &Io, parts: &mut Vec<Io>) {
        let mut access = Access::default();
        let Io { op, start, sectors, flags } = *io;
        // With a stripe cache the data needed for a lost unit may have been read before.
        let lost = self.failed.filter(|_| op != Op::Read || self.stripe_cache.is_none());
        self.geometry.access(op, start, sectors, lost, &mut access);
        let is_data = |part: &&Part| {
            op == Op::Read
                || self.geometry.logical(MemberSector { member: part.member, sector: part.start }).is_some()
        };
        let is_own = |part: &&Part| part.member == member && Some(member) != self.failed;
        let own = access.then.iter().filter(is_own).filter(is_data);
        parts.extend(own.map(|part| Io { op, start: part.start, sectors: part.sectors, flags }));
    }

    /// All parts of a job's stage are finished.
    fn stage_over(&mut self, now: Time, id: u32) {
        let job = self.jobs.job_mut(id);
        job.is_first = false;
        job.stage = match job.stage {
            Stage::Flush if job.submission.op != Op::Flush && job.outcome == Outcome::Done => Stage::Before,
            Stage::Before if job.outcome == Outcome::Done => Stage::Then,
            _ => {
                let outcome = job.outcome;
                return self.finish(now, id, outcome);
            }
        };
        self.begin_stage(now, id);
    }

    fn finish(&mut self, now: Time, id: u32, outcome: Outcome) {
        let announced = self.jobs.is_announced(id);
        let job = self.jobs.end(id);
        if announced && let Some(coordination) = &mut self.coordination {
            coordination.coordinator.completed(now, ArrayRequestId(id));
        }
        self.observer.event(now, &Event::Finished(job.submission.token, outcome));
        self.notices.push_back(Notice::Finished(Finished {
            token: job.submission.token,
            outcome,
            submitted: job.submitted,
            dispatched: job.dispatched.unwrap_or(now),
        }));
    }

    /// Handles notices of the members until there are none; returns whether the coordinator gave a directive.
    fn gather(&mut self, now: Time) -> bool {
        let mut directed = false;
        loop {
            let mut has_changed = false;
            if let Some(coordination) = &mut self.coordination {
                coordination.notify(now, &mut self.disks);
            }
            for index in 0..self.disks.len() {
                while let Some(notice) = self.disks[index].block.notice() {
                    has_changed = true;
                    self.apply(now, notice);
                }
            }
            if let Some(coordination) = &mut self.coordination
                && coordination.direct(now, &mut self.disks)
            {
                (has_changed, directed) = (true, true);
            }
            if !has_changed {
                return directed;
            }
        }
    }

    fn apply(&mut self, now: Time, notice: Notice) {
        match notice {
            Notice::Woken(Token(part)) => {
                if let Some(token) = self.jobs.woken(part as u32) {
                    self.notices.push_back(Notice::Woken(token));
                }
            }
            Notice::Finished(Finished { token, outcome, dispatched, .. }) => {
                if let Some(cache) = &mut self.stripe_cache {
                    cache.arrives(token.0 as u32, outcome == Outcome::Done);
                }
                let mut over = std::mem::take(&mut self.over);
                self.jobs.part_done(token.0 as u32, outcome, dispatched, &mut over);
                over.drain(..).for_each(|id| self.stage_over(now, id));
                self.over = over;
            }
        }
    }

    #[inline(never)]
    pub(crate) fn submit(&mut self, now: Time, submission: Submission) -> Accepted {
        let stage = if submission.op == Op::Flush || submission.flags.preflush {
            Stage::Flush
        } else {
            Stage::Before
        };
        let Submission { token, op, start, sectors, flags, priority, process, causes } = submission;
        self.observer
            .event(now, &Event::Submitted { token, op, start, sectors, flags, priority, process, causes });
        let id = self.jobs.begin(submission, now, stage);
        self.begin_stage(now, id);
        let asleep = self.jobs.is_asleep(id, submission.token);
        self.gather(now);
        if asleep { Accepted::Asleep } else { Accepted::Queued }
    }

    pub(crate) fn has_notice(&self) -> bool {
        !self.notices.is_empty()
    }

    pub(crate) fn notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    pub(crate) fn plug(&mut self) {
        for disk in &mut self.disks {
            disk.block.plug();
        }
    }

    #[inline(never)]
    pub(crate) fn unplug(&mut self, now: Time, waits: bool) {
        for disk in &mut self.disks {
            disk.changed = true;
            disk.block.unplug(now, waits);
        }
        self.gather(now);
    }

    #[inline(never)]
    pub(crate) fn next_event(&self) -> Option<Time> {
        let disks = self.disks.iter().filter_map(|disk| disk.block.next_event());
        disks
            .chain(self.coordination.as_ref().and_then(|coordination| coordination.coordinator.next_event()))
            .min()
    }

    #[inline(never)]
    pub(crate) fn collect(&mut self, now: Time) {
        for disk in &mut self.disks {
            if disk.block.next_event().is_some_and(|at| at <= now) {
                disk.changed = true;
                disk.block.collect(now);
            }
        }
        if let Some(coordination) = &mut self.coordination
            && coordination.coordinator.next_event().is_some_and(|at| at <= now)
        {
            coordination.coordinator.pass(now);
        }
        self.gather(now);
    }

    #[inline(never)]
    pub(crate) fn pump(&mut self, now: Time) {
        loop {
            for disk in &mut self.disks {
                if std::mem::take(&mut disk.changed) {
                    disk.block.pump(now);
                }
            }
            if !self.gather(now) && self.disks.iter().all(|disk| !disk.changed) {
                break;
            }
        }
    }

    pub(crate) fn exited(&mut self, now: Time, process: Process) {
        for disk in &mut self.disks {
            disk.changed = true;
            disk.block.exited(now, process);
        }
    }

    /// Sectors of a stripe unit.
    pub(crate) fn unit(&self) -> Sectors {
        self.geometry.unit()
    }

    pub(crate) fn requests(&self, direction: elevator::Direction) -> u32 {
        self.disks.iter().map(|disk| disk.block.requests(direction)).max().unwrap_or(0)
    }

    pub(crate) fn device_stats(&mut self) -> Vec<&DeviceStats> {
        self.disks.iter_mut().flat_map(|disk| disk.block.device_stats()).collect()
    }

    /// The members, for the limit of the busiest one.
    pub(crate) const fn as_devices(&self) -> Members<'_> {
        Members(self)
    }
}

/// The members of an array. Parity accesses and the controller are not counted, so no order of service beats the limit, but RAID 5 writes stay
/// above it.
pub(crate) struct Members<'a>(&'a Array);

impl Devices for Members<'_> {
    fn count(&self) -> usize {
        self.0.disks.len()
    }

    fn ideal(&self, device: usize) -> Option<&dyn Ideal> {
        self.0.disks[device].block.ideal()
    }

    fn accesses(&self, device: usize, io: &Io, to: &mut Vec<Io>) {
        self.0.data_on(device as u32, io, to);
    }
}
