//! The XFS-like layout: allocation groups with their own free space, and inodes allocated 64 at a time.
//!
//! # Reductions
//! XFS keeps free space and inodes of a group in B+trees. Here each tree is one block at its root's position after `mkfs`, so
//! an operation accesses the right places of a group but not each leaf. Free space is searched in bitmaps.
//!
//! Sources: `fs/xfs/xfs_ialloc.c` and the layout of `mkfs.xfs`.

use std::collections::{BTreeMap, BTreeSet};

use super::fault::Fault;
use super::options::{MakeError, Xfs};
use super::recorder::Recorder;
use super::space::Space;
use super::types::{BLOCK_BYTES, Inode, NewInode};
use crate::kernel::Errno;

/// Inodes of a chunk.
const CHUNK_INODES: u32 = 64;

/// Superblock, AGF, AGI and AGFL: four sectors of a group's first block.
const HEADERS: u32 = 0;
/// Root of the free-space tree by block number.
const FREE_BY_PLACE: u32 = 1;
/// Root of the free-space tree by length.
const FREE_BY_LENGTH: u32 = 2;
/// Root of the inode tree.
const INODES: u32 = 3;
/// Metadata blocks of a group.
const OWN: u32 = 4;

/// Smallest group: 16 MB, the minimum of `mkfs.xfs`.
const GROUP_MIN: u32 = 4096;

/// An allocation group.
#[derive(Debug)]
struct Group {
    start: u32,
    end: u32,
    /// Chunks by first block, with a bitmap of used inodes.
    chunks: BTreeMap<u32, u64>,
    /// Chunks with free inodes.
    roomy: BTreeSet<u32>,
    /// The newest chunk.
    newest: u32,
}

#[derive(Debug)]
pub(super) struct Groups {
    options: Xfs,
    groups: Vec<Group>,
    /// Group of the next directory (`agirotor`).
    rotor: u32,
    root: Inode,
}

impl Groups {
    pub(super) fn new(options: Xfs, blocks: u64) -> Result<(Self, Space), MakeError> {
        check(&options)?;
        let blocks = u32::try_from(blocks).map_err(|_| MakeError::TooLarge { blocks })?;
        let each = blocks / options.groups;
        if each < GROUP_MIN {
            let needs = u64::from(GROUP_MIN) * u64::from(options.groups);
            return Err(MakeError::TooSmall { blocks: u64::from(blocks), needs });
        }
        let mut space = Space::new(each * options.groups);
        let groups = (0..options.groups).map(|g| {
            let start = g * each;
            space.take(start, OWN);
            let (chunks, roomy) = (BTreeMap::new(), BTreeSet::new());
            Group { start, end: start + each, chunks, roomy, newest: start + OWN }
        });
        let groups = groups.collect();
        let mut new = Self { options, groups, rotor: 0, root: Inode(0) };
        let chunk = new
            .new_chunk(&mut space, 0)
            .ok_or(MakeError::TooSmall { blocks: u64::from(blocks), needs: u64::from(GROUP_MIN) })?;
        new.root = new.take_inode(0, chunk);
        Ok((new, space))
    }

    pub(super) fn options(&self) -> &Xfs {
        &self.options
    }

    pub(super) fn root(&self) -> Inode {
        self.root
    }

    /// Goal of the log: the middle group, after its metadata.
    pub(super) fn journal_goal(&self) -> u32 {
        self.groups[self.groups.len() / 2].start + OWN
    }

    /// Allocates an inode: of a file near its directory, of directories in one group after the other.
    pub(super) fn new_inode(
        &mut self,
        space: &mut Space,
        kind: NewInode,
        recorder: &mut Recorder<'_>,
    ) -> Result<Inode, Errno> {
        let NewInode { parent, directory, near: wanted } = kind;
        let count = self.groups.len() as u32;
        let near = wanted.unwrap_or(self.inode_block(parent));
        let first = if let Some(wanted) = wanted {
            self.group_of(wanted)
        } else if directory {
            self.rotor
        } else {
            self.group_of(near)
        };
        if directory && wanted.is_none() {
            self.rotor = (self.rotor + 1) % count;
        }
        for group in (0..count).map(|i| (first + i) % count) {
            let chunk = match self.nearest_roomy(group, near) {
                Some(chunk) => chunk,
                None => match self.new_chunk(space, group) {
                    Some(chunk) => {
                        self.charge_space(chunk, recorder);
                        (chunk..chunk + self.chunk_blocks()).for_each(|at| recorder.fresh(at));
                        chunk
                    }
                    None => continue,
                },
            };
            let inode = self.take_inode(group, chunk);
            self.charge_inode(group, inode, recorder);
            return Ok(inode);
        }
        Err(Errno::NoSpace)
    }

    /// Frees an inode, and the chunk's blocks if it was the last inode of the chunk.
    pub(super) fn drop_inode(&mut self, space: &mut Space, inode: Inode, recorder: &mut Recorder<'_>) {
        let at = self.inode_block(inode);
        let group = self.group_of(at);
        let blocks = self.chunk_blocks();
        let it = &mut self.groups[group as usize];
        let Some((&chunk, used)) = it.chunks.range_mut(..=at).next_back() else { return };
        let bit = inode.0 - u64::from(chunk) * (BLOCK_BYTES / u64::from(self.options.inode_bytes));
        debug_assert_ne!(*used >> bit & 1, 0, "an inode was freed twice");
        *used &= !(1 << bit);
        if *used != 0 {
            it.roomy.insert(chunk);
            self.charge_inode(group, inode, recorder);
            return;
        }
        it.chunks.remove(&chunk);
        it.roomy.remove(&chunk);
        space.give(chunk, blocks);
        recorder.change(it.start + INODES);
        self.charge_space(chunk, recorder);
        (chunk..chunk + blocks).for_each(|at| recorder.forget(at));
    }

