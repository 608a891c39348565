//! The array's address of a member's sector, for all levels that md has and that stripe or mirror.
//!
//! [`Geometry`](super::Geometry) is the layout of modelled arrays. A `Layout` is the other direction alone: a host in front of the members
//! sees their requests and derives the array's address from them.

use elevator::{Sector, Sectors};

use super::geometry::MEMBERS_MAX;

/// RAID level and arrangement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrangement {
    /// RAID 0.
    Striped,
    /// RAID 1.
    Mirrored,
    /// RAID 5 or 6, left-symmetric (md's default): this many parity units in each row.
    Parity(u32),
    /// RAID 10 with this many near copies.
    Near(u32),
}

impl Arrangement {
    /// Minimum number of members.
    #[must_use]
    pub const fn members_min(self) -> u32 {
        match self {
            Self::Striped | Self::Mirrored => 2,
            Self::Parity(units) => units + 2,
            Self::Near(copies) => copies,
        }
    }
}

/// The arrangement's name in array specifications.
impl std::fmt::Display for Arrangement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Striped => "raid0",
            Self::Mirrored => "raid1",
            Self::Parity(1) => "raid5",
            Self::Parity(_) => "raid6",
            Self::Near(_) => "raid10",
        })
    }
}

/// A layout of members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    arrangement: Arrangement,
    members: u32,
    unit: Sectors,
    /// The first sector of data on each member.
    data_start: u64,
    /// Sectors of data on each member.
    data_sectors: u64,
}

/// Why a layout is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayLayoutError {
    /// The number of members is out of range.
    #[error("{members} members; {arrangement} takes {} to {MEMBERS_MAX}", .arrangement.members_min())]
    Members {
        /// The arrangement.
        arrangement: Arrangement,
        /// The number.
        members: u32,
    },
    /// The stripe unit is not a multiple of 4 KiB.
    #[error("a stripe unit of {0} sectors; it must be a multiple of 8 sectors (4 KiB)")]
    Unit(u32),
}

impl Layout {
    /// A layout of `members` members with data from `data_start` on. RAID 1 has no unit; any is accepted.
    ///
    /// # Errors
    /// The number of members or the unit is impossible.
    pub fn new(
        arrangement: Arrangement,
        members: u32,
        unit: Sectors,
        data_start: u64,
        data_sectors: u64,
    ) -> Result<Self, ArrayLayoutError> {
        if !(arrangement.members_min()..=MEMBERS_MAX).contains(&members) {
            return Err(ArrayLayoutError::Members { arrangement, members });
        }
        if arrangement != Arrangement::Mirrored && (unit.0 == 0 || !unit.0.is_multiple_of(8)) {
            return Err(ArrayLayoutError::Unit(unit.0));
        }
        let unit = Sectors(unit.0.max(8));
        Ok(Self { arrangement, members, unit, data_start, data_sectors })
    }

    /// The arrangement.
    #[must_use]
    pub const fn arrangement(&self) -> Arrangement {
        self.arrangement
    }

    /// Number of members.
    #[must_use]
    pub const fn members(&self) -> u32 {
        self.members
    }

    /// The stripe unit.
    #[must_use]
    pub const fn unit(&self) -> Sectors {
        self.unit
    }

    /// The first sector of data on each member.
    #[must_use]
    pub const fn data_start(&self) -> Sector {
        Sector(self.data_start)
    }

    /// The array's sector at a sector of a member. Parity counts as the first data of its row. What lies outside of the data, as md's
    /// superblock, is mapped behind the array's end.
    ///
    /// # Panics
    /// If there is no such member.
    #[must_use]
    pub fn logical(&self, member: u32, sector: Sector) -> Sector {
        assert!(member < self.members, "member {member} of {}", self.members);
        let inside = sector.0.checked_sub(self.data_start).filter(|&inside| inside < self.data_sectors);
        let Some(inside) = inside else { return self.behind(sector) };
        let (unit, members) = (u64::from(self.unit.0), u64::from(self.members));
        let (row, offset, member) = (inside / unit, inside % unit, u64::from(member));
        let number = match self.arrangement {
            Arrangement::Mirrored => return Sector(inside),
            Arrangement::Striped => row.saturating_mul(members) + member,
            Arrangement::Parity(units) => {
                let units = u64::from(units);
                let first_parity = members - 1 - row % members;
                // Members in the order of the row: the parity units, then the data.
                let place = (member + members - first_parity) % members;
                let Some(index) = place.checked_sub(units) else {
                    return Sector(row.saturating_mul(members - units).saturating_mul(unit));
                };
                row.saturating_mul(members - units) + index
            }
            Arrangement::Near(copies) => (row.saturating_mul(members) + member) / u64::from(copies.max(1)),
        };
        Sector(number.saturating_mul(unit).saturating_add(offset))
    }

