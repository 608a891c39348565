//! A disk in memory, for measurements of the path to a disk, and a disk that stores nothing.

use std::collections::VecDeque;

use elevator::queue::{Barriers, Cache};
use elevator::{Op, SECTOR_BYTES, Sector, Time};

use super::{Backend, Done, Extent, Geometry, Job, Payload};
use crate::buffer::{Buffer, Chunk};

/// Memory is allocated in chunks of this size at the first write: large enough that few requests cross a boundary,
/// small enough that a sparse file system stays sparse.
const CHUNK: usize = 128 << 10;

/// Reads of at least this length borrow the disk's memory. Shorter reads are copied, which costs less than a reference to a
/// chunk.
const LENT: usize = 4096;

/// A disk in memory. Sectors that were never written read as zeroes and use no memory.
pub struct Memory {
    capacity: Sector,
    depth: u32,
    chunks: Vec<Option<Chunk>>,
    done: VecDeque<Job>,
}

impl Memory {
    /// Maximum size, at which the table of chunks alone takes a gigabyte.
    pub const MOST: u64 = 16 << 40;

    /// A disk of `bytes`, rounded down to sectors.
    pub fn new(bytes: u64, depth: u32) -> Self {
        let mut chunks = Vec::new();
        chunks.resize_with(bytes.div_ceil(CHUNK as u64) as usize, || None);
        Self { capacity: Sector(bytes / SECTOR_BYTES), depth: depth.max(1), chunks, done: VecDeque::new() }
    }

    fn read(&self, mut offset: usize, buffer: &mut Buffer) {
        let within = offset % CHUNK;
        if buffer.len() >= LENT
            && within + buffer.len() <= CHUNK
            && let Some(chunk) = &self.chunks[offset / CHUNK]
            && chunk.lends(buffer.len())
        {
            return chunk.lend(within, buffer);
        }
        let mut to = &mut buffer[..];
        while !to.is_empty() {
            let within = offset % CHUNK;
            let (now, rest) = to.split_at_mut(to.len().min(CHUNK - within));
            match &self.chunks[offset / CHUNK] {
                Some(chunk) => now.copy_from_slice(&chunk.bytes()[within..within + now.len()]),
                None => now.fill(0),
            }
            offset += now.len();
            to = rest;
        }
    }

    fn write(&mut self, mut offset: usize, mut from: &[u8]) {
        while !from.is_empty() {
            let within = offset % CHUNK;
            let (now, rest) = from.split_at(from.len().min(CHUNK - within));
            let chunk = self.chunks[offset / CHUNK].get_or_insert_with(|| Chunk::new(CHUNK));
            chunk.write(within, now);
            offset += now.len();
            from = rest;
        }
    }

    fn clear(&mut self, mut offset: usize, mut len: usize) {
        while len > 0 {
            let within = offset % CHUNK;
            let now = len.min(CHUNK - within);
            match &mut self.chunks[offset / CHUNK] {
                chunk if now == CHUNK => *chunk = None,
                Some(chunk) => chunk.bytes_mut()[within..within + now].fill(0),
                None => {}
            }
            offset += now;
            len -= now;
        }
    }

    fn serve(&mut self, job: &mut Job) {
        let mut offset = job.start.bytes() as usize;
        for piece in &mut job.pieces {
            let bytes = piece.sectors.bytes() as usize;
            match (job.op, &mut piece.payload) {
                (Op::Read, Payload::Data(buffer)) => self.read(offset, buffer),
                (Op::Write, Payload::Data(buffer)) => self.write(offset, buffer),
                (Op::Write, Payload::Zeroes) | (Op::Discard, _) => self.clear(offset, bytes),
                _ => {}
            }
            offset += bytes;
        }
    }
}

/// The geometry of a disk whose operations complete at once.
const fn in_memory(capacity: Sector, depth: u32) -> Geometry {
    Geometry {
        capacity,
        block_bytes: 512,
        depth,
        rotational: false,
        read_only: false,
        discards: true,
        cache: Cache::WriteThrough,
        barriers: Barriers::Completed,
    }
}

impl Backend for Memory {
    fn geometry(&self) -> Geometry {
        in_memory(self.capacity, self.depth)
    }

    fn start(&mut self, _now: Time, mut job: Job) {
        self.serve(&mut job);
        self.done.push_back(job);
    }

    fn poll(&mut self, now: Time) -> Option<Done> {
        self.done.pop_front().map(|job| Done { job, at: now, result: Ok(()) })
    }

    fn extent(&mut self, offset: u64, most: u64) -> Extent {
        let holds = |chunks: &[Option<Chunk>], at: u64| chunks[at as usize / CHUNK].is_some();
        let data = holds(&self.chunks, offset);
        let mut end = offset;
        while end < offset + most && holds(&self.chunks, end) == data {
            end = (end / CHUNK as u64 + 1) * CHUNK as u64;
        }
        Extent { bytes: end.min(offset + most) - offset, data }
    }

    fn allocates(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

/// A disk that stores nothing: writes are discarded, and reads return zeroes. For workloads of which only the time matters.
pub struct Nothing {
    capacity: Sector,
    depth: u32,
    done: VecDeque<Job>,
}

impl Nothing {
    /// A disk of `bytes`, rounded down to sectors.
    pub fn new(bytes: u64, depth: u32) -> Self {
        Self { capacity: Sector(bytes / SECTOR_BYTES), depth: depth.max(1), done: VecDeque::new() }
    }
}

impl Backend for Nothing {
    fn geometry(&self) -> Geometry {
        in_memory(self.capacity, self.depth)
    }

    fn start(&mut self, _now: Time, mut job: Job) {
        if job.op == Op::Read {
            for piece in &mut job.pieces {
                if let Payload::Data(buffer) = &mut piece.payload {
                    buffer.fill(0);
                }
            }
        }
        self.done.push_back(job);
    }

    fn poll(&mut self, now: Time) -> Option<Done> {
        self.done.pop_front().map(|job| Done { job, at: now, result: Ok(()) })
    }

    fn extent(&mut self, _offset: u64, most: u64) -> Extent {
        Extent { bytes: most, data: false }
    }

    fn describe(&self) -> String {
        format!("{} bytes without storage: writes are discarded, reads return zeroes", self.capacity.bytes())
    }
}
