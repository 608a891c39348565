//! One zone: the position of its n-th data sector under each sparing scheme.
//!
//! All schemes share one structure with different sizes. The zone is divided into units (a track, a cylinder, a range of cylinders,
//! or the whole zone). A fixed part of each unit holds data, the rest is spare, and slips shift the following sectors towards the
//! unit's end. In "slip to end" schemes slips shift all following sectors of the zone.

use super::slips::{Remaps, Slips};
use crate::parameters::{LayoutParameters, Sparing, ZoneParameters};

/// A zone with its derived numbers.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    /// Sectors on a track.
    pub(super) per_track: u64,
    /// Sectors of data in the zone.
    pub(super) capacity: u64,
    reserved: u64,
    unit: Unit,
    slips: Slips,
    /// The slips by their position on the tracks, if `slips` counts only sectors that hold data.
    on_tracks: Option<Slips>,
    /// Slips and remaps count tracks.
    by_track: bool,
    remaps: Remaps,
}

/// The unit that shares spares.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// Sectors, including spares.
    size: u64,
    /// Sectors that hold data.
    data: u64,
    /// Spares at the unit's front.
    front: u64,
    /// Slips shift all following sectors of the zone, not only of the unit.
    slips_through: bool,
}

impl Zone {
    /// `None` if the spares leave no room for data.
    pub(super) fn new(layout: &LayoutParameters, zone: &ZoneParameters) -> Option<Self> {
        let cylinders = u64::from(zone.last_cylinder - zone.first_cylinder) + 1;
        let per_track = u64::from(zone.sectors_per_track);
        let tracks = cylinders * u64::from(layout.surfaces);
        let by_track = layout.sparing == Sparing::Tracks;
        let scale = if by_track { per_track } else { 1 };
        let total = tracks * per_track;
        let unit = Unit::new(layout, zone, total / scale)?;
        let places = || zone.slips.iter().map(|&slip| u64::from(slip));
        let slips = Slips::new(places().map(|place| unit.slip_place(place)));
        let on_tracks = unit.slips_through.then(|| Slips::new(places()));
        let spare = unit.spare(layout, zone, cylinders) + unit.slip_loss(layout.sparing, slips.len());
        let capacity = total.checked_sub(spare * scale + u64::from(zone.reserved_sectors))?;
        let remaps = Remaps::new(&zone.remaps);
        Some(Self {
            per_track,
            capacity,
            reserved: u64::from(zone.reserved_sectors),
            unit,
            slips,
            on_tracks,
            by_track,
            remaps,
        })
    }

    /// The position of the `n`-th data sector, in sectors from the zone's start, ignoring remaps.
    pub(super) fn place(&self, n: u64) -> u64 {
        let n = n + self.reserved;
        if self.by_track {
            let (track, sector) = (n / self.per_track, n % self.per_track);
            return self.slips.nth_good(0, track) * self.per_track + sector;
        }
        self.unit.place(&self.slips, n)
    }

    /// Number of data sectors before `place`: the inverse of [`place`](Self::place) at data sectors.
    pub(super) fn rank(&self, place: u64) -> u64 {
        let before =
            if self.by_track { self.rank_by_track(place) } else { self.unit.rank(&self.slips, place) };
        before.saturating_sub(self.reserved).min(self.capacity)
    }

    fn rank_by_track(&self, place: u64) -> u64 {
        let (track, sector) = (place / self.per_track, place % self.per_track);
        let good = self.slips.good_between(0, track);
        let slipped = self.slips.before(track + 1) != self.slips.before(track);
        good * self.per_track + if slipped { 0 } else { sector }
    }

    /// Defective sectors and the position of their data.
    pub(super) fn remapped(&self) -> Vec<(u64, u64)> {
        let scale = if self.by_track { self.per_track } else { 1 };
        let each = move |(from, to): (u64, u64)| (0..scale).map(move |s| (from * scale + s, to * scale + s));
        self.remaps.places().flat_map(each).collect()
    }

    /// Data sectors on a track without slips and without spares other than its own.
    pub(super) fn usual_track(&self) -> u32 {
        let own_spares = !self.by_track && self.unit.size == self.per_track;
        (if own_spares { self.unit.data } else { self.per_track }) as u32
    }

