//! The way into the kernel and out of it: every call of a program begins in [`Kernel::call`] and ends where
//! [`Kernel::poll`] says `Returned`, so this is where a policy at system-call level is to be asked.

use std::task::{Poll, Waker};

use elevator::queue::{Submission, Token};
use elevator::split::Terms;
use elevator::{Outcome, Priority, Process, Time};

use super::calls::{Call, Errno, Returned};
use super::read::{Begun, Step};
use super::state::State;
use super::tasks::{Context, Job, TaskId};
use super::{Kernel, threads};

/// What became of a task that was let run.
pub(crate) enum Polled {
    /// Its call returned; the processor is busy with it until then.
    Returned(Returned, Time),
    /// It submits this, and is to be let run again when that is accepted.
    Submit(Submission),
    /// It sleeps.
    Asleep,
}

impl Kernel {
    /// The task of a process.
    pub(crate) const fn task_of(process: usize) -> TaskId {
        TaskId(process as u32 + threads::COUNT)
    }

    /// The process of a task; `None` for the kernel's own threads.
    pub(crate) const fn process_of(task: TaskId) -> Option<usize> {
        match task.0.checked_sub(threads::COUNT) {
            Some(process) => Some(process as usize),
            None => None,
        }
    }

    /// Time has come to `now`.
    pub(crate) fn advance(&mut self, now: Time) {
        let mut state = self.state.borrow_mut();
        state.now = now;
        state.observe(now);
        state.sleepers.ring(now);
    }

    /// When the kernel does something by itself.
    pub(crate) fn next_alarm(&self) -> Option<Time> {
        self.state.borrow().sleepers.next_alarm()
    }

    /// Tasks that may go on.
    pub(crate) fn take_woken(&mut self, into: &mut Vec<TaskId>) {
        self.state.borrow_mut().sleepers.take_woken(into);
    }

    /// How many requests of writes the block layer has.
    pub(crate) fn crowded(&mut self, requests: u32) {
        self.state.borrow_mut().crowded(requests);
    }

    /// A process exists.
    pub(crate) fn born(&mut self, process: usize, who: Option<Process>, priority: Priority) {
        let mut state = self.state.borrow_mut();
        let task = state.task(Self::task_of(process));
        (task.process, task.priority) = (who, priority);
        if let Some(process) = who {
            state.note_process(process, Terms { priority, ..Terms::default() });
        }
    }

    /// A process enters the kernel. The answer comes at once if nothing stands in the way, and from [`poll`](Self::poll)
    /// otherwise.
    pub(crate) fn call(&mut self, process: usize, call: Call) -> Polled {
        let task = Self::task_of(process);
        {
            let mut state = self.state.borrow_mut();
            let (now, cost) = (state.now, state.rules.call);
            state.sleepers.spend(now, task, cost);
        }
        let context = Context::new(&self.state, task);
        let job = match call {
            call if self.state.borrow().tags() => Box::pin(async move { context.run_with_leave(call).await }),
            Call::Read(file, length) | Call::ReadAt(file, _, length) => {
                let at = if let Call::ReadAt(_, at, _) = call { Some(at) } else { None };
                match self.read_at_once(task, file, at, length) {
                    Ok(returned) => return self.returned(task, returned),
                    Err(job) => job,
                }
            }
            call => {
                let at_once = self.state.borrow_mut().at_once(task, &call);
                match at_once {
                    Some(returned) => return self.returned(task, returned),
                    None => job(context, call),
                }
            }
        };
        self.put_job(task, job);
        self.poll(task)
    }

    /// A process ends, and what it has open is closed.
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

    /// A read whose pages are all there needs no more than this; otherwise its way on.
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

    /// Lets a task run until it sleeps, submits or returns.
    pub(crate) fn poll(&mut self, task: TaskId) -> Polled {
        let Some(job) = self.jobs.get_mut(task.index()).and_then(Option::as_mut) else {
            return Polled::Asleep;
        };
        let mut nobody = std::task::Context::from_waker(Waker::noop());
        match job.as_mut().poll(&mut nobody) {
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

    /// Something that a task submitted, by the token that it was submitted with, came back.
    pub(crate) fn arrived(&mut self, bio: u64, outcome: Outcome) {
        self.state.borrow_mut().arrived(bio as u32, outcome);
    }
}

impl State {
    /// Does a call that has nothing to wait for, as a write over what is in memory.
    pub(super) fn at_once(&mut self, task: TaskId, call: &Call) -> Option<Returned> {
        let written = match *call {
            Call::Write(file, length) => self.overwrite(task, file, None, length),
            Call::WriteAt(file, at, length) => self.overwrite(task, file, Some(at), length),
            _ => None,
        };
        written.map(Returned::Bytes)
    }
}

/// The way of a call that may have to sleep. Each kind of call is a future of its own, so that a short one is small.
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
        Call::Rmdir(path) => Box::pin(async move { answer(context.rmdir(&path).await) }),
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
