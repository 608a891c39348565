//! Reasons why a run ends before its programs do.

use elevator::queue::Fault;

use crate::kernel::Errno;

/// Why a run cannot continue.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// No event can happen any more although processes wait.
    #[error("waiting for each other, or for something that never comes: {}", listed(waiting))]
    Deadlock {
        /// The processes' names.
        waiting: Vec<String>,
    },
    /// The queue found the scheduler faulty and replaced it, so the results are not those of this scheduler.
    #[error("the scheduler {0}")]
    Scheduler(Fault),
    /// Times would exceed the range in which sums of times are exact.
    #[error("the run lasts more than 292 years of virtual time, which is the model's limit")]
    EndOfTime,
    /// The scheduler is a split-level policy and the machine has no kernel.
    #[error(
        "the scheduler works above the block layer too; this machine has no kernel, only a queue and a drive"
    )]
    NoHooks,
    /// A system call on a machine without a kernel.
    #[error("process {process}: {call}: this machine has no kernel, only a queue and a drive")]
    NoKernel { process: String, call: String },
    /// A call failed and the program does not handle failures.
    #[error("process {process}: {call}: {errno}")]
    Call {
        process: String,
        call: String,
        /// The error.
        errno: Errno,
    },
}

/// Names that a message lists before it counts the others.
const NAMES: usize = 8;

fn listed(names: &[String]) -> String {
    let first = names.iter().take(NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
