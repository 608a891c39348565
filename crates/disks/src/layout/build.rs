//! Construction of a layout from a drive's parameters.

use std::cell::Cell;
use std::ops::Range;

use super::indexed::Indexed;
use super::rows::{Rows, Track};
use super::skews::{Skews, slips_pushing};
use super::zone::Zone;
use super::{Layout, TrackLayoutError, TrackSpan, Turn, ZoneLayout, head};
use crate::parameters::{IndexedLayout, LayoutParameters, Mapping, ZoneParameters};

/// At most 2^8 blocks: more than drives have zones, and at most two memory pages.
const PARTS_BITS: u32 = 8;
const TRACKS_MAX: u64 = 100_000_000;

impl Layout {
    pub(crate) fn new(p: &LayoutParameters) -> Result<Self, TrackLayoutError> {
        let zones = zones(p)?;
        let mut layout = Self {
            surfaces: p.surfaces,
            mapping: p.mapping,
            zones: Vec::new(),
            rows: Rows::new(p.surfaces),
            recent: Cell::default(),
            zone_starts: Vec::new(),
            parts: Vec::new(),
            part_bits: 0,
            remapped: Vec::new(),
            farthest_moved: 0,
            indexed: None,
            capacity: 0,
        };
        if let Some(indexed) = &p.indexed {
            layout.add_indexed(p, indexed)?;
            return Ok(layout);
        }
        for (z, zone) in p.zones.iter().zip(zones) {
            layout.add_zone(p, z, zone);
        }
        layout.rows.end(layout.capacity);
        layout.divide();
        layout.remapped.sort_unstable_by_key(|&(sector, _)| sector);
        let moved = layout.remapped.iter();
        let far = moved.map(|&(sector, spot)| spot.cylinder.abs_diff(layout.plain_cylinder(sector)));
        layout.farthest_moved = far.max().unwrap_or(0);
        Ok(layout)
    }

    /// Builds a layout from an index of runs, with one zone per track pattern.
    fn add_indexed(&mut self, p: &LayoutParameters, indexed: &IndexedLayout) -> Result<(), TrackLayoutError> {
        let found = Indexed::new(indexed, p.surfaces, p.cylinders)?;
        self.mapping = Mapping::Cylinder;
        for &sectors_per_track in &indexed.patterns {
            let z = ZoneParameters { sectors_per_track, ..Default::default() };
            let zone = Zone::new(p, &z).ok_or(TrackLayoutError::NoRoom(0))?;
            let width = (1.0 / f64::from(sectors_per_track) * (1_u64 << 32) as f64) as Turn;
            self.zones.push(ZoneLayout {
                first_sector: 0,
                first_row: 0,
                first_cylinder: 0,
                density: 0,
                per_track: sectors_per_track,
                usual: sectors_per_track,
                width,
                rest: 0,
                skews: Skews::new(p, &z, width, 0),
                zone,
            });
        }
        // If runs turn back, a later sector may be on any cylinder.
        self.farthest_moved = if found.rises { found.longest_piece } else { p.cylinders };
        self.capacity = indexed.sectors;
        self.indexed = Some(Box::new(found));
        Ok(())
    }

    fn add_zone(&mut self, p: &LayoutParameters, z: &ZoneParameters, zone: Zone) {
        let width = ((1_u64 << 32) / zone.per_track).min(u64::from(Turn::MAX)) as Turn;
        let rest = ((1_u64 << 32) % zone.per_track) as Turn;
        let band = ZoneLayout {
            first_sector: self.capacity,
            first_row: self.rows.len(),
            first_cylinder: z.first_cylinder,
            density: 0,
            per_track: z.sectors_per_track,
            usual: zone.usual_track(),
            width,
            rest,
            skews: Skews::new(p, z, width, rest),
            zone,
        };
        let number = self.zones.len() as u16;
        let (rows, sectors) = self.add_rows(p, z, &band);
        self.add_remapped(p, &band, number);
        self.capacity += band.zone.capacity;
        let density = (u128::from(rows) << 64) / u128::from(sectors.max(1));
        self.zone_starts.push(band.first_sector);
        self.zones.push(ZoneLayout { density: density.min(u128::from(u64::MAX)) as u64, ..band });
    }

    /// Appends a zone's rows. Returns the number of rows before the last with data (which may be incomplete), and their sectors.
    fn add_rows(&mut self, p: &LayoutParameters, z: &ZoneParameters, band: &ZoneLayout) -> (u32, u64) {
        let (mut behind, mut before_last) = (band.zone.rank(0), (0, 0));
        let mut tracks = Vec::with_capacity(p.surfaces as usize);
        for row in 0..=z.last_cylinder - z.first_cylinder {
            let first = behind;
            tracks.clear();
            for surface in 0..p.surfaces {
                let end = band.zone.rank((physical(p, row, surface) + 1) * band.zone.per_track);
                tracks.push(unangled(band, physical(p, row, surface), first, behind..end));
                behind = end;
            }
            self.add_row(p, band, row, first..behind, &mut tracks);
            if first != behind {
                before_last = (row, first);
            }
        }
        before_last
    }

    fn add_row(
        &mut self,
        p: &LayoutParameters,
        band: &ZoneLayout,
        row: u32,
        sectors: Range<u64>,
        tracks: &mut [Track],
    ) {
        let slips = |head| slips_pushing(p, &band.zone, row, head);
        let count = (sectors.end - sectors.start) as u32;
        let usual = |(surface, track): (u32, &Track)| {
            track.first == surface * band.usual && track.first < count && track.offset == 0 && !track.broken
        };
        let first = band.first_sector + sectors.start;
        let pushed = slips(0);
        let alike = count == 0 || ((0..).zip(tracks.iter()).all(usual) && slips(p.surfaces - 1) == pushed);
        if alike && self.rows.push_usual(first, pushed) {
            return;
        }
        for (surface, track) in (0..).zip(tracks.iter_mut()) {
            let head = head(p.mapping, p.surfaces, surface, row, band.first_cylinder + row);
            track.angle = band.skews.angle(row, surface, slips(head));
        }
        self.rows.push_odd(first, tracks);
    }

