//! A disk array below the engine: one address space, and for each member a queue, a scheduler and a drive, as in md.
//!
//! A request is split into parts, one for each stripe unit, and is complete when the last of them is. Writes of RAID 5 go
//! in two stages: first what has to be read, then what is written; like md, a thread of the array's own does both. A
//! [`Coordinator`] may listen and direct the members' schedulers.

mod direction;
mod jobs;

use std::collections::VecDeque;

use disks::Drive;
use disks::array::{Access, Geometry, MemberSector, Part, StripeCache};
use elevator::array::{ArrayRequest, ArrayRequestId, Coordinator, Member};
use elevator::queue::{Accepted, Finished, Notice, Observer, Options, Submission, Token};
use elevator::{Flags, Op, Outcome, Process, Scheduler, Sector, Sectors, Time};

use crate::block::Block;
use crate::limit::{Limit, Witness};
use crate::measure::Meter;
use crate::program::Io;

use self::direction::Direction;
use self::jobs::{Job, Jobs, Stage};

/// Who issues what RAID 5 reads and writes for a write: the array's own thread, md's `raid5d`.
const ARRAY_THREAD: Process = Process::single(u32::MAX);

/// One member of an array.
pub struct ArrayMember {
    /// The scheduler in its queue.
    pub scheduler: Box<dyn Scheduler>,
    /// The disk.
    pub drive: Box<dyn Drive>,
    /// Whoever else listens to its queue.
    pub observer: Option<Box<dyn Observer>>,
}

/// What an array is made of.
pub struct ArraySetup {
    /// How data is laid out.
    pub geometry: Geometry,
    /// The member that is gone; its drive is never asked.
    pub failed: Option<u32>,
    /// What reads go through, if anything.
    pub stripe_cache: Option<StripeCache>,
    /// The members' queues, all alike. The depth is cut to each drive's.
    pub options: Options,
    /// The members, in order.
    pub members: Vec<ArrayMember>,
    /// Who directs the members' schedulers, if anybody does.
    pub coordinator: Option<Box<dyn Coordinator>>,
}

/// A member's queue and drive, and whether it must be asked what to do next.
struct Disk {
    block: Block,
    /// Something has happened there since it was asked.
    stirred: bool,
}

/// Several disks behind one address space.
pub(crate) struct Array {
    geometry: Geometry,
    failed: Option<u32>,
    disks: Vec<Disk>,
    jobs: Jobs,
    access: Access,
    stripe_cache: Option<StripeCache>,
    /// Jobs whose stage is over now.
    over: Vec<u32>,
    notices: VecDeque<Notice>,
    direction: Option<Direction>,
}

impl Array {
    pub(crate) fn new(setup: ArraySetup) -> Self {
        let ArraySetup { geometry, failed, stripe_cache, options, members, coordinator } = setup;
        let direction = coordinator.map(|mut coordinator| {
            if let Some(failed) = failed {
                coordinator.lost(Time::ZERO, Member(failed));
            }
            Direction::new(coordinator, members.len())
        });
        let disk = |(index, member): (usize, ArrayMember)| {
            let ArrayMember { scheduler, drive, observer } = member;
            let ear = direction.as_ref().map(|direction| direction.ear(Member(index as u32)));
            let others: Box<dyn Observer> = Box::new((ear, observer));
            Disk { block: Block::new(options, scheduler, drive, Some(others)), stirred: false }
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
            direction,
        }
    }

