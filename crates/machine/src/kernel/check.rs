//! Do the kernel's accounts agree? Asked by tests, after every event if they like.

use std::collections::BTreeMap;

use super::Kernel;
use super::cache::{FileId, List};
use super::state::State;

impl Kernel {
    /// Adds up what is kept in several places.
    ///
    /// # Errors
    /// The first account that does not agree, with both numbers.
    pub fn check(&self) -> Result<(), String> {
        self.state.borrow().check()
    }
}

fn agree(what: &str, kept: usize, counted: usize) -> Result<(), String> {
    if kept == counted { Ok(()) } else { Err(format!("{what}: {kept} kept, {counted} counted")) }
}

impl State {
    fn check(&self) -> Result<(), String> {
        let known = || self.pages.iter().map(|(_, page)| page);
        agree("dirty pages", self.dirty, known().filter(|page| page.dirty).count())?;
        let listed = self.lru.len(List::Active) + self.lru.len(List::Inactive);
        agree("pages on the lists", listed, self.pages.len())?;
        let mut dirty: BTreeMap<FileId, usize> = BTreeMap::new();
        for page in known() {
            *dirty.entry(page.file).or_default() += usize::from(page.dirty);
            if page.dirty && !page.uptodate {
                return Err(format!("dirty without content: {page:?}"));
            }
            if page.held && page.dirty {
                return Err(format!("dirty although its transaction is not durable: {page:?}"));
            }
            if page.reading && (page.dirty || page.writing) {
                return Err(format!("read and written at a time: {page:?}"));
            }
        }
        let mut writing = 0;
        for (id, file) in self.files.iter() {
            agree(&format!("dirty pages of {id:?}"), file.dirty.len(), dirty.remove(&id).unwrap_or(0))?;
            agree(
                &format!("place among dirty files of {id:?}"),
                usize::from(file.dirtied.is_some()),
                usize::from(!file.dirty.is_empty()),
            )?;
            writing += file.writing as usize;
        }
        if let Some((id, n)) = dirty.into_iter().find(|&(_, n)| n > 0) {
            return Err(format!("{n} dirty pages of {id:?}, of which nothing is known"));
        }
        let out: usize = self.bios.iter().filter(|bio| bio.is_writeback()).map(|bio| bio.pages.len()).sum();
        agree("pages on their way to the device", self.writing, out)?;
        let swapping: usize = self.bios.iter().filter(|bio| bio.is_swap()).map(|bio| bio.pages.len()).sum();
        agree("pages of files on their way to the device", writing, out - swapping)
    }
}
