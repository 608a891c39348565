//! Why a run ends before its programs do.

use elevator::queue::Fault;

use crate::kernel::Errno;

/// Why a machine could not go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// Nothing can happen any more although somebody waits.
    #[error("waiting for each other, or for something that never comes: {}", listed(waiting))]
    Deadlock {
        /// Their names.
        waiting: Vec<String>,
    },
    /// The queue found the scheduler faulty and replaced it, so the run is not one of this scheduler.
    #[error("the scheduler {0}")]
    Scheduler(Fault),
    /// Something would happen so late that times no longer add up.
    #[error("goes on for more than 292 years, which is as far as the modelled clock is trusted")]
    EndOfTime,
    /// A policy that works above the block layer, on a machine that has nothing there.
    #[error(
        "the scheduler works above the block layer too; this machine has no kernel, only a queue and a drive"
    )]
    NoHooks,
    /// A system call on a machine without a kernel.
    #[error("process {process}: {call}: this machine has no kernel, only a queue and a drive")]
    NoKernel {
        /// Who called.
        process: String,
        /// What.
        call: String,
    },
    /// A call failed and the program did not plan for that.
    #[error("process {process}: {call}: {errno}")]
    Call {
        /// Who called.
        process: String,
        /// What.
        call: String,
        /// Why it failed.
        errno: Errno,
    },
}

/// Names that are listed; of the others it is said how many they are.
const NAMES: usize = 8;

fn listed(names: &[String]) -> String {
    let first = names.iter().take(NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
