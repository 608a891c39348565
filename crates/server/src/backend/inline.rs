//! Executes jobs synchronously with plain system calls; each of the [`Threads`](super::threads) uses it too.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{Errno, IoSlice, IoSliceMut, ReadWriteFlags, preadv2, pwritev2};

use super::Job;
use super::transfer::{Segment, Step, Transfer};

/// The system calls of jobs: on a file, or on a simulated disk.
pub trait Calls {
    /// Reads bytes from `offset` on; returns their number, 0 at the end of the file.
    ///
    /// # Errors
    /// The device's. `EINTR` is retried.
    fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<usize, Errno>;

    /// Writes bytes from `offset` on, durably if `durable`; returns their number.
    fn write(&mut self, offset: u64, from: &[u8], durable: bool) -> Result<usize, Errno>;

    /// Deallocates a range, which then reads as zeroes.
    ///
    /// # Errors
    /// As [`read`](Self::read). After `EOPNOTSUPP` and `EINVAL` zeroes are written as data.
    fn punch(&mut self, offset: u64, bytes: u64) -> Result<(), Errno>;

    /// Makes all earlier writes durable.
    fn sync(&mut self) -> Result<(), Errno>;
}

impl Calls for &File {
    fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<usize, Errno> {
        preadv2(&**self, &mut [IoSliceMut::new(to)], offset, ReadWriteFlags::empty())
    }

    fn write(&mut self, offset: u64, from: &[u8], durable: bool) -> Result<usize, Errno> {
        let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        pwritev2(&**self, &[IoSlice::new(from)], offset, flags)
    }

    fn punch(&mut self, offset: u64, bytes: u64) -> Result<(), Errno> {
        fallocate(&**self, PUNCH, offset, bytes)
    }

    fn sync(&mut self) -> Result<(), Errno> {
        fdatasync(&**self)
    }
}

/// Executes jobs in the device's own thread.
pub(super) struct Inline {
    file: Arc<File>,
    zeroes_as_data: bool,
    done: VecDeque<(Job, Result<(), Errno>)>,
}

impl Inline {
    pub(super) fn new(file: Arc<File>) -> Self {
        Self { file, zeroes_as_data: false, done: VecDeque::new() }
    }

    pub(super) fn start(&mut self, job: Job) {
        let mut transfer = Transfer::new(job, self.zeroes_as_data);
        let result = perform(&mut &*self.file, &mut transfer);
        self.zeroes_as_data |= transfer.zeroes_as_data;
        self.done.push_back((transfer.job, result));
    }

    pub(super) fn poll(&mut self) -> Option<(Job, Result<(), Errno>)> {
        self.done.pop_front()
    }
}

/// Executes a job from beginning to end.
pub(super) fn perform(calls: &mut impl Calls, transfer: &mut Transfer) -> Result<(), Errno> {
    loop {
        let step = transfer.step();
        match step {
            Step::Finished => return Ok(()),
            Step::Move { offset } => match one_move(calls, transfer, offset) {
                Ok(bytes) => transfer.moved(bytes)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            },
            _ => match command(calls, step) {
                Ok(()) => transfer.completed(step),
                Err(Errno::INTR) => {}
                Err(error) if transfer.falls_back(step, error) => {}
                Err(error) => return Err(error),
            },
        }
    }
}

/// Executes a job on a simulated disk; returns the job and its result.
#[cfg(feature = "simulation")]
pub fn carry_out(job: Job, zeroes_as_data: &mut bool, calls: &mut impl Calls) -> (Job, Result<(), Errno>) {
    let mut transfer = Transfer::new(job, *zeroes_as_data);
    let result = perform(calls, &mut transfer);
    *zeroes_as_data |= transfer.zeroes_as_data;
    (transfer.job, result)
}

/// Moves one segment. A vector of segments would save calls only for merged requests, which are rare in memory.
fn one_move(calls: &mut impl Calls, transfer: &mut Transfer, offset: u64) -> Result<usize, Errno> {
    let durable = transfer.job.fua;
    let mut result = None;
    transfer.segments(|segment| {
        result.get_or_insert_with(|| match segment {
            Segment::To(memory) => calls.read(offset, memory),
            Segment::From(memory) => calls.write(offset, memory, durable),
        });
    });
    result.unwrap_or(Err(Errno::INVAL))
}

fn command(calls: &mut impl Calls, step: Step) -> Result<(), Errno> {
    match step {
        Step::Zero { offset, bytes } | Step::Discard { offset, bytes } => calls.punch(offset, bytes),
        _ => calls.sync(),
    }
}

/// Deallocates a range, which then reads as zeroes: on files, and on block devices that support it.
pub(super) const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);
