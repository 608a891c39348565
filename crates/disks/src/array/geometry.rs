//! The layout of an array: stripes, units, and the rotation of parity.

use elevator::{Sector, Sectors};

/// RAID level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Level {
    /// Striping without redundancy.
    Raid0,
    /// Striping with one parity unit in each row, rotated left-symmetrically, md's default.
    Raid5,
}

impl Level {
    /// Minimum number of members.
    #[must_use]
    pub const fn members_min(self) -> u32 {
        match self {
            Self::Raid0 => 2,
            Self::Raid5 => 3,
        }
    }
}

/// The level's name in array specifications.
impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Raid0 => "raid0",
            Self::Raid5 => "raid5",
        })
    }
}

/// Maximum number of members; md's limit for its usual metadata has the same order.
pub const MEMBERS_MAX: u32 = 384;

/// A sector of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberSector {
    /// The member, from 0.
    pub member: u32,
    /// The sector on the member.
    pub sector: Sector,
}

/// A range of the array that lies in one unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First sector in the array.
    pub logical: Sector,
    /// The corresponding sector of a member.
    pub place: MemberSector,
    /// Its length.
    pub sectors: Sectors,
}

/// The layout of an array.
///
/// Unit `u` lies in row `u / data members`. In RAID 5, row `r` has its parity on member `members - 1 - r % members`; its data units
/// begin on the member behind and wrap around (left-symmetric). Consecutive units are always on different members, so that a long
/// read uses every member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    level: Level,
    members: u32,
    unit: Sectors,
    rows: u64,
}

impl Geometry {
    /// An array of `members` drives of at least `member_capacity` sectors, with stripe unit `unit`. The last sectors of a member that
    /// do not fill a unit are unused.
    ///
    /// # Panics
    /// If there are fewer members than the level needs, or `unit` is zero. [`ArrayDescription`](super::ArrayDescription) returns an
    /// error for such arrays.
    #[must_use]
    pub fn new(level: Level, members: u32, unit: Sectors, member_capacity: Sector) -> Self {
        assert!(members >= level.members_min() && unit > Sectors::ZERO, "no such array");
        Self { level, members, unit, rows: member_capacity.0 / u64::from(unit.0) }
    }

    /// RAID level.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
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

    /// Data units in a row.
    #[must_use]
    pub const fn data_members(&self) -> u32 {
        match self.level {
            Level::Raid0 => self.members,
            Level::Raid5 => self.members - 1,
        }
    }

    /// Data sectors in a row (a full stripe).
    #[must_use]
    pub fn stripe(&self) -> u64 {
        u64::from(self.data_members()) * u64::from(self.unit.0)
    }

    /// Size in sectors.
    #[must_use]
    pub fn capacity(&self) -> Sector {
        Sector(self.rows * self.stripe())
    }

    /// The member with a row's parity; `None` without parity.
    #[must_use]
    pub fn parity(&self, row: u64) -> Option<u32> {
        let rotated = (row % u64::from(self.members)) as u32;
        (self.level == Level::Raid5).then_some(self.members - 1 - rotated)
    }

    /// The member with the `index`-th data unit of a row.
    #[must_use]
    pub fn data(&self, row: u64, index: u32) -> u32 {
        match self.parity(row) {
            None => index,
            Some(parity) => (parity + 1 + index) % self.members,
        }
    }

    /// The member and sector of a sector of the array.
    #[must_use]
    pub fn place(&self, logical: Sector) -> MemberSector {
        let unit = u64::from(self.unit.0);
        let (number, offset) = (logical.0 / unit, logical.0 % unit);
        let data_members = u64::from(self.data_members());
        let (row, index) = (number / data_members, (number % data_members) as u32);
        MemberSector { member: self.data(row, index), sector: Sector(row * unit + offset) }
    }

    /// The array's sector at a sector of a member; `None` for parity and unused sectors.
    #[must_use]
    pub fn logical(&self, place: MemberSector) -> Option<Sector> {
        let unit = u64::from(self.unit.0);
        let (row, offset) = (place.sector.0 / unit, place.sector.0 % unit);
        if row >= self.rows || place.member >= self.members {
            return None;
        }
        let index = match self.parity(row) {
            None => place.member,
            Some(parity) if parity == place.member => return None,
            Some(parity) => (place.member + self.members - parity - 1) % self.members,
        };
        Some(Sector(row * self.stripe() + u64::from(index) * unit + offset))
    }

    /// Divides a range of the array at unit boundaries.
    pub fn pieces(&self, start: Sector, sectors: Sectors) -> impl Iterator<Item = Piece> + use<> {
        let (geometry, end) = (*self, start + sectors);
        let mut at = start;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let logical = at;
            let unit = u64::from(geometry.unit.0);
            at = end.min(Sector((logical.0 / unit + 1) * unit));
            let sectors = Sectors((at.0 - logical.0) as u32);
            Some(Piece { logical, place: geometry.place(logical), sectors })
        })
    }
}
