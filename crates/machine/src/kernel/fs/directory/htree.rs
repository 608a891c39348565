//! ext3's hashed index: the first page becomes its root, and leaves are kept apart by the hashes of their names.
//!
//! Reduced: an index page is one of at most two levels and taken to be full (508 pointers) before there is another.

use std::rc::Rc;

use super::{CAPACITY, Directory, Named, Page, Step, hash};

/// Pointers in an index page.
const POINTERS: usize = 508;

/// The index.
#[derive(Clone, Debug, Default)]
pub(super) struct Htree {
    /// Leaves in the order of the hashes that they begin at.
    leaves: Vec<Leaf>,
    /// Index pages under the root, once it has more leaves than pointers.
    nodes: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    from: u32,
    page: u32,
}

impl Htree {
    fn is_on(&self) -> bool {
        !self.leaves.is_empty()
    }

    fn leaf_of(&self, hash: u32) -> usize {
        self.leaves.partition_point(|leaf| leaf.from <= hash).saturating_sub(1)
    }

    fn read_index(&self, leaf: usize, steps: &mut Vec<Step>) {
        steps.push(Step::Read(0));
        if let Some(&node) = self.nodes.get(leaf / POINTERS) {
            steps.push(Step::Read(node));
        }
    }

    /// Index pages that so many leaves need under the root.
    fn nodes_for(leaves: usize) -> usize {
        if leaves <= POINTERS { 0 } else { leaves.div_ceil(POINTERS) }
    }
}

/// Root, index page, leaf.
pub(super) fn look(directory: &Directory, name: &str, found: Option<Named>, steps: &mut Vec<Step>) {
    if !directory.htree.is_on() {
        steps.push(Step::Read(0));
        return;
    }
    let leaf = directory.htree.leaf_of(hash(name));
    directory.htree.read_index(leaf, steps);
    let page = directory.htree.leaves[leaf].page;
    steps.push(Step::Read(page));
    // Names of one hash may have been split over two leaves: then the search goes on to the next one.
    if let Some(found) = found.filter(|found| found.page != page) {
        steps.push(Step::Read(found.page));
    }
}

pub(super) fn growth(directory: &Directory, name: &str) -> Vec<u32> {
    let bytes = directory.entry_bytes(name);
    let htree = &directory.htree;
    let new = if !htree.is_on() {
        if directory.has_room(0, bytes) { 0 } else { 2 }
    } else {
        let leaf = htree.leaves[htree.leaf_of(hash(name))];
        if directory.has_room(leaf.page, bytes) {
            0
        } else {
            1 + Htree::nodes_for(htree.leaves.len() + 1) - htree.nodes.len()
        }
    };
    (directory.length()..directory.length() + new as u32).collect()
}

/// The leaf of the name's hash, split in two if it is full.
pub(super) fn make_room(directory: &mut Directory, name: &str, steps: &mut Vec<Step>) -> u32 {
    let bytes = directory.entry_bytes(name);
    if !directory.htree.is_on() {
        if directory.has_room(0, bytes) {
            steps.push(Step::Change(0));
            return 0;
        }
        index(directory, steps);
    }
    let hash = hash(name);
    let mut leaf = directory.htree.leaf_of(hash);
    if !directory.has_room(directory.htree.leaves[leaf].page, bytes) {
        split(directory, leaf, steps);
        leaf = directory.htree.leaf_of(hash);
    }
    let page = directory.htree.leaves[leaf].page;
    steps.push(Step::Change(page));
    page
}

/// The only page becomes the root; what it held goes to a leaf, which is split at once, as `make_indexed_dir` does even where the
/// 24 bytes of "." and ".." would have been room enough.
fn index(directory: &mut Directory, steps: &mut Vec<Step>) {
    let root = &mut directory.pages[0];
    let leaf = Page { used: root.used - 24, names: std::mem::take(&mut root.names) };
    root.used = CAPACITY;
    let page = directory.length();
    for name in &leaf.names {
        if let Some(named) = directory.names.get_mut(name) {
            named.page = page;
        }
    }
    directory.pages.push(leaf);
    directory.htree.leaves.push(Leaf { from: 0, page });
    steps.extend([Step::Change(0), Step::Change(page)]);
    split(directory, 0, steps);
}

/// The upper half of a leaf's names, by hash, moves to a new page.
fn split(directory: &mut Directory, leaf: usize, steps: &mut Vec<Step>) {
    let old = directory.htree.leaves[leaf].page;
    let new = directory.length();
    let names = std::mem::take(&mut directory.pages[old as usize].names);
    let mut sorted: Vec<(u32, Rc<str>)> = names.into_iter().map(|name| (hash(&name), name)).collect();
    sorted.sort_by_key(|&(hash, _)| hash);
    let total: u32 = sorted.iter().map(|(_, name)| directory.entry_bytes(name)).sum();
    let (mut low, mut high) = (Page::default(), Page::default());
    let mut from = None;
    for (hash, name) in sorted {
        let bytes = directory.entry_bytes(&name);
        let to_low = low.used + bytes <= total.div_ceil(2);
        let page = if to_low && from.is_none() { &mut low } else { &mut high };
        page.used += bytes;
        if !to_low || from.is_some() {
            from.get_or_insert(hash);
            if let Some(named) = directory.names.get_mut(&name) {
                named.page = new;
            }
        }
        page.names.push(name);
    }
    directory.pages[old as usize] = low;
    directory.pages.push(high);
    let from = from.unwrap_or(u32::MAX);
    directory.htree.leaves.insert(leaf + 1, Leaf { from, page: new });
    steps.extend([Step::Change(old), Step::Change(new)]);
    let needed = Htree::nodes_for(directory.htree.leaves.len());
    while directory.htree.nodes.len() < needed {
        let node = directory.length();
        directory.pages.push(Page { used: CAPACITY, names: Vec::new() });
        directory.htree.nodes.push(node);
        steps.extend([Step::Change(0), Step::Change(node)]);
    }
    let index = directory.htree.nodes.get(leaf / POINTERS).copied().unwrap_or(0);
    steps.push(Step::Change(index));
}

/// Leaf after leaf, names in the order of their hashes. A directory of one block has no index yet and is listed in that order all
/// the same (`is_dx_dir` of `fs/ext4/dir.c`, and of ext3 before it), so that it does not change as it grows.
pub(super) fn list(directory: &Directory, steps: &mut Vec<Step>) -> Vec<Rc<str>> {
    if !directory.htree.is_on() {
        steps.extend((0..directory.length()).map(Step::Read));
        let mut all: Vec<Rc<str>> = directory.pages.iter().flat_map(|page| &page.names).cloned().collect();
        all.sort_by_key(|name| hash(name));
        return all;
    }
    let mut all = Vec::with_capacity(directory.names.len());
    for (i, leaf) in directory.htree.leaves.iter().enumerate() {
        if i == 0 || i.is_multiple_of(POINTERS) {
            directory.htree.read_index(i, steps);
        }
        steps.push(Step::Read(leaf.page));
        let mut names = directory.pages[leaf.page as usize].names.clone();
        names.sort_by_key(|name| hash(name));
        all.append(&mut names);
    }
    all
}
