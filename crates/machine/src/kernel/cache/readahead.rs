//! Read-ahead: how much and when, by the algorithms of Linux 2.5 to 6.x.
//!
//! A pure state machine per open file: it is called for every page that a read uses and returns the pages to read. Sizes are
//! in pages.
//!
//! *Windows with a floor* (2.5, `mm/readahead.c`): the current window contains the pages in use. When the first of them is
//! used, the ahead window is read, so that two windows are in flight. Each sequential use makes the next window two pages
//! larger, each jump makes it a quarter smaller. Windows have at least 16 KiB, even if the maximum is smaller.
//!
//! *Windows* (2.6.9): the same two windows, but the ahead window is read only if sequential runs are longer than the maximum.
//! A current window is as long as the average run, in which the last run counts half. The first read of an open file, at any
//! position, reads half the maximum. Each sequential use makes the ahead window two pages larger, each jump two smaller,
//! until read-ahead is off; as many consecutive misses as the maximum turn it on again.
//!
//! *On demand* (since 2.6.23): one window, whose page `async_size` before its end is marked. The first use of the mark reads
//! the next window, twice as large. A read at a new position reads only what it requested. If pages before it are cached, a
//! window begins (2.6.31); since 3.13 only if they are more than requested (*conservative*).
//!
//! Differences from the source:
//! - Read-ahead does not stop at a congested read queue, which takes a hundred readers.
//! - A failed read does not shrink windows.
//! - The rule of 4.10, by which a request may be read as a whole up to the device's maximum, is missing.

/// Pages to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernel) struct Ahead {
    /// The first page.
    pub(in crate::kernel) start: u64,
    /// Number of pages.
    pub(in crate::kernel) pages: u64,
    /// The page to mark.
    pub(in crate::kernel) mark: Option<u64>,
}

/// Smallest window, 16 KiB: `VM_MIN_READAHEAD`.
pub(in crate::kernel) const MIN_PAGES: u64 = 4;

/// The read-ahead state of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::kernel) struct ReadAheadState {
    start: u64,
    size: u64,
    /// Windows: start of the ahead window; 0 for none.
    ahead_start: u64,
    ahead_size: u64,
    /// Windows: size of the next window. Unused on demand.
    next_size: u64,
    /// Windows: the size before the last use; 0 before the first.
    before: u64,
    /// Windows of runs: length of the current run, at most two maximum windows.
    run: u64,
    /// Windows of runs: average length of runs.
    average: Option<u64>,
    /// On demand: distance of the mark from the window's end.
    async_size: u64,
    /// Read-ahead has shrunk to nothing.
    off: bool,
    /// The last page used.
    previous: Option<u64>,
}

/// A call that reads on demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernel) struct Demand {
    /// The page that is missing or marked.
    pub(in crate::kernel) page: u64,
    /// Pages that the call needs from there on; at least 1.
    pub(in crate::kernel) request: u64,
    /// The maximum window.
    pub(in crate::kernel) max: u64,
    /// The page is marked.
    pub(in crate::kernel) marked: bool,
    /// The rule of 3.13 applies.
    pub(in crate::kernel) conservative: bool,
}

impl ReadAheadState {
    /// *Windows*: a call is about to use a page. `max` is the maximum window; `floor`, if not 0, the smallest, which takes
    /// precedence.
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
            // The first read at the start of a file: it will probably be read whole.
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

    /// Begins a new current window and drops the ahead window.
    fn current(&mut self, page: u64) -> Option<Ahead> {
        (self.start, self.size) = (page, self.next_size);
        (self.ahead_start, self.ahead_size) = (0, 0);
        Some(Ahead { start: page, pages: self.size, mark: None })
    }

    /// Begins the ahead window.
    fn next_window(&mut self) -> Ahead {
        (self.ahead_start, self.ahead_size) = (self.start + self.size, self.next_size);
        Ahead { start: self.ahead_start, pages: self.ahead_size, mark: None }
    }

    /// Makes the ahead window the current one.
    fn step_into_next(&mut self) {
        (self.start, self.size) = (self.ahead_start, self.ahead_size);
        (self.ahead_start, self.ahead_size) = (0, 0);
    }

    /// *Windows*: reports how many pages of a window were not cached. If none, read-ahead is useless and the window shrinks,
    /// or is turned off below the smallest size (`check_ra_success`).
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
            // The first window does not count.
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

    /// *Windows*: a page that should have been read was missing: it was dropped before its use, or read-ahead is off
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

