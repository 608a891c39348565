//! The table of rows (the tracks of one cylinder), 16 bytes each.
//!
//! The lookup of random sectors dominates the model's run time: a table larger than the processor's cache costs more than everything
//! else. A row therefore has only its first sector and the number of slips that shift its skew. Everything else follows if each
//! track has the zone's usual number of sectors. Rows for which that does not hold are *odd*, and have a list of their tracks.

use super::Turn;

/// Flag of an odd row.
const ODD: u32 = 1 << 31;

#[derive(Clone, Copy, Debug)]
struct Row {
    first: u64,
    /// The number of slips that shift its skew, or `ODD` and its index among the odd rows.
    what: u32,
}

/// A track of an odd row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Track {
    /// First sector, counted from the row's.
    pub(super) first: u32,
    /// Angle of its physical sector 0.
    pub(super) angle: Turn,
    /// Physical sector of the first data sector.
    pub(super) offset: u16,
    /// Has slips between its data sectors.
    pub(super) broken: bool,
}

/// The tracks of a row.
pub(super) enum Tracks<'a> {
    /// The usual number of sectors on each track but the last; skews shifted by that many slips.
    Usual(u32),
    /// All tracks, including those without data.
    Odd(&'a [Track]),
}

/// The rows in order of sectors, and an entry behind the last.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    surfaces: usize,
    rows: Vec<Row>,
    /// The tracks of odd rows, one per surface.
    odd: Vec<Track>,
}

impl Rows {
    pub(super) fn new(surfaces: u32) -> Self {
        Self { surfaces: surfaces as usize, rows: Vec::new(), odd: Vec::new() }
    }

    /// Number of rows.
    pub(super) fn len(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Appends a row with usual tracks; false if the number of slips does not fit.
    pub(super) fn push_usual(&mut self, first: u64, slips: u64) -> bool {
        let sayable = slips < u64::from(ODD);
        if sayable {
            self.rows.push(Row { first, what: slips as u32 });
        }
        sayable
    }

    /// Appends an odd row.
    pub(super) fn push_odd(&mut self, first: u64, tracks: &[Track]) {
        self.rows.push(Row { first, what: ODD | (self.odd.len() / self.surfaces) as u32 });
        self.odd.extend_from_slice(tracks);
    }

    /// Appends the entry behind the last row.
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

    /// The row of a sector, which must exist. Usually the estimated row or a neighbour.
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

/// The track with the row's `sector`-th sector. Usually the estimated track or a neighbour.
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
