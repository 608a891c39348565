//! Where sectors are: sector number to cylinder, head and angle.
//!
//! *Theory of operation.* Slips and spares are resolved once, when the layout is built, into a table with one entry a
//! cylinder. A sector is most often on the track that was asked for last; else it is found by a look at the zones, a
//! multiplication that guesses the cylinder, a step or two in the table, and a division that tells the track. Only a track with
//! slips in its middle, and a sector whose data was moved, need a second search.
//!
//! Angles are 32-bit fractions of a revolution. The width of a sector is rounded down to such a unit, and what is left
//! over is made good each time an angle passes zero: the arithmetic of DiskSim's `layout_g1`, which this repeats to
//! the last bit, since 1 unit in each of some hundred additions would show.
//!
//! *Sources.* DiskSim 4.0 reference manual, "Disk layout"; behaviour of its diskmodel library.

mod build;
mod indexed;
mod rows;
mod skews;
mod slips;
mod zone;

use std::cell::Cell;

pub(crate) use build::capacity;
use elevator::rarely;
use indexed::Indexed;
pub(crate) use indexed::{capacity as capacity_of_runs, turn};
use rows::{Rows, Track, Tracks};
use skews::Skews;
use zone::Zone;

use crate::parameters::Mapping;

/// A fraction of a revolution in units of 2^-32.
pub(crate) type Turn = u32;

/// A drive's layout.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    surfaces: u32,
    mapping: Mapping,
    zones: Vec<ZoneLayout>,
    rows: Rows,
    /// The track that was asked for last.
    recent: Cell<TrackSpan>,
    /// The first sector of each zone.
    zone_starts: Vec<u64>,
    /// The zone in which each part of 2^`part_bits` sectors begins.
    parts: Vec<u16>,
    part_bits: u32,
    /// Sectors that were moved, in order, and to where.
    remapped: Vec<(u64, PhysicalSector)>,
    /// Cylinders between where any of them is and where it would be.
    farthest_moved: u32,
    /// A layout of another kind, whose zones stand for kinds of tracks.
    indexed: Option<Box<Indexed>>,
    capacity: u64,
}

/// The track of a sector.
#[derive(Clone, Copy, Debug, Default)]
struct TrackSpan {
    /// Its first sector, and the sector behind its last.
    first: u64,
    end: u64,
    /// Its cylinder's number in the zone, and its own in the cylinder, in order of sectors.
    row: u32,
    surface: u32,
    /// Angle of its physical sector 0.
    angle: Turn,
    zone: u16,
    /// Physical sector of its first sector of data.
    offset: u16,
    /// Has slips in its middle.
    broken: bool,
}

/// What is the same for all tracks of a zone.
#[derive(Clone, Debug)]
struct ZoneLayout {
    zone: Zone,
    first_sector: u64,
    first_row: u32,
    first_cylinder: u32,
    /// Rows a sector of data, in units of 2^-64: what guesses a sector's row.
    density: u64,
    per_track: u32,
    /// Sectors of data on a usual track.
    usual: u32,
    /// A sector's width.
    width: Turn,
    /// What is left of a revolution after all sectors.
    rest: Turn,
    skews: Skews,
}

/// A physical sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PhysicalSector {
    /// Cylinder.
    pub(crate) cylinder: u32,
    /// Head.
    pub(crate) head: u16,
    /// Zone.
    pub(crate) zone: u16,
    /// Where it begins.
    pub(crate) angle: Turn,
    /// Its number on the track.
    pub(crate) sector: u32,
}

/// A sector's place and the sectors that follow it on its track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// The sector's own place.
    pub(crate) spot: PhysicalSector,
    /// The sector behind the last that can be reached without leaving the track.
    pub(crate) end: u64,
    /// The sector behind the track's last.
    pub(crate) track_end: u64,
}

