//! Segments of the buffer: each holds one run of sectors.

use std::ops::{Index, IndexMut};

use super::task::TaskId;

/// The state of a segment's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    /// No data.
    #[default]
    Empty,
    /// Equal to the medium.
    Clean,
    /// To be written, not begun.
    Dirty,
    /// Being read.
    Reading,
    /// Being written.
    Writing,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) state: State,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The data came from the host.
    pub(super) written: bool,
    /// Sectors up to which read-ahead goes before anything else (`ahead_min`), and at most (`ahead_max`).
    pub(super) ahead_min: u64,
    pub(super) ahead_max: u64,
    /// The task that fills or writes the segment.
    pub(super) owner: Option<TaskId>,
    /// Number of tasks that use it.
    pub(super) users: u16,
}

impl Segment {
    pub(super) fn holds(&self, sector: u64) -> bool {
        self.start <= sector && sector < self.end
    }

    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.state != State::Empty && self.start < end && start < self.end
    }

    /// Holds data that no task uses.
    pub(super) fn unused(&self) -> bool {
        self.state == State::Clean && self.users == 0
    }

    /// Holds data that is not on the medium.
    pub(super) fn unwritten(&self) -> bool {
        matches!(self.state, State::Dirty | State::Writing)
    }

    /// Drops the oldest sectors beyond `size`.
    pub(super) fn wrap(&mut self, size: u64) {
        self.start = self.start.max(self.end.saturating_sub(size));
    }
}

/// Most segments of a buffer: as many as any published drive has. A power of two, so that indexing needs no bounds check.
pub(crate) const SEGMENTS_MAX: u32 = 2048;
const ROOM: usize = SEGMENTS_MAX as usize;

/// The buffer's segments.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    table: Box<[Segment; ROOM]>,
    count: usize,
}

impl Segments {
    /// `count` empty segments; at most [`SEGMENTS_MAX`].
    pub(super) fn new(count: usize) -> Self {
        Self { table: Box::new([Segment::default(); ROOM]), count }
    }

    pub(super) fn all(&self) -> &[Segment] {
        &self.table[..self.count]
    }

    pub(super) fn all_mut(&mut self) -> &mut [Segment] {
        &mut self.table[..self.count]
    }
}

impl Index<u16> for Segments {
    type Output = Segment;

    fn index(&self, number: u16) -> &Segment {
        &self.table[usize::from(number) % ROOM]
    }
}

impl IndexMut<u16> for Segments {
    fn index_mut(&mut self, number: u16) -> &mut Segment {
        &mut self.table[usize::from(number) % ROOM]
    }
}
