//! Pacing of garbage collection.
//!
//! The work caused by opening a superblock (copies, and an erase of each die) is spread evenly over the pages that fill it. Writes
//! slow down by the write amplification, and never wait for a whole collection.

use super::translation::Collected;

/// Outstanding work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Collector {
    copies: u64,
    erases: u64,
    /// Host pages over which the work is spread.
    over: u64,
    /// Copies due that do not fill a program.
    due: u64,
    /// Flash pages read for one program of copies.
    reads: u32,
}

/// Sizes of a drive's units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) dies: u64,
    pub(super) pages_in_superblock: u64,
    pub(super) pages_in_program: u64,
    pub(super) pages_in_page: u64,
}

impl Collector {
    /// A superblock was opened, and others were emptied for it.
    pub(super) fn owe(&mut self, collected: Collected, sizes: &Sizes) {
        if collected.superblocks == 0 {
            return;
        }
        self.copies += collected.copies;
        self.erases += collected.superblocks * sizes.dies;
        self.over = sizes.pages_in_superblock;
        // A page of flash read for copying yields its valid share.
        let flash_pages = collected.superblocks * sizes.pages_in_superblock / sizes.pages_in_page;
        let reads = (sizes.pages_in_program * flash_pages).div_ceil(collected.copies.max(1));
        self.reads = reads.clamp(1, sizes.pages_in_program) as u32;
    }

    /// The host has written `pages`: returns the programs of copies and the erases that are due.
    pub(super) fn due(&mut self, pages: u64, sizes: &Sizes) -> (u64, u64) {
        let left = self.over.max(pages).max(1);
        let share = |owed: u64| (u128::from(owed) * u128::from(pages)).div_ceil(u128::from(left)) as u64;
        let (copies, erases) = (share(self.copies), share(self.erases));
        self.copies -= copies;
        self.erases -= erases;
        self.over = left - pages;
        self.due += copies;
        let programs = self.due / sizes.pages_in_program;
        self.due %= sizes.pages_in_program;
        (programs, erases)
    }

    /// Flash pages to read for one program of copies.
    pub(super) fn reads(&self) -> u32 {
        self.reads
    }
}
