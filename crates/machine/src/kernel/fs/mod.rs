//! The file system of the modelled machine, where it matters for the head: who lies where, and what has to be read to
//! find it. No time, no queue, no byte of data.
//!
//! # Idea
//! Every operation takes effect at once and adds to [`Touched`] what it costs: the metadata blocks that have to be in
//! the buffer cache before, in order, and those that it changes. The caller fetches the former, hands the latter to the
//! journal (or just dirties them), and lets time pass. `path` is absolute; `inode` one that the file system gave out and
//! that has not been evicted; a number that it does not know is [`Errno::NotFound`].
//!
//! # State
//! Bitmaps of blocks and inodes, and for every file its pieces; directories hash their names, whatever a search would have
//! cost on disk. Memory grows with files and pieces, not with time.
//!
//! # Not modelled
//! Hard and symbolic links, attributes, quotas, root's reserve, online resizing, access times.

mod check;
mod directory;
mod ext;
mod files;
mod ground;
mod grow;
mod image;
mod layout;
mod namespace;
mod node;
mod options;
mod pieces;
mod space;
#[cfg(test)]
mod tests;
mod touched;
mod tree;
mod words;
mod xfs;

use std::ops::Range;

use hashbrown::HashMap;

use self::directory::{Directory, Format, Step};
use self::ground::Ground;
use self::grow::Growth;
use self::layout::Layout;
use self::node::Node;
use self::touched::Bill;
use self::tree::Style;

pub use check::Fault;
pub use image::{Image, ImageError};
pub use options::{Ahead, Directories, Ext, Map, Options, Unmakeable, Xfs};
pub use words::{BLOCK_BYTES, BLOCK_SECTORS, Block, Entry, Extent, Inode, Run, Touched};

use super::Errno;

/// Bytes of an XFS inode that are not for its directory or its extents.
const XFS_INODE_CORE: u32 = 100;
/// Bytes of an extent in an XFS inode or block.
const XFS_EXTENT: u32 = 16;

/// A file system in a part of a device.
#[derive(Debug)]
pub struct FileSystem {
    /// Where it lies.
    area: Extent64,
    ground: Ground,
    style: Style,
    format: Format,
    nodes: HashMap<Inode, Node>,
    journal: Option<Extent>,
    /// Pages that delayed allocation has promised blocks to.
    promised: u64,
    /// Kept between operations for its memory.
    steps: Vec<Step>,
}

/// A part of a device, of any length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Extent64 {
    start: Block,
    blocks: u64,
}

impl FileSystem {
    /// An empty one in `blocks` blocks from `start` on.
    ///
    /// # Errors
    /// An option is out of its range, or there is too little room for what it asks.
    pub fn new(options: &Options, start: Block, blocks: u64) -> Result<Self, Unmakeable> {
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
            ground: Ground::new(options, layout, space),
            style,
            format,
            nodes: HashMap::new(),
            journal,
            promised: 0,
            steps: Vec::new(),
        };
        let root = new.root();
        let mut nothing = Touched::default();
        new.nodes.insert(root, new.new_directory());
        new.first_pages(root, &mut nothing)
            .map_err(|_| Unmakeable::TooSmall { blocks, needs: blocks + 1 })?;
        Ok(new)
    }

    /// The root directory.
    #[must_use]
    pub fn root(&self) -> Inode {
        self.ground.layout.root()
    }

    /// Where the log lies; `None` without one.
    #[must_use]
    pub fn journal_area(&self) -> Option<Extent> {
        self.journal
    }

    /// Its first block and its length in blocks.
    #[must_use]
    pub fn area(&self) -> (Block, u64) {
        (self.area.start, self.area.blocks)
    }

    /// Blocks that nobody has, keeps or was promised.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        self.ground.space.free().saturating_sub(self.promised)
    }

    /// The block of the inode table that holds an inode: what `stat` reads and what a changed time or length dirties.
    #[must_use]
    pub fn inode_block(&self, inode: Inode) -> Block {
        self.area.start.plus(u64::from(self.ground.layout.inode_block(inode)))
    }

    /// The blocks that are read together with a block of metadata, which is among them.
    pub fn read_beside(&self, block: Block) -> Range<u64> {
        let start = self.area.start.0;
        let beside = self.ground.layout.read_beside((block.0 - start) as u32);
        start + u64::from(beside.start)..start + u64::from(beside.end)
    }

    fn new_directory(&self) -> Node {
        let directory = Directory::new(self.format);
        let bytes = u64::from(directory.length()) * BLOCK_BYTES;
        Node { directory: Some(Box::new(directory)), bytes, ..Node::default() }
    }

    /// Gives a new directory the pages that it begins with.
    fn first_pages(&mut self, inode: Inode, touched: &mut Touched) -> Result<(), Errno> {
        let pages = self.nodes.get(&inode).map_or(0, |node| (node.bytes / BLOCK_BYTES) as u32);
        let mut bill = Bill::new(touched, self.area.start);
        (0..pages).try_for_each(|page| self.directory_page(inode, page, &mut bill))
    }

    /// Gives a directory one more page.
    fn directory_page(&mut self, inode: Inode, page: u32, bill: &mut Bill<'_>) -> Result<(), Errno> {
        let mut fresh = None;
        let mut growth = self.growth(inode, 0).ok_or(Errno::NotFound)?;
        growth.fill(page, page + 1, bill, |piece| fresh = Some(piece.at))?;
        fresh.into_iter().for_each(|at| bill.fresh(at));
        Ok(())
    }

    fn growth(&mut self, inode: Inode, by: u32) -> Option<Growth<'_>> {
        let node = self.nodes.get_mut(&inode)?;
        Some(Growth { ground: &mut self.ground, style: self.style, node, inode, by })
    }
}

fn place_journal(
    layout: &Layout,
    space: &mut space::Space,
    start: Block,
) -> Result<Option<Extent>, Unmakeable> {
    let (blocks, goal) = layout.journal(space);
    if blocks == 0 {
        return Ok(None);
    }
    let found = space.find_run(goal, space.blocks(), blocks);
    let at = found
        .or_else(|| space.find_run(0, space.blocks(), blocks))
        .ok_or(Unmakeable::NoRoomForJournal { blocks })?;
    space.take(at, blocks);
    Ok(Some(Extent { start: start.plus(u64::from(at)), blocks }))
}
