//! Reading before anybody asks: how far, and when, by the two rules that Linux 2.6 had.
//!
//! Pure: the state belongs to an open file, is told of every page that a call uses, and answers which pages to fetch. All
//! sizes are in pages.
//!
//! *Windows* (2.5 to 2.6.22, `mm/readahead.c`): the pages being used are the current window; as soon as one of its pages is
//! used, the next window, *ahead*, is fetched, so two are in flight. Each use in order makes the next window two pages
//! larger, each jump two smaller, until read-ahead is off. In 2.5 (until it was taken from the file's structure) a jump took
//! a quarter of the window, and no window was smaller than a *floor* of 16 KiB, whatever the largest was set to.
//!
//! *On demand* (since 2.6.23): one window whose page `async_size` before its end bears a mark; the mark's first use fetches
//! the next window, twice as large. A lone read at a place that nobody read before fetches only what it asked for.

/// Pages to fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernel) struct Ahead {
    /// The first.
    pub(in crate::kernel) start: u64,
    /// How many.
    pub(in crate::kernel) pages: u64,
    /// Which bears the mark, if it is fetched.
    pub(in crate::kernel) mark: Option<u64>,
}

/// Smallest window, 16 KiB: `VM_MIN_READAHEAD`.
pub(in crate::kernel) const MIN_PAGES: u64 = 4;

/// An open file's read-ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::kernel) struct ReadAheadState {
    start: u64,
    size: u64,
    /// Windows: where the one ahead begins; 0 for none.
    ahead_start: u64,
    ahead_size: u64,
    /// Windows: how large the next is to be. On demand: unused.
    next_size: u64,
    /// Windows with a floor: what that was before the latest use.
    before: u64,
    /// On demand: so many pages before the window's end is its mark.
    async_size: u64,
    /// Read-ahead has shrunk to nothing.
    off: bool,
    /// The page used last.
    previous: Option<u64>,
}

impl ReadAheadState {
    /// *Windows*: a call is about to use a page. `max` is the largest window; `floor`, if not 0, the smallest, which wins.
    pub(in crate::kernel) fn windows(&mut self, page: u64, max: u64, floor: u64) -> Option<Ahead> {
        self.before = self.next_size;
        if self.previous.replace(page) == Some(page) || max == 0 {
            return None;
        }
        if self.off {
            return None;
        }
        if self.next_size == 0 && page == 0 {
            // The first read of a file from its beginning: it will be read whole.
            self.next_size = (max / 2).max(1);
            return self.current(page);
        }
        let near = self.size > 0 && (self.start..=self.start + self.size).contains(&page);
        let jump = if floor > 0 { self.next_size / 4 } else { 2 };
        let next = if near { self.next_size + 2 } else { self.next_size.saturating_sub(jump) };
        self.next_size = next.min(max).max(floor);
        if self.next_size == 0 && self.size == 0 && self.start == 0 {
            // The first read, and not at the beginning.
            self.next_size = MIN_PAGES.min(max);
            return self.current(page);
        }
        if self.next_size == 0 {
            self.off = true;
            self.size = 0;
            return None;
        }
        if (self.start..self.start + self.size).contains(&page) {
            if self.ahead_start != 0 {
                return None;
            }
            self.ahead_start = self.start + self.size;
            self.ahead_size = self.next_size;
            return Some(Ahead { start: self.ahead_start, pages: self.ahead_size, mark: None });
        }
        if self.ahead_start != 0 && page == self.ahead_start {
            (self.start, self.size) = (self.ahead_start, self.ahead_size);
            (self.ahead_start, self.ahead_size) = (0, 0);
            return None;
        }
        self.current(page)
    }

    /// A new current window from here on; the one ahead is forgotten.
    fn current(&mut self, page: u64) -> Option<Ahead> {
        (self.start, self.size) = (page, self.next_size);
        (self.ahead_start, self.ahead_size) = (0, 0);
        Some(Ahead { start: page, pages: self.size, mark: None })
    }

    /// *Windows*: how many pages of what was asked for were not in memory yet. None at all: reading ahead is of no use, and
    /// the window shrinks, or is off once it is below the smallest.
    pub(in crate::kernel) fn fetched(&mut self, pages: u64, floor: u64) {
        if pages > 0 {
            return;
        }
        if floor > 0 {
            self.off |= self.before <= 1;
            self.next_size = self.before.saturating_sub(1);
        } else if self.next_size > MIN_PAGES {
            self.next_size -= 2;
        } else {
            self.off = true;
            self.size = 0;
        }
    }

