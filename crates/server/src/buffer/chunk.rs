//! Memory of a disk. Replies borrow it, and sockets get references to its pages, instead of copies.
//!
//! A borrowed part keeps its content: while a reference exists, a write goes to a copy. That also holds for pages in a
//! socket while their state is known ([`Shown`]). If it can never be known whether they were read, the next write abandons the pages.
//!
//! The kernel may keep pages beyond that: a reader that passes them on without a copy (`splice`) has removed them from the
//! socket and still refers to them. Such memory is therefore never used for anything but this chunk's data: it does
//! not become a buffer, and its pages are returned to the system before it is freed.

use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::mm::{Advice, madvise};

use super::pages::{ALIGNMENT, Pages, allocate, bytes, bytes_mut};
use super::{Buffer, streaming};

/// Data of at least this length is written without the processor's caches. Shorter data gains less, and is read again sooner.
const STREAMED: usize = 16 << 10;

/// A chunk's memory, and the state of references from outside this process.
struct Memory {
    pages: Pages,
    /// The kernel has got references to some of its pages.
    shown: AtomicBool,
    /// Some of its pages are in a socket, and it cannot be known when they are read.
    lost: AtomicBool,
    /// Bytes that reads copy before parts are borrowed again.
    contested: AtomicUsize,
}

impl Memory {
    fn new(pages: Pages) -> Self {
        let (shown, lost) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { pages, shown, lost, contested: AtomicUsize::new(0) }
    }

    /// A copy of the data, for a write while a reference exists.
    fn copy(&self) -> Self {
        let copy = Self::new(self.pages.clone());
        copy.contested.store(self.pages.len() * ALIGNMENT, Ordering::Relaxed);
        copy
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !*self.shown.get_mut() {
            return;
        }
        let len = self.pages.len() * ALIGNMENT;
        // SAFETY: the memory has no other owner and no reader; it stays mapped and reads as zeroes.
        let advised = unsafe { madvise(self.pages.as_mut_ptr().cast(), len, Advice::LinuxDontNeed) };
        if advised.is_err() {
            mem::forget(mem::take(&mut self.pages));
        }
    }
}

/// Memory of a disk, initially zeroes.
pub struct Chunk(Arc<Memory>);

impl Chunk {
    /// A chunk of `bytes`, rounded down to pages.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Memory::new(allocate(bytes))))
    }

    /// Whether a read of `bytes` borrows memory instead of copying it. After a write that had to copy the chunk because of a borrowed part,
    /// reads copy the same number of bytes: if reads and writes access the same positions, that is much less than copies of chunks. Reads of a
    /// whole chunk always borrow.
    pub fn lends(&self, bytes: usize) -> bool {
        let contested = self.0.contested.load(Ordering::Relaxed);
        let lends = contested <= bytes;
        if !lends {
            self.0.contested.store(contested - bytes, Ordering::Relaxed);
        }
        lends
    }

    /// Lends the data at `offset` to a buffer, in the buffer's length; the range must be inside the chunk.
    pub fn lend(&self, offset: usize, to: &mut Buffer) {
        debug_assert!(offset + to.len <= self.0.pages.len() * ALIGNMENT, "{offset} and what is behind it");
        to.lent = Some(Lent { from: self.0.clone(), offset, len: to.len });
    }

    /// Its content.
    pub fn bytes(&self) -> &[u8] {
        bytes(&self.0.pages)
    }

    /// Its content for writing. Copied first if a reference exists.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.0.lost.load(Ordering::Relaxed) || Arc::get_mut(&mut self.0).is_none() {
            self.0 = Arc::new(self.0.copy());
        }
        let own = Arc::get_mut(&mut self.0).expect("without references, or created above");
        bytes_mut(&mut own.pages)
    }

    /// Writes `data` at `offset`; the range must be inside the chunk.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        let to = &mut self.bytes_mut()[offset..offset + data.len()];
        if data.len() >= STREAMED {
            streaming::copy(to, data);
        } else {
            to.copy_from_slice(data);
        }
    }
}

/// A borrowed part of a chunk, with its content at the time of the loan.
pub struct Lent {
    from: Arc<Memory>,
    offset: usize,
    pub(super) len: usize,
}

impl Lent {
    /// Records that the kernel is about to get references to its pages instead of a copy.
    pub fn show(&self) -> Shown {
        self.from.shown.store(true, Ordering::Relaxed);
        Shown(Some(Self { from: self.from.clone(), offset: self.offset, len: self.len }))
    }
}

impl Deref for Lent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytes(&self.from.pages)[self.offset..self.offset + self.len]
    }
}

/// Data whose pages the kernel refers to. If it is dropped without a call of [`read`](Self::read), it counts as unread for ever.
pub struct Shown(Option<Lent>);

