//! Selection of a segment for a task.
//!
//! Reads, best first: a segment with all of the data (dirty, being written, being read, clean), with the first part of it
//! (same order), an empty one, the least recently used clean one, one that only reads ahead. Writes: a segment that ends where
//! the write begins, a clean one that it overlaps, an empty one, a clean one, one that only reads ahead. Among equals, the
//! least recently used.

use elevator::cold_path;

use super::Rotating;
use super::preempt::Preemption;
use super::segment::{Segment, State};
use super::task::{Hit, Task, TaskId};
use crate::mechanics::Picos;
use crate::parameters::{Caching, Fidelity};

/// The value of a segment that only reads ahead. It can be used only if the read-ahead can be stopped.
const LAST_RESORT: u8 = 1;

impl Rotating {
    /// Sets the task's segment and hit.
    pub(super) fn select(&mut self, now: Picos, id: TaskId) {
        let task = self.task(id);
        let (value, segment, hit) = if task.write && !self.tasks.has_room_to_stay() {
            (0, None, Hit::Miss)
        } else if task.write {
            let stacked = self.unwritten_segments() < self.buffer.write_segments as usize;
            let room = stacked && self.memory_takes(task);
            self.best(task, |segment| self.value_for_write(task, segment, room))
        } else {
            self.best(task, |segment| self.value_for_read(task, segment))
        };
        let task = self.task_mut(id);
        (task.segment, task.hit) = (segment, hit);
        if value == LAST_RESORT && self.preemption(now, id) == Preemption::Impossible {
            self.task_mut(id).segment = None;
        }
    }

    /// The segment of the greatest value, among equals the least recently used; none if the task must wait.
    ///
    /// `value` returns a segment's value for the task (0: useless) and the resulting hit, or nothing if the task must wait for it.
    #[inline]
    fn best(&self, task: &Task, value: impl Fn(&Segment) -> Option<(u8, Hit)>) -> (u8, Option<u16>, Hit) {
        let mut best = (0, None, Hit::Miss);
        let apart = self.has_write_segment();
        for &index in &self.order {
            let segment = &self.segments[index];
            let usable = if apart && self.set_aside(index) != task.write {
                let in_the_way = segment.unwritten() && task.overlaps(segment.start, segment.end);
                (!in_the_way).then_some((0, Hit::Miss))
            } else {
                value(segment)
            };
            let Some((value, hit)) = usable else { return (0, None, Hit::Collision) };
            if value > best.0 {
                best = (value, Some(index), hit);
            }
        }
        best
    }

    /// Whether the first segment is reserved for writes.
    fn has_write_segment(&self) -> bool {
        self.buffer.separate_write_segment && self.segments.all().len() > 1
    }

    fn set_aside(&self, index: u16) -> bool {
        index == 0
    }

    fn value_for_read(&self, task: &Task, s: &Segment) -> Option<(u8, Hit)> {
        if s.state == State::Empty {
            cold_path();
            return Some((3, Hit::Miss));
        }
        if s.holds(task.start) {
            cold_path();
            return self.value_of_hit(task, s);
        }
        if s.unused() { Some((2, Hit::Miss)) } else { self.value_elsewhere(task, s) }
    }

    /// The value for a read that begins inside the segment.
    #[inline(never)]
    fn value_of_hit(&self, task: &Task, s: &Segment) -> Option<(u8, Hit)> {
        let caching = self.buffer.caching != Caching::None;
        let value = match s.state {
            State::Dirty | State::Writing if !self.buffer.read_hits_on_writes => return None,
            State::Dirty if caching => 11,
            State::Writing if caching => 10,
            State::Reading if caching => 9,
            State::Clean if self.buffer.read_hits_on_writes || !s.written => 8,
            _ if s.unused() => return Some((2, Hit::Miss)),
            _ => return Some((0, Hit::Miss)),
        };
        Some(if s.end >= task.end { (value, Hit::Whole) } else { (value - 4, Hit::Partial) })
    }

