//! Several machines under one clock whose processes wait for each other: servers that hold the stripes of one file system,
//! and clients that read a block from each server before the next.
//!
//! Events happen in order of time; at the same time, in the order of the machines. The network between machines is time that
//! programs let pass.

use std::collections::BTreeMap;

use elevator::Time;

use crate::engine::{Failure, Machine, Stop};

/// A process of one of the machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Visitor {
    machine: usize,
    process: usize,
}

/// Machines under one clock.
pub struct Cluster {
    machines: Vec<Machine>,
    /// The next event of each machine.
    next: Vec<Option<Time>>,
    /// Processes at each barrier, by its name.
    gathered: BTreeMap<u32, Vec<Visitor>>,
}

impl Cluster {
    /// Machines with their processes.
    pub fn new(machines: Vec<Machine>) -> Self {
        Self { next: vec![None; machines.len()], machines, gathered: BTreeMap::new() }
    }

    /// The machines, in order.
    pub fn machines(&mut self) -> &mut [Machine] {
        &mut self.machines
    }

    /// Runs until every process of every machine has ended, or until `stop`.
    pub fn run(&mut self, stop: Stop) -> Result<(), Failure> {
        for machine in 0..self.machines.len() {
            self.machines[machine].begin()?;
            self.look_at(machine)?;
        }
        let mut events = 0u32;
        while let Some((at, machine)) = self.first() {
            events = events.wrapping_add(1);
            if stop.is_before(at)? || (events.is_multiple_of(4096) && (stop.asked)()) {
                self.machines.iter_mut().for_each(Machine::cut);
                return Ok(());
            }
            self.machines[machine].advance_to(at)?;
            self.look_at(machine)?;
        }
        self.machines.iter_mut().try_for_each(Machine::check_finished)
    }

    fn first(&self) -> Option<(Time, usize)> {
        self.next.iter().zip(0..).filter_map(|(at, machine)| Some(((*at)?, machine))).min()
    }

    /// Takes arrivals at barriers from a machine; releases the members of a barrier that is complete.
    fn look_at(&mut self, machine: usize) -> Result<(), Failure> {
        let mut changed = vec![machine];
        while let Some(machine) = changed.pop() {
            while let Some((barrier, process)) = self.machines[machine].take_cluster_arrival() {
                let present = self.gathered.entry(barrier.name).or_default();
                present.push(Visitor { machine, process });
                if present.len() < barrier.members as usize {
                    continue;
                }
                let now = self.machines[machine].now();
                for visitor in std::mem::take(present) {
                    self.machines[visitor.machine].release(now, visitor.process)?;
                    changed.push(visitor.machine);
                }
            }
            self.next[machine] = self.machines[machine].next_event();
        }
        Ok(())
    }
}
