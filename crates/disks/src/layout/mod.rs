//! Where sectors are: sector number to cylinder, head and angle.
//!
//! *Theory of operation.* Slips and spares are resolved once, when the layout is built, into a table with one entry a
//! track that holds data: its first sector and where it begins. A sector is most often on the track that was asked for
//! last; else it is found by a look at the zones, a multiplication that guesses the track, and a step or two in the table.
//! Only a track with slips in its middle, and a sector whose data was moved, need a second search.
//!
//! Angles are 32-bit fractions of a revolution. The width of a sector is rounded down to such a unit, and what is left
//! over is made good each time an angle passes zero: the arithmetic of DiskSim's `layout_g1`, which this repeats to
//! the last bit, since 1 unit in each of some hundred additions would show.
//!
//! *Sources.* DiskSim 4.0 reference manual, "Disk layout"; behaviour of its diskmodel library.

mod skews;
mod slips;
mod tracks;
mod zone;

use std::cell::Cell;

use skews::Skews;
use tracks::{Track, Tracks};
use zone::Zone;

use crate::parameters::{LayoutParameters, Mapping, ZoneParameters};

/// A fraction of a revolution in units of 2^-32.
pub(crate) type Turn = u32;

/// A drive's layout.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    surfaces: u32,
    mapping: Mapping,
    zones: Vec<Band>,
    tracks: Tracks,
    /// The track that was asked for last.
    recent: Cell<Found>,
    /// The first sector of each zone.
    zone_starts: Vec<u64>,
    /// The zone in which each part of 2^`part_bits` sectors begins.
    parts: Vec<u16>,
    part_bits: u32,
    /// Sectors that were moved, in order, and to where.
    remapped: Vec<(u64, Spot)>,
    /// Cylinders between where any of them is and where it would be.
    farthest_moved: u32,
    capacity: u64,
}

/// The track of a sector.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Its first sector, and the sector behind its last.
    first: u64,
    end: u64,
    index: u32,
    zone: u16,
}

/// What is the same for all tracks of a zone.
#[derive(Clone, Debug)]
struct Band {
    zone: Zone,
    first_sector: u64,
    first_track: u32,
    tracks: u32,
    first_cylinder: u32,
    /// Tracks a sector of data, in units of 2^-64: what guesses a sector's track.
    density: u64,
    per_track: u32,
    /// A sector's width.
    width: Turn,
    /// What is left of a revolution after all sectors.
    rest: Turn,
}

/// A physical sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
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
pub(crate) struct Stretch {
    /// The sector's own place.
    pub(crate) spot: Spot,
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
    /// A slip or remap lies beyond the zone.
    #[error("zone {0}: a slip or remap lies beyond its end")]
    Beyond(usize),
    /// More tracks or zones than the model holds.
    #[error("too many tracks or zones for the model (100 million tracks, 65535 zones)")]
    TooLarge,
}

/// At most 2^8 parts: more than drives have zones, and no more than two of the processor's pages.
const PARTS_BITS: u32 = 8;
const TRACKS_MAX: u64 = 100_000_000;

impl Layout {
    pub(crate) fn new(p: &LayoutParameters) -> Result<Self, LayoutError> {
        check(p)?;
        let mut layout = Self {
            surfaces: p.surfaces,
            mapping: p.mapping,
            zones: Vec::new(),
            tracks: Tracks::default(),
            recent: Cell::default(),
            zone_starts: Vec::new(),
            parts: Vec::new(),
            part_bits: 0,
            remapped: Vec::new(),
            farthest_moved: 0,
            capacity: 0,
        };
        for (i, zone) in p.zones.iter().enumerate() {
            layout.add_zone(p, zone, i)?;
        }
        layout.tracks.end(layout.capacity);
        if layout.capacity == 0 {
            return Err(LayoutError::Empty);
        }
        layout.divide();
        layout.remapped.sort_unstable_by_key(|&(sector, _)| sector);
        let moved = layout.remapped.iter();
        let far = moved.map(|&(sector, spot)| spot.cylinder.abs_diff(layout.plain_cylinder(sector)));
        layout.farthest_moved = far.max().unwrap_or(0);
        Ok(layout)
    }