    /// The value for a read that begins outside the segment, which is in use.
    #[inline(never)]
    fn value_elsewhere(&self, task: &Task, s: &Segment) -> Option<(u8, Hit)> {
        match s.state {
            State::Reading if s.end == task.start && self.buffer.almost_read_hits => Some((5, Hit::Partial)),
            State::Clean if s.end == task.start && self.goes_on(s) => Some((5, Hit::Partial)),
            State::Reading if self.only_read_ahead(s) && s.users == 1 => Some((LAST_RESORT, Hit::Miss)),
            State::Dirty | State::Writing if s.overlaps(task.start, task.end) => None,
            _ => Some((0, Hit::Miss)),
        }
    }

    /// Whether a read that begins where the segment's data ends continues in it, because unsent data keeps the segment in use.
    /// DiskSim gives each such read a segment of its own, and loses a revolution when none is left.
    fn goes_on(&self, s: &Segment) -> bool {
        s.users > 0 && !s.written && self.buffer.almost_read_hits && self.fidelity == Fidelity::Drive
    }

    fn value_for_write(&self, task: &Task, s: &Segment, room: bool) -> Option<(u8, Hit)> {
        let overlaps = s.overlaps(task.start, task.end);
        if room && s.unused() {
            return Some((if overlaps { 4 } else { 2 }, Hit::Miss));
        }
        match s.state {
            State::Empty if room => Some((3, Hit::Miss)),
            State::Reading if room && self.only_reads_ahead(s) => Some((LAST_RESORT, Hit::Miss)),
            State::Dirty | State::Writing if self.appends(task, s) => {
                Some((if s.state == State::Writing { 7 } else { 6 }, Hit::Append))
            }
            _ if overlaps && !self.passes_over(s) => None,
            _ => Some((0, Hit::Miss)),
        }
    }

    /// In DiskSim, a write without room may append to another segment, whatever idle data this segment holds of it.
    fn passes_over(&self, s: &Segment) -> bool {
        self.fidelity == Fidelity::DiskSim && (s.unused() || self.only_reads_ahead(s))
    }

    /// Whether the segment is being filled by read-ahead only.
    fn only_reads_ahead(&self, s: &Segment) -> bool {
        s.state == State::Reading && s.users == 1 && self.only_read_ahead(s)
    }

    /// Whether a write begins where the segment's unwritten data ends, and has room.
    pub(super) fn appends(&self, task: &Task, s: &Segment) -> bool {
        let Some(owner) = s.owner else { return false };
        self.buffer.combine_writes
            && task.start == s.end
            && self.last_write_ends(s) == task.start
            && task.start - self.task(owner).media < self.segment_size()
            && self.fits_behind(task, s)
            && !self.moving(s)
            && self.memory_takes(task)
    }

    /// Whether all of a write fits behind the segment's unwritten data: a rest that comes too late costs a revolution. DiskSim
    /// appends whatever fits.
    fn fits_behind(&self, task: &Task, s: &Segment) -> bool {
        if self.fidelity != Fidelity::Drive {
            return true;
        }
        let unwritten = self.writes_in(s).filter(|t| t.dirty()).map(|t| t.media).min();
        unwritten.is_none_or(|from| task.end - from <= self.segment_size())
    }

    /// The first sector in a write's segment that is not on the medium; sectors before it make room. DiskSim asks only for the
    /// owner's, which may be finished long before the segment is.
    pub(super) fn unwritten_from(&self, id: TaskId, index: u16) -> u64 {
        let own = self.task(id).media;
        if self.fidelity != Fidelity::Drive {
            return self.segments[index].owner.map_or(own, |owner| self.task(owner).media);
        }
        let others = self.live.iter().map(|&other| self.task(other));
        let dirty = others.filter(|t| t.segment == Some(index) && t.dirty());
        dirty.map(|t| t.media).min().map_or(own, |least| least.min(own))
    }

    fn last_write_ends(&self, s: &Segment) -> u64 {
        self.writes_in(s).map(|t| t.end).max().unwrap_or(0)
    }

    fn writes_in(&self, s: &Segment) -> impl Iterator<Item = &Task> {
        let writes = self.live.iter().map(|&id| self.task(id)).filter(|t| t.write);
        writes.filter(move |t| t.segment.is_some_and(|i| core::ptr::eq(s, &self.segments[i])))
    }

    fn unwritten_segments(&self) -> usize {
        self.segments.all().iter().filter(|s| s.unwritten()).count()
    }

