//! How a queue is set up.

use super::Supervision;
use crate::sector::Sectors;
use crate::time::Span;

/// A queue's settings. The defaults are those of a SATA disk on a stock Linux 6.x kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How many requests the device takes at once; at least 1.
    pub depth: u32,
    /// Largest request that merging may make. Linux: `max_sectors_kb`, 1280 KiB today, 512 KiB in 2.6.
    pub max_sectors: Sectors,
    /// Most memory segments in a request; a part counts one for each 64 KiB begun. Linux: 128 for most disks.
    pub max_segments: u32,
    /// Whether adjacent requests are merged at all. Linux: `nomerges`.
    pub merges: bool,
    /// When several submissions are gathered before the scheduler sees them.
    pub plugging: Plugging,
    /// How many requests may be queued or in flight.
    pub limits: Limits,
    /// Which process identities schedulers receive.
    pub identity: Identity,
    /// What the device does about durability.
    pub cache: Cache,
    /// What a flush holds back.
    pub barriers: Barriers,
    /// When a scheduler counts as faulty and is replaced.
    pub supervision: Supervision,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            depth: 31,
            max_sectors: Sectors(2560),
            max_segments: 128,
            merges: true,
            plugging: Plugging::Task { most: 32 },
            limits: Limits::default(),
            identity: Identity::Shown,
            cache: Cache::WriteBack { fua: true },
            barriers: Barriers::Completed,
            supervision: Supervision::default(),
        }
    }
}

/// When several submissions are gathered before the scheduler sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plugging {
    /// Each goes to the scheduler at once.
    None,
    /// Since 2.6.39: between the host's [`plug`](super::Queue::plug) and [`unplug`](super::Queue::unplug), at most
    /// this many requests. Linux: 32.
    Task {
        /// Requests gathered before they go on without an unplug.
        most: u32,
    },
    /// Until 2.6.38: an empty queue plugs itself at its first request. Linux: 4 requests or 3 ms. There it does so too while
    /// something is in flight, and a completion pulls the plug; on a device that takes one at a time that is the same.
    Queue {
        /// Requests queued that unplug it.
        threshold: u32,
        /// Time after which it unplugs itself.
        delay: Span,
    },
}

/// How many requests may be queued or in flight, per direction; beyond that, submitters sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Linux: `nr_requests`, 128 a direction until blk-mq; today schedulers get twice the depth, at least 128 (256 here
    /// for both directions together makes 128 a direction).
    pub nr_requests: u32,
    /// A submitter that was woken may add this many before it sleeps again (2.6: 32, with the one that it slept with).
    pub batch_requests: u32,
    /// and has this long to do so (2.6: HZ/50 = 20 ms).
    pub batch_time: Span,
}

impl Limits {
    /// No limit; for hosts that keep their own.
    pub const NONE: Self = Self { nr_requests: u32::MAX, batch_requests: 0, batch_time: Span::ZERO };

    /// Requests of both directions together.
    #[must_use]
    pub const fn both_directions(&self) -> u32 {
        self.nr_requests.saturating_mul(2)
    }

    /// The hard limit that not even a batch may pass: half as much again, as in 2.6.
    #[must_use]
    pub const fn hard(&self) -> u32 {
        self.nr_requests.saturating_add(self.nr_requests / 2)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { nr_requests: 128, batch_requests: 32, batch_time: Span::from_millis(20) }
    }
}

/// Which process identities schedulers receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identity {
    /// Whatever the host knows.
    Shown,
    /// Nothing: the world of a VM host, an NBD server, a stacked device.
    Hidden,
    /// Everybody is one and the same process, which is how the stream paper hid them.
    Same,
}

/// What the device does about durability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cache {
    /// A completed write is durable; flushes are answered by the queue.
    WriteThrough,
    /// A completed write is durable after the next flush.
    WriteBack {
        /// Whether the device honours forced unit access; otherwise the queue sends a flush behind the write.
        fua: bool,
    },
}

/// What a flush holds back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Barriers {
    /// Since 2.6.37: a flush covers what completed before it was submitted, and nothing waits for it.
    Completed,
    /// The same on a device whose flush is not a queued command, which is all of SATA (since 2.6.39): it is sent when the
    /// device has nothing else, and nothing is sent beside it.
    Alone,
    /// The same behind a loop device, whose worker waits for a flush before it looks at what came after it.
    Serial,
    /// Until 2.6.36: a flush waits for everything submitted before it, and everything after it waits for the flush.
    Drain,
}

impl Barriers {
    /// Whether a flush is sent when the device has nothing else, and nothing beside it.
    #[must_use]
    pub const fn flushes_alone(self) -> bool {
        matches!(self, Self::Alone | Self::Serial)
    }
}
