//! The interface of a version's decision whether to continue waiting.

use alloc::vec::Vec;

use elevator::{HoldReason, Item, Process, Request, Sector};

use super::lists::Kind;
use crate::parts::jiffies::Jiffies;
use crate::parts::processes::Slot;

/// A group of processes of the cooperative scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupId {
    /// Its index in the table.
    pub(crate) place: u32,
    /// The number of earlier groups at this index.
    pub(crate) generation: u32,
}

/// The issuer of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Requester {
    /// The process.
    pub(crate) process: Slot,
    /// The group of the request, in a version with groups.
    pub(crate) group: Option<GroupId>,
}

/// A queued request as a judgement sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    /// The issuer, if known.
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

/// The state of a wait, or of a possible one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    /// The time.
    pub(crate) now: Jiffies,
    /// The process that is expected to issue the next request.
    pub(crate) awaited: Requester,
    /// Whether the wait has begun (states `WAIT_REQ`, `WAIT_NEXT`).
    pub(crate) waiting: bool,
    /// When the awaited process's request completed, if it has (`antic_start`, `ioc_finished`).
    pub(crate) since: Option<Jiffies>,
    /// The end of the latest read.
    pub(crate) last_sector: Sector,
    /// The longest wait.
    pub(crate) antic_expire: Jiffies,
}

impl Situation {
    /// The duration of the wait so far.
    pub(crate) fn delay(&self) -> Jiffies {
        match self.since {
            Some(since) if self.waiting => self.now.saturating_sub(since),
            _ => 0,
        }
    }

    /// Whether the time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.since.is_some_and(|since| self.now.saturating_sub(since) >= self.antic_expire)
    }
}

/// A reason against waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Break {
    /// The request comes from the awaited process.
    SameProcess,
    /// It comes from the awaited group.
    SameGroup,
    /// The time is over.
    TimeOver,
    /// The awaited process has ended.
    Exited,
    /// It has a request queued.
    HasQueued,
    /// The request is close.
    Close,
    /// The process has no history, and new processes think too long.
    NewcomersThink,
    /// The process has no history, and new processes tend to end after one request.
    NewcomersExit,
    /// The process, or its group, thinks too long.
    ThinksTooLong,
    /// The request is nearer than the process's mean seek distance.
    ShorterSeek,
}

/// The histories of a version, and its decision about waiting.
pub(crate) trait Judgement {
    /// A request was inserted. Its issuer is referenced until [`gone`](Self::gone).
    fn arrived(&mut self, now: Jiffies, request: &Request) -> Option<Requester>;

    /// The request left the queue: dispatched, or absorbed.
    fn left_queue(&mut self, requester: Requester, kind: Kind);

    /// The request completed.
    fn completed(&mut self, now: Jiffies, requester: Requester, kind: Kind);

    /// The request ended.
    fn gone(&mut self, requester: Requester);

    /// The awaited process changes.
    fn awaits(&mut self, was: Option<Requester>, is: Option<Requester>);

    /// A process has ended.
    fn exited(&mut self, process: Process);

    /// The reason to stop waiting, or not to begin, when `request` is the next one.
    fn can_break(&mut self, situation: &Situation, request: Option<&Queued>) -> Option<Break>;

    /// The time is over.
    fn timed_out(&mut self, now: Jiffies, awaited: Requester);

    /// Whether a request of that process could end the wait.
    fn is_awaited(&self, awaited: Requester, process: Process) -> bool;

    /// The reason to state for the wait.
    fn hold_reason(&self, awaited: Requester) -> HoldReason;

    /// The state for display; `awaited` is the process waited for at present.
    fn inspect(&self, _now: Jiffies, _awaited: Option<Requester>) -> Vec<Item> {
        Vec::new()
    }
}
