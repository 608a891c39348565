//! Processes in the kernel: how calls begin, sleep, submit and return.

use elevator::queue::Accepted;
use elevator::split::Terms;
use elevator::{Direction, Outcome, Span, Time, cold_path};

use super::{Blocked, Failure, Machine, Outstanding, sooner};
use crate::kernel::{Call, Kernel, Polled, Returned, TaskId};

/// With nothing but the kernel's own alarms for so long, processes wait for what never comes. The longest that the kernel
/// lets anybody wait is the age of dirty pages, half a minute.
const NOTHING_COMES: Span = Span::from_secs(600);

/// Who may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// A process.
    Process(usize),
    /// A thread of the kernel.
    Thread(TaskId),
}

impl Turn {
    pub(super) fn of(task: TaskId) -> Self {
        Kernel::process_of(task).map_or(Self::Thread(task), Self::Process)
    }
}

/// A call on its way.
pub(super) struct Called {
    /// What was asked; `None` when the process ends and the kernel closes its files.
    call: Option<Call>,
    since: Time,
    /// What it came back with, while the processor is still busy with it.
    returned: Option<Returned>,
}

impl Machine {
    /// Puts a kernel between programs and the queue. Without one, a program that makes a system call fails the run.
    pub fn boot(&mut self, mut kernel: Kernel) {
        for (index, process) in self.processes.iter().enumerate() {
            kernel.born(index, process.who.process, process.who.priority);
        }
        if let Some(boundary) = self.storage.read_boundary() {
            kernel.cut_reads_at(boundary);
        }
        self.kernel = Some(kernel);
    }

    /// What was agreed with a process, by the number of its thread group, for policies above the block layer. After
    /// [`boot`](Self::boot) and before the process starts; one with which nothing was agreed has its priority and no limits.
    pub fn agree(&mut self, process: u32, terms: Terms) {
        if let Some(kernel) = &mut self.kernel {
            kernel.agree(process, terms);
        }
    }

    /// The kernel, if there is one.
    #[must_use]
    pub const fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    /// The kernel, to change something between runs.
    pub const fn kernel_mut(&mut self) -> Option<&mut Kernel> {
        self.kernel.as_mut()
    }

    /// When something happens next, the kernel's alarms included as long as they matter.
    #[inline]
    pub(super) fn with_kernel_alarm(&mut self, outside: Option<Time>) -> Option<Time> {
        if self.kernel.is_none() { outside } else { self.sooner_than_kernel(outside) }
    }

    #[cold]
    fn sooner_than_kernel(&mut self, outside: Option<Time>) -> Option<Time> {
        let Some(kernel) = &self.kernel else { return outside };
        if self.live == 0 {
            return self.has_own_requests().then_some(outside).flatten();
        }
        if outside.is_some() {
            self.active = self.now;
        } else if self.nobody_calls() || self.now.since(self.active) > NOTHING_COMES {
            return None;
        }
        sooner(outside, kernel.next_alarm())
    }

    fn nobody_calls(&self) -> bool {
        self.processes.iter().all(|process| process.blocked != Blocked::Call)
    }

    fn has_own_requests(&self) -> bool {
        self.processes.iter().any(|process| !process.outstanding.is_empty())
    }