    fn only_read_ahead(&self, s: &Segment) -> bool {
        s.owner.is_some_and(|id| self.task(id).reported)
    }

    pub(super) fn segment_size(&self) -> u64 {
        u64::from(self.buffer.segment_sectors)
    }

    /// Attaches the task to its segment, which becomes the most recently used. A write drops clean data that it makes stale.
    pub(super) fn attach(&mut self, id: TaskId) {
        let Some(index) = self.task(id).segment else { return };
        let mut later = index;
        for listed in self.order.iter_mut().rev() {
            (later, *listed) = (*listed, later);
            if later == index {
                break;
            }
        }
        let task = *self.task(id);
        if task.write {
            self.drop_stale(index, task.start, task.end);
        }
        let watermark = self.watermark(id);
        self.task_mut(id).watermark = watermark;
        self.segments[index].users += 1;
        self.make_memory(id, index);
    }

    /// The amount of a request for which reselection is worthwhile, in sectors.
    pub(super) fn watermark(&self, id: TaskId) -> u64 {
        let task = self.task(id);
        if self.passes_through(task) {
            return self.segment_size() / 2;
        }
        if !self.buffer.watermark_of_request {
            return self.watermarks[usize::from(task.write)];
        }
        let part = if task.write { self.buffer.write_watermark } else { self.buffer.read_watermark };
        let size = self.segment_size().min(task.end - task.start) as u32;
        u64::from((f64::from(size) * part) as u32).max(1)
    }

    /// Whether a write is longer than its segment: it reselects when half of the segment is written. In DiskSim it reselects when
    /// all is written, unless there is a watermark, and loses a revolution.
    fn passes_through(&self, task: &Task) -> bool {
        let drive = self.fidelity == Fidelity::Drive && self.buffer.write_watermark == 0.0;
        drive && task.write && task.end - task.start > self.segment_size()
    }

    fn drop_stale(&mut self, except: u16, start: u64, end: u64) {
        for (i, s) in self.segments.all_mut().iter_mut().enumerate() {
            if i != usize::from(except) && s.unused() && s.overlaps(start, end) {
                s.state = State::Empty;
            }
        }
    }

    /// Makes the task the segment's owner, unless it has one. A miss resets the segment.
    pub(super) fn own(&mut self, id: TaskId) {
        let Some(index) = self.task(id).segment else { return };
        let task = *self.task(id);
        if self.segments[index].owner.is_some() {
            return;
        }
        self.task_mut(id).owns_segment = true;
        let fresh = task.hit == Hit::Miss;
        let segment = &mut self.segments[index];
        segment.owner = Some(id);
        if fresh {
            let at = if task.write { task.media } else { task.sent };
            (segment.start, segment.end, segment.ahead_min, segment.ahead_max) = (at, at, 0, 0);
            segment.state = if task.write { State::Dirty } else { State::Clean };
        }
        let segment = &mut self.segments[index];
        segment.written = task.write;
        if !task.write {
            let ahead = self.ahead_limits(id, index);
            self.extend_ahead(index, ahead);
        }
    }

    /// Detaches the task from its segment.
    pub(super) fn detach(&mut self, id: TaskId) {
        let task = self.task_mut(id);
        task.owns_segment = false;
        let Some(index) = task.segment.take() else { return };
        let segment = &mut self.segments[index];
        segment.users = segment.users.saturating_sub(1);
        if segment.owner == Some(id) {
            segment.owner = None;
            self.find_owner(index);
        }
    }

    /// The next owner: a read that had the arm, then a write that appends, then the task that has the arm.
    fn find_owner(&mut self, index: u16) {
        let rank = |id: TaskId| {
            let t = self.task(id);
            match () {
                () if t.segment != Some(index) => None,
                () if self.arm != Some(id) && t.had_arm && !t.write && !t.reported => Some(0),
                () if t.hit == Hit::Append => Some(1),
                () if self.arm == Some(id) => Some(2),
                () => None,
            }
        };
        let ranked = self.live.iter().filter_map(|&id| Some((rank(id)?, id)));
        let next = ranked.min_by_key(|&(rank, _)| rank).map(|(_, id)| id);
        if let Some(id) = next {
            self.own(id);
        }
    }
}