    /// *Windows*: a page that should have been there was not: it came and went before it was used, or read-ahead is off.
    pub(in crate::kernel) fn missed(&mut self, max: u64, floor: u64) {
        self.next_size = match (std::mem::take(&mut self.off), floor) {
            (true, 0) => MIN_PAGES.min(max),
            (false, 0) => self.next_size.saturating_sub(2).max(1),
            (true, floor) => floor,
            (false, floor) => self.next_size.saturating_sub(3).max(floor),
        };
    }

    /// *On demand*: a call that wants `request` pages from `page` on did not find that one (`marked` false), or found the
    /// mark on it. `history` tells how many pages just before it are in memory, at most `max`.
    pub(in crate::kernel) fn on_demand(
        &mut self,
        page: u64,
        request: u64,
        max: u64,
        marked: bool,
        history: impl FnOnce() -> u64,
    ) -> Option<Ahead> {
        if max == 0 {
            return None;
        }
        let (end, request) = (self.start + self.size, request.max(1));
        if page == 0 {
            self.begin(page, request, max);
        } else if self.size > 0 && (page == end - self.async_size || page == end) {
            self.start = end;
            self.size = next_size(self.size, max);
            self.async_size = self.size;
        } else if marked {
            // Another reader's mark: its window ends where pages are missing, which is at most `max` further on.
            self.start = page + 1;
            self.size = next_size(request, max);
            self.async_size = self.size;
        } else if request > max || self.previous.is_some_and(|previous| page.wrapping_sub(previous) <= 1) {
            self.begin(page, request, max);
        } else {
            let history = history();
            if history <= request {
                return Some(Ahead { start: page, pages: request, mark: None });
            }
            self.start = page;
            self.size = (history + request).min(max);
            self.async_size = 1;
        }
        if page == self.start && self.size == self.async_size {
            self.async_size = next_size(self.size, max);
            self.size += self.async_size;
        }
        Some(Ahead {
            start: self.start,
            pages: self.size,
            mark: Some(self.start + self.size - self.async_size),
        })
    }

    fn begin(&mut self, page: u64, request: u64, max: u64) {
        self.start = page;
        self.size = first_size(request, max);
        self.async_size = if self.size > request { self.size - request } else { self.size };
    }

    /// *On demand*: the page that a call used last.
    pub(in crate::kernel) const fn used(&mut self, page: u64) {
        self.previous = Some(page);
    }
}

/// `get_init_ra_size`.
fn first_size(request: u64, max: u64) -> u64 {
    let size = request.next_power_of_two();
    if size <= max / 32 {
        size * 4
    } else if size <= max / 4 {
        size * 2
    } else {
        max
    }
}

