//! Writes that somebody with a deadline may wait for, the earliest deadline first.

use alloc::collections::BTreeSet;

use elevator::{Request, RequestId, Time};

use crate::per_request::PerRequest;

/// Queued urgent writes.
#[derive(Default)]
pub(super) struct Urgent {
    /// (Deadline, serial, id).
    order: BTreeSet<(Time, u64, RequestId)>,
    /// By request: its deadline, if it is in `order`.
    due: PerRequest<Option<Time>>,
}

impl Urgent {
    /// A request's deadline, if it is here.
    pub(super) fn due(&self, request: &Request) -> Option<Time> {
        self.due.get(request.id).copied().flatten()
    }

    /// A request is queued: here if it has a deadline.
    pub(super) fn insert(&mut self, request: &Request, due: Option<Time>) {
        self.due.set(request.id, due);
        if let Some(due) = due {
            self.order.insert((due, request.serial, request.id));
        }
    }

    /// A request is queued no more; whether it was here.
    pub(super) fn remove(&mut self, request: &Request) -> bool {
        let Some(due) = self.due(request) else { return false };
        self.due.set(request.id, None);
        self.order.remove(&(due, request.serial, request.id))
    }

    /// The most urgent one.
    pub(super) fn first(&self) -> Option<RequestId> {
        self.order.first().map(|&(.., id)| id)
    }
}