    /// *On demand*: a call found a page missing or marked. `history` returns how many pages before it are cached, `hole` the
    /// first missing page after it; neither looks farther than `max` pages.
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
            // The mark of another reader: its window ends at the first missing page.
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
            // All pages before it are cached: the file is read from its start.
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

    /// *On demand*: reports the last page used by a call.
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

    /// The reads of *windows* for these pages in this order: (first, number).
    fn windows(
        state: &mut ReadAheadState,
        floor: u64,
        pages: impl IntoIterator<Item = u64>,
    ) -> Vec<(u64, u64)> {
        let ahead = pages.into_iter().filter_map(|page| state.windows(page, MAX, floor));
        ahead.map(|ahead| (ahead.start, ahead.pages)).collect()
    }

    #[test]
    fn windows_with_a_floor_read_one_window_ahead() {
        let mut state = ReadAheadState::default();
        let mut windows = |pages: std::ops::RangeInclusive<u64>| windows(&mut state, MIN_PAGES, pages);
        // Half the maximum first; the ahead window at the use of the second page; two pages larger with each sequential use.
        assert_eq!(windows(0..=0), [(0, 16)]);
        assert_eq!(windows(1..=1), [(16, 18)]);
        assert_eq!(windows(2..=16), []);
        // Its second page makes the next window.
        assert_eq!(windows(17..=17), [(34, 32)]);
        assert_eq!(windows(18..=34), []);
        assert_eq!(windows(35..=35), [(66, 32)]);
    }

    /// `page_cache_readahead` of 2.6.9, computed by hand.
    #[test]
    fn windows_of_runs_follow_the_average_run() {
        let mut state = ReadAheadState::default();
        // Half the maximum. Then a run of 17 and an average of 16; then of 34 (17 and 33 in the window; the page after it is
        // a hit).
        assert_eq!(windows(&mut state, 0, 0..=32), [(0, 16), (16, 17)]);
        assert_eq!(windows(&mut state, 0, 33..=47), [(33, 25)]);
        // The 49th sequential page exceeds 32: (49 + 16 + 1) / 2. The next window is read ahead, and so on.
        assert_eq!(windows(&mut state, 0, 48..=48), [(58, 32)]);
        assert_eq!(windows(&mut state, 0, 49..=58), []);
        assert_eq!(windows(&mut state, 0, 59..=59), [(90, 32)]);
        assert_eq!(windows(&mut state, 0, 60..=91), [(122, 32)]);
    }

    #[test]
    fn the_first_window_of_runs_is_half_the_maximum() {
        assert_eq!(windows(&mut ReadAheadState::default(), 0, [5000]), [(5000, 16)]);
    }

    #[test]
    fn windows_of_runs_shrink_to_short_runs() {
        let mut state = ReadAheadState::default();
        // Two pages, then a jump: the average falls from 16 by halves to 2.
        let pages = (0..7).flat_map(|n| [n * 1000, n * 1000 + 1]);
        let expected = [(0, 16), (1000, 9), (2000, 5), (3000, 3), (4000, 2), (5000, 2), (6000, 2)];
        assert_eq!(windows(&mut state, 0, pages), expected);
    }

    #[test]
    fn sequential_reads_fetch_each_page_once_before_its_use() {
        for floor in [0, MIN_PAGES] {
            let mut state = ReadAheadState::default();
            let mut fetched = 0;
            for page in 0..10_000 {
                if let Some(ahead) = state.windows(page, MAX, floor) {
                    assert_eq!(ahead.start, fetched, "at page {page}");
                    fetched += ahead.pages;
                }
                assert!(fetched > page, "page {page} is used before it is read");
                assert!(fetched - page <= 2 * MAX + 1, "{} pages ahead of page {page}", fetched - page);
            }
        }
    }

    #[test]
    fn a_floor_exceeds_a_smaller_maximum() {
        let mut state = ReadAheadState::default();
        let fetched = (0..40).filter_map(|page| state.windows(page, 2, MIN_PAGES));
        let sizes: Vec<u64> = fetched.map(|ahead| ahead.pages).collect();
        // Half of two pages first, then 16 KiB although the maximum is 8.
        assert_eq!(sizes[..4], [1, 4, 4, 4]);
        let jumps = (0..10).filter_map(|n| state.windows(5000 + n * 1000, 2, MIN_PAGES)).count();
        assert_eq!(jumps, 10, "random reads do not turn it off");
    }

