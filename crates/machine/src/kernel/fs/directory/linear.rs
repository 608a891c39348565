//! ext2's linear search.

use super::contents::{Directory, Named, Page, PageAccess};

/// Accesses of a lookup: from the page where the last name was found, around, to the page of the name.
pub(super) fn look(directory: &Directory, found: Option<Named>, accesses: &mut Vec<PageAccess>) {
    let pages = directory.length();
    let first = directory.found_in.min(pages - 1);
    let count = found.map_or(pages, |named| (named.page + pages - first) % pages + 1);
    accesses.extend((0..count).map(|i| PageAccess::Read((first + i) % pages)));
}

pub(super) fn growth(directory: &Directory, name: &str) -> Vec<u32> {
    match first_with_room(directory, name) {
        Some(_) => Vec::new(),
        None => vec![directory.length()],
    }
}

/// The first page with room, or a new page.
pub(super) fn make_room(directory: &mut Directory, name: &str, accesses: &mut Vec<PageAccess>) -> u32 {
    let page = first_with_room(directory, name);
    let before = page.unwrap_or(directory.length());
    // The search that did not find the name has read all pages; only the order counts here.
    accesses.extend((0..before).map(PageAccess::Read));
    let page = page.unwrap_or_else(|| {
        directory.pages.push(Page::default());
        directory.length() - 1
    });
    accesses.push(PageAccess::Change(page));
    page
}

fn first_with_room(directory: &Directory, name: &str) -> Option<u32> {
    let bytes = directory.entry_bytes(name);
    (0..directory.length()).find(|&page| directory.has_room(page, bytes))
}
