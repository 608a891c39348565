//! Barriers, within a machine and across the machines of a cluster.

use elevator::Time;

use super::process::{Blocked, Running, Turn};
use super::{Failure, Machine};
use crate::program::Barrier;

impl Machine {
    #[inline(never)]
    pub(super) fn meet(&mut self, process: usize, barrier: Barrier) -> bool {
        self.record_interaction(process);
        let present = self.barriers.entry(barrier.name).or_default();
        if present.len() + 1 < barrier.members as usize {
            present.push(process);
            self.processes[process].blocked = Blocked::Barrier;
            self.barrier_reached = true;
            return false;
        }
        self.runnable.extend(present.drain(..).map(Turn::Process));
        true
    }

    /// Fails the run if every process that can still arrive at a barrier waits at one, or for children that do. Background
    /// processes would otherwise keep the machine busy for ever.
    pub(super) fn detect_deadlock(&mut self) {
        let counts = |(_, p): &(usize, &Running)| !p.program.is_background();
        let waits = |(_, p): (usize, &Running)| matches!(p.blocked, Blocked::Barrier | Blocked::Children);
        let mut counted = self.processes.active().filter(counts);
        // A process at rest sleeps until a time.
        if counted.clone().all(waits)
            && counted.any(|(_, p)| p.blocked == Blocked::Barrier)
            && !self.processes.some_rest()
        {
            let waiting = self.processes.active().filter(counts);
            let waiting = waiting.map(|(index, _)| self.stats.name(index).to_owned()).collect();
            self.failure.get_or_insert(Failure::Deadlock { waiting });
        }
    }

    /// Blocks a process at a barrier across machines. Without a cluster it blocks for ever.
    #[inline(never)]
    pub(super) fn gather(&mut self, process: usize, barrier: Barrier) {
        self.record_interaction(process);
        self.cluster_arrivals.push_back((barrier, process));
        self.processes[process].blocked = Blocked::ClusterBarrier;
    }

    pub(crate) fn take_cluster_arrival(&mut self) -> Option<(Barrier, usize)> {
        self.cluster_arrivals.pop_front()
    }

    /// All members have arrived: the process continues.
    pub(crate) fn release(&mut self, at: Time, process: usize) -> Result<(), Failure> {
        self.runnable.push(Turn::Process(process));
        self.advance_to(at)
    }

    /// The time of the last event.
    pub(crate) const fn now(&self) -> Time {
        self.now
    }

    /// Marks the run as stopped early.
    pub(crate) const fn cut(&mut self) {
        self.cut = true;
    }
}
