//! The order of page reclaim: an active and an inactive list, as in Linux 2.6.
//!
//! A page enters the inactive list; its second use there activates it. When the active list becomes the longer one, its least
//! recently used pages return to the inactive list. Reclaim takes pages from the end of the inactive list, so a file that is
//! read once does not displace pages that are used repeatedly.

use super::pages::PageId;

/// Neighbours in a list, by page number.
#[derive(Clone, Copy)]
struct Links {
    newer: u32,
    older: u32,
}

const NONE: u32 = u32::MAX;

/// The ends of a list.
#[derive(Clone, Copy)]
struct Ends {
    newest: u32,
    oldest: u32,
    len: usize,
}

impl Ends {
    const EMPTY: Self = Self { newest: NONE, oldest: NONE, len: 0 };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernel) enum List {
    Inactive = 0,
    Active = 1,
}

/// Both lists. Every cached page is on one of them.
pub(in crate::kernel) struct Lru {
    links: Vec<Links>,
    lists: [Ends; 2],
}

impl Default for Lru {
    fn default() -> Self {
        Self { links: Vec::new(), lists: [Ends::EMPTY; 2] }
    }
}

impl Lru {
    /// Length of a list.
    pub(in crate::kernel) const fn len(&self, list: List) -> usize {
        self.lists[list as usize].len
    }

    /// Adds a page at the new end.
    pub(in crate::kernel) fn push(&mut self, list: List, PageId(page): PageId) {
        if page as usize >= self.links.len() {
            self.links.resize(page as usize + 1, Links { newer: NONE, older: NONE });
        }
        let ends = &mut self.lists[list as usize];
        let older = ends.newest;
        self.links[page as usize] = Links { newer: NONE, older };
        if older == NONE {
            ends.oldest = page;
        } else {
            self.links[older as usize].newer = page;
        }
        ends.newest = page;
        ends.len += 1;
    }

    /// Removes a page from its list.
    pub(in crate::kernel) fn remove(&mut self, list: List, PageId(page): PageId) {
        let Links { newer, older } = self.links[page as usize];
        let ends = &mut self.lists[list as usize];
        match newer {
            NONE => ends.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => ends.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        ends.len -= 1;
    }

    /// The page at the old end.
    pub(in crate::kernel) fn oldest(&self, list: List) -> Option<PageId> {
        let oldest = self.lists[list as usize].oldest;
        (oldest != NONE).then_some(PageId(oldest))
    }

    /// The next newer page of the same list.
    pub(in crate::kernel) fn newer(&self, PageId(page): PageId) -> Option<PageId> {
        let newer = self.links[page as usize].newer;
        (newer != NONE).then_some(PageId(newer))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn pages(lru: &Lru, list: List) -> Vec<u32> {
        let mut pages = Vec::new();
        let mut next = lru.oldest(list);
        while let Some(page) = next {
            pages.push(page.0);
            next = lru.newer(page);
        }
        pages
    }

    /// Compares with two plain queues under random moves.
    #[test]
    fn agrees_with_two_queues() {
        let mut lru = Lru::default();
        let mut slow = [VecDeque::new(), VecDeque::new()];
        let mut random = 12345u64;
        for step in 0..20_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let page = (random >> 33) as u32 % 64;
            let list = if random >> 60 & 1 == 0 { List::Inactive } else { List::Active };
            for from in [List::Inactive, List::Active] {
                if let Some(at) = slow[from as usize].iter().position(|&p| p == page) {
                    slow[from as usize].remove(at);
                    lru.remove(from, PageId(page));
                }
            }
            if !step.is_multiple_of(3) {
                slow[list as usize].push_back(page);
                lru.push(list, PageId(page));
            }
            for list in [List::Inactive, List::Active] {
                assert_eq!(pages(&lru, list), Vec::from(slow[list as usize].clone()), "after {step}");
                assert_eq!(lru.len(list), slow[list as usize].len());
            }
        }
    }
}
