//! Writeback: files in the order in which they became dirty, the dirty pages of a file by index.

use std::ops::Range;

use elevator::{CauseSet, Flags, Op, Time};

use super::buffers::Of;
use super::cache::{FileId, PageId};
use super::context::Context;
use super::fs::{Block, Inode};
use super::read::block_of;
use super::state::{Bio, Purpose, State, TaskId, Wait};

/// Pages written of a file before the next file's turn: `MAX_WRITEBACK_PAGES`.
pub(super) const BATCH: usize = 1024;

/// How a writeback proceeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Effort {
    /// Stops at a congested queue instead of sleeping.
    pub(super) nonblocking: bool,
    /// Writes every dirty page, also those under writeback, for a task that waits for all of them.
    pub(super) whole: bool,
    /// Allocates pages that have no block.
    pub(super) places: bool,
    /// Only files that have been dirty since this time.
    pub(super) older_than: Time,
    /// Files keep their age when they are put back.
    pub(super) keeps_age: bool,
}

impl Effort {
    /// The flusher above the background threshold.
    pub(super) const BACKGROUND: Self =
        Self { nonblocking: true, whole: false, places: true, older_than: Time::MAX, keeps_age: false };
    /// A writer above the limit.
    pub(super) const WRITER: Self = Self { nonblocking: false, ..Self::BACKGROUND };
    /// Reclaim: nothing that needs memory.
    pub(super) const RECLAIM: Self = Self { nonblocking: false, places: false, ..Self::BACKGROUND };
    /// The journal's thread, for data ordered before a commit: all pages with a block.
    pub(super) const ORDERED: Self = Self { whole: true, ..Self::RECLAIM };
    /// `fsync` and `sync`.
    pub(super) const SYNC: Self = Self { nonblocking: false, whole: true, ..Self::BACKGROUND };
}

/// The progress of a writeback.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Written {
    pub(super) pages: usize,
    pub(super) met_congestion: bool,
}

/// The next action for a file.
enum Next {
    Nothing,
    /// Submit this.
    Bio(Bio),
    /// Wait for the writeback of this page, which is dirty again.
    Wait(PageId),
    /// Allocate these pages.
    Place(u64, u32),
}

impl State {
    /// The next dirty pages of a file from an index on, as one submission.
    fn next_writeback(&mut self, task: TaskId, file: FileId, from: u64, most: usize, effort: Effort) -> Next {
        let most = most.min(self.rules.request_pages);
        let mut list = self.bios.list();
        let mut start = Block(0);
        let mut at = from;
        while list.len() < most
            && let Some(index) = self.files.next_dirty(file, at)
            && let Some(id) = self.pages.find(file, index)
        {
            at = index + 1;
            let (block, writing, first) = (self.block_of_page(id), self.pages[id].writing, list.is_empty());
            match block {
                _ if writing && first && effort.whole => return Next::Wait(id),
                // A later writeback will write it.
                _ if writing && first => continue,
                None if first && effort.places => return Next::Place(index, self.unplaced(file, index)),
                None if first => continue,
                Some(block) if first => start = block,
                Some(block) if !writing && block == start.plus(list.len() as u64) => {}
                _ => break,
            }
            list.push(id);
        }
        if list.is_empty() {
            self.bios.spare(list);
            return Next::Nothing;
        }
        let causes =
            list.iter().fold(None, |all: Option<CauseSet>, &id| match (all, self.start_page_writeback(id)) {
                (Some(all), Some(causes)) => Some(self.causes.union(all, causes)),
                (all, causes) => all.or(causes),
            });
        let flags = Flags {
            sync: effort.whole && self.rules.sync_writes,
            meta: file == FileId::DEVICE,
            ..Flags::default()
        };
        let bio = Bio::of_pages(task, Purpose::Writeback, Op::Write, start, list);
        Next::Bio(Bio { flags, causes, ..bio })
    }

    /// The block of a dirty page. The lookup costs nothing, because the page's buffers have known it since the allocation.
    fn block_of_page(&mut self, id: PageId) -> Option<Block> {
        let page = &self.pages[id];
        let Some(inode) = page.file.inode() else { return Some(Block(page.index)) };
        if page.block.is_none() {
            let index = page.index;
            let (runs, touched) = self.look_up(inode, index, 1);
            self.pages[id].block = block_of(&runs, index);
            self.touched.push(touched);
            self.runs.push(runs);
        }
        self.pages[id].block
    }

    /// Number of consecutive dirty pages without a block.
    fn unplaced(&self, file: FileId, from: u64) -> u32 {
        let Some(cached) = self.files.get(file) else { return 1 };
        (from..)
            .zip(cached.dirty.range(from..))
            .take(BATCH)
            .take_while(|&(expected, &index)| expected == index && cached.reserved.contains(&index))
            .count()
            .max(1) as u32
    }
}

impl State {
    /// The causes of these pages; `None` if requests carry none.
    fn causes_of(&mut self, file: FileId, indexes: Range<u64>) -> Option<CauseSet> {
        let indexes = if self.tags() { indexes } else { 0..0 };
        indexes.fold(None, |all, index| {
            let causes = self.pages.find(file, index).and_then(|id| self.pages[id].causes);
            causes.map(|causes| self.causes.join(all, causes)).or(all)
        })
    }

