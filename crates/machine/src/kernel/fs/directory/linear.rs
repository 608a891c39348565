//! ext2's way: from block to block.

use super::{Directory, Named, Page, Step};

/// From the page where the last name was found, around, up to the one that has it.
pub(super) fn look(directory: &Directory, found: Option<Named>, steps: &mut Vec<Step>) {
    let pages = directory.length();
    let first = directory.found_in.min(pages - 1);
    let count = found.map_or(pages, |named| (named.page + pages - first) % pages + 1);
    steps.extend((0..count).map(|i| Step::Read((first + i) % pages)));
}

pub(super) fn growth(directory: &Directory, name: &str) -> Vec<u32> {
    match first_with_room(directory, name) {
        Some(_) => Vec::new(),
        None => vec![directory.length()],
    }
}

/// The first page with room, from the beginning, or a new one.
pub(super) fn make_room(directory: &mut Directory, name: &str, steps: &mut Vec<Step>) -> u32 {
    let page = first_with_room(directory, name);
    let before = page.unwrap_or(directory.length());
    // The search that found that the name is not there has read all of them; only their order matters here.
    steps.extend((0..before).map(Step::Read));
    let page = page.unwrap_or_else(|| {
        directory.pages.push(Page::default());
        directory.length() - 1
    });
    steps.push(Step::Change(page));
    page
}

fn first_with_room(directory: &Directory, name: &str) -> Option<u32> {
    let bytes = directory.entry_bytes(name);
    (0..directory.length()).find(|&page| directory.has_room(page, bytes))
}
