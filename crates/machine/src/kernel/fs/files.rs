//! Operations on files: length, location of pages, allocation, removal.

use super::growth::Growth;
use super::recorder::Recorder;
use super::tree::{self, Style};
use super::types::{BLOCK_BYTES, Inode, Run, Touched};
use super::{Errno, FileSystem, Node};

impl FileSystem {
    /// Length of a file or directory in bytes; 0 for an unknown inode.
    pub fn size(&self, inode: Inode) -> u64 {
        self.nodes.get(&inode).map_or(0, |node| node.bytes)
    }

    /// Whether the inode is a directory.
    pub fn is_directory(&self, inode: Inode) -> bool {
        self.nodes.get(&inode).is_some_and(|node| node.directory.is_some())
    }

    /// Sets a file's length. Blocks beyond it are freed; a longer file ends in a hole.
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
        let mut recorder = Recorder::new(touched, start);
        if bytes < growth.node.bytes {
            growth.cut(page, &mut recorder);
        }
        growth.node.closed &= bytes <= growth.node.bytes;
        growth.node.bytes = bytes;
        recorder.change(growth.allocator.layout.inode_block(inode));
        Ok(())
    }

    /// Sets the time of the last access; returns whether it changed.
    pub fn access(&mut self, inode: Inode, stamp: u64, touched: &mut Touched) -> bool {
        let Some(node) = self.nodes.get_mut(&inode) else { return false };
        let changes = node.accessed.replace(stamp) != Some(stamp);
        if changes {
            Recorder::new(touched, self.area.start).change(self.allocator.layout.inode_block(inode));
        }
        changes
    }

    /// Appends the runs of `pages` pages from `page` on, holes included, and records the mapping blocks read.
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
        let mut recorder = Recorder::new(touched, self.area.start);
        match self.style {
            Style::Indirect => read_indirect(node, first, end, &mut recorder),
            Style::Extents { fanout, .. } => read_extents(node, first, end, fanout, &mut recorder),
        }
        node.extents.runs(first, end, self.area.start, runs);
        Ok(())
    }

    /// Allocates blocks for the holes among `pages` pages from `page` on, and appends the new runs. `by`: the process number
    /// of the writer.
    ///
    /// With delayed allocation the file's length must be set before, because preallocation depends on it.
    ///
    /// # Errors
    /// [`Errno::NotFound`]; [`Errno::NoSpace`], where runs that were appended before stay allocated.
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
            growth.fill(first, end, &mut Recorder::new(touched, start), |extent| {
                let block = Some(start.plus(u64::from(extent.at)));
                runs.push(Run { page: u64::from(extent.page), pages: extent.n, block });
            })
        };
        match fill(self) {
            // Frees preallocated blocks before reporting a full file system.
            Err(Errno::NoSpace) => {
                self.take_back_windows();
                fill(self)
            }
            done => done,
        }
    }

    /// Makes the first block of an empty file lie at or near `at`.
    pub(super) fn begin_at(&mut self, inode: Inode, at: u32) {
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.next = Some((0, at));
        }
    }

    /// Reserves blocks for dirty pages that will be allocated later.
    ///
    /// # Errors
    /// [`Errno::NoSpace`] if there are not enough.
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

    /// Releases reservations.
    pub fn unreserve(&mut self, pages: u64) {
        self.promised = self.promised.saturating_sub(pages);
    }

    /// The last writer closed the file: frees its window. The file gets no window until it grows again.
    pub fn closed(&mut self, inode: Inode) {
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.closed = true;
            self.allocator.give_back(&mut node.window);
        }
    }

    /// Frees a file that has no name and no open descriptor. Other files are unchanged.
    pub fn evict(&mut self, inode: Inode, touched: &mut Touched) {
        let start = self.area.start;
        let Some(growth) = self.growth(inode, 0).filter(|growth| growth.node.orphan) else { return };
        let mut recorder = Recorder::new(touched, start);
        growth.allocator.layout.charge_orphan(&mut recorder);
        self.free_node(inode, &mut recorder);
    }

    pub(super) fn free_node(&mut self, inode: Inode, recorder: &mut Recorder<'_>) {
        let Some(mut node) = self.nodes.remove(&inode) else { return };
        let Self { allocator, style, .. } = self;
        Growth { allocator, style: *style, node: &mut node, inode, by: 0 }.cut(0, recorder);
        let directory = node.directory.is_some();
        allocator.layout.drop_inode(&mut allocator.space, inode, directory, recorder);
    }

    fn take_back_windows(&mut self) {
        self.allocator.give_packed_back();
        for node in self.nodes.values_mut() {
            self.allocator.give_back(&mut node.window);
        }
    }
}

fn read_indirect(node: &Node, first: u32, end: u32, recorder: &mut Recorder<'_>) {
    let mut page = first;
    while page < end {
        let path = tree::indirect_path(page).map_while(|name| node.tree.get(name));
        path.for_each(|at| recorder.read(at));
        page = page.saturating_add(tree::indirect_reach(page));
    }
}

fn read_extents(node: &Node, first: u32, end: u32, fanout: u32, recorder: &mut Recorder<'_>) {
    let last = node.extents.index(end.saturating_sub(1)) as u32;
    let mut index = node.extents.index(first) as u32;
    while index <= last {
        let path = tree::extent_path(index, fanout).into_iter().filter_map(|name| node.tree.get(name));
        path.for_each(|at| recorder.read(at));
        index = (index / fanout + 1) * fanout;
    }
}

/// Page numbers have 32 bits, so files end at 16 TB.
fn page_number(page: u64) -> Result<u32, Errno> {
    u32::try_from(page).map_err(|_| Errno::NoSpace)
}
