//! chunk-reads: `find . -type f -exec cat '{}' ';'`, the cooperative paper's counterexample to anticipation.
//!
//! "every file read by different process": the disk serves short-lived processes that read nearby blocks, none of which lives
//! long enough for statistics. One `find` starts a `cat` for each file and waits for it. Any number of such instances run on
//! disjoint regions of the disk, and a process may stream through one large file meanwhile ("Streaming & Chunk Reads").
//!
//! The paper reads a Linux source tree without describing it. File sizes here follow a distribution like that of a tree of
//! 2004 (half below 5 KB, mean about 12 KB); files follow each other with small gaps, as ext3 lays out an unpacked directory.
//! Starting a process takes `fork`, about what fork, exec and the dynamic linker cost on a Pentium 4.

use elevator::Random;
use elevator::{Sector, Sectors, Span, tunables};
use machine::{Await, Io, Next, Program, Submitter};

use super::{GIB, KIB};
use crate::steps::program_of;
use crate::workload::Workload;

tunables! {
    pub struct ChunkReadsSettings {
        /// Trees read at the same time, each by its own `find`.
        instances: Count = 2, 1, 1000;
        /// Files in a tree.
        files: Count = 3000, 1, 1_000_000;
        /// Time to start a process.
        fork: Span = Span::from_millis(1), Span::ZERO, Span::from_secs(1);
        /// Bytes of a `cat`'s requests; the last one of a file is shorter.
        request_bytes: Count = 32 * KIB, 512, 1024 * KIB;
        /// Bytes from one tree to the next.
        apart_bytes: Count = 5 * GIB, 512, 64 * 1024 * GIB;
        /// Processes that stream through a large file, 64 KB at a time, until the trees are read.
        streams: Count = 0, 0, 16;
        /// Seed of the file sizes.
        seed: Count = 1, 0, u64::MAX;
    }
}

/// The benchmark with its settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChunkReads(pub ChunkReadsSettings);

/// First number of the short-lived processes; long-lived ones have smaller numbers.
const FIRST_CHILD: u32 = 1 << 20;
/// First number of the streams, after those of all instances.
const FIRST_STREAM: u32 = 1001;
/// Bytes of a streamed file: more than is read during a run.
const STREAM_BYTES: u64 = GIB;
const STREAM_REQUEST: u64 = 64 * KIB;

impl ChunkReads {
    /// The files of a tree: (first sector, length).
    fn files(&self, instance: u64) -> Vec<(Sector, Sectors)> {
        let mut random = Random::new(self.0.seed ^ instance.wrapping_mul(0x9e37_79b9));
        let mut at = instance * self.0.apart_bytes / 512;
        (0..self.0.files)
            .map(|_| {
                let blocks = file_blocks(&mut random);
                let file = (Sector(at), Sectors(8 * blocks as u32));
                at += 8 * (blocks + random.below(3));
                file
            })
            .collect()
    }

    fn find(&self, instance: u64) -> Box<dyn Program> {
        let ChunkReadsSettings { fork, request_bytes, files, .. } = self.0;
        let first_child = FIRST_CHILD + (instance * files) as u32;
        let name = format!("cats-{}", instance + 1);
        program_of(self.files(instance).into_iter().enumerate().flat_map(move |(n, (start, sectors))| {
            let who = Submitter::process(first_child + n as u32, name.clone());
            [Next::Think(fork), Next::Spawn(who, cat(start, sectors, request_bytes)), Next::AwaitChildren]
        }))
    }

    fn stream(&self, n: u64) -> Box<dyn Program> {
        let first = (self.0.instances + n) * self.0.apart_bytes / 512;
        let requests = STREAM_BYTES / STREAM_REQUEST;
        let sectors = Sectors::from_bytes(STREAM_REQUEST);
        program_of((0..requests).flat_map(move |i| {
            let start = Sector(first + i * u64::from(sectors.0));
            [Next::Submit(Io::read(start, sectors)), Next::Await(Await::All)]
        }))
    }
}

/// A short-lived process that reads a file sequentially.
fn cat(start: Sector, sectors: Sectors, request_bytes: u64) -> Box<dyn Program> {
    let step = Sectors::from_bytes(request_bytes).0;
    program_of((0..sectors.0.div_ceil(step)).flat_map(move |i| {
        let length = step.min(sectors.0 - i * step);
        [Next::Submit(Io::read(start + Sectors(i * step), Sectors(length))), Next::Await(Await::All)]
    }))
}

/// Blocks of 4 KB of a file: a power of two up to 32, each with 0.55 times the probability of the previous, reduced by up to
/// half.
fn file_blocks(random: &mut Random) -> u64 {
    let mut blocks = 1;
    while blocks < 32 && random.below(100) < 55 {
        blocks *= 2;
    }
    blocks / 2 + 1 + random.below(blocks / 2 + 1)
}

impl Workload for ChunkReads {
    fn describe(&self) -> String {
        let ChunkReadsSettings { instances, files, fork, streams, .. } = self.0;
        format!(
            "chunk-reads: {instances} trees of {files} files, a process per file (started in {fork}), {streams} streaming readers beside"
        )
    }

    fn end(&self) -> Sector {
        let tree = self.0.files * 64 * 8 + (self.0.instances - 1) * self.0.apart_bytes / 512;
        let streams = match self.0.streams {
            0 => 0,
            n => ((self.0.instances + n - 1) * self.0.apart_bytes + STREAM_BYTES) / 512,
        };
        Sector(tree.max(streams))
    }

    fn processes(&self) -> Vec<(Submitter, Box<dyn Program>)> {
        let finds = (0..self.0.instances)
            .map(|n| (Submitter::process(n as u32 + 1, format!("find-{}", n + 1)), self.find(n)));
        let streams = (0..self.0.streams).map(|n| {
            (Submitter::process(FIRST_STREAM + n as u32, format!("stream-{}", n + 1)), self.stream(n))
        });
        finds.chain(streams).collect()
    }
}
