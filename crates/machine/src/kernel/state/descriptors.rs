//! File descriptors.

use crate::kernel::cache::ReadAheadState;
use crate::kernel::calls::{Descriptor, Errno, Open};
use crate::kernel::fs::Inode;

#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct OpenFile {
    pub(in crate::kernel) inode: Inode,
    pub(in crate::kernel) how: Open,
    /// The file position in bytes.
    pub(in crate::kernel) position: u64,
    pub(in crate::kernel) ahead: ReadAheadState,
    /// The page read last. Reading a page in several parts counts as one use.
    pub(in crate::kernel) last_page: Option<u64>,
    pub(in crate::kernel) wrote: bool,
}

/// Open files by number.
#[derive(Default, Debug)]
pub(in crate::kernel) struct Descriptors {
    open: Vec<Option<OpenFile>>,
}

impl Descriptors {
    pub(in crate::kernel) fn open(&mut self, inode: Inode, how: Open) -> Descriptor {
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

    pub(in crate::kernel) fn get(&mut self, Descriptor(number): Descriptor) -> Result<&mut OpenFile, Errno> {
        self.open.get_mut(number as usize).and_then(Option::as_mut).ok_or(Errno::BadDescriptor)
    }

    pub(in crate::kernel) fn close(&mut self, Descriptor(number): Descriptor) -> Result<OpenFile, Errno> {
        self.open.get_mut(number as usize).and_then(Option::take).ok_or(Errno::BadDescriptor)
    }

    /// The lowest open descriptor.
    pub(in crate::kernel) fn first(&self) -> Option<Descriptor> {
        self.open.iter().position(Option::is_some).map(|number| Descriptor(number as u32))
    }
}
