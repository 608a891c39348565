//! Executes jobs with io_uring.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use super::Job;
use super::inline::PUNCH;
use super::transfer::{SEGMENTS, Segment, Step, Transfer};
use crate::resident;

/// `RWF_DSYNC`: the write is durable when it completes.
const DSYNC: i32 = 0x2;

/// A job in the kernel, and its list of memory segments.
#[derive(Default)]
struct Slot {
    transfer: Option<Transfer>,
    /// The kernel reads it at the submission of the entry; it is not changed before.
    iovecs: Vec<libc::iovec>,
}

/// A ring and the jobs in it.
pub(super) struct Uring {
    ring: IoUring,
    file: Arc<File>,
    slots: Vec<Slot>,
    zeroes_as_data: bool,
}

impl Uring {
    /// A ring for `depth` jobs at the same time.
    ///
    /// # Errors
    /// The kernel refuses io_uring or one of the operations needed.
    pub(super) fn new(file: Arc<File>, depth: u32) -> io::Result<Self> {
        let ring = IoUring::new(depth.next_power_of_two())?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed =
            [opcode::Readv::CODE, opcode::Writev::CODE, opcode::Fsync::CODE, opcode::Fallocate::CODE];
        if !needed.iter().all(|&code| probe.is_supported(code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut slots = Vec::new();
        slots.resize_with(depth as usize, || Slot { transfer: None, iovecs: Vec::with_capacity(SEGMENTS) });
        let mut uring = Self { ring, file, slots, zeroes_as_data: false };
        if resident::is_limited() {
            uring.warm_up(depth)?;
        }
        Ok(uring)
    }

    /// Makes the kernel allocate now what it would later charge to this process's memory cgroup: `depth` requests (the kernel keeps them), and
    /// one worker thread. The number of workers is limited to one, because the stack of a further worker would be charged at its start. The
    /// last worker never ends. The cost: flushes, and reads and writes that would block at their submission, are executed one at a time.
    fn warm_up(&mut self, depth: u32) -> io::Result<()> {
        self.ring.submitter().register_iowq_max_workers(&mut [1, 1])?;
        for _ in 0..depth {
            // SAFETY: the entry names no memory.
            unsafe { self.ring.submission().push(&opcode::Nop::new().build()) }.map_err(io::Error::other)?;
        }
        self.ring.submit_and_wait(depth as usize)?;
        self.ring.completion().for_each(drop);
        let sync = opcode::Fsync::new(types::Fd(self.file.as_raw_fd())).build();
        // SAFETY: the entry names no memory.
        unsafe { self.ring.submission().push(&sync) }.map_err(io::Error::other)?;
        self.ring.submit_and_wait(1)?;
        self.ring.completion().for_each(drop);
        Ok(())
    }

    pub(super) fn start(&mut self, job: Job) {
        let slot = job.tag.0 as usize;
        self.slots[slot].transfer = Some(Transfer::new(job, self.zeroes_as_data));
        self.step(slot);
    }

    /// Submits a job's next step to the kernel.
    fn step(&mut self, slot: usize) {
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = entry(fd, &mut self.slots[slot]).user_data(slot as u64);
        // SAFETY: the entry points to the slot's list of memory, unchanged until the entry is consumed, and to buffers
        // that the job in the slot owns: it leaves the slot only after the completion.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.submit();
        }
    }

    /// Submits the entries that the kernel has not accepted yet. If it is short of memory, it accepts only some or none; the next call after a
    /// completion submits the rest. Without a request in the kernel there would be no such completion.
    pub(super) fn submit(&mut self) {
        while !self.ring.submission().is_empty() {
            let _ = self.ring.submit();
            let jobs = self.slots.iter().filter(|slot| slot.transfer.is_some()).count();
            if self.ring.submission().len() < jobs {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn poll(&mut self) -> Option<(Job, Result<(), Errno>)> {
        loop {
            let Some(completion) = self.ring.completion().next() else {
                self.submit();
                return None;
            };
            if let Some(done) = self.completed(completion.user_data() as usize, completion.result()) {
                return Some(done);
            }
            self.submit();
        }
    }

    /// One step of a job has completed; returns the job if it was the last step.
    fn completed(&mut self, slot: usize, result: i32) -> Option<(Job, Result<(), Errno>)> {
        let transfer = self.slots[slot].transfer.as_mut()?;
        let step = transfer.step();
        let result = match (step, usize::try_from(result)) {
            (Step::Move { .. }, Ok(bytes)) => transfer.moved(bytes),
            (_, Ok(_)) => {
                transfer.completed(step);
                Ok(())
            }
            (_, Err(_)) => match Errno::from_raw_os_error(-result) {
                Errno::INTR | Errno::AGAIN => Ok(()),
                error if transfer.falls_back(step, error) => {
                    self.zeroes_as_data = true;
                    Ok(())
                }
                error => Err(error),
            },
        };
        if result.is_ok() && transfer.step() != Step::Finished {
            self.step(slot);
            return None;
        }
        self.slots[slot].transfer.take().map(|transfer| (transfer.job, result))
    }

    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring is open until this is dropped.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

impl Drop for Uring {
    /// The memory of jobs in the kernel must not be freed before they complete.
    fn drop(&mut self) {
        while self.slots.iter().any(|slot| slot.transfer.is_some()) {
            while self.poll().is_some() {}
            if self.slots.iter().any(|slot| slot.transfer.is_some()) && self.ring.submit_and_wait(1).is_err()
            {
                // Leaked: the kernel may still use the memory.
                self.slots.drain(..).for_each(std::mem::forget);
            }
        }
    }
}

fn entry(fd: types::Fd, slot: &mut Slot) -> squeue::Entry {
    let Slot { transfer, iovecs } = slot;
    let transfer = transfer.as_mut().expect("a job in its slot");
    match transfer.step() {
        Step::Move { offset } => {
            iovecs.clear();
            let mut reads = false;
            transfer.segments(|segment| {
                let (base, len) = match segment {
                    Segment::To(memory) => {
                        reads = true;
                        (memory.as_mut_ptr(), memory.len())
                    }
                    Segment::From(memory) => (memory.as_ptr().cast_mut(), memory.len()),
                };
                iovecs.push(libc::iovec { iov_base: base.cast(), iov_len: len });
            });
            let (list, count) = (iovecs.as_ptr(), iovecs.len() as u32);
            if reads {
                return opcode::Readv::new(fd, list, count).offset(offset).build();
            }
            let flags = if transfer.job.fua { DSYNC } else { 0 };
            opcode::Writev::new(fd, list, count).offset(offset).rw_flags(flags as _).build()
        }
        Step::Zero { offset, bytes } | Step::Discard { offset, bytes } => {
            opcode::Fallocate::new(fd, bytes).offset(offset).mode(PUNCH.bits() as i32).build()
        }
        Step::Sync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        Step::Finished => opcode::Nop::new().build(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use disks::Tag;
    use elevator::{Op, Sector, Sectors};

    use super::*;
    use crate::backend::{Payload, Piece};
    use crate::buffer::Pool;

    /// The state after a kernel short of memory has accepted none or only some of the entries.
    #[test]
    fn entries_that_the_kernel_did_not_accept_are_submitted_again() {
        let path = std::env::temp_dir().join(format!("dwell-uring-{}", std::process::id()));
        std::fs::write(&path, [7; 4096]).unwrap();
        let file = Arc::new(File::open(&path).unwrap());
        std::fs::remove_file(path).unwrap();
        let Ok(mut engine) = Uring::new(file, 4) else {
            return eprintln!("SKIPPED: the system rejects io_uring");
        };
        let payload = Payload::Data(Pool::new(0).take(4096));
        let pieces = vec![Piece { owner: 0, sectors: Sectors(8), payload, result: Ok(()) }];
        let (op, start, sectors) = (Op::Read, Sector(0), Sectors(8));
        engine.start(Job { tag: Tag(0), op, start, sectors, fua: false, pieces });
        let (begun, mut done) = (Instant::now(), None);
        while done.is_none() && begun.elapsed().as_secs() < 2 {
            done = engine.poll();
        }
        let (job, result) = done.expect("the entry is submitted again");
        assert_eq!(result, Ok(()));
        assert!(matches!(&job.pieces[0].payload, Payload::Data(data) if data.iter().all(|&byte| byte == 7)));
    }
}
