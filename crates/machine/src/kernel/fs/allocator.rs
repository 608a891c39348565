//! Block allocation: the search for free blocks, and preallocation.
//!
//! Sources: `fs/ext2/balloc.c` and `inode.c`, `fs/ext3/balloc.c` of Linux 2.6, `fs/ext4/mballoc.c`, `fs/xfs/xfs_iomap.c`.
//! Differences:
//! - a window contains free blocks only, from the first free one on, as long as they go (ext3's windows may span used
//!   blocks);
//! - windows of `mballoc` begin at the requested page, not at a rounded one before it, and all small files share one window
//!   (the kernel has one per processor);
//! - `mballoc` and XFS search for the first run that is long enough, from the goal on, before they halve the length.

use super::layout::Layout;
use super::options::{Ahead, Options};
use super::space::{GROUP, Space};

/// Blocks that ext2 allocates together.
const PREALLOCATE: u32 = 8;
/// First and largest length of a reservation window in blocks (`EXT3_DEFAULT_RESERVE_BLOCKS`, `EXT3_MAX_RESERVE_BLOCKS`).
const RESERVE_FIRST: u32 = 8;
const RESERVE_MAX: u32 = 1027;
/// Files with fewer pages share windows (`mb_stream_req`) of this many blocks (`mb_group_prealloc`).
const PACKED_PAGES: u32 = 16;
const PACKED_WINDOW: u32 = 512;
/// Largest preallocation of XFS: 8 GB.
const XFS_AHEAD_MAX: u32 = 1 << 21;

/// Blocks preallocated for the pages of a file from `page` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Window {
    pub(super) page: u32,
    pub(super) at: u32,
    pub(super) n: u32,
    /// Its original length; 0 if there never was a window.
    made: u32,
}

/// A request for blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocation {
    pub(super) page: u32,
    /// Number of blocks; at least 1.
    pub(super) n: u32,
    /// Preferred first block.
    pub(super) goal: u32,
    /// Pages of the file, these included.
    pub(super) pages: u32,
    /// Whether the file may grow, so that preallocation is useful.
    pub(super) grows: bool,
}

/// Free space and the allocation policy.
#[derive(Debug)]
pub(super) struct Allocator {
    pub(super) space: Space,
    pub(super) layout: Layout,
    preallocation: Preallocation,
    /// The window shared by small files.
    packed: Window,
}

#[derive(Clone, Copy, Debug)]
enum Preallocation {
    Ext(Ahead),
    Xfs { least: u32, grows: bool },
}

impl Allocator {
    pub(super) fn new(options: &Options, layout: Layout, space: Space) -> Self {
        let preallocation = match options {
            Options::Ext(options) => Preallocation::Ext(options.ahead),
            Options::XfsLike(options) => {
                Preallocation::Xfs { least: options.ahead_blocks, grows: options.ahead_grows }
            }
        };
        Self { space, layout, preallocation, packed: Window::default() }
    }

    /// Allocates up to `wanted.n` adjacent blocks, at least one, for a file with this window. `None` if the file system is
    /// full.
    pub(super) fn take(&mut self, window: &mut Window, wanted: Allocation) -> Option<(u32, u32)> {
        if self.packs(wanted) {
            return self.take_packed(wanted);
        }
        if let Some(got) = self.take_kept(window, wanted) {
            return Some(got);
        }
        let keeps = if wanted.grows { self.keeps(window, wanted) } else { 0 };
        self.give_back(window);
        let (at, n) = self.search(wanted.goal, wanted.n + keeps)?;
        self.space.take(at, n);
        let used = n.min(wanted.n);
        *window = Window { page: wanted.page + used, at: at + used, n: n - used, made: n };
        Some((at, used))
    }

    /// Allocates one block for metadata.
    pub(super) fn take_one(&mut self, goal: u32) -> Option<u32> {
        let (at, _) = self.search(goal, 1)?;
        self.space.take(at, 1);
        Some(at)
    }

    /// Frees a file's window. Its next window will have the same length.
    pub(super) fn give_back(&mut self, window: &mut Window) {
        if window.n > 0 {
            self.space.give(window.at, window.n);
            window.n = 0;
        }
    }

    /// Frees the window of small files.
    pub(super) fn give_packed_back(&mut self) {
        let mut packed = self.packed;
        self.give_back(&mut packed);
        self.packed = Window::default();
    }

