//! Consistency check of a file system, as by `fsck`.

use hashbrown::HashSet;

use super::FileSystem;
use super::fault::Fault;
use super::node::Node;
use super::space::Space;
use super::tree::{self, Style};
use super::types::{BLOCK_BYTES, Inode};

impl FileSystem {
    /// Checks that every block has one owner, bitmaps and counters are right, and every file is reachable by one path. Time
    /// and memory are proportional to the file system.
    pub fn check(&self) -> Result<(), Fault> {
        self.check_blocks()?;
        let nodes = |inode| self.nodes.get(&inode).map(|node: &Node| node.directory.is_some());
        if self.allocator.layout.check_inodes(&nodes)? != self.nodes.len() as u64 {
            return Err(Fault::Totals);
        }
        self.nodes.iter().try_for_each(|(&inode, node)| self.check_mapping(inode, node))?;
        self.check_paths()
    }

    fn check_blocks(&self) -> Result<(), Fault> {
        let real = &self.allocator.space;
        let mut owned = Owned { real, all: Space::new(real.blocks()), fault: None };
        self.allocator.layout.own_blocks(&mut |at, n| owned.take(at, n));
        if let Some(journal) = self.journal {
            owned.take((journal.start.0 - self.area.start.0) as u32, journal.blocks);
        }
        let packed = self.allocator.packed();
        owned.take(packed.at, packed.n);
        for node in self.nodes.values() {
            owned.take(node.window.at, node.window.n);
            node.extents.as_slice().iter().for_each(|extent| owned.take(extent.at, extent.n));
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
        let extents = node.extents.as_slice();
        let needed: HashSet<tree::Name> = match self.style {
            Style::Indirect => extents
                .iter()
                .flat_map(|extent| extent.page..extent.end())
                .flat_map(tree::indirect_path)
                .collect(),
            Style::Extents { inline, fanout } => {
                tree::extent_blocks(extents.len() as u32, inline, fanout).collect()
            }
        };
        if needed.iter().any(|&name| node.tree.get(name).is_none()) {
            return fault();
        }
        // Merged extents and failed allocations may leave unneeded mapping blocks; only extents beyond the end are a fault.
        let end = node.extents.as_slice().last().map_or(0, |extent| extent.end());
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
                || directory.allocated().iter().any(|&page| node.extents.block(page).is_none())
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

/// Block owners, counted anew.
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
