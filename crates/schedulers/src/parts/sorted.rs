//! Requests in sector order.
//!
//! A two-level array: chunks of at most `CHUNK` entries, and an array of each chunk's lowest key for the search. At the sizes of an
//! I/O queue this is faster than a tree with a node per request. An entry does not move within its chunk; one word stores the order of
//! the entries. The position of a request among others is unpredictable for the processor's branch prediction. A search therefore compares
//! all keys of a chunk without branches, and an insertion or removal shifts four-bit fields in the word.
//!
//! Two neighbouring chunks together always have more than `MERGE` entries, so that the number of entries bounds the number of
//! chunks. Memory for that many chunks is allocated when the number of entries reaches a new power of two, and
//! never otherwise.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use elevator::{Request, RequestId, Sector};

/// Entries of a chunk: as many as fit into the word of their order.
const CHUNK: usize = 16;

/// Bits of a slot's number.
const SLOT_BITS: usize = CHUNK.ilog2() as usize;

/// Up to this number, the entries of a chunk are compared one by one.
const FEW: usize = 4;

/// Up to this number, chunks are counted instead of searched.
const COUNTED: usize = 16;

/// Two neighbours with at most this many entries together are merged. Well below [`CHUNK`], so that a queue whose length
/// oscillates does not split and merge in turns.
const MERGE: usize = CHUNK / 2;

/// Chunks added to the reserve with an entry: more than an entry can need.
const STEP: usize = 4;

/// The position of a request in the order: by first sector, and among equals by age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key(u128);

impl Key {
    /// Above all others.
    const NONE: Self = Self(u128::MAX);

    /// The key of a request.
    #[must_use]
    pub fn of(request: &Request) -> Self {
        Self::at(request.start, request.serial)
    }

    /// The key of the request with that first sector and serial number.
    #[must_use]
    pub const fn at(start: Sector, serial: u64) -> Self {
        Self((start.0 as u128) << 64 | serial as u128)
    }

    /// The key of a request that is ordered by another property than its sector: its age, its deadline.
    #[must_use]
    pub const fn by(order: u64, serial: u64) -> Self {
        Self::at(Sector(order), serial)
    }

    /// The least key above this one.
    const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The first sector.
    #[must_use]
    pub const fn sector(self) -> Sector {
        Sector((self.0 >> 64) as u64)
    }
}

/// The number of these keys, which are sorted, that are less than `key`.
///
/// The range is halved with branches, and the last few keys are counted without. The branches are mispredicted half the time,
/// but the processor continues speculatively, which pays with thousands of keys.
fn count_below(mut keys: &[Key], key: Key) -> usize {
    let mut below = 0;
    while keys.len() > COUNTED {
        let (left, right) = keys.split_at(keys.len() / 2);
        if left.last().is_some_and(|&last| last < key) {
            below += left.len();
            keys = right;
        } else {
            keys = left;
        }
    }
    below + keys.iter().map(|&other| usize::from(other < key)).sum::<usize>()
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    id: RequestId,
}

/// Up to [`CHUNK`] entries, each in a slot.
#[derive(Clone, Debug)]
struct Chunk {
    /// By slot; [`Key::NONE`] in unused slots.
    keys: [Key; CHUNK],
    ids: [RequestId; CHUNK],
    /// The slots in the order of their keys, [`SLOT_BITS`] each from the lowest on, then the unused ones.
    order: u64,
    len: usize,
}

impl Chunk {
    fn new() -> Box<Self> {
        let order = (0..CHUNK).fold(0, |order, slot| order | (slot as u64) << (slot * SLOT_BITS));
        Box::new(Self { keys: [Key::NONE; CHUNK], ids: [RequestId(0); CHUNK], order, len: 0 })
    }

    fn slot(&self, place: usize) -> usize {
        (self.order >> (place * SLOT_BITS)) as usize % CHUNK
    }

    fn get(&self, place: usize) -> Option<Entry> {
        let slot = self.slot(place.min(CHUNK - 1));
        (place < self.len).then(|| Entry { key: self.keys[slot], id: self.ids[slot] })
    }

    fn first(&self) -> Option<Entry> {
        self.get(0)
    }

    fn last(&self) -> Option<Entry> {
        self.get(self.len.checked_sub(1)?)
    }

