//! The physical position of sectors: sector number to cylinder, head and angle.
//!
//! *Theory of operation.* Slips and spares are resolved once, when the layout is built, into a table with one entry per cylinder. A
//! sector is most often on the track of the previous query. Otherwise it is found by its zone, a multiplication that estimates the
//! cylinder, one or two steps in the table, and a division that yields the track. Only tracks with slips between their sectors, and
//! sectors whose data was moved, need a second search.
//!
//! Angles are 32-bit fractions of a revolution. The width of a sector is rounded down to this unit, and the remainder is added each
//! time an angle passes zero. This is the arithmetic of DiskSim's `layout_g1` to the last bit, because an error of one unit would
//! add up over some hundred additions.
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
use elevator::cold_path;
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
    /// The track of the previous query.
    recent: Cell<TrackSpan>,
    /// The first sector of each zone.
    zone_starts: Vec<u64>,
    /// The zone in which each block of 2^`part_bits` sectors begins.
    parts: Vec<u16>,
    part_bits: u32,
    /// Sectors whose data was moved, in order, and their position.
    remapped: Vec<(u64, PhysicalSector)>,
    /// The greatest distance of a moved sector from its original cylinder, in cylinders.
    farthest_moved: u32,
    /// Set for a layout given as an index of runs; `zones` then has one entry per track pattern.
    indexed: Option<Box<Indexed>>,
    capacity: u64,
}

/// The track of a sector.
#[derive(Clone, Copy, Debug, Default)]
struct TrackSpan {
    /// First sector of the track, and the sector behind its last.
    first: u64,
    end: u64,
    /// Cylinder, counted from the zone's first; track in the cylinder, in order of sectors.
    row: u32,
    surface: u32,
    /// Angle of the track's physical sector 0.
    angle: Turn,
    zone: u16,
    /// Physical sector of the first data sector.
    offset: u16,
    /// Has slips between its data sectors.
    broken: bool,
}

/// Properties of all tracks of a zone.
#[derive(Clone, Debug)]
struct ZoneLayout {
    zone: Zone,
    first_sector: u64,
    first_row: u32,
    first_cylinder: u32,
    /// Rows per data sector in units of 2^-64; estimates a sector's row.
    density: u64,
    per_track: u32,
    /// Data sectors on a track without slips.
    usual: u32,
    /// Width of a sector.
    width: Turn,
    /// Remainder of a revolution after all sectors.
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
    /// Angle of its beginning.
    pub(crate) angle: Turn,
    /// Number on the track.
    pub(crate) sector: u32,
}

/// The position of a sector, and the sectors that follow it on its track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// The position.
    pub(crate) spot: PhysicalSector,
    /// The sector behind the last that follows without leaving the track.
    pub(crate) end: u64,
    /// The sector behind the track's last.
    pub(crate) track_end: u64,
}

/// Why a layout is impossible.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrackLayoutError {
    /// There is no surface, cylinder, zone or range.
    #[error("a drive needs at least one surface, one zone and one cylinder in a range")]
    Empty,
    /// A zone ends before it begins, overlaps the one before, or lies beyond the last cylinder.
    #[error("zone {0}: its cylinders are out of order or beyond the last")]
    Cylinders(usize),
    /// The sectors per track are not 1 to 65535.
    #[error("zone {0}: sectors per track must be 1 to 65535")]
    SectorsPerTrack(usize),
    /// Reserved and spare sectors leave no room for data.
    #[error("zone {0}: reserved and spare sectors leave no room for data")]
    NoRoom(usize),
    /// A remap lies beyond the zone. (A slip beyond the zone has no effect.)
    #[error("zone {0}: a defect or its replacement lies beyond its end")]
    Beyond(usize),
    /// An index of runs is inconsistent.
    #[error("{0}")]
    Indexed(&'static str),
    /// There are more tracks or zones than the model supports.
    #[error("too many tracks or zones for the model (100 million tracks, 65535 zones)")]
    TooLarge,
}

