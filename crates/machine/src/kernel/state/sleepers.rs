//! Sleeping tasks and the events that wake them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use elevator::{Span, Time};
use hashbrown::HashMap;

use super::tasks::TaskId;
use crate::kernel::cache::{FileId, PageId};

/// The event that a task sleeps on. A woken task checks whether its condition holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::kernel) enum Wait {
    /// The read or the writeback of a page completed.
    Page(PageId),
    /// The last submission of a task's direct or journal I/O completed.
    Io(TaskId),
    /// The queue of writes is no longer congested.
    AnyWrite,
    /// Writeback completed, so pages can be reclaimed.
    Memory,
    /// A transaction became durable.
    Durable,
    /// The journal may admit handles or changes that it refused.
    JournalRetry,
    /// Admission of a call by a split-level policy.
    Admission(TaskId),
    /// Work for a thread.
    Work(TaskId),
    /// The content lock of a file was released.
    Lock(FileId),
    /// Time only.
    Timer,
}

/// The sleep of a task.
#[derive(Clone, Copy, Default)]
struct Nap {
    /// Number of its sleeps, so that the event of an earlier sleep does not end a later one.
    number: u64,
    asleep: bool,
    /// The processor is busy with the task until this time.
    busy_until: Time,
}

/// Sleeping tasks, and tasks that are ready.
#[derive(Default)]
pub(in crate::kernel) struct Sleepers {
    naps: Vec<Nap>,
    waiting: HashMap<Wait, Vec<(TaskId, u64)>>,
    /// Lists kept for their allocation.
    spare: Vec<Vec<(TaskId, u64)>>,
    timers: BinaryHeap<Reverse<(Time, u64, TaskId, u64)>>,
    timer_numbers: u64,
    /// Processor time of all tasks.
    spent: Span,
    woken: Vec<TaskId>,
}

impl Sleepers {
    fn nap(&mut self, task: TaskId) -> &mut Nap {
        if task.index() >= self.naps.len() {
            self.naps.resize(task.index() + 1, Nap::default());
        }
        &mut self.naps[task.index()]
    }

    /// Charges processor time to a task.
    pub(in crate::kernel) fn spend(&mut self, now: Time, task: TaskId, span: Span) {
        self.spent += span;
        let nap = self.nap(task);
        nap.busy_until = nap.busy_until.max(now) + span;
    }

    /// Processor time of all tasks.
    pub(in crate::kernel) const fn spent(&self) -> Span {
        self.spent
    }

    /// The time until which the processor is busy with a task.
    pub(in crate::kernel) fn busy_until(&mut self, task: TaskId) -> Time {
        self.nap(task).busy_until
    }

    /// Puts a task to sleep until `on` or, if given, until `alarm`.
    pub(in crate::kernel) fn sleep(&mut self, task: TaskId, on: Wait, alarm: Option<Time>) {
        let nap = self.nap(task);
        nap.number += 1;
        nap.asleep = true;
        let number = nap.number;
        if on != Wait::Timer {
            let spare = &mut self.spare;
            self.waiting.entry(on).or_insert_with(|| spare.pop().unwrap_or_default()).push((task, number));
        }
        if let Some(at) = alarm {
            self.set(at, task, number);
        }
    }

    fn set(&mut self, at: Time, task: TaskId, number: u64) {
        self.timer_numbers += 1;
        self.timers.push(Reverse((at, self.timer_numbers, task, number)));
    }

    /// Wakes all tasks that sleep on an event.
    pub(in crate::kernel) fn wake(&mut self, now: Time, on: Wait) {
        let Some(mut tasks) = self.waiting.remove(&on) else { return };
        for (task, number) in tasks.drain(..) {
            self.end(now, task, number);
        }
        self.spare.push(tasks);
    }

    fn end(&mut self, now: Time, task: TaskId, number: u64) {
        let nap = &mut self.naps[task.index()];
        if !nap.asleep || nap.number != number {
            return;
        }
        if nap.busy_until > now {
            let at = nap.busy_until;
            self.set(at, task, number);
            return;
        }
        nap.asleep = false;
        self.woken.push(task);
    }

    /// Wakes tasks whose alarm is due.
    pub(in crate::kernel) fn ring(&mut self, now: Time) {
        while let Some(&Reverse((at, _, task, number))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            self.end(now, task, number);
        }
    }

    /// The next alarm. Alarms of sleeps that have ended are included; they wake no task.
    pub(in crate::kernel) fn next_alarm(&self) -> Option<Time> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the ready tasks, in the order in which they were woken.
    pub(in crate::kernel) fn take_woken(&mut self, into: &mut Vec<TaskId>) {
        into.append(&mut self.woken);
    }
}
