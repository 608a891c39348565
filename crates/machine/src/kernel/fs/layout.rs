//! What the kinds of file systems have in common to the rest: where inodes lie, where data should begin, and which
//! metadata tells of free space.

use std::ops::Range;

use super::check::Fault;
use super::options::{Options, Unmakeable};
use super::space::{GROUP, Space};
use super::touched::Bill;
use super::words::{Inode, NewInode};
use super::{ext, xfs};
use crate::kernel::Errno;

/// One kind or the other.
#[derive(Debug)]
pub(super) enum Layout {
    Ext(ext::Groups),
    Xfs(xfs::Groups),
}

impl Layout {
    pub(super) fn new(options: &Options, blocks: u64) -> Result<(Self, Space), Unmakeable> {
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

    /// The journal's length, and where it should begin.
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
        bill: &mut Bill<'_>,
    ) -> Result<Inode, Errno> {
        match self {
            Self::Ext(groups) => groups.new_inode(space, kind, bill),
            Self::Xfs(groups) => groups.new_inode(space, kind, bill),
        }
    }

    pub(super) fn drop_inode(
        &mut self,
        space: &mut Space,
        inode: Inode,
        directory: bool,
        bill: &mut Bill<'_>,
    ) {
        match self {
            Self::Ext(groups) => groups.drop_inode(inode, directory, bill),
            Self::Xfs(groups) => groups.drop_inode(space, inode, bill),
        }
    }

    pub(super) fn inode_block(&self, inode: Inode) -> u32 {
        match self {
            Self::Ext(groups) => groups.inode_block(inode),
            Self::Xfs(groups) => groups.inode_block(inode),
        }
    }

    /// The blocks that are read together with this one, which is among them.
    pub(super) fn read_beside(&self, at: u32) -> Range<u32> {
        match self {
            Self::Ext(groups) => groups.read_beside(at),
            Self::Xfs(_) => at..at + 1,
        }
    }

    /// Where the first block of a file or directory should lie, written by process `by`.
    pub(super) fn data_goal(&self, inode: Inode, directory: bool, by: u32) -> u32 {
        match self {
            Self::Ext(groups) => groups.data_goal(inode, directory, by),
            Self::Xfs(groups) => groups.data_goal(inode),
        }
    }

    /// Charges what tells of free blocks for `n` blocks from `at` on.
    pub(super) fn charge_space(&self, at: u32, n: u32, bill: &mut Bill<'_>) {
        let mut at_group = at;
        while at_group < at + n {
            match self {
                Self::Ext(groups) => groups.charge_space(at_group, bill),
                Self::Xfs(groups) => groups.charge_space(at_group, bill),
            }
            at_group = match self {
                Self::Ext(_) => (at_group / GROUP + 1) * GROUP,
                Self::Xfs(groups) => groups.around(at_group).1,
            };
        }
    }

    /// Tells every run of blocks that is the file system's own.
    pub(super) fn own_blocks(&self, tell: &mut dyn FnMut(u32, u32)) {
        match self {
            Self::Ext(groups) => groups.own_blocks(tell),
            Self::Xfs(groups) => groups.own_blocks(tell),
        }
    }

    /// Compares inode bitmaps and counts with `nodes`, which tells whether a number is a directory's if it is anybody's;
    /// how many are given out.
    pub(super) fn check_inodes(&self, nodes: &dyn Fn(Inode) -> Option<bool>) -> Result<u64, Fault> {
        match self {
            Self::Ext(groups) => groups.check(nodes),
            Self::Xfs(groups) => groups.check(nodes),
        }
    }

    /// Files that have lost their names but are not gone yet are listed from the superblock (ext with a journal), so
    /// that losing a name and going change it.
    pub(super) fn charge_orphan(&self, bill: &mut Bill<'_>) {
        match self {
            Self::Ext(groups) if groups.options().journal_blocks > 0 => bill.change(0),
            _ => {}
        }
    }
}
