//! Options of a reader.

use std::fmt;

use serde::Serialize;

use crate::format::list::Format;

/// The unit of time stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Windows' FILETIME ticks of 100 ns.
    #[serde(rename = "100 ns ticks")]
    Ticks,
    /// Nanoseconds.
    Nanoseconds,
}

impl TimeUnit {
    /// All units, coarsest first.
    pub const ALL: &'static [Self] =
        &[Self::Seconds, Self::Milliseconds, Self::Microseconds, Self::Ticks, Self::Nanoseconds];

    /// Nanoseconds per unit.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        match self {
            Self::Seconds => 1_000_000_000,
            Self::Milliseconds => 1_000_000,
            Self::Microseconds => 1_000,
            Self::Ticks => 100,
            Self::Nanoseconds => 1,
        }
    }

    /// Abbreviation: `s`, `ms`, `us`, `100ns` or `ns`.
    #[must_use]
    pub const fn short(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "us",
            Self::Ticks => "100ns",
            Self::Nanoseconds => "ns",
        }
    }

    /// The unit with that abbreviation.
    #[must_use]
    pub fn from_short(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|unit| unit.short() == name)
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Ticks => "100 ns ticks",
            Self::Nanoseconds => "nanoseconds",
        })
    }
}

/// The event of a block layer recording that is a request's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub enum StartEvent {
    /// `block_io_start`: a request was created for a submission. Submissions that merge into it later have no event of their own; the
    /// length is therefore taken from the request's issue or completion.
    #[serde(rename = "block_io_start")]
    IoStart,
    /// `block_bio_queue`, blktrace's Q: a submission.
    #[serde(rename = "block_bio_queue")]
    BioQueue,
    /// `block_rq_insert`, blktrace's I: a request was inserted into the scheduler. Does not occur under `none`.
    #[serde(rename = "block_rq_insert")]
    Insert,
    /// `block_rq_issue`, blktrace's D: a request was issued to the driver. Its process may be a kernel worker.
    #[serde(rename = "block_rq_issue")]
    Issue,
}

impl StartEvent {
    /// All events, best first: the earlier in a request's life, the closer to its process.
    pub const ALL: &'static [Self] = &[Self::IoStart, Self::BioQueue, Self::Insert, Self::Issue];

    /// The tracepoint's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IoStart => "block_io_start",
            Self::BioQueue => "block_bio_queue",
            Self::Insert => "block_rq_insert",
            Self::Issue => "block_rq_issue",
        }
    }

    /// The event of a tracepoint or of blktrace's letter.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "Q" => Some(Self::BioQueue),
            "I" => Some(Self::Insert),
            "D" => Some(Self::Issue),
            _ => Self::ALL.iter().copied().find(|event| event.as_str() == name),
        }
    }
}

impl fmt::Display for StartEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The devices to read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum DeviceChoice {
    /// The only device; an error that lists the devices if there are several.
    #[default]
    Single,
    /// The device with that name, as the error lists it: `7,0`, `3`, `src1.2`.
    Named(String),
    /// All devices.
    All,
}

/// Options of a reader. By default everything is detected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The format; `None`: detected.
    pub format: Option<Format>,
    /// The devices.
    pub device: DeviceChoice,
    /// The device's size in bytes: requests beyond it are left out and counted.
    pub capacity: Option<u64>,
    /// The unit of time stamps; `None`: the format's published unit, unless the time stamps contradict it.
    pub unit: Option<TimeUnit>,
    /// The event that is a request's start, in recordings of block layer events; `None`: the best that occurs.
    pub event: Option<StartEvent>,
    /// Bytes per block, in formats that count in blocks of the device (DiskSim, SPC, HP SRT).
    pub block_bytes: Option<u32>,
    /// Seed of the generator that distributes arrivals within a second, if time stamps are whole seconds.
    pub seed: u64,
    /// Return an error for everything that [`Oddity::is_fault`](crate::Oddity::is_fault) calls a fault.
    pub strict: bool,
    /// Threads that parse a large text; 1: none but the caller's. The records are the same. On Linux their niceness is higher by 5, so that the caller does
    /// not wait for a processor.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: None,
            device: DeviceChoice::Single,
            capacity: None,
            unit: None,
            event: None,
            block_bytes: None,
            seed: 1,
            strict: false,
            threads: 1,
        }
    }
}
