//! Locations of bitmaps and inode tables, as `mke2fs` lays them out.

use super::super::options::{Ext, MakeError};
use super::super::space::{GROUP, Space};
use super::super::types::BLOCK_BYTES;

/// Bytes of a group descriptor.
const DESCRIPTOR_BYTES: u32 = 32;

/// Fewest data blocks of a short last group; `mke2fs` drops smaller ones.
const LAST_GROUP_MIN: u32 = 50;

/// Metadata of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) block_bitmap: u32,
    pub(super) inode_bitmap: u32,
    pub(super) inode_table: u32,
}

/// Values common to all groups.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub(super) inodes_per_group: u32,
    pub(super) inodes_per_block: u32,
    /// Blocks of superblock and group descriptors.
    descriptors: u32,
    places: Vec<Place>,
}

impl Geometry {
    /// Lays out the metadata of a file system of at most `blocks` blocks, and marks it used in the returned bitmap.
    pub(super) fn new(options: &Ext, blocks: u64) -> Result<(Self, Space), MakeError> {
        check(options)?;
        let inodes_per_block = BLOCK_BYTES as u32 / options.inode_bytes;
        let wanted = (u64::from(GROUP) * BLOCK_BYTES / u64::from(options.bytes_per_inode)) as u32;
        let inodes_per_group = wanted.clamp(inodes_per_block, GROUP).next_multiple_of(inodes_per_block);
        let table = inodes_per_group / inodes_per_block;
        let blocks = u32::try_from(blocks).map_err(|_| MakeError::TooLarge { blocks })?;
        let blocks = without_short_group(blocks, table);
        let groups = blocks.div_ceil(GROUP);
        let mut space = Space::new(blocks);
        let descriptors = 1 + (groups * DESCRIPTOR_BYTES).div_ceil(BLOCK_BYTES as u32);
        let too_small = || MakeError::TooSmall {
            blocks: u64::from(blocks),
            needs: u64::from(descriptors + 2 + table + LAST_GROUP_MIN),
        };
        if groups == 0 {
            return Err(too_small());
        }
        for group in (0..groups).filter(|&g| has_superblock(g)) {
            let first = group * GROUP;
            if first + descriptors > blocks {
                return Err(too_small());
            }
            space.take(first, descriptors);
        }
        let mut places = Vec::with_capacity(groups as usize);
        for first in (0..groups).step_by(options.flex_groups as usize) {
            let n = options.flex_groups.min(groups - first);
            let mut take = |n: u32| {
                let end = space.group_end(first + options.flex_groups.min(groups - first) - 1);
                let at = space.find_run(first * GROUP, end, n).ok_or_else(too_small)?;
                space.take(at, n);
                Ok(at)
            };
            let (block_bitmaps, inode_bitmaps) = (take(n)?, take(n)?);
            for i in 0..n {
                let inode_table = take(table)?;
                places.push(Place {
                    block_bitmap: block_bitmaps + i,
                    inode_bitmap: inode_bitmaps + i,
                    inode_table,
                });
            }
        }
        Ok((Self { inodes_per_group, inodes_per_block, descriptors, places }, space))
    }

    pub(super) fn groups(&self) -> u32 {
        self.places.len() as u32
    }

    pub(super) fn place(&self, group: u32) -> &Place {
        &self.places[group as usize]
    }

    /// The block of a group's descriptor; 128 groups share a block.
    pub(super) fn descriptor(&self, group: u32) -> u32 {
        1 + group * DESCRIPTOR_BYTES / BLOCK_BYTES as u32
    }

    pub(super) fn own_blocks(&self, report: &mut dyn FnMut(u32, u32)) {
        for (group, place) in (0..).zip(&self.places) {
            if has_superblock(group) {
                report(group * GROUP, self.descriptors);
            }
            report(place.block_bitmap, 1);
            report(place.inode_bitmap, 1);
            report(place.inode_table, self.table_blocks());
        }
    }

    /// Blocks of an inode table.
    pub(super) fn table_blocks(&self) -> u32 {
        self.inodes_per_group / self.inodes_per_block
    }

    /// The group whose inode table contains a block.
    pub(super) fn table_of(&self, at: u32) -> Option<u32> {
        let group = self.places.partition_point(|place| place.inode_table <= at).checked_sub(1)?;
        (at - self.places[group].inode_table < self.table_blocks()).then_some(group as u32)
    }

