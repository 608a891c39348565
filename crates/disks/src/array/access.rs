//! The members' part of an access to an array.
//!
//! A row of RAID 5 is divided into bands: ranges of its units in which the same units are accessed. In each band md
//! (`handle_stripe_dirtying`) counts the reads of both methods to compute the new parity and takes the cheaper:
//!
//! - *read-modify-write*: reads the old data of the written units and the old parity;
//! - *reconstruct-write*: reads the units that are not written; none for a full stripe. Preferred if equal.
//!
//! With a failed member, its units are read by reading the rest of their row. A write to a failed unit reconstructs; a write to
//! other units of the row must read and modify. If the failed unit is the parity, md reconstructs: it reads the units that are not
//! written, for a parity that it cannot write.
//!
//! Not modelled: md's stripe cache for writes (reuse of old data, merging of small writes to one stripe; for reads see
//! [`StripeCache`](super::StripeCache)) and its locks on stripes. Bands have sector resolution; md counts pages.

use std::ops::Range;

use elevator::{Op, Sector, Sectors};

use super::geometry::Geometry;

/// An operation of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The member, from 0.
    pub member: u32,
    /// Read, write or discard.
    pub op: Op,
    /// First sector on the member.
    pub start: Sector,
    /// Its length.
    pub sectors: Sectors,
}

/// The operations for one access: all of `before` must complete before any of `then` begins.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Access {
    /// Reads that a write to RAID 5 needs first.
    pub before: Vec<Part>,
    /// All other operations.
    pub then: Vec<Part>,
}

/// A range of a row's units in which the same data units are accessed.
struct Band {
    row: u64,
    /// Data units, by index.
    touched: Range<u32>,
    /// Sectors within each unit.
    within: Range<u64>,
}

impl Geometry {
    /// Computes the operations for a read, write or discard. `failed` is the failed member. Replaces the content of `access`.
    ///
    /// Discards affect data units only: the model keeps no data, and md passes them on only where parity allows it.
    pub fn access(&self, op: Op, start: Sector, sectors: Sectors, failed: Option<u32>, access: &mut Access) {
        access.before.clear();
        access.then.clear();
        let with_parity = op == Op::Write && self.parity(0).is_some();
        if !with_parity && (failed.is_none() || op != Op::Read) {
            let pieces = self.pieces(start, sectors).filter(|piece| Some(piece.place.member) != failed);
            access.then.extend(pieces.map(|piece| Part {
                member: piece.place.member,
                op,
                start: piece.place.sector,
                sectors: piece.sectors,
            }));
            return;
        }
        let mut from = start.0;
        let end = (start + sectors).0;
        while from < end {
            let row = from / self.stripe();
            let to = end.min((row + 1) * self.stripe());
            for band in self.bands(row, from % self.stripe()..to - row * self.stripe()) {
                match op {
                    Op::Read => self.read_band(&band, failed, &mut access.then),
                    _ => self.write_band(&band, failed, access),
                }
            }
            from = to;
        }
        join(&mut access.before);
        join(&mut access.then);
    }

    /// The bands of a range of one row.
    fn bands(&self, row: u64, stretch: Range<u64>) -> impl Iterator<Item = Band> + use<> {
        let unit = u64::from(self.unit().0);
        let (head, tail) = (stretch.start % unit, stretch.end % unit);
        let mut ends = [head, tail, unit];
        ends.sort_unstable();
        let mut from = 0;
        ends.into_iter().filter_map(move |to| {
            let within = std::mem::replace(&mut from, to)..to;
            // The units whose sector `within.start` lies in the range.
            let first = stretch.start.saturating_sub(within.start).div_ceil(unit);
            let last = stretch.end.saturating_sub(within.start).div_ceil(unit);
            let touched = first as u32..last as u32;
            (!within.is_empty() && !touched.is_empty()).then_some(Band { row, touched, within })
        })
    }

    fn part(&self, band: &Band, member: u32, op: Op) -> Part {
        let start = Sector(band.row * u64::from(self.unit().0) + band.within.start);
        Part { member, op, start, sectors: Sectors((band.within.end - band.within.start) as u32) }
    }

    /// A read that may include units of the failed member.
    fn read_band(&self, band: &Band, failed: Option<u32>, parts: &mut Vec<Part>) {
        let wanted = || band.touched.clone().map(|index| self.data(band.row, index));
        if wanted().any(|member| Some(member) == failed) {
            let rest = (0..self.members()).filter(|&member| Some(member) != failed);
            parts.extend(rest.map(|member| self.part(band, member, Op::Read)));
        } else {
            parts.extend(wanted().map(|member| self.part(band, member, Op::Read)));
        }
    }

    fn write_band(&self, band: &Band, failed: Option<u32>, access: &mut Access) {
        let parity = self.parity(band.row);
        let is_there = |member: &u32| Some(*member) != failed;
        let written = || band.touched.clone().map(|index| self.data(band.row, index));
        let others = || {
            let untouched = (0..self.data_members()).filter(|index| !band.touched.contains(index));
            untouched.map(|index| self.data(band.row, index))
        };
        let (modify, reconstruct) = (written().count() + 1, others().count());
        let read = |member| access.before.push(self.part(band, member, Op::Read));
        // md counts a failed member as more than all members.
        let can_modify = written().chain(parity).all(|member| is_there(&member));
        let can_reconstruct = others().all(|member| is_there(&member));
        if can_modify && (modify < reconstruct || !can_reconstruct) {
            written().chain(parity).for_each(read);
        } else {
            others().for_each(read);
        }
        let targets = written().chain(parity).filter(is_there);
        access.then.extend(targets.map(|member| self.part(band, member, Op::Write)));
    }
}

/// Joins adjacent operations of a member.
fn join(parts: &mut Vec<Part>) {
    parts.sort_unstable_by_key(|part| (part.member, part.start));
    parts.dedup_by(|part, before| {
        let joins = before.member == part.member && before.start + before.sectors == part.start;
        if joins {
            before.sectors += part.sectors;
        }
        joins
    });
}
