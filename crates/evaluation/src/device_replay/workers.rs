//! The threads that execute a process's requests.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use elevator::{Flags, Op};
use rustix::io::{ReadWriteFlags, pwritev2};

use super::Target;

/// The alignment for direct I/O: no logical block is larger.
const ALIGNMENT: usize = 4096;

/// Threads of one process, and thereby its requests in the device at once. Further requests wait for a thread.
const THREADS_MAX: usize = 64;

/// Stack of a thread that only reads and writes.
const STACK_BYTES: usize = 128 * 1024;

/// A request for a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) process: usize,
    /// Its number among the process's submissions.
    pub(super) number: u64,
    pub(super) op: Op,
    pub(super) flags: Flags,
    /// Position and length in bytes, multiples of the device's block.
    pub(super) offset: u64,
    pub(super) bytes: usize,
    pub(super) submitted: Instant,
}

/// A request that ended.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) request: Request,
    pub(super) ended: Instant,
    /// How long the flush before the data took, if there was one.
    pub(super) flushed: Option<Duration>,
    pub(super) result: io::Result<()>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Request>,
    /// Threads that wait for a request.
    idle: usize,
    closed: bool,
}

/// The workers of a process.
pub(super) struct Workers<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    target: &'env Target,
    completions: Sender<Completion>,
    queue: Arc<(Mutex<Queue>, Condvar)>,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl<'scope, 'env> Workers<'scope, 'env> {
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        target: &'env Target,
        completions: Sender<Completion>,
    ) -> Self {
        Self { scope, target, completions, queue: Arc::default(), threads: Vec::new() }
    }

    /// Passes a request to an idle thread, or to a new one.
    ///
    /// # Errors
    /// The system has no further thread, and the process has none.
    pub(super) fn submit(&mut self, request: Request) -> io::Result<()> {
        let needs_thread = {
            let mut queue = self.queue.0.lock().unwrap_or_else(PoisonError::into_inner);
            queue.waiting.push_back(request);
            queue.waiting.len() > queue.idle && self.threads.len() < THREADS_MAX
        };
        if needs_thread {
            let (queue, completions, target) =
                (Arc::clone(&self.queue), self.completions.clone(), self.target);
            let work = move || work(target, &queue, &completions);
            match std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(self.scope, work) {
                Ok(thread) => self.threads.push(thread),
                Err(error) if self.threads.is_empty() => return Err(error),
                Err(_) => {}
            }
        }
        self.queue.1.notify_one();
        Ok(())
    }
}

impl Drop for Workers<'_, '_> {
    /// Waiting requests are dropped; the threads end after the present ones.
    fn drop(&mut self) {
        let mut queue = self.queue.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.closed = true;
        queue.waiting.clear();
        drop(queue);
        self.queue.1.notify_all();
    }
}

fn work(target: &Target, queue: &(Mutex<Queue>, Condvar), completions: &Sender<Completion>) {
    let mut memory = Memory { read: Buffer::new(), zeros: Buffer::new() };
    loop {
        let mut locked = queue.0.lock().unwrap_or_else(PoisonError::into_inner);
        let request = loop {
            if let Some(request) = locked.waiting.pop_front() {
                break request;
            }
            if locked.closed {
                return;
            }
            locked.idle += 1;
            locked = queue.1.wait(locked).unwrap_or_else(PoisonError::into_inner);
            locked.idle -= 1;
        };
        drop(locked);
        let (flushed, result) = match flush_before(&target.file, &request) {
            Ok(flushed) => (flushed, execute(target, &request, &mut memory)),
            Err(error) => (None, Err(error)),
        };
        if completions.send(Completion { request, ended: Instant::now(), flushed, result }).is_err() {
            return;
        }
    }
}

/// Flushes the device's cache before a write with a preflush; returns how long that took.
fn flush_before(file: &File, request: &Request) -> io::Result<Option<Duration>> {
    if request.op != Op::Write || !request.flags.preflush {
        return Ok(None);
    }
    let began = Instant::now();
    file.sync_data()?;
    Ok(Some(began.elapsed()))
}

fn execute(target: &Target, request: &Request, memory: &mut Memory) -> io::Result<()> {
    let file = &target.file;
    match request.op {
        Op::Read => file.read_exact_at(memory.read.of(request.bytes), request.offset),
        Op::Write if request.flags.fua && target.fua => {
            write_through(file, memory.zeros.of(request.bytes), request.offset)
        }
        Op::Write if request.flags.fua => {
            file.write_all_at(memory.zeros.of(request.bytes), request.offset)?;
            file.sync_data()
        }
        Op::Write => file.write_all_at(memory.zeros.of(request.bytes), request.offset),
        Op::Flush => file.sync_data(),
        Op::Discard => Ok(()),
    }
}

/// Writes data with FUA, after which the kernel also flushes. On a device without FUA the kernel would flush twice: in place of the FUA, and
/// at the end of the call.
fn write_through(file: &File, mut data: &[u8], mut offset: u64) -> io::Result<()> {
    while !data.is_empty() {
        match pwritev2(file, &[IoSlice::new(data)], offset, ReadWriteFlags::DSYNC) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                data = &data[written..];
                offset += written as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A thread's buffers. Writes have one of their own, so that they contain zeros and not data of another place.
struct Memory {
    read: Buffer,
    zeros: Buffer,
}

/// Memory that is aligned for direct I/O, and zero at first.
struct Buffer(Vec<u8>);

impl Buffer {
    const fn new() -> Self {
        Self(Vec::new())
    }

    fn of(&mut self, bytes: usize) -> &mut [u8] {
        if self.0.len() < bytes + ALIGNMENT {
            self.0.resize(bytes + ALIGNMENT, 0);
        }
        let skip = self.0.as_ptr().align_offset(ALIGNMENT);
        &mut self.0[skip..skip + bytes]
    }
}
