//! The dirty pages of the attached device's files.

use std::collections::BTreeMap;

use elevator::CauseSet;
use elevator::split::{File, Page};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A dirty page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Dirty {
    causes: CauseSet,
    /// The end of its folio: the kernel writes and drops folios as a whole, except what is behind the end of the file.
    end: u64,
}

/// Every dirty page, once.
#[derive(Default)]
pub(super) struct DirtyPages(BTreeMap<(u64, u64), Dirty>);

const fn page((file, offset): (u64, u64)) -> Page {
    Page { file: File(file), offset, bytes: PAGE as u32 }
}

impl DirtyPages {
    /// Adds the pages of a folio; each with its causes before, if it was dirty.
    pub(super) fn add(
        &mut self,
        file: u64,
        offset: u64,
        bytes: u32,
        causes: CauseSet,
    ) -> Vec<(Page, Option<CauseSet>)> {
        let end = offset + u64::from(bytes);
        let mut add = |at| {
            let before = self.0.insert((file, at), Dirty { causes, end });
            (page((file, at)), before.map(|dirty| dirty.causes))
        };
        (offset..end).step_by(PAGE as usize).map(&mut add).collect()
    }

    /// Removes pages of a file, and what is left of the last one's folio.
    pub(super) fn remove(&mut self, file: u64, offset: u64, bytes: u64) -> Vec<(Page, CauseSet)> {
        let end = offset.saturating_add(bytes);
        let first = offset / PAGE * PAGE;
        let last = self.0.range((file, first)..(file, end)).next_back();
        let end = last.map_or(end, |(_, dirty)| dirty.end.max(end));
        let keys: Vec<_> = self.0.range((file, first)..(file, end)).map(|(&key, _)| key).collect();
        keys.into_iter().filter_map(|key| Some((page(key), self.0.remove(&key)?.causes))).collect()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Page, CauseSet)> + '_ {
        self.0.iter().map(|(&key, dirty)| (page(key), dirty.causes))
    }

    /// The offset of a file's first dirty page.
    pub(super) fn first(&self, file: u64) -> Option<u64> {
        self.0.range((file, 0)..=(file, u64::MAX)).next().map(|(&(_, offset), _)| offset)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folio_is_clean_when_its_part_before_the_end_of_the_file_is_written() {
        let mut dirty = DirtyPages::default();
        let added = dirty.add(7, 16384, 16384, CauseSet(1));
        assert_eq!(added.len(), 4);
        assert_eq!(dirty.first(7), Some(16384));
        assert_eq!(dirty.add(7, 16384, 4096, CauseSet(2))[0].1, Some(CauseSet(1)));
        assert_eq!(dirty.remove(8, 0, 1 << 20), []);
        assert_eq!(dirty.remove(7, 20480, 4096).len(), 3);
        let left: Vec<_> = dirty.iter().collect();
        assert_eq!(left, [(page((7, 16384)), CauseSet(2))]);
    }
}
