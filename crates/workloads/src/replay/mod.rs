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

use elevator::Sector;
use elevator::text::counted;
use machine::{Program, Submitter};

use crate::workload::Workload;

pub use build::{Closed, Open};

use steps::{Reader, Steps};

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
    who: Submitter,
    steps: Arc<Steps>,
}

/// A file for the steps of a recording that is larger than memory.
pub trait Spill: Send + Sync + Debug {
    /// Appends bytes; returns their position.
    fn append(&self, bytes: &[u8]) -> io::Result<u64>;

    /// Reads bytes that were appended.
    fn read(&self, from: u64, into: &mut [u8]) -> io::Result<()>;

    /// The first failure of [`read`](Self::read).
    fn failure(&self) -> Option<String>;
}

/// A recording as a workload.
#[derive(Clone, Debug)]
pub struct Replay {
    name: String,
    chains: Vec<Chain>,
    end: Sector,
    open: bool,
    spill: Option<Arc<dyn Spill>>,
}

impl Replay {
    /// Number of requests.
    pub fn requests(&self) -> usize {
        self.chains.iter().map(|chain| chain.steps.len()).sum()
    }
}

impl Workload for Replay {
    fn describe(&self) -> String {
        let how = if self.open { "at their recorded times" } else { "in closed loops" };
        format!("{}: {} {how}", self.name, counted(self.requests() as u64, "request"))
    }

    fn end(&self) -> Sector {
        self.end
    }

    fn processes(&self) -> Vec<(Submitter, Box<dyn Program>)> {
        self.chains
            .iter()
            .map(|chain| {
                let steps = Reader::new(Arc::clone(&chain.steps), self.spill.clone());
                (chain.who.clone(), program::program(steps, self.open))
            })
            .collect()
    }

    fn failure(&self) -> Option<String> {
        self.spill.as_ref()?.failure()
    }
}
