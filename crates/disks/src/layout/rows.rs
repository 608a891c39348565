//! Every row, the tracks of one cylinder, in sixteen bytes.
//!
//! Where a random sector lies decides the speed of the whole model: a table that does not fit the processor's cache costs
//! more than everything that is done with its answer. So a row says only where its sectors begin and by how many slips its
//! skews were pushed. The rest follows, as each of its tracks holds as many sectors as is usual in its zone; a row of which
//! that is not true is odd, and its tracks stand in a list of their own.

use super::Turn;

/// Set in what is said of a row if it is odd.
const ODD: u32 = 1 << 31;

#[derive(Clone, Copy, Debug)]
struct Row {
    first: u64,
    /// How many slips pushed its skews, or its number among the odd ones.
    what: u32,
}

/// A track of an odd row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Track {
    /// Its first sector, counted from the row's.
    pub(super) first: u32,
    /// Angle of its physical sector 0.
    pub(super) angle: Turn,
    /// Physical sector of its first sector of data.
    pub(super) offset: u16,
    /// Has slips in its middle.
    pub(super) broken: bool,
}

/// The tracks of a row.
pub(super) enum Tracks<'a> {
    /// As many sectors on each as is usual, but for the last; skews pushed by so many slips.
    Usual(u32),
    /// One by one, those without data too.
    Odd(&'a [Track]),
}

/// The rows in order of sectors, and behind the last one where it ends.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    surfaces: usize,
    rows: Vec<Row>,
    /// The tracks of the odd ones, all surfaces of each.
    odd: Vec<Track>,
}

impl Rows {
    pub(super) fn new(surfaces: u32) -> Self {
        Self { surfaces: surfaces as usize, rows: Vec::new(), odd: Vec::new() }
    }

    /// How many were added.
    pub(super) fn len(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Adds the next one, with usual tracks; false if so many slips cannot be told.
    pub(super) fn push_usual(&mut self, first: u64, slips: u64) -> bool {
        let sayable = slips < u64::from(ODD);
        if sayable {
            self.rows.push(Row { first, what: slips as u32 });
        }
        sayable
    }

    /// Adds the next one, with a track for each surface.
    pub(super) fn push_odd(&mut self, first: u64, tracks: &[Track]) {
        self.rows.push(Row { first, what: ODD | (self.odd.len() / self.surfaces) as u32 });
        self.odd.extend_from_slice(tracks);
    }

    /// Says where the last one ends.
    pub(super) fn end(&mut self, capacity: u64) {
        self.rows.push(Row { first: capacity, what: 0 });
    }

    /// The row's first sector and the sector behind its last.
    pub(super) fn sectors(&self, index: usize) -> (u64, u64) {
        (self.rows[index].first, self.rows[index + 1].first)
    }

    pub(super) fn tracks(&self, index: usize) -> Tracks<'_> {
        let what = self.rows[index].what;
        if what & ODD == 0 {
            return Tracks::Usual(what);
        }
        let begin = (what & !ODD) as usize * self.surfaces;
        Tracks::Odd(&self.odd[begin..begin + self.surfaces])
    }

    /// The row of a sector, which is most often the guessed one or a neighbour. There must be one.
    #[inline]
    pub(super) fn find(&self, sector: u64, guess: usize) -> usize {
        let mut index = guess.min(self.rows.len() - 2);
        for _ in 0..4 {
            let (first, end) = self.sectors(index);
            if sector < first {
                index -= 1;
            } else if sector >= end {
                index += 1;
            } else {
                return index;
            }
        }
        self.search(sector)
    }

    #[cold]
    fn search(&self, sector: u64) -> usize {
        self.rows.partition_point(|row| row.first <= sector) - 1
    }
}

/// Which of a row's tracks holds the row's `sector`-th: most often the guessed one or a neighbour.
pub(super) fn holding(tracks: &[Track], sector: u32, guess: usize) -> usize {
    let mut at = guess;
    while tracks[at].first > sector {
        at -= 1;
    }
    while tracks.get(at + 1).is_some_and(|next| next.first <= sector) {
        at += 1;
    }
    at
}