    /// The number of its keys that are less than `key`.
    fn count_below(&self, key: Key) -> usize {
        if self.len <= FEW {
            return (0..self.len).map(|place| usize::from(self.keys[self.slot(place)] < key)).sum();
        }
        self.keys.iter().map(|&other| usize::from(other < key)).sum()
    }

    fn insert(&mut self, place: usize, entry: Entry) {
        let slot = self.slot(self.len);
        (self.keys[slot], self.ids[slot]) = (entry.key, entry.id);
        self.order = moved(self.order, self.len, place);
        self.len += 1;
    }

    fn remove(&mut self, place: usize) {
        self.keys[self.slot(place)] = Key::NONE;
        self.len -= 1;
        self.order = moved(self.order, place, self.len);
    }

    /// Moves its entries from `place` on behind those of `other`.
    fn move_to(&mut self, place: usize, other: &mut Self) {
        while let Some(entry) = self.get(place) {
            other.insert(other.len, entry);
            self.remove(place);
        }
    }

    fn at(&self, places: Range<usize>) -> impl DoubleEndedIterator<Item = At> + '_ {
        places.map(|place| self.slot(place)).map(|slot| (self.keys[slot].sector(), self.ids[slot]))
    }

    fn ids(&self) -> impl Iterator<Item = RequestId> + '_ {
        (0..self.len).map(|place| self.ids[self.slot(place)])
    }
}

/// The order after the entry at `from` has moved to `to` and those between have shifted.
const fn moved(order: u64, from: usize, to: usize) -> u64 {
    let (from, to) = (from * SLOT_BITS, to * SLOT_BITS);
    let slot = order >> from & (CHUNK as u64 - 1);
    let others = order & ((1 << from) - 1) | order >> from >> SLOT_BITS << from;
    others & ((1 << to) - 1) | slot << to | others >> to << to << SLOT_BITS
}

/// Requests ordered by first sector, then by age. The same first sector may occur any number of times.
#[expect(clippy::vec_box, reason = "a new chunk among thousands moves pointers, not chunks")]
#[derive(Clone, Debug, Default)]
pub struct SortedIndex {
    /// In order; none is empty unless it is the only one.
    chunks: Vec<Box<Chunk>>,
    /// The least key of each chunk.
    least: Vec<Key>,
    spare: Vec<Box<Chunk>>,
    len: usize,
    /// The number of entries for which memory is reserved.
    prepared: usize,
    /// Chunks that these entries may need, with those in use.
    reserve: usize,
}

/// A request and its first sector.
pub type At = (Sector, RequestId);

/// The position of an entry: chunk, and place in the chunk.
type Place = (usize, usize);

impl SortedIndex {
    /// An empty index.
    #[must_use]
    pub const fn new() -> Self {
        Self { chunks: Vec::new(), least: Vec::new(), spare: Vec::new(), len: 0, prepared: 0, reserve: 0 }
    }

    /// The number of requests.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the index is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a request, which must not be in the index.
    pub fn insert(&mut self, request: &Request) {
        self.insert_key(Key::of(request), request.id);
    }

    /// Adds a request with this key, which must not be in the index.
    pub fn insert_key(&mut self, key: Key, id: RequestId) {
        self.prepare(self.len + 1);
        let entry = Entry { key, id };
        if self.chunks.is_empty() {
            self.open_chunk(0, entry.key);
        }
        let (chunk, place) = self.room_for(entry.key);
        self.chunks[chunk].insert(place, entry);
        if place == 0 {
            self.least[chunk] = entry.key;
        }
        self.len += 1;
    }

    /// Removes a request that has not changed since it was added; returns whether it was there.
    pub fn remove(&mut self, request: &Request) -> bool {
        self.remove_key(Key::of(request))
    }

    /// Removes the request that was added with this key; returns whether it was there.
    pub fn remove_key(&mut self, key: Key) -> bool {
        let (chunk, place) = self.place(key);
        let Some(found) = self.chunks.get(chunk).and_then(|entries| entries.get(place)) else { return false };
        if found.key != key {
            return false;
        }
        self.take_out(chunk, place);
        true
    }

    fn take_out(&mut self, chunk: usize, place: usize) {
        self.chunks[chunk].remove(place);
        self.len -= 1;
        self.tidy(chunk);
    }

