//! Writes that somebody with a deadline may wait for, the earliest deadline first.

use elevator::{Request, RequestId, Time};

use crate::per_request::PerRequest;
use crate::sorted::{Key, SortedIndex};

/// Queued urgent writes.
#[derive(Default)]
pub(super) struct Urgent {
    /// By deadline, then by age.
    order: SortedIndex,
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
            self.order.insert_key(Key::by(due.as_nanos(), request.serial), request.id);
        }
    }

    /// A request is queued no more; whether it was here.
    pub(super) fn remove(&mut self, request: &Request) -> bool {
        let Some(due) = self.due(request) else { return false };
        self.due.set(request.id, None);
        self.order.remove_key(Key::by(due.as_nanos(), request.serial))
    }

    /// The most urgent one.
    pub(super) fn first(&self) -> Option<RequestId> {
        self.order.first()
    }
}