    #[test]
    fn random_reads_turn_windows_off_and_misses_turn_them_on() {
        let mut state = ReadAheadState::default();
        let fetched = windows(&mut state, 0, (0..40).map(|n| n * 1000 + 500));
        // Every run of one page halves the average; the miss after a window of two turns read-ahead off.
        assert_eq!(fetched, [(500, 16), (1500, 8), (2500, 4), (3500, 2)]);
        assert_eq!(windows(&mut state, 0, [7, 90_000, 14]), []);
        // As many consecutive misses as the maximum window.
        (50_000..50_000 + MAX).for_each(|page| state.missed(page, MAX, 0));
        assert_eq!(windows(&mut state, 0, [50_000 + MAX]), []);
        state.missed(50_000 + MAX, MAX, 0);
        assert_eq!(windows(&mut state, 0, [50_001 + MAX]), [(50_001 + MAX, 8)]);
    }

    #[test]
    fn parts_of_a_page_count_as_one_use() {
        for floor in [0, MIN_PAGES] {
            let mut state = ReadAheadState::default();
            assert_eq!(windows(&mut state, floor, [0, 0, 0, 0]), [(0, 16)]);
        }
    }

    #[test]
    fn cached_pages_shrink_windows() {
        for floor in [0, MIN_PAGES] {
            let mut state = ReadAheadState::default();
            windows(&mut state, floor, 0..=1);
            assert_eq!(state.next_size, 18);
            state.fetched(5, floor);
            assert_eq!(state.next_size, 18);
            state.fetched(0, floor);
            assert_eq!(state.next_size, 15, "one less than before that use");
        }
        // The first window does not count in 2.6.9; a window of one page shrinks to nothing.
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
    fn a_maximum_of_zero_disables_read_ahead() {
        let mut state = ReadAheadState::default();
        assert_eq!((0..50).find_map(|page| state.windows(page, 0, 0)), None);
        assert_eq!(state.on_demand(Demand { max: 0, ..demand(0, 1) }, || 0, || None), None);
    }

    /// Sequential on-demand reads with an unlimited cache: what is read at which page.
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
            assert!(page < there, "page {page} is used before it is read");
            state.used(page);
        }
        fetched
    }

    #[test]
    fn on_demand_doubles_its_window_at_each_mark() {
        // 4 pages for one, marked at the second; then 8, 16 and 32, each at the first page of the previous window.
        let fetched = in_order(1, 100);
        assert_eq!(fetched[..5], [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 32), (28, 60, 32)]);
    }

    #[test]
    fn on_demand_starts_larger_for_larger_requests() {
        assert_eq!(in_order(8, 20)[0], (0, 0, 16));
        assert_eq!(in_order(32, 40)[0], (0, 0, 64));
    }

    #[test]
    fn on_demand_reads_a_lone_request_exactly() {
        let mut state = ReadAheadState::default();
        let ahead = state.on_demand(demand(777, 3), || 0, || None).expect("it is missing");
        assert_eq!((ahead.start, ahead.pages, ahead.mark), (777, 3, None));
    }

    /// `try_context_readahead` of 2.6.31, and as changed in 3.13.
    #[test]
    fn cached_pages_before_a_request_start_a_window() {
        let window = |conservative, page, history| {
            let demand = Demand { conservative, ..demand(page, 1) };
            let ahead = ReadAheadState::default().on_demand(demand, || history, || None);
            let ahead = ahead.expect("it is missing");
            (ahead.start, ahead.pages, ahead.mark)
        };
        // A window for one page more than the history, merged with the next window of twice the size.
        assert_eq!(window(false, 777, 1), (777, 4 + 8, Some(781)));
        assert_eq!(window(true, 777, 1), (777, 1, None));
        assert_eq!(window(false, 777, 9), (777, 32 + 32, Some(809)));
        assert_eq!(window(true, 777, 9), (777, 10, Some(786)));
        // From the start of the file: twice the history.
        assert_eq!(window(false, 3, 3), (3, 16 + 32, Some(19)));
        assert_eq!(window(true, 3, 3), (3, 7, Some(9)));
    }

    #[test]
    fn the_mark_of_another_reader_continues_its_window() {
        let marked = |hole| {
            let demand = Demand { marked: true, ..demand(500, 2) };
            ReadAheadState::default().on_demand(demand, || 0, || hole)
        };
        // Six pages of the other reader and two requested: the next window is twice as large and marked at its start.
        assert_eq!(marked(Some(506)), Some(Ahead { start: 506, pages: 16, mark: Some(506) }));
        assert_eq!(marked(None), None);
    }
}
