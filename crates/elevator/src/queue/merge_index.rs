//! The index of queued requests by start and by end, for merging.

use alloc::vec::Vec;
use core::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::request::{Op, Request, RequestId};
use crate::scheduler::Side;
use crate::sector::Sector;

/// Queued requests by the sectors at which another request may be merged. Of several requests at one sector it has the latest. Linux's hash
/// of ends (`elv_rqhash`) has the same effect.
///
/// Most queues have few requests. Scanning a few takes the time of one hash computation; longer queues use tables.
#[derive(Default)]
pub(super) struct MergeIndex {
    few: Vec<Known>,
    by_end: Places,
    by_start: Places,
}

/// Requests that are scanned.
const FEW: usize = 8;

/// A scanned request. Its start and its end are `None` once a later request has the same one.
struct Known {
    request: RequestId,
    op: Op,
    start: Option<Sector>,
    end: Option<Sector>,
}

impl MergeIndex {
    #[inline]
    pub(super) fn add(&mut self, request: &Request) {
        let (op, start, end) = (request.op, Some(request.start), Some(request.end()));
        for known in self.few.iter_mut().filter(|known| known.op == op) {
            if known.start == start {
                known.start = None;
            }
            if known.end == end {
                known.end = None;
            }
        }
        if self.few.len() < FEW && self.by_end.is_empty() && self.by_start.is_empty() {
            self.few.push(Known { request: request.id, op, start, end });
        } else {
            self.by_end.set(op, request.end(), request.id);
            self.by_start.set(op, request.start, request.id);
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, request: &Request) {
        if let Some(at) = self.few.iter().position(|known| known.request == request.id) {
            self.few.swap_remove(at);
        } else {
            self.by_end.forget(request.op, request.end(), request.id);
            self.by_start.forget(request.op, request.start, request.id);
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.by_end.is_empty() && self.by_start.is_empty()
    }

    /// The queued request to whose given side a range of sectors (`end` exclusive) is adjacent.
    #[inline]
    pub(super) fn neighbour(&self, op: Op, start: Sector, end: Sector, side: Side) -> Option<RequestId> {
        match side {
            Side::Back => self.ending_at(op, start),
            Side::Front => self.beginning_at(op, end),
        }
    }

    /// The queued request that is now adjacent to a grown one at the side where it grew.
    pub(super) fn beyond(&self, request: &Request, side: Side) -> Option<RequestId> {
        match side {
            Side::Back => self.beginning_at(request.op, request.end()),
            Side::Front => self.ending_at(request.op, request.start),
        }
    }

    #[inline]
    fn ending_at(&self, op: Op, sector: Sector) -> Option<RequestId> {
        let known = self.few.iter().find(|known| known.op == op && known.end == Some(sector));
        known.map_or_else(|| self.by_end.get(op, sector), |known| Some(known.request))
    }

    #[inline]
    fn beginning_at(&self, op: Op, sector: Sector) -> Option<RequestId> {
        let known = self.few.iter().find(|known| known.op == op && known.start == Some(sector));
        known.map_or_else(|| self.by_start.get(op, sector), |known| Some(known.request))
    }
}

/// One request for each operation and sector. To remove an entry only if it belongs to a given request, a map would
/// need two lookups.
#[derive(Default)]
struct Places {
    table: HashTable<Place>,
    hasher: DefaultHashBuilder,
}

struct Place {
    op: Op,
    sector: Sector,
    request: RequestId,
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

    fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    #[inline]
    fn get(&self, op: Op, sector: Sector) -> Option<RequestId> {
        if self.is_empty() { None } else { self.find(op, sector) }
    }

    #[inline(never)]
    fn find(&self, op: Op, sector: Sector) -> Option<RequestId> {
        let hash = Self::hash(&self.hasher, op, sector);
        self.table.find(hash, |place| place.is(op, sector)).map(|place| place.request)
    }

    #[inline(never)]
    fn set(&mut self, op: Op, sector: Sector, request: RequestId) {
        let Self { table, hasher } = self;
        let rehash = |place: &Place| Self::hash(hasher, place.op, place.sector);
        match table.entry(Self::hash(hasher, op, sector), |place| place.is(op, sector), rehash) {
            Entry::Occupied(mut place) => place.get_mut().request = request,
            Entry::Vacant(vacant) => {
                vacant.insert(Place { op, sector, request });
            }
        }
    }

    #[inline(never)]
    fn forget(&mut self, op: Op, sector: Sector, request: RequestId) {
        let own = |place: &Place| place.is(op, sector) && place.request == request;
        if let Ok(place) = self.table.find_entry(Self::hash(&self.hasher, op, sector), own) {
            place.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use super::*;
    use crate::queue::{Submission, Token};
    use crate::sector::Sectors;
    use crate::time::Time;

    /// The latest request at each sector, by operation: the expected content of the index.
    #[derive(Default)]
    struct Latest {
        by_end: BTreeMap<(u8, Sector), RequestId>,
        by_start: BTreeMap<(u8, Sector), RequestId>,
    }

    impl Latest {
        fn add(&mut self, request: &Request) {
            self.by_end.insert((request.op as u8, request.end()), request.id);
            self.by_start.insert((request.op as u8, request.start), request.id);
        }

        fn remove(&mut self, request: &Request) {
            self.by_end.retain(|_, &mut id| id != request.id);
            self.by_start.retain(|_, &mut id| id != request.id);
        }
    }

    #[test]
    fn of_several_requests_at_one_sector_the_latest_is_found() {
        let mut state = 1u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let (mut index, mut oracle) = (MergeIndex::default(), Latest::default());
        let mut queued: Vec<Request> = Vec::new();
        for step in 0..100_000u32 {
            let most = if step / 1_000 % 2 == 0 { 6 } else { 40 };
            if queued.len() as u64 > below(most) {
                let request = queued.swap_remove(below(queued.len() as u64) as usize);
                index.remove(&request);
                oracle.remove(&request);
            } else {
                let op = if below(2) == 0 { Op::Read } else { Op::Write };
                let (start, sectors) = (Sector(below(20)), Sectors(1 + below(3) as u32));
                let submission = Submission::new(Token(0), op, start, sectors);
                let request = Request { id: RequestId(step), ..submission.as_request(Time::ZERO) };
                index.add(&request);
                oracle.add(&request);
                queued.push(request);
            }
            let (op, start) = (if below(2) == 0 { Op::Read } else { Op::Write }, Sector(below(20)));
            let end = start + Sectors(2);
            let known = [Side::Back, Side::Front].map(|side| index.neighbour(op, start, end, side));
            let expected = [oracle.by_end.get(&(op as u8, start)), oracle.by_start.get(&(op as u8, end))];
            assert_eq!(known, expected.map(Option::<&RequestId>::copied), "step {step}");
        }
    }
}
