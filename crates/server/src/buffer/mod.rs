//! Aligned memory for data of requests, pooled so that the steady state does not allocate; and memory of disks,
//! which requests borrow instead of copying it (`chunk`).

mod chunk;
mod pages;
mod streaming;

use std::ops::{Deref, DerefMut};

pub use self::chunk::{Chunk, Lent, Shown};
pub use self::pages::ALIGNMENT;
use self::pages::{Page, Pages, allocate, bytes, bytes_mut, try_allocate};

/// The largest buffer; longer transfers are split.
pub const LARGEST: usize = 1 << 20;

/// Size classes: 4 KiB to [`LARGEST`] in powers of two.
const CLASSES: usize = (LARGEST / ALIGNMENT).ilog2() as usize + 1;

/// Page-aligned memory for one part of a request.
pub struct Buffer {
    pages: Pages,
    len: usize,
    /// Borrowed memory that replaces its own.
    lent: Option<Lent>,
}

impl Buffer {
    /// Memory that it allocates, at least its length.
    pub fn footprint(&self) -> usize {
        self.pages.len() * ALIGNMENT
    }

    /// Copies borrowed data, if any, to its own memory.
    pub fn own(&mut self) {
        let _ = &mut **self;
    }

    /// The borrowed data, if any.
    pub const fn lent(&self) -> Option<&Lent> {
        self.lent.as_ref()
    }

    /// Sets its length to `len`, at most its footprint and the length of borrowed data.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(if self.lent.is_some() { self.len } else { self.footprint() });
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.lent {
            None => &bytes(&self.pages)[..self.len],
            Some(lent) => &lent[..self.len],
        }
    }
}

impl DerefMut for Buffer {
    /// Its own memory. Borrowed data is first copied there and released.
    fn deref_mut(&mut self) -> &mut [u8] {
        let own = &mut bytes_mut(&mut self.pages)[..self.len];
        if let Some(lent) = self.lent.take() {
            own.copy_from_slice(&lent[..self.len]);
        }
        own
    }
}

/// Allocated memory for `bytes`, in the pool's size classes.
pub fn footprint(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(ALIGNMENT).next_power_of_two()
}

/// Free buffers by size, last in, first out, so that the memory of a short queue stays in the processor's cache.
pub struct Pool {
    free: [Vec<Box<[Page]>>; CLASSES],
    kept: usize,
    keep: usize,
    /// Whether a client's request for so many bytes is refused, as if there were no memory: for the simulation.
    refuses: Option<Box<dyn FnMut(usize) -> bool>>,
}

impl Pool {
    /// A pool that keeps up to `keep` bytes of free buffers.
    pub fn new(keep: usize) -> Self {
        Self { free: Default::default(), kept: 0, keep, refuses: None }
    }

    /// A buffer of `len` bytes, at most `LARGEST`, with arbitrary content.
    #[must_use]
    pub fn take(&mut self, len: usize) -> Buffer {
        let len = len.min(LARGEST);
        let bytes = footprint(len);
        let pages = self.kept_pages(bytes).unwrap_or_else(|| allocate(bytes));
        Buffer { pages, len, lent: None }
    }

    /// As [`take`](Self::take), for a client that can be refused; `None` if there is no memory.
    #[must_use]
    pub fn try_take(&mut self, len: usize) -> Option<Buffer> {
        let len = len.min(LARGEST);
        let bytes = footprint(len);
        if self.is_refused(bytes) {
            return None;
        }
        let pages = match self.kept_pages(bytes) {
            Some(pages) => pages,
            None => try_allocate(bytes)?,
        };
        Some(Buffer { pages, len, lent: None })
    }

    /// Zeroed memory for a client, which the pool does not keep; `None` if there is none.
    #[must_use]
    pub fn try_bytes(&mut self, len: usize) -> Option<Box<[u8]>> {
        let mut memory = Vec::new();
        if self.is_refused(len) || memory.try_reserve_exact(len).is_err() {
            return None;
        }
        memory.resize(len, 0);
        Some(memory.into_boxed_slice())
    }

    /// Refuses clients memory whenever `refuses` returns true for the number of bytes.
    pub fn refuse(&mut self, refuses: impl FnMut(usize) -> bool + 'static) {
        self.refuses = Some(Box::new(refuses));
    }

    fn is_refused(&mut self, bytes: usize) -> bool {
        self.refuses.as_mut().is_some_and(|refuses| refuses(bytes))
    }

    /// Pages of a buffer of that size that was returned. Without one, others are freed for a new one.
    fn kept_pages(&mut self, bytes: usize) -> Option<Pages> {
        let pages = self.free[class(bytes)].pop();
        match &pages {
            Some(_) => self.kept -= bytes,
            None => self.give_up(bytes),
        }
        pages
    }

    /// Frees buffers of other sizes for a new one of `bytes`, so that the pool and its users together
    /// never use more memory than the users' maximum.
    fn give_up(&mut self, bytes: usize) {
        let mut freed = 0;
        for (class, free) in self.free.iter_mut().enumerate() {
            while freed < bytes && free.pop().is_some() {
                freed += ALIGNMENT << class;
            }
        }
        self.kept -= freed;
    }

    /// Returns a buffer to the pool.
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
    fn buffers_are_aligned_have_the_requested_length_and_are_reused() {
        let mut pool = Pool::new(1 << 20);
        for len in [1, 512, 4096, 4097, 131_072, LARGEST] {
            let mut buffer = pool.take(len);
            assert_eq!((buffer.len(), buffer.as_ptr() as usize % ALIGNMENT), (len, 0));
            buffer.fill(7);
            let address = buffer.as_ptr();
            pool.put(buffer);
            assert_eq!(pool.take(len).as_ptr(), address, "the buffer that was returned last, {len} bytes");
        }
    }

    #[test]
    fn a_buffer_of_another_size_replaces_free_ones() {
        let mut pool = Pool::new(1 << 20);
        let buffers: Vec<Buffer> = (0..8).map(|_| pool.take(4096)).collect();
        buffers.into_iter().for_each(|buffer| pool.put(buffer));
        let larger = pool.take(16384);
        assert_eq!(pool.kept, 4 * 4096);
        pool.put(larger);
        let _ = pool.take(LARGEST);
        assert_eq!(pool.kept, 0);
    }

    #[test]
    fn a_client_is_refused_memory_and_others_get_it_later() {
        let mut pool = Pool::new(1 << 20);
        let mut times = 0;
        pool.refuse(move |_| {
            times += 1;
            times < 3
        });
        assert!(pool.try_take(4096).is_none() && pool.try_bytes(512).is_none());
        assert_eq!(pool.try_take(4096).map(|buffer| buffer.len()), Some(4096));
        assert!(try_allocate(usize::MAX / 2).is_none(), "more than there is");
    }

    #[test]
    fn the_pool_keeps_at_most_its_limit() {
        let mut pool = Pool::new(8192);
        let buffers: Vec<Buffer> = (0..4).map(|_| pool.take(4096)).collect();
        buffers.into_iter().for_each(|buffer| pool.put(buffer));
        assert_eq!(pool.kept, 8192);
    }
}
