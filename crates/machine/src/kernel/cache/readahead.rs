//! Reading before anybody asks: how far, and when, by the two rules that Linux 2.6 had.
//!
//! Pure: the state belongs to an open file, is told of every page that a call uses, and answers which pages to fetch. All
//! sizes are in pages.
//!
//! *Windows* (2.5 to 2.6.22, `mm/readahead.c`): the pages being used are the current window; as soon as one of its pages is
//! used, the next window, *ahead*, is fetched, so two are in flight. Each use in order makes the next window two pages
//! larger, each jump two smaller, until read-ahead is off.
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
const MIN_PAGES: u64 = 4;

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
    /// On demand: so many pages before the window's end is its mark.
    async_size: u64,
    /// Read-ahead has shrunk to nothing.
    off: bool,
    /// The page used last.
    previous: Option<u64>,
}

impl ReadAheadState {
    /// *Windows*: a call is about to use a page. `max` is the largest window.
    pub(in crate::kernel) fn windows(&mut self, page: u64, max: u64) -> Option<Ahead> {
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
        self.next_size = if near { self.next_size + 2 } else { self.next_size.saturating_sub(2) }.min(max);
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
    pub(in crate::kernel) fn fetched(&mut self, pages: u64) {
        if pages > 0 {
            return;
        }
        if self.next_size > MIN_PAGES {
            self.next_size -= 2;
        } else {
            self.off = true;
            self.size = 0;
        }
    }

    /// *Windows*: a page that should have been there was not: it came and went before it was used, or read-ahead is off.
    pub(in crate::kernel) fn missed(&mut self, max: u64) {
        if self.off {
            self.off = false;
            self.next_size = MIN_PAGES.min(max);
        } else {
            self.next_size = self.next_size.saturating_sub(2).max(1);
        }
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
