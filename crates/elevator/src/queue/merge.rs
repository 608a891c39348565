//! Which queued request ends or begins where: the index that merging asks.

use hashbrown::HashMap;

use crate::request::{Op, Request, RequestId};
use crate::scheduler::Side;
use crate::sector::Sector;

/// Queued requests by the places at which another may join them. Of several at one place it knows the latest, as
/// Linux's merge hash in effect does.
#[derive(Default)]
pub(super) struct MergeIndex {
    by_end: HashMap<(Op, Sector), RequestId>,
    by_start: HashMap<(Op, Sector), RequestId>,
}

impl MergeIndex {
    pub(super) fn add(&mut self, request: &Request) {
        self.by_end.insert((request.op, request.end()), request.id);
        self.by_start.insert((request.op, request.start), request.id);
    }

    pub(super) fn remove(&mut self, request: &Request) {
        forget(&mut self.by_end, (request.op, request.end()), request.id);
        forget(&mut self.by_start, (request.op, request.start), request.id);
    }

    /// The queued request that `addition` would continue (back first, as Linux looks), and on which side.
    pub(super) fn neighbour(&self, addition: &Request, side: Side) -> Option<RequestId> {
        match side {
            Side::Back => self.by_end.get(&(addition.op, addition.start)).copied(),
            Side::Front => self.by_start.get(&(addition.op, addition.end())).copied(),
        }
    }

    /// The queued request that a grown one may now touch at the side where it grew.
    pub(super) fn beyond(&self, request: &Request, side: Side) -> Option<RequestId> {
        match side {
            Side::Back => self.by_start.get(&(request.op, request.end())).copied(),
            Side::Front => self.by_end.get(&(request.op, request.start)).copied(),
        }
    }
}

fn forget(index: &mut HashMap<(Op, Sector), RequestId>, key: (Op, Sector), id: RequestId) {
    if index.get(&key) == Some(&id) {
        index.remove(&key);
    }
}

/// Whether two requests are of a kind that Linux would merge: neither flushes nor forced unit access, the same priority
/// and the same causes. Where they lie is not asked.
pub(super) fn alike(a: &Request, b: &Request) -> bool {
    let ordered = |r: &Request| r.flags.fua || r.flags.preflush || r.op == Op::Flush;
    a.op == b.op && !ordered(a) && !ordered(b) && a.priority == b.priority && a.causes == b.causes
}
