//! Memory that holds data for good: lent to what is on its way, and shown to the system's sockets, rather than copied.
//!
//! Whoever was lent some of a chunk sees what it was then, whatever is written afterwards: while somebody has it, a write
//! goes to a copy. That holds for pages in a socket too, as long as somebody knows that they are there
//! ([`Shown`]); if nobody will ever know that they were read, the chunk leaves them behind at the next write.
//!
//! What the system was shown it may keep beyond that: a reader that passes the pages on without copying them (`splice`)
//! has taken them out of the socket and still has them. So such memory never holds anything but this chunk's data: it does
//! not become a buffer's, and its pages are given back to the system before it is freed.

use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::mm::{Advice, madvise};

use super::pages::{ALIGNMENT, Pages, allocate, bytes, bytes_mut};
use super::{Buffer, streaming};

/// Data from this length on is written past the processor's caches. What is shorter gains less by it, and is sooner read again.
const STREAMED: usize = 16 << 10;

/// A chunk's memory, and who may see it beside this process.
struct Memory {
    pages: Pages,
    /// The system was shown some of it.
    shown: AtomicBool,
    /// Some of it is in a socket, and nobody will know when it has been read.
    lost: AtomicBool,
    /// Bytes that reads shall copy before any is lent again.
    contested: AtomicUsize,
}

impl Memory {
    fn new(pages: Pages) -> Self {
        let (shown, lost) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { pages, shown, lost, contested: AtomicUsize::new(0) }
    }

    /// The same data, of which somebody had some when it was to be written over.
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
        // SAFETY: the memory is ours alone and nobody reads it any more; it stays mapped, and reads as zeroes.
        let advised = unsafe { madvise(self.pages.as_mut_ptr().cast(), len, Advice::LinuxDontNeed) };
        if advised.is_err() {
            mem::forget(mem::take(&mut self.pages));
        }
    }
}

/// Memory that holds data for good, zeroes at first.
pub struct Chunk(Arc<Memory>);

impl Chunk {
    /// One of that many bytes, rounded down to pages.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Memory::new(allocate(bytes))))
    }

    /// Whether a read of so many bytes shall be lent them rather than copy them. A write that had to copy the chunk because some of it
    /// was lent makes reads copy as much: where both go to the same places that is far less. All of a chunk is always lent.
    #[must_use]
    pub fn lends(&self, bytes: usize) -> bool {
        let contested = self.0.contested.load(Ordering::Relaxed);
        let lends = contested <= bytes;
        if !lends {
            self.0.contested.store(contested - bytes, Ordering::Relaxed);
        }
        lends
    }

    /// Lends what lies at `offset` to a buffer, as much as that is long; it must be there.
    pub fn lend(&self, offset: usize, to: &mut Buffer) {
        debug_assert!(offset + to.len <= self.0.pages.len() * ALIGNMENT, "{offset} and what is behind it");
        to.lent = Some(Lent { from: self.0.clone(), offset, len: to.len });
    }

    /// What it holds.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytes(&self.0.pages)
    }

    /// The same, to be written. Copied first if somebody else sees some of it.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.0.lost.load(Ordering::Relaxed) || Arc::get_mut(&mut self.0).is_none() {
            self.0 = Arc::new(self.0.copy());
        }
        let own = Arc::get_mut(&mut self.0).expect("nobody else has it, or it was made here");
        bytes_mut(&mut own.pages)
    }

    /// Writes `data` at `offset`, where there must be room for it.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        let to = &mut self.bytes_mut()[offset..offset + data.len()];
        if data.len() >= STREAMED {
            streaming::copy(to, data);
        } else {
            to.copy_from_slice(data);
        }
    }
}

/// Some of a chunk's data, as it was when it was lent.
pub struct Lent {
    from: Arc<Memory>,
    offset: usize,
    pub(super) len: usize,
}

impl Lent {
    /// Says that the system is about to be shown it: its pages instead of a copy.
    #[must_use]
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

/// Data of which the system has been shown the pages. Dropped before it was [`read`](Self::read), it counts as still to be.
pub struct Shown(Option<Lent>);

impl Shown {
    /// Nobody is going to read it from those pages any more.
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

    /// All of a chunk of 8 KiB, shown.
    fn show(chunk: &Chunk) -> Shown {
        let mut buffer = Pool::new(0).take(8192);
        chunk.lend(0, &mut buffer);
        buffer.lent().expect("it was lent").show()
    }

    #[test]
    fn what_was_lent_stays_as_it_was() {
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
        assert_eq!((second[0], second[1]), (3, 1), "its own now, with what it was lent");
        assert!(chunk.bytes().iter().all(|&byte| byte == 2));
        first.set_len(4096);
        assert_eq!(first.len(), 512, "there is no more");
    }

    #[test]
    fn reads_copy_as_much_as_a_write_had_to_because_of_one_and_then_are_lent_again() {
        let mut chunk = Chunk::new(8192);
        let mut seen = Pool::new(0).take(512);
        chunk.write(0, &[1; 512]);
        assert!(chunk.lends(512), "nobody had to copy it");
        chunk.lend(0, &mut seen);
        chunk.write(0, &[2; 512]);
        assert!(chunk.lends(8192), "all of it");
        let copied = (0..20).take_while(|_| !chunk.lends(512)).count();
        assert_eq!(copied, 8192 / 512 - 1);
        assert!(chunk.lends(512));
    }

    #[test]
    fn a_write_covers_what_it_is_for_and_nothing_that_was_lent() {
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
    fn what_was_shown_is_written_again_once_it_was_read_and_left_behind_if_nobody_knows() {
        let mut chunk = Chunk::new(8192);
        let address = chunk.bytes().as_ptr();
        let shown = show(&chunk);
        chunk.bytes_mut().fill(1);
        assert_ne!(chunk.bytes().as_ptr(), address, "somebody may still read it");
        shown.read();
        let address = chunk.bytes().as_ptr();
        show(&chunk).read();
        chunk.bytes_mut().fill(2);
        assert_eq!(chunk.bytes().as_ptr(), address, "read: it may be written over");
        drop(show(&chunk));
        chunk.bytes_mut().fill(3);
        assert_ne!(chunk.bytes().as_ptr(), address, "nobody knows whether it was read");
        drop(show(&chunk));
        let behind = chunk.0.clone();
        chunk.bytes_mut().fill(4);
        assert_eq!(chunk.bytes(), [4; 8192]);
        assert_eq!(bytes(&behind.pages), [3; 8192], "left behind as it was");
    }
}
