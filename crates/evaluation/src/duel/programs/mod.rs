//! The programs of a duel: real processes whose system calls are timed.
//!
//! | file | program |
//! |---|---|
//! | `blocks` | reads or writes a device in blocks, in order or at random |
//! | `tree` | reads every file below a directory, as `grep -r` does |
//! | `postmark` | creates, reads, appends to and deletes small files, as PostMark does |
//! | `copy` | copies a file repeatedly |
//! | `commits` | commits small transactions to a database |
//! | `fio` | runs fio with the user's job file |

mod blocks;
pub(crate) mod commits;
mod copy;
mod fio;
mod postmark;
mod tree;

use std::io;
use std::time::{Duration, Instant};

use elevator::Random;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

pub use blocks::{Blocks, Order};
pub use commits::{Commits, Engine};
pub use copy::CopyFile;
pub use fio::Fio;
pub use postmark::PostMark;
pub use tree::Tree;

use crate::duel::DuelError;
use crate::duel::outcome::{Stopwatch, TaskOutcome};
use crate::duel::pipe::{send, wait_for_start};
use crate::duel::priority::{Priority, set_priority};

/// The work of one program.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Reads or writes a device in blocks.
    Blocks(Blocks),
    /// Reads a tree of files.
    Tree(Tree),
    /// Creates, reads, extends and removes small files.
    PostMark(PostMark),
    /// Copies a file repeatedly.
    Copy(CopyFile),
    /// Commits transactions.
    Commits(Commits),
    /// Runs fio, which measures itself.
    Fio(Fio),
}

/// A program to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) task: Task,
    /// The program is load for the others; its waits do not count.
    pub(crate) background: bool,
    /// Nice value, -20 to 19.
    pub(crate) nice: i32,
    /// I/O priority: level of the best-effort class, 0 to 7.
    pub(crate) level: u8,
    /// The program is stopped after this time.
    pub(crate) at_most: Duration,
    /// Number of values in the reported distribution of waits.
    pub(crate) quantiles: u32,
}

/// Prepares the program, waits for the start signal, runs it, and sends the measurements to the parent.
pub(crate) fn run(process: Process) -> Result<(), DuelError> {
    rustix::process::setpriority_process(None, process.nice)
        .map_err(|error| DuelError::io(format!("nice {}", process.nice))(error.into()))?;
    set_priority(Priority::best_effort(process.level)).map_err(DuelError::io("setting an I/O priority"))?;
    let mut connection = match &process.task {
        Task::Commits(commits) => Some(commits.prepare().map_err(DuelError::io(process.name.clone()))?),
        _ => None,
    };
    send(&Ok(())).and_then(|()| wait_for_start()).map_err(DuelError::io("waiting for the start signal"))?;
    let mut recorder = Recorder::begin(process.at_most);
    let ran = match &process.task {
        Task::Blocks(blocks) => blocks.run(&mut recorder),
        Task::Tree(tree) => tree.run(&mut recorder),
        Task::PostMark(postmark) => postmark.run(&mut recorder),
        Task::Copy(copy) => copy.run(&mut recorder),
        Task::Commits(_) => connection.as_mut().map_or(Ok(()), |open| Commits::run(open, &mut recorder)),
        Task::Fio(fio) => fio.run(&mut recorder).map(|measured| recorder.measured = Some(measured)),
    };
    ran.map_err(DuelError::io(process.name.clone()))?;
    send(&Ok(recorder.end(process))).map_err(DuelError::io("reporting"))
}

/// Measurements of one program's run, made by the program itself.
pub(crate) struct Recorder {
    began_ns: u64,
    began: Instant,
    at_most: Duration,
    bytes: u64,
    operations: u64,
    cut: bool,
    stopwatch: Stopwatch,
    /// The measurements of fio, which replace the recorder's.
    measured: Option<fio::Measured>,
}

impl Recorder {
    fn begin(at_most: Duration) -> Self {
        let (began_ns, began) = (monotonic_ns(), Instant::now());
        Self {
            began_ns,
            began,
            at_most,
            bytes: 0,
            operations: 0,
            cut: false,
            stopwatch: Stopwatch::default(),
            measured: None,
        }
    }

    /// Whether the program may continue: its time limit has not passed. Called between two steps, while work is left, because a `false`
    /// marks the run as cut.
    pub(crate) fn may_continue(&mut self) -> bool {
        self.cut = self.began.elapsed() >= self.at_most;
        !self.cut
    }

    /// Executes a step that may wait for the disk, and records its duration.
    pub(crate) fn timed<T>(&mut self, step: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let began = Instant::now();
        let result = step();
        self.stopwatch.record(began.elapsed());
        result
    }

    /// Counts bytes that were read or written.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Counts one operation: a request, file, transaction or commit.
    pub(crate) fn count(&mut self) {
        self.operations += 1;
    }

    fn end(self, process: Process) -> TaskOutcome {
        let Process { name, background, quantiles, .. } = process;
        let (ended_ns, waits) = match self.measured {
            // fio's own start-up time does not count.
            Some(measured) => (self.began_ns + measured.runtime_ns, measured.waits),
            None => (monotonic_ns(), self.stopwatch.waits()),
        };
        TaskOutcome {
            name,
            background,
            began_ns: self.began_ns,
            ended_ns,
            bytes: self.bytes,
            operations: self.operations,
            cut: self.cut,
            waits,
            quantiles_ns: self.stopwatch.quantiles(quantiles),
        }
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Random text-like bytes, which no layer can compress to nothing or deduplicate.
pub(crate) fn text(random: &mut Random, bytes: usize) -> Vec<u8> {
    const LETTERS: &[u8] = b"etaoin shrdlu cmfwyp vbgkjq xz\n_(){};";
    (0..bytes).map(|_| LETTERS[random.below(LETTERS.len() as u64) as usize]).collect()
}
