//! Benchmarks: programs, their files, and the score.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duel::DuelError;
use crate::duel::programs::{Blocks, Commits, CopyFile, Engine, Fio, Order, PostMark, Task, Tree};

/// Distance of regions in bytes: the stream paper's 50 GB plus the region.
const APART: u64 = 51 << 30;

/// Size of a file system.
const FILE_SYSTEM_BYTES: u64 = 2 << 30;

/// One kind of comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Benchmark {
    /// Four processes, each reading its own distant region in 4 KB requests.
    ParRead {
        /// Bypass the page cache.
        direct: bool,
    },
    /// Two programs, each reading its own distant source tree as `grep -r` does.
    Greps,
    /// Four PostMarks, each in its own directory.
    PostMark,
    /// A process that writes as fast as possible, and one with random 4 KB reads.
    WriteBesideReads,
    /// Commits of a database during a copy.
    Commits(Engine),
    /// The user's fio job file.
    Fio(PathBuf),
}

/// Sizes of the benchmarks.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Duration of programs that do not end by themselves.
    pub time: Duration,
    /// Programs that should end by themselves are stopped after this time.
    pub patience: Duration,
    /// Files in each of the two trees.
    pub tree_files: u64,
    /// Transactions of each PostMark.
    pub transactions: u64,
}

/// The score of a benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Score {
    /// 10^6 bytes per second.
    Megabytes,
    /// Requests, transactions or commits per second.
    Operations,
}

/// A file system on a part of the device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileSystem {
    pub start_bytes: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Mounted read-only.
    pub read_only: bool,
    pub content: Content,
}

/// Content of a file system before a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Nothing.
    Empty,
    /// A source tree.
    Tree {
        /// Number of files.
        files: u64,
        /// Seed of their sizes and texts.
        seed: u64,
    },
    /// A file to copy, and the initial files of a database.
    Commits {
        /// The file's size.
        file_bytes: u64,
        /// An empty PostgreSQL cluster.
        cluster: bool,
    },
}

impl FileSystem {
    pub(crate) fn inodes(&self) -> u64 {
        let files = if let Content::Tree { files, .. } = self.content { files } else { 0 };
        2 * files + 4096
    }
}

/// A program of a benchmark.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name in results.
    pub name: String,
    /// The program.
    pub task: Task,
    /// The program is load for the others; its waits do not count.
    pub background: bool,
}

impl Benchmark {
    /// All benchmarks that need no file from the user.
    pub const ALL: [Self; 7] = [
        Self::ParRead { direct: true },
        Self::ParRead { direct: false },
        Self::Greps,
        Self::PostMark,
        Self::WriteBesideReads,
        Self::Commits(Engine::Sqlite),
        Self::Commits(Engine::Postgres),
    ];

    /// Its name on the command line.
    pub fn name(&self) -> String {
        match self {
            Self::ParRead { direct: true } => "par-read".to_owned(),
            Self::ParRead { direct: false } => "par-read-buffered".to_owned(),
            Self::Greps => "greps".to_owned(),
            Self::PostMark => "postmark".to_owned(),
            Self::WriteBesideReads => "write-beside-reads".to_owned(),
            Self::Commits(Engine::Sqlite) => "sqlite".to_owned(),
            Self::Commits(Engine::Postgres) => "postgresql".to_owned(),
            Self::Fio(job) => job.display().to_string(),
        }
    }

