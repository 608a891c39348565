//! Where new blocks are taken from: the search for free ones, and the windows that files keep for themselves.
//!
//! Sources: `fs/ext2/balloc.c` and `inode.c`, `fs/ext3/balloc.c` of 2.6, `fs/ext4/mballoc.c`, `fs/xfs/xfs_iomap.c`, in
//! our own words. Where it differs:
//! - a window is made of free blocks only, from the first free one on, as long as they go (ext3's may span used ones);
//! - `mballoc`'s windows begin at the page that is asked for, not at a rounded one before it, and every small file packs
//!   into one window (the kernel has one per processor);
//! - `mballoc` and XFS look for the first run that is long enough, from the goal on, before they ask for half as much.

use super::layout::Layout;
use super::options::{Ahead, Options};
use super::space::{GROUP, Space};

/// Blocks that ext2 takes together.
const PREALLOCATE: u32 = 8;
/// A reservation window's length at first and at most, in blocks (`EXT3_DEFAULT_RESERVE_BLOCKS`, `MAX`).
const RESERVE_FIRST: u32 = 8;
const RESERVE_MAX: u32 = 1027;
/// Files of fewer pages are packed (`mb_stream_req`), into windows of so many blocks (`mb_group_prealloc`).
const PACKED_PAGES: u32 = 16;
const PACKED_WINDOW: u32 = 512;
/// The most that an XFS-like file keeps ahead: 8 GB.
const XFS_AHEAD_MAX: u32 = 1 << 21;

/// Blocks that are kept for the pages of one file from `page` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Window {
    pub(super) page: u32,
    pub(super) at: u32,
    pub(super) n: u32,
    /// How long it was when it was made; 0: there never was one.
    made: u32,
}

/// What an allocation is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) page: u32,
    /// How many blocks; at least 1.
    pub(super) n: u32,
    /// Where the first should lie.
    pub(super) goal: u32,
    /// How many pages the file has, these included.
    pub(super) pages: u32,
    /// Whether the file may grow, and so may keep something ahead.
    pub(super) grows: bool,
}

/// Free space, and how it is given away.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) space: Space,
    pub(super) layout: Layout,
    habit: Habit,
    /// The window that small files share.
    packed: Window,
}

#[derive(Clone, Copy, Debug)]
enum Habit {
    Ext(Ahead),
    Xfs { least: u32, grows: bool },
}

impl Ground {
    pub(super) fn new(options: &Options, layout: Layout, space: Space) -> Self {
        let habit = match options {
            Options::Ext(options) => Habit::Ext(options.ahead),
            Options::XfsLike(options) => {
                Habit::Xfs { least: options.ahead_blocks, grows: options.ahead_grows }
            }
        };
        Self { space, layout, habit, packed: Window::default() }
    }

    /// Takes up to `wish.n` blocks in a row for a file that keeps `window`; at least one. `None`: there are none.
    pub(super) fn take(&mut self, window: &mut Window, wish: Wish) -> Option<(u32, u32)> {
        if self.packs(wish) {
            return self.take_packed(wish);
        }
        if let Some(got) = self.take_kept(window, wish) {
            return Some(got);
        }
        let keeps = if wish.grows { self.keeps(window, wish) } else { 0 };
        self.give_back(window);
        let (at, n) = self.search(wish.goal, wish.n + keeps)?;
        self.space.take(at, n);
        let used = n.min(wish.n);
        *window = Window { page: wish.page + used, at: at + used, n: n - used, made: n };
        Some((at, used))
    }

    /// Takes one block for metadata.
    pub(super) fn take_one(&mut self, goal: u32) -> Option<u32> {
        let (at, _) = self.search(goal, 1)?;
        self.space.take(at, 1);
        Some(at)
    }

    /// Gives up what a file keeps. Its next window will be as long as this one was.
    pub(super) fn give_back(&mut self, window: &mut Window) {
        if window.n > 0 {
            self.space.give(window.at, window.n);
            window.n = 0;
        }
    }

    /// Gives up what small files share.
    pub(super) fn give_packed_back(&mut self) {
        let mut packed = self.packed;
        self.give_back(&mut packed);
        self.packed = Window::default();
    }

    /// Blocks that are kept for small files.
    pub(super) fn packed(&self) -> Window {
        self.packed
    }

    fn packs(&self, wish: Wish) -> bool {
        matches!(self.habit, Habit::Ext(Ahead::Multiblock)) && wish.pages <= PACKED_PAGES
    }

    fn take_packed(&mut self, wish: Wish) -> Option<(u32, u32)> {
        if self.packed.n < wish.n {
            self.give_packed_back();
            let (at, n) = self.search(wish.goal, PACKED_WINDOW)?;
            self.space.take(at, n);
            self.packed = Window { page: 0, at, n, made: n };
        }
        Some(take_front(&mut self.packed, wish.n))
    }

    /// From what the file keeps, if it is kept for this.
    fn take_kept(&mut self, window: &mut Window, wish: Wish) -> Option<(u32, u32)> {
        let serves = window.n > 0
            && match self.habit {
                Habit::Ext(Ahead::Preallocate) => wish.goal == window.at || wish.goal + 1 == window.at,
                Habit::Ext(_) | Habit::Xfs { .. } => wish.goal == window.at || wish.page == window.page,
            };
        if !serves {
            return None;
        }
        window.page = wish.page;
        Some(take_front(window, wish.n))
    }

