//! A process's open files.

use super::cache::ReadAheadState;
use super::calls::{Descriptor, Errno, Open};
use super::fs::Inode;

/// An open file.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    pub(super) inode: Inode,
    pub(super) how: Open,
    /// Where the next read or write goes, in bytes.
    pub(super) position: u64,
    pub(super) ahead: ReadAheadState,
    /// The page that was read last: reading a page in several pieces is one use of it.
    pub(super) last_page: Option<u64>,
    pub(super) wrote: bool,
}

/// Open files by number; the lowest free number is given out.
#[derive(Default, Debug)]
pub(super) struct Descriptors {
    open: Vec<Option<OpenFile>>,
}

impl Descriptors {
    pub(super) fn open(&mut self, inode: Inode, how: Open) -> Descriptor {
        let file = OpenFile {
            inode,
            how,
            position: 0,
            ahead: ReadAheadState::default(),
            last_page: None,
            wrote: false,
        };
        let free = self.open.iter().position(Option::is_none).unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[free] = Some(file);
        Descriptor(free as u32)
    }

    pub(super) fn get(&mut self, Descriptor(number): Descriptor) -> Result<&mut OpenFile, Errno> {
        self.open.get_mut(number as usize).and_then(Option::as_mut).ok_or(Errno::BadDescriptor)
    }

    pub(super) fn close(&mut self, Descriptor(number): Descriptor) -> Result<OpenFile, Errno> {
        self.open.get_mut(number as usize).and_then(Option::take).ok_or(Errno::BadDescriptor)
    }

    /// The lowest that is open.
    pub(super) fn first(&self) -> Option<Descriptor> {
        self.open.iter().position(Option::is_some).map(|number| Descriptor(number as u32))
    }
}
