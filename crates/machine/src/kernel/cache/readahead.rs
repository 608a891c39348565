//! Reading before anybody asks: how far, and when, by the two rules that Linux 2.6 had.
//!
//! Pure: the state belongs to an open file, is told of every page that a call uses, and answers which pages to fetch. All
//! sizes are in pages.
//!
//! *Windows with a floor* (2.5, `mm/readahead.c`): the pages being used are the current window; as soon as one of its pages
//! is used, the next window, *ahead*, is fetched, so two are in flight. Each use in order makes the next window two pages
//! larger, each jump a quarter smaller; no window is smaller than a *floor* of 16 KiB, whatever the largest was set to.
//!
//! *Windows* (2.6.9): the same two, but the one ahead is only fetched when runs of pages used in order have become longer than
//! the largest window. A current window is as long as runs have been: their mean, in which the latest counts half. The
//! first read of an open file, wherever it is, fetches half the largest. Each use in order makes the one ahead two pages larger,
//! each jump two smaller, until read-ahead is off; as many pages missed in a row as the largest window has bring it back.
//!
//! *On demand* (since 2.6.23): one window whose page `async_size` before its end bears a mark; the mark's first use fetches
//! the next window, twice as large. A lone read at a place that nobody read before fetches only what it asked for; where
//! pages before it are in memory, a window begins (2.6.31), since 3.13 only if they are more than what was asked for
//! (*conservative*).
//!
//! Unlike the source: read-ahead does not stop when the queue of reads is congested, which takes a hundred readers; a failed
//! read does not make windows smaller; and since 4.10 a request may be read as a whole up to the device's largest.

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
    /// Windows: what that was before the latest use; 0 before the first.
    before: u64,
    /// Windows of runs: pages used in order until now, up to two largest windows, and
    run: u64,
    /// how many they have been on average.
    average: Option<u64>,
    /// On demand: so many pages before the window's end is its mark.
    async_size: u64,
    /// Read-ahead has shrunk to nothing.
    off: bool,
    /// The page used last.
    previous: Option<u64>,
}

/// What a call wants that reads on demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernel) struct Demand {
    /// The page that is missing, or bears a mark.
    pub(in crate::kernel) page: u64,
    /// How many pages the call wants from there on; at least 1.
    pub(in crate::kernel) request: u64,
    /// The largest window.
    pub(in crate::kernel) max: u64,
    /// It bears a mark.
    pub(in crate::kernel) marked: bool,
    /// By the rule since 3.13.
    pub(in crate::kernel) conservative: bool,
}

impl ReadAheadState {
    /// *Windows*: a call is about to use a page. `max` is the largest window; `floor`, if not 0, the smallest, which wins.
    pub(in crate::kernel) fn windows(&mut self, page: u64, max: u64, floor: u64) -> Option<Ahead> {
        self.before = self.next_size;
        if self.previous == Some(page) || max == 0 || (self.off && floor == 0) {
            return None;
        }
        self.previous = Some(page);
        match floor {
            _ if self.off => None,
            0 => self.windows_of_runs(page, max),
            floor => self.windows_with_floor(page, max, floor),
        }
    }

    /// `page_cache_readahead` of 2.5.
    fn windows_with_floor(&mut self, page: u64, max: u64, floor: u64) -> Option<Ahead> {
        if self.next_size == 0 && page == 0 {
            // The first read of a file from its beginning: it will be read whole.
            self.next_size = (max / 2).max(1);
            return self.current(page);
        }
        let near = self.size > 0 && (self.start..=self.start + self.size).contains(&page);
        let next = if near { self.next_size + 2 } else { self.next_size - self.next_size / 4 };
        self.next_size = next.min(max).max(floor);
        if (self.start..self.start + self.size).contains(&page) {
            return if self.ahead_start == 0 { Some(self.next_window()) } else { None };
        }
        if self.ahead_start != 0 && page == self.ahead_start {
            self.step_into_next();
            return None;
        }
        self.current(page)
    }

