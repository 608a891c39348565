//! `fsck`: whether everything that the file system says of itself is true.

use hashbrown::HashSet;

use super::space::Space;
use super::tree::{self, Style};
use super::words::{BLOCK_BYTES, Inode};
use super::{FileSystem, Node};

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// A block belongs to two, or to nobody and is marked used all the same.
    #[error("block {block} of the file system is owned twice, or not marked used")]
    Owned {
        /// Counted from the file system's beginning.
        block: u32,
    },
    /// Used blocks that nobody owns.
    #[error("{blocks} blocks are marked used that nobody owns")]
    Lost {
        /// How many.
        blocks: u64,
    },
    /// A bit of an inode bitmap is wrong.
    #[error("inode {} is {} in the bitmap", inode.0, if *used { "used" } else { "free" })]
    InodeBitmap {
        /// Whose.
        inode: Inode,
        /// What the bitmap says.
        used: bool,
    },
    /// A group's counts are wrong.
    #[error("the counts of group {group} are wrong")]
    Counts {
        /// Which.
        group: u32,
    },
    /// The file system's counts are wrong.
    #[error("the totals are wrong")]
    Totals,
    /// A name stands for nobody, or for one that another name stands for.
    #[error("the name {name} in directory {} stands for nobody or a second time", directory.0)]
    Name {
        /// Where.
        directory: Inode,
        /// Which.
        name: String,
    },
    /// A directory's pages and names do not agree.
    #[error("the pages of directory {} do not hold its names", directory.0)]
    Directory {
        /// Which.
        directory: Inode,
    },
    /// Files that have names but that no path leads to, or the other way round.
    #[error("{files} files have no path to them")]
    Unreachable {
        /// How many.
        files: u64,
    },
    /// A file lacks a mapping block or has one too many.
    #[error("inode {} has mapping blocks that it does not need, or lacks some", inode.0)]
    Mapping {
        /// Whose.
        inode: Inode,
    },
}

impl FileSystem {
    /// Looks everything over: every block owned once, bitmaps and counts as they should be, every file reachable by one
    /// path. Takes time and memory in proportion to the file system.
    ///
    /// # Errors
    /// The first [`Fault`] found.
    pub fn check(&self) -> Result<(), Fault> {
        self.check_blocks()?;
        let nodes = |inode| self.nodes.get(&inode).map(|node: &Node| node.directory.is_some());
        if self.ground.layout.check_inodes(&nodes)? != self.nodes.len() as u64 {
            return Err(Fault::Totals);
        }
        self.nodes.iter().try_for_each(|(&inode, node)| self.check_mapping(inode, node))?;
        self.check_paths()
    }

    fn check_blocks(&self) -> Result<(), Fault> {
        let real = &self.ground.space;
        let mut owned = Owned { real, all: Space::new(real.blocks()), fault: None };
        self.ground.layout.own_blocks(&mut |at, n| owned.take(at, n));
        if let Some(journal) = self.journal {
            owned.take((journal.start.0 - self.area.start.0) as u32, journal.blocks);
        }
        let packed = self.ground.packed();
        owned.take(packed.at, packed.n);
        for node in self.nodes.values() {
            owned.take(node.window.at, node.window.n);
            node.pieces.as_slice().iter().for_each(|piece| owned.take(piece.at, piece.n));
            node.tree.blocks().for_each(|at| owned.take(at, 1));
        }
        if let Some(fault) = owned.fault {
            return Err(fault);
        }
        let all = owned.all;
        for group in 0..real.groups() {
            let counted = real.count_free(group);
            if counted != real.free_in(group) {
                return Err(Fault::Counts { group });
            }
        }
        match all.free().checked_sub(real.free()) {
            Some(0) => Ok(()),
            lost => Err(Fault::Lost { blocks: lost.unwrap_or(0) }),
        }
    }

    fn check_mapping(&self, inode: Inode, node: &Node) -> Result<(), Fault> {
        let fault = || Err(Fault::Mapping { inode });
        let pieces = node.pieces.as_slice();
        let needed: HashSet<tree::Name> = match self.style {
            Style::Indirect => pieces
                .iter()
                .flat_map(|piece| piece.page..piece.end())
                .flat_map(tree::indirect_path)
                .collect(),
            Style::Extents { inline, fanout } => {
                tree::extent_blocks(pieces.len() as u32, inline, fanout).collect()
            }
        };
        if needed.iter().any(|&name| node.tree.get(name).is_none()) {
            return fault();
        }
        // Merged pieces and failed allocations may leave some more than are needed; there is an end to that.
        let end = node.pieces.as_slice().last().map_or(0, |piece| piece.end());
        let length = node.bytes.div_ceil(BLOCK_BYTES);
        if node.directory.is_none() && u64::from(end) > length {
            return fault();
        }
        Ok(())
    }

    fn check_paths(&self) -> Result<(), Fault> {
        let mut seen: HashSet<Inode> = [self.root()].into_iter().collect();
        let mut todo = vec![self.root()];
        while let Some(inode) = todo.pop() {
            let node = &self.nodes[&inode];
            let Some(directory) = &node.directory else { continue };
            if !directory.agrees()
                || directory.allocated().iter().any(|&page| node.pieces.block(page).is_none())
            {
                return Err(Fault::Directory { directory: inode });
            }
            for (name, named) in directory.names() {
                let target = self.nodes.get(&named.inode);
                let right = target.is_some_and(|it| it.directory.is_some() == named.directory && !it.orphan);
                if !right || !seen.insert(named.inode) {
                    return Err(Fault::Name { directory: inode, name: name.to_string() });
                }
                todo.push(named.inode);
            }
        }
        let named = self.nodes.values().filter(|node| !node.orphan).count();
        let files = named.abs_diff(seen.len()) as u64;
        if files == 0 { Ok(()) } else { Err(Fault::Unreachable { files }) }
    }
}

/// Who owns what, found out anew.
struct Owned<'a> {
    real: &'a Space,
    all: Space,
    fault: Option<Fault>,
}

impl Owned<'_> {
    fn take(&mut self, at: u32, n: u32) {
        for block in at..at + n {
            if !self.all.is_free(block) || self.real.is_free(block) {
                self.fault.get_or_insert(Fault::Owned { block });
                return;
            }
            self.all.take(block, 1);
        }
    }
}
