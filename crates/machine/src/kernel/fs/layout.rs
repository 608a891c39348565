//! The part of a file system that depends on its kind: inodes, goals, and metadata of free space.

use std::ops::Range;

use super::fault::Fault;
use super::options::{MakeError, Options};
use super::recorder::Recorder;
use super::space::{GROUP, Space};
use super::types::{Inode, NewInode};
use super::{ext, xfs};
use crate::kernel::Errno;

/// The kinds.
#[derive(Debug)]
pub(super) enum Layout {
    Ext(ext::Groups),
    Xfs(xfs::Groups),
}

impl Layout {
    pub(super) fn new(options: &Options, blocks: u64) -> Result<(Self, Space), MakeError> {
        Ok(match options {
            Options::Ext(options) => {
                let (groups, space) = ext::Groups::new(options.clone(), blocks)?;
                (Self::Ext(groups), space)
            }
            Options::XfsLike(options) => {
                let (groups, space) = xfs::Groups::new(options.clone(), blocks)?;
                (Self::Xfs(groups), space)
            }
        })
    }

    pub(super) fn root(&self) -> Inode {
        match self {
            Self::Ext(_) => ext::ROOT,
            Self::Xfs(groups) => groups.root(),
        }
    }

    /// Length and goal of the journal.
    pub(super) fn journal(&self, space: &Space) -> (u32, u32) {
        match self {
            Self::Ext(groups) => {
                let options = groups.options();
                let middle = space.groups() / 2 * GROUP;
                (options.journal_blocks, if options.journal_in_middle { middle } else { 0 })
            }
            Self::Xfs(groups) => (groups.options().journal_blocks, groups.journal_goal()),
        }
    }

    pub(super) fn new_inode(
        &mut self,
        space: &mut Space,
        kind: NewInode,
        recorder: &mut Recorder<'_>,
    ) -> Result<Inode, Errno> {
        match self {
            Self::Ext(groups) => groups.new_inode(space, kind, recorder),
            Self::Xfs(groups) => groups.new_inode(space, kind, recorder),
        }
    }

    pub(super) fn drop_inode(
        &mut self,
        space: &mut Space,
        inode: Inode,
        directory: bool,
        recorder: &mut Recorder<'_>,
    ) {
        match self {
            Self::Ext(groups) => groups.drop_inode(inode, directory, recorder),
            Self::Xfs(groups) => groups.drop_inode(space, inode, recorder),
        }
    }

    pub(super) fn inode_block(&self, inode: Inode) -> u32 {
        match self {
            Self::Ext(groups) => groups.inode_block(inode),
            Self::Xfs(groups) => groups.inode_block(inode),
        }
    }

    /// The blocks that are read together with a block, which is among them.
    pub(super) fn read_beside(&self, at: u32) -> Range<u32> {
        match self {
            Self::Ext(groups) => groups.read_beside(at),
            Self::Xfs(_) => at..at + 1,
        }
    }

    /// Goal of the first block of a file or directory; `by`: process number of the writer.
    pub(super) fn data_goal(&self, inode: Inode, directory: bool, by: u32) -> u32 {
        match self {
            Self::Ext(groups) => groups.data_goal(inode, directory, by),
            Self::Xfs(groups) => groups.data_goal(inode),
        }
    }

    /// Records a change of the free-space metadata of `n` blocks from `at` on.
    pub(super) fn charge_space(&self, at: u32, n: u32, recorder: &mut Recorder<'_>) {
        let mut at_group = at;
        while at_group < at + n {
            match self {
                Self::Ext(groups) => groups.charge_space(at_group, recorder),
                Self::Xfs(groups) => groups.charge_space(at_group, recorder),
            }
            at_group = match self {
                Self::Ext(_) => (at_group / GROUP + 1) * GROUP,
                Self::Xfs(groups) => groups.around(at_group).1,
            };
        }
    }

    /// Calls `report` for every run of the file system's own blocks.
    pub(super) fn own_blocks(&self, report: &mut dyn FnMut(u32, u32)) {
        match self {
            Self::Ext(groups) => groups.own_blocks(report),
            Self::Xfs(groups) => groups.own_blocks(report),
        }
    }

    /// Compares inode bitmaps and counters with `nodes`, which returns whether a known inode is a directory; returns the
    /// number of used inodes.
    pub(super) fn check_inodes(&self, nodes: &dyn Fn(Inode) -> Option<bool>) -> Result<u64, Fault> {
        match self {
            Self::Ext(groups) => groups.check(nodes),
            Self::Xfs(groups) => groups.check(nodes),
        }
    }

    /// Records a change of the orphan list, whose head is in the superblock (ext with a journal).
    pub(super) fn charge_orphan(&self, recorder: &mut Recorder<'_>) {
        match self {
            Self::Ext(groups) if groups.options().journal_blocks > 0 => recorder.change(0),
            _ => {}
        }
    }
}
