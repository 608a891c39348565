//! How far a drive reads ahead.

use super::Rotating;
use super::access::Access;
use super::segment::State;
use super::task::TaskId;
use crate::parameters::{Caching, KeepRequested, ReadAhead};

impl Rotating {
    pub(super) fn may_follow(&self, access: &Access) -> bool {
        match self.buffer.read_ahead {
            ReadAhead::Cylinder => access.same_cylinder(&self.head),
            ReadAhead::Track => access.same_track(&self.head),
            _ => true,
        }
    }

    /// The sectors behind the least and the most that is read ahead.
    pub(super) fn ahead_limits(&self, id: TaskId, index: u16) -> (u64, u64) {
        let task = self.task(id);
        let capacity = self.layout.capacity();
        let (min, max) = (u64::from(self.buffer.read_ahead_min), u64::from(self.buffer.read_ahead_max));
        let size = self.segment_size();
        let (count, end) = (task.end - task.start, task.end);
        let segment = &self.segments[index];
        let most = match self.buffer.read_ahead {
            ReadAhead::None => end,
            ReadAhead::TrackAhead => {
                let (first, last) = self.layout.track(end.min(capacity - 1));
                let stream = segment.start < first;
                if stream { last + u64::from(self.layout.per_track(task.start)) } else { last }
            }
            _ if max > 0 => end + max,
            _ if self.buffer.keep_requested != KeepRequested::Keep => end + size,
            _ if count >= size || size - count < min => end + min,
            _ => task.start + size,
        };
        ((end + min).min(capacity), most.min(capacity))
    }

    pub(super) fn extend_ahead(&mut self, index: u16, (min, max): (u64, u64)) {
        let segment = &mut self.segments[index];
        segment.ahead_min = segment.ahead_min.max(min);
        segment.ahead_max = segment.ahead_max.max(max);
    }

    pub(super) fn empty_if_no_cache(&mut self, index: u16) {
        let segment = &mut self.segments[index];
        if self.buffer.caching == Caching::None && segment.unused() {
            segment.state = State::Empty;
        }
    }
}
