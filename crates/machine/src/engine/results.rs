//! What a machine tells when it has run.

use std::collections::BTreeMap;

use super::Machine;
use crate::limit::Limit;
use crate::measure::Measured;

impl Machine {
    /// What was measured so far.
    pub fn measured(&mut self) -> Measured {
        let now = self.now;
        self.book.report(now, &self.storage.meters())
    }

    /// What the tasks that have run are called. Tasks that followed each other under one number are called as the last.
    #[must_use]
    pub fn names(&self) -> BTreeMap<u32, String> {
        let whos = self.processes.iter().map(|process| &process.who);
        whos.filter_map(|who| Some((who.process?.task, who.name.clone()))).collect()
    }

    /// Whether the last run was stopped early.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    /// (latency in nanoseconds, share of requests at or below it), of reads and of writes.
    #[must_use]
    pub fn distributions(&self) -> [Vec<(u64, f64)>; 2] {
        self.book.distributions()
    }

    /// The physical limit of what was run on this drive, if [`witness`](Self::witness) was asked for and the drive can tell
    /// what it could do at best. Its processes are the lines of [`Measured`]; of those that share a line, the longest of
    /// each that ran at the same time counts.
    pub fn limit(&mut self) -> Option<Limit> {
        let witness = self.witness.take()?;
        let limit = self.storage.limit(witness)?;
        let processes_ns = self.book.by_line(&limit.processes_ns);
        Some(Limit { processes_ns, ..limit })
    }
}