    /// The file's pages under writeback.
    fn under_writeback(&self, file: FileId) -> Vec<PageId> {
        let most = self.files.get(file).map_or(0, |cached| cached.writing as usize);
        if most == 0 {
            return Vec::new();
        }
        let submissions = self.bios.iter().filter(|bio| bio.is_writeback());
        submissions
            .flat_map(|bio| bio.pages.iter().copied())
            .filter(|&id| self.is_writing(id, file))
            .take(most)
            .collect()
    }

    fn is_writing(&self, id: PageId, file: FileId) -> bool {
        let page = &self.pages[id];
        page.writing && page.file == file
    }
}

impl Context {
    /// Writes up to `most` dirty pages of a file, from where the last writeback stopped, and around.
    pub(super) async fn write_file(&self, file: FileId, most: usize, effort: Effort) -> Written {
        let (resume, end) = self.with(|state| {
            let cached = state.files.get(file);
            let last = cached.and_then(|cached| cached.dirty.last().copied());
            // One sweep up to the last page that is dirty now, so that a task that keeps dirtying pages does not prolong it.
            let end = if effort.whole { last.unwrap_or(0) } else { u64::MAX };
            (cached.map_or(0, |cached| cached.resume), end)
        });
        let (mut from, mut around) = if effort.whole { (0, true) } else { (resume, resume == 0) };
        let mut written = Written::default();
        while written.pages < most && from <= end {
            if effort.nonblocking && self.with(|state| state.congested) {
                written.met_congestion = true;
                break;
            }
            let left = most - written.pages;
            match self.with(|state| state.next_writeback(self.task, file, from, left, effort)) {
                Next::Nothing if around => break,
                Next::Nothing => (from, around) = (0, true),
                Next::Bio(bio) => {
                    written.pages += bio.pages.len();
                    from = self.with(|state| state.pages[bio.pages[bio.pages.len() - 1]].index) + 1;
                    self.submit(bio).await;
                }
                Next::Wait(id) => {
                    while self.with(|state| state.pages[id].writing) {
                        self.sleep(Wait::Page(id)).await;
                    }
                }
                Next::Place(index, pages) => {
                    if let Some(inode) = file.inode()
                        && !self.allocate_delayed(inode, index, pages).await
                    {
                        from = index + u64::from(pages);
                    }
                }
            }
        }
        self.with(|state| {
            if !effort.whole && state.files.get(file).is_some() {
                state.files.entry(file).resume = from;
            }
        });
        written
    }

    /// Allocates reserved pages, on behalf of those who dirtied them; returns whether that succeeded.
    async fn allocate_delayed(&self, inode: Inode, index: u64, pages: u32) -> bool {
        self.with(|state| {
            state.task(self.task).proxy_of = state.causes_of(inode.into(), index..index + u64::from(pages));
        });
        let placed = self.allocate_reserved(inode, index, pages).await;
        self.with(|state| state.task(self.task).proxy_of = None);
        placed
    }

    async fn allocate_reserved(&self, inode: Inode, index: u64, pages: u32) -> bool {
        let touched = self.with(|state| {
            let mut touched = state.take_touched();
            let reserved = &mut state.files.entry(inode.into()).reserved;
            let promised = (index..index + u64::from(pages)).filter(|index| reserved.remove(index)).count();
            state.fs.unreserve(promised as u64);
            let (mut runs, by) = (state.take_runs(), state.number(self.task));
            let allocated = state.fs.allocate(inode, index, pages, by, &mut runs, &mut touched);
            state.runs.push(runs);
            allocated.map(|()| touched)
        });
        match touched {
            Ok(touched) => self.settle(touched, Of::Data(inode)).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Writes up to `most` dirty pages of any files, the longest dirty first.
    pub(super) async fn write_dirty(&self, most: usize, effort: Effort) -> Written {
        let mut all = Written::default();
        let latest = self.with(|state| state.files.order.latest());
        while all.pages < most && !all.met_congestion {
            let Some(file) = self.with(|state| state.files.order.first(effort.older_than, latest)) else {
                break;
            };
            let written = self.write_file(file, (most - all.pages).min(BATCH), effort).await;
            all.pages += written.pages;
            all.met_congestion |= written.met_congestion;
            self.with(|state| {
                let now = (!effort.keeps_age).then_some(state.now);
                state.files.put_back(file, now);
            });
        }
        all
    }

    /// Waits for the pages of the file that are under writeback now, not for later ones.
    pub(super) async fn wait_for_writes(&self, file: FileId) {
        let pages = self.with(|state| state.under_writeback(file));
        self.wait_for_pages(file, pages).await;
    }

    /// Waits for the writeback of pages that the file has dropped; returns whether there were any.
    pub(super) async fn wait_for_dropped(&self, file: FileId) -> bool {
        let pages = self.with(|state| {
            let mut pages = state.under_writeback(file);
            pages.retain(|&id| state.pages[id].orphan);
            pages
        });
        let some = !pages.is_empty();
        self.wait_for_pages(file, pages).await;
        some
    }

    async fn wait_for_pages(&self, file: FileId, pages: Vec<PageId>) {
        for id in pages {
            while self.with(|state| state.is_writing(id, file)) {
                self.sleep(Wait::Page(id)).await;
            }
        }
    }
}
