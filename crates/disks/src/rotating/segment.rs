//! A segment of the buffer: one run of sectors, and what is being done with it.

use std::ops::{Index, IndexMut};

use super::task::TaskId;

/// What a segment's data is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    /// Nothing.
    #[default]
    Empty,
    /// As on the medium.
    Clean,
    /// To be written, not yet begun.
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
    /// Its data came from the host.
    pub(super) written: bool,
    /// Reading ahead goes at least to here before anything else, and at most to there.
    pub(super) ahead_min: u64,
    pub(super) ahead_max: u64,
    /// Whose data it is.
    pub(super) owner: Option<TaskId>,
    /// Tasks that use it.
    pub(super) users: u16,
}

impl Segment {
    pub(super) fn holds(&self, sector: u64) -> bool {
        self.start <= sector && sector < self.end
    }

    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.state != State::Empty && self.start < end && start < self.end
    }

    /// Holds data that nobody uses.
    pub(super) fn unused(&self) -> bool {
        self.state == State::Clean && self.users == 0
    }

    /// Being changed or to be written.
    pub(super) fn unwritten(&self) -> bool {
        matches!(self.state, State::Dirty | State::Writing)
    }

    /// Forgets what fell out at the front.
    pub(super) fn wrap(&mut self, size: u64) {
        self.start = self.start.max(self.end.saturating_sub(size));
    }
}

/// Segments that a buffer has at most: as many as any published drive, and a power of two, so that a number need not be checked.
pub(crate) const SEGMENTS_MAX: u32 = 2048;
const ROOM: usize = SEGMENTS_MAX as usize;

/// The buffer's segments.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    table: Box<[Segment; ROOM]>,
    count: usize,
}

impl Segments {
    /// So many, all empty; at most [`SEGMENTS_MAX`].
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
