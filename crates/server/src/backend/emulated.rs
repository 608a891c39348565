//! A modelled drive in real time: the model determines the times, another back end stores the data.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use disks::{Command, Drive};
use elevator::queue::{Barriers, Cache};
use elevator::{Outcome, Positioning, Time};
use rustix::io::Errno;

use super::{Backend, Done, Extent, Extents, Geometry, Job, Medium};
use crate::ServeError;

/// The progress of a job. It completes when its model time is reached and its data has been moved.
#[derive(Default)]
enum Progress {
    #[default]
    Free,
    /// Neither has happened.
    Running,
    /// Its data has been moved; its time is not reached.
    Moved(Job, Result<(), Errno>),
    /// Its time is reached; its data has not been moved.
    Due(Time, Result<(), Errno>),
}

/// Properties of a drive that a host reads and that are not in its timing model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nature {
    /// Whether the disk rotates.
    pub rotational: bool,
    /// The durability of completed writes.
    pub cache: Cache,
    /// The requests that a flush delays.
    pub barriers: Barriers,
}

/// A hard disk with a write-back cache and forced unit access, which queues flushes.
impl Default for Nature {
    fn default() -> Self {
        Self { rotational: true, cache: Cache::WriteBack { fua: true }, barriers: Barriers::Completed }
    }
}

/// A modelled drive in front of a back end with its data.
///
/// Data is moved as soon as a job arrives; the job completes at the model's time. A job begins in the model at the end of the previous
/// one or at its arrival, so that a late reply does not delay later jobs.
pub struct Emulated {
    drive: Box<dyn Drive>,
    store: Box<dyn Backend>,
    nature: Nature,
    jobs: Vec<Progress>,
    done: VecDeque<Done>,
    /// Jobs whose time was reached before their data had been moved.
    late: VecDeque<Done>,
    /// Number of jobs whose time is not reached.
    awaited: usize,
}

impl Emulated {
    /// `drive` in front of `store`, which must have at least the drive's size and depth.
    ///
    /// # Errors
    /// The store is too small.
    pub fn new(drive: Box<dyn Drive>, store: Box<dyn Backend>, nature: Nature) -> Result<Self, ServeError> {
        let (drive_depth, store_geometry) = (drive.depth(), store.geometry());
        if store_geometry.capacity < drive.capacity() || store_geometry.depth < drive_depth {
            return Err(ServeError::Configuration(format!(
                "the drive has {} sectors and queues {drive_depth}; {} has {} and takes {}",
                drive.capacity(),
                store.describe(),
                store_geometry.capacity,
                store_geometry.depth
            )));
        }
        let mut jobs = Vec::new();
        jobs.resize_with(drive_depth as usize, Progress::default);
        let (done, late) = (VecDeque::with_capacity(jobs.len()), VecDeque::with_capacity(jobs.len()));
        Ok(Self { drive, store, nature, jobs, done, late, awaited: 0 })
    }

    /// The store has finished with a job's data.
    fn moved(&mut self, now: Time, done: Done) {
        let tag = done.job.tag;
        let slot = &mut self.jobs[tag.0 as usize];
        *slot = match std::mem::take(slot) {
            Progress::Due(at, model) => {
                let at = at.max(now);
                self.late.push_back(Done { job: done.job, at, result: model.and(done.result) });
                Progress::Free
            }
            _ => Progress::Moved(done.job, done.result),
        };
    }

    /// A job's time is reached.
    fn due(&mut self, completion: disks::Completion) {
        let model = match completion.outcome {
            Outcome::Done => Ok(()),
            Outcome::Failed | Outcome::GivenBack => Err(Errno::IO),
        };
        self.awaited -= 1;
        let slot = &mut self.jobs[completion.tag.0 as usize];
        *slot = match std::mem::take(slot) {
            Progress::Moved(job, moved) => {
                self.done.push_back(Done { job, at: completion.at, result: model.and(moved) });
                Progress::Free
            }
            _ => Progress::Due(completion.at, model),
        };
    }
}

impl Backend for Emulated {
    fn geometry(&self) -> Geometry {
        let Nature { rotational, cache, barriers } = self.nature;
        Geometry {
            capacity: self.drive.capacity(),
            depth: self.drive.depth(),
            rotational,
            discards: !rotational,
            cache,
            barriers,
            ..self.store.geometry()
        }
    }

    fn start(&mut self, now: Time, job: Job) {
        let Job { tag, op, start, sectors, fua, .. } = job;
        self.jobs[tag.0 as usize] = Progress::Running;
        self.awaited += 1;
        self.drive.submit(now, Command { tag, op, start, sectors, fua });
        // Flushes have an effect only in the model: data in the store survives this process, and waiting for the disk below
        // would add to the model's time.
        if op == elevator::Op::Flush {
            self.moved(now, Done { job, at: now, result: Ok(()) });
        } else {
            self.store.start(now, Job { fua: false, ..job });
        }
    }

    fn submit(&mut self) {
        self.store.submit();
    }

    fn poll(&mut self, now: Time) -> Option<Done> {
        while let Some(done) = self.store.poll(now) {
            self.moved(now, done);
        }
        // The drive is not polled beyond the next completion: the client may submit at the time of that completion. For the
        // same reason late jobs, which complete now, wait until the drive has reached the present.
        while self.done.is_empty()
            && let Some(event) = self.drive.next_event().filter(|&event| event <= now)
        {
            match self.drive.poll(event) {
                Some(completion) => self.due(completion),
                None if self.drive.next_event() == Some(event) => break,
                None => {}
            }
        }
        self.done.pop_front().or_else(|| self.late.pop_front())
    }

    /// Steps of the drive without a completion can be processed later. A thread that woke for each of them would take the processor from
    /// client programs, which would then run on another processor that has to be woken each time.
    fn next_event(&self) -> Option<Time> {
        self.drive.earliest_completion().filter(|_| self.awaited > 0)
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.store.wake_fd()
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        self.drive.positioning()
    }

    fn extent(&mut self, offset: u64, most: u64) -> Extent {
        self.store.extent(offset, most)
    }

    fn slow_extents(&self) -> Option<Arc<dyn Extents>> {
        self.store.slow_extents()
    }

    fn medium(&self) -> Option<Medium> {
        self.store.medium()
    }

    fn keeps_time(&self) -> bool {
        true
    }

    fn allocates(&self) -> bool {
        self.store.allocates()
    }

    fn describe(&self) -> String {
        format!("an emulated drive, depth {}, in front of {}", self.drive.depth(), self.store.describe())
    }
}