    #[inline]
    pub(super) fn advance_kernel(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            cold_path();
            kernel.advance(self.now);
            self.hear_kernel();
        }
    }

    /// Whether the scheduler has a part above the block layer, which listens to the kernel from now on.
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

    /// A split policy hears what the kernel noted.
    fn tell_policy(&mut self) {
        if self.splits
            && let Some(split) = self.storage.queue().and_then(|queue| queue.split())
            && let Some(kernel) = &mut self.kernel
        {
            kernel.tell(self.now, split);
        }
    }

    /// And what it wants done is done.
    fn consult_policy(&mut self) {
        self.tell_policy();
        while self.splits
            && let Some(split) = self.storage.queue().and_then(|queue| queue.split())
            && let Some(action) = split.act(self.now)
            && let Some(kernel) = &mut self.kernel
        {
            kernel.heed(action);
        }
    }

    /// When a split policy wants to be asked again.
    pub(super) fn policy_alarm(&mut self) -> Option<Time> {
        if self.live > 0 { self.storage.queue()?.split()?.alarm() } else { None }
    }

    /// Tasks that the kernel has woken get their turns.
    #[inline]
    pub(super) fn hear_kernel(&mut self) {
        if self.kernel.is_some() || self.splits {
            cold_path();
            self.hear_from_above();
        }
    }

    // Out of line, so that the question stands in line where there is nobody above.
    #[inline(never)]
    fn hear_from_above(&mut self) {
        self.consult_policy();
        if let Some(kernel) = &mut self.kernel {
            kernel.take_woken(&mut self.woken);
            self.runnable.extend(self.woken.drain(..).map(Turn::of));
        }
    }

    pub(super) fn kernel_finished(&mut self, bio: u64, outcome: Outcome) {
        let requests = self.storage.requests(Direction::Write);
        if let Some(kernel) = &mut self.kernel {
            kernel.crowded(requests);
            kernel.arrived(bio, outcome);
        }
    }

    pub(super) fn take_turn(&mut self, turn: Turn) {
        match turn {
            Turn::Process(process) => self.go_on(process),
            Turn::Thread(task) => self.run_thread(task),
        }
    }

    #[inline(never)]
    fn run_thread(&mut self, task: TaskId) {
        self.storage.plug();
        if let Some(kernel) = &mut self.kernel {
            let polled = kernel.poll(task);
            // Its threads never return.
            let _ = self.follow(task, polled);
        }
        self.storage.unplug(self.now, true);
    }

    /// Goes on with a task until it sleeps or returns.
    fn follow(&mut self, task: TaskId, mut polled: Polled) -> Option<(Returned, Time)> {
        loop {
            let mut submission = match polled {
                Polled::Returned(returned, until) => return Some((returned, until)),
                Polled::Asleep => return None,
                Polled::Submit(submission) => submission,
            };
            self.tell_policy();
            submission.token = self.token(Outstanding::Kernel { task, bio: submission.token.0 });
            if self.storage.submit(self.now, submission) == Accepted::Asleep {
                return None;
            }
            let requests = self.storage.requests(Direction::Write);
            let kernel = self.kernel.as_mut()?;
            kernel.crowded(requests);
            polled = kernel.poll(task);
        }
    }

    /// A process asks something of the kernel; whether it can go on at once.
    #[inline(never)]
    pub(super) fn call(&mut self, process: usize, call: Call) -> bool {
        self.acts(process);
        let Some(kernel) = &mut self.kernel else {
            let process = self.processes[process].who.name.clone();
            self.failure = Some(Failure::NoKernel { process, call: call.to_string() });
            return false;
        };
        self.processes[process].blocked = Blocked::Call;
        let polled = kernel.call(process, call.clone());
        self.processes[process].call = Some(Called { call: Some(call), since: self.now, returned: None });
        self.come_back(process, polled)
    }

    /// A process ends, after the kernel has closed what it had open.
    #[inline(never)]
    pub(super) fn leave(&mut self, process: usize) {
        let Some(kernel) = &mut self.kernel else { return self.exit(process) };
        self.processes[process].blocked = Blocked::Call;
        let polled = kernel.exit(process);
        self.processes[process].call = Some(Called { call: None, since: self.now, returned: None });
        // It never goes on.
        self.come_back(process, polled);
    }

    /// A process gets its turn: whether it is out of the kernel, or never was in it.
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
        self.come_back(process, polled)
    }

    fn come_back(&mut self, process: usize, polled: Polled) -> bool {
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

    /// The process hears what its call came back with.
    fn deliver(&mut self, process: usize, returned: Returned) -> bool {
        let Some(Called { call, since, .. }) = self.processes[process].call.take() else { return true };
        let Some(call) = call else {
            self.exit(process);
            return false;
        };
        self.book.called(process, &call, &returned, since, self.now);
        let failed = if let Returned::Failed(errno) = &returned { Some(*errno) } else { None };
        let planned = self.processes[process].program.returned(returned);
        if let (Some(errno), false) = (failed, planned) {
            let process = self.processes[process].who.name.clone();
            self.failure = Some(Failure::Call { process, call: call.to_string(), errno });
            return false;
        }
        true
    }
}
