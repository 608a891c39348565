//! The one trait of everything that reports what a device is asked.

use std::time::Duration;

use crate::error::Error;
use crate::event::Batch;

/// What is to be reported, and at what cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Report completions, for latencies; costs half as much again.
    pub completions: bool,
    /// Report the end of tasks that had asked for something.
    pub exits: bool,
    /// Submissions a second and processor that are reported at most; `None` for all. Above it, a burst from the beginning
    /// of every 134 ms is reported whole and the rest only counted ([`Counts::skipped`]), so that what is seen is in
    /// sequence. Default: 20,000.
    pub rate_max: Option<u32>,
    /// Memory between the kernel and the reader, in bytes; rounded up to a power of two. Default: 4 MiB, which is 0.6 s at
    /// 100,000 a second.
    pub ring_bytes: u32,
    /// How to look; `None` for the best that this kernel allows.
    pub way: Option<Way>,
}

impl Default for Options {
    fn default() -> Self {
        Self { completions: false, exits: false, rate_max: Some(20_000), ring_bytes: 4 << 20, way: None }
    }
}

/// How a device is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// A BPF program at the block layer's tracepoints.
    Bpf,
    /// The kernel's tracer, as text: for kernels that allow no BPF. Knows neither priorities nor thread groups, cannot
    /// sample, and costs several times as much.
    Tracefs,
    /// Whatever a test thinks up.
    Fake,
}

/// What was seen, and what was not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Submissions that the device was asked for.
    pub arrived: u64,
    /// Of these, left out on purpose above [`Options::rate_max`].
    pub skipped: u64,
    /// Of these, not reported as nobody fetched reports in time. By [`Way::Tracefs`] an estimate.
    pub lost: u64,
    /// Ends that were not reported, of tasks and of submissions, whether the submission itself was or not. By [`Way::Tracefs`] an
    /// estimate.
    pub ends_lost: u64,
}

/// Reports what a device is asked, as long as it lives.
pub trait Source {
    /// Adds to `batch` what was reported since the call before. If `patience` is not zero, first waits until much has
    /// gathered or that time has passed: one that wakes rarely costs little.
    ///
    /// # Errors
    /// The device is gone, or the kernel says that it can no longer be looked at.
    fn take(&mut self, batch: &mut Batch, patience: Duration) -> Result<(), Error>;

    /// What was seen since the beginning, and what was not.
    ///
    /// # Errors
    /// The kernel does not say.
    fn counts(&self) -> Result<Counts, Error>;

    /// How it looks.
    fn way(&self) -> Way;
}
