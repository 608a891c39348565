//! Recordings, run again.
//!
//! Replayed by its time stamps alone, a recording hides exactly what anticipation is about: a process that waits for its
//! last request before it makes the next one. So a recording is turned into processes that do wait:
//!
//! - A synchronous request (a read, a write that somebody waits for, a flush) depends on the latest completion that
//!   its process had seen when it made it. The gap between the two is think time.
//! - Requests of a process with no completion between them go out together.
//! - Asynchronous writes are nobody's to wait for: they go out at their recorded times.
//! - A run begins with the first request, whatever the recording's clock says then.
//!
//! A recording without completions says nothing of dependencies; it can be replayed [open](Open) only.

mod build;
mod program;
mod steps;

use std::sync::Arc;

use elevator::Sector;
use elevator::text::counted;
use machine::{Program, Submitter};

use crate::workload::Workload;

pub use build::{Closed, Open};

use steps::Steps;

/// One request of a chain, and what it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    after: After,
    start: u64,
    sectors: u32,
    kind: Kind,
}

/// What a request waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    /// Nothing: it goes out together with the one before it.
    Together,
    /// A time since the start of the run, in nanoseconds.
    At(u64),
    /// The completion of the chain's request of that number, then so many nanoseconds of thinking.
    Completion(u32, u64),
}

/// Operation and flags in a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind(u8);

/// The requests of one process that depend on each other.
#[derive(Clone, Debug)]
struct Chain {
    who: Submitter,
    steps: Arc<Steps>,
}

/// A recording as processes.
#[derive(Clone, Debug)]
pub struct Replay {
    name: String,
    chains: Vec<Chain>,
    end: Sector,
    open: bool,
}

impl Replay {
    /// Requests in it.
    #[must_use]
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
            .map(|chain| (chain.who.clone(), program::program(Arc::clone(&chain.steps))))
            .collect()
    }
}