    /// The window of small files.
    pub(super) fn packed(&self) -> Window {
        self.packed
    }

    fn packs(&self, wanted: Allocation) -> bool {
        matches!(self.preallocation, Preallocation::Ext(Ahead::Multiblock)) && wanted.pages <= PACKED_PAGES
    }

    fn take_packed(&mut self, wanted: Allocation) -> Option<(u32, u32)> {
        if self.packed.n < wanted.n {
            self.give_packed_back();
            let (at, n) = self.search(wanted.goal, PACKED_WINDOW)?;
            self.space.take(at, n);
            self.packed = Window { page: 0, at, n, made: n };
        }
        Some(take_front(&mut self.packed, wanted.n))
    }

    /// Allocates from the file's window, if that was made for this page.
    fn take_kept(&mut self, window: &mut Window, wanted: Allocation) -> Option<(u32, u32)> {
        let serves = window.n > 0
            && match self.preallocation {
                Preallocation::Ext(Ahead::Preallocate) => {
                    wanted.goal == window.at || wanted.goal + 1 == window.at
                }
                Preallocation::Ext(_) | Preallocation::Xfs { .. } => {
                    wanted.goal == window.at || wanted.page == window.page
                }
            };
        if !serves {
            return None;
        }
        window.page = wanted.page;
        Some(take_front(window, wanted.n))
    }

    /// Blocks to preallocate beyond those needed.
    fn keeps(&self, window: &Window, wanted: Allocation) -> u32 {
        match self.preallocation {
            Preallocation::Ext(Ahead::Nothing) => 0,
            Preallocation::Ext(Ahead::Preallocate) => wanted.n.next_multiple_of(PREALLOCATE) - wanted.n,
            Preallocation::Ext(Ahead::Reserve) => {
                let used = window.made - window.n;
                let length = match window.made {
                    0 => RESERVE_FIRST,
                    made if used > made / 2 => (made * 2).min(RESERVE_MAX),
                    made => made,
                };
                length.saturating_sub(wanted.n)
            }
            Preallocation::Ext(Ahead::Multiblock) => multiblock_end(wanted) - wanted.page - wanted.n,
            Preallocation::Xfs { least, grows } => {
                let grown = if grows { 1 << wanted.pages.ilog2() } else { 0 };
                // Only appending writes preallocate.
                let appends = wanted.page + wanted.n >= wanted.pages;
                if appends { grown.clamp(least, XFS_AHEAD_MAX.max(least)) } else { 0 }
            }
        }
    }

    /// Adjacent free blocks, at most `n`, near the goal.
    fn search(&self, goal: u32, n: u32) -> Option<(u32, u32)> {
        if self.space.free() == 0 {
            return None;
        }
        let goal = if goal < self.space.blocks() { goal } else { 0 };
        match self.preallocation {
            Preallocation::Ext(Ahead::Nothing | Ahead::Preallocate | Ahead::Reserve) => {
                let at = self.near(goal)?;
                let end = self.space.group_end(at / GROUP);
                Some((at, self.space.free_run(at, n.min(end - at))))
            }
            Preallocation::Ext(Ahead::Multiblock) | Preallocation::Xfs { .. } => self.long(goal, n),
        }
    }

    /// ext2 and ext3: the goal; a free block within the next 64; eight free blocks in the group; any free block there; the
    /// same in the following groups.
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
        // Up to seven free blocks before the eight are used first.
        for _ in 0..7 {
            if at == from || !self.space.is_free(at - 1) {
                break;
            }
            at -= 1;
        }
        Some(at)
    }

    /// `mballoc` and XFS: the goal if enough is free there; the first run that is long enough, from the goal on in its group,
    /// then in the others; then the same for half the length.
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

    /// The first long run in the groups after the one from `start` to `end`, that group last.
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

    /// The group of a block. A run does not cross its end.
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

/// The end to which `mballoc` rounds a request: a power of two up to 1 MB, then windows of 2, 4, 8 MB.
fn multiblock_end(wanted: Allocation) -> u32 {
    const MB: u32 = 256;
    let end = wanted.page + wanted.n;
    let window = match wanted.pages {
        pages if pages <= MB => return pages.next_power_of_two().max(end),
        pages if pages <= 4 * MB => 2 * MB,
        pages if pages <= 8 * MB => 4 * MB,
        _ => 8 * MB,
    };
    ((wanted.page / window + 1) * window).max(end)
}