    /// Number of slips before `place`; 0 if slips count tracks.
    pub(super) fn slips_before(&self, place: u64) -> u64 {
        if self.by_track { 0 } else { self.on_tracks.as_ref().unwrap_or(&self.slips).before(place) }
    }
}

impl Unit {
    fn new(layout: &LayoutParameters, zone: &ZoneParameters, total: u64) -> Option<Self> {
        let track = u64::from(zone.sectors_per_track);
        let cylinder = track * u64::from(layout.surfaces);
        let spares = u64::from(zone.spares);
        let (size, front, slips_through) = match layout.sparing {
            Sparing::None | Sparing::Tracks | Sparing::SectorsPerZone | Sparing::SectorsPerZoneSlipToEnd => {
                (total, 0, false)
            }
            Sparing::SectorsPerTrack => (track, 0, false),
            Sparing::SectorsPerCylinder => (cylinder, 0, false),
            Sparing::SectorsPerCylinderSlipToEnd | Sparing::SectorsAtEnd => (cylinder, 0, true),
            Sparing::SectorsPerCylinderAtFront => (cylinder, spares, false),
            Sparing::SectorsPerCylinderAtFrontSlipToEnd => (cylinder, spares, true),
            Sparing::SectorsPerRange => (cylinder * u64::from(layout.range_cylinders), 0, false),
        };
        // The zone's capacity limits a unit of a whole zone, the drive's last sector that of `SectorsAtEnd`; spares lie behind.
        let whole = size == total || layout.sparing == Sparing::SectorsAtEnd;
        let data = if whole { size } else { size.checked_sub(spares).filter(|&d| d > 0)? };
        Some(Self { size, data, front, slips_through })
    }

    /// Slips that shift all following sectors are counted among data sectors.
    fn slip_place(&self, place: u64) -> u64 {
        if !self.slips_through {
            return place;
        }
        let in_unit = (place % self.size).saturating_sub(self.front).min(self.data - 1);
        place / self.size * self.data + in_unit
    }

    fn place(&self, slips: &Slips, n: u64) -> u64 {
        if self.slips_through {
            let good = slips.nth_good(0, n);
            return good / self.data * self.size + self.front + good % self.data;
        }
        let (unit, offset) = (n / self.data, n % self.data);
        slips.nth_good(unit * self.size, self.unused(slips, unit) + offset)
    }

    /// Good sectors that remain unused at the front of a unit, whose data extends to its end.
    fn unused(&self, slips: &Slips, unit: u64) -> u64 {
        if self.front == 0 {
            return 0;
        }
        slips.good_between(unit * self.size, (unit + 1) * self.size).saturating_sub(self.data)
    }

    fn rank(&self, slips: &Slips, place: u64) -> u64 {
        let (unit, offset) = (place / self.size, place % self.size);
        if self.slips_through {
            let offset = offset.saturating_sub(self.front);
            return slips.good_between(0, unit * self.data + offset.min(self.data));
        }
        let base = unit * self.size;
        let good = slips.good_between(base, base + offset).saturating_sub(self.unused(slips, unit));
        unit * self.data + good.min(self.data)
    }

    /// Spare sectors (or tracks) of the zone. An incomplete last range has no spares, as in DiskSim.
    fn spare(&self, layout: &LayoutParameters, zone: &ZoneParameters, cylinders: u64) -> u64 {
        let spares = u64::from(zone.spares);
        match layout.sparing {
            Sparing::None | Sparing::SectorsAtEnd => 0,
            Sparing::Tracks | Sparing::SectorsPerZone | Sparing::SectorsPerZoneSlipToEnd => spares,
            Sparing::SectorsPerTrack => spares * cylinders * u64::from(layout.surfaces),
            Sparing::SectorsPerRange => spares * (cylinders / u64::from(layout.range_cylinders)),
            _ => spares * cylinders,
        }
    }

    /// Capacity lost to slips that are not taken from the spares.
    fn slip_loss(&self, sparing: Sparing, slips: u64) -> u64 {
        let lost = self.slips_through || sparing == Sparing::SectorsPerZoneSlipToEnd;
        if lost { slips } else { 0 }
    }
}