    fn add_zone(&mut self, p: &LayoutParameters, z: &ZoneParameters, i: usize) -> Result<(), LayoutError> {
        let zone = Zone::new(p, z).ok_or(LayoutError::NoRoom(i))?;
        let limit =
            u64::from(z.last_cylinder - z.first_cylinder + 1) * u64::from(p.surfaces) * zone.per_track;
        if zone.remapped().iter().any(|&(from, to)| from.max(to) >= limit) {
            return Err(LayoutError::Beyond(i));
        }
        let width = ((1_u64 << 32) / zone.per_track).min(u64::from(Turn::MAX)) as Turn;
        let rest = ((1_u64 << 32) % zone.per_track) as Turn;
        let first_track = self.tracks.pushed();
        let band = Band {
            first_sector: self.capacity,
            first_track,
            tracks: 0,
            first_cylinder: z.first_cylinder,
            density: 0,
            per_track: z.sectors_per_track,
            width,
            rest,
            zone,
        };
        let number = self.zones.len() as u16;
        self.add_tracks(p, z, &band);
        self.add_remapped(p, z, &band, number);
        self.capacity += band.zone.capacity;
        let tracks = self.tracks.pushed() - first_track;
        let density = (u128::from(tracks) << 64) / u128::from(band.zone.capacity.max(1));
        self.zone_starts.push(band.first_sector);
        self.zones.push(Band { tracks, density: density.min(u128::from(u64::MAX)) as u64, ..band });
        Ok(())
    }

    fn add_tracks(&mut self, p: &LayoutParameters, z: &ZoneParameters, band: &Band) {
        let tracks = u64::from(z.last_cylinder - z.first_cylinder + 1) * u64::from(p.surfaces);
        let mut behind = band.zone.rank(0);
        for physical in 0..tracks {
            let place = physical * band.zone.per_track;
            let (first, end) = (behind, band.zone.rank(place + band.zone.per_track));
            behind = end;
            if first == end {
                continue;
            }
            let whole = end - first == band.zone.per_track;
            let (from, last) = if whole {
                (place, place + band.zone.per_track - 1)
            } else {
                (band.zone.place(first), band.zone.place(end - 1))
            };
            let offset = (from - place) as u16;
            let broken = last - from != end - 1 - first;
            let number = self.tracks.pushed() - band.first_track;
            let plain = u64::from(number) == physical && offset == 0 && !broken;
            let (first, angle) = (band.first_sector + first, Skews { p, z, band }.angle(physical));
            self.tracks.push(Track { first, angle, physical: physical as u32, offset, broken }, plain);
        }
    }

    fn add_remapped(&mut self, p: &LayoutParameters, z: &ZoneParameters, band: &Band, number: u16) {
        for (from, to) in band.zone.remapped() {
            let rank = band.zone.rank(from);
            if rank >= band.zone.capacity || band.zone.place(rank) != from {
                continue;
            }
            let physical = to / band.zone.per_track;
            let angle = Skews { p, z, band }.angle(physical);
            let spot = self.spot(number, band, (physical as u32, angle), (to % band.zone.per_track) as u32);
            self.remapped.push((band.first_sector + rank, spot));
        }
    }

    /// How many sectors of data there are.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// A sector's place and what follows it on its track. `sector` must be less than the capacity.
    pub(crate) fn stretch(&self, sector: u64) -> Stretch {
        let Found { first, end: track_end, index, zone } = self.track_of(sector);
        let band = &self.zones[usize::from(zone)];
        let track = self.tracks.get(index as usize, first, index - band.first_track);
        let on_track = if track.broken {
            (band.zone.place(sector - band.first_sector) % band.zone.per_track) as u32
        } else {
            u32::from(track.offset) + (sector - track.first) as u32
        };
        let spot = self.spot(zone, band, (track.physical, track.angle), on_track);
        let plain = Stretch { spot, end: track_end, track_end };
        if self.remapped.is_empty() { plain } else { self.regard_remapped(sector, plain) }
    }

    /// A sector of a track that is given by its number in the zone and its angle.
    fn spot(&self, zone: u16, band: &Band, (physical, angle): (u32, Turn), sector: u32) -> Spot {
        let (row, surface) = (physical / self.surfaces, physical % self.surfaces);
        let cylinder = band.first_cylinder + row;
        let head = head(self.mapping, self.surfaces, surface, row, cylinder) as u16;
        Spot { cylinder, head, zone, angle: advance(angle, u64::from(sector), band.width, band.rest), sector }
    }

    /// A moved sector is reached by itself; one before it ends the stretch.
    fn regard_remapped(&self, sector: u64, plain: Stretch) -> Stretch {
        let next = self.remapped.partition_point(|&(moved, _)| moved < sector);
        match self.remapped.get(next) {
            Some(&(moved, spot)) if moved == sector => Stretch { spot, end: sector + 1, ..plain },
            Some(&(moved, _)) => Stretch { end: plain.end.min(moved), ..plain },
            None => plain,
        }
    }

    /// The cylinder of a sector if it was not moved: rises with the sector.
    pub(crate) fn plain_cylinder(&self, sector: u64) -> u32 {
        let Found { first, index, zone, .. } = self.track_of(sector);
        let band = &self.zones[usize::from(zone)];
        band.first_cylinder
            + self.tracks.get(index as usize, first, index - band.first_track).physical / self.surfaces
    }