    /// The benchmark with this name, except job files.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|benchmark| benchmark.name() == name)
    }

    /// The benchmark in one line.
    pub fn describe(&self, size: &Size) -> String {
        let Size { time, tree_files, transactions, .. } = size;
        match self {
            Self::ParRead { direct } => {
                let how = if *direct { "past the page cache" } else { "through the page cache" };
                format!("par-read: 4 processes read in 4 KB requests {how}, 51 GiB apart, for {time:?}")
            }
            Self::Greps => {
                format!("greps: 2 programs read trees of {tree_files} files, 51 GiB apart, as grep -r does")
            }
            Self::PostMark => format!("postmark: 4 programs, {transactions} transactions each, on one ext4"),
            Self::WriteBesideReads => {
                format!(
                    "write-beside-reads: random 4 KB direct reads during a direct write in 1 MiB requests, for {time:?}"
                )
            }
            Self::Commits(_) => format!(
                "{}: one-row commits during repeated copies (with fsync) of a large file on the same ext4, for {time:?}",
                self.name()
            ),
            Self::Fio(job) => format!("fio: {}", job.display()),
        }
    }

    pub const fn score(&self) -> Score {
        match self {
            Self::ParRead { .. } | Self::Greps | Self::Fio(_) => Score::Megabytes,
            Self::PostMark | Self::WriteBesideReads | Self::Commits(_) => Score::Operations,
        }
    }

    /// Checks that the programs of the benchmark are installed.
    ///
    /// # Errors
    /// A program is missing; the text names it.
    pub fn available(&self) -> Result<(), DuelError> {
        let (files, own): (bool, &[&str]) = match self {
            Self::ParRead { .. } | Self::WriteBesideReads => (false, &[]),
            Self::Greps | Self::PostMark => (true, &[]),
            Self::Commits(engine) => (true, engine.needs()),
            Self::Fio(_) => (false, &["fio"]),
        };
        match files.then_some(&"mkfs.ext4").into_iter().chain(own).find(|program| !is_installed(program)) {
            None => Ok(()),
            Some(missing) => Err(DuelError::Missing(format!("{}: {missing} is not installed", self.name()))),
        }
    }

    /// The file systems of the benchmark. Without any, its programs use the bare device.
    pub fn file_systems(&self, size: &Size) -> Vec<FileSystem> {
        let file_system = |n: u64, read_only, content| FileSystem {
            start_bytes: (1 << 30) + n * APART,
            bytes: FILE_SYSTEM_BYTES,
            read_only,
            content,
        };
        match self {
            Self::ParRead { .. } | Self::WriteBesideReads | Self::Fio(_) => Vec::new(),
            Self::Greps => {
                let tree = |n| file_system(n, true, Content::Tree { files: size.tree_files, seed: n + 1 });
                vec![tree(0), tree(1)]
            }
            Self::PostMark => vec![file_system(0, false, Content::Empty)],
            Self::Commits(engine) => {
                let cluster = *engine == Engine::Postgres;
                vec![file_system(0, false, Content::Commits { file_bytes: 64 << 20, cluster })]
            }
        }
    }

    /// The end of the used part of the device in bytes, so that a smaller drive can be rejected.
    pub fn end_bytes(&self, size: &Size) -> u64 {
        match self {
            Self::ParRead { .. } => 4 * APART,
            Self::WriteBesideReads => 3 * APART,
            Self::Fio(_) => 0,
            _ => self.file_systems(size).iter().map(|fs| fs.start_bytes + fs.bytes).max().unwrap_or(0),
        }
    }

    /// The programs, on a device or on the file systems mounted below `mounts`.
    ///
    /// # Errors
    /// A job file cannot be read.
    pub fn programs(
        &self,
        size: &Size,
        device: &Path,
        mounts: &Path,
        scratch: &Path,
    ) -> Result<Vec<Program>, DuelError> {
        let program = |name: &str, task| Program { name: name.to_owned(), task, background: false };
        let mounted = |n: u32| mounts.join(n.to_string());
        Ok(match self {
            Self::ParRead { direct } => (0..4)
                .map(|n| program(&format!("reader-{}", n + 1), Task::Blocks(reader(device, n, *direct))))
                .collect(),
            Self::Greps => (0..2)
                .map(|n| program(&format!("grep-{}", n + 1), Task::Tree(Tree { root: mounted(n) })))
                .collect(),
            Self::PostMark => (0..4u32)
                .map(|n| {
                    let directory = mounted(0).join(format!("mail-{n}"));
                    let (files, seed) = (size.transactions / 2, u64::from(n) + 1);
                    let task = PostMark { directory, files, transactions: size.transactions, seed };
                    program(&format!("postmark-{}", n + 1), Task::PostMark(task))
                })
                .collect(),
            Self::WriteBesideReads => vec![
                program("reader", Task::Blocks(random_reader(device))),
                Program { background: true, ..program("writer", Task::Blocks(writer(device))) },
            ],
            Self::Commits(engine) => {
                let (file, to) = (mounted(0).join("file"), mounted(0).join("copy"));
                let commits = Commits { engine: *engine, place: mounted(0).join("data") };
                let copy = Task::Copy(CopyFile { from: file, to });
                vec![
                    program("commits", Task::Commits(commits)),
                    Program { background: true, ..program("copy", copy) },
                ]
            }
            Self::Fio(job) => {
                let text = std::fs::read_to_string(job)
                    .map_err(DuelError::io(format!("reading {}", job.display())))?;
                vec![program("fio", Task::Fio(Fio::on(&text, device, scratch.join("job.fio"))))]
            }
        })
    }

    /// Whether the programs are alike and far apart, so that one of them alone is an upper bound for all together.
    pub const fn has_yardstick(&self) -> bool {
        matches!(self, Self::ParRead { .. } | Self::Greps)
    }

    /// Whether the programs end by themselves, so that a stopped program has not done its work.
    pub const fn ends_by_itself(&self) -> bool {
        matches!(self, Self::Greps | Self::PostMark | Self::Fio(_))
    }

    /// Maximum duration of the programs.
    pub const fn at_most(&self, size: &Size) -> Duration {
        match self {
            Self::ParRead { .. } | Self::WriteBesideReads | Self::Commits(_) => size.time,
            Self::Greps | Self::PostMark | Self::Fio(_) => size.patience,
        }
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .any(|directory| directory.join(program).is_file())
}

