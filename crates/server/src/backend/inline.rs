//! Jobs carried out at once by plain system calls; also what each of the [`Threads`](super::threads) does.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{Errno, IoSlice, IoSliceMut, ReadWriteFlags, preadv2, pwritev2};

use super::Job;
use super::transfer::{Segment, Step, Transfer};

/// Jobs carried out in the device's own thread.
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
        let result = perform(&self.file, &mut transfer);
        self.zeroes_as_data |= transfer.zeroes_as_data;
        self.done.push_back((transfer.job, result));
    }

    pub(super) fn poll(&mut self) -> Option<(Job, Result<(), Errno>)> {
        self.done.pop_front()
    }
}

/// Carries a job out from beginning to end.
pub(super) fn perform(file: &File, transfer: &mut Transfer) -> Result<(), Errno> {
    loop {
        let step = transfer.step();
        match step {
            Step::Finished => return Ok(()),
            Step::Move { offset } => match one_move(file, transfer, offset) {
                Ok(bytes) => transfer.moved(bytes)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            },
            _ => match tell(file, step) {
                Ok(()) => transfer.told(step),
                Err(Errno::INTR) => {}
                Err(error) if transfer.falls_back(step, error) => {}
                Err(error) => return Err(error),
            },
        }
    }
}

/// One segment after the other would double the calls of nobody: a merged request in here is rare.
fn one_move(file: &File, transfer: &mut Transfer, offset: u64) -> Result<usize, Errno> {
    let flags = if transfer.job.fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
    let mut result = None;
    transfer.segments(|segment| {
        result.get_or_insert_with(|| match segment {
            Segment::To(memory) => {
                preadv2(file, &mut [IoSliceMut::new(memory)], offset, ReadWriteFlags::empty())
            }
            Segment::From(memory) => pwritev2(file, &[IoSlice::new(memory)], offset, flags),
        });
    });
    result.unwrap_or(Err(Errno::INVAL))
}

fn tell(file: &File, step: Step) -> Result<(), Errno> {
    match step {
        Step::Zero { offset, bytes } | Step::Discard { offset, bytes } => {
            fallocate(file, PUNCH, offset, bytes)
        }
        _ => fdatasync(file),
    }
}

/// Room given back, which reads as zeroes: of files, and of the block devices that can.
pub(super) const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);