    /// How many blocks a file keeps beyond those that it needs now.
    fn keeps(&self, window: &Window, wish: Wish) -> u32 {
        match self.habit {
            Habit::Ext(Ahead::Nothing) => 0,
            Habit::Ext(Ahead::Preallocate) => wish.n.next_multiple_of(PREALLOCATE) - wish.n,
            Habit::Ext(Ahead::Reserve) => {
                let used = window.made - window.n;
                let length = match window.made {
                    0 => RESERVE_FIRST,
                    made if used > made / 2 => (made * 2).min(RESERVE_MAX),
                    made => made,
                };
                length.saturating_sub(wish.n)
            }
            Habit::Ext(Ahead::Multiblock) => multiblock_end(wish) - wish.page - wish.n,
            Habit::Xfs { least, grows } => {
                let grown = if grows { 1 << wish.pages.ilog2() } else { 0 };
                // Only a file that grows keeps something.
                let appends = wish.page + wish.n >= wish.pages;
                if appends { grown.clamp(least, XFS_AHEAD_MAX.max(least)) } else { 0 }
            }
        }
    }

    /// Free blocks in a row, at most `n`, as near to the goal as the file system cares to look.
    fn search(&self, goal: u32, n: u32) -> Option<(u32, u32)> {
        if self.space.free() == 0 {
            return None;
        }
        let goal = if goal < self.space.blocks() { goal } else { 0 };
        match self.habit {
            Habit::Ext(Ahead::Nothing | Ahead::Preallocate | Ahead::Reserve) => {
                let at = self.near(goal)?;
                let end = self.space.group_end(at / GROUP);
                Some((at, self.space.free_run(at, n.min(end - at))))
            }
            Habit::Ext(Ahead::Multiblock) | Habit::Xfs { .. } => self.long(goal, n),
        }
    }

    /// ext2's and ext3's way: the goal; a free block within the next 64; eight free ones in the group; any there; then the
    /// same in the groups that follow.
    fn near(&self, goal: u32) -> Option<u32> {
        if self.space.is_free(goal) {
            return Some(goal);
        }
        let group = goal / GROUP;
        let end = self.space.group_end(group);
        let close = (goal / 64 + 1) * 64;
        let first = self.space.next_free(goal, close.min(end));
        first.or_else(|| self.in_group(goal, end)).or_else(|| {
            let groups = self.space.groups();
            (1..=groups)
                .map(|i| (group + i) % groups)
                .filter(|&g| self.space.free_in(g) > 0)
                .find_map(|g| self.in_group(g * GROUP, self.space.group_end(g)))
        })
    }

    fn in_group(&self, from: u32, end: u32) -> Option<u32> {
        let Some(mut at) = self.space.next_free_byte(from, end) else {
            return self.space.next_free(from, end);
        };
        // Up to seven free blocks before the eight belong to them.
        for _ in 0..7 {
            if at == from || !self.space.is_free(at - 1) {
                break;
            }
            at -= 1;
        }
        Some(at)
    }

    /// `mballoc`'s and XFS's way: the goal if enough is free there; the first run that is long enough, from the goal on
    /// in its group and then in the others; then the same for half as much.
    fn long(&self, goal: u32, n: u32) -> Option<(u32, u32)> {
        let mut n = n.min(self.longest_possible());
        let (start, end) = self.around(goal);
        loop {
            if self.space.free_run(goal, n.min(end - goal)) >= n {
                return Some((goal, n));
            }
            let here = self.space.find_run(goal, end, n).filter(|at| at + n <= end);
            let found = here.or_else(|| self.elsewhere(start, end, n));
            if let Some(at) = found {
                return Some((at, n));
            }
            if n == 1 {
                return None;
            }
            n = n.div_ceil(2);
        }
    }

    /// The first long run in the groups after the one from `start` to `end`, and at last in that one.
    fn elsewhere(&self, start: u32, end: u32, n: u32) -> Option<u32> {
        let mut from = end;
        loop {
            if from >= self.space.blocks() {
                from = 0;
            }
            let (_, to) = self.around(from);
            if self.might_have(from, to, n)
                && let Some(at) = self.space.find_run(from, to, n).filter(|at| at + n <= to)
            {
                return Some(at);
            }
            if from == start {
                return None;
            }
            from = to;
        }
    }

    fn might_have(&self, from: u32, to: u32, n: u32) -> bool {
        to - from > GROUP || self.space.free_in(from / GROUP) >= n
    }

    /// The group around a block, which a run does not leave.
    fn around(&self, at: u32) -> (u32, u32) {
        match &self.layout {
            Layout::Ext(_) => (at / GROUP * GROUP, self.space.group_end(at / GROUP)),
            Layout::Xfs(groups) => groups.around(at),
        }
    }

    fn longest_possible(&self) -> u32 {
        let (start, end) = self.around(0);
        end - start
    }
}

fn take_front(window: &mut Window, n: u32) -> (u32, u32) {
    let n = n.min(window.n);
    let at = window.at;
    window.at += n;
    window.page += n;
    window.n -= n;
    (at, n)
}

/// How far `mballoc` rounds a request up: the file's length to a power of two up to 1 MB, then windows of 2, 4, 8 MB.
fn multiblock_end(wish: Wish) -> u32 {
    const MB: u32 = 256;
    let end = wish.page + wish.n;
    let window = match wish.pages {
        pages if pages <= MB => return pages.next_power_of_two().max(end),
        pages if pages <= 4 * MB => 2 * MB,
        pages if pages <= 8 * MB => 4 * MB,
        _ => 8 * MB,
    };
    ((wish.page / window + 1) * window).max(end)
}
