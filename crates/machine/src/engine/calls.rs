//! System calls: how they begin, sleep, submit and return.

use elevator::queue::Accepted;
use elevator::split::Terms;
use elevator::{Direction, Outcome, Span, Time, cold_path};

use super::process::{Blocked, Called, Turn};
use super::{Failure, Machine, Outstanding};
use crate::alarms::earlier;
use crate::kernel::{Call, Kernel, Polled, Returned, TaskId};

/// If only alarms of the kernel happen for this long, processes wait for an event that cannot happen. The longest wait that
/// the kernel ends by itself is the age of dirty pages, 30 s.
const NOTHING_COMES: Span = Span::from_secs(600);

impl Machine {
    /// Adds a kernel between programs and the queue. Without one, a program that makes a system call fails the run.
    pub fn boot(&mut self, mut kernel: Kernel) {
        for index in 0..self.processes.len() {
            let (process, priority) = self.processes.identity(index);
            kernel.process_started(index, process, priority);
        }
        if let Some(boundary) = self.storage.read_boundary() {
            kernel.cut_reads_at(boundary);
        }
        self.kernel = Some(kernel);
    }

    /// Sets the terms of a process, by the number of its thread group, for split-level policies. Call it after
    /// [`boot`](Self::boot) and before the process starts. Without terms a process has its priority and no limits.
    pub fn agree(&mut self, process: u32, terms: Terms) {
        if let Some(kernel) = &mut self.kernel {
            kernel.agree(process, terms);
        }
    }

    pub const fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    /// The kernel, for changes between runs.
    pub const fn kernel_mut(&mut self) -> Option<&mut Kernel> {
        self.kernel.as_mut()
    }

    /// The time of the next event, alarms of the kernel included while they matter.
    #[inline]
    pub(super) fn with_kernel_alarm(&mut self, outside: Option<Time>) -> Option<Time> {
        if self.kernel.is_none() { outside } else { self.earlier_than_kernel(outside) }
    }

    #[cold]
    fn earlier_than_kernel(&mut self, outside: Option<Time>) -> Option<Time> {
        let Some(kernel) = &self.kernel else { return outside };
        if self.live == 0 {
            return self.has_own_requests().then_some(outside).flatten();
        }
        if outside.is_some() {
            self.active = self.now;
        } else if self.no_process_in_call() || self.now.since(self.active) > NOTHING_COMES {
            return None;
        }
        earlier(outside, kernel.next_alarm())
    }

    fn no_process_in_call(&self) -> bool {
        self.processes.active().all(|(_, process)| process.blocked != Blocked::Call)
    }

    fn has_own_requests(&self) -> bool {
        self.processes.has_requests()
    }

