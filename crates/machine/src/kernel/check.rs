//! Consistency check of the kernel's counters and page flags, for tests.

use std::collections::BTreeMap;

use super::Kernel;
use super::cache::{FileId, List};
use super::state::State;

/// An inconsistency in the kernel's state.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Inconsistency {
    /// A counter differs from the objects that it counts.
    #[error("{counter}: the counter is {kept}, counted {counted}")]
    Counter {
        counter: String,
        /// Its value.
        kept: usize,
        /// The number of objects.
        counted: usize,
    },
    /// A page has contradictory flags.
    #[error("{problem}: {page}")]
    Page {
        /// The contradiction.
        problem: &'static str,
        page: String,
    },
}

impl Kernel {
    /// Compares every counter with the pages and submissions that it counts.
    pub fn check(&self) -> Result<(), Inconsistency> {
        self.state.borrow().check()
    }
}

fn agree(counter: impl Into<String>, kept: usize, counted: usize) -> Result<(), Inconsistency> {
    if kept == counted {
        Ok(())
    } else {
        Err(Inconsistency::Counter { counter: counter.into(), kept, counted })
    }
}

impl State {
    fn check(&self) -> Result<(), Inconsistency> {
        let known = || self.pages.iter().map(|(_, page)| page);
        agree("dirty pages", self.dirty, known().filter(|page| page.dirty).count())?;
        let listed = self.lru.len(List::Active) + self.lru.len(List::Inactive);
        agree("pages on the LRU lists", listed, self.pages.len())?;
        let mut dirty: BTreeMap<FileId, usize> = BTreeMap::new();
        for page in known() {
            *dirty.entry(page.file).or_default() += usize::from(page.dirty);
            let contradiction = |problem| Err(Inconsistency::Page { problem, page: format!("{page:?}") });
            if page.dirty && !page.uptodate {
                return contradiction("dirty without content");
            }
            if page.held && page.dirty {
                return contradiction("dirty before its transaction is durable");
            }
            if page.reading && (page.dirty || page.writing) {
                return contradiction("read and written at the same time");
            }
        }
        let mut writing = 0;
        for (id, file) in self.files.iter() {
            agree(format!("dirty pages of {id:?}"), file.dirty.len(), dirty.remove(&id).unwrap_or(0))?;
            agree(
                format!("entry of {id:?} among the dirty files"),
                usize::from(file.dirtied.is_some()),
                usize::from(!file.dirty.is_empty()),
            )?;
            writing += file.writing as usize;
        }
        if let Some((id, n)) = dirty.into_iter().find(|&(_, n)| n > 0) {
            agree(format!("dirty pages of {id:?}, which has no cache entry"), 0, n)?;
        }
        let out: usize = self.bios.iter().filter(|bio| bio.is_writeback()).map(|bio| bio.pages.len()).sum();
        agree("pages under writeback", self.writing, out)?;
        let swapping: usize = self.bios.iter().filter(|bio| bio.is_swap()).map(|bio| bio.pages.len()).sum();
        agree("file pages under writeback", writing, out - swapping)
    }
}