    /// Removes a request that has not changed since it was added; returns its successor.
    pub fn take(&mut self, request: &Request) -> Option<RequestId> {
        let key = Key::of(request);
        let (chunk, place) = self.place(key);
        let successor = self.entry_from((chunk, place + 1)).map(|entry| entry.id);
        let found = self.chunks.get(chunk).and_then(|entries| entries.get(place)).map(|entry| entry.key);
        debug_assert_eq!(found, Some(key), "{:?} is not in the index", request.id);
        self.take_out(chunk, place);
        successor
    }

    /// The request with the lowest first sector.
    #[must_use]
    pub fn first(&self) -> Option<RequestId> {
        Some(self.chunks.first()?.first()?.id)
    }

    /// The request with the highest first sector.
    #[must_use]
    pub fn last(&self) -> Option<RequestId> {
        Some(self.chunks.last()?.last()?.id)
    }

    /// The next request whose first sector is `sector` or above.
    #[must_use]
    pub fn at_or_after(&self, sector: Sector) -> Option<RequestId> {
        self.from(Key::at(sector, 0)).map(|entry| entry.id)
    }

    /// The last request whose first sector is below `sector`.
    #[must_use]
    pub fn before(&self, sector: Sector) -> Option<RequestId> {
        self.below(Key::at(sector, 0)).map(|entry| entry.id)
    }

    /// The successor of `request` in the order, whether or not `request` is in the index.
    #[must_use]
    pub fn successor(&self, request: &Request) -> Option<RequestId> {
        self.after(Key::of(request))
    }

    /// The successor of a key in the order.
    #[must_use]
    pub fn after(&self, key: Key) -> Option<RequestId> {
        self.from(key.next()).map(|entry| entry.id)
    }

    /// The predecessor of `request` in the order, whether or not `request` is in the index.
    #[must_use]
    pub fn predecessor(&self, request: &Request) -> Option<RequestId> {
        self.below(Key::of(request)).map(|entry| entry.id)
    }

    /// The neighbours of the request with this key, which is in the index.
    #[must_use]
    pub fn neighbours(&self, key: Key) -> [Option<RequestId>; 2] {
        let (chunk, place) = self.place(key);
        [self.entry_before((chunk, place)), self.entry_from((chunk, place + 1))].map(|e| e.map(|e| e.id))
    }

    /// The nearest request below `sector` and the nearest at or above it, with their first sectors.
    #[must_use]
    pub fn around(&self, sector: Sector) -> [Option<At>; 2] {
        let place = self.place(Key::at(sector, 0));
        [self.entry_before(place), self.entry_from(place)].map(|e| e.map(|e| (e.key.sector(), e.id)))
    }

    /// All requests below `sector`, descending, and all at or above it, ascending, with their first sectors.
    pub fn outwards(&self, sector: Sector) -> (impl Iterator<Item = At> + '_, impl Iterator<Item = At> + '_) {
        let (chunk, place) = self.place(Key::at(sector, 0));
        let (below, above) = self.chunks.split_at(chunk);
        let (here, above) = above.split_at(above.len().min(1));
        let below = below.iter().rev().flat_map(|chunk| chunk.at(0..chunk.len).rev());
        let above = above.iter().flat_map(|chunk| chunk.at(0..chunk.len));
        let before = here.iter().flat_map(move |chunk| chunk.at(0..place).rev());
        let behind = here.iter().flat_map(move |chunk| chunk.at(place..chunk.len));
        (before.chain(below), behind.chain(above))
    }

    /// All requests, in order.
    pub fn iter(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.chunks.iter().flat_map(|chunk| chunk.ids())
    }

    fn from(&self, key: Key) -> Option<Entry> {
        self.entry_from(self.place(key))
    }

    fn below(&self, key: Key) -> Option<Entry> {
        self.entry_before(self.place(key))
    }

    /// The position of the first entry of `key` or more; it may be one behind the end of a chunk.
    fn place(&self, key: Key) -> Place {
        let chunk = count_below(&self.least, key.next()).saturating_sub(1);
        let place = self.chunks.get(chunk).map_or(0, |entries| entries.count_below(key));
        (chunk, place)
    }

