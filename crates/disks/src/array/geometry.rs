//! Where a sector of an array lies: stripes, units, and the rotation of parity.

use elevator::{Sector, Sectors};

/// How data is laid over the members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Striped, nothing to spare.
    Raid0,
    /// Striped with one unit of parity in each row, rotated left-symmetrically, as md does by default.
    Raid5,
}

impl Level {
    /// Fewest members.
    #[must_use]
    pub const fn members_min(self) -> u32 {
        match self {
            Self::Raid0 => 2,
            Self::Raid5 => 3,
        }
    }
}

/// As an array's name has it.
impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Raid0 => "raid0",
            Self::Raid5 => "raid5",
        })
    }
}

/// Most members; md's bound for its usual metadata is of the same order.
pub const MEMBERS_MAX: u32 = 384;

/// A sector of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberSector {
    /// Which member, from 0.
    pub member: u32,
    /// Which of its sectors.
    pub sector: Sector,
}

/// A stretch of the array that lies in one unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Its first sector in the array.
    pub logical: Sector,
    /// Where that lies.
    pub place: MemberSector,
    /// Its length.
    pub sectors: Sectors,
}

/// The shape of an array.
///
/// Unit `u` of the array lies in row `u / data members`. In RAID 5, row `r` has its parity on member
/// `members - 1 - r % members`, and its data units follow behind that member, round to it again (left-symmetric): so
/// units one behind the other are always on different members, and a long read moves every head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    level: Level,
    members: u32,
    unit: Sectors,
    rows: u64,
}

impl Geometry {
    /// The array of `members` drives of at least `member_capacity` each, striped by `unit`; a member's last sectors that
    /// fill no unit are not used.
    ///
    /// # Panics
    /// If there are fewer members than the level needs, or a unit has no sectors. [`ArrayDescription`](super::ArrayDescription)
    /// refuses such arrays with a word.
    #[must_use]
    pub fn new(level: Level, members: u32, unit: Sectors, member_capacity: Sector) -> Self {
        assert!(members >= level.members_min() && unit > Sectors::ZERO, "no such array");
        Self { level, members, unit, rows: member_capacity.0 / u64::from(unit.0) }
    }

    /// How data is laid out.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// How many members.
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

    /// Data sectors in a row: a full stripe.
    #[must_use]
    pub fn stripe(&self) -> u64 {
        u64::from(self.data_members()) * u64::from(self.unit.0)
    }

    /// Its size in sectors.
    #[must_use]
    pub fn capacity(&self) -> Sector {
        Sector(self.rows * self.stripe())
    }

    /// The member that holds a row's parity, if there is parity.
    #[must_use]
    pub fn parity(&self, row: u64) -> Option<u32> {
        let rotated = (row % u64::from(self.members)) as u32;
        (self.level == Level::Raid5).then_some(self.members - 1 - rotated)
    }

    /// The member that holds the `index`-th data unit of a row.
    #[must_use]
    pub fn data(&self, row: u64, index: u32) -> u32 {
        match self.parity(row) {
            None => index,
            Some(parity) => (parity + 1 + index) % self.members,
        }
    }

    /// Where a sector of the array lies.
    #[must_use]
    pub fn place(&self, logical: Sector) -> MemberSector {
        let unit = u64::from(self.unit.0);
        let (number, offset) = (logical.0 / unit, logical.0 % unit);
        let data_members = u64::from(self.data_members());
        let (row, index) = (number / data_members, (number % data_members) as u32);
        MemberSector { member: self.data(row, index), sector: Sector(row * unit + offset) }
    }

    /// The sector of the array that lies there; `None` for parity and for what is not used.
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

    /// A stretch of the array, cut at the ends of units.
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