    #[inline]
    pub(super) fn advance_kernel(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            cold_path();
            kernel.advance(self.now);
            self.schedule_woken_tasks();
        }
    }

    /// Connects a split-level policy to the kernel.
    pub(super) fn connect_policy(&mut self) -> Result<(), Failure> {
        let splits = self.storage.queue().is_some_and(|queue| queue.split().is_some());
        self.splits = splits;
        match &mut self.kernel {
            Some(kernel) => kernel.listen(splits),
            None if splits => return Err(Failure::NoHooks),
            None => {}
        }
        Ok(())
    }

    /// Passes the kernel's events to a split-level policy.
    fn notify_policy(&mut self) {
        if self.splits
            && let Some(split) = self.storage.queue().and_then(|queue| queue.split())
            && let Some(kernel) = &mut self.kernel
        {
            kernel.notify(self.now, split);
        }
    }

    /// Passes the kernel's events to a split-level policy and applies its actions.
    fn consult_policy(&mut self) {
        self.notify_policy();
        while self.splits
            && let Some(split) = self.storage.queue().and_then(|queue| queue.split())
            && let Some(action) = split.act(self.now)
            && let Some(kernel) = &mut self.kernel
        {
            kernel.apply(action);
        }
    }

    /// The alarm of a split-level policy.
    pub(super) fn policy_alarm(&mut self) -> Option<Time> {
        if self.live > 0 { self.storage.queue()?.split()?.alarm() } else { None }
    }

    /// Schedules the tasks that the kernel has woken.
    #[inline]
    pub(super) fn schedule_woken_tasks(&mut self) {
        if self.kernel.is_some() || self.splits {
            cold_path();
            self.schedule_kernel_tasks();
        }
    }

    // Out of line, so that only the check is inlined.
    #[inline(never)]
    fn schedule_kernel_tasks(&mut self) {
        self.consult_policy();
        if let Some(kernel) = &mut self.kernel {
            kernel.take_woken(&mut self.woken);
            self.runnable.extend(self.woken.drain(..).map(Turn::of));
        }
    }

    pub(super) fn kernel_finished(&mut self, bio: u64, outcome: Outcome) {
        let requests = self.storage.requests(Direction::Write);
        if let Some(kernel) = &mut self.kernel {
            kernel.update_congestion(requests);
            kernel.arrived(bio, outcome);
        }
    }

    pub(super) fn take_turn(&mut self, turn: Turn) {
        match turn {
            Turn::Process(process) => self.run_process(process),
            Turn::Thread(task) => self.run_thread(task),
        }
    }

    #[inline(never)]
    fn run_thread(&mut self, task: TaskId) {
        self.storage.plug();
        if let Some(kernel) = &mut self.kernel {
            let polled = kernel.poll(task);
            // Kernel threads do not return.
            let _ = self.follow(task, polled);
        }
        self.storage.unplug(self.now, true);
    }

    /// Polls a task and submits its requests, until it sleeps or returns.
    fn follow(&mut self, task: TaskId, mut polled: Polled) -> Option<(Returned, Time)> {
        loop {
            let mut submission = match polled {
                Polled::Returned(returned, until) => return Some((returned, until)),
                Polled::Asleep => return None,
                Polled::Submit(submission) => submission,
            };
            self.notify_policy();
            submission.token = self.token(Outstanding::Kernel { task, bio: submission.token.0 });
            if self.storage.submit(self.now, submission) == Accepted::Asleep {
                return None;
            }
            let requests = self.storage.requests(Direction::Write);
            let kernel = self.kernel.as_mut()?;
            kernel.update_congestion(requests);
            polled = kernel.poll(task);
        }
    }

    /// Begins a system call; returns whether the process can continue at once.
    #[inline(never)]
    pub(super) fn call(&mut self, process: usize, call: Call) -> bool {
        self.record_interaction(process);
        let Some(kernel) = &mut self.kernel else {
            let process = self.stats.name(process).to_owned();
            self.failure = Some(Failure::NoKernel { process, call: call.to_string() });
            return false;
        };
        self.processes[process].blocked = Blocked::Call;
        let polled = kernel.call(process, call.clone());
        let called = Called { call: Some(call), since: self.now, returned: None };
        self.processes[process].call = Some(Box::new(called));
        self.finish_or_wait(process, polled)
    }

    /// Ends a process after the kernel has closed its files.
    #[inline(never)]
    pub(super) fn leave(&mut self, process: usize) {
        let Some(kernel) = &mut self.kernel else { return self.exit(process) };
        self.processes[process].blocked = Blocked::Call;
        let polled = kernel.exit(process);
        let called = Called { call: None, since: self.now, returned: None };
        self.processes[process].call = Some(Box::new(called));
        // An ended process does not continue.
        self.finish_or_wait(process, polled);
    }

    /// Resumes the system call of a process, if it is in one; returns whether the process can continue.
    #[inline]
    pub(super) fn resume_call(&mut self, process: usize) -> bool {
        self.processes[process].call.is_none() || self.resume_called(process)
    }

    #[cold]
    fn resume_called(&mut self, process: usize) -> bool {
        let Some(called) = &mut self.processes[process].call else { return true };
        if let Some(returned) = called.returned.take() {
            return self.deliver(process, returned);
        }
        let Some(kernel) = &mut self.kernel else { return true };
        let polled = kernel.poll(Kernel::task_of(process));
        self.finish_or_wait(process, polled)
    }

    fn finish_or_wait(&mut self, process: usize, polled: Polled) -> bool {
        let Some((returned, until)) = self.follow(Kernel::task_of(process), polled) else { return false };
        if until <= self.now {
            return self.deliver(process, returned);
        }
        if let Some(called) = &mut self.processes[process].call {
            called.returned = Some(returned);
        }
        self.alarms.set(until, process);
        false
    }

    /// Delivers the result of a call to the process.
    fn deliver(&mut self, process: usize, returned: Returned) -> bool {
        let Some(called) = self.processes[process].call.take() else { return true };
        let Called { call, since, .. } = *called;
        let Some(call) = call else {
            self.exit(process);
            return false;
        };
        self.stats.called(process, &call, &returned, since, self.now);
        let failed = if let Returned::Failed(errno) = &returned { Some(*errno) } else { None };
        let planned = self.processes[process].program.returned(returned);
        if let (Some(errno), false) = (failed, planned) {
            let process = self.stats.name(process).to_owned();
            self.failure = Some(Failure::Call { process, call: call.to_string(), errno });
            return false;
        }
        true
    }
}
