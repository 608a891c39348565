//! kernel-read: IOAnalyzer's "apparently random workload from multiple sequential applications" (its section IV-C).
//!
//! "LKR reads the kernel source files. Each instance of the LKR test traverses the kernel source tree six times. Each of
//! them from a different directory to avoid the cache [...]. HD is reading sequentially from a set of files of 1 GB each.
//! An instance of HD reads four randomly selected files of this set. Finally, the test consists on running two instances
//! of LKR and two instances of HD in parallel." Alone "one LKR runs in 184 seconds, one HD process in 850 seconds".
//!
//! The tree is modelled after Linux 2.6.32: 30,000 files of about 12 KB in directories of about 17, with inodes together
//! before them. Files are read as by the page cache, up to 128 KB at a time; dumped files with 128 KB of read-ahead, as
//! hexdump is slow: 4 GB in 850 s are its own processor time. Both processor times are set so that an instance alone takes
//! about as long as published.

use elevator::Random;
use elevator::text::whole;
use elevator::{Flags, Sector, Sectors, Span, tunables};
use machine::{Await, Io, Next, Program, Submitter};

use super::{GIB, KIB};
use crate::steps::program_of;
use crate::workload::{Processes, Workload};

tunables! {
    pub struct KernelReadSettings {
        /// Instances of LKR.
        readers: Count = 2, 0, 64;
        /// Traversals of each, always of another tree.
        traversals: Count = 6, 1, 100;
        /// Files of a tree.
        files: Count = 30_000, 17, 1_000_000;
        /// Processor time for each file of a tree.
        file_think: Span = Span::from_micros(850), Span::ZERO, Span::from_secs(1);
        /// Instances of HD.
        dumps: Count = 2, 0, 64;
        /// Files that each dumps, out of eight.
        dumped: Count = 4, 1, 8;
        /// Bytes of a dumped file.
        dump_bytes: Count = GIB, 128 * KIB, 64 * GIB;
        /// Processor time for each 128 KiB dumped.
        dump_think: Span = Span::from_millis(26), Span::ZERO, Span::from_secs(10);
        /// Seed of the trees' files.
        seed: Count = 1, 0, u64::MAX;
        /// Number of the run, which selects the dumped files.
        run: Count = 1, 0, u64::MAX;
    }
}

/// The benchmark with its settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelRead(pub KernelReadSettings);

/// Positions of trees and of dumped files, far apart as on a disk that was filled over time.
const TREE_BYTES: u64 = 4 * GIB;
const DUMP_SET: u64 = 8;
/// Read-ahead of the page cache, and so its largest sequential request.
const AHEAD: Sectors = Sectors(256);
/// Files of a directory; their inodes are read with one request.
const DIRECTORY: u64 = 17;

impl KernelRead {
    fn trees(&self) -> u64 {
        self.0.readers * self.0.traversals
    }

    /// Reads a tree by directory.
    fn tree(&self, number: u64) -> impl Iterator<Item = Next> + use<> {
        let KernelReadSettings { files, file_think, seed, .. } = self.0;
        let mut random = Random::new(seed ^ number.wrapping_mul(0x9e37_79b9));
        let mut at = number * TREE_BYTES / 512;
        (0..files).flat_map(move |file| {
            let mut steps = Vec::with_capacity(8);
            if file % DIRECTORY == 0 {
                let inodes = Io {
                    flags: Flags { meta: true, ..Flags::default() },
                    ..Io::read(Sector(at), Sectors(8))
                };
                at += 8 * (1 + random.below(4));
                steps.extend([Next::Submit(inodes), Next::Await(Await::All)]);
            }
            let mut left = file_sectors(&mut random);
            while left > 0 {
                let sectors = left.min(u64::from(AHEAD.0));
                steps.extend([
                    Next::Submit(Io::read(Sector(at), Sectors(sectors as u32))),
                    Next::Await(Await::All),
                ]);
                at += sectors;
                left -= sectors;
            }
            at += 8 * random.below(3);
            steps.push(Next::Think(file_think));
            steps
        })
    }

    fn reader(&self, n: u64) -> Box<dyn Program> {
        let own = *self;
        program_of((0..self.0.traversals).flat_map(move |round| own.tree(n * own.0.traversals + round)))
    }

    /// Dumps files, reading 128 KiB ahead.
    fn dump(&self, n: u64) -> Box<dyn Program> {
        let KernelReadSettings { dumped, dump_bytes, dump_think, run, .. } = self.0;
        let first = self.trees() * TREE_BYTES / 512;
        let mut set: Vec<u64> = (0..DUMP_SET).collect();
        let mut random = Random::new(run ^ (n + 1).wrapping_mul(0x517c_c1b7_2722_0a95));
        let drawn: Vec<u64> =
            (0..dumped).map(|_| set.swap_remove(random.below(set.len() as u64) as usize)).collect();
        let apart = dump_bytes.next_multiple_of(GIB) / 512;
        let chunks = dump_bytes.div_ceil(AHEAD.bytes());
        let chunk = move |file: u64, i: u64| {
            Next::Submit(Io::read(Sector(first + file * apart + i * u64::from(AHEAD.0)), AHEAD))
        };
        program_of(drawn.into_iter().flat_map(move |file| {
            let each = (0..chunks).flat_map(move |i| {
                let ahead = (i + 1 < chunks).then(|| chunk(file, i + 1));
                let ready = if ahead.is_some() { Await::Fewer(2) } else { Await::All };
                [ahead, Some(Next::Await(ready)), Some(Next::Think(dump_think))].into_iter().flatten()
            });
            core::iter::once(chunk(file, 0)).chain(each)
        }))
    }
}

/// Sectors of a file in blocks of 4 KB: a power of two with 0.55 times the probability of the previous, up to 256 KB; half of
/// the files are below 5 KB, the mean is about 12 KB.
fn file_sectors(random: &mut Random) -> u64 {
    let mut blocks = 1;
    while blocks < 64 && random.below(100) < 55 {
        blocks *= 2;
    }
    8 * (blocks / 2 + 1 + random.below(blocks / 2 + 1))
}

impl Workload for KernelRead {
    fn describe(&self) -> String {
        let KernelReadSettings { readers, traversals, files, dumps, dumped, dump_bytes, .. } = self.0;
        format!(
            "kernel-read: {readers} readers of {traversals} trees of {files} files, {dumps} dumps of {dumped} files of {}",
            whole(dump_bytes)
        )
    }

    fn end(&self) -> Sector {
        let sets = if self.0.dumps == 0 { 0 } else { DUMP_SET * self.0.dump_bytes.next_multiple_of(GIB) };
        Sector((self.trees() * TREE_BYTES + sets).div_ceil(512))
    }

    fn processes(&self) -> Processes {
        let readers = (0..self.0.readers)
            .map(|n| (Submitter::process(n as u32 + 1, format!("lkr-{}", n + 1)), self.reader(n)));
        let dumps = (0..self.0.dumps)
            .map(|n| (Submitter::process(1000 + n as u32, format!("hd-{}", n + 1)), self.dump(n)));
        readers.chain(dumps).collect()
    }
}
