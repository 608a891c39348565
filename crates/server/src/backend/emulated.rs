//! A modelled drive in real time: its model says when, another back end holds the data.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use disks::{Command, Drive};
use elevator::queue::{Barriers, Cache};
use elevator::{Outcome, Positioning, Time};
use rustix::io::Errno;

use super::{Backend, Done, Extent, Extents, Geometry, Job, Medium};
use crate::ServeError;

/// How far a job is: it is done when its time has come and its data has been moved.
#[derive(Default)]
enum Progress {
    #[default]
    Free,
    /// Neither.
    Running,
    /// Its data has been moved, its time has not come.
    Moved(Job, Result<(), Errno>),
    /// Its time came, its data has not been moved.
    Due(Time, Result<(), Errno>),
}

/// What a host knows of a drive beside its size, which the model of its time does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nature {
    /// Whether something turns.
    pub rotational: bool,
    /// What a completed write is worth.
    pub cache: Cache,
    /// What a flush holds back.
    pub barriers: Barriers,
}

/// A hard disk that writes back, honours forced unit access, and takes a flush beside other commands.
impl Default for Nature {
    fn default() -> Self {
        Self { rotational: true, cache: Cache::WriteBack { fua: true }, barriers: Barriers::Completed }
    }
}

/// A modelled drive in front of whatever holds its data.
///
/// Data is moved as soon as a job arrives and answered when the model says. The model's clock alone decides when a job
/// begins, at the end of the one before or at its arrival, so an answer that is late makes nothing after it later.
pub struct Emulated {
    drive: Box<dyn Drive>,
    store: Box<dyn Backend>,
    nature: Nature,
    jobs: Vec<Progress>,
    done: VecDeque<Done>,
    /// Jobs whose time came before their data had been moved.
    late: VecDeque<Done>,
    /// Jobs whose time has not come.
    awaited: usize,
}

impl Emulated {
    /// `drive` in front of `store`, which must be as large as it and take as many jobs at once.
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

    /// The store moved what it could of a job's data.
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

    /// A job's time has come.
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
        // Durability is the model's business alone: what the store has been given survives this process, and waiting for
        // the disk beneath it would be seen as the model's time.
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
        // The drive is never asked about a later time than it must be: whoever hears of a completion may submit at its
        // time. For the same reason what is late, and thus done now, waits until the drive has caught up.
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

    /// Steps of the drive that answer nobody can be made up for later. A thread that got up for each of them would keep programs
    /// from the processor at which it looks out: those that wait for it go to another one, which has to be woken each time.
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

    fn describe(&self) -> String {
        format!("an emulated drive, depth {}, in front of {}", self.drive.depth(), self.store.describe())
    }
}
