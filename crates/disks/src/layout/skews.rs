//! The angles at which tracks begin.

use super::zone::Zone;
use super::{Turn, advance};
use crate::parameters::{Angle, LayoutParameters, Sparing, ZoneParameters};

/// A zone's offset and skews.
#[derive(Clone, Copy, Debug)]
pub(super) struct Skews {
    offset: Turn,
    track: Turn,
    cylinder: Turn,
    /// Head switches per cylinder.
    switches: u64,
    /// A sector's width.
    width: Turn,
    /// Remainder of a revolution after all sectors.
    rest: Turn,
}

impl Skews {
    pub(super) fn new(p: &LayoutParameters, z: &ZoneParameters, width: Turn, rest: Turn) -> Self {
        let turn = |angle| match angle {
            Angle::Sectors(n) => n.wrapping_mul(width),
            // A cast from a float saturates, and NaN becomes 0.
            Angle::Revolutions(r) => ((r - r.floor()) * (1_u64 << 32) as f64) as Turn,
        };
        let switches = u64::from(p.surfaces) - 1;
        let (offset, track, cylinder) = (turn(z.offset), turn(z.track_skew), turn(z.cylinder_skew));
        Self { offset, track, cylinder, switches, width, rest }
    }

    /// The angle of a track, given its row in the zone, its number in the row, and the number of slips that shift its skew.
    pub(super) fn angle(&self, row: u32, surface: u32, slips: u64) -> Turn {
        let row = u64::from(row);
        let switches = u64::from(surface) + self.switches * row;
        let angle = advance(self.offset, switches, self.track, self.rest);
        let angle = advance(angle, row, self.cylinder, self.rest);
        advance(angle, slips, self.width, self.rest)
    }
}

/// The number of slips that shift the skew of a head's track. With spares in each cylinder or track, a slip shifts all later tracks.
pub(super) fn slips_pushing(p: &LayoutParameters, zone: &Zone, row: u32, head: u32) -> u64 {
    let row_begins = u64::from(row) * u64::from(p.surfaces);
    let tracks = match p.sparing {
        Sparing::SectorsPerTrack => row_begins + u64::from(head),
        Sparing::SectorsPerCylinder
        | Sparing::SectorsPerCylinderSlipToEnd
        | Sparing::SectorsPerCylinderAtFront
        | Sparing::SectorsPerCylinderAtFrontSlipToEnd => row_begins,
        _ => return 0,
    };
    zone.slips_before(tracks * zone.per_track)
}