    /// Records a change of header and free-space trees of a block's group.
    pub(super) fn charge_space(&self, at: u32, recorder: &mut Recorder<'_>) {
        let start = self.groups[self.group_of(at) as usize].start;
        recorder.change(start + HEADERS);
        recorder.change(start + FREE_BY_PLACE);
        recorder.change(start + FREE_BY_LENGTH);
    }

    fn charge_inode(&self, group: u32, inode: Inode, recorder: &mut Recorder<'_>) {
        let start = self.groups[group as usize].start;
        recorder.change(start + HEADERS);
        recorder.change(start + INODES);
        recorder.change(self.inode_block(inode));
    }

    /// The block of an inode, which its number determines.
    pub(super) fn inode_block(&self, inode: Inode) -> u32 {
        (inode.0 / (BLOCK_BYTES / u64::from(self.options.inode_bytes))) as u32
    }

    /// Goal of a file's first block: its inode.
    pub(super) fn data_goal(&self, inode: Inode) -> u32 {
        self.inode_block(inode)
    }

    /// The group of a block: first block and end.
    pub(super) fn around(&self, at: u32) -> (u32, u32) {
        let it = &self.groups[self.group_of(at) as usize];
        (it.start, it.end)
    }

    pub(super) fn own_blocks(&self, report: &mut dyn FnMut(u32, u32)) {
        for group in &self.groups {
            report(group.start, OWN);
            group.chunks.keys().for_each(|&chunk| report(chunk, self.chunk_blocks()));
        }
    }

    pub(super) fn check(&self, nodes: &dyn Fn(Inode) -> Option<bool>) -> Result<u64, Fault> {
        let mut all = 0;
        for (number, group) in (0..).zip(&self.groups) {
            for (&chunk, &used) in &group.chunks {
                for bit in 0..u64::from(CHUNK_INODES) {
                    let per_block = BLOCK_BYTES / u64::from(self.options.inode_bytes);
                    let inode = Inode(u64::from(chunk) * per_block + bit);
                    let is_used = used >> bit & 1 == 1;
                    if is_used != nodes(inode).is_some() {
                        return Err(Fault::InodeBitmap { inode, used: is_used });
                    }
                    all += u64::from(is_used);
                }
                if group.roomy.contains(&chunk) == (used == u64::MAX) {
                    return Err(Fault::Counts { group: number });
                }
            }
        }
        Ok(all)
    }

    fn group_of(&self, at: u32) -> u32 {
        (at / self.groups[0].end).min(self.groups.len() as u32 - 1)
    }

    fn chunk_blocks(&self) -> u32 {
        CHUNK_INODES * self.options.inode_bytes / BLOCK_BYTES as u32
    }

    fn nearest_roomy(&self, group: u32, near: u32) -> Option<u32> {
        let roomy = &self.groups[group as usize].roomy;
        let left = roomy.range(..=near).next_back().copied();
        let right = roomy.range(near..).next().copied();
        [left, right].into_iter().flatten().min_by_key(|chunk| chunk.abs_diff(near))
    }

    /// Allocates a chunk after the newest one, or else anywhere in the group.
    fn new_chunk(&mut self, space: &mut Space, group: u32) -> Option<u32> {
        let blocks = self.chunk_blocks();
        let it = &mut self.groups[group as usize];
        let find = |from| space.find_run(from, it.end - blocks + 1, blocks);
        let chunk = find(it.newest).or_else(|| find(it.start))?;
        space.take(chunk, blocks);
        it.chunks.insert(chunk, 0);
        it.roomy.insert(chunk);
        it.newest = chunk;
        Some(chunk)
    }

    fn take_inode(&mut self, group: u32, chunk: u32) -> Inode {
        let it = &mut self.groups[group as usize];
        let used = it.chunks.entry(chunk).or_default();
        let bit = used.trailing_ones();
        *used |= 1 << bit;
        if *used == u64::MAX {
            it.roomy.remove(&chunk);
        }
        Inode(u64::from(chunk) * (BLOCK_BYTES / u64::from(self.options.inode_bytes)) + u64::from(bit))
    }
}

fn check(options: &Xfs) -> Result<(), MakeError> {
    let bad =
        |field, value: u32, expected| Err(MakeError::Field { field, value: u64::from(value), expected });
    if !options.inode_bytes.is_power_of_two() || !(256..=2048).contains(&options.inode_bytes) {
        return bad("inode-bytes", options.inode_bytes, "a power of two from 256 to 2048");
    }
    if !(1..=4096).contains(&options.groups) {
        return bad("groups", options.groups, "from 1 to 4096");
    }
    if !(1..=262_144).contains(&options.ahead_blocks) {
        return bad("ahead-blocks", options.ahead_blocks, "from 1 to 262144 (1 GB)");
    }
    if options.journal_blocks == 0 {
        return bad("journal-blocks", 0, "at least 1");
    }
    Ok(())
}
