//! The engine's target of submissions: a disk behind its queue, or an array of disks.

use elevator::queue::{Accepted, Notice, Queue, Submission};
use elevator::{Direction, Process, Sectors, Time, cold_path};

use crate::array::Array;
use crate::block::{Block, Listeners};
use crate::limit::{Interface, Limit, LimitRecorder};
use crate::measure::DeviceStats;

/// One address space below the engine.
// An enum instead of a trait object: the engine calls it a dozen times for a request, and usually the answer is one field of
// the disk. The array's functions stay out of line.
#[expect(clippy::large_enum_variant, reason = "a machine has one of them")]
pub(crate) enum Storage {
    Disk(Block),
    Array(Array),
}

/// Calls a function of either variant.
macro_rules! ask {
    ($storage:expr, $below:ident => $answer:expr) => {
        match $storage {
            Storage::Disk($below) => $answer,
            Storage::Array($below) => {
                cold_path();
                $answer
            }
        }
    };
}

impl Storage {
    /// Submits, as [`Queue::submit`](elevator::queue::Queue::submit).
    #[inline(always)]
    pub(crate) fn submit(&mut self, now: Time, submission: Submission) -> Accepted {
        ask!(self, below => below.submit(now, submission))
    }

    /// Whether a notice is pending.
    #[inline]
    pub(crate) fn has_notice(&self) -> bool {
        ask!(self, below => below.has_notice())
    }

    /// The next notice for the engine.
    #[inline]
    pub(crate) fn notice(&mut self) -> Option<Notice> {
        ask!(self, below => below.notice())
    }

    /// Begins to gather submissions.
    #[inline]
    pub(crate) fn plug(&mut self) {
        ask!(self, below => below.plug());
    }

    /// Ends gathering. `waits`: the submitter sleeps now, which also unplugs a queue that plugged itself.
    #[inline]
    pub(crate) fn unplug(&mut self, now: Time, waits: bool) {
        ask!(self, below => below.unplug(now, waits));
    }

    /// The next event of the devices and schedulers.
    #[inline]
    pub(crate) fn next_event(&self) -> Option<Time> {
        ask!(self, below => below.next_event())
    }

    /// Takes completions from the devices.
    #[inline]
    pub(crate) fn collect(&mut self, now: Time) {
        ask!(self, below => below.collect(now));
    }

    /// Dispatches to the devices.
    #[inline]
    pub(crate) fn pump(&mut self, now: Time) {
        ask!(self, below => below.pump(now));
    }

    /// Requests of a direction that are queued or in flight; of an array, the maximum over its members.
    pub(crate) fn requests(&self, direction: Direction) -> u32 {
        ask!(self, below => below.requests(direction))
    }

    /// Passes the end of a process to the schedulers.
    pub(crate) fn exited(&mut self, now: Time, process: Process) {
        ask!(self, below => below.exited(now, process));
    }

    /// The statistics of each device, in order.
    pub(crate) fn device_stats(&mut self) -> Vec<&DeviceStats> {
        ask!(self, below => below.device_stats())
    }

    /// The interface of a disk. An array may combine requests, so its transfers are unknown.
    pub(crate) fn interface(&self) -> Interface {
        match self {
            Self::Disk(block) => block.interface(),
            Self::Array(_) => Interface::default(),
        }
    }

    /// The physical limit of the recorded workload, if the devices can compute it.
    pub(crate) fn limit(&self, limit_recorder: LimitRecorder) -> Option<Limit> {
        ask!(self, below => limit_recorder.limit_on(&below.as_devices()))
    }

    /// Adds up what the recorder has.
    #[cold]
    pub(crate) fn fold(&self, limit_recorder: &mut LimitRecorder) {
        ask!(self, below => limit_recorder.fold(&below.as_devices()));
    }

    /// Submissions of reads must end at multiples of this, if it is set. A submission completes as a whole, so reads on an
    /// array are cut at the ends of stripe units, as `merge_bvec_fn` does for md.
    pub(crate) fn read_boundary(&self) -> Option<Sectors> {
        match self {
            Self::Disk(_) => None,
            Self::Array(array) => Some(array.unit()),
        }
    }

    /// The queue of a single disk, to switch its scheduler or to reach a split-level policy.
    pub(crate) fn queue(&mut self) -> Option<&mut Queue<Listeners>> {
        match self {
            Self::Disk(block) => Some(block.queue()),
            Self::Array(_) => None,
        }
    }
}
