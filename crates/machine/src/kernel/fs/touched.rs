//! How operations note what they cost, in the file system's own block numbers.

use super::words::{Block, Touched};

/// What an operation touches, noted for the caller in the device's numbers.
pub(super) struct Bill<'a> {
    touched: &'a mut Touched,
    /// The file system's first block on the device.
    start: Block,
}

impl<'a> Bill<'a> {
    pub(super) fn new(touched: &'a mut Touched, start: Block) -> Self {
        Self { touched, start }
    }

    fn on_device(&self, at: u32) -> Block {
        self.start.plus(u64::from(at))
    }

    pub(super) fn read(&mut self, at: u32) {
        let block = self.on_device(at);
        if self.touched.reads.last() != Some(&block) {
            self.touched.reads.push(block);
        }
    }

    /// Changed without having to be read: it is new.
    pub(super) fn fresh(&mut self, at: u32) {
        let block = self.on_device(at);
        if !self.touched.dirties.contains(&block) {
            self.touched.dirties.push(block);
        }
    }

    /// Read and changed.
    pub(super) fn change(&mut self, at: u32) {
        let block = self.on_device(at);
        if !self.touched.dirties.contains(&block) {
            self.read(at);
            self.touched.dirties.push(block);
        }
    }

    /// Freed.
    pub(super) fn forget(&mut self, at: u32) {
        let block = self.on_device(at);
        self.touched.dirties.retain(|&dirty| dirty != block);
        self.touched.forgets.push(block);
    }
}
