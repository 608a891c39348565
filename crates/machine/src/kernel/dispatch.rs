//! Entry and exit of system calls: a call begins in [`Kernel::call`] and ends when [`Kernel::poll`] returns
//! [`Polled::Returned`]. Split-level admission happens here.

use std::task::{Poll, Waker};

use elevator::queue::{Submission, Token};
use elevator::split::Terms;
use elevator::{Outcome, Priority, Process, Time};

use super::Kernel;
use super::calls::{Call, Errno, Returned};
use super::context::{Context, Job};
use super::read::{Begun, Step};
use super::state::{State, THREAD_COUNT, TaskId};

/// The state of a task that has run.
pub(crate) enum Polled {
    /// Its call returned; the processor is busy with it until the time.
    Returned(Returned, Time),
    /// It submits a request and must be polled again when the request is accepted.
    Submit(Submission),
    /// It sleeps.
    Asleep,
}

impl Kernel {
    pub(crate) const fn task_of(process: usize) -> TaskId {
        TaskId(process as u32 + THREAD_COUNT)
    }

    /// The process of a task; `None` for a kernel thread.
    pub(crate) const fn process_of(task: TaskId) -> Option<usize> {
        match task.0.checked_sub(THREAD_COUNT) {
            Some(process) => Some(process as usize),
            None => None,
        }
    }

    /// Advances the kernel's time.
    pub(crate) fn advance(&mut self, now: Time) {
        let mut state = self.state.borrow_mut();
        state.now = now;
        state.observe(now);
        state.sleepers.ring(now);
    }

    /// The next alarm of the kernel.
    pub(crate) fn next_alarm(&self) -> Option<Time> {
        self.state.borrow().sleepers.next_alarm()
    }

    /// Takes the tasks that are ready.
    pub(crate) fn take_woken(&mut self, into: &mut Vec<TaskId>) {
        self.state.borrow_mut().sleepers.take_woken(into);
    }

    /// Passes the number of write requests in the block layer.
    pub(crate) fn update_congestion(&mut self, requests: u32) {
        self.state.borrow_mut().update_congestion(requests);
    }

    /// Registers a process.
    pub(crate) fn process_started(&mut self, process: usize, who: Option<Process>, priority: Priority) {
        let mut state = self.state.borrow_mut();
        let task = state.task(Self::task_of(process));
        (task.process, task.priority) = (who, priority);
        if let Some(process) = who {
            state.record_process(process, Terms { priority, ..Terms::default() });
        }
    }

    /// Begins a system call of a process. It returns at once if it needs no wait, and through [`poll`](Self::poll) otherwise.
    pub(crate) fn call(&mut self, process: usize, call: Call) -> Polled {
        let task = Self::task_of(process);
        {
            let mut state = self.state.borrow_mut();
            let (now, cost) = (state.now, state.rules.call);
            state.sleepers.spend(now, task, cost);
        }
        let context = Context::new(&self.state, task);
        let job = match call {
            call if self.state.borrow().tags() => {
                Box::pin(async move { context.run_with_admission(call).await })
            }
            Call::Read(file, length) | Call::ReadAt(file, _, length) => {
                let at = if let Call::ReadAt(_, at, _) = call { Some(at) } else { None };
                match self.read_at_once(task, file, at, length) {
                    Ok(returned) => return self.returned(task, returned),
                    Err(job) => job,
                }
            }
            call => {
                let at_once = self.state.borrow_mut().try_without_wait(task, &call);
                match at_once {
                    Some(returned) => return self.returned(task, returned),
                    None => job(context, call),
                }
            }
        };
        self.put_job(task, job);
        self.poll(task)
    }

    /// Begins the exit of a process: releases its memory and closes its files.
    pub(crate) fn exit(&mut self, process: usize) -> Polled {
        let task = Self::task_of(process);
        let context = Context::new(&self.state, task);
        self.state.borrow_mut().release_memory(task);
        if self.state.borrow_mut().task(task).descriptors.first().is_none() {
            return self.returned(task, Returned::Done);
        }
        self.put_job(
            task,
            Box::pin(async move {
                context.close_all().await;
                Returned::Done
            }),
        );
        self.poll(task)
    }

    pub(super) fn put_job(&mut self, task: TaskId, job: Job) {
        if task.index() >= self.jobs.len() {
            self.jobs.resize_with(task.index() + 1, || None);
        }
        self.jobs[task.index()] = Some(job);
    }

    fn returned(&mut self, task: TaskId, returned: Returned) -> Polled {
        let until = self.state.borrow_mut().sleepers.busy_until(task);
        Polled::Returned(returned, until)
    }

