//! The dirty pages of the attached device's files.

use std::collections::{BTreeMap, BTreeSet};

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
pub(super) struct DirtyPages {
    pages: BTreeMap<(u64, u64), Dirty>,
    /// Those whose writeback was not ordered since they became dirty: an order must not pass over all pages, which are a million in 4 GB.
    waiting: BTreeSet<(u64, u64)>,
}

const fn page((file, offset): (u64, u64)) -> Page {
    Page { file: File(file), offset, bytes: PAGE as u32 }
}

impl DirtyPages {
    /// Adds the pages of a folio; returns those that were clean or had other causes, with these.
    pub(super) fn add(
        &mut self,
        file: u64,
        offset: u64,
        bytes: u32,
        causes: CauseSet,
    ) -> Vec<(Page, Option<CauseSet>)> {
        let end = offset + u64::from(bytes);
        // Dirty pages can be written again at the speed of memory.
        let known = self.pages.range((file, offset)..(file, end)).filter(|(_, dirty)| dirty.causes == causes);
        if known.count() as u64 == u64::from(bytes).div_ceil(PAGE) {
            return Vec::new();
        }
        let mut add = |at| {
            let before = self.pages.insert((file, at), Dirty { causes, end });
            (before.is_none_or(|before| before.causes != causes)).then(|| {
                self.waiting.insert((file, at));
                (page((file, at)), before.map(|dirty| dirty.causes))
            })
        };
        (offset..end).step_by(PAGE as usize).filter_map(&mut add).collect()
    }

    /// Removes pages of a file, and what is left of the last one's folio.
    pub(super) fn remove(&mut self, file: u64, offset: u64, bytes: u64) -> Vec<(Page, CauseSet)> {
        let end = offset.saturating_add(bytes);
        let first = offset / PAGE * PAGE;
        let last = self.pages.range((file, first)..(file, end)).next_back();
        let end = last.map_or(end, |(_, dirty)| dirty.end.max(end));
        let keys: Vec<_> = self.pages.range((file, first)..(file, end)).map(|(&key, _)| key).collect();
        let remove = |key| {
            self.waiting.remove(&key);
            Some((page(key), self.pages.remove(&key)?.causes))
        };
        keys.into_iter().filter_map(remove).collect()
    }

    /// Removes all pages of some sets.
    pub(super) fn take(&mut self, is_it: impl Fn(CauseSet) -> bool) -> Vec<(Page, CauseSet)> {
        let taken = self.iter().filter(|&(_, causes)| is_it(causes)).collect();
        self.pages.retain(|_, dirty| !is_it(dirty.causes));
        self.waiting.retain(|key| self.pages.contains_key(key));
        taken
    }

    /// Changes the causes of all pages; returns their bytes.
    pub(super) fn give(&mut self, causes: CauseSet) -> u64 {
        self.pages.values_mut().for_each(|dirty| dirty.causes = causes);
        self.pages.len() as u64 * PAGE
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Page, CauseSet)> + '_ {
        self.pages.iter().map(|(&key, dirty)| (page(key), dirty.causes))
    }

    /// A file's next range to write back, as its offset and its length in pages: the first `pages` dirty pages whose writeback was not ordered. When
    /// all were, begins again: an order may be lost, as its agent ended.
    pub(super) fn write_back(&mut self, file: u64, pages: u32) -> Option<(u64, u32)> {
        let all = (file, 0)..=(file, u64::MAX);
        if self.waiting.range(all.clone()).next().is_none() {
            self.waiting.extend(self.pages.range(all.clone()).map(|(&key, _)| key));
        }
        let next: Vec<_> = self.waiting.range(all).take(pages.max(1) as usize).copied().collect();
        next.iter().for_each(|key| _ = self.waiting.remove(key));
        let (&(_, first), &(_, last)) = next.first().zip(next.last())?;
        Some((first, u32::try_from((last - first) / PAGE + 1).unwrap_or(u32::MAX)))
    }

    pub(super) fn clear(&mut self) {
        self.pages.clear();
        self.waiting.clear();
    }
}

/// Ranges of pages that another set than `set` has dirtied: beginning, end, and that set.
pub(super) fn parts(pages: &[(Page, CauseSet)], set: CauseSet) -> Vec<(u64, u64, CauseSet)> {
    let mut parts: Vec<(u64, u64, CauseSet)> = Vec::new();
    for (page, causes) in pages.iter().filter(|(_, causes)| *causes != set) {
        let end = page.offset + u64::from(page.bytes);
        match parts.last_mut() {
            Some((_, to, of)) if *to == page.offset && of == causes => *to = end,
            _ => parts.push((page.offset, end, *causes)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_pages_that_others_dirtied() {
        let mut dirty = DirtyPages::default();
        for (offset, set) in [(0, 1), (4096, 1), (8192, 2), (12288, 3), (20480, 1)] {
            dirty.add(7, offset, 4096, CauseSet(set));
        }
        let pages = dirty.remove(7, 0, 1 << 20);
        let expected = [(0, 8192, CauseSet(1)), (12288, 16384, CauseSet(3)), (20480, 24576, CauseSet(1))];
        assert_eq!(parts(&pages, CauseSet(2)), expected);
    }

    #[test]
    fn a_folio_is_clean_when_its_part_before_the_end_of_the_file_is_written() {
        let mut dirty = DirtyPages::default();
        let added = dirty.add(7, 16384, 16384, CauseSet(1));
        assert_eq!(added.len(), 4);
        assert_eq!(dirty.add(7, 16384, 16384, CauseSet(1)), [], "they are dirty");
        assert_eq!(dirty.add(7, 16384, 4096, CauseSet(2))[0].1, Some(CauseSet(1)));
        assert_eq!(dirty.remove(8, 0, 1 << 20), []);
        assert_eq!(dirty.remove(7, 20480, 4096).len(), 3);
        let left: Vec<_> = dirty.iter().collect();
        assert_eq!(left, [(page((7, 16384)), CauseSet(2))]);
        assert_eq!(
            (dirty.take(|set| set == CauseSet(1)), dirty.take(|set| set == CauseSet(2))),
            (vec![], left)
        );
        assert_eq!(dirty.iter().count(), 0);
    }

    #[test]
    fn ranges_of_writeback_follow_each_other_until_all_were_ordered() {
        let mut dirty = DirtyPages::default();
        assert_eq!(dirty.write_back(7, 2), None);
        let add =
            |dirty: &mut DirtyPages, offset| assert_eq!(dirty.add(7, offset, 4096, CauseSet(1)).len(), 1);
        [0, 4096, 16384, 32768].into_iter().for_each(|offset| add(&mut dirty, offset));
        assert_eq!(dirty.write_back(7, 2), Some((0, 2)));
        assert_eq!(dirty.write_back(7, 2), Some((16384, 5)), "two dirty pages and three clean ones");
        add(&mut dirty, 65536);
        assert_eq!(
            dirty.write_back(7, 2),
            Some((65536, 1)),
            "the others are on their way, however slow the drive is"
        );
        assert_eq!(dirty.remove(7, 4096, 4096).len(), 1);
        add(&mut dirty, 4096);
        assert_eq!(dirty.write_back(7, 2), Some((4096, 1)), "it was submitted and became dirty again");
        assert_eq!(dirty.remove(7, 0, 4096).len(), 1);
        assert_eq!(dirty.write_back(7, 2), Some((4096, 4)), "the orders were lost");
        assert_eq!(dirty.write_back(8, 2), None);
    }
}
