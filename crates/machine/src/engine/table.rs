//! The processes of a machine. Of a [`Source`], those that sleep are kept as few words once there are too many.

use std::ops::{Index, IndexMut};

use elevator::{Priority, Process};

use super::process::{Blocked, Running};
use crate::program::{Rest, Source};

/// Processes in memory above which those that sleep are put to rest: 8 MiB with the steps that a replay has read ahead. A process at rest takes 32 bytes, and a
/// system call or two to continue.
const ACTIVE_MAX: usize = 4096;

/// A process.
enum Slot {
    Active(Box<Running>),
    /// Of the source; it has not begun.
    New,
    /// Of the source; it sleeps.
    Resting(Rest),
    Ended(Option<Process>),
}

/// All processes, in the order of their start.
pub(super) struct Table {
    slots: Vec<Slot>,
    active: usize,
    active_max: usize,
    /// With the number of its first process.
    source: Option<(usize, Box<dyn Source>)>,
}

impl Default for Table {
    fn default() -> Self {
        Self { slots: Vec::new(), active: 0, active_max: ACTIVE_MAX, source: None }
    }
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn push(&mut self, running: Running) {
        self.active += 1;
        self.slots.push(Slot::Active(Box::new(running)));
    }

    /// Adds the processes of a source.
    ///
    /// # Panics
    /// There is a source already.
    pub(super) fn add(&mut self, source: Box<dyn Source>) {
        assert!(self.source.is_none(), "a machine has one source of processes");
        let first = self.slots.len();
        self.slots.reserve_exact(source.count());
        self.slots.resize_with(first + source.count(), || Slot::New);
        self.source = Some((first, source));
    }

    /// The source, and the process's number there.
    fn source_of(&self, index: usize) -> Option<(&dyn Source, usize)> {
        let (first, source) = self.source.as_ref()?;
        let number = index.checked_sub(*first).filter(|&number| number < source.count())?;
        Some((&**source, number))
    }

    /// Whether the process is reported with others as a group.
    pub(super) fn is_grouped(&self, index: usize) -> bool {
        self.source_of(index).is_some_and(|(source, number)| source.is_grouped(number))
    }

    /// The identity of a process in the block layer, and its priority if it has not ended.
    pub(super) fn identity(&self, index: usize) -> (Option<Process>, Priority) {
        match &self.slots[index] {
            Slot::Active(running) => (running.process, running.priority),
            Slot::Ended(process) => (*process, Priority::default()),
            Slot::New | Slot::Resting(_) => self
                .source_of(index)
                .map_or_else(Default::default, |(source, number)| source.identity(number)),
        }
    }

    /// The processes in memory that have not ended, with their numbers.
    pub(super) fn active(&self) -> impl Iterator<Item = (usize, &Running)> + Clone {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match slot {
            Slot::Active(running) if running.blocked != Blocked::Ended => Some((index, &**running)),
            _ => None,
        })
    }

    /// Whether requests of a process are unfinished; the process may have ended.
    pub(super) fn has_requests(&self) -> bool {
        let has = |slot: &Slot| matches!(slot, Slot::Active(running) if !running.outstanding.is_empty());
        self.slots.iter().any(has)
    }

    /// Whether some processes sleep outside memory.
    pub(super) fn some_rest(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::New | Slot::Resting(_)))
    }

    /// Takes a process into memory.
    #[inline]
    pub(super) fn wake(&mut self, index: usize) {
        match &self.slots[index] {
            Slot::New => self.resume(index, None),
            &Slot::Resting(rest) => self.resume(index, Some(rest)),
            Slot::Active(_) | Slot::Ended(_) => {}
        }
    }

    #[inline(never)]
    fn resume(&mut self, index: usize, rest: Option<Rest>) {
        let Some((source, number)) = self.source_of(index) else { return };
        let (process, priority) = source.identity(number);
        let mut running = Running::new(process, priority, source.program(number, rest), None);
        running.submitted = rest.map_or(0, |rest| source.submitted(rest));
        self.active += 1;
        self.slots[index] = Slot::Active(Box::new(running));
    }

    /// Frees the memory of a process that has ended, or sleeps while there are too many others.
    #[inline]
    pub(super) fn put_away(&mut self, index: usize) {
        let is_crowded = self.active > self.active_max;
        let running = &self[index];
        match running.blocked {
            Blocked::Ended => {}
            Blocked::No if is_crowded => {}
            _ => return,
        }
        if running.is_free() {
            self.replace(index);
        }
    }

    #[inline(never)]
    fn replace(&mut self, index: usize) {
        let running = &self[index];
        let slot = match running.blocked {
            Blocked::Ended => Slot::Ended(running.process),
            _ => match running.program.rest().filter(|_| self.source_of(index).is_some()) {
                Some(rest) => Slot::Resting(rest),
                None => return,
            },
        };
        self.active -= 1;
        self.slots[index] = slot;
    }
}

impl Index<usize> for Table {
    type Output = Running;

    #[inline]
    fn index(&self, index: usize) -> &Running {
        match &self.slots[index] {
            Slot::Active(running) => running,
            _ => not_in_memory(index),
        }
    }
}

impl IndexMut<usize> for Table {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Running {
        match &mut self.slots[index] {
            Slot::Active(running) => running,
            _ => not_in_memory(index),
        }
    }
}

#[cold]
fn not_in_memory(index: usize) -> ! {
    unreachable!("process {index} does not run")
}