/// Why a layout is impossible.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// No surfaces, cylinders, zones or range.
    #[error("a drive needs at least one surface, one zone and one cylinder in a range")]
    Empty,
    /// A zone ends before it begins, overlaps the one before, or lies beyond the last cylinder.
    #[error("zone {0}: its cylinders are out of order or beyond the last")]
    Cylinders(usize),
    /// A zone has no sectors on a track, or more than 65535.
    #[error("zone {0}: sectors per track must be 1 to 65535")]
    SectorsPerTrack(usize),
    /// Reserved and spare sectors leave nothing.
    #[error("zone {0}: reserved and spare sectors leave no room for data")]
    NoRoom(usize),
    /// A remap lies beyond the zone. A slip there has nothing to skip.
    #[error("zone {0}: a defect or its replacement lies beyond its end")]
    Beyond(usize),
    /// An index of runs contradicts itself.
    #[error("{0}")]
    Indexed(&'static str),
    /// More tracks or zones than the model holds.
    #[error("too many tracks or zones for the model (100 million tracks, 65535 zones)")]
    TooLarge,
}

impl LayoutError {
    /// The zone that is to blame, from 0, if one is.
    pub(crate) fn zone(&self) -> Option<usize> {
        match *self {
            Self::Cylinders(zone) | Self::SectorsPerTrack(zone) | Self::NoRoom(zone) | Self::Beyond(zone) => {
                Some(zone)
            }
            Self::Empty | Self::Indexed(_) | Self::TooLarge => None,
        }
    }
}

impl Layout {
    /// How many sectors of data there are.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// A sector's place and what follows it on its track. `sector` must be less than the capacity.
    #[inline(always)]
    pub(crate) fn stretch(&self, sector: u64) -> Extent {
        let track = self.track_of(sector);
        let band = &self.zones[usize::from(track.zone)];
        let on_track = if track.broken {
            rarely();
            if let Some(indexed) = &self.indexed {
                return self.indexed_stretch(indexed, sector);
            }
            (band.zone.place(sector - band.first_sector) % band.zone.per_track) as u32
        } else {
            u32::from(track.offset) + (sector - track.first) as u32
        };
        let plain = Extent { spot: self.spot(band, &track, on_track), end: track.end, track_end: track.end };
        if self.remapped.is_empty() { plain } else { self.apply_remaps(sector, plain) }
    }

    /// How many sectors of data there are on a sector's track.
    pub(crate) fn on_track(&self, sector: u64) -> u64 {
        let track = self.track_of(sector);
        track.end - track.first
    }

    #[cold]
    fn indexed_stretch(&self, indexed: &Indexed, sector: u64) -> Extent {
        let track = self.track_of(sector);
        let band = &self.zones[usize::from(track.zone)];
        let spot = self.spot(band, &track, indexed.on_track(sector));
        Extent { spot, end: track.end, track_end: track.end }
    }

    fn spot(&self, band: &ZoneLayout, track: &TrackSpan, sector: u32) -> PhysicalSector {
        let &TrackSpan { row, surface, zone, .. } = track;
        let cylinder = band.first_cylinder + row;
        let head = head(self.mapping, self.surfaces, surface, row, cylinder) as u16;
        let angle = advance(track.angle, u64::from(sector), band.width, band.rest);
        PhysicalSector { cylinder, head, zone, angle, sector }
    }

    /// A moved sector is reached by itself; one before it ends the stretch.
    #[cold]
    fn apply_remaps(&self, sector: u64, plain: Extent) -> Extent {
        let next = self.remapped.partition_point(|&(moved, _)| moved < sector);
        match self.remapped.get(next) {
            Some(&(moved, spot)) if moved == sector => Extent { spot, end: sector + 1, ..plain },
            Some(&(moved, _)) => Extent { end: plain.end.min(moved), ..plain },
            None => plain,
        }
    }

    /// The cylinder of a sector if it was not moved: rises with the sector.
    pub(crate) fn plain_cylinder(&self, sector: u64) -> u32 {
        if let Some(indexed) = &self.indexed {
            return if indexed.rises { indexed.piece_cylinder(sector) } else { 0 };
        }
        let TrackSpan { row, zone, .. } = self.track_of(sector);
        self.zones[usize::from(zone)].first_cylinder + row
    }

