//! Executes jobs in threads, for systems that reject io_uring.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::Job;
use super::inline::perform;
use super::transfer::Transfer;
use crate::resident;

type Result = std::result::Result<(), Errno>;

/// Threads that wait for jobs. They end when this is dropped.
pub(super) struct Threads {
    jobs: Sender<Job>,
    done: Receiver<(Job, Result)>,
    wake: Arc<OwnedFd>,
}

impl Threads {
    pub(super) fn new(file: &Arc<File>, threads: u32) -> io::Result<Self> {
        let (jobs, todo) = channel::<Job>();
        let (answers, done) = channel();
        let todo = Arc::new(Mutex::new(todo));
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        for n in 0..threads.max(1) {
            let (file, todo, answers, wake) = (file.clone(), todo.clone(), answers.clone(), wake.clone());
            thread::Builder::new()
                .name(format!("io-{n}"))
                .spawn(move || work(&file, &todo, &answers, &wake))?;
        }
        Ok(Self { jobs, done, wake })
    }

    pub(super) fn start(&mut self, job: Job) {
        self.jobs.send(job).expect("the threads live as long as this");
    }

    pub(super) fn poll(&mut self) -> Option<(Job, Result)> {
        let mut count = [0; 8];
        match self.done.try_recv() {
            Ok(done) => Some(done),
            Err(_) => {
                // Cleared before the last check; otherwise a wake-up in between would be lost.
                let _ = rustix::io::read(&*self.wake, &mut count);
                self.done.try_recv().ok()
            }
        }
    }

    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

fn work(file: &File, todo: &Mutex<Receiver<Job>>, answers: &Sender<(Job, Result)>, wake: &OwnedFd) {
    resident::lock_stack();
    loop {
        let job = todo.lock().expect("no thread panics with it").recv();
        let Ok(job) = job else { return };
        let mut transfer = Transfer::new(job, false);
        let result = perform(&mut &*file, &mut transfer);
        if answers.send((transfer.job, result)).is_err() {
            return;
        }
        let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
    }
}