    /// The inode-table block of the `index`-th inode of a group.
    pub(super) fn inode_block(&self, group: u32, index: u32) -> u32 {
        self.place(group).inode_table + index / self.inodes_per_block
    }
}

/// Groups 0, 1 and powers of 3, 5 and 7 contain copies of superblock and descriptors (`sparse_super`).
pub(super) fn has_superblock(group: u32) -> bool {
    let power_of = |base: u32| {
        let mut rest = group;
        while rest > 1 && rest.is_multiple_of(base) {
            rest /= base;
        }
        rest == 1
    };
    group <= 1 || power_of(3) || power_of(5) || power_of(7)
}

fn without_short_group(blocks: u32, table: u32) -> u32 {
    let rest = blocks % GROUP;
    if blocks > GROUP && rest < table + 2 + LAST_GROUP_MIN { blocks - rest } else { blocks }
}

fn check(options: &Ext) -> Result<(), MakeError> {
    let bad =
        |field, value: u32, expected| Err(MakeError::Field { field, value: u64::from(value), expected });
    if !options.inode_bytes.is_power_of_two() || !(128..=4096).contains(&options.inode_bytes) {
        return bad("inode-bytes", options.inode_bytes, "a power of two from 128 to 4096");
    }
    if !(1024..=1 << 26).contains(&options.bytes_per_inode) {
        return bad("bytes-per-inode", options.bytes_per_inode, "from 1024 to 67108864");
    }
    if !(1..=1024).contains(&options.colours) {
        return bad("colours", options.colours, "from 1 to 1024");
    }
    if options.inode_ahead_blocks != 0 && !options.inode_ahead_blocks.is_power_of_two() {
        return bad("inode-ahead-blocks", options.inode_ahead_blocks, "0 or a power of two");
    }
    if !(1..=64).contains(&options.flex_groups) {
        return bad("flex-groups", options.flex_groups, "from 1 to 64");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_the_superblock() {
        let with: Vec<u32> = (0..130).filter(|&g| has_superblock(g)).collect();
        assert_eq!(with, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    }

    #[test]
    fn a_group_of_its_own() {
        let (geometry, space) = Geometry::new(&Ext::default(), 10 * u64::from(GROUP)).unwrap();
        // Group 0: superblock, one block of descriptors, two bitmaps, a table of 16384 inodes of 128 bytes.
        assert_eq!(geometry.table_blocks(), 512);
        let place = geometry.place(0);
        assert_eq!((place.block_bitmap, place.inode_bitmap, place.inode_table), (2, 3, 4));
        // Group 2 has no copy of the superblock.
        assert_eq!(geometry.place(2).block_bitmap, 2 * GROUP);
        assert_eq!(space.free_in(2), GROUP - 514);
        assert_eq!(geometry.inode_block(2, 33), 2 * GROUP + 2 + 1);
    }

    #[test]
    fn flexible_groups_lie_together() {
        let (geometry, space) = Geometry::new(&Ext::ext4(), 40 * u64::from(GROUP)).unwrap();
        let at = |g: u32| geometry.place(g).inode_table;
        // Two tables would end 2048 blocks later in group 0: superblock, descriptors, 32 bitmaps.
        assert_eq!((at(0), at(1), at(15)), (34, 34 + 512, 34 + 15 * 512));
        assert_eq!(at(16), 16 * GROUP + 32);
        assert_eq!(space.free_in(2), GROUP);
    }

    #[test]
    fn a_short_last_group_is_dropped() {
        let (geometry, space) = Geometry::new(&Ext::default(), u64::from(2 * GROUP + 500)).unwrap();
        assert_eq!((geometry.groups(), space.blocks()), (2, 2 * GROUP));
        for few in [0, 1, 100] {
            assert!(matches!(Geometry::new(&Ext::default(), few), Err(MakeError::TooSmall { .. })));
        }
        assert!(matches!(Geometry::new(&Ext::default(), 1 << 33), Err(MakeError::TooLarge { .. })));
        let odd = Ext { inode_bytes: 200, ..Ext::default() };
        assert!(matches!(Geometry::new(&odd, 1 << 20), Err(MakeError::Field { field: "inode-bytes", .. })));
    }
}
