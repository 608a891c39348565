//! The two sorted orders and the two lists in which requests wait.

use elevator::{Request, RequestId, Sector};

use crate::parts::fifo::{Fifo, Links};
use crate::parts::jiffies::Jiffies;
use crate::parts::nearest::Reach;
use crate::parts::sorted::{Key, SortedIndex};

/// How far back the head goes for a request (`MAXBACK` in `as-iosched.c`): 512 MiB, and each sector backward counts twice.
const REACH: Reach = Reach { back_max: 1024 * 1024, back_penalty: 2 };

/// The kind of a request: whether a process waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Writes for which no process waits.
    Async = 0,
    /// Reads, and writes marked as synchronous.
    Sync = 1,
}

impl Kind {
    /// A request's.
    pub(crate) const fn of(request: &Request) -> Self {
        if request.is_sync() { Self::Sync } else { Self::Async }
    }
}

/// The requests of one kind.
#[derive(Default)]
struct List {
    sorted: SortedIndex,
    fifo: Fifo,
    /// The end of the latest dispatched one.
    last_sector: Sector,
    /// When the oldest was last checked for expiry.
    last_check_fifo: Jiffies,
}

/// Both kinds' requests.
#[derive(Default)]
pub(crate) struct Lists {
    lists: [List; 2],
    links: Links,
}

impl Lists {
    /// A request was inserted.
    pub(crate) fn add(&mut self, kind: Kind, request: &Request) {
        let list = &mut self.lists[kind as usize];
        list.sorted.insert(request);
        self.links.push_back(&mut list.fifo, request.id);
    }

    /// A request left the queue.
    pub(crate) fn remove(&mut self, kind: Kind, request: &Request) {
        let list = &mut self.lists[kind as usize];
        list.sorted.remove(request);
        self.links.remove(&mut list.fifo, request.id);
    }

    /// A request has a new first sector.
    pub(crate) fn moved(&mut self, kind: Kind, was_start: Sector, request: &Request) {
        let list = &mut self.lists[kind as usize];
        list.sorted.remove_key(Key::at(was_start, request.serial));
        list.sorted.insert(request);
    }

    /// A request takes the place in the list of an older one of its kind, which ends.
    pub(crate) fn take_place(&mut self, kind: Kind, request: &Request, ended: &Request) {
        let list = &mut self.lists[kind as usize];
        list.sorted.remove(ended);
        self.links.remove(&mut list.fifo, request.id);
        self.links.replace(&mut list.fifo, ended.id, request.id);
    }

    /// Whether requests of that kind are queued.
    pub(crate) const fn any(&self, kind: Kind) -> bool {
        !self.lists[kind as usize].fifo.is_empty()
    }

    /// The oldest of that kind.
    pub(crate) fn oldest(&self, kind: Kind) -> Option<RequestId> {
        self.lists[kind as usize].fifo.front()
    }

    /// The next of that kind in elevator order.
    pub(crate) fn next(&self, kind: Kind) -> Option<RequestId> {
        let list = &self.lists[kind as usize];
        REACH.nearest(&list.sorted, list.last_sector)
    }

    /// The end of the latest dispatched one of that kind.
    pub(crate) const fn last_sector(&self, kind: Kind) -> Sector {
        self.lists[kind as usize].last_sector
    }

    /// Stores the end of a dispatched request.
    pub(crate) fn sent(&mut self, kind: Kind, end: Sector) {
        self.lists[kind as usize].last_sector = end;
    }

    /// Notes that the oldest is being dispatched anyway.
    pub(crate) fn checked(&mut self, kind: Kind, now: Jiffies) {
        self.lists[kind as usize].last_check_fifo = now;
    }

    /// Whether to check the oldest again: once per `expire`, because dispatching every expired request at once would cause a
    /// seek storm (`as_fifo_expired`).
    pub(crate) fn due_for_check(&mut self, kind: Kind, now: Jiffies, expire: Jiffies) -> bool {
        let list = &mut self.lists[kind as usize];
        let due = now.saturating_sub(list.last_check_fifo) >= expire;
        if due {
            list.last_check_fifo = now;
        }
        due
    }
}
