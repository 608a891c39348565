//! What the engine asks things of: a disk behind its queue, or an array of them. The engine does not ask which.

use elevator::queue::{Accepted, Notice, Queue, Submission};
use elevator::{Direction, Process, Sectors, Time, cold_path};

use crate::array::Array;
use crate::block::Block;
use crate::limit::{Limit, Witness};
use crate::listeners::Listeners;
use crate::measure::Meter;

/// The earlier of two times, of which either may never come.
#[inline]
pub(crate) fn sooner(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        _ => a.or(b),
    }
}

/// One address space below the engine, with the clock of whoever calls.
// No trait object: the engine asks a dozen times a request, and most often a look at one of the disk's fields is the answer. What
// an array does stays out of line.
#[expect(clippy::large_enum_variant, reason = "a machine has one of them")]
pub(crate) enum Storage {
    Disk(Block),
    Array(Array),
}

/// Asks whichever it is.
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
    /// Somebody asks for something; as [`Queue::submit`](elevator::queue::Queue::submit).
    #[inline(always)]
    pub(crate) fn submit(&mut self, now: Time, submission: Submission) -> Accepted {
        ask!(self, below => below.submit(now, submission))
    }

    /// Whether there is something that the engine must hear of.
    #[inline]
    pub(crate) fn has_notice(&self) -> bool {
        ask!(self, below => below.has_notice())
    }

    /// The next thing that the engine must hear of.
    #[inline]
    pub(crate) fn notice(&mut self) -> Option<Notice> {
        ask!(self, below => below.notice())
    }

    /// More submissions follow at once: gather them.
    #[inline]
    pub(crate) fn plug(&mut self) {
        ask!(self, below => below.plug());
    }

    /// What was gathered goes on; `waits` says that whoever asked sleeps now, which also unplugs a queue that plugged itself.
    #[inline]
    pub(crate) fn unplug(&mut self, now: Time, waits: bool) {
        ask!(self, below => below.unplug(now, waits));
    }

    /// When something happens here by itself.
    #[inline]
    pub(crate) fn next_event(&self) -> Option<Time> {
        ask!(self, below => below.next_event())
    }

    /// Takes from the devices what they have finished.
    #[inline]
    pub(crate) fn collect(&mut self, now: Time) {
        ask!(self, below => below.collect(now));
    }

    /// Gives the devices what their schedulers let go.
    #[inline]
    pub(crate) fn pump(&mut self, now: Time) {
        ask!(self, below => below.pump(now));
    }

    /// How many requests of a direction are queued or in flight; the most of any one device.
    pub(crate) fn requests(&self, direction: Direction) -> u32 {
        ask!(self, below => below.requests(direction))
    }

    /// A process ended.
    pub(crate) fn exited(&mut self, now: Time, process: Process) {
        ask!(self, below => below.exited(now, process));
    }

    /// What each device did, in order.
    pub(crate) fn meters(&mut self) -> Vec<&Meter> {
        ask!(self, below => below.meters())
    }

    /// The least time that what was asked could take here, where the devices know.
    pub(crate) fn limit(&self, witness: Witness) -> Option<Limit> {
        ask!(self, below => below.limit(witness))
    }

    /// Where a read's submissions must end, if anywhere: at multiples of this. What is asked for in one piece comes back in one,
    /// so an array has its reads cut where its units end, as `merge_bvec_fn` does for md.
    pub(crate) fn read_boundary(&self) -> Option<Sectors> {
        match self {
            Self::Disk(_) => None,
            Self::Array(array) => Some(array.unit()),
        }
    }

    /// The queue, where there is one and no more: to switch its scheduler, or to reach what that does above the block layer.
    pub(crate) fn queue(&mut self) -> Option<&mut Queue<Listeners>> {
        match self {
            Self::Disk(block) => Some(block.queue()),
            Self::Array(_) => None,
        }
    }
}
