//! Whether to go on waiting: what every version answers in its own way.

use alloc::vec::Vec;

use elevator::{HoldReason, Item, Process, Request, Sector};

use super::lists::Kind;
use crate::parts::jiffies::Jiffies;
use crate::parts::processes::Slot;

/// A group of processes, as the cooperative scheduler knows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupId {
    /// Its place in the table.
    pub(crate) place: u32,
    /// Which of the groups that had that place.
    pub(crate) generation: u32,
}

/// Who issued a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Requester {
    /// The process.
    pub(crate) process: Slot,
    /// The group that the request belongs to, where there are groups.
    pub(crate) group: Option<GroupId>,
}

/// A queued request as a judgement sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    /// Who issued it, if that is known.
    pub(crate) requester: Option<Requester>,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its first sector.
    pub(crate) start: Sector,
    /// The sector behind its last.
    pub(crate) end: Sector,
}

impl Queued {
    /// A request of that requester.
    pub(crate) fn of(request: &Request, requester: Option<Requester>) -> Self {
        Self { requester, kind: Kind::of(request), start: request.start, end: request.end() }
    }
}

/// What is waited for, or would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    /// The time.
    pub(crate) now: Jiffies,
    /// Who is expected to ask next.
    pub(crate) awaited: Requester,
    /// Whether the wait has begun (states `WAIT_REQ`, `WAIT_NEXT`).
    pub(crate) waiting: bool,
    /// When the request after which to wait completed, if it has (`antic_start`, `ioc_finished`).
    pub(crate) since: Option<Jiffies>,
    /// Where the latest read ended.
    pub(crate) last_sector: Sector,
    /// How long to wait at most.
    pub(crate) antic_expire: Jiffies,
}

impl Situation {
    /// How long the wait has lasted.
    pub(crate) fn delay(&self) -> Jiffies {
        match self.since {
            Some(since) if self.waiting => self.now.saturating_sub(since),
            _ => 0,
        }
    }

    /// Whether there is no time left.
    pub(crate) fn is_over(&self) -> bool {
        self.since.is_some_and(|since| self.now.saturating_sub(since) >= self.antic_expire)
    }
}

/// Why not to wait, or to wait no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Break {
    /// The request comes from the awaited process.
    SameProcess,
    /// It comes from the awaited group.
    SameGroup,
    /// The time is up.
    TimeOver,
    /// The awaited process has ended.
    Exited,
    /// It has a request queued.
    HasQueued,
    /// The request is as close as one could hope for.
    Close,
    /// Nothing is known of the process, and newcomers think too long.
    NewcomersThink,
    /// Nothing is known of the process, and newcomers tend to end after one request.
    NewcomersExit,
    /// It, or its group, thinks too long.
    ThinksTooLong,
    /// The request is closer than the process's seeks usually are.
    ShorterSeek,
}

/// What a version remembers of who issues requests, and how it decides about waiting.
pub(crate) trait Judgement {
    /// A request was inserted. Who issued it is held on to until [`gone`](Self::gone).
    fn arrived(&mut self, now: Jiffies, request: &Request) -> Option<Requester>;

    /// It is not queued any more: dispatched, or absorbed by another.
    fn left_queue(&mut self, requester: Requester, kind: Kind);

    /// It completed.
    fn completed(&mut self, now: Jiffies, requester: Requester, kind: Kind);

    /// It has ended.
    fn gone(&mut self, requester: Requester);

    /// This one is awaited now, or nobody.
    fn awaits(&mut self, was: Option<Requester>, is: Option<Requester>);

    /// A process has ended.
    fn exited(&mut self, process: Process);

    /// Whether to stop waiting, now that `request` is the next one, or to not even begin.
    fn can_break(&mut self, situation: &Situation, request: Option<&Queued>) -> Option<Break>;

    /// The time was up.
    fn timed_out(&mut self, now: Jiffies, awaited: Requester);

    /// Whether the wait could end with a request of that process.
    fn is_awaited(&self, awaited: Requester, process: Process) -> bool;

    /// What a wait for it is called.
    fn hold_reason(&self, awaited: Requester) -> HoldReason;

    /// What there is to tell people who look; `awaited` is who is waited for now.
    fn inspect(&self, _now: Jiffies, _awaited: Option<Requester>) -> Vec<Item> {
        Vec::new()
    }
}