    /// `page_cache_readahead` of 2.6.9.
    fn windows_of_runs(&mut self, page: u64, max: u64) -> Option<Ahead> {
        let average = *self.average.get_or_insert(max / 2);
        if self.next_size == 0 {
            self.next_size = max / 2;
            self.run += 1;
            return self.current(page);
        }
        if (self.start..=self.start + self.size).contains(&page) {
            self.next_size += 2;
            self.run += u64::from(self.run <= 2 * max);
        } else {
            self.next_size = self.next_size.saturating_sub(2);
            self.average = Some((average + u64::from(average < self.run) + self.run) / 2);
            self.run = 1;
        }
        self.next_size = self.next_size.min(max);
        if self.next_size == 0 {
            self.off = true;
            self.size = 0;
            return None;
        }
        let average = self.average.unwrap_or(0);
        let expected = average.max((self.run + average).div_ceil(2));
        if (self.start..self.start + self.size).contains(&page) {
            return (self.ahead_start == 0 && expected > max).then(|| self.next_window());
        }
        if page == self.ahead_start {
            self.step_into_next();
            return None;
        }
        self.next_size = expected.min(max);
        self.current(page)
    }

    /// A new current window from here on; the one ahead is forgotten.
    fn current(&mut self, page: u64) -> Option<Ahead> {
        (self.start, self.size) = (page, self.next_size);
        (self.ahead_start, self.ahead_size) = (0, 0);
        Some(Ahead { start: page, pages: self.size, mark: None })
    }

    /// The window ahead of the current one.
    fn next_window(&mut self) -> Ahead {
        (self.ahead_start, self.ahead_size) = (self.start + self.size, self.next_size);
        Ahead { start: self.ahead_start, pages: self.ahead_size, mark: None }
    }

    /// The window ahead is the current one.
    fn step_into_next(&mut self) {
        (self.start, self.size) = (self.ahead_start, self.ahead_size);
        (self.ahead_start, self.ahead_size) = (0, 0);
    }

    /// *Windows*: how many pages of what was asked for were not in memory yet. None at all: reading ahead is of no use, and
    /// the window shrinks, or is off once it is below the smallest (`check_ra_success`).
    pub(in crate::kernel) fn fetched(&mut self, pages: u64, floor: u64) {
        if pages > 0 {
            return;
        }
        if floor > 0 {
            self.off |= self.before <= 1;
            self.next_size = self.before.saturating_sub(1);
            return;
        }
        match self.before {
            // The very first window is not judged.
            0 => {}
            1 => {
                self.off = true;
                self.size = 0;
            }
            before => {
                self.next_size = before - 1;
                if self.ahead_size > 0 {
                    self.ahead_size = self.next_size;
                }
            }
        }
    }

    /// *Windows*: a page that should have been there was not: it came and went before it was used, or read-ahead is off
    /// (`handle_ra_miss`).
    pub(in crate::kernel) fn missed(&mut self, page: u64, max: u64, floor: u64) {
        if floor > 0 {
            let smaller = self.next_size.saturating_sub(3).max(floor);
            self.next_size = if std::mem::take(&mut self.off) { floor } else { smaller };
        } else if !self.off {
            self.next_size = self.next_size.saturating_sub(3).max(MIN_PAGES);
        } else if self.previous.replace(page).is_some_and(|previous| page == previous + 1) {
            self.size += 1;
            if self.size >= max {
                *self = Self {
                    start: page.saturating_sub(max),
                    size: max,
                    next_size: max,
                    average: Some(max / 2),
                    run: self.run,
                    previous: self.previous,
                    ..Self::default()
                };
            }
        } else {
            self.size = self.size.saturating_sub(1);
        }
    }

