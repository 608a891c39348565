//! Options of a queue.

use super::Supervision;
use crate::request::Op;
use crate::sector::Sectors;
use crate::time::Span;

/// A queue's settings. The defaults are those of a SATA disk on a stock Linux 6.x kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The number of requests that the device accepts at the same time; at least 1, or [`Queue::new`](super::Queue::new) panics.
    pub depth: u32,
    /// Maximum length of a merged request. Linux: `max_sectors_kb`, 1280 KiB today, 512 KiB in 2.6.
    pub max_sectors: Sectors,
    /// Maximum number of memory segments in a request; a part counts one for each 64 KiB begun. Linux: 128 for most disks.
    pub max_segments: u32,
    /// Whether adjacent requests are merged at all. Linux: `nomerges`.
    pub merges: bool,
    /// When several submissions are gathered before the scheduler receives them.
    pub plugging: Plugging,
    /// Limits of requests that are queued or in flight.
    pub limits: Limits,
    /// Which process identities schedulers receive.
    pub identity: Identity,
    /// Which writes count as synchronous.
    pub sync_writes: SyncWrites,
    /// The durability of completed writes.
    pub cache: Cache,
    /// The requests that a flush delays.
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
            sync_writes: SyncWrites::Flagged,
            cache: Cache::WriteBack { fua: true },
            barriers: Barriers::Completed,
            supervision: Supervision::default(),
        }
    }
}

/// When several submissions are gathered before the scheduler receives them ([`Task`](Self::Task)) or dispatches one ([`Queue`](Self::Queue)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Plugging {
    /// Never: each goes to the scheduler at once.
    None,
    /// Since 2.6.39: between the host's [`plug`](super::Queue::plug) and [`unplug`](super::Queue::unplug), at most
    /// this many requests. Linux: 32.
    Task {
        /// Number of gathered requests after which they are inserted without an unplug.
        most: u32,
    },
    /// Until 2.6.38: an empty queue plugs itself at its first request. Linux: 4 requests or 3 ms. In Linux it also does so while
    /// requests are in flight, and a completion unplugs it; on a device of depth 1 that is equivalent.
    Queue {
        /// Number of queued requests that unplug it.
        threshold: u32,
        /// Time after which it unplugs itself.
        delay: Span,
    },
}

/// Limits of requests that are queued or in flight, per direction; beyond them, submitters sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The limit. Linux: `nr_requests`, 128 per direction until blk-mq; today schedulers get twice the depth, at least 128 (256 here
    /// for both directions together, which is 128 per direction).
    pub nr_requests: u32,
    /// A woken submitter may add this many requests before it sleeps again (2.6: 32, including the one with which it slept).
    pub batch_requests: u32,
    /// The time for such a batch (2.6: HZ/50 = 20 ms).
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

    /// The hard limit, which also holds for batches: one and a half times the limit, as in 2.6.
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
    /// The processes that the host reports.
    Shown,
    /// None, as in a VM host, an NBD server, or a stacked device.
    Hidden,
    /// One process for all requests, which is how the stream paper hid them.
    Same,
}

impl Identity {
    /// As scripts and tables name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::Hidden => "hidden",
            Self::Same => "same",
        }
    }
}

/// Which writes count as synchronous: a process waits for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum SyncWrites {
    /// Those whose submissions say so.
    #[default]
    Flagged,
    /// Those that look so, because no submission says it: neither FUSE nor NBD transfers the flag. A write of at most 64 KiB is taken for
    /// synchronous while at most three other such writes are unfinished. A commit has a few short writes at a time; write-back has long
    /// ones, or many.
    Guessed,
}

impl SyncWrites {
    /// The longest write that may be guessed to be synchronous.
    const LONGEST: Sectors = Sectors(128);
    /// The number of unfinished short writes from which the next one is not.
    pub(super) const MANY: u32 = 4;

    /// Whether a submission is guessed, and is a short write.
    pub(super) fn counts(self, op: Op, sectors: Sectors) -> bool {
        self == Self::Guessed && op == Op::Write && sectors <= Self::LONGEST
    }
}

/// The durability of completed writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cache {
    /// A completed write is durable; the queue completes flushes itself.
    WriteThrough,
    /// A completed write is durable after the next flush.
    WriteBack {
        /// Whether the device supports forced unit access; otherwise the queue dispatches a flush behind the write.
        fua: bool,
    },
}

/// The requests that a flush delays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Barriers {
    /// Since 2.6.37: a flush covers writes that completed before its submission, and no other request waits for it.
    Completed,
    /// The same on a device whose flush is not a queued command, as with SATA (since 2.6.39): it is dispatched while the
    /// device has no other request, and no other request is dispatched until it completes.
    Alone,
    /// The same behind a loop device, whose worker waits for a flush before it takes later requests.
    Serial,
    /// Until 2.6.36: a flush waits for all earlier submissions, and all later submissions wait for the flush.
    Drain,
}

impl Barriers {
    /// Whether a flush must be alone in the device.
    #[must_use]
    pub const fn flushes_alone(self) -> bool {
        matches!(self, Self::Alone | Self::Serial)
    }
}
