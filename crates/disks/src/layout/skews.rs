//! Where tracks begin.

use super::{Band, Turn, advance, head};
use crate::parameters::{Angle, LayoutParameters, Sparing, ZoneParameters};

/// What decides where a zone's tracks begin.
pub(super) struct Skews<'a> {
    pub(super) p: &'a LayoutParameters,
    pub(super) z: &'a ZoneParameters,
    pub(super) band: &'a Band,
}

impl Skews<'_> {
    /// Where the zone's track of that number, in order of sectors, begins.
    pub(super) fn angle(&self, physical: u64) -> Turn {
        let Self { p, z, band } = self;
        let surfaces = u64::from(p.surfaces);
        let (row, surface) = (physical / surfaces, physical % surfaces);
        let cylinder = z.first_cylinder + row as u32;
        let head = u64::from(head(p.mapping, p.surfaces, surface as u32, row as u32, cylinder));
        let switches = surface + (u64::from(p.surfaces) - 1) * row;
        let angle = self.turn(z.offset);
        let angle = advance(angle, switches, self.turn(z.track_skew), band.rest);
        let angle = advance(angle, row, self.turn(z.cylinder_skew), band.rest);
        advance(angle, self.slips_pushed(row, head), band.width, band.rest)
    }

    /// With spares in each cylinder or track, a slip pushes the skew of all tracks behind it.
    fn slips_pushed(&self, row: u64, head: u64) -> u64 {
        let tracks = match self.p.sparing {
            Sparing::SectorsPerTrack => row * u64::from(self.p.surfaces) + head,
            Sparing::SectorsPerCylinder
            | Sparing::SectorsPerCylinderSlipToEnd
            | Sparing::SectorsPerCylinderAtFront
            | Sparing::SectorsPerCylinderAtFrontSlipToEnd => row * u64::from(self.p.surfaces),
            _ => return 0,
        };
        self.band.zone.slips_before(tracks * self.band.zone.per_track)
    }

    fn turn(&self, angle: Angle) -> Turn {
        match angle {
            Angle::Sectors(n) => n.wrapping_mul(self.band.width),
            // A cast from a float saturates, and NaN becomes 0.
            Angle::Revolutions(r) => ((r - r.floor()) * (1_u64 << 32) as f64) as Turn,
        }
    }
}
