//! The kernel's submissions to the block layer.

use elevator::{CauseSet, Flags, Op, Sector, Sectors};

use super::tasks::TaskId;
use crate::kernel::cache::PageId;
use crate::kernel::fs::{BLOCK_SECTORS, Block, Extent};
use crate::kernel::journal::WriteId;

/// The purpose of a submission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernel) enum Purpose {
    /// Pages are read.
    Read,
    /// Pages are written.
    Writeback,
    /// Anonymous pages are written to the swap area.
    Swap,
    /// A write of the journal; its pages, if any, are buffers written home.
    Journal(WriteId),
    /// The task counts its completion.
    Counted,
}

/// A submission of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kernel) struct Bio {
    pub(in crate::kernel) purpose: Purpose,
    pub(in crate::kernel) op: Op,
    pub(in crate::kernel) start: Sector,
    pub(in crate::kernel) sectors: Sectors,
    pub(in crate::kernel) flags: Flags,
    pub(in crate::kernel) causes: Option<CauseSet>,
    pub(in crate::kernel) pages: Vec<PageId>,
    /// The submitting task.
    pub(in crate::kernel) task: TaskId,
}

impl Bio {
    /// A submission without pages; a flush has no extent.
    pub(in crate::kernel) fn bare(task: TaskId, purpose: Purpose, op: Op, to: Option<Extent>) -> Self {
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

    /// Whether its pages count as under writeback.
    pub(in crate::kernel) fn is_writeback(&self) -> bool {
        self.op == Op::Write && !self.pages.is_empty()
    }

    /// Whether its pages are anonymous memory.
    pub(in crate::kernel) fn is_swap(&self) -> bool {
        self.purpose == Purpose::Swap
    }

    /// Appends the adjacent page.
    pub(in crate::kernel) fn extend(&mut self, page: PageId) {
        self.pages.push(page);
        self.sectors += Sectors(BLOCK_SECTORS as u32);
    }

    /// A submission of pages that are adjacent on the device from `start` on.
    pub(in crate::kernel) fn of_pages(
        task: TaskId,
        purpose: Purpose,
        op: Op,
        start: Block,
        pages: Vec<PageId>,
    ) -> Self {
        let sectors = Sectors(pages.len() as u32 * BLOCK_SECTORS as u32);
        let flags = Flags::default();
        Self { purpose, op, start: start.sector(), sectors, flags, causes: None, pages, task }
    }
}

/// Unfinished submissions.
#[derive(Default)]
pub(in crate::kernel) struct Bios {
    slots: Vec<Option<Bio>>,
    free: Vec<u32>,
    /// The submission of the running task that the engine has not taken yet.
    outbox: Option<u32>,
    /// Page lists kept for their allocation.
    spare: Vec<Vec<PageId>>,
}

impl Bios {
    /// An empty page list.
    pub(in crate::kernel) fn list(&mut self) -> Vec<PageId> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a page list back.
    pub(in crate::kernel) fn spare(&mut self, mut list: Vec<PageId>) {
        list.clear();
        self.spare.push(list);
    }

    /// Adds a submission. The engine takes it with [`take_outgoing`](Self::take_outgoing) before the task continues.
    pub(in crate::kernel) fn add(&mut self, bio: Bio) {
        debug_assert_eq!(self.outbox, None, "{:?} submitted twice without sleeping", bio.task);
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[id as usize] = Some(bio);
        self.outbox = Some(id);
    }

    /// The submission that was added last, with its number, if the engine has not taken it yet.
    pub(in crate::kernel) fn take_outgoing(&mut self) -> Option<(u32, &Bio)> {
        let id = self.outbox.take()?;
        Some((id, self.slots[id as usize].as_ref()?))
    }

    /// Removes a finished submission.
    pub(in crate::kernel) fn remove(&mut self, id: u32) -> Option<Bio> {
        let bio = self.slots[id as usize].take()?;
        self.free.push(id);
        Some(bio)
    }

    /// Unfinished submissions.
    pub(in crate::kernel) fn iter(&self) -> impl Iterator<Item = &Bio> {
        self.slots.iter().flatten()
    }
}
