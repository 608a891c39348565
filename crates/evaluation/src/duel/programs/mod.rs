//! What the programs of a duel do: real processes making real system calls, each of which is timed.
//!
//! | file | program |
//! |---|---|
//! | `blocks` | reads or writes a device in blocks, in order or at random |
//! | `tree` | reads every file below a directory, as `grep -r` does |
//! | `postmark` | creates, reads, appends to and deletes small files, as PostMark does |
//! | `copy` | copies a tree, again and again |
//! | `commits` | has a data base commit small transactions |
//! | `fio` | runs fio on a job file of the user's |

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

/// What one program does.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Reads or writes a device in blocks.
    Blocks(Blocks),
    /// Reads a tree of files.
    Tree(Tree),
    /// Works with small files.
    PostMark(PostMark),
    /// Copies a tree.
    Copy(CopyFile),
    /// Commits transactions.
    Commits(Commits),
    /// Runs fio, which measures itself.
    Fio(Fio),
}

/// A program that is to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) task: Task,
    /// It only makes work for others.
    pub(crate) background: bool,
    /// Processor priority, -20 to 19.
    pub(crate) nice: i32,
    /// Level of the best-effort class, 0 to 7.
    pub(crate) level: u8,
    /// After so long it stops, done or not.
    pub(crate) at_most: Duration,
    /// How many values of its waits' distribution are wanted.
    pub(crate) quantiles: u32,
}

/// Gets ready, waits for the start signal, runs, and says what was measured.
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

/// One program's run, as it measures itself.
pub(crate) struct Recorder {
    began_ns: u64,
    began: Instant,
    at_most: Duration,
    bytes: u64,
    operations: u64,
    cut: bool,
    stopwatch: Stopwatch,
    /// What the program measured of itself.
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

    /// Whether its time is not over. Asked between two steps of work that is left.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.cut = self.began.elapsed() >= self.at_most;
        !self.cut
    }

    /// Does something that may wait for the disk, and records for how long.
    pub(crate) fn timed<T>(&mut self, step: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let began = Instant::now();
        let result = step();
        self.stopwatch.record(began.elapsed());
        result
    }

    /// So many bytes were read or written.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// One more of what this program counts.
    pub(crate) fn count(&mut self) {
        self.operations += 1;
    }

    fn end(self, process: Process) -> TaskOutcome {
        let Process { name, background, quantiles, .. } = process;
        let (ended_ns, waits) = match self.measured {
            // Starting fio is not part of its job.
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

/// Bytes that look like text, so that nothing on the way makes them smaller or finds them equal.
pub(crate) fn text(random: &mut Random, bytes: usize) -> Vec<u8> {
    const LETTERS: &[u8] = b"etaoin shrdlu cmfwyp vbgkjq xz\n_(){};";
    (0..bytes).map(|_| LETTERS[random.below(LETTERS.len() as u64) as usize]).collect()
}
