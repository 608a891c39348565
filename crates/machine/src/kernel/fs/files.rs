//! Files: their length, where their pages lie, new blocks, and their end.

use super::grow::Growth;
use super::touched::Bill;
use super::tree::{self, Style};
use super::words::{BLOCK_BYTES, Inode, Run, Touched};
use super::{Errno, FileSystem, Node};

impl FileSystem {
    /// A file's length in bytes; a directory's too. 0 for a number that is nobody's.
    #[must_use]
    pub fn size(&self, inode: Inode) -> u64 {
        self.nodes.get(&inode).map_or(0, |node| node.bytes)
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_directory(&self, inode: Inode) -> bool {
        self.nodes.get(&inode).is_some_and(|node| node.directory.is_some())
    }

    /// Sets a file's length. What lies beyond it is freed; a longer file ends in a hole.
    ///
    /// # Errors
    /// [`Errno::NotFound`], [`Errno::IsADirectory`], [`Errno::NoSpace`] beyond 16 TB.
    pub fn set_size(&mut self, inode: Inode, bytes: u64, touched: &mut Touched) -> Result<(), Errno> {
        let page = page_number(bytes.div_ceil(BLOCK_BYTES))?;
        let start = self.area.start;
        let mut growth = self.growth(inode, 0).ok_or(Errno::NotFound)?;
        if growth.node.directory.is_some() {
            return Err(Errno::IsADirectory);
        }
        let mut bill = Bill::new(touched, start);
        if bytes < growth.node.bytes {
            growth.cut(page, &mut bill);
        }
        growth.node.closed &= bytes <= growth.node.bytes;
        growth.node.bytes = bytes;
        bill.change(growth.ground.layout.inode_block(inode));
        Ok(())
    }

    /// Where `pages` pages from `page` on lie: adds every run, holes too, in order, and reads what tells it.
    ///
    /// # Errors
    /// [`Errno::NotFound`].
    pub fn map(
        &self,
        inode: Inode,
        page: u64,
        pages: u32,
        runs: &mut Vec<Run>,
        touched: &mut Touched,
    ) -> Result<(), Errno> {
        let node = self.nodes.get(&inode).ok_or(Errno::NotFound)?;
        let first = page_number(page)?;
        let end = page_number(page + u64::from(pages))?;
        let mut bill = Bill::new(touched, self.area.start);
        match self.style {
            Style::Indirect => read_indirect(node, first, end, &mut bill),
            Style::Extents { fanout, .. } => read_extents(node, first, end, fanout, &mut bill),
        }
        node.pieces.runs(first, end, self.area.start, runs);
        Ok(())
    }

    /// Gives every hole among `pages` pages from `page` on blocks, and adds the new runs, in order. `by` is the number of
    /// the process that writes.
    ///
    /// Under delayed allocation the file's length is set before, so that it is known how much of it there will be.
    ///
    /// # Errors
    /// [`Errno::NotFound`]; [`Errno::NoSpace`], where the runs that were found before stay the file's.
    pub fn allocate(
        &mut self,
        inode: Inode,
        page: u64,
        pages: u32,
        by: u32,
        runs: &mut Vec<Run>,
        touched: &mut Touched,
    ) -> Result<(), Errno> {
        let first = page_number(page)?;
        let end = page_number(page + u64::from(pages))?;
        let start = self.area.start;
        let mut fill = |fs: &mut Self| {
            let mut growth = fs.growth(inode, by).ok_or(Errno::NotFound)?;
            growth.fill(first, end, &mut Bill::new(touched, start), |piece| {
                let block = Some(start.plus(u64::from(piece.at)));
                runs.push(Run { page: u64::from(piece.page), pages: piece.n, block });
            })
        };
        match fill(self) {
            // What files keep ahead is for when there is enough.
            Err(Errno::NoSpace) => {
                self.take_back_windows();
                fill(self)
            }
            done => done,
        }
    }

    /// Makes a file that has no blocks begin at a block, or as near to it as there is room.
    pub(super) fn begin_at(&mut self, inode: Inode, at: u32) {
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.next = Some((0, at));
        }
    }

    /// Promises blocks to so many dirty pages that will be allocated later.
    ///
    /// # Errors
    /// [`Errno::NoSpace`] if there are not that many.
    pub fn reserve(&mut self, pages: u64) -> Result<(), Errno> {
        if self.free_blocks() < pages {
            self.take_back_windows();
        }
        if self.free_blocks() < pages {
            return Err(Errno::NoSpace);
        }
        self.promised += pages;
        Ok(())
    }

    /// Takes a promise back, as the pages are allocated now or gone.
    pub fn unreserve(&mut self, pages: u64) {
        self.promised = self.promised.saturating_sub(pages);
    }

    /// Nobody has the file open for writing any more: what it kept ahead is given back, and until it grows again it
    /// keeps nothing.
    pub fn closed(&mut self, inode: Inode) {
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.closed = true;
            self.ground.give_back(&mut node.window);
        }
    }

    /// Frees a file that has lost its name and that nobody has open. Does nothing to others.
    pub fn evict(&mut self, inode: Inode, touched: &mut Touched) {
        let start = self.area.start;
        let Some(growth) = self.growth(inode, 0).filter(|growth| growth.node.orphan) else { return };
        let mut bill = Bill::new(touched, start);
        growth.ground.layout.charge_orphan(&mut bill);
        self.free_node(inode, &mut bill);
    }

    pub(super) fn free_node(&mut self, inode: Inode, bill: &mut Bill<'_>) {
        let Some(mut node) = self.nodes.remove(&inode) else { return };
        let Self { ground, style, .. } = self;
        Growth { ground, style: *style, node: &mut node, inode, by: 0 }.cut(0, bill);
        let directory = node.directory.is_some();
        ground.layout.drop_inode(&mut ground.space, inode, directory, bill);
    }

    fn take_back_windows(&mut self) {
        self.ground.give_packed_back();
        for node in self.nodes.values_mut() {
            self.ground.give_back(&mut node.window);
        }
    }
}

fn read_indirect(node: &Node, first: u32, end: u32, bill: &mut Bill<'_>) {
    let mut page = first;
    while page < end {
        let path = tree::indirect_path(page).map_while(|name| node.tree.get(name));
        path.for_each(|at| bill.read(at));
        page = page.saturating_add(tree::indirect_reach(page));
    }
}

fn read_extents(node: &Node, first: u32, end: u32, fanout: u32, bill: &mut Bill<'_>) {
    let last = node.pieces.index(end.saturating_sub(1)) as u32;
    let mut index = node.pieces.index(first) as u32;
    while index <= last {
        let path = tree::extent_path(index, fanout).into_iter().filter_map(|name| node.tree.get(name));
        path.for_each(|at| bill.read(at));
        index = (index / fanout + 1) * fanout;
    }
}

/// Pages are numbered in 32 bits: files end at 16 TB.
fn page_number(page: u64) -> Result<u32, Errno> {
    u32::try_from(page).map_err(|_| Errno::NoSpace)
}
