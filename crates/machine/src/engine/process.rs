//! The engine's record of a process.

use elevator::{Priority, Process, Time};

use crate::kernel::{Call, Kernel, Returned, TaskId};
use crate::program::{Await, Program};

/// A task that is ready to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    Process(usize),
    /// A thread of the kernel.
    Thread(TaskId),
}

impl Turn {
    pub(super) fn of(task: TaskId) -> Self {
        Kernel::process_of(task).map_or(Self::Thread(task), Self::Process)
    }
}

/// An unfinished system call.
pub(super) struct Called {
    /// The call; `None` while the kernel closes the files of a process that ends.
    pub(super) call: Option<Call>,
    pub(super) since: Time,
    /// The result, while the processor is still busy with the call.
    pub(super) returned: Option<Returned>,
}

/// What a process waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Blocked {
    /// Nothing: it is ready, or sleeps until an alarm.
    No,
    /// A free request in the queue.
    Asleep,
    /// Completions.
    On(Await),
    /// Other processes at a barrier.
    Barrier,
    /// Processes of other machines at a barrier.
    ClusterBarrier,
    /// The end of its children.
    Children,
    /// The return of its system call.
    Call,
    Ended,
}

/// One process.
pub(super) struct Running {
    /// Its identity in the block layer.
    pub(super) process: Option<Process>,
    pub(super) priority: Priority,
    pub(super) program: Box<dyn Program>,
    pub(super) parent: Option<usize>,
    pub(super) children: u32,
    pub(super) blocked: Blocked,
    pub(super) submitted: u64,
    /// Numbers of its unfinished submissions, in no order.
    pub(super) outstanding: Vec<u64>,
    pub(super) call: Option<Box<Called>>,
}

impl Running {
    pub(super) fn new(
        process: Option<Process>,
        priority: Priority,
        program: Box<dyn Program>,
        parent: Option<usize>,
    ) -> Self {
        Self {
            process,
            priority,
            program,
            parent,
            children: 0,
            blocked: Blocked::No,
            submitted: 0,
            outstanding: Vec::new(),
            call: None,
        }
    }

    /// Whether nothing of it is in flight.
    pub(super) fn is_free(&self) -> bool {
        self.outstanding.is_empty() && self.children == 0 && self.call.is_none()
    }

    /// Removes a finished submission.
    pub(super) fn ended(&mut self, number: u64) {
        if let Some(at) = self.outstanding.iter().position(|&unfinished| unfinished == number) {
            self.outstanding.swap_remove(at);
        }
    }

    pub(super) fn is_satisfied(&self, what: Await) -> bool {
        match what {
            Await::All => self.outstanding.is_empty(),
            Await::Io(n) => n < self.submitted && !self.outstanding.contains(&n),
            Await::Fewer(most) => self.outstanding.len() < most.max(1) as usize,
        }
    }

    /// Whether the wait ends only when all submissions of the process are finished, so that later submissions are served
    /// after earlier ones.
    pub(super) fn waits_for_all(&self, what: Await) -> bool {
        match what {
            Await::All => true,
            Await::Io(n) => self.outstanding.iter().all(|&unfinished| unfinished == n),
            Await::Fewer(most) => most <= 1,
        }
    }
}