/// One of par-read's readers: a GiB from the start of its region.
fn reader(device: &Path, n: u64, direct: bool) -> Blocks {
    Blocks {
        device: device.to_path_buf(),
        start_bytes: n * APART,
        bytes: 1 << 30,
        block_bytes: 4096,
        order: Order::Sequential,
        writes: false,
        direct,
        think: Duration::ZERO,
    }
}

/// Random reads within 50 GB, at a distance of a hundred and more from the writer.
fn random_reader(device: &Path) -> Blocks {
    Blocks { start_bytes: 2 * APART, bytes: 50 << 30, order: Order::Random(1), ..reader(device, 0, true) }
}

fn writer(device: &Path) -> Blocks {
    Blocks { writes: true, block_bytes: 1 << 20, bytes: 50 << 30, ..reader(device, 0, true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size {
        time: Duration::from_secs(1),
        patience: Duration::from_secs(9),
        tree_files: 9,
        transactions: 9,
    };

    #[test]
    fn trees_are_fifty_gigabytes_apart_and_nothing_overlaps() {
        let places = Benchmark::Greps.file_systems(&SIZE);
        assert!(places[1].start_bytes - (places[0].start_bytes + places[0].bytes) >= 49 << 30);
        for benchmark in Benchmark::ALL {
            let places = benchmark.file_systems(&SIZE);
            assert!(places.windows(2).all(|two| two[0].start_bytes + two[0].bytes <= two[1].start_bytes));
        }
    }

    #[test]
    fn every_benchmark_has_a_program_whose_waits_count() {
        for benchmark in Benchmark::ALL {
            let programs =
                benchmark.programs(&SIZE, Path::new("/dev/x"), Path::new("/m"), Path::new("/s")).unwrap();
            assert!(programs.iter().any(|program| !program.background), "{}", benchmark.name());
        }
    }
}
