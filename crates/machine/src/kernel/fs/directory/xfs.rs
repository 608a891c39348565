//! XFS-like directories: small ones in the inode, larger ones in data blocks and hash blocks.
//!
//! Reduction: hash blocks count as full, with hashes spread evenly.

use super::contents::{CAPACITY, Directory, Format, Named, Page, PageAccess, hash};

/// Page at which hash blocks begin: 32 GB into the directory.
const HASHED: u32 = 1 << 23;
/// Bytes of a name in a hash block.
const HASH_BYTES: u32 = 8;

/// Number of hash blocks: none while all entries fit in one block, then one, then more below a root.
fn hashed_blocks(pages: u32, names: u32) -> u32 {
    if pages <= 1 {
        return 0;
    }
    let leaves = (names * HASH_BYTES).div_ceil(CAPACITY).max(1);
    if leaves == 1 { 1 } else { leaves + 1 }
}

pub(super) fn hashed_pages(directory: &Directory) -> impl Iterator<Item = u32> {
    let on = matches!(directory.format, Format::XfsLike { .. });
    let blocks = if on { directory.hashed } else { 0 };
    HASHED..HASHED + blocks
}

/// Accesses of a lookup: root of the hashes, leaf, data block.
pub(super) fn look(directory: &Directory, name: &str, found: Option<Named>, accesses: &mut Vec<PageAccess>) {
    accesses.extend(index_path(directory, name).map(PageAccess::Read));
    match found {
        Some(found) if !directory.pages.is_empty() => accesses.push(PageAccess::Read(found.page)),
        None if directory.length() == 1 => accesses.push(PageAccess::Read(0)),
        _ => {}
    }
}

fn index_path(directory: &Directory, name: &str) -> impl Iterator<Item = u32> {
    let blocks = directory.hashed;
    let leaves = if blocks > 1 { blocks - 1 } else { blocks };
    let leaf = (u64::from(hash(name)) * u64::from(leaves)) >> 32;
    let root = (blocks > 1).then_some(HASHED);
    let leaf = (blocks > 0).then_some(HASHED + u32::from(blocks > 1) + leaf as u32);
    root.into_iter().chain(leaf)
}

pub(super) fn growth(directory: &Directory, name: &str) -> Vec<u32> {
    let Format::XfsLike { inline } = directory.format else { return Vec::new() };
    let bytes = directory.entry_bytes(name);
    let pages = directory.length();
    if pages == 0 && directory.bytes + bytes <= inline {
        return Vec::new();
    }
    let data = u32::from(first_with_room(directory, bytes).is_none());
    let hashed = hashed_blocks(pages + data, directory.names.len() as u32 + 1).max(directory.hashed);
    (pages..pages + data).chain(HASHED + directory.hashed..HASHED + hashed).collect()
}

/// The first data block with room; the entries move out of the inode when it is full.
pub(super) fn make_room(directory: &mut Directory, name: &str, accesses: &mut Vec<PageAccess>) -> u32 {
    let new = growth(directory, name);
    let bytes = directory.entry_bytes(name);
    if directory.pages.is_empty() && new.is_empty() {
        return 0;
    }
    if directory.pages.is_empty() {
        let names = directory.names.keys().cloned().collect();
        directory.pages.push(Page { used: directory.bytes, names });
        directory.pages[0].names.sort_by_key(|name| directory.names[name].inode);
    } else if new.first() == Some(&directory.length()) {
        directory.pages.push(Page::default());
    }
    directory.hashed += new.iter().filter(|&&page| page >= HASHED).count() as u32;
    let page = first_with_room(directory, bytes).unwrap_or(0);
    accesses.push(PageAccess::Change(page));
    accesses.extend(index_path(directory, name).map(PageAccess::Change));
    page
}

/// Removes the hash of a removed name.
pub(super) fn unindex(directory: &Directory, name: &str, accesses: &mut Vec<PageAccess>) {
    accesses.extend(index_path(directory, name).map(PageAccess::Change));
}

fn first_with_room(directory: &Directory, bytes: u32) -> Option<u32> {
    // A directory of one block contains its hashes.
    let names = if directory.length() == 1 { directory.names.len() as u32 + 1 } else { 0 };
    let bytes = bytes + names * HASH_BYTES;
    (0..directory.length()).find(|&page| directory.has_room(page, bytes))
}
