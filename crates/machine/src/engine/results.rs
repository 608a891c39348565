//! Results of a run.

use std::collections::BTreeMap;

use super::Machine;
use crate::kernel;
use crate::limit::Limit;
use crate::measure::Measured;

impl Machine {
    /// Measurements so far.
    pub fn measured(&mut self) -> Measured {
        let now = self.now;
        self.stats.report(now, &self.storage.device_stats())
    }

    /// Names of the tasks in the block layer: the processes that have run, and the kernel's threads if there is a kernel. If
    /// several processes used one task number, the last one's name is returned.
    pub fn names(&self) -> BTreeMap<u32, String> {
        let threads = self.kernel.iter().flat_map(|_| kernel::thread_names());
        let threads = threads.map(|(task, name)| (task, name.to_owned()));
        let processes = (0..self.processes.len()).filter_map(|index| {
            let (process, _) = self.processes.identity(index);
            Some((process?.task, self.stats.name(index).to_owned()))
        });
        threads.chain(processes).collect()
    }

    /// Whether the last run was stopped early.
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Points of the latency distribution (latency in nanoseconds, share of requests at or below it), of reads and of writes.
    pub fn distributions(&self) -> [Vec<(u64, f64)>; 2] {
        self.stats.distributions()
    }

    /// The physical limit of this workload on this drive, if [`record_limit`](Self::record_limit) was called before the run
    /// and the drive can compute its ideal times. Entries correspond to the lines of
    /// [`Measured`]; of processes that share a line and ran at the same time, the longest counts.
    pub fn limit(&mut self) -> Option<Limit> {
        let limit = self.storage.limit(self.limit_recorder.take()?)?;
        let processes_ns = self.stats.by_line(&limit.processes_ns);
        let alone_ns = self.stats.by_line(&limit.alone_ns);
        Some(Limit { processes_ns, alone_ns, ..limit })
    }
}
