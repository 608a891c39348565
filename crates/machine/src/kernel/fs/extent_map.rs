//! The extents of a file: which page lies in which block.

use super::types::{Block, Run};

/// Adjacent pages in adjacent blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileExtent {
    pub(super) page: u32,
    pub(super) at: u32,
    pub(super) n: u32,
}

impl FileExtent {
    pub(super) fn end(&self) -> u32 {
        self.page + self.n
    }
}

/// The extents of a file, in order, merged and disjoint.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtentMap(Vec<FileExtent>);

impl ExtentMap {
    pub(super) fn as_slice(&self) -> &[FileExtent] {
        &self.0
    }

    /// Index of the extent that contains a page, or else of the next one.
    pub(super) fn index(&self, page: u32) -> usize {
        match self.0.last() {
            Some(last) if last.end() <= page => self.0.len(),
            _ => self.0.partition_point(|extent| extent.end() <= page),
        }
    }

    /// The last extent that begins before a page.
    pub(super) fn before(&self, page: u32) -> Option<&FileExtent> {
        let after = self.0.partition_point(|extent| extent.page < page);
        self.0[..after].last()
    }

    pub(super) fn block(&self, page: u32) -> Option<u32> {
        let extent = self.0.get(self.index(page))?;
        (extent.page <= page).then(|| extent.at + (page - extent.page))
    }

    /// The first hole in `page..end`: begin and length.
    pub(super) fn next_hole(&self, page: u32, end: u32) -> Option<(u32, u32)> {
        let mut page = page;
        for extent in &self.0[self.index(page)..] {
            if extent.page > page || page >= end {
                break;
            }
            page = extent.end();
        }
        if page >= end {
            return None;
        }
        let next = self.0.get(self.index(page)).map_or(end, |extent| extent.page.min(end));
        Some((page, next - page))
    }

    /// Every run in `page..end`, holes included. `start`: the device's block of block 0.
    pub(super) fn runs(&self, page: u32, end: u32, start: Block, runs: &mut Vec<Run>) {
        let mut page = page;
        let mut push = |page: u32, pages: u32, at: Option<u32>| {
            let block = at.map(|at| start.plus(u64::from(at)));
            runs.push(Run { page: u64::from(page), pages, block });
        };
        for extent in &self.0[self.index(page)..] {
            if page >= end || extent.page >= end {
                break;
            }
            if extent.page > page {
                push(page, extent.page - page, None);
                page = extent.page;
            }
            let n = extent.end().min(end) - page;
            push(page, n, Some(extent.at + (page - extent.page)));
            page += n;
        }
        if page < end {
            push(page, end - page, None);
        }
    }

    /// Adds an extent in a hole.
    pub(super) fn insert(&mut self, new: FileExtent) {
        let i = self.index(new.page);
        let follows = |a: &FileExtent, b: &FileExtent| a.end() == b.page && a.at + a.n == b.at;
        let with_left = i > 0 && follows(&self.0[i - 1], &new);
        let with_right = i < self.0.len() && follows(&new, &self.0[i]);
        match (with_left, with_right) {
            (true, true) => {
                self.0[i - 1].n += new.n + self.0[i].n;
                self.0.remove(i);
            }
            (true, false) => self.0[i - 1].n += new.n,
            (false, true) => self.0[i] = FileExtent { n: new.n + self.0[i].n, ..new },
            (false, false) => self.0.insert(i, new),
        }
    }

    /// Removes all pages from `page` on; `freed` receives their blocks.
    pub(super) fn cut(&mut self, page: u32, mut freed: impl FnMut(u32, u32)) {
        let i = self.index(page);
        for extent in &self.0[i..] {
            let kept = page.saturating_sub(extent.page);
            freed(extent.at + kept, extent.n - kept);
        }
        let split = self.0.get(i).copied().filter(|extent| extent.page < page);
        self.0.truncate(i);
        if let Some(extent) = split {
            self.0.push(FileExtent { n: page - extent.page, ..extent });
        }
    }
}

#[cfg(test)]
mod tests {
    use elevator::Random;

    use super::*;

    /// Compares with one slot per page.
    #[test]
    fn agrees_with_a_list_of_pages() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut extents = ExtentMap::default();
            let mut slow: Vec<Option<u32>> = vec![None; 400];
            let mut next = 0;
            for _ in 0..300 {
                let page = random.below(400) as u32;
                if random.once_in(20) {
                    let mut freed = 0;
                    extents.cut(page, |_, n| freed += n);
                    let cut = slow[page as usize..].iter_mut().filter_map(Option::take).count();
                    assert_eq!(freed as usize, cut);
                } else if let Some((page, n)) = extents.next_hole(page, 400) {
                    let n = n.min(1 + random.below(9) as u32);
                    next += random.below(2) as u32 * 100;
                    extents.insert(FileExtent { page, at: next, n });
                    for i in 0..n {
                        assert_eq!(slow[(page + i) as usize].replace(next + i), None);
                    }
                    next += n;
                }
                let mut runs = Vec::new();
                extents.runs(page, 400, Block(0), &mut runs);
                let mut at = u64::from(page);
                for run in &runs {
                    assert_eq!(run.page, at);
                    for i in 0..run.pages {
                        let block = run.block.map(|block| (block.0 as u32) + i);
                        assert_eq!(slow[at as usize], block);
                        assert_eq!(extents.block(at as u32), block);
                        at += 1;
                    }
                }
                assert_eq!(at, 400);
            }
            for pair in extents.as_slice().windows(2) {
                assert!(pair[0].end() < pair[1].page || pair[0].at + pair[0].n != pair[1].at);
            }
        }
    }
}
