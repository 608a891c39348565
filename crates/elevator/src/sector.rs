//! Positions on a device and amounts of data, in sectors of 512 bytes.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// Bytes in a sector. This is the block layer's unit, whatever the device's block size.
pub const SECTOR_BYTES: u64 = 512;

/// A position on a device: the number of a 512-byte sector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sector(pub u64);

/// An amount of data: a count of 512-byte sectors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sectors(pub u32);

impl Sector {
    /// The distance in sectors, in either direction.
    #[must_use]
    pub const fn distance(self, other: Self) -> u64 {
        self.0.abs_diff(other.0)
    }

    /// The byte offset of the sector's first byte.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0 * SECTOR_BYTES
    }
}

impl Sectors {
    /// No data.
    pub const ZERO: Self = Self(0);

    /// The amount that holds `bytes`, rounded up to whole sectors and capped at `u32::MAX` sectors.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        let n = bytes.div_ceil(SECTOR_BYTES);
        Self(if n > u32::MAX as u64 { u32::MAX } else { n as u32 })
    }

    /// Its size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0 as u64 * SECTOR_BYTES
    }
}

impl Add<Sectors> for Sector {
    type Output = Self;
    fn add(self, n: Sectors) -> Self {
        Self(self.0.saturating_add(u64::from(n.0)))
    }
}

impl Sub<Sectors> for Sector {
    type Output = Self;
    fn sub(self, n: Sectors) -> Self {
        Self(self.0.saturating_sub(u64::from(n.0)))
    }
}

impl Add for Sectors {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Sectors {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Debug for Sector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Sector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Sectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{}", self.0)
    }
}

impl fmt::Display for Sectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
