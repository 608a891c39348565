//! What the kernel asks of the block layer, and what it does when that comes back.

use elevator::queue::{Submission, Token};
use elevator::{CauseSet, Flags, Op, Outcome, Sector, Sectors};

use super::cache::PageId;
use super::fs::{BLOCK_SECTORS, Block, Extent};
use super::journal::WriteId;
use super::state::State;
use super::tasks::{TaskId, Wait};

/// What a submission is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// Pages come from the device.
    Read,
    /// Pages go to the device.
    Writeback,
    /// Pages of programs go to the swap area.
    Swap,
    /// The journal's own; its pages, if any, are buffers going home.
    Journal(WriteId),
    /// Whoever submitted it counts it.
    Counted,
}

/// A submission of the kernel's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bio {
    pub(super) purpose: Purpose,
    pub(super) op: Op,
    pub(super) start: Sector,
    pub(super) sectors: Sectors,
    pub(super) flags: Flags,
    pub(super) causes: Option<CauseSet>,
    pub(super) pages: Vec<PageId>,
    /// Who submitted it.
    pub(super) task: TaskId,
}

impl Bio {
    /// Something without pages, at this place; a flush has none.
    pub(super) fn bare(task: TaskId, purpose: Purpose, op: Op, to: Option<Extent>) -> Self {
        Self {
            purpose,
            op,
            start: to.map_or(Sector(0), |extent| extent.start.sector()),
            sectors: to.map_or(Sectors(0), |extent| extent.sectors()),
            flags: Flags::default(),
            causes: None,
            pages: Vec::new(),
            task,
        }
    }

    /// Whether its pages count as being written,
    pub(super) fn is_writeback(&self) -> bool {
        self.op == Op::Write && !self.pages.is_empty()
    }

    /// and whether they are memory of programs.
    pub(super) fn is_swap(&self) -> bool {
        self.purpose == Purpose::Swap
    }

    /// One more page, which lies behind the last.
    pub(super) fn extend(&mut self, page: PageId) {
        self.pages.push(page);
        self.sectors += Sectors(BLOCK_SECTORS as u32);
    }

    /// These pages, which lie one after the other from this block on.
    pub(super) fn of_pages(task: TaskId, purpose: Purpose, op: Op, start: Block, pages: Vec<PageId>) -> Self {
        let sectors = Sectors(pages.len() as u32 * BLOCK_SECTORS as u32);
        let flags = Flags::default();
        Self { purpose, op, start: start.sector(), sectors, flags, causes: None, pages, task }
    }
}

/// Submissions on their way.
#[derive(Default)]
pub(super) struct Bios {
    slots: Vec<Option<Bio>>,
    free: Vec<u32>,
    /// What the running task has just submitted; the engine takes it before the task goes on.
    outbox: Option<u32>,
    /// Page lists kept for the next.
    spare: Vec<Vec<PageId>>,
}

impl Bios {
    /// An empty list of pages.
    pub(super) fn list(&mut self) -> Vec<PageId> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a list back.
    pub(super) fn spare(&mut self, mut list: Vec<PageId>) {
        list.clear();
        self.spare.push(list);
    }

    /// Those on their way.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Bio> {
        self.slots.iter().flatten()
    }
}

impl State {
    /// The task submits this; the engine hands it on at once.
    pub(super) fn send(&mut self, task: TaskId, mut bio: Bio) {
        if self.tags() && bio.op == Op::Read && bio.causes.is_none() {
            bio.causes = Some(self.cause(task));
        }
        self.pay_for_request(task);
        debug_assert_eq!(self.bios.outbox, None, "{task:?} submitted twice without sleeping");
        match bio.op {
            Op::Read => self.watch.now.pages_in += bio.sectors.bytes() / super::fs::BLOCK_BYTES,
            Op::Write => self.watch.now.pages_out += bio.sectors.bytes() / super::fs::BLOCK_BYTES,
            Op::Flush | Op::Discard => {}
        }
        if matches!(bio.purpose, Purpose::Counted | Purpose::Journal(_)) {
            self.task(task).pending += 1;
        }
        let id = self.bios.free.pop().unwrap_or_else(|| {
            self.bios.slots.push(None);
            self.bios.slots.len() as u32 - 1
        });
        self.bios.slots[id as usize] = Some(bio);
        self.bios.outbox = Some(id);
    }

    /// What the running task has submitted, as the block layer wants it, with the kernel's name for it.
    pub(super) fn outgoing(&mut self, token: impl FnOnce(u32) -> Token) -> Option<Submission> {
        let id = self.bios.outbox.take()?;
        let bio = self.bios.slots[id as usize].as_ref()?;
        let task = &self.tasks[bio.task.index()];
        Some(Submission {
            token: token(id),
            op: bio.op,
            start: bio.start,
            sectors: bio.sectors,
            flags: bio.flags,
            priority: task.priority,
            process: task.process,
            causes: bio.causes.filter(|_| self.tags()),
        })
    }

    /// A submission came back.
    pub(super) fn arrived(&mut self, id: u32, outcome: Outcome) {
        let Some(bio) = self.bios.slots[id as usize].take() else { return };
        self.bios.free.push(id);
        let done = outcome == Outcome::Done;
        match bio.purpose {
            Purpose::Read => self.pages_arrived(&bio.pages, done),
            Purpose::Writeback => self.pages_written(&bio.pages, done),
            Purpose::Swap => self.swapped_out(&bio.pages, done),
            Purpose::Journal(write) => {
                self.pages_written(&bio.pages, done);
                self.journal_written(write);
                self.counted(bio.task, done);
            }
            Purpose::Counted => self.counted(bio.task, done),
        }
        self.bios.spare(bio.pages);
    }

    fn counted(&mut self, id: TaskId, done: bool) {
        let task = self.task(id);
        task.pending -= 1;
        task.failed |= !done;
        if task.pending == 0 {
            self.sleepers.wake(self.now, Wait::Io(id));
        }
    }

    fn pages_arrived(&mut self, pages: &[PageId], done: bool) {
        for &id in pages {
            self.page_arrived(id, done);
        }
    }

    /// A page is no longer on its way from the device.
    pub(super) fn page_arrived(&mut self, id: PageId, done: bool) {
        let page = &mut self.pages[id];
        page.reading = false;
        page.uptodate = done;
        if page.orphan {
            self.drop_page(id);
        }
        self.sleepers.wake(self.now, Wait::Page(id));
    }

    /// The block layer has so many requests of writes: whether that is too many has a memory, so that the crowd that waits
    /// is not woken for every single one.
    pub(super) fn crowded(&mut self, requests: u32) {
        if requests >= self.rules.congestion_on {
            self.congested = true;
        } else if self.congested && requests < self.rules.congestion_off {
            self.congested = false;
            self.sleepers.wake(self.now, Wait::AnyWrite);
        }
    }
}
