//! Writes for which an fsync with a deadline waits, certainly or possibly.

use elevator::{Request, RequestId, Time};

use crate::parts::per_request::PerRequest;
use crate::parts::sorted::{Key, SortedIndex};

/// The certainty of the wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Claim {
    /// Caused by an account with a deadline, or by the file system itself, for whose log every fsync waits.
    Sure,
    /// Data for which a transaction may wait, depending on the file system.
    Perhaps,
}

/// The urgency of a write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Urgency {
    pub(super) claim: Claim,
    pub(super) due: Time,
}

impl Urgency {
    fn key(self, request: &Request) -> Key {
        Key::by(self.due.as_nanos(), request.serial)
    }
}

/// Queued urgent writes, the earliest deadline first, then the oldest.
#[derive(Default)]
pub(super) struct Urgent {
    sure: SortedIndex,
    perhaps: SortedIndex,
    /// By request: its urgency, if it is in either list.
    due: PerRequest<Option<Urgency>>,
}

impl Urgent {
    /// A request's urgency, if it is urgent.
    pub(super) fn due(&self, request: &Request) -> Option<Urgency> {
        self.due.get(request.id).copied().flatten()
    }

    /// Adds a queued request if it is urgent.
    pub(super) fn insert(&mut self, request: &Request, due: Option<Urgency>) {
        self.due.set(request.id, due);
        if let Some(due) = due {
            self.order(due.claim).insert_key(due.key(request), request.id);
        }
    }

    /// Removes a request; returns its claim if it was urgent.
    pub(super) fn remove(&mut self, request: &Request) -> Option<Claim> {
        let due = self.due(request)?;
        self.due.set(request.id, None);
        self.order(due.claim).remove_key(due.key(request));
        Some(due.claim)
    }

    /// The next request: a certain one, or with `lets_pass` an uncertain one first.
    pub(super) fn first(&self, lets_pass: bool) -> Option<RequestId> {
        let (sure, perhaps) = (self.sure.first(), self.perhaps.first());
        if lets_pass { perhaps.or(sure) } else { sure.or(perhaps) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sure.first().or(self.perhaps.first()).is_none()
    }

    const fn order(&mut self, claim: Claim) -> &mut SortedIndex {
        match claim {
            Claim::Sure => &mut self.sure,
            Claim::Perhaps => &mut self.perhaps,
        }
    }
}
