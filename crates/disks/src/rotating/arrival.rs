//! Arrival of commands.

use elevator::{Op, cold_path};

use super::Rotating;
use super::bus::{Bus, Message};
use super::preempt::Preemption;
use super::task::{Hit, Task, TaskId};
use crate::drive::Command;
use crate::mechanics::Picos;
use crate::parameters::{FastWrite, Fidelity};

impl Rotating {
    pub(super) fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id]
    }

    pub(super) fn task_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.tasks[id]
    }

    fn new_task(&mut self, task: Task) -> TaskId {
        let id = self.tasks.add(task);
        self.live.push(id);
        self.waiting.push(id);
        id
    }

    /// Removes a task for which nothing remains to be done.
    pub(super) fn finish(&mut self, id: TaskId) {
        self.detach(id);
        remove(&mut self.live, id);
        remove(&mut self.waiting, id);
        self.tasks.remove(id);
    }

    /// The task no longer waits for the arm.
    pub(super) fn stop_waiting(&mut self, id: TaskId) {
        remove(&mut self.waiting, id);
    }

    pub(super) fn arrive(&mut self, now: Picos, command: Command) {
        self.serial += 1;
        if command.op == Op::Flush {
            cold_path();
            self.flushes.push((self.serial, command.tag, now));
            return;
        }
        self.sync(now);
        let (start, write) = (command.start.0, command.op == Op::Write);
        let id = self.new_task(Task {
            tag: command.tag,
            write,
            forced: command.fua,
            start,
            end: start + u64::from(command.sectors.0),
            media: start,
            sent: start,
            arrived: now,
            serial: self.serial,
            ..Default::default()
        });
        self.select(now, id);
        if write { self.write_arrives(now, id) } else { self.read_arrives(now, id) }
    }

    /// A read with enough data in the buffer keeps the bus; any other disconnects while the arm moves.
    fn read_arrives(&mut self, now: Picos, id: TaskId) {
        let timing = self.timing;
        let miss = timing.read_miss.get(self.last_was_write);
        self.task_mut(id).ready_at = now + miss;
        let ready = self.enough_to_send(id) && (self.sneaks(id) || self.nothing_before(now, id));
        if ready || self.bus_parameters.never_disconnect {
            let hit = self.task(id).hit != Hit::Miss && self.task(id).hit != Hit::Collision;
            let overhead = if hit { self.read_hit_overhead() } else { miss };
            self.attach(id);
            self.send(now, Message::Ready(id), overhead + timing.data_preparation);
            self.activate(now, id, false);
        } else {
            let leave = timing.read_disconnect.get(self.last_was_write);
            self.send(now, Message::Leave(id), miss + leave);
            self.activate(now, id, true);
            self.schedule_return(id, now + miss + leave);
        }
    }

    /// The overhead of a read hit. An idle drive with a write cache takes longer; see [`Fidelity`].
    fn read_hit_overhead(&self) -> Picos {
        let after = self.timing.read_hit.get(self.last_was_write);
        let rests = self.access.is_none() && self.live.len() == 1;
        let caches_writes = self.buffer.fast_write != FastWrite::None;
        if rests && caches_writes && self.fidelity == Fidelity::Drive {
            after.max(self.timing.read_hit.mean())
        } else {
            after
        }
    }

    fn write_overhead(&self, id: TaskId) -> Picos {
        let hit = self.timing.write_hit.get(self.last_was_write);
        let miss = self.timing.write_miss.get(self.last_was_write);
        let sequential_only = self.buffer.fast_write == FastWrite::Sequential;
        if !self.fast(id) {
            miss
        } else if sequential_only && self.fidelity == Fidelity::Drive && self.task(id).hit != Hit::Append {
            hit.max(miss)
        } else {
            hit
        }
    }

    /// Whether enough of a read is in the buffer that it need not disconnect.
    fn enough_to_send(&self, id: TaskId) -> bool {
        let task = self.task(id);
        let Some(segment) = task.segment else { return false };
        let segment = &self.segments[segment];
        match task.hit {
            Hit::Whole => true,
            Hit::Partial if self.buffer.transfer_partial_hit => true,
            Hit::Partial => {
                let size = self.segment_size();
                let length = task.end - task.start;
                let base = if self.buffer.watermark_of_request { size.min(length) } else { size };
                let watermark = ((base as f64 * self.buffer.read_watermark).ceil() as u64).clamp(1, length);
                segment.end >= task.start + watermark
            }
            Hit::Miss | Hit::Append | Hit::Collision => false,
        }
    }

    /// Whether no other task waits for the bus, and the arm's owner can be preempted or joined.
    fn nothing_before(&mut self, now: Picos, id: TaskId) -> bool {
        !self.any_pending()
            && (self.arm.is_none()
                || self.needs_no_arm(id)
                || self.preemption(now, id) != Preemption::Impossible)
    }

    /// A write that completes in the buffer needs a segment but not the arm, whatever the arm is writing. In DiskSim it waits for
    /// the arm, which costs a stream of writes one revolution per segment.
    fn buffers_beside_arm(&self, id: TaskId) -> bool {
        let writes = self.arm.is_some_and(|arm| self.task(arm).write);
        self.fidelity == Fidelity::Drive && self.fast(id) && writes && !self.any_pending()
    }

    pub(super) fn fast(&self, id: TaskId) -> bool {
        self.buffer.fast_write != FastWrite::None && !self.task(id).forced
    }

    /// A write with room in the buffer keeps the bus until its data is there.
    fn write_arrives(&mut self, now: Picos, id: TaskId) {
        let timing = self.timing;
        let overhead = self.write_overhead(id);
        self.task_mut(id).ready_at = now + overhead;
        let early = self.buffer.prebuffer_writes && self.extra.is_none();
        let room = self.task(id).segment.is_some()
            && (early || self.nothing_before(now, id) || self.buffers_beside_arm(id));
        if !room && !self.bus_parameters.never_disconnect {
            let leave = if self.fast(id) { timing.write_disconnect } else { 0 };
            self.send(now, Message::Leave(id), overhead + leave);
            self.activate(now, id, true);
            return;
        }
        self.attach(id);
        if let Some(extra) = timing.extra
            && self.follows_unrelated_write(id)
        {
            let task = self.task_mut(id);
            (task.extra, task.ready_at) = (true, now + extra.seek);
            self.extra = Some(id);
            self.send(now, Message::Leave(id), extra.command + extra.disconnect);
            self.activate(now, id, false);
        } else {
            self.bus = Bus::Held(id);
            self.activate(now, id, false);
            self.prepare(now, id, overhead + timing.data_preparation);
        }
    }

    /// A write that follows another write, but does not begin where that one ended, disconnects twice. The trace of the HP C2247A
    /// marks exactly these 1,660 writes. DiskSim 4.0 checks whether the two share a segment instead.
    fn follows_unrelated_write(&self, id: TaskId) -> bool {
        let unrelated = self.last_was_write && self.task(id).start != self.last_end;
        unrelated && self.extra.is_none() && !self.bus_parameters.never_disconnect
    }
}

/// Removes a task from a list in which it occurs at most once, usually last.
fn remove(list: &mut Vec<TaskId>, id: TaskId) {
    if list.last() == Some(&id) {
        list.pop();
    } else if let Some(at) = list.iter().position(|&listed| listed == id) {
        cold_path();
        list.remove(at);
    }
}
