//! [`Source`]: the trait of everything that reports a device's requests.

use std::time::Duration;

use crate::error::Error;
use crate::event::Batch;

/// What to report, and at what cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Report completions, for latencies; costs half as much again.
    pub completions: bool,
    /// Report the end of tasks that submitted requests.
    pub exits: bool,
    /// The greatest number of submissions per second and CPU to report; `None` for all. Above it, a burst at the start of each 134 ms is
    /// reported completely and the rest only counted ([`Counts::skipped`]), so that sequences stay sequences. Default: 20,000.
    pub rate_max: Option<u32>,
    /// Memory between the kernel and the reader, in bytes; rounded up to a power of two. Default: 4 MiB, which is 0.6 s at
    /// 100,000 a second.
    pub ring_bytes: u32,
    /// The back end; `None` for the best that this kernel allows.
    pub backend: Option<Backend>,
}

impl Default for Options {
    fn default() -> Self {
        Self { completions: false, exits: false, rate_max: Some(20_000), ring_bytes: 4 << 20, backend: None }
    }
}

/// How a device is observed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Backend {
    /// A BPF program at the block layer's tracepoints.
    Bpf,
    /// The kernel's tracer, read as text, for kernels that refuse BPF. It has neither priorities nor thread groups, cannot sample, and costs
    /// several times as much.
    Tracefs,
    /// A test's own.
    Fake,
}

/// Counts of reported and missed events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Submissions to the device.
    pub arrived: u64,
    /// Submissions omitted above [`Options::rate_max`].
    pub skipped: u64,
    /// Submissions lost because the reader was late. An estimate with [`Backend::Tracefs`].
    pub lost: u64,
    /// Lost ends of tasks and of submissions, whether the submission was reported or not. An estimate with [`Backend::Tracefs`].
    pub ends_lost: u64,
}

impl Counts {
    /// Submissions that were not reported since `before`.
    pub const fn missed_since(&self, before: Self) -> u64 {
        self.skipped + self.lost - before.skipped - before.lost
    }
}

/// Reports a device's requests until it is dropped.
pub trait Source {
    /// Adds the events since the previous call to `batch`. If `patience` is not zero, it first waits until many events are available or that time
    /// has passed: rare wakeups cost little.
    ///
    /// # Errors
    /// The device was removed, or the kernel no longer reports it.
    fn take(&mut self, batch: &mut Batch, patience: Duration) -> Result<(), Error>;

    /// The counts since the source was opened.
    ///
    /// # Errors
    /// The kernel cannot be asked.
    fn counts(&self) -> Result<Counts, Error>;

    /// The back end.
    fn backend(&self) -> Backend;
}
