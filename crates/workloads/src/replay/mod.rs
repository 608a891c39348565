//! Replays of recordings.
//!
//! A replay by time stamps hides what anticipation depends on: a process that waits for its last request before it issues the
//! next one. So recordings become processes that wait:
//!
//! - A synchronous request (a read, a synchronous write, a flush) depends on the latest completion of its process before it.
//!   The time between the two is think time.
//! - Requests of a process without a completion between them are issued together.
//! - Asynchronous writes are issued at their recorded times.
//! - The run starts with the first request.
//!
//! Of more than [`NAMED`] processes, those with the most requests are reported by name, and the others as one group.
//!
//! The steps of a long recording are in a file ([`Spill`]), because processes advance independently: some are seconds ahead of others, so that
//! no window of the recording has all their next requests.
//!
//! A recording without completions contains no dependencies and can only be replayed [open](Open).

mod build;
mod program;
mod steps;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use elevator::text::counted;
use elevator::{Priority, Process, Sector};
use machine::{Machine, Program, Rest, Source, Submitter};

use traces::Pid;

use crate::workload::Workload;

pub use build::{Closed, Open};

use steps::Reader;

/// A request of a chain with its dependency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    after: After,
    start: u64,
    sectors: u32,
    kind: Kind,
}

/// The dependency of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    /// None: it is issued with the previous request.
    Together,
    /// A time since the start of the run, in nanoseconds.
    At(u64),
    /// The completion of the chain's request of this number, then think time in nanoseconds.
    Completion(u32, u64),
}

/// Operation and flags, packed in a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind(u8);

/// The requests of a process that depend on each other.
#[derive(Clone, Debug)]
struct Chain {
    /// Index of the process.
    who: u32,
    steps: steps::Chain,
}

/// A process of the recording.
#[derive(Clone, Copy, Debug)]
struct Who {
    pid: Option<Pid>,
    priority: Priority,
    /// Index of its name.
    name: u16,
}

/// Processes that are reported by name: a process's latencies take up to 150 KiB during a run.
pub const NAMED: usize = 256;

/// The processes of a recording and their requests.
#[derive(Debug)]
struct Chains {
    chains: Vec<Chain>,
    who: Vec<Who>,
    names: Vec<String>,
    /// Whether the last name is that of the group of all other processes.
    has_group: bool,
    spill: Option<Arc<dyn Spill>>,
    open: bool,
}

impl Chains {
    fn steps(&self, chain: usize) -> &steps::Chain {
        &self.chains[chain].steps
    }

    fn who(&self, chain: usize) -> Who {
        self.who[self.chains[chain].who as usize]
    }
}

/// A file for the steps of a recording that is larger than memory.
pub trait Spill: Send + Sync + Debug {
    /// Appends bytes; returns their position.
    fn append(&self, bytes: &[u8]) -> io::Result<u64>;

    /// Replaces bytes that were appended.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads bytes that were appended.
    fn read(&self, from: u64, into: &mut [u8]) -> io::Result<()>;

    /// The first failure of [`read`](Self::read).
    fn failure(&self) -> Option<String>;
}

/// A recording as a workload.
#[derive(Clone, Debug)]
pub struct Replay {
    name: String,
    chains: Arc<Chains>,
    end: Sector,
}

impl Replay {
    /// Number of requests.
    pub fn requests(&self) -> usize {
        self.chains.chains.iter().map(|chain| chain.steps.len()).sum()
    }

    /// What a user has to know of the report, if processes are grouped in it.
    pub fn note(&self) -> Option<String> {
        let processes = self.chains.who.len();
        self.chains.has_group.then(|| {
            format!("of its {processes} processes, the {NAMED} with the most requests are reported one by one, the others as a group")
        })
    }

    #[cfg(test)]
    fn in_memory(&self) -> usize {
        self.chains.chains.iter().map(|chain| chain.steps.in_memory()).sum()
    }

    fn source(&self) -> Processes {
        Processes(Arc::clone(&self.chains))
    }
}

/// The processes of a run.
struct Processes(Arc<Chains>);

impl Source for Processes {
    fn count(&self) -> usize {
        self.0.chains.len()
    }

    fn identity(&self, number: usize) -> (Option<Process>, Priority) {
        let Who { pid, priority, .. } = self.0.who(number);
        (pid.map(|Pid(pid)| Process::single(pid)), priority)
    }

    fn name(&self, number: usize) -> &str {
        &self.0.names[usize::from(self.0.who(number).name)]
    }

    fn is_grouped(&self, number: usize) -> bool {
        self.0.has_group && usize::from(self.0.who(number).name) + 1 == self.0.names.len()
    }

    fn submitted(&self, [_, numbers, _]: Rest) -> u64 {
        steps::submitted(numbers).into()
    }

    fn program(&self, number: usize, rest: Option<Rest>) -> Box<dyn Program> {
        program::program(Reader::new(Arc::clone(&self.0), number), rest, self.0.open)
    }
}

impl Workload for Replay {
    fn describe(&self) -> String {
        let how = if self.chains.open { "at their recorded times" } else { "in closed loops" };
        format!("{}: {} {how}", self.name, counted(self.requests() as u64, "request"))
    }

    fn end(&self) -> Sector {
        self.end
    }

    fn processes(&self) -> Vec<(Submitter, Box<dyn Program>)> {
        let source = self.source();
        let process = |number| {
            let (process, priority) = source.identity(number);
            let who = Submitter { process, priority, name: source.name(number).to_owned() };
            (who, source.program(number, None))
        };
        (0..source.count()).map(process).collect()
    }

    fn start(&self, machine: &mut Machine) {
        machine.start_all(Box::new(self.source()));
    }

    fn failure(&self) -> Option<String> {
        self.chains.spill.as_ref()?.failure()
    }
}
