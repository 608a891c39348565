//! Mapping blocks of a file: indirect blocks or extent-tree blocks.

/// Pointers in the inode.
const DIRECT: u32 = 12;
/// Pointers in an indirect block.
const POINTERS: u32 = 1024;

/// How a file system maps files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    /// 12 direct pointers, then indirect, doubly and triply indirect blocks.
    Indirect,
    /// Extents in the inode, then blocks of extents under index blocks. Leaves count as full, so the number of extents
    /// determines the leaf of each.
    Extents {
        /// Extents in the inode: 4 in ext4, 9 in an XFS inode of 256 bytes.
        inline: u32,
        /// Extents in a block: 340 in ext4, 254 in XFS.
        fanout: u32,
    },
}

/// Identifies a mapping block: level above the data, from 1, and number within the level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Name {
    level: u8,
    number: u32,
}

/// The mapping blocks of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree(Vec<(Name, u32)>);

impl Tree {
    pub(super) fn get(&self, name: Name) -> Option<u32> {
        self.0.binary_search_by_key(&name, |&(name, _)| name).ok().map(|i| self.0[i].1)
    }

    pub(super) fn insert(&mut self, name: Name, at: u32) {
        let i = self.0.partition_point(|&(other, _)| other < name);
        self.0.insert(i, (name, at));
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|&(_, at)| at)
    }

    /// Removes the blocks for which `keep` returns false.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(Name) -> bool, mut freed: impl FnMut(u32)) {
        self.0.retain(|&(name, at)| {
            let stays = keep(name);
            if !stays {
                freed(at);
            }
            stays
        });
    }
}

/// The indirect blocks of a page, top down.
pub(super) fn indirect_path(page: u32) -> impl Iterator<Item = Name> {
    let name = |level, number| Some(Name { level, number });
    let none: Option<Name> = None;
    let path = match page.checked_sub(DIRECT) {
        None => [none; 3],
        Some(rest) => {
            let leaf = name(1, rest / POINTERS);
            match rest.checked_sub(POINTERS) {
                None => [leaf, none, none],
                Some(rest) => {
                    let double = name(2, rest / (POINTERS * POINTERS));
                    let triple = if rest < POINTERS * POINTERS { none } else { name(3, 0) };
                    [triple, double, leaf]
                }
            }
        }
    };
    path.into_iter().flatten()
}

/// Number of pages from `page` on that need no further indirect block.
pub(super) fn indirect_reach(page: u32) -> u32 {
    match page.checked_sub(DIRECT) {
        None => DIRECT - page,
        Some(rest) => POINTERS - rest % POINTERS,
    }
}

/// Whether a file of `pages` pages needs an indirect block.
pub(super) fn indirect_needed(name: Name, pages: u32) -> bool {
    let first = match name.level {
        1 => DIRECT + name.number * POINTERS,
        2 => DIRECT + POINTERS + name.number * POINTERS * POINTERS,
        _ => DIRECT + POINTERS + POINTERS * POINTERS,
    };
    pages > first
}

/// The blocks of a tree of this many extents.
pub(super) fn extent_blocks(extents: u32, inline: u32, fanout: u32) -> impl Iterator<Item = Name> {
    let above = |n: u32| if n <= inline { 0 } else { n.div_ceil(fanout) };
    let leaves = above(extents);
    let indexes = above(leaves);
    let names = |level, n| (0..n).map(move |number| Name { level, number });
    names(2, indexes).chain(names(1, leaves))
}

/// The blocks of the `index`-th extent, top down, whether or not the tree is deep enough.
pub(super) fn extent_path(index: u32, fanout: u32) -> [Name; 2] {
    let leaf = index / fanout;
    [Name { level: 2, number: leaf / fanout }, Name { level: 1, number: leaf }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(page: u32) -> Vec<(u8, u32)> {
        indirect_path(page).map(|name| (name.level, name.number)).collect()
    }

    #[test]
    fn pointers_of_ext2() {
        assert_eq!(path(11), []);
        assert_eq!(path(12), [(1, 0)]);
        assert_eq!(path(12 + 1023), [(1, 0)]);
        assert_eq!(path(12 + 1024), [(2, 0), (1, 1)]);
        assert_eq!(path(12 + 1024 + 1024 * 1024 - 1), [(2, 0), (1, 1024)]);
        assert_eq!(path(12 + 1024 + 1024 * 1024), [(3, 0), (2, 1), (1, 1025)]);
        assert_eq!((indirect_reach(0), indirect_reach(11), indirect_reach(12)), (12, 1, 1024));
    }

    #[test]
    fn a_block_is_needed_while_it_maps_a_page() {
        for pages in [0, 1, 12, 13, 1036, 1037, 2060, 2061, 1_049_612, 1_049_613] {
            let last = pages - u32::from(pages > 0);
            for name in indirect_path(last) {
                assert!(pages == 0 || indirect_needed(name, pages), "{name:?} of {pages}");
            }
            for name in indirect_path(pages).filter(|&name| indirect_path(last).all(|other| other != name)) {
                assert!(!indirect_needed(name, pages), "{name:?} of {pages}");
            }
        }
    }

    #[test]
    fn extents_beyond_the_inode() {
        let count = |n| extent_blocks(n, 4, 340).count();
        assert_eq!((count(4), count(5), count(340), count(341), count(4 * 340)), (0, 1, 1, 2, 4));
        assert_eq!(count(4 * 340 + 1), 5 + 1);
    }
}
