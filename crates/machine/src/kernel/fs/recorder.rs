//! Records the metadata accesses of an operation.

use super::types::{Block, Touched};

/// Records accesses, converted from block numbers of the file system to those of the device.
pub(super) struct Recorder<'a> {
    touched: &'a mut Touched,
    /// First block of the file system on the device.
    start: Block,
}

impl<'a> Recorder<'a> {
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

    /// Records a change without a read, of a new block.
    pub(super) fn fresh(&mut self, at: u32) {
        let block = self.on_device(at);
        if !self.touched.dirties.contains(&block) {
            self.touched.dirties.push(block);
        }
    }

    /// Records a read and a change.
    pub(super) fn change(&mut self, at: u32) {
        let block = self.on_device(at);
        if !self.touched.dirties.contains(&block) {
            self.read(at);
            self.touched.dirties.push(block);
        }
    }

    /// Records that a block was freed.
    pub(super) fn forget(&mut self, at: u32) {
        let block = self.on_device(at);
        self.touched.dirties.retain(|&dirty| dirty != block);
        self.touched.forgets.push(block);
    }
}
