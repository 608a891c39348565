//! A command in the drive, from its arrival until nothing remains to be done for it.
//!
//! A task outlives its command: read-ahead continues after a read has completed, and a fast write goes to the medium after it has.

use std::ops::{Index, IndexMut};

use crate::drive::Tag;
use crate::mechanics::Picos;

/// Index of a task in the drive's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TaskId(u16);

/// Size of the table: more than the 32 commands and the segments of all published drives but one. A power of two, so that indexing
/// needs no bounds check. With more segments, or when many commands write one segment separately (as in DiskSim), it can be full.
const ROOM: usize = 512;

/// The greatest queue depth.
pub(super) const COMMANDS_MAX: u32 = 32;

/// The drive's tasks; slots are reused.
#[derive(Clone, Debug)]
pub(super) struct Tasks {
    table: Box<[Task; ROOM]>,
    used: u16,
    free: Vec<TaskId>,
}

impl Tasks {
    pub(super) fn new() -> Self {
        Self { table: Box::new([Task::default(); ROOM]), used: 0, free: Vec::with_capacity(ROOM) }
    }

    pub(super) fn add(&mut self, task: Task) -> TaskId {
        let id = self.free.pop().unwrap_or_else(|| self.take_new());
        self[id] = task;
        id
    }

    /// A slot that was never used.
    #[cold]
    fn take_new(&mut self) -> TaskId {
        debug_assert!(usize::from(self.used) < ROOM, "the table of tasks is full");
        self.used += 1;
        TaskId(self.used - 1)
    }

    pub(super) fn remove(&mut self, id: TaskId) {
        self.free.push(id);
    }

    /// Whether a write may stay in the table after its command has completed: commands that arrive meanwhile need slots.
    pub(super) fn has_room_to_stay(&self) -> bool {
        usize::from(self.used) - self.free.len() + COMMANDS_MAX as usize <= ROOM
    }
}

impl Index<TaskId> for Tasks {
    type Output = Task;

    fn index(&self, TaskId(place): TaskId) -> &Task {
        &self.table[usize::from(place) % ROOM]
    }
}

impl IndexMut<TaskId> for Tasks {
    fn index_mut(&mut self, TaskId(place): TaskId) -> &mut Task {
        &mut self.table[usize::from(place) % ROOM]
    }
}

/// How a request meets the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Hit {
    /// Nothing of it is there.
    #[default]
    Miss,
    /// All of it is there.
    Whole,
    /// The first sectors are there.
    Partial,
    /// A write that begins where unwritten data ends.
    Append,
    /// It must wait for data on its way to the medium.
    Collision,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Task {
    /// The command's tag, valid until its completion.
    pub(super) tag: Tag,
    pub(super) write: bool,
    /// FUA: completes on the medium even if the drive caches writes.
    pub(super) forced: bool,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Next sector between buffer and medium; used for writes only.
    pub(super) media: u64,
    /// Next sector between bus and buffer.
    pub(super) sent: u64,
    pub(super) segment: Option<u16>,
    pub(super) hit: Hit,
    pub(super) owns_segment: bool,
    /// Had the arm, and may have released it.
    pub(super) had_arm: bool,
    /// The completion is on its way to the host.
    pub(super) reporting: bool,
    /// The host has the completion.
    pub(super) reported: bool,
    /// Disconnected, waiting for reselection.
    pub(super) pending: bool,
    /// A write that disconnects twice.
    pub(super) extra: bool,
    /// The arm does not move for the task before this time.
    pub(super) ready_at: Picos,
    pub(super) watermark: u64,
    pub(super) arrived: Picos,
    pub(super) serial: u64,
    /// When the task got the arm.
    pub(super) begun: Picos,
    pub(super) seek: Picos,
    pub(super) rotation: Picos,
    /// When the first sector began to pass, and when the last had passed.
    pub(super) first_pass: Option<Picos>,
    pub(super) passed: Picos,
}

impl Task {
    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }

    /// A write that is not completely on the medium.
    pub(super) fn dirty(&self) -> bool {
        self.write && self.media < self.end
    }
}
