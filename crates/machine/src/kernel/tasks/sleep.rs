//! Who sleeps on what.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use elevator::{Span, Time};
use hashbrown::HashMap;

use crate::kernel::cache::{FileId, PageId};

/// A task: the kernel's threads first, then one per process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct TaskId(pub(crate) u32);

impl TaskId {
    /// As an array index.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a task sleeps on. It is woken when that happens, and looks again whether it is what it needed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::kernel) enum Wait {
    /// A page came from the device, or reached it.
    Page(PageId),
    /// The last part of a task's direct or journal I/O is done.
    Io(TaskId),
    /// The queue of writes is no longer congested.
    AnyWrite,
    /// Pages were written, which may leave memory now.
    Memory,
    /// Some transaction is durable.
    Durable,
    /// The journal lets those try again that it turned away.
    JournalRetry,
    /// Leave to begin a call, from a split policy.
    Leave(TaskId),
    /// Work for a thread.
    Work(TaskId),
    /// The file's content is not being changed.
    Lock(FileId),
    /// Only time.
    Timer,
}

/// One task's sleep.
#[derive(Clone, Copy, Default)]
struct Nap {
    /// Counts its sleeps, so that what would have ended an earlier one does not end this.
    number: u64,
    asleep: bool,
    /// Its processor is busy with it until then: it goes on no earlier.
    busy_until: Time,
}

/// Every sleeping task, and those that may go on.
#[derive(Default)]
pub(in crate::kernel) struct Sleepers {
    naps: Vec<Nap>,
    waiting: HashMap<Wait, Vec<(TaskId, u64)>>,
    /// Lists kept for the next wait.
    spare: Vec<Vec<(TaskId, u64)>>,
    timers: BinaryHeap<Reverse<(Time, u64, TaskId, u64)>>,
    timer_numbers: u64,
    /// What everybody has used of the processor.
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

    /// The task used the processor for so long.
    pub(in crate::kernel) fn spend(&mut self, now: Time, task: TaskId, span: Span) {
        self.spent += span;
        let nap = self.nap(task);
        nap.busy_until = nap.busy_until.max(now) + span;
    }

    /// What all tasks have used of their processors.
    pub(in crate::kernel) const fn spent(&self) -> Span {
        self.spent
    }

    /// Until when the processor is busy with the task; in the past if it is not.
    pub(in crate::kernel) fn busy_until(&mut self, task: TaskId) -> Time {
        self.nap(task).busy_until
    }

    /// Puts a task to sleep until `on` happens or, if there is an alarm, until then.
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

    /// It happened: everybody who sleeps on it may go on.
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

    /// Tasks whose alarm rings by now may go on.
    pub(in crate::kernel) fn ring(&mut self, now: Time) {
        while let Some(&Reverse((at, _, task, number))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            self.end(now, task, number);
        }
    }

    /// When the next alarm rings. Alarms of sleeps that have ended ring too; nobody hears them.
    pub(in crate::kernel) fn next_alarm(&self) -> Option<Time> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// Somebody who may go on, first woken first.
    pub(in crate::kernel) fn take_woken(&mut self, into: &mut Vec<TaskId>) {
        into.append(&mut self.woken);
    }
}
