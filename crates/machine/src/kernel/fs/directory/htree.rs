//! ext3's hashed index: the first page is the root, leaves contain names by hash.
//!
//! Reduction: the index has at most two levels, and an index page counts as full (508 pointers) before there is another.

use std::rc::Rc;

use super::contents::{CAPACITY, Directory, HashIndex, Leaf, Named, POINTERS, Page, PageAccess, hash};

/// Accesses of a lookup: root, index page, leaf.
pub(super) fn look(directory: &Directory, name: &str, found: Option<Named>, accesses: &mut Vec<PageAccess>) {
    if !directory.htree.is_on() {
        accesses.push(PageAccess::Read(0));
        return;
    }
    let leaf = directory.htree.leaf_of(hash(name));
    directory.htree.read_index(leaf, accesses);
    let page = directory.htree.leaves[leaf].page;
    accesses.push(PageAccess::Read(page));
    // Names with the same hash may be in two leaves; then the search continues in the next leaf.
    if let Some(found) = found.filter(|found| found.page != page) {
        accesses.push(PageAccess::Read(found.page));
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
            1 + HashIndex::nodes_for(htree.leaves.len() + 1) - htree.nodes.len()
        }
    };
    (directory.length()..directory.length() + new as u32).collect()
}

/// The leaf of the name's hash, split if it is full.
pub(super) fn make_room(directory: &mut Directory, name: &str, accesses: &mut Vec<PageAccess>) -> u32 {
    let bytes = directory.entry_bytes(name);
    if !directory.htree.is_on() {
        if directory.has_room(0, bytes) {
            accesses.push(PageAccess::Change(0));
            return 0;
        }
        index(directory, accesses);
    }
    let hash = hash(name);
    let mut leaf = directory.htree.leaf_of(hash);
    if !directory.has_room(directory.htree.leaves[leaf].page, bytes) {
        split(directory, leaf, accesses);
        leaf = directory.htree.leaf_of(hash);
    }
    let page = directory.htree.leaves[leaf].page;
    accesses.push(PageAccess::Change(page));
    page
}

/// Makes the only page the root. Its names move to a leaf, which is split at once: `make_indexed_dir` does so even if the 24
/// bytes of "." and ".." would be enough.
fn index(directory: &mut Directory, accesses: &mut Vec<PageAccess>) {
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
    accesses.extend([PageAccess::Change(0), PageAccess::Change(page)]);
    split(directory, 0, accesses);
}

/// Moves the upper half of a leaf's names, by hash, to a new page.
fn split(directory: &mut Directory, leaf: usize, accesses: &mut Vec<PageAccess>) {
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
    accesses.extend([PageAccess::Change(old), PageAccess::Change(new)]);
    let needed = HashIndex::nodes_for(directory.htree.leaves.len());
    while directory.htree.nodes.len() < needed {
        let node = directory.length();
        directory.pages.push(Page { used: CAPACITY, names: Vec::new() });
        directory.htree.nodes.push(node);
        accesses.extend([PageAccess::Change(0), PageAccess::Change(node)]);
    }
    let index = directory.htree.nodes.get(leaf / POINTERS).copied().unwrap_or(0);
    accesses.push(PageAccess::Change(index));
}

/// Names by leaf and hash. A directory of one block has no index but is listed in this order as well (`is_dx_dir` of
/// `fs/ext4/dir.c`, and ext3 before), so that the order does not change as it grows.
pub(super) fn list(directory: &Directory, accesses: &mut Vec<PageAccess>) -> Vec<Rc<str>> {
    if !directory.htree.is_on() {
        accesses.extend((0..directory.length()).map(PageAccess::Read));
        let mut all: Vec<Rc<str>> = directory.pages.iter().flat_map(|page| &page.names).cloned().collect();
        all.sort_by_key(|name| hash(name));
        return all;
    }
    let mut all = Vec::with_capacity(directory.names.len());
    for (i, leaf) in directory.htree.leaves.iter().enumerate() {
        if i == 0 || i.is_multiple_of(POINTERS) {
            directory.htree.read_index(i, accesses);
        }
        accesses.push(PageAccess::Read(leaf.page));
        let mut names = directory.pages[leaf.page as usize].names.clone();
        names.sort_by_key(|name| hash(name));
        all.append(&mut names);
    }
    all
}
