//! Placement of new directories: the old policy and the Orlov policy.
//!
//! Sources: `fs/ext2/ialloc.c` of Linux 2.6; the announcement of the Orlov allocator in November 2002.

use elevator::Random;

use super::super::space::{GROUP, Space};
use super::Groups;
use crate::kernel::Errno;

/// Expected blocks of a directory's files (`BLOCK_COST`).
const BLOCK_COST: u64 = 256;
/// Expected inodes of a directory's files (`INODE_COST`).
const INODE_COST: u32 = 64;

impl Groups {
    /// The old policy: of the groups with an average share of free inodes, the one with the most free blocks.
    pub(super) fn old_directory(&self, space: &Space) -> Result<u32, Errno> {
        let share = self.free_inodes / self.count();
        let fit = |&g: &u32| self.groups[g as usize].free_inodes >= share.max(1);
        // The first of equal groups, as in the kernel.
        (0..self.count()).filter(fit).min_by_key(|&g| (u32::MAX - space.free_in(g), g)).ok_or(Errno::NoSpace)
    }

    /// Orlov: top-level directories are spread; others go near their parent, to a group with enough inodes and blocks and not
    /// too many directories or `debt` (directories created since the last file).
    pub(super) fn orlov_directory(
        &self,
        space: &Space,
        parent: u32,
        top: bool,
        random: &mut Random,
    ) -> Result<u32, Errno> {
        let count = self.count();
        let share_inodes = self.free_inodes / count;
        let share_blocks = (space.free() / u64::from(count)) as u32;
        let group = |g: u32| &self.groups[g as usize];
        let rich = |g: u32| {
            let free = group(g).free_inodes;
            free > 0 && free >= share_inodes && space.free_in(g) >= share_blocks
        };
        if top {
            let first = random.below(u64::from(count)) as u32;
            let around = (0..count).map(|i| (first + i) % count);
            if let Some(best) = around.filter(|&g| rich(g)).min_by_key(|&g| group(g).directories) {
                return Ok(best);
            }
        } else {
            let per_group = self.geometry.inodes_per_group;
            let max_directories = self.directories / count + per_group / 16;
            let min_inodes = share_inodes.saturating_sub(per_group / 4);
            let min_blocks = share_blocks.saturating_sub(GROUP / 4);
            let max_debt = self.max_debt(space);
            let good = |&g: &u32| {
                let it = group(g);
                it.free_inodes > 0
                    && it.directories < max_directories
                    && it.debt < max_debt
                    && it.free_inodes >= min_inodes
                    && space.free_in(g) >= min_blocks
            };
            if let Some(near) = (0..count).map(|i| (parent + i) % count).find(good) {
                return Ok(near);
            }
        }
        self.fallback(parent, share_inodes)
    }

    /// The first group from the parent's on with its share of free inodes, or with any.
    pub(super) fn fallback(&self, parent: u32, share: u32) -> Result<u32, Errno> {
        let count = self.count();
        let find = |least: u32| {
            (0..count).map(|i| (parent + i) % count).find(|&g| self.groups[g as usize].free_inodes >= least)
        };
        find(share.max(1)).or_else(|| find(1)).ok_or(Errno::NoSpace)
    }

    /// Largest debt of a group.
    fn max_debt(&self, space: &Space) -> u32 {
        let used = u64::from(space.blocks()) - space.free();
        let per_directory = (used / u64::from(self.directories.max(1))).max(BLOCK_COST);
        let debt = (u64::from(GROUP) / per_directory) as u32;
        let debt = debt.min(self.geometry.inodes_per_group / INODE_COST);
        debt.clamp(1, 255)
    }
}
