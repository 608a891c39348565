//! The log area: a superblock and a ring of blocks.

use crate::kernel::fs::{Block, Extent};

/// Entries of a revocation block: 4080 bytes of 4 each.
const REVOKES_PER_BLOCK: u32 = 1020;

/// The ring. Positions only increase; a position's block is its remainder.
#[derive(Clone, Debug)]
pub(super) struct Log {
    superblock: Block,
    first: Block,
    blocks: u64,
    /// Position of the next record.
    pub(super) head: u64,
    /// Position at which a replay starts according to the superblock; the range from here to `head` must not be overwritten.
    pub(super) tail: u64,
}

impl Log {
    pub(super) fn new(area: Extent) -> Self {
        let blocks = u64::from(area.blocks.saturating_sub(1)).max(1);
        Self { superblock: area.start, first: area.start.plus(1), blocks, head: 0, tail: 0 }
    }

    pub(super) fn superblock(&self) -> Extent {
        Extent { start: self.superblock, blocks: 1 }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(super) fn room(&self) -> u64 {
        self.blocks - (self.head - self.tail)
    }

    /// Allocates the next `n` blocks: one extent, or two at the ring's end.
    pub(super) fn take(&mut self, n: u32) -> Vec<Extent> {
        debug_assert!(u64::from(n) <= self.room(), "the log was written over");
        let at = self.head % self.blocks;
        self.head += u64::from(n);
        let straight = u64::from(n).min(self.blocks - at) as u32;
        let mut extents = Vec::with_capacity(2);
        for (at, blocks) in [(at, straight), (0, n - straight)] {
            if blocks > 0 {
                extents.push(Extent { start: self.first.plus(at), blocks });
            }
        }
        extents
    }
}

/// Blocks needed for this many revocations.
pub(super) fn revoke_blocks(revoked: usize) -> u32 {
    (revoked as u32).div_ceil(REVOKES_PER_BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_closes() {
        let mut log = Log::new(Extent { start: Block(100), blocks: 11 });
        assert_eq!(log.take(7), [Extent { start: Block(101), blocks: 7 }]);
        assert_eq!(log.room(), 3);
        log.tail = 5;
        let expected = [Extent { start: Block(108), blocks: 3 }, Extent { start: Block(101), blocks: 2 }];
        assert_eq!(log.take(5), expected);
        assert_eq!(log.room(), 3);
    }
}
