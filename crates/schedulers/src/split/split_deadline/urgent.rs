//! Writes that somebody with a deadline may wait for: what is known of the wait first, then the earliest deadline.

use elevator::{Request, RequestId, Time};

use crate::per_request::PerRequest;
use crate::sorted::{Key, SortedIndex};

/// Why a write is urgent, the best reason first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Claim {
    /// Somebody with a deadline caused it, and somebody waits for it.
    Own,
    /// Somebody waits for it; it may be data that the transaction of one with a deadline waits for.
    Waited,
    /// Nobody said that he waits for it; it is data, which the transaction may wait for.
    Perhaps,
}

/// How urgent a write is. A transaction that waits for data writes nothing of its own meanwhile, so a lesser claim has its
/// turn when it is really waited for; by deadline alone a hundred aged pages, promoted by one fsync, stand in front of the
/// next one's log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Urgency {
    pub(super) claim: Claim,
    pub(super) due: Time,
}

impl Urgency {
    /// Orders by claim, then by time (up to 146 years), then by age.
    fn key(self, request: &Request) -> Key {
        Key::by(((self.claim as u64) << 62) | self.due.as_nanos().min((1 << 62) - 1), request.serial)
    }
}

/// Queued urgent writes.
#[derive(Default)]
pub(super) struct Urgent {
    /// By urgency, then by age.
    order: SortedIndex,
    /// By request: its urgency, if it is in `order`.
    due: PerRequest<Option<Urgency>>,
}

impl Urgent {
    /// A request's urgency, if it is here.
    pub(super) fn due(&self, request: &Request) -> Option<Urgency> {
        self.due.get(request.id).copied().flatten()
    }

    /// A request is queued: here if it is urgent.
    pub(super) fn insert(&mut self, request: &Request, due: Option<Urgency>) {
        self.due.set(request.id, due);
        if let Some(due) = due {
            self.order.insert_key(due.key(request), request.id);
        }
    }

    /// A request is queued no more; whether it was here.
    pub(super) fn remove(&mut self, request: &Request) -> bool {
        let Some(due) = self.due(request) else { return false };
        self.due.set(request.id, None);
        self.order.remove_key(due.key(request))
    }

    /// The most urgent one.
    pub(super) fn first(&self) -> Option<RequestId> {
        self.order.first()
    }
}
