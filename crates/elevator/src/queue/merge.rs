//! Which queued request ends or begins where: the index that merging asks.

use alloc::vec::Vec;
use core::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::request::{Op, Request, RequestId};
use crate::scheduler::Side;
use crate::sector::Sector;

/// Queued requests by the places at which another may join them. Of several at one place it knows the latest, as
/// Linux's merge hash in effect does.
#[derive(Default)]
pub(super) struct MergeIndex {
    by_end: Places,
    by_start: Places,
}

/// Places that are scanned: most queues hold no more than a few requests, and so many are scanned in the time of one hash.
const FEW: usize = 8;

/// One request for each operation and sector: a few in a list, the others in a table. A map would look twice to take off a
/// request that may not be its own.
#[derive(Default)]
struct Places {
    few: Vec<Place>,
    table: HashTable<Place>,
    hasher: DefaultHashBuilder,
}

struct Place {
    op: Op,
    sector: Sector,
    request: RequestId,
}

impl MergeIndex {
    pub(super) fn add(&mut self, request: &Request) {
        self.by_end.set(request.op, request.end(), request.id);
        self.by_start.set(request.op, request.start, request.id);
    }

    pub(super) fn remove(&mut self, request: &Request) {
        self.by_end.forget(request.op, request.end(), request.id);
        self.by_start.forget(request.op, request.start, request.id);
    }

    /// The queued request that sectors from `start` to before `end` would continue, on that side of it.
    pub(super) fn neighbour(&self, op: Op, start: Sector, end: Sector, side: Side) -> Option<RequestId> {
        match side {
            Side::Back => self.by_end.get(op, start),
            Side::Front => self.by_start.get(op, end),
        }
    }

    /// The queued request that a grown one may now touch at the side where it grew.
    pub(super) fn beyond(&self, request: &Request, side: Side) -> Option<RequestId> {
        match side {
            Side::Back => self.by_start.get(request.op, request.end()),
            Side::Front => self.by_end.get(request.op, request.start),
        }
    }
}

impl Place {
    fn is(&self, op: Op, sector: Sector) -> bool {
        self.sector == sector && self.op == op
    }
}

impl Places {
    fn hash(hasher: &DefaultHashBuilder, op: Op, sector: Sector) -> u64 {
        hasher.hash_one(sector.0.rotate_left(2) ^ op as u64)
    }

    fn get(&self, op: Op, sector: Sector) -> Option<RequestId> {
        let few = self.few.iter().find(|place| place.is(op, sector));
        few.or_else(|| self.get_hashed(op, sector)).map(|place| place.request)
    }

    fn get_hashed(&self, op: Op, sector: Sector) -> Option<&Place> {
        if self.table.is_empty() {
            return None;
        }
        self.table.find(Self::hash(&self.hasher, op, sector), |place| place.is(op, sector))
    }

    fn set(&mut self, op: Op, sector: Sector, request: RequestId) {
        if let Some(place) = self.few.iter_mut().find(|place| place.is(op, sector)) {
            place.request = request;
        } else if self.few.len() < FEW && self.table.is_empty() {
            self.few.push(Place { op, sector, request });
        } else {
            self.set_hashed(op, sector, request);
        }
    }

    fn set_hashed(&mut self, op: Op, sector: Sector, request: RequestId) {
        let Self { table, hasher, .. } = self;
        let rehash = |place: &Place| Self::hash(hasher, place.op, place.sector);
        match table.entry(Self::hash(hasher, op, sector), |place| place.is(op, sector), rehash) {
            Entry::Occupied(mut place) => place.get_mut().request = request,
            Entry::Vacant(vacant) => {
                vacant.insert(Place { op, sector, request });
            }
        }
    }

    fn forget(&mut self, op: Op, sector: Sector, request: RequestId) {
        let own = |place: &Place| place.is(op, sector) && place.request == request;
        if let Some(at) = self.few.iter().position(own) {
            self.few.swap_remove(at);
        } else if !self.table.is_empty() {
            self.forget_hashed(Self::hash(&self.hasher, op, sector), own);
        }
    }

    fn forget_hashed(&mut self, hash: u64, own: impl FnMut(&Place) -> bool) {
        if let Ok(place) = self.table.find_entry(hash, own) {
            place.remove();
        }
    }
}

/// Whether two requests are of a kind that Linux would merge: neither flushes nor forced unit access, the same priority
/// and the same causes. Where they lie is not asked.
pub(super) fn alike(a: &Request, b: &Request) -> bool {
    let ordered = |r: &Request| r.flags.fua || r.flags.preflush || r.op == Op::Flush;
    a.op == b.op && !ordered(a) && !ordered(b) && a.priority == b.priority && a.causes == b.causes
}