    fn entry_from(&self, (chunk, place): Place) -> Option<Entry> {
        let entries = self.chunks.get(chunk)?;
        entries.get(place).or_else(|| self.chunks.get(chunk + 1)?.get(0))
    }

    fn entry_before(&self, (chunk, place): Place) -> Option<Entry> {
        match place.checked_sub(1) {
            Some(previous) => self.chunks[chunk].get(previous),
            None => self.chunks.get(chunk.checked_sub(1)?)?.last(),
        }
    }

    /// A position for a new key in a chunk with room.
    fn room_for(&mut self, key: Key) -> Place {
        let (chunk, place) = self.place(key);
        if self.chunks[chunk].len < CHUNK {
            return (chunk, place);
        }
        let behind_all = chunk + 1 == self.chunks.len() && place == CHUNK;
        // Ascending arrivals fill their chunks; halving would leave all of them half empty.
        let keep = if behind_all { CHUNK } else { CHUNK / 2 };
        self.open_chunk(chunk + 1, key);
        let (left, right) = self.chunks.split_at_mut(chunk + 1);
        left[chunk].move_to(keep, &mut right[0]);
        if let Some(first) = self.chunks[chunk + 1].first() {
            self.least[chunk + 1] = first.key;
        }
        if place > keep || behind_all { (chunk + 1, place - keep) } else { (chunk, place) }
    }

    fn open_chunk(&mut self, at: usize, least: Key) {
        let chunk = self.spare.pop().unwrap_or_else(Chunk::new);
        self.chunks.insert(at, chunk);
        self.least.insert(at, least);
    }

    fn close_chunk(&mut self, at: usize) {
        let chunk = self.chunks.remove(at);
        self.least.remove(at);
        self.spare.push(chunk);
    }

    /// Restores the invariant after a removal from `chunk`: no two neighbours are sparse.
    fn tidy(&mut self, chunk: usize) {
        match self.chunks[chunk].first() {
            // The last chunk stays: a queue of one request would otherwise allocate for each.
            None if self.chunks.len() == 1 => {}
            None => self.close_chunk(chunk),
            Some(first) => {
                self.least[chunk] = first.key;
                if !self.merge_with_next(chunk) && chunk > 0 {
                    self.merge_with_next(chunk - 1);
                }
            }
        }
    }

    fn merge_with_next(&mut self, chunk: usize) -> bool {
        let Some(next) = self.chunks.get(chunk + 1) else { return false };
        if self.chunks[chunk].len + next.len > MERGE {
            return false;
        }
        let (left, right) = self.chunks.split_at_mut(chunk + 1);
        right[0].move_to(0, &mut left[chunk]);
        self.close_chunk(chunk + 1);
        true
    }

