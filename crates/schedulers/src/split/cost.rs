//! What a request costs, in byte equivalents: a seek is worth the bytes that could have been transferred meanwhile.
//!
//! *Source*: the simple disk model of the split-level schedulers: a request costs its size and the distance from the one
//! before it, but no more than 2 MiB for the distance.

use elevator::{SECTOR_BYTES, Sector, Sectors};

/// The longest seek, in byte equivalents: about 20 ms at 100 MB/s. Larger: random work is charged more.
pub const LONGEST_SEEK: u64 = 2 << 20;

/// The price of a seek over so many bytes of address space.
#[must_use]
pub const fn seek(distance: u64) -> u64 {
    if distance < LONGEST_SEEK { distance } else { LONGEST_SEEK }
}

/// Follows the head.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head {
    at: Option<Sector>,
}

impl Head {
    /// Nowhere yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { at: None }
    }

    /// What it costs to go to `start` and transfer `sectors`, in byte equivalents; the head is there afterwards. The first
    /// request is charged no seek.
    pub fn moves(&mut self, start: Sector, sectors: Sectors) -> u64 {
        let distance = self.at.map_or(0, |at| at.distance(start).saturating_mul(SECTOR_BYTES));
        self.at = Some(start + sectors);
        seek(distance) + sectors.bytes()
    }
}
