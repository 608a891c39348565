//! Every track that holds data, in eight bytes each.
//!
//! Which track a random sector is on decides the speed of the whole model: a table that does not fit the processor's
//! cache costs more than everything that is done with its answer. So a track's entry says only where its sectors begin
//! to count, from the start of a block of tracks, and its angle. All else follows from its number, unless its entry says
//! that it is odd; then it stands in a list of its own.

use super::Turn;

/// Tracks in a block. With at most 65535 sectors a track, a place in a block needs 24 bits.
const BLOCK: usize = 256;
const ODD: u32 = 1 << 31;

/// A track that holds data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Track {
    /// Its first sector.
    pub(super) first: u64,
    /// Angle of its physical sector 0.
    pub(super) angle: Turn,
    /// Its number among all tracks of the zone, those without data too.
    pub(super) physical: u32,
    /// Physical sector of its first sector of data.
    pub(super) offset: u16,
    /// Has slips in its middle.
    pub(super) broken: bool,
}

/// The tracks in order of sectors, and behind the last one where it ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracks {
    /// The first sector of each block.
    blocks: Vec<u64>,
    entries: Vec<Entry>,
    /// The odd ones by index, in order.
    odd: Vec<(u32, Odd)>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// First sector since the block's, and whether the track is odd.
    packed: u32,
    angle: Turn,
}

#[derive(Clone, Copy, Debug)]
struct Odd {
    physical: u32,
    offset: u16,
    broken: bool,
}

impl Tracks {
    /// How many were added.
    pub(super) fn pushed(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Adds the next one; `plain` if its number in the zone is what it would be if every track before held data, and it
    /// is whole.
    pub(super) fn push(&mut self, track: Track, plain: bool) {
        let index = self.entries.len();
        if index.is_multiple_of(BLOCK) {
            self.blocks.push(track.first);
        }
        let Track { first, angle, physical, offset, broken } = track;
        let flag = if plain { 0 } else { ODD };
        self.entries.push(Entry { packed: (first - self.blocks[index / BLOCK]) as u32 | flag, angle });
        if !plain {
            self.odd.push((index as u32, Odd { physical, offset, broken }));
        }
    }

    /// Says where the last one ends.
    pub(super) fn end(&mut self, capacity: u64) {
        self.push(Track { first: capacity, angle: 0, physical: 0, offset: 0, broken: false }, true);
    }

    /// The first track of the track's block, and the first sector of that.
    pub(super) fn block(&self, index: usize) -> (usize, u64) {
        let block = index / BLOCK;
        (block * BLOCK, self.blocks[block])
    }

    /// The track's first sector.
    pub(super) fn first(&self, index: usize) -> u64 {
        self.blocks[index / BLOCK] + u64::from(self.entries[index].packed & !ODD)
    }

    /// A track; `first` is its first sector, and `number` its physical one if it is plain.
    pub(super) fn get(&self, index: usize, first: u64, number: u32) -> Track {
        let Entry { packed, angle } = self.entries[index];
        let odd = if packed & ODD == 0 { None } else { self.odd(index) };
        let plain = Odd { physical: number, offset: 0, broken: false };
        let Odd { physical, offset, broken } = odd.unwrap_or(plain);
        Track { first, angle, physical, offset, broken }
    }

    fn odd(&self, index: usize) -> Option<Odd> {
        let at = self.odd.binary_search_by_key(&(index as u32), |&(odd, _)| odd).ok()?;
        Some(self.odd[at].1)
    }

    /// The track of a sector, by search.
    pub(super) fn search(&self, sector: u64) -> usize {
        let (mut low, mut high) = (0, self.entries.len() - 1);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.first(middle) <= sector { low = middle } else { high = middle }
        }
        low
    }
}
