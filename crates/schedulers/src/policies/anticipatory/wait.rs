//! The state machine of anticipation (1.4).

use super::judgement::{Break, Requester};
use crate::parts::jiffies::Jiffies;

/// Where anticipation stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// `ANTIC_OFF`: not anticipating.
    Off,
    /// `ANTIC_WAIT_REQ`: the read after which to anticipate has not completed; no time runs.
    WaitReq,
    /// `ANTIC_WAIT_NEXT`: it has; the time runs.
    WaitNext,
    /// `ANTIC_FINISHED`: a candidate was found, or none; the next request goes.
    Finished,
}

/// Who is awaited, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    status: Status,
    /// Whose read went last; nobody after a write, or a read of whom nobody knows.
    awaited: Option<Requester>,
    /// When the awaited one's request completed (`antic_start`); none while it is in the device (`ioc_finished`).
    since: Option<Jiffies>,
    /// Why the wait ended or did not begin.
    because: Option<Break>,
}

impl Wait {
    pub(crate) const fn new() -> Self {
        Self { status: Status::Off, awaited: None, since: None, because: None }
    }

    pub(crate) const fn status(&self) -> Status {
        self.status
    }

    pub(crate) const fn awaited(&self) -> Option<Requester> {
        self.awaited
    }

    pub(crate) const fn since(&self) -> Option<Jiffies> {
        self.since
    }

    pub(crate) const fn because(&self) -> Option<Break> {
        self.because
    }

    /// Whether the device is held back.
    pub(crate) const fn is_waiting(&self) -> bool {
        matches!(self.status, Status::WaitReq | Status::WaitNext)
    }

    /// When the time is up: for how long it runs at most, from the completion.
    pub(crate) fn until(&self, antic_expire: Jiffies) -> Option<Jiffies> {
        let since = self.since.filter(|_| self.status == Status::WaitNext)?;
        Some(since + antic_expire)
    }

    /// Begins to wait, or goes on.
    pub(crate) const fn begin(&mut self) {
        if matches!(self.status, Status::Off) {
            self.status = if self.since.is_some() { Status::WaitNext } else { Status::WaitReq };
        }
    }

    /// A request of the awaited one completed.
    pub(crate) const fn completed(&mut self, now: Jiffies) {
        self.since = Some(now);
        if matches!(self.status, Status::WaitReq) {
            self.status = Status::WaitNext;
        }
    }

    /// The wait ends, or does not begin.
    pub(crate) const fn stop(&mut self, because: Break) {
        self.because = Some(because);
        if self.is_waiting() {
            self.status = Status::Finished;
        }
    }

    /// A request goes to the device, after which `awaited` may be waited for.
    pub(crate) const fn sent(&mut self, awaited: Option<Requester>) {
        *self = Self { awaited, ..Self::new() };
    }

    /// Nobody is to be awaited any more.
    pub(crate) const fn forget(&mut self) {
        self.stop(Break::TimeOver);
        self.awaited = None;
        self.since = None;
    }
}
