//! Buffer memory shared by the segments: each segment takes as much as it holds, and the commands determine how many segments
//! hold reads and how many hold writes.
//!
//! "A variable number of read and write buffers may exist at the same time"; write commands "continue to be accepted [...]
//! until either the write command stack is full or the data buffer is full" (Maxtor's product manuals, 1998 to 2002). The
//! stack is [`write_segments`](crate::parameters::BufferParameters::write_segments). Writes leave the length of one segment
//! to reads.

use super::Rotating;
use super::segment::State;
use super::task::{Task, TaskId};

impl Rotating {
    /// Whether the memory has room for a write until its data is on the medium. A single write always has.
    pub(super) fn memory_takes(&self, task: &Task) -> bool {
        let memory = u64::from(self.buffer.memory_sectors);
        let unwritten = if memory == 0 { 0 } else { self.unwritten_sectors() };
        unwritten == 0 || unwritten + self.takes(task.start, task.end) + self.segment_size() <= memory
    }

    /// Drops clean data, least recently used first, until the memory has room for the task's segment.
    pub(super) fn make_memory(&mut self, id: TaskId, index: u16) {
        let memory = u64::from(self.buffer.memory_sectors);
        if memory == 0 {
            return;
        }
        let own = if self.task(id).write { 0 } else { self.segment_size() };
        let others = self.segments.all().iter().enumerate().filter(|&(at, _)| at != usize::from(index));
        let kept: u64 = others
            .map(|(_, s)| match s.state {
                State::Clean => s.end.saturating_sub(s.start),
                State::Reading => self.segment_size(),
                State::Empty | State::Dirty | State::Writing => 0,
            })
            .sum();
        let mut held = own + kept + self.unwritten_sectors();
        for &at in &self.order {
            if held <= memory {
                return;
            }
            let segment = &mut self.segments[at];
            if at != index && segment.unused() {
                held -= segment.end.saturating_sub(segment.start);
                segment.state = State::Empty;
            }
        }
    }

    /// Sectors in the buffer, or on their way there, that are not on the medium.
    fn unwritten_sectors(&self) -> u64 {
        let tasks = self.live.iter().map(|&id| self.task(id));
        tasks.filter(|task| task.segment.is_some() && task.dirty()).map(|t| self.takes(t.media, t.end)).sum()
    }

    /// Memory for a range of sectors: a write longer than a segment passes through it.
    fn takes(&self, from: u64, end: u64) -> u64 {
        (end - from).min(self.segment_size())
    }
}
