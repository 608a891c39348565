//! Aligned memory for data on its way, pooled so that the steady state allocates nothing; and memory that holds data for
//! good, which is lent to what is on its way rather than copied.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// What direct I/O asks of addresses, on every device that we know.
pub const ALIGNMENT: usize = 4096;

/// The largest buffer; whoever has more to move splits it.
pub const LARGEST: usize = 1 << 20;

/// Size classes: 4 KiB to [`LARGEST`], each twice the one before.
const CLASSES: usize = (LARGEST / ALIGNMENT).ilog2() as usize + 1;

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; ALIGNMENT]);

type Pages = Box<[Page]>;

fn allocate(bytes: usize) -> Pages {
    vec![Page([0; ALIGNMENT]); bytes / ALIGNMENT].into_boxed_slice()
}

fn bytes(pages: &Pages) -> &[u8] {
    // SAFETY: `Page` is an array of bytes without padding, as its size is its alignment.
    unsafe { std::slice::from_raw_parts(pages.as_ptr().cast(), pages.len() * ALIGNMENT) }
}

fn bytes_mut(pages: &mut Pages) -> &mut [u8] {
    // SAFETY: as above; the pages are borrowed mutably.
    unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), pages.len() * ALIGNMENT) }
}

/// Memory for one part of a request: page-aligned, as long as was asked for.
pub struct Buffer {
    pages: Pages,
    len: usize,
    /// What is to be seen instead of its own memory.
    lent: Option<Lent>,
}

/// The data of a chunk, from `offset` on.
struct Lent {
    from: Arc<Pages>,
    offset: usize,
}

impl Buffer {
    /// What of the process's memory it holds, which is at least its length.
    #[must_use]
    pub fn footprint(&self) -> usize {
        self.pages.len() * ALIGNMENT
    }

    /// Copies what it was lent, if it was, to its own memory.
    pub fn own(&mut self) {
        let _ = &mut **self;
    }

    /// Makes it `len` bytes long, at most its footprint, and no longer than what it was lent.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(if self.lent.is_some() { self.len } else { self.footprint() });
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.lent {
            None => &bytes(&self.pages)[..self.len],
            Some(lent) => &bytes(&lent.from)[lent.offset..lent.offset + self.len],
        }
    }
}

impl DerefMut for Buffer {
    /// Its own memory: what was lent is copied there first, and given back.
    fn deref_mut(&mut self) -> &mut [u8] {
        let own = &mut bytes_mut(&mut self.pages)[..self.len];
        if let Some(lent) = self.lent.take() {
            own.copy_from_slice(&bytes(&lent.from)[lent.offset..lent.offset + self.len]);
        }
        own
    }
}

/// Memory that holds data for good, zeroes at first. Whoever was lent some of it sees what it was then, whatever is
/// written afterwards.
pub struct Chunk(Arc<Pages>);

impl Chunk {
    /// One of that many bytes, rounded down to pages.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(allocate(bytes)))
    }

    /// Lends what lies at `offset` to a buffer, as much as that is long; it must be there.
    pub fn lend(&self, offset: usize, to: &mut Buffer) {
        debug_assert!(offset + to.len <= self.0.len() * ALIGNMENT, "{offset} and what is behind it");
        to.lent = Some(Lent { from: self.0.clone(), offset });
    }

    /// What it holds.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytes(&self.0)
    }

    /// The same, to be written. Copied first if some of it is lent.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytes_mut(Arc::make_mut(&mut self.0))
    }

    /// Takes all data of a buffer of its own size, which gets other memory with arbitrary contents; whether it could.
    pub fn exchange(&mut self, with: &mut Buffer) -> bool {
        if with.len != self.0.len() * ALIGNMENT || with.pages.len() != self.0.len() || with.lent.is_some() {
            return false;
        }
        match Arc::get_mut(&mut self.0) {
            Some(own) => mem::swap(own, &mut with.pages),
            None => {
                let fresh = allocate(with.len);
                self.0 = Arc::new(mem::replace(&mut with.pages, fresh));
            }
        }
        true
    }
}

/// Memory for `bytes`, in the pool's steps.
#[must_use]
pub fn footprint(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(ALIGNMENT).next_power_of_two()
}

/// Free buffers by size. Last returned, first taken, so that a short queue stays in the processor's cache.
pub struct Pool {
    free: [Vec<Box<[Page]>>; CLASSES],
    kept: usize,
    keep: usize,
}

impl Pool {
    /// A pool that keeps up to `keep` bytes of free buffers.
    #[must_use]
    pub fn new(keep: usize) -> Self {
        Self { free: Default::default(), kept: 0, keep }
    }

    /// A buffer of `len` bytes, at most `LARGEST`. What it holds is arbitrary.
    #[must_use]
    pub fn take(&mut self, len: usize) -> Buffer {
        let len = len.min(LARGEST);
        let bytes = footprint(len);
        let pages = match self.free[class(bytes)].pop() {
            Some(pages) => {
                self.kept -= bytes;
                pages
            }
            None => allocate(bytes),
        };
        Buffer { pages, len, lent: None }
    }

    /// Gives a buffer back.
    pub fn put(&mut self, buffer: Buffer) {
        let bytes = buffer.footprint();
        if self.kept + bytes <= self.keep {
            self.kept += bytes;
            self.free[class(bytes)].push(buffer.pages);
        }
    }
}

fn class(bytes: usize) -> usize {
    (bytes / ALIGNMENT).ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_as_long_as_asked_and_come_back() {
        let mut pool = Pool::new(1 << 20);
        for len in [1, 512, 4096, 4097, 131_072, LARGEST] {
            let mut buffer = pool.take(len);
            assert_eq!((buffer.len(), buffer.as_ptr() as usize % ALIGNMENT), (len, 0));
            buffer.fill(7);
            let address = buffer.as_ptr();
            pool.put(buffer);
            assert_eq!(pool.take(len).as_ptr(), address, "the one just returned, {len} bytes");
        }
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
    fn a_chunk_takes_a_buffer_of_its_size() {
        let mut pool = Pool::new(1 << 20);
        let mut chunk = Chunk::new(8192);
        let mut seen = pool.take(4096);
        chunk.lend(0, &mut seen);
        for round in 1..4 {
            let mut buffer = pool.take(8192);
            buffer.fill(round);
            let address = buffer.as_ptr();
            assert!(chunk.exchange(&mut buffer));
            assert_eq!((chunk.bytes().as_ptr(), chunk.bytes()[8191]), (address, round), "taken, not copied");
            assert_eq!((buffer.len(), buffer.footprint()), (8192, 8192));
            pool.put(buffer);
        }
        assert!(seen.iter().all(|&byte| byte == 0), "what was lent before");
        for len in [4096, 8000] {
            assert!(!chunk.exchange(&mut pool.take(len)), "{len} bytes are not all of it");
        }
    }

    #[test]
    fn the_pool_keeps_no_more_than_it_may() {
        let mut pool = Pool::new(8192);
        let buffers: Vec<Buffer> = (0..4).map(|_| pool.take(4096)).collect();
        buffers.into_iter().for_each(|buffer| pool.put(buffer));
        assert_eq!(pool.kept, 8192);
    }
}
