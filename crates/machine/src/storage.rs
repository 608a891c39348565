//! What the engine asks things of: a disk behind its queue, or an array of them. The engine cannot tell which.

use elevator::queue::{Accepted, Notice, Queue, Submission};
use elevator::{Direction, Process, Sectors, Time};

use crate::limit::{Limit, Witness};
use crate::listeners::Listeners;
use crate::measure::Meter;

/// The earlier of two times, of which either may never come.
pub(crate) fn sooner(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        _ => a.or(b),
    }
}

/// One address space below the engine, with the clock of whoever calls.
pub(crate) trait Storage {
    /// Somebody asks for something; as [`Queue::submit`](elevator::queue::Queue::submit).
    fn submit(&mut self, now: Time, submission: Submission) -> Accepted;

    /// The next thing that the engine must hear of.
    fn notice(&mut self) -> Option<Notice>;

    /// More submissions follow at once: gather them.
    fn plug(&mut self);

    /// What was gathered goes on; `waits` says that whoever asked sleeps now, which also unplugs a queue that plugged itself.
    fn unplug(&mut self, now: Time, waits: bool);

    /// When something happens here by itself.
    fn next_event(&self) -> Option<Time>;

    /// Takes from the devices what they have finished.
    fn collect(&mut self, now: Time);

    /// Gives the devices what their schedulers let go.
    fn pump(&mut self, now: Time);

    /// Where a read's submissions must end, if anywhere: at multiples of this. What is asked for in one piece comes back in one,
    /// so an array has its reads cut where its units end, as `merge_bvec_fn` does for md.
    fn read_boundary(&self) -> Option<Sectors> {
        None
    }

    /// How many requests of a direction are queued or in flight; the most of any one device.
    fn requests(&self, direction: Direction) -> u32;

    /// A process ended.
    fn exited(&mut self, now: Time, process: Process);

    /// The queue, where there is one and no more: to switch its scheduler, or to reach what that does above the block layer.
    fn queue(&mut self) -> Option<&mut Queue<Listeners>>;

    /// What each device did, in order.
    fn meters(&mut self) -> Vec<&Meter>;

    /// The least time that what was asked could take here, where the devices know.
    fn limit(&self, witness: Witness) -> Option<Limit>;
}