    fn add_remapped(&mut self, p: &LayoutParameters, band: &ZoneLayout, number: u16) {
        for (from, to) in band.zone.remapped() {
            let rank = band.zone.rank(from);
            if rank >= band.zone.capacity || band.zone.place(rank) != from {
                continue;
            }
            let physical = (to / band.zone.per_track) as u32;
            let (row, surface) = (physical / p.surfaces, physical % p.surfaces);
            let head = head(p.mapping, p.surfaces, surface, row, band.first_cylinder + row);
            let angle = band.skews.angle(row, surface, slips_pushing(p, &band.zone, row, head));
            let track = TrackSpan { row, surface, angle, zone: number, ..TrackSpan::default() };
            let spot = self.spot(band, &track, (to % band.zone.per_track) as u32);
            self.remapped.push((band.first_sector + rank, spot));
        }
    }

    /// Divides the sectors into equal blocks and records each one's first zone.
    fn divide(&mut self) {
        let last = self.capacity - 1;
        self.part_bits = (u64::BITS - last.leading_zeros()).saturating_sub(PARTS_BITS);
        let zone = |part: u64| {
            let begins = part << self.part_bits;
            self.zone_starts[1..].iter().filter(|&&first| first <= begins).count() as u16
        };
        self.parts = (0..=last >> self.part_bits).map(zone).collect();
    }
}

/// A track with these data sectors of its zone, without its angle; `row` is the first sector of its row.
fn unangled(band: &ZoneLayout, physical: u64, row: u64, sectors: Range<u64>) -> Track {
    let (place, per_track) = (physical * band.zone.per_track, band.zone.per_track);
    let count = sectors.end - sectors.start;
    let (mut offset, mut broken) = (0, false);
    if count > 0 && count < per_track {
        let (from, last) = (band.zone.place(sectors.start), band.zone.place(sectors.end - 1));
        (offset, broken) = ((from - place) as u16, last - from != count - 1);
    }
    Track { first: (sectors.start - row) as u32, angle: 0, offset, broken }
}

/// Number of a track in its zone, including tracks without data.
fn physical(p: &LayoutParameters, row: u32, surface: u32) -> u64 {
    u64::from(row) * u64::from(p.surfaces) + u64::from(surface)
}

/// Number of data sectors of a layout, without building it.
pub(crate) fn capacity(p: &LayoutParameters) -> Result<u64, TrackLayoutError> {
    let zones = zones(p)?.iter().map(|zone| zone.capacity).sum();
    Ok(p.indexed.as_ref().map_or(zones, |indexed| indexed.sectors))
}

/// The zones of a layout, checked. An index of runs has none.
fn zones(p: &LayoutParameters) -> Result<Vec<Zone>, TrackLayoutError> {
    check(p)?;
    if p.indexed.is_some() {
        return Ok(Vec::new());
    }
    let zones = p.zones.iter().enumerate().map(|(i, z)| zone(p, z, i)).collect::<Result<Vec<_>, _>>()?;
    if zones.iter().all(|zone| zone.capacity == 0) { Err(TrackLayoutError::Empty) } else { Ok(zones) }
}

fn zone(p: &LayoutParameters, z: &ZoneParameters, i: usize) -> Result<Zone, TrackLayoutError> {
    let zone = Zone::new(p, z).ok_or(TrackLayoutError::NoRoom(i))?;
    let limit = u64::from(z.last_cylinder - z.first_cylinder + 1) * u64::from(p.surfaces) * zone.per_track;
    let beyond = zone.remapped().iter().any(|&(from, to)| from.max(to) >= limit);
    if beyond { Err(TrackLayoutError::Beyond(i)) } else { Ok(zone) }
}

fn check(p: &LayoutParameters) -> Result<(), TrackLayoutError> {
    if p.surfaces == 0 || (p.zones.is_empty() && p.indexed.is_none()) || p.range_cylinders == 0 {
        return Err(TrackLayoutError::Empty);
    }
    let too_many = u64::from(p.cylinders) * u64::from(p.surfaces) > TRACKS_MAX;
    if too_many || p.zones.len() > usize::from(u16::MAX) || p.surfaces > u32::from(u16::MAX) {
        return Err(TrackLayoutError::TooLarge);
    }
    let mut next = 0;
    for (i, zone) in p.zones.iter().enumerate() {
        check_zone(p, zone, i, next)?;
        next = zone.last_cylinder + 1;
    }
    Ok(())
}

fn check_zone(
    p: &LayoutParameters,
    zone: &ZoneParameters,
    i: usize,
    next: u32,
) -> Result<(), TrackLayoutError> {
    let ordered = next <= zone.first_cylinder && zone.first_cylinder <= zone.last_cylinder;
    // Published files differ by one between the count and the numbering of cylinders; the zones are authoritative.
    if !ordered || zone.last_cylinder > p.cylinders {
        return Err(TrackLayoutError::Cylinders(i));
    }
    if zone.sectors_per_track == 0 || zone.sectors_per_track > u32::from(u16::MAX) {
        return Err(TrackLayoutError::SectorsPerTrack(i));
    }
    Ok(())
}