    /// How many cylinders a sector may lie from its plain one.
    pub(crate) fn farthest_moved(&self) -> u32 {
        self.farthest_moved
    }

    /// The track's first sector and the sector behind its last.
    pub(crate) fn track(&self, sector: u64) -> (u64, u64) {
        let Found { first, end, .. } = self.track_of(sector);
        (first, end)
    }

    /// Sectors on the track of this sector, those without data included.
    pub(crate) fn per_track(&self, sector: u64) -> u32 {
        self.zones[self.zone_of(sector)].per_track
    }

    /// Width of a sector in a zone.
    pub(crate) fn width(&self, zone: u16) -> Turn {
        self.zones[usize::from(zone)].width
    }

    /// The same of every zone, in order.
    pub(crate) fn widths(&self) -> impl Iterator<Item = Turn> {
        self.zones.iter().map(|band| band.width)
    }

    fn track_of(&self, sector: u64) -> Found {
        let recent = self.recent.get();
        if recent.first <= sector && sector < recent.end {
            return recent;
        }
        let zone = self.zone_of(sector);
        let index = self.find(sector, &self.zones[zone]);
        let (first, end) = (self.tracks.first(index), self.tracks.first(index + 1));
        let found = Found { first, end, index: index as u32, zone: zone as u16 };
        self.recent.set(found);
        found
    }

    /// Looked up by the sector's first bits; a zone or two may begin before it within that part.
    fn zone_of(&self, sector: u64) -> usize {
        let mut zone = usize::from(self.parts[(sector >> self.part_bits) as usize]);
        while self.zone_starts.get(zone + 1).is_some_and(|&first| first <= sector) {
            zone += 1;
        }
        zone
    }

    /// Cuts the sectors into equal parts, and notes in which zone each begins.
    fn divide(&mut self) {
        let last = self.capacity - 1;
        self.part_bits = (u64::BITS - last.leading_zeros()).saturating_sub(PARTS_BITS);
        let zone = |part: u64| {
            let begins = part << self.part_bits;
            self.zone_starts[1..].iter().filter(|&&first| first <= begins).count() as u16
        };
        self.parts = (0..=last >> self.part_bits).map(zone).collect();
    }

    fn find(&self, sector: u64, band: &Band) -> usize {
        let tracks = |sectors: u64| ((u128::from(sectors) * u128::from(band.density)) >> 64) as usize;
        let last = (band.first_track + band.tracks.saturating_sub(1)) as usize;
        let guess = (band.first_track as usize + tracks(sector - band.first_sector)).min(last);
        // Slips and spares shift the guess by a track or two over a zone, and hardly over a block of tracks.
        let (block, first) = self.tracks.block(guess);
        let within = first >= band.first_sector && first <= sector;
        let mut index = if within { (block + tracks(sector - first)).min(last) } else { guess };
        // A zone that bunches them gets the search.
        for _ in 0..4 {
            if self.tracks.first(index) > sector {
                index -= 1;
            } else if self.tracks.first(index + 1) <= sector {
                index += 1;
            } else {
                return index;
            }
        }
        self.tracks.search(sector)
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

/// How many sectors of data a layout has, without building it.
pub(crate) fn capacity(p: &LayoutParameters) -> Result<u64, LayoutError> {
    check(p)?;
    let zone = |(i, z)| Zone::new(p, z).map(|zone| zone.capacity).ok_or(LayoutError::NoRoom(i));
    p.zones.iter().enumerate().map(zone).sum()
}

fn check(p: &LayoutParameters) -> Result<(), LayoutError> {
    if p.surfaces == 0 || p.zones.is_empty() || p.range_cylinders == 0 {
        return Err(LayoutError::Empty);
    }
    let too_many = u64::from(p.cylinders) * u64::from(p.surfaces) > TRACKS_MAX;
    if too_many || p.zones.len() > usize::from(u16::MAX) || p.surfaces > u32::from(u16::MAX) {
        return Err(LayoutError::TooLarge);
    }
    let mut next = 0;
    for (i, zone) in p.zones.iter().enumerate() {
        check_zone(p, zone, i, next)?;
        next = zone.last_cylinder + 1;
    }
    Ok(())
}

fn check_zone(p: &LayoutParameters, zone: &ZoneParameters, i: usize, next: u32) -> Result<(), LayoutError> {
    let ordered = next <= zone.first_cylinder && zone.first_cylinder <= zone.last_cylinder;
    // Published files count cylinders and number them from 0 with a difference of one; the zones decide.
    if !ordered || zone.last_cylinder > p.cylinders {
        return Err(LayoutError::Cylinders(i));
    }
    if zone.sectors_per_track == 0 || zone.sectors_per_track > u32::from(u16::MAX) {
        return Err(LayoutError::SectorsPerTrack(i));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