    /// Reserves memory for `len` entries in any distribution, a few chunks at a time: to double the reserve of thousands of entries at once
    /// takes a quarter of a millisecond, with a kernel's lock held.
    fn prepare(&mut self, len: usize) {
        if len > self.prepared {
            self.prepared = len.next_power_of_two();
            let chunks = 2 * self.prepared.div_ceil(MERGE) + 2;
            self.chunks.reserve(chunks - self.chunks.len());
            self.least.reserve(chunks - self.least.len());
            self.spare.reserve(chunks - self.spare.len());
            self.reserve = chunks.min(self.prepared + 1);
        }
        let has = self.chunks.len() + self.spare.len();
        for _ in has..self.reserve.min(has + STEP) {
            self.spare.push(Chunk::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, request};
    use alloc::collections::BTreeMap;

    fn key(r: &Request) -> (u64, u64) {
        (r.start.0, r.serial)
    }

    struct Pair {
        index: SortedIndex,
        oracle: BTreeMap<(u64, u64), Request>,
        serial: u64,
    }

    impl Pair {
        fn add(&mut self, sector: u64) {
            self.serial += 1;
            let r = Request { serial: self.serial, id: RequestId(self.serial as u32), ..request(sector, 8) };
            self.index.insert(&r);
            self.oracle.insert(key(&r), r);
        }

        fn remove_one(&mut self, random: &mut Random, sectors: u64) {
            let from = (random.below(sectors), 0);
            let found = self.oracle.range(from..).next().or_else(|| self.oracle.iter().next());
            let Some((&k, r)) = found else { return };
            if random.below(2) == 0 {
                let next = self.oracle.range((k.0, k.1 + 1)..).next().map(|(_, r)| r.id);
                assert_eq!(self.index.take(r), next);
            } else {
                assert!(self.index.remove(r));
            }
            assert!(!self.index.remove(r), "removed once only");
            self.oracle.remove(&k);
        }

        fn check_at(&self, sector: u64) {
            let after = self.oracle.range((sector, 0)..).next().map(|(_, r)| r);
            let before = self.oracle.range(..(sector, 0)).next_back().map(|(_, r)| r);
            assert_eq!(self.index.at_or_after(Sector(sector)), after.map(|r| r.id));
            assert_eq!(self.index.before(Sector(sector)), before.map(|r| r.id));
            assert_eq!(
                self.index.around(Sector(sector)),
                [before, after].map(|r| r.map(|r| (r.start, r.id)))
            );
            assert_eq!(self.index.len(), self.oracle.len());
            assert_eq!(self.index.first(), self.oracle.values().next().map(|r| r.id));
            assert_eq!(self.index.last(), self.oracle.values().next_back().map(|r| r.id));
            if let Some(r) = after {
                let next = self.oracle.range((r.start.0, r.serial + 1)..).next().map(|(_, r)| r.id);
                assert_eq!(self.index.successor(r), next);
                assert_eq!(self.index.predecessor(r), before_key(&self.oracle, key(r)));
            }
        }

        fn check_outwards(&self, sector: u64) {
            let (down, up) = self.index.outwards(Sector(sector));
            let at = |r: &Request| (r.start, r.id);
            assert!(up.eq(self.oracle.range((sector, 0)..).map(|(_, r)| at(r))));
            assert!(down.eq(self.oracle.range(..(sector, 0)).rev().map(|(_, r)| at(r))));
        }

        fn check_shape(&self) {
            assert!(self.index.iter().eq(self.oracle.values().map(|r| r.id)));
            for pair in self.index.chunks.windows(2) {
                assert!(pair[0].len + pair[1].len > MERGE, "sparse neighbours");
            }
            for (chunk, &least) in self.index.chunks.iter().zip(&self.index.least) {
                assert!(chunk.first().is_none_or(|first| first.key == least));
                let mut slots: Vec<usize> = (0..CHUNK).map(|place| chunk.slot(place)).collect();
                slots.sort_unstable();
                assert!(slots.into_iter().eq(0..CHUNK), "each slot once");
            }
            assert!(
                self.index.chunks.len() + self.index.spare.len()
                    <= 2 * self.index.prepared.div_ceil(MERGE) + 2
            );
        }
    }

    fn before_key(oracle: &BTreeMap<(u64, u64), Request>, key: (u64, u64)) -> Option<RequestId> {
        oracle.range(..key).next_back().map(|(_, r)| r.id)
    }

    /// Few sectors produce many duplicates; sizes vary between 0 and two thousand.
    #[test]
    fn behaves_like_an_ordered_map() {
        for (seed, sectors) in [(1, 7), (2, 300), (3, 1 << 40)] {
            let mut random = Random::new(seed);
            let mut pair = Pair { index: SortedIndex::new(), oracle: BTreeMap::new(), serial: 0 };
            for step in 0..60_000_u64 {
                let growing = step / 4_000 % 2 == 0;
                if random.below(10) < if growing { 7 } else { 3 } {
                    pair.add(random.below(sectors));
                } else {
                    pair.remove_one(&mut random, sectors);
                }
                pair.check_at(random.below(sectors));
                if step % 512 == 0 {
                    pair.check_shape();
                    pair.check_outwards(random.below(sectors));
                }
            }
            while !pair.oracle.is_empty() {
                pair.remove_one(&mut random, sectors);
            }
            pair.check_at(0);
            pair.check_outwards(0);
            assert!(pair.index.is_empty() && pair.index.chunks.len() == 1);
        }
    }

    #[test]
    fn ascending_and_descending_arrivals_keep_their_order() {
        for descending in [false, true] {
            let mut pair = Pair { index: SortedIndex::new(), oracle: BTreeMap::new(), serial: 0 };
            for i in 0..5_000 {
                pair.add(if descending { 100_000 - i } else { i });
            }
            pair.check_shape();
        }
    }
}