impl TrackLayoutError {
    /// The number of the invalid zone, from 0.
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
    /// Number of data sectors.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The position of a sector, which must be less than the capacity.
    #[inline(always)]
    pub(crate) fn stretch(&self, sector: u64) -> Extent {
        let track = self.track_of(sector);
        let band = &self.zones[usize::from(track.zone)];
        let on_track = if track.broken {
            cold_path();
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

    /// Number of data sectors on a sector's track.
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

    /// A moved sector is an extent of its own; the extent of an earlier sector ends before it.
    #[cold]
    fn apply_remaps(&self, sector: u64, plain: Extent) -> Extent {
        let next = self.remapped.partition_point(|&(moved, _)| moved < sector);
        match self.remapped.get(next) {
            Some(&(moved, spot)) if moved == sector => Extent { spot, end: sector + 1, ..plain },
            Some(&(moved, _)) => Extent { end: plain.end.min(moved), ..plain },
            None => plain,
        }
    }

    /// The sector's cylinder, ignoring moves: does not decrease with the sector.
    pub(crate) fn plain_cylinder(&self, sector: u64) -> u32 {
        if let Some(indexed) = &self.indexed {
            return if indexed.rises { indexed.piece_cylinder(sector) } else { 0 };
        }
        let TrackSpan { row, zone, .. } = self.track_of(sector);
        self.zones[usize::from(zone)].first_cylinder + row
    }

    /// Whether each track is one run of sectors in order, and none was moved to another.
    pub(crate) fn is_plain(&self) -> bool {
        self.indexed.is_none() && self.remapped.is_empty()
    }

    /// Whether no sector was moved.
    pub(crate) fn has_moved(&self) -> bool {
        !self.remapped.is_empty()
    }

    /// The fewest data sectors of a track without slips.
    pub(crate) fn fewest_on_track(&self) -> u32 {
        self.zones.iter().map(|band| band.usual).min().unwrap_or(1).max(1)
    }

    pub(crate) fn most_on_track(&self) -> u32 {
        self.zones.iter().map(|band| band.usual).max().unwrap_or(1)
    }

    /// The greatest distance of a sector from its [`plain_cylinder`](Self::plain_cylinder).
    pub(crate) fn farthest_moved(&self) -> u32 {
        self.farthest_moved
    }

    /// The first sector of a sector's track, and the sector behind its last.
    pub(crate) fn track(&self, sector: u64) -> (u64, u64) {
        let TrackSpan { first, end, .. } = self.track_of(sector);
        (first, end)
    }

    /// Physical sectors on a sector's track.
    pub(crate) fn per_track(&self, sector: u64) -> u32 {
        let zone =
            if self.indexed.is_some() { self.track_of(sector).zone } else { self.zone_of(sector) as u16 };
        self.zones[usize::from(zone)].per_track
    }

    /// Width of a sector in a zone.
    pub(crate) fn width(&self, zone: u16) -> Turn {
        self.zones[usize::from(zone)].width
    }

    /// The width of a sector in each zone, in order.
    pub(crate) fn widths(&self) -> impl Iterator<Item = Turn> {
        self.zones.iter().map(|band| band.width)
    }

    // The result is read where it is stored; returning it from `find` would add a store-to-load dependency.
    #[inline(always)]
    fn track_of(&self, sector: u64) -> TrackSpan {
        let TrackSpan { first, end, .. } = self.recent.get();
        if !(first..end).contains(&sector) {
            self.find(sector);
        }
        self.recent.get()
    }

    /// Stores the sector's track in `recent`.
    #[inline(never)]
    fn find(&self, sector: u64) {
        if let Some(indexed) = &self.indexed {
            cold_path();
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

    /// The zone of a sector, found by its leading bits and then linearly.
    fn zone_of(&self, sector: u64) -> usize {
        let mut zone = usize::from(self.parts[(sector >> self.part_bits) as usize]);
        while self.zone_starts.get(zone + 1).is_some_and(|&first| first <= sector) {
            zone += 1;
        }
        zone
    }
}

/// The head of the `surface`-th track of a cylinder that is the `row`-th of its zone.
fn head(mapping: Mapping, surfaces: u32, surface: u32, row: u32, cylinder: u32) -> u32 {
    let down = match mapping {
        Mapping::Cylinder => false,
        Mapping::SerpentineByZone => row % 2 == 1,
        Mapping::Serpentine => cylinder % 2 == 1,
    };
    if down { surfaces - 1 - surface } else { surface }
}

/// `start + times * step`, with `rest` added each time the angle passes zero.
fn advance(start: Turn, times: u64, step: Turn, rest: Turn) -> Turn {
    let sum = u64::from(start) + times * u64::from(step);
    (sum as Turn).wrapping_add(((sum >> 32) as Turn).wrapping_mul(rest))
}

#[cfg(test)]
mod tests;