/// `get_next_ra_size`.
fn next_size(size: u64, max: u64) -> u64 {
    if size < max / 16 { (4 * size).min(max) } else { (2 * size).min(max) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 32;

    /// What *windows* fetches for these pages, used in this order: (first, how many).
    fn windows(state: &mut ReadAheadState, pages: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        let ahead = pages.into_iter().filter_map(|page| state.windows(page, MAX, 0));
        ahead.map(|ahead| (ahead.start, ahead.pages)).collect()
    }

    #[test]
    fn windows_keep_one_ahead_of_the_one_in_use() {
        let mut state = ReadAheadState::default();
        // Half the largest at first; the one ahead as soon as a second page is used; larger by two with every page in order.
        assert_eq!(windows(&mut state, [0]), [(0, 16)]);
        assert_eq!(windows(&mut state, [1]), [(16, 18)]);
        assert_eq!(windows(&mut state, 2..=16), []);
        // Its second page makes the next.
        assert_eq!(windows(&mut state, [17]), [(34, 32)]);
        assert_eq!(windows(&mut state, 18..=34), []);
        assert_eq!(windows(&mut state, [35]), [(66, 32)]);
    }

    #[test]
    fn every_page_of_a_file_read_in_order_is_fetched_once_and_before_its_use() {
        let mut state = ReadAheadState::default();
        let mut fetched = 0;
        for page in 0..10_000 {
            if let Some(ahead) = state.windows(page, MAX, 0) {
                assert_eq!(ahead.start, fetched, "at page {page}");
                fetched += ahead.pages;
            }
            assert!(fetched > page, "page {page} is used before it is asked for");
            assert!(fetched - page <= 2 * MAX + 1, "{} pages ahead of page {page}", fetched - page);
        }
    }

    #[test]
    fn a_floor_holds_against_a_smaller_largest_window() {
        let mut state = ReadAheadState::default();
        let fetched = (0..40).filter_map(|page| state.windows(page, 2, MIN_PAGES));
        let sizes: Vec<u64> = fetched.map(|ahead| ahead.pages).collect();
        // Half of two pages at first, then 16 KiB although 8 is the largest.
        assert_eq!(sizes[..4], [1, 4, 4, 4]);
        let jumps = (0..10).filter_map(|n| state.windows(5000 + n * 1000, 2, MIN_PAGES)).count();
        assert_eq!(jumps, 10, "jumping about does not switch it off");
    }

    #[test]
    fn jumping_about_switches_windows_off_and_reading_in_order_back_on() {
        let mut state = ReadAheadState::default();
        let fetched = windows(&mut state, (0..40).map(|n| n * 1000 + 500));
        let total: u64 = fetched.iter().map(|&(_, pages)| pages).sum();
        assert!(total < 40, "{fetched:?}");
        assert_eq!(windows(&mut state, [7, 90_000, 14]), []);
        state.missed(MAX, 0);
        assert!(!windows(&mut state, 50_000..50_010).is_empty());
    }

    #[test]
    fn the_same_page_in_pieces_is_one_use() {
        let mut state = ReadAheadState::default();
        assert_eq!(windows(&mut state, [0, 0, 0, 0]), [(0, 16)]);
    }

    #[test]
    fn pages_that_are_all_in_memory_make_windows_smaller() {
        let mut state = ReadAheadState::default();
        windows(&mut state, 0..=1);
        let mut others = state;
        for _ in 0..20 {
            state.fetched(0, 0);
        }
        assert_eq!(windows(&mut state, 2..60), []);
        others.fetched(5, 0);
        assert!(!windows(&mut others, 2..60).is_empty());
    }

    #[test]
    fn no_window_at_all() {
        let mut state = ReadAheadState::default();
        assert_eq!((0..50).find_map(|page| state.windows(page, 0, 0)), None);
        assert_eq!(state.on_demand(0, 1, 0, false, || 0), None);
    }

    /// Reads a file in order on demand, with a cache that forgets nothing: what is fetched at which page.
    fn in_order(request: u64, until: u64) -> Vec<(u64, u64, u64)> {
        let mut state = ReadAheadState::default();
        let (mut there, mut mark, mut fetched) = (0, None, Vec::new());
        for page in 0..until {
            let marked = mark == Some(page);
            if page >= there || marked {
                let left = request - page % request;
                if let Some(ahead) = state.on_demand(page, left, MAX, marked, || there) {
                    fetched.push((page, ahead.start, ahead.pages));
                    assert_eq!(ahead.start, there, "at page {page}");
                    there = ahead.start + ahead.pages;
                    mark = ahead.mark;
                }
            }
            assert!(page < there, "page {page} is used before it is asked for");
            state.used(page);
        }
        fetched
    }

    #[test]
    fn on_demand_doubles_its_window_at_each_mark() {
        // 4 pages for one, the mark at the second; then 8, 16 and 32, each at the first page of the window before.
        let fetched = in_order(1, 100);
        assert_eq!(fetched[..5], [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 32), (28, 60, 32)]);
    }

    #[test]
    fn on_demand_begins_with_more_for_larger_requests() {
        assert_eq!(in_order(8, 20)[0], (0, 0, 16));
        assert_eq!(in_order(32, 40)[0], (0, 0, 64));
    }

    #[test]
    fn a_lone_request_on_demand_is_fetched_as_it_is() {
        let mut state = ReadAheadState::default();
        let ahead = state.on_demand(777, 3, MAX, false, || 0).expect("it is missing");
        assert_eq!((ahead.start, ahead.pages, ahead.mark), (777, 3, None));
    }

    #[test]
    fn a_trace_of_pages_before_it_makes_a_request_sequential() {
        let mut state = ReadAheadState::default();
        let ahead = state.on_demand(777, 1, MAX, false, || 9).expect("it is missing");
        assert_eq!((ahead.start, ahead.pages), (777, 10));
    }
}