    /// Completes a read whose pages are all in memory; otherwise returns the rest of it as a job.
    fn read_at_once(
        &mut self,
        task: TaskId,
        file: super::Descriptor,
        at: Option<u64>,
        length: u64,
    ) -> Result<Returned, Job> {
        let begun = self.state.borrow_mut().start_read(task, file, at, length);
        let context = Context::new(&self.state, task);
        match begun {
            Err(errno) => Ok(Returned::Failed(errno)),
            Ok(Begun::Nothing) => Ok(Returned::Bytes(0)),
            Ok(Begun::Cached(reading, Step::Done)) => Ok(Returned::Bytes(reading.bytes)),
            Ok(begun) => Err(Box::pin(async move { answer(context.read_begun(begun).await) })),
        }
    }

    /// Runs a task until it sleeps, submits or returns.
    pub(crate) fn poll(&mut self, task: TaskId) -> Polled {
        let Some(job) = self.jobs.get_mut(task.index()).and_then(Option::as_mut) else {
            return Polled::Asleep;
        };
        let mut context = std::task::Context::from_waker(Waker::noop());
        match job.as_mut().poll(&mut context) {
            Poll::Ready(returned) => {
                self.jobs[task.index()] = None;
                self.returned(task, returned)
            }
            Poll::Pending => {
                let outgoing = self.state.borrow_mut().outgoing(|bio| Token(u64::from(bio)));
                outgoing.map_or(Polled::Asleep, Polled::Submit)
            }
        }
    }

    /// Handles a completed submission, by the token of its submission.
    pub(crate) fn arrived(&mut self, bio: u64, outcome: Outcome) {
        self.state.borrow_mut().arrived(bio as u32, outcome);
    }
}

impl State {
    /// Completes a call that needs no wait, such as an overwrite of cached pages.
    pub(super) fn try_without_wait(&mut self, task: TaskId, call: &Call) -> Option<Returned> {
        let written = match *call {
            Call::Write(file, length) => self.overwrite(task, file, None, length),
            Call::WriteAt(file, at, length) => self.overwrite(task, file, Some(at), length),
            _ => None,
        };
        written.map(Returned::Bytes)
    }
}

impl Context {
    /// Runs a call under a split-level policy.
    pub(super) async fn run_with_admission(&self, call: Call) -> Returned {
        let asked = self.request_admission(&call).await;
        let at_once = self.with(|state| state.try_without_wait(self.task, &call));
        let returned = match at_once {
            Some(returned) => returned,
            None => job(self.clone(), call).await,
        };
        self.record_return(asked);
        returned
    }
}

/// The job of a call that may sleep. Each kind of call has its own future, so that the future of a short call is small.
pub(super) fn job(context: Context, call: Call) -> Job {
    match call {
        Call::Open(path, how) => Box::pin(async move { answer(context.open(&path, how).await) }),
        Call::Close(file) => Box::pin(async move { answer(context.close(file).await) }),
        Call::Read(file, length) => Box::pin(async move { answer(context.read(file, None, length).await) }),
        Call::ReadAt(file, at, length) => {
            Box::pin(async move { answer(context.read(file, Some(at), length).await) })
        }
        Call::Write(file, length) => Box::pin(async move { answer(context.write(file, None, length).await) }),
        Call::WriteAt(file, at, length) => {
            Box::pin(async move { answer(context.write(file, Some(at), length).await) })
        }
        Call::Seek(file, at) => Box::pin(async move { answer(context.seek(file, at)) }),
        Call::Truncate(file, bytes) => Box::pin(async move { answer(context.truncate(file, bytes).await) }),
        Call::Fsync(file) => Box::pin(async move { answer(context.sync_file(file, false).await) }),
        Call::Fdatasync(file) => Box::pin(async move { answer(context.sync_file(file, true).await) }),
        Call::Forget(file) => Box::pin(async move { answer(context.forget(file)) }),
        Call::Sync => Box::pin(async move { answer(context.sync_all().await) }),
        Call::Mkdir(path) => Box::pin(async move { answer(context.mkdir(&path).await) }),
        Call::Unlink(path) => Box::pin(async move { answer(context.unlink(&path).await) }),
        Call::Rename(from, to) => Box::pin(async move { answer(context.rename(&from, &to).await) }),
        Call::Readdir(path) => Box::pin(async move { answer(context.readdir(&path).await) }),
        Call::Stat(path) => Box::pin(async move { answer(context.stat(&path).await) }),
        Call::Touch(at, bytes, write) => {
            Box::pin(async move { answer(context.touch(at, bytes, write).await) })
        }
    }
}

fn answer(result: Result<Returned, Errno>) -> Returned {
    result.unwrap_or_else(Returned::Failed)
}