    /// Sends a job's next stage to the members. What is beyond the array's end fails.
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
            && let Some(direction) = &mut self.direction
            && self.jobs.announce(id)
        {
            direction.coordinator.arrived(
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
        disk.stirred = true;
        if let Some(direction) = &mut self.direction {
            direction.sends(token, ArrayRequestId(id));
        }
        let accepted = disk.block.submit(now, submission);
        if accepted == Accepted::Asleep && self.jobs.job(id).is_first {
            self.jobs.sleeps(token.0 as u32);
        }
    }

    /// What a member has to read or write of an access's data.
    fn data_on(&self, member: u32, io: &Io, parts: &mut Vec<Io>) {
        let mut access = Access::default();
        let Io { op, start, sectors, flags } = *io;
        // With a cache of stripes what a lost unit needs may have been read for itself.
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

    /// Every part of a job's stage is done.
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
        if announced && let Some(direction) = &mut self.direction {
            direction.coordinator.completed(now, ArrayRequestId(id));
        }
        self.notices.push_back(Notice::Finished(Finished {
            token: job.submission.token,
            outcome,
            submitted: job.submitted,
            dispatched: job.dispatched.unwrap_or(now),
        }));
    }

    /// Hears what the members have to say until they have nothing more; whether a member was directed.
    fn gather(&mut self, now: Time) -> bool {
        let mut directed = false;
        loop {
            let mut heard = false;
            if let Some(direction) = &mut self.direction {
                direction.hear(now, &mut self.disks);
            }
            for index in 0..self.disks.len() {
                while let Some(notice) = self.disks[index].block.notice() {
                    heard = true;
                    self.heed(now, notice);
                }
            }
            if let Some(direction) = &mut self.direction
                && direction.direct(now, &mut self.disks)
            {
                (heard, directed) = (true, true);
            }
            if !heard {
                return directed;
            }
        }
    }

    fn heed(&mut self, now: Time, notice: Notice) {
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
            disk.stirred = true;
            disk.block.unplug(now, waits);
        }
        self.gather(now);
    }

    #[inline(never)]
    pub(crate) fn next_event(&self) -> Option<Time> {
        let disks = self.disks.iter().filter_map(|disk| disk.block.next_event());
        disks.chain(self.direction.as_ref().and_then(|direction| direction.coordinator.next_event())).min()
    }

    #[inline(never)]
    pub(crate) fn collect(&mut self, now: Time) {
        for disk in &mut self.disks {
            if disk.block.next_event().is_some_and(|at| at <= now) {
                disk.stirred = true;
                disk.block.collect(now);
            }
        }
        if let Some(direction) = &mut self.direction
            && direction.coordinator.next_event().is_some_and(|at| at <= now)
        {
            direction.coordinator.pass(now);
        }
        self.gather(now);
    }

    #[inline(never)]
    pub(crate) fn pump(&mut self, now: Time) {
        loop {
            for disk in &mut self.disks {
                if std::mem::take(&mut disk.stirred) {
                    disk.block.pump(now);
                }
            }
            if !self.gather(now) && self.disks.iter().all(|disk| !disk.stirred) {
                break;
            }
        }
    }

    pub(crate) fn exited(&mut self, now: Time, process: Process) {
        for disk in &mut self.disks {
            disk.stirred = true;
            disk.block.exited(now, process);
        }
    }

    /// The sectors of a stripe unit.
    pub(crate) fn unit(&self) -> Sectors {
        self.geometry.unit()
    }

    pub(crate) fn requests(&self, direction: elevator::Direction) -> u32 {
        self.disks.iter().map(|disk| disk.block.requests(direction)).max().unwrap_or(0)
    }

    pub(crate) fn meters(&mut self) -> Vec<&Meter> {
        self.disks.iter_mut().flat_map(|disk| disk.block.meters()).collect()
    }

    /// The limit of the member that has most to do. Parity and what it takes to keep it are not counted, nor is the card: a
    /// time that no order of serving the members can beat, though writes of RAID 5 stay farther from it than need be.
    pub(crate) fn limit(&self, witness: Witness) -> Option<Limit> {
        let of_member = |(index, disk): (usize, &Disk)| {
            let witness = witness.mapped(&mut |io, parts| self.data_on(index as u32, io, parts));
            disk.block.limit(witness)
        };
        let limits = self.disks.iter().enumerate().map(of_member).collect::<Option<Vec<_>>>()?;
        limits.into_iter().reduce(Limit::beside)
    }
}
