//! Block groups: inode tables, placement of directories and files.
//!
//! Sources: `fs/ext2/ialloc.c`, `fs/ext3/ialloc.c` of Linux 2.6, `fs/ext4/ialloc.c` for flexible groups. Differences: the
//! Orlov allocator does not count the groups of a flexible group as one; nothing is reserved for root; there is no
//! `lost+found`.

mod directories;
mod geometry;

use std::ops::Range;

use elevator::Random;

use self::geometry::Geometry;
use super::fault::Fault;
use super::options::{Directories, Ext, MakeError};
use super::recorder::Recorder;
use super::space::{GROUP, Space};
use super::types::{Inode, NewInode};
use crate::kernel::Errno;

/// Inodes 1 to 10 are reserved; the root is 2, the journal 8.
const RESERVED_INODES: u32 = 10;

/// The root directory.
pub(super) const ROOT: Inode = Inode(2);

/// With this many flexible groups, file data avoids the first group (`EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME`).
const FLEX_KEEPS_FILES_OUT: u32 = 4;

/// Inodes of a group.
#[derive(Clone, Debug)]
struct Group {
    /// Set bits are used inodes.
    used: Vec<u64>,
    free_inodes: u32,
    directories: u32,
    debt: u32,
}

#[derive(Debug)]
pub(super) struct Groups {
    options: Ext,
    geometry: Geometry,
    groups: Vec<Group>,
    free_inodes: u32,
    directories: u32,
    random: Random,
}

impl Groups {
    pub(super) fn new(options: Ext, blocks: u64) -> Result<(Self, Space), MakeError> {
        let (geometry, space) = Geometry::new(&options, blocks)?;
        let per_group = geometry.inodes_per_group;
        let mut used = vec![0; per_group.div_ceil(64) as usize];
        if !per_group.is_multiple_of(64) {
            used[(per_group / 64) as usize] = u64::MAX << (per_group % 64);
        }
        let group = Group { used, free_inodes: per_group, directories: 0, debt: 0 };
        let mut groups = vec![group; geometry.groups() as usize];
        let first = &mut groups[0];
        first.used[0] |= (1 << RESERVED_INODES) - 1;
        first.free_inodes -= RESERVED_INODES;
        first.directories = 1;
        let free_inodes = groups.iter().map(|g| g.free_inodes).sum();
        let random = Random::new(options.seed);
        Ok((Self { options, geometry, groups, free_inodes, directories: 1, random }, space))
    }

    pub(super) fn options(&self) -> &Ext {
        &self.options
    }

    fn count(&self) -> u32 {
        self.groups.len() as u32
    }

    /// Allocates an inode.
    pub(super) fn new_inode(
        &mut self,
        space: &Space,
        kind: NewInode,
        recorder: &mut Recorder<'_>,
    ) -> Result<Inode, Errno> {
        let NewInode { parent, directory, near: wanted } = kind;
        let near = self.group_of(parent);
        let group = match (directory, self.options.directories) {
            (false, _) => self.file_group(space, parent)?,
            (true, _) if wanted.is_some() => self.fallback(wanted.unwrap_or(0) / GROUP, 0)?,
            (true, Directories::Old) => self.old_directory(space)?,
            (true, Directories::Orlov) => {
                let mut random = std::mem::replace(&mut self.random, Random::new(0));
                let chosen = self.orlov_directory(space, near, parent == ROOT, &mut random);
                self.random = random;
                chosen?
            }
        };
        let it = &mut self.groups[group as usize];
        let word = it.used.iter().position(|&word| word != u64::MAX).ok_or(Errno::NoSpace)?;
        let bit = it.used[word].trailing_ones();
        it.used[word] |= 1 << bit;
        it.free_inodes -= 1;
        self.free_inodes -= 1;
        if directory {
            it.directories += 1;
            self.directories += 1;
            it.debt = (it.debt + 1).min(255);
        } else {
            it.debt = it.debt.saturating_sub(1);
        }
        let index = word as u32 * 64 + bit;
        self.charge_inode(group, index, recorder);
        Ok(Inode(u64::from(group) * u64::from(self.geometry.inodes_per_group) + u64::from(index) + 1))
    }

    /// The group of a new file: its directory's, while that has inodes and blocks; then groups at distances of powers of two,
    /// so that files of different full groups spread.
    fn file_group(&self, space: &Space, parent: Inode) -> Result<u32, Errno> {
        let near = self.group_of(parent);
        let fits = |g: u32| self.groups[g as usize].free_inodes > 0 && space.free_in(g) > 0;
        if fits(near) {
            return Ok(near);
        }
        let count = u64::from(self.count());
        let mut group = (u64::from(near) + parent.0) % count;
        let mut leap = 1;
        while leap < count {
            group = (group + leap) % count;
            if fits(group as u32) {
                return Ok(group as u32);
            }
            leap <<= 1;
        }
        // The directory's own group comes last.
        (1..=self.count())
            .map(|i| (near + i) % self.count())
            .find(|&g| self.groups[g as usize].free_inodes > 0)
            .ok_or(Errno::NoSpace)
    }

