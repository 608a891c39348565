//! Blocks for the pages of a file: the goal, the mapping blocks on the way, then the data.

use super::ground::{Ground, Window, Wish};
use super::node::Node;
use super::pieces::Piece;
use super::touched::Bill;
use super::tree::{self, Style};
use super::words::{BLOCK_BYTES, Inode};
use crate::kernel::Errno;

/// A file that grows.
pub(super) struct Growth<'a> {
    pub(super) ground: &'a mut Ground,
    pub(super) style: Style,
    pub(super) node: &'a mut Node,
    pub(super) inode: Inode,
    /// The process that asks, for its colour.
    pub(super) by: u32,
}

impl Growth<'_> {
    /// Gives every hole in `page..end` blocks; each new piece is told. What was given before an error stays given.
    pub(super) fn fill(
        &mut self,
        page: u32,
        end: u32,
        bill: &mut Bill<'_>,
        mut told: impl FnMut(Piece),
    ) -> Result<(), Errno> {
        let mut page = page;
        while let Some((hole, n)) = self.node.pieces.next_hole(page, end) {
            let piece = self.one_piece(hole, n, bill)?;
            told(piece);
            page = piece.end();
        }
        Ok(())
    }

    fn one_piece(&mut self, page: u32, n: u32, bill: &mut Bill<'_>) -> Result<Piece, Errno> {
        let goal = self.goal(page);
        let (goal, n) = match self.style {
            Style::Indirect => (self.indirect_blocks(page, goal, bill)?, n.min(tree::indirect_reach(page))),
            Style::Extents { .. } => (goal, n),
        };
        let (at, n) = self.take(page, n, goal)?;
        self.ground.layout.charge_space(at, n, bill);
        let piece = Piece { page, at, n };
        self.node.pieces.insert(piece);
        self.node.next = Some((piece.end(), at + n));
        if let Style::Extents { inline, fanout } = self.style {
            self.extent_blocks(page, at + n, inline, fanout, bill)?;
        }
        bill.change(self.ground.layout.inode_block(self.inode));
        Ok(piece)
    }

    /// Where a page should lie: after the block that was given last, if the page follows that one's; else as far after
    /// the nearest earlier page's block as the page is; else where the file's first block belongs.
    fn goal(&self, page: u32) -> u32 {
        if let Some((_, after)) = self.node.next.filter(|&(next, _)| next == page) {
            return after;
        }
        match self.node.pieces.before(page) {
            Some(piece) if self.style == Style::Indirect => piece.at + piece.n,
            Some(piece) => piece.at.saturating_add(page - piece.page),
            None => {
                let directory = self.node.directory.is_some();
                self.ground.layout.data_goal(self.inode, directory, self.by)
            }
        }
    }

    fn take(&mut self, page: u32, n: u32, goal: u32) -> Result<(u32, u32), Errno> {
        if self.node.directory.is_some() {
            return self.ground.take_one(goal).map(|at| (at, 1)).ok_or(Errno::NoSpace);
        }
        let has = self.node.bytes.div_ceil(BLOCK_BYTES) as u32;
        let grows = !self.node.closed;
        let wish = Wish { page, n, goal, pages: has.max(page + n), grows };
        self.ground.take(&mut self.node.window, wish).ok_or(Errno::NoSpace)
    }

    /// Makes the indirect blocks that a page needs, each where the data would have gone; where the data goes now.
    fn indirect_blocks(&mut self, page: u32, goal: u32, bill: &mut Bill<'_>) -> Result<u32, Errno> {
        let mut goal = goal;
        let mut parent = None;
        for name in tree::indirect_path(page) {
            let at = match self.node.tree.get(name) {
                Some(at) => {
                    bill.read(at);
                    at
                }
                None => {
                    let (at, _) = self.take(page, 1, goal)?;
                    self.ground.layout.charge_space(at, 1, bill);
                    self.node.tree.insert(name, at);
                    parent.into_iter().for_each(|above| bill.change(above));
                    bill.fresh(at);
                    goal = at + 1;
                    at
                }
            };
            parent = Some(at);
        }
        parent.into_iter().for_each(|leaf| bill.change(leaf));
        Ok(goal)
    }

    /// Makes the extent blocks that the file's pieces need by now.
    fn extent_blocks(
        &mut self,
        page: u32,
        goal: u32,
        inline: u32,
        fanout: u32,
        bill: &mut Bill<'_>,
    ) -> Result<(), Errno> {
        let pieces = self.node.pieces.as_slice().len() as u32;
        if pieces <= inline {
            return Ok(());
        }
        for name in tree::extent_blocks(pieces, inline, fanout) {
            if self.node.tree.get(name).is_none() {
                let at = self.ground.take_one(goal).ok_or(Errno::NoSpace)?;
                self.ground.layout.charge_space(at, 1, bill);
                self.node.tree.insert(name, at);
                bill.fresh(at);
            }
        }
        let index = self.node.pieces.index(page) as u32;
        let mut leaf =
            tree::extent_path(index, fanout).into_iter().filter_map(|name| self.node.tree.get(name));
        leaf.next_back().into_iter().for_each(|at| bill.change(at));
        Ok(())
    }

    /// Frees every page from `page` on, and the mapping blocks that only they needed.
    pub(super) fn cut(&mut self, page: u32, bill: &mut Bill<'_>) {
        self.ground.give_back(&mut self.node.window);
        self.node.window = Window::default();
        self.node.next = None;
        let mut freed = Vec::new();
        self.node.pieces.cut(page, |at, n| freed.push((at, n)));
        for at in self.cut_tree(page) {
            // Who frees what it maps has to read it.
            bill.read(at);
            bill.forget(at);
            freed.push((at, 1));
        }
        if !freed.is_empty() && page > 0 {
            self.boundary(page).into_iter().for_each(|at| bill.change(at));
        }
        for (at, n) in freed {
            self.ground.space.give(at, n);
            self.ground.layout.charge_space(at, n, bill);
        }
    }

    /// Drops the mapping blocks that a file cut at `page` does not need.
    fn cut_tree(&mut self, page: u32) -> Vec<u32> {
        let mut gone = Vec::new();
        let tell = |at| gone.push(at);
        match self.style {
            Style::Indirect => self.node.tree.retain(|name| tree::indirect_needed(name, page), tell),
            Style::Extents { inline, fanout } => {
                let pieces = self.node.pieces.as_slice().len() as u32;
                let needed: Vec<tree::Name> = tree::extent_blocks(pieces, inline, fanout).collect();
                self.node.tree.retain(|name| needed.contains(&name), tell);
            }
        }
        gone
    }

    /// The lowest mapping block that told of the pages on both sides of a cut.
    fn boundary(&self, page: u32) -> Option<u32> {
        let get = |name| self.node.tree.get(name);
        match self.style {
            Style::Indirect => tree::indirect_path(page).map_while(get).last(),
            Style::Extents { fanout, .. } => {
                let last = self.node.pieces.as_slice().len().saturating_sub(1) as u32;
                tree::extent_path(last, fanout).into_iter().filter_map(get).next_back()
            }
        }
    }
}
