//! The file system: where files and metadata lie on the device, and which metadata an operation reads and changes. It keeps
//! no data and no time.
//!
//! # Idea
//! An operation takes effect at once and adds its cost to [`Touched`]: metadata blocks that must be in the buffer cache
//! first, in order, and metadata blocks that it changes. The caller reads the former, passes the latter to the journal or
//! dirties them, and lets time pass. Paths are absolute. Inodes are those that the file system returned and that were not
//! evicted; others give [`Errno::NotFound`].
//!
//! # State
//! Bitmaps of blocks and inodes, and the extents of every file. Directories hash their names in memory; the accesses of a
//! search on disk are computed. Memory grows with files and extents, not with time.
//!
//! # Not modelled
//! Hard and symbolic links, attributes, quotas, root's reserve, online resizing, access times.

mod allocator;
mod check;
mod directory;
mod ext;
mod extent_map;
mod fault;
mod files;
mod growth;
mod image;
mod layout;
mod namespace;
mod node;
mod options;
mod recorder;
mod space;
#[cfg(test)]
mod tests;
mod tree;
mod types;
mod xfs;

use std::ops::Range;

use hashbrown::HashMap;

use self::allocator::Allocator;
use self::directory::{Directory, Format, PageAccess};
use self::growth::Growth;
use self::layout::Layout;
use self::node::Node;
use self::recorder::Recorder;
use self::tree::Style;

pub use fault::Fault;
pub use image::{Image, ImageError};
pub use options::{Ahead, Directories, Ext, MakeError, Map, Options, Xfs};
pub use types::{BLOCK_BYTES, BLOCK_SECTORS, Block, Entry, Extent, Inode, Run, Touched};

use super::Errno;

/// Bytes of an XFS inode before its directory or extents.
const XFS_INODE_CORE: u32 = 100;
/// Bytes of an extent in an XFS inode or block.
const XFS_EXTENT: u32 = 16;

/// A file system in an area of a device.
#[derive(Debug)]
pub struct FileSystem {
    area: Extent64,
    allocator: Allocator,
    style: Style,
    format: Format,
    nodes: HashMap<Inode, Node>,
    journal: Option<Extent>,
    /// Reserved pages (delayed allocation).
    promised: u64,
    /// Buffer kept for its allocation.
    accesses: Vec<PageAccess>,
}

/// An area of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Extent64 {
    start: Block,
    blocks: u64,
}

impl FileSystem {
    /// An empty file system in `blocks` blocks from `start` on.
    ///
    /// # Errors
    /// An option is out of range, or the area is too small.
    pub fn new(options: &Options, start: Block, blocks: u64) -> Result<Self, MakeError> {
        let (layout, mut space) = Layout::new(options, blocks)?;
        let journal = place_journal(&layout, &mut space, start)?;
        let (style, format) = match options {
            Options::Ext(options) => {
                let style = match options.map {
                    Map::Indirect => Style::Indirect,
                    Map::Extents => Style::Extents { inline: 4, fanout: 340 },
                };
                (style, if options.htree { Format::Htree } else { Format::Linear })
            }
            Options::XfsLike(options) => {
                let room = options.inode_bytes - XFS_INODE_CORE;
                let style = Style::Extents {
                    inline: room / XFS_EXTENT,
                    fanout: (BLOCK_BYTES as u32 - 24) / XFS_EXTENT,
                };
                (style, Format::XfsLike { inline: room })
            }
        };
        let mut new = Self {
            area: Extent64 { start, blocks },
            allocator: Allocator::new(options, layout, space),
            style,
            format,
            nodes: HashMap::new(),
            journal,
            promised: 0,
            accesses: Vec::new(),
        };
        let root = new.root();
        let mut nothing = Touched::default();
        new.nodes.insert(root, new.new_directory());
        new.first_pages(root, &mut nothing).map_err(|_| MakeError::TooSmall { blocks, needs: blocks + 1 })?;
        Ok(new)
    }

    /// The root directory.
    pub fn root(&self) -> Inode {
        self.allocator.layout.root()
    }

    /// The log area; `None` without a journal.
    pub fn journal_area(&self) -> Option<Extent> {
        self.journal
    }

    /// First block and length in blocks.
    pub fn area(&self) -> (Block, u64) {
        (self.area.start, self.area.blocks)
    }

    /// Blocks that are neither allocated, preallocated nor reserved.
    pub fn free_blocks(&self) -> u64 {
        self.allocator.space.free().saturating_sub(self.promised)
    }

    /// The inode-table block of an inode: `stat` reads it, a new time stamp or length changes it.
    pub fn inode_block(&self, inode: Inode) -> Block {
        self.area.start.plus(u64::from(self.allocator.layout.inode_block(inode)))
    }

    /// The blocks that are read together with a metadata block, which is among them.
    pub fn read_beside(&self, block: Block) -> Range<u64> {
        let start = self.area.start.0;
        let beside = self.allocator.layout.read_beside((block.0 - start) as u32);
        start + u64::from(beside.start)..start + u64::from(beside.end)
    }

    fn new_directory(&self) -> Node {
        let directory = Directory::new(self.format);
        let bytes = u64::from(directory.length()) * BLOCK_BYTES;
        Node { directory: Some(Box::new(directory)), bytes, ..Node::default() }
    }

    /// Allocates the first pages of a new directory.
    fn first_pages(&mut self, inode: Inode, touched: &mut Touched) -> Result<(), Errno> {
        let pages = self.nodes.get(&inode).map_or(0, |node| (node.bytes / BLOCK_BYTES) as u32);
        let mut recorder = Recorder::new(touched, self.area.start);
        (0..pages).try_for_each(|page| self.directory_page(inode, page, &mut recorder))
    }

    /// Allocates a page of a directory.
    fn directory_page(&mut self, inode: Inode, page: u32, recorder: &mut Recorder<'_>) -> Result<(), Errno> {
        let mut fresh = None;
        let mut growth = self.growth(inode, 0).ok_or(Errno::NotFound)?;
        growth.fill(page, page + 1, recorder, |extent| fresh = Some(extent.at))?;
        fresh.into_iter().for_each(|at| recorder.fresh(at));
        Ok(())
    }

    fn growth(&mut self, inode: Inode, by: u32) -> Option<Growth<'_>> {
        let node = self.nodes.get_mut(&inode)?;
        Some(Growth { allocator: &mut self.allocator, style: self.style, node, inode, by })
    }
}

fn place_journal(
    layout: &Layout,
    space: &mut space::Space,
    start: Block,
) -> Result<Option<Extent>, MakeError> {
    let (blocks, goal) = layout.journal(space);
    if blocks == 0 {
        return Ok(None);
    }
    let found = space.find_run(goal, space.blocks(), blocks);
    let at = found
        .or_else(|| space.find_run(0, space.blocks(), blocks))
        .ok_or(MakeError::NoRoomForJournal { blocks })?;
    space.take(at, blocks);
    Ok(Some(Extent { start: start.plus(u64::from(at)), blocks }))
}
