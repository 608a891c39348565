//! The state machine of anticipation (`enum anticipation_status` in `as-iosched.c`).

use super::judgement::{Break, Requester};
use crate::parts::jiffies::Jiffies;

/// The state of anticipation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// `ANTIC_OFF`: not anticipating.
    Off,
    /// `ANTIC_WAIT_REQ`: the read after which to anticipate has not completed; the time limit does not run.
    WaitReq,
    /// `ANTIC_WAIT_NEXT`: it has completed; the time limit runs.
    WaitNext,
    /// `ANTIC_FINISHED`: the wait ended; the next request is dispatched.
    Finished,
}

/// The awaited process, and the time since its completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    status: Status,
    /// The process of the latest read; none after a write, or after a read of an unknown process.
    awaited: Option<Requester>,
    /// When the awaited process's request completed (`antic_start`); none while it is in the device (`ioc_finished`).
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

    /// Whether the device is held.
    pub(crate) const fn is_waiting(&self) -> bool {
        matches!(self.status, Status::WaitReq | Status::WaitNext)
    }

    /// The end of the time limit, which begins at the completion.
    pub(crate) fn until(&self, antic_expire: Jiffies) -> Option<Jiffies> {
        let since = self.since.filter(|_| self.status == Status::WaitNext)?;
        Some(since + antic_expire)
    }

    /// Begins or continues to wait.
    pub(crate) const fn begin(&mut self) {
        if matches!(self.status, Status::Off) {
            self.status = if self.since.is_some() { Status::WaitNext } else { Status::WaitReq };
        }
    }

    /// A request of the awaited process completed.
    pub(crate) const fn completed(&mut self, now: Jiffies) {
        self.since = Some(now);
        if matches!(self.status, Status::WaitReq) {
            self.status = Status::WaitNext;
        }
    }

    /// Ends the wait, or prevents it.
    pub(crate) const fn stop(&mut self, because: Break) {
        self.because = Some(because);
        if self.is_waiting() {
            self.status = Status::Finished;
        }
    }

    /// A request is dispatched; `awaited` may be waited for afterwards.
    pub(crate) const fn sent(&mut self, awaited: Option<Requester>) {
        *self = Self { awaited, ..Self::new() };
    }

    /// No process is awaited any more.
    pub(crate) const fn forget(&mut self) {
        self.stop(Break::TimeOver);
        self.awaited = None;
        self.since = None;
    }
}
