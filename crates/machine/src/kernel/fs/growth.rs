//! Allocation for a file: the goal, mapping blocks, data blocks.

use super::allocator::{Allocation, Allocator, Window};
use super::extent_map::FileExtent;
use super::node::Node;
use super::recorder::Recorder;
use super::tree::{self, Style};
use super::types::{BLOCK_BYTES, Inode};
use crate::kernel::Errno;

/// A file with what its allocation needs.
pub(super) struct Growth<'a> {
    pub(super) allocator: &'a mut Allocator,
    pub(super) style: Style,
    pub(super) node: &'a mut Node,
    pub(super) inode: Inode,
    /// The writer's process number, which selects the colour.
    pub(super) by: u32,
}

impl Growth<'_> {
    /// Allocates all holes in `page..end`; `report` receives each new extent. On an error, earlier extents stay allocated.
    pub(super) fn fill(
        &mut self,
        page: u32,
        end: u32,
        recorder: &mut Recorder<'_>,
        mut report: impl FnMut(FileExtent),
    ) -> Result<(), Errno> {
        let mut page = page;
        while let Some((hole, n)) = self.node.extents.next_hole(page, end) {
            let extent = self.one_extent(hole, n, recorder)?;
            report(extent);
            page = extent.end();
        }
        Ok(())
    }

    fn one_extent(&mut self, page: u32, n: u32, recorder: &mut Recorder<'_>) -> Result<FileExtent, Errno> {
        let goal = self.goal(page);
        let (goal, n) = match self.style {
            Style::Indirect => {
                (self.indirect_blocks(page, goal, recorder)?, n.min(tree::indirect_reach(page)))
            }
            Style::Extents { .. } => (goal, n),
        };
        let (at, n) = self.take(page, n, goal)?;
        self.allocator.layout.charge_space(at, n, recorder);
        let extent = FileExtent { page, at, n };
        self.node.extents.insert(extent);
        self.node.next = Some((extent.end(), at + n));
        if let Style::Extents { inline, fanout } = self.style {
            self.extent_blocks(page, at + n, inline, fanout, recorder)?;
        }
        recorder.change(self.allocator.layout.inode_block(self.inode));
        Ok(extent)
    }

    /// Preferred block of a page: after the last allocated block, if the page follows that block's page; else at the page's
    /// distance from the nearest earlier page; else where the file's first block belongs.
    fn goal(&self, page: u32) -> u32 {
        if let Some((_, after)) = self.node.next.filter(|&(next, _)| next == page) {
            return after;
        }
        match self.node.extents.before(page) {
            Some(extent) if self.style == Style::Indirect => extent.at + extent.n,
            Some(extent) => extent.at.saturating_add(page - extent.page),
            None => {
                let directory = self.node.directory.is_some();
                self.allocator.layout.data_goal(self.inode, directory, self.by)
            }
        }
    }

    fn take(&mut self, page: u32, n: u32, goal: u32) -> Result<(u32, u32), Errno> {
        if self.node.directory.is_some() {
            return self.allocator.take_one(goal).map(|at| (at, 1)).ok_or(Errno::NoSpace);
        }
        let has = self.node.bytes.div_ceil(BLOCK_BYTES) as u32;
        let grows = !self.node.closed;
        let wanted = Allocation { page, n, goal, pages: has.max(page + n), grows };
        self.allocator.take(&mut self.node.window, wanted).ok_or(Errno::NoSpace)
    }

    /// Allocates the indirect blocks that a page needs, each at the goal of the data; returns the new goal.
    fn indirect_blocks(&mut self, page: u32, goal: u32, recorder: &mut Recorder<'_>) -> Result<u32, Errno> {
        let mut goal = goal;
        let mut parent = None;
        for name in tree::indirect_path(page) {
            let at = match self.node.tree.get(name) {
                Some(at) => {
                    recorder.read(at);
                    at
                }
                None => {
                    let (at, _) = self.take(page, 1, goal)?;
                    self.allocator.layout.charge_space(at, 1, recorder);
                    self.node.tree.insert(name, at);
                    parent.into_iter().for_each(|above| recorder.change(above));
                    recorder.fresh(at);
                    goal = at + 1;
                    at
                }
            };
            parent = Some(at);
        }
        parent.into_iter().for_each(|leaf| recorder.change(leaf));
        Ok(goal)
    }

    /// Allocates the extent-tree blocks that the file's extents need.
    fn extent_blocks(
        &mut self,
        page: u32,
        goal: u32,
        inline: u32,
        fanout: u32,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), Errno> {
        let extents = self.node.extents.as_slice().len() as u32;
        if extents <= inline {
            return Ok(());
        }
        for name in tree::extent_blocks(extents, inline, fanout) {
            if self.node.tree.get(name).is_none() {
                let at = self.allocator.take_one(goal).ok_or(Errno::NoSpace)?;
                self.allocator.layout.charge_space(at, 1, recorder);
                self.node.tree.insert(name, at);
                recorder.fresh(at);
            }
        }
        let index = self.node.extents.index(page) as u32;
        let mut leaf =
            tree::extent_path(index, fanout).into_iter().filter_map(|name| self.node.tree.get(name));
        leaf.next_back().into_iter().for_each(|at| recorder.change(at));
        Ok(())
    }

    /// Frees all pages from `page` on, and mapping blocks that are not needed any more.
    pub(super) fn cut(&mut self, page: u32, recorder: &mut Recorder<'_>) {
        self.allocator.give_back(&mut self.node.window);
        self.node.window = Window::default();
        self.node.next = None;
        let mut freed = Vec::new();
        self.node.extents.cut(page, |at, n| freed.push((at, n)));
        for at in self.cut_tree(page) {
            // Mapping blocks are read before what they map is freed.
            recorder.read(at);
            recorder.forget(at);
            freed.push((at, 1));
        }
        if !freed.is_empty() && page > 0 {
            self.boundary(page).into_iter().for_each(|at| recorder.change(at));
        }
        for (at, n) in freed {
            self.allocator.space.give(at, n);
            self.allocator.layout.charge_space(at, n, recorder);
        }
    }

    /// Removes the mapping blocks that a file truncated at `page` does not need.
    fn cut_tree(&mut self, page: u32) -> Vec<u32> {
        let mut gone = Vec::new();
        let report = |at| gone.push(at);
        match self.style {
            Style::Indirect => self.node.tree.retain(|name| tree::indirect_needed(name, page), report),
            Style::Extents { inline, fanout } => {
                let extents = self.node.extents.as_slice().len() as u32;
                let needed: Vec<tree::Name> = tree::extent_blocks(extents, inline, fanout).collect();
                self.node.tree.retain(|name| needed.contains(&name), report);
            }
        }
        gone
    }

    /// The lowest mapping block with pages on both sides of a cut.
    fn boundary(&self, page: u32) -> Option<u32> {
        let get = |name| self.node.tree.get(name);
        match self.style {
            Style::Indirect => tree::indirect_path(page).map_while(get).last(),
            Style::Extents { fanout, .. } => {
                let last = self.node.extents.as_slice().len().saturating_sub(1) as u32;
                tree::extent_path(last, fanout).into_iter().filter_map(get).next_back()
            }
        }
    }
}
