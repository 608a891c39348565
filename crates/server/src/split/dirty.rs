//! The dirty pages of the attached device's files.

use std::collections::BTreeMap;

use elevator::split::{File, Page};
use elevator::{CauseSet, Span, Time};

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
    /// By file, the end of the latest range whose writeback was ordered, and when.
    ordered: BTreeMap<u64, (u64, Time)>,
}

/// How long an ordered range takes to reach the device, at most. What is dirty then is ordered again.
const UNDER_WAY: Span = Span::from_millis(10);

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
            let before = self.pages.insert((file, at), Dirty { causes, end });
            (page((file, at)), before.map(|dirty| dirty.causes))
        };
        (offset..end).step_by(PAGE as usize).map(&mut add).collect()
    }

    /// Removes pages of a file, and what is left of the last one's folio.
    pub(super) fn remove(&mut self, file: u64, offset: u64, bytes: u64) -> Vec<(Page, CauseSet)> {
        let end = offset.saturating_add(bytes);
        let first = offset / PAGE * PAGE;
        let last = self.pages.range((file, first)..(file, end)).next_back();
        let end = last.map_or(end, |(_, dirty)| dirty.end.max(end));
        let keys: Vec<_> = self.pages.range((file, first)..(file, end)).map(|(&key, _)| key).collect();
        keys.into_iter().filter_map(|key| Some((page(key), self.pages.remove(&key)?.causes))).collect()
    }

    /// Removes all pages of some sets.
    pub(super) fn take(&mut self, is_it: impl Fn(CauseSet) -> bool) -> Vec<(Page, CauseSet)> {
        let taken = self.iter().filter(|&(_, causes)| is_it(causes)).collect();
        self.pages.retain(|_, dirty| !is_it(dirty.causes));
        taken
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Page, CauseSet)> + '_ {
        self.pages.iter().map(|(&key, dirty)| (page(key), dirty.causes))
    }

    /// A file's next range to write back, as its offset and its length in pages: `pages` dirty pages behind those whose writeback was ordered
    /// before and that are still on their way to the device.
    pub(super) fn write_back(&mut self, now: Time, file: u64, pages: u32) -> Option<(u64, u32)> {
        self.ordered.retain(|_, (_, at)| now.since(*at) < UNDER_WAY);
        let from = self.ordered.get(&file).map_or(0, |&(end, _)| end);
        let range = |from| {
            let mut all = self.pages.range((file, from)..=(file, u64::MAX)).map(|(&(_, offset), _)| offset);
            let first = all.next()?;
            Some((first, all.take(pages.saturating_sub(1) as usize).last().unwrap_or(first) + PAGE))
        };
        let (first, end) = range(from).or_else(|| range(0))?;
        self.ordered.insert(file, (end, now));
        Some((first, u32::try_from((end - first) / PAGE).unwrap_or(u32::MAX)))
    }

    pub(super) fn clear(&mut self) {
        self.pages.clear();
        self.ordered.clear();
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
    fn ranges_of_writeback_follow_each_other_until_they_must_have_reached_the_device() {
        let mut dirty = DirtyPages::default();
        let mut write_back = |ms: u64| dirty.write_back(Time::from_nanos(ms * 1_000_000), 7, 2);
        assert_eq!(write_back(0), None);
        for offset in [0, 4096, 16384, 32768] {
            assert_eq!(dirty.add(7, offset, 4096, CauseSet(1)).len(), 1);
        }
        let mut write_back = |ms: u64| dirty.write_back(Time::from_nanos(ms * 1_000_000), 7, 2);
        assert_eq!(write_back(0), Some((0, 2)));
        assert_eq!(write_back(5), Some((16384, 5)), "two dirty pages and three clean ones");
        assert_eq!(write_back(6), Some((0, 2)), "the last one is on its way");
        assert_eq!(write_back(7), Some((16384, 5)));
        assert_eq!(write_back(17), Some((0, 2)));
    }
}
