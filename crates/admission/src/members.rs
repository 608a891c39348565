//! The processes that made calls: a server that was restarted gets them again.

use std::collections::BTreeMap;

use control::process::Stat;

/// From how many processes on those that ended are looked for.
const MANY: usize = 1024;

/// Processes by number, with the time of their start: numbers are reused.
pub(crate) struct Members {
    started: BTreeMap<u32, u64>,
    /// The number of processes at which those that ended are removed.
    full: usize,
}

impl Members {
    pub(crate) const fn new() -> Self {
        Self { started: BTreeMap::new(), full: MANY }
    }

    /// A process made a call.
    pub(crate) fn add(&mut self, process: u32) {
        let Some(started) = started(process) else { return };
        self.started.insert(process, started);
        if self.started.len() >= self.full {
            let left = self.running().count();
            self.full = MANY.max(2 * left);
        }
    }

    /// Those that still run.
    pub(crate) fn running(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.started.retain(|&process, &mut then| started(process) == Some(then));
        self.started.keys().copied()
    }
}

/// When a process started, in the kernel's ticks since the boot.
fn started(process: u32) -> Option<u64> {
    Stat::of(process)?.started()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_processes_and_others_of_their_number_are_left_out() {
        let own = std::process::id();
        let mut members = Members::new();
        members.add(own);
        members.add(u32::MAX);
        assert_eq!(members.running().collect::<Vec<_>>(), [own]);
        *members.started.get_mut(&own).unwrap() += 1;
        assert_eq!(members.running().count(), 0, "another process has the number");
    }
}
