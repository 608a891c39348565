//! A command in the drive, from arrival until nothing more is done on its behalf.
//!
//! A task outlives its command: reading ahead goes on after a read has completed, and writing after a fast write has.

use std::ops::{Index, IndexMut};

use crate::drive::Tag;
use crate::mechanics::Picos;

/// A task's place in the drive's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TaskId(u16);

/// Room in the table: more than the 32 commands and the segments of all drives but one, and a power of two, so that a place in
/// it need not be checked. Where there are more, or a segment is written by many commands that stay apart (DiskSim's do), it can
/// be full.
const ROOM: usize = 512;

/// A drive's depth is no greater.
pub(super) const COMMANDS_MAX: u32 = 32;

/// A drive's tasks, of which those that are over leave their places to others.
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

    /// A place that nobody had before.
    #[cold]
    fn take_new(&mut self) -> TaskId {
        debug_assert!(usize::from(self.used) < ROOM, "no place for a command");
        self.used += 1;
        TaskId(self.used - 1)
    }

    pub(super) fn remove(&mut self, id: TaskId) {
        self.free.push(id);
    }

    /// Whether a write may leave its data behind when its command is over, and its place stays taken: commands that come
    /// meanwhile need places, too.
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
    /// Not at all.
    #[default]
    Miss,
    /// All of it is there.
    Whole,
    /// Its first sectors are there.
    Partial,
    /// It goes on where written data ends.
    Append,
    /// It must wait for data on its way to the medium.
    Collision,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Task {
    /// The host's name for it, until it has completed.
    pub(super) tag: Tag,
    pub(super) write: bool,
    /// Completes on the medium even where writes complete in the buffer.
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
    /// Had the arm, though it may have given it back.
    pub(super) had_arm: bool,
    /// The completion is on its way to the host.
    pub(super) reporting: bool,
    /// The host has the completion.
    pub(super) reported: bool,
    /// Off the bus and waiting to come back.
    pub(super) pending: bool,
    /// Suffers the second disconnection of a write.
    pub(super) extra: bool,
    /// Before this the arm does not move for it.
    pub(super) ready_at: Picos,
    pub(super) watermark: u64,
    pub(super) arrived: Picos,
    pub(super) serial: u64,
    /// When the arm turned to it.
    pub(super) begun: Picos,
    pub(super) seek: Picos,
    pub(super) rotation: Picos,
    /// When its first sector began to pass, and when its last had passed.
    pub(super) first_pass: Option<Picos>,
    pub(super) passed: Picos,
}

impl Task {
    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }

    /// Written, but not yet on the medium.
    pub(super) fn dirty(&self) -> bool {
        self.write && self.media < self.end
    }
}