    /// *On demand*: a call did not find a page, or found the mark on it. `history` tells how many pages just before it are in
    /// memory, `hole` which is the first behind it that is not; neither looks further than `max` pages.
    pub(in crate::kernel) fn on_demand(
        &mut self,
        demand: Demand,
        history: impl FnOnce() -> u64,
        hole: impl FnOnce() -> Option<u64>,
    ) -> Option<Ahead> {
        let Demand { page, request, max, .. } = demand;
        if max == 0 {
            return None;
        }
        let end = self.start + self.size;
        if page == 0 {
            self.begin(page, request, max);
        } else if self.size > 0 && (page == end - self.async_size || page == end) {
            self.start = end;
            self.size = next_size(self.size, max);
            self.async_size = self.size;
        } else if demand.marked {
            // Another reader's mark: its window ends where pages are missing.
            self.start = hole()?;
            self.size = next_size(self.start - page + request, max);
            self.async_size = self.size;
        } else if request > max || self.previous.is_some_and(|previous| page.wrapping_sub(previous) <= 1) {
            self.begin(page, request, max);
        } else {
            let history = history();
            if history <= if demand.conservative { request } else { 0 } {
                return Some(Ahead { start: page, pages: request, mark: None });
            }
            // Everything before it: it is read from the beginning.
            let history = if history >= page { history * 2 } else { history };
            self.start = page;
            (self.size, self.async_size) = match first_size(history + request, max) {
                _ if demand.conservative => ((history + request).min(max), 1),
                size => (size, size),
            };
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

    /// *On demand*: the page that the latest call used last.
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
    fn windows(
        state: &mut ReadAheadState,
        floor: u64,
        pages: impl IntoIterator<Item = u64>,
    ) -> Vec<(u64, u64)> {
        let ahead = pages.into_iter().filter_map(|page| state.windows(page, MAX, floor));
        ahead.map(|ahead| (ahead.start, ahead.pages)).collect()
    }

    #[test]
    fn windows_with_a_floor_keep_one_ahead_of_the_one_in_use() {
        let mut state = ReadAheadState::default();
        let mut windows = |pages: std::ops::RangeInclusive<u64>| windows(&mut state, MIN_PAGES, pages);
        // Half the largest at first; the one ahead as soon as a second page is used; larger by two with every page in order.
        assert_eq!(windows(0..=0), [(0, 16)]);
        assert_eq!(windows(1..=1), [(16, 18)]);
        assert_eq!(windows(2..=16), []);
        // Its second page makes the next.
        assert_eq!(windows(17..=17), [(34, 32)]);
        assert_eq!(windows(18..=34), []);
        assert_eq!(windows(35..=35), [(66, 32)]);
    }

    /// `page_cache_readahead` of 2.6.9, by hand.
    #[test]
    fn windows_of_runs_are_as_long_as_runs_were_and_then_go_ahead() {
        let mut state = ReadAheadState::default();
        // Half the largest. Then a run of 17 and a mean of 16; of 34 (17 and 33 in the window; the page behind is a hit).
        assert_eq!(windows(&mut state, 0, 0..=32), [(0, 16), (16, 17)]);
        assert_eq!(windows(&mut state, 0, 33..=47), [(33, 25)]);
        // With the 49th page in a row 32 are exceeded: (49 + 16 + 1) / 2. The next window is fetched ahead, and so on.
        assert_eq!(windows(&mut state, 0, 48..=48), [(58, 32)]);
        assert_eq!(windows(&mut state, 0, 49..=58), []);
        assert_eq!(windows(&mut state, 0, 59..=59), [(90, 32)]);
        assert_eq!(windows(&mut state, 0, 60..=91), [(122, 32)]);
    }

    #[test]
    fn the_first_window_of_runs_is_half_the_largest_wherever_it_is() {
        assert_eq!(windows(&mut ReadAheadState::default(), 0, [5000]), [(5000, 16)]);
    }

    #[test]
    fn windows_of_runs_become_as_short_as_the_runs() {
        let mut state = ReadAheadState::default();
        // Two pages, then elsewhere: the mean goes from 16 by halves to 2.
        let pages = (0..7).flat_map(|n| [n * 1000, n * 1000 + 1]);
        let expected = [(0, 16), (1000, 9), (2000, 5), (3000, 3), (4000, 2), (5000, 2), (6000, 2)];
        assert_eq!(windows(&mut state, 0, pages), expected);
    }

    #[test]
    fn every_page_of_a_file_read_in_order_is_fetched_once_and_before_its_use() {
        for floor in [0, MIN_PAGES] {
            let mut state = ReadAheadState::default();
            let mut fetched = 0;
            for page in 0..10_000 {
                if let Some(ahead) = state.windows(page, MAX, floor) {
                    assert_eq!(ahead.start, fetched, "at page {page}");
                    fetched += ahead.pages;
                }
                assert!(fetched > page, "page {page} is used before it is asked for");
                assert!(fetched - page <= 2 * MAX + 1, "{} pages ahead of page {page}", fetched - page);
            }
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
        let fetched = windows(&mut state, 0, (0..40).map(|n| n * 1000 + 500));
        // The mean is halved by every run of one page; the miss after a window of two leaves nothing.
        assert_eq!(fetched, [(500, 16), (1500, 8), (2500, 4), (3500, 2)]);
        assert_eq!(windows(&mut state, 0, [7, 90_000, 14]), []);
        // As many misses in a row as the largest window has pages.
        (50_000..50_000 + MAX).for_each(|page| state.missed(page, MAX, 0));
        assert_eq!(windows(&mut state, 0, [50_000 + MAX]), []);
        state.missed(50_000 + MAX, MAX, 0);
        assert_eq!(windows(&mut state, 0, [50_001 + MAX]), [(50_001 + MAX, 8)]);
    }

    #[test]
    fn the_same_page_in_pieces_is_one_use() {
        for floor in [0, MIN_PAGES] {
            let mut state = ReadAheadState::default();
            assert_eq!(windows(&mut state, floor, [0, 0, 0, 0]), [(0, 16)]);
        }
    }

    #[test]
    fn pages_that_are_all_in_memory_make_windows_smaller() {
        for floor in [0, MIN_PAGES] {
            let mut state = ReadAheadState::default();
            windows(&mut state, floor, 0..=1);
            assert_eq!(state.next_size, 18);
            state.fetched(5, floor);
            assert_eq!(state.next_size, 18);
            state.fetched(0, floor);
            assert_eq!(state.next_size, 15, "one less than before that use");
        }
        // The very first is not judged in 2.6.9; of one page nothing is left.
        let mut state = ReadAheadState::default();
        windows(&mut state, 0, [0]);
        state.fetched(0, 0);
        assert_eq!(windows(&mut state, 0, [1, 16]), [(16, 16)]);
        state.before = 1;
        state.fetched(0, 0);
        assert!(state.off);
    }

    fn demand(page: u64, request: u64) -> Demand {
        Demand { page, request, max: MAX, marked: false, conservative: false }
    }

    #[test]
    fn no_window_at_all() {
        let mut state = ReadAheadState::default();
        assert_eq!((0..50).find_map(|page| state.windows(page, 0, 0)), None);
        assert_eq!(state.on_demand(Demand { max: 0, ..demand(0, 1) }, || 0, || None), None);
    }

    /// Reads a file in order on demand, with a cache that forgets nothing: what is fetched at which page.
    fn in_order(request: u64, until: u64) -> Vec<(u64, u64, u64)> {
        let mut state = ReadAheadState::default();
        let (mut there, mut mark, mut fetched) = (0, None, Vec::new());
        for page in 0..until {
            let marked = mark == Some(page);
            if page >= there || marked {
                let left = request - page % request;
                let demand = Demand { marked, ..demand(page, left) };
                if let Some(ahead) = state.on_demand(demand, || there, || Some(there)) {
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
        let ahead = state.on_demand(demand(777, 3), || 0, || None).expect("it is missing");
        assert_eq!((ahead.start, ahead.pages, ahead.mark), (777, 3, None));
    }

    /// `try_context_readahead` of 2.6.31, and as it has been since 3.13.
    #[test]
    fn a_trace_of_pages_before_it_makes_a_request_sequential() {
        let window = |conservative, page, history| {
            let demand = Demand { conservative, ..demand(page, 1) };
            let ahead = ReadAheadState::default().on_demand(demand, || history, || None);
            let ahead = ahead.expect("it is missing");
            (ahead.start, ahead.pages, ahead.mark)
        };
        // A window for one page more than there are, and at once the next, twice as large.
        assert_eq!(window(false, 777, 1), (777, 4 + 8, Some(781)));
        assert_eq!(window(true, 777, 1), (777, 1, None));
        assert_eq!(window(false, 777, 9), (777, 32 + 32, Some(809)));
        assert_eq!(window(true, 777, 9), (777, 10, Some(786)));
        // From the file's beginning: twice as many.
        assert_eq!(window(false, 3, 3), (3, 16 + 32, Some(19)));
        assert_eq!(window(true, 3, 3), (3, 7, Some(9)));
    }

    #[test]
    fn anothers_mark_continues_its_window_where_pages_are_missing() {
        let marked = |hole| {
            let demand = Demand { marked: true, ..demand(500, 2) };
            ReadAheadState::default().on_demand(demand, || 0, || hole)
        };
        // Six pages of the other's and two wanted: the next window is of twice as many, and bears the mark at its beginning.
        assert_eq!(marked(Some(506)), Some(Ahead { start: 506, pages: 16, mark: Some(506) }));
        assert_eq!(marked(None), None);
    }
}