    fn behind(&self, sector: Sector) -> Sector {
        Sector(self.data_sectors.saturating_mul(u64::from(self.members)).saturating_add(sector.0))
    }
}

/// As in specifications.
impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} members", self.arrangement, self.members)?;
        if self.arrangement == Arrangement::Mirrored {
            return Ok(());
        }
        write!(f, ", stripe unit {} KiB", self.unit.bytes() >> 10)
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::{Geometry, Level, MemberSector};
    use super::*;

    const UNIT: Sectors = Sectors(128);

    fn layout(arrangement: Arrangement, members: u32) -> Layout {
        Layout::new(arrangement, members, UNIT, 2048, 1 << 20).unwrap()
    }

    #[test]
    fn data_is_where_the_model_has_it() {
        for (level, arrangement) in
            [(Level::Raid0, Arrangement::Striped), (Level::Raid5, Arrangement::Parity(1))]
        {
            let geometry = Geometry::new(level, 5, UNIT, Sector(1 << 20));
            let layout = layout(arrangement, 5);
            for logical in (0..200_000).step_by(61) {
                let MemberSector { member, sector } = geometry.place(Sector(logical));
                assert_eq!(layout.logical(member, sector + Sectors(2048)), Sector(logical));
            }
        }
    }

    #[test]
    fn parity_is_at_the_start_of_its_row_and_metadata_behind_the_end() {
        let layout = layout(Arrangement::Parity(1), 3);
        assert_eq!(layout.logical(2, Sector(2048 + 5)), Sector(0), "row 0 has its parity on the last member");
        assert_eq!(layout.logical(1, Sector(2048 + 128 + 5)), Sector(256));
        assert!(layout.logical(0, Sector(8)) > Sector(2 << 20));
    }

    /// `raid5_compute_sector` of Linux: in row 0 of `left-symmetric` on 5 members, P is on member 4, Q on 0, data on 1, 2, 3.
    #[test]
    fn two_parity_units_precede_the_data() {
        let layout = layout(Arrangement::Parity(2), 5);
        let at = |member, row: u64| layout.logical(member, Sector(2048 + row * 128)).0 / 128;
        assert_eq!([at(1, 0), at(2, 0), at(3, 0)], [0, 1, 2]);
        // Row 1: P on 3, Q on 4.
        assert_eq!([at(0, 1), at(1, 1), at(2, 1)], [3, 4, 5]);
        assert_eq!([at(3, 1), at(4, 1)], [3, 3]);
    }

    #[test]
    fn copies_have_the_same_address() {
        let ten = layout(Arrangement::Near(2), 4);
        let at = |member, row: u64| ten.logical(member, Sector(2048 + row * 128 + 7)).0;
        assert_eq!([at(0, 0), at(1, 0), at(2, 0), at(3, 0), at(0, 1)], [7, 7, 135, 135, 263]);
        let one = layout(Arrangement::Mirrored, 2);
        assert_eq!(one.logical(0, Sector(5000)), one.logical(1, Sector(5000)));
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let make = |arrangement, members, unit| {
            Layout::new(arrangement, members, Sectors(unit), 0, 8).map_err(|error| error.to_string())
        };
        assert_eq!(make(Arrangement::Parity(1), 2, 8).unwrap_err(), "2 members; raid5 takes 3 to 384");
        assert!(make(Arrangement::Striped, 2, 12).unwrap_err().contains("multiple of 8 sectors"));
        assert!(make(Arrangement::Mirrored, 2, 0).is_ok(), "mirrors have no unit");
    }
}