    /// How many cylinders a sector may lie from its plain one.
    pub(crate) fn farthest_moved(&self) -> u32 {
        self.farthest_moved
    }

    /// The track's first sector and the sector behind its last.
    pub(crate) fn track(&self, sector: u64) -> (u64, u64) {
        let TrackSpan { first, end, .. } = self.track_of(sector);
        (first, end)
    }

    /// Sectors on the track of this sector, those without data included.
    pub(crate) fn per_track(&self, sector: u64) -> u32 {
        let zone =
            if self.indexed.is_some() { self.track_of(sector).zone } else { self.zone_of(sector) as u16 };
        self.zones[usize::from(zone)].per_track
    }

    /// Width of a sector in a zone.
    pub(crate) fn width(&self, zone: u16) -> Turn {
        self.zones[usize::from(zone)].width
    }

    /// The same of every zone, in order.
    pub(crate) fn widths(&self) -> impl Iterator<Item = Turn> {
        self.zones.iter().map(|band| band.width)
    }

    // What was found is always looked at where it is kept: one on its way through memory would be waited for.
    #[inline(always)]
    fn track_of(&self, sector: u64) -> TrackSpan {
        let TrackSpan { first, end, .. } = self.recent.get();
        if !(first..end).contains(&sector) {
            self.find(sector);
        }
        self.recent.get()
    }

    /// A sector's track is the one that was asked for last from now on.
    #[inline(never)]
    fn find(&self, sector: u64) {
        if let Some(indexed) = &self.indexed {
            rarely();
            return self.recent.set(indexed.find(sector));
        }
        let zone = self.zone_of(sector);
        let band = &self.zones[zone];
        let rows_before = (u128::from(sector - band.first_sector) * u128::from(band.density)) >> 64;
        let index = self.rows.find(sector, band.first_row as usize + rows_before as usize);
        let (begin, end) = self.rows.sectors(index);
        let (row, within) = (index as u32 - band.first_row, (sector - begin) as u32);
        let guess = (within / band.usual).min(self.surfaces - 1);
        let (surface, track, behind) = match self.rows.tracks(index) {
            Tracks::Usual(slips) => {
                let (first, angle) = (guess * band.usual, band.skews.angle(row, guess, u64::from(slips)));
                let behind = (guess + 1 < self.surfaces).then_some(first + band.usual);
                (guess, Track { first, angle, offset: 0, broken: false }, behind)
            }
            Tracks::Odd(tracks) => {
                let at = rows::holding(tracks, within, guess as usize);
                (at as u32, tracks[at], tracks.get(at + 1).map(|next| next.first))
            }
        };
        let Track { first, angle, offset, broken } = track;
        let (first, end) = (begin + u64::from(first), behind.map_or(end, |next| begin + u64::from(next)));
        self.recent.set(TrackSpan { first, end, row, surface, angle, zone: zone as u16, offset, broken });
    }

    /// Looked up by the sector's first bits; a zone or two may begin before it within that part.
    fn zone_of(&self, sector: u64) -> usize {
        let mut zone = usize::from(self.parts[(sector >> self.part_bits) as usize]);
        while self.zone_starts.get(zone + 1).is_some_and(|&first| first <= sector) {
            zone += 1;
        }
        zone
    }
}

/// The head of the `surface`-th track of a cylinder, which is the `row`-th of its zone.
fn head(mapping: Mapping, surfaces: u32, surface: u32, row: u32, cylinder: u32) -> u32 {
    let down = match mapping {
        Mapping::Cylinder => false,
        Mapping::SerpentineByZone => row % 2 == 1,
        Mapping::Serpentine => cylinder % 2 == 1,
    };
    if down { surfaces - 1 - surface } else { surface }
}

/// `start + times * step`, with `rest` added for each time that passes zero.
fn advance(start: Turn, times: u64, step: Turn, rest: Turn) -> Turn {
    let sum = u64::from(start) + times * u64::from(step);
    (sum as Turn).wrapping_add(((sum >> 32) as Turn).wrapping_mul(rest))
}

#[cfg(test)]
mod tests;
