//! Directories: entries, their pages, and the page accesses of each operation.
//!
//! Names are found by a hash in memory; the accesses of the search on disk are computed, as pages of the directory, which is
//! a file. Sources: `fs/ext2/dir.c`, `fs/ext3/namei.c` of Linux 2.6, XFS's directory format. Differences: free bytes of a
//! block count as contiguous, and blocks are not freed before the directory is (as in ext, unlike XFS).

mod contents;
mod htree;
mod linear;
mod xfs;

use std::rc::Rc;

use super::types::{Entry, Inode};

pub(super) use contents::{Directory, Format, Named, PageAccess};

impl Directory {
    /// All pages, in the order of their allocation.
    pub(super) fn allocated(&self) -> Vec<u32> {
        let hashed = xfs::hashed_pages(self);
        (0..self.pages.len() as u32).chain(hashed).collect()
    }

    /// Looks a name up.
    pub(super) fn look(&mut self, name: &str, accesses: &mut Vec<PageAccess>) -> Option<Named> {
        let found = self.find(name);
        match self.format {
            Format::Linear => linear::look(self, found, accesses),
            Format::Htree => htree::look(self, name, found, accesses),
            Format::XfsLike { .. } => xfs::look(self, name, found, accesses),
        }
        if let Some(found) = found {
            self.found_in = found.page;
        }
        found
    }

    /// Pages that must be allocated before the name can be added.
    pub(super) fn growth(&self, name: &str) -> Vec<u32> {
        match self.format {
            Format::Linear => linear::growth(self, name),
            Format::Htree => htree::growth(self, name),
            Format::XfsLike { .. } => xfs::growth(self, name),
        }
    }

    /// Adds a name, which must be absent.
    pub(super) fn add(&mut self, name: &str, inode: Inode, directory: bool, accesses: &mut Vec<PageAccess>) {
        let page = match self.format {
            Format::Linear => linear::make_room(self, name, accesses),
            Format::Htree => htree::make_room(self, name, accesses),
            Format::XfsLike { .. } => xfs::make_room(self, name, accesses),
        };
        let bytes = self.entry_bytes(name);
        self.bytes += bytes;
        let name: Rc<str> = name.into();
        if let Some(page) = self.pages.get_mut(page as usize) {
            page.used += bytes;
            page.names.push(Rc::clone(&name));
        }
        self.names.insert(name, Named { inode, directory, page });
    }

    /// Removes a name, which must be present; the search has read its page.
    pub(super) fn remove(&mut self, name: &str, accesses: &mut Vec<PageAccess>) {
        let Some(named) = self.names.remove(name) else { return };
        let bytes = self.entry_bytes(name);
        self.bytes -= bytes;
        let Some(page) = self.pages.get_mut(named.page as usize) else { return };
        page.used -= bytes;
        if let Some(i) = page.names.iter().position(|other| **other == *name) {
            page.names.remove(i);
        }
        accesses.push(PageAccess::Change(named.page));
        if matches!(self.format, Format::XfsLike { .. }) {
            xfs::unindex(self, name, accesses);
        }
    }

    /// Entries in the order of a listing.
    pub(super) fn list(&self, accesses: &mut Vec<PageAccess>) -> Vec<Entry> {
        let entry = |name: &Rc<str>| {
            let named = self.names.get(name)?;
            Some(Entry { name: Rc::clone(name), inode: named.inode, directory: named.directory })
        };
        if self.pages.is_empty() {
            // In the inode, in order of creation, which inode numbers approximate.
            let mut all: Vec<Entry> = self.names.keys().filter_map(entry).collect();
            all.sort_by(|a, b| (a.inode, &a.name).cmp(&(b.inode, &b.name)));
            return all;
        }
        if self.format == Format::Htree {
            return htree::list(self, accesses).iter().filter_map(entry).collect();
        }
        accesses.extend((0..self.length()).map(PageAccess::Read));
        self.pages.iter().flat_map(|page| &page.names).filter_map(entry).collect()
    }
}

#[cfg(test)]
mod tests;