impl Shown {
    /// All readers of the pages are done.
    pub fn read(mut self) {
        self.0 = None;
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(lent) = &self.0 {
            lent.from.lost.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Pool;

    /// Shows a whole chunk of 8 KiB to the kernel.
    fn show(chunk: &Chunk) -> Shown {
        let mut buffer = Pool::new(0).take(8192);
        chunk.lend(0, &mut buffer);
        buffer.lent().expect("it was lent").show()
    }

    #[test]
    fn lent_data_does_not_change() {
        let mut pool = Pool::new(1 << 20);
        let mut chunk = Chunk::new(8192);
        chunk.bytes_mut()[4096..].fill(1);
        let (mut first, mut second) = (pool.take(512), pool.take(4096));
        chunk.lend(7680, &mut first);
        chunk.lend(4096, &mut second);
        assert_eq!(first.as_ptr(), chunk.bytes()[7680..].as_ptr(), "not copied");
        chunk.bytes_mut().fill(2);
        assert!(first.iter().chain(second.iter()).all(|&byte| byte == 1));
        second.own();
        second[0] = 3;
        assert_eq!((second[0], second[1]), (3, 1), "a copy, with the content at the time of the loan");
        assert!(chunk.bytes().iter().all(|&byte| byte == 2));
        first.set_len(4096);
        assert_eq!(first.len(), 512, "the buffer's length");
    }

    #[test]
    fn after_a_copy_for_a_write_reads_copy_as_much_before_they_borrow_again() {
        let mut chunk = Chunk::new(8192);
        let mut seen = Pool::new(0).take(512);
        chunk.write(0, &[1; 512]);
        assert!(chunk.lends(512), "no write had to copy the chunk");
        chunk.lend(0, &mut seen);
        chunk.write(0, &[2; 512]);
        assert!(chunk.lends(8192), "a whole chunk");
        let copied = (0..20).take_while(|_| !chunk.lends(512)).count();
        assert_eq!(copied, 8192 / 512 - 1);
        assert!(chunk.lends(512));
    }

    #[test]
    fn a_write_changes_its_range_only_and_no_lent_data() {
        const ALL: usize = 2 * STREAMED;
        let mut chunk = Chunk::new(ALL);
        for (round, (offset, len)) in (1..).zip([(512, 512), (1024, STREAMED), (0, ALL)]) {
            let before = chunk.bytes().to_vec();
            let mut seen = Pool::new(0).take(ALL);
            chunk.lend(0, &mut seen);
            chunk.write(offset, &vec![round; len]);
            assert!(*seen == *before, "lent before");
            let (now, end) = (chunk.bytes(), offset + len);
            assert!(now[offset..end].iter().all(|&byte| byte == round), "{len} bytes at {offset}");
            assert!(
                now[..offset] == before[..offset] && now[end..] == before[end..],
                "{len} bytes at {offset}"
            );
        }
    }

    #[test]
    fn shown_pages_are_reused_after_they_were_read_and_abandoned_if_unknown() {
        let mut chunk = Chunk::new(8192);
        let address = chunk.bytes().as_ptr();
        let shown = show(&chunk);
        chunk.bytes_mut().fill(1);
        assert_ne!(chunk.bytes().as_ptr(), address, "a reader may still use the pages");
        shown.read();
        let address = chunk.bytes().as_ptr();
        show(&chunk).read();
        chunk.bytes_mut().fill(2);
        assert_eq!(chunk.bytes().as_ptr(), address, "all readers are done, so the pages are reused");
        drop(show(&chunk));
        chunk.bytes_mut().fill(3);
        assert_ne!(chunk.bytes().as_ptr(), address, "it is unknown whether the pages were read");
        drop(show(&chunk));
        let behind = chunk.0.clone();
        chunk.bytes_mut().fill(4);
        assert_eq!(chunk.bytes(), [4; 8192]);
        assert_eq!(bytes(&behind.pages), [3; 8192], "abandoned with its content");
    }

    /// A client that is gone may still read what the server has sent, while the server uses the memory for something else.
    #[test]
    fn pages_that_the_kernel_refers_to_keep_their_content_when_their_memory_is_freed() {
        use std::io::Read;

        use rustix::pipe::{IoSliceRaw, SpliceFlags, pipe, vmsplice};
        let mut chunk = Chunk::new(8192);
        chunk.bytes_mut().fill(1);
        let shown = show(&chunk);
        let (from, to) = pipe().unwrap();
        let pages = [IoSliceRaw::from_slice(chunk.bytes())];
        // SAFETY: the memory is not written until it is freed, which detaches the pages.
        assert_eq!(unsafe { vmsplice(&to, &pages, SpliceFlags::empty()) }, Ok(8192));
        drop((shown, chunk));
        let mut others: Vec<Chunk> = (0..100).map(|_| Chunk::new(8192)).collect();
        others.iter_mut().for_each(|other| other.bytes_mut().fill(2));
        let mut data = [0; 8192];
        std::fs::File::from(from).read_exact(&mut data).unwrap();
        assert_eq!(data, [1; 8192]);
    }
}