    /// Frees an inode.
    pub(super) fn drop_inode(&mut self, inode: Inode, directory: bool, recorder: &mut Recorder<'_>) {
        let (group, index) = (self.group_of(inode), self.index_of(inode));
        let it = &mut self.groups[group as usize];
        debug_assert_ne!(it.used[(index / 64) as usize] >> (index % 64) & 1, 0, "an inode was freed twice");
        it.used[(index / 64) as usize] &= !(1 << (index % 64));
        it.free_inodes += 1;
        self.free_inodes += 1;
        if directory {
            it.directories -= 1;
            self.directories -= 1;
        }
        self.charge_inode(group, index, recorder);
    }

    /// Records a change of inode bitmap, descriptor and inode table.
    fn charge_inode(&self, group: u32, index: u32, recorder: &mut Recorder<'_>) {
        recorder.change(self.geometry.place(group).inode_bitmap);
        recorder.change(self.geometry.descriptor(group));
        recorder.change(self.geometry.inode_block(group, index));
    }

    /// Records a change of block bitmap and descriptor of a block's group.
    pub(super) fn charge_space(&self, at: u32, recorder: &mut Recorder<'_>) {
        recorder.change(self.geometry.place(at / GROUP).block_bitmap);
        recorder.change(self.geometry.descriptor(at / GROUP));
    }

    /// The inode-table block of an inode.
    pub(super) fn inode_block(&self, inode: Inode) -> u32 {
        self.geometry.inode_block(self.group_of(inode), self.index_of(inode))
    }

    /// The blocks read together with a block: for an inode table, those between two multiples of `inode_ahead_blocks` that
    /// contain inodes.
    pub(super) fn read_beside(&self, at: u32) -> Range<u32> {
        let ahead = self.options.inode_ahead_blocks;
        let Some(group) = self.geometry.table_of(at).filter(|_| ahead > 0) else { return at..at + 1 };
        let used = &self.groups[group as usize].used;
        let last = used.iter().rposition(|&word| word != 0);
        let inodes = last.map_or(0, |word| (word as u32 + 1) * 64 - used[word].leading_zeros());
        let table = self.geometry.place(group).inode_table;
        let end = self.geometry.inode_block(group, inodes.saturating_sub(1)) + 1;
        let first = at - at % ahead;
        first.max(table)..(first + ahead).min(end).max(at + 1)
    }

    /// Goal of the first block of a file or directory: its inode's group, at the writer's colour.
    pub(super) fn data_goal(&self, inode: Inode, directory: bool, by: u32) -> u32 {
        let flex = self.options.flex_groups;
        let mut group = self.group_of(inode);
        if flex >= FLEX_KEEPS_FILES_OUT {
            let first = group - group % flex;
            group = if directory { first } else { (first + 1).min(self.count() - 1) };
        }
        group * GROUP + by % self.options.colours * (GROUP / self.options.colours)
    }

    pub(super) fn own_blocks(&self, report: &mut dyn FnMut(u32, u32)) {
        self.geometry.own_blocks(report);
    }

    pub(super) fn check(&self, nodes: &dyn Fn(Inode) -> Option<bool>) -> Result<u64, Fault> {
        let mut all = 0;
        let (mut free_inodes, mut directories) = (0, 0);
        for (number, group) in (0..).zip(&self.groups) {
            let reserved = if number == 0 { RESERVED_INODES } else { 0 };
            let (mut used, mut here) = (0, 0);
            for index in 0..self.geometry.inodes_per_group {
                let bit = group.used[(index / 64) as usize] >> (index % 64) & 1 == 1;
                let first = u64::from(number) * u64::from(self.geometry.inodes_per_group);
                let inode = Inode(first + u64::from(index) + 1);
                let node = nodes(inode);
                if (bit && index >= reserved) != (node.is_some() && inode != ROOT) {
                    return Err(Fault::InodeBitmap { inode, used: bit });
                }
                used += u32::from(bit);
                all += u64::from(node.is_some());
                here += u32::from(node == Some(true));
            }
            if used + group.free_inodes != self.geometry.inodes_per_group || here != group.directories {
                return Err(Fault::Counts { group: number });
            }
            free_inodes += group.free_inodes;
            directories += here;
        }
        if (free_inodes, directories) != (self.free_inodes, self.directories) {
            return Err(Fault::Totals);
        }
        Ok(all)
    }

    fn group_of(&self, inode: Inode) -> u32 {
        ((inode.0 - 1) / u64::from(self.geometry.inodes_per_group)) as u32
    }

    fn index_of(&self, inode: Inode) -> u32 {
        ((inode.0 - 1) % u64::from(self.geometry.inodes_per_group)) as u32
    }
}
