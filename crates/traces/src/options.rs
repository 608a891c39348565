//! What a reader may be told beforehand.

use std::fmt;

use serde::Serialize;

use crate::format::Format;

/// What one unit of a recording's time stamps is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
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
    /// Every one, coarsest first.
    pub const ALL: &'static [Self] =
        &[Self::Seconds, Self::Milliseconds, Self::Microseconds, Self::Ticks, Self::Nanoseconds];

    /// Its length in nanoseconds.
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

    /// Its short name, as one gives it on a command line.
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

    /// The unit with that short name.
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

/// Which event of a block layer recording counts as the start of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum StartEvent {
    /// `block_io_start`: a request was made for a submission. Submissions that merge into it afterwards make no event
    /// of their own, so the length is taken from the request's issue or completion.
    #[serde(rename = "block_io_start")]
    IoStart,
    /// `block_bio_queue`, blktrace's Q: a submission arrived.
    #[serde(rename = "block_bio_queue")]
    BioQueue,
    /// `block_rq_insert`, blktrace's I: a request entered the scheduler. Does not fire under `none`.
    #[serde(rename = "block_rq_insert")]
    Insert,
    /// `block_rq_issue`, blktrace's D: a request was sent to the driver; its process may be a kernel worker.
    #[serde(rename = "block_rq_issue")]
    Issue,
}

impl StartEvent {
    /// Every one, best first: the earlier in a request's life, the closer to what its process did.
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

    /// The event with that name: the tracepoint's, or blktrace's letter.
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

/// Which of a recording's devices to read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum DeviceChoice {
    /// The only one; an error that lists them if there are several.
    #[default]
    Single,
    /// The one with that name, as the error lists it: `7,0`, `3`, `src1.2`.
    Named(String),
    /// All of them, together.
    All,
}

/// What a reader may be told. The default detects what it can and says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The format, if not to be detected.
    pub format: Option<Format>,
    /// Which device.
    pub device: DeviceChoice,
    /// The device's size in bytes; requests that reach beyond it are left out and counted.
    pub capacity: Option<u64>,
    /// The unit of time stamps, if not the format's published one.
    pub unit: Option<TimeUnit>,
    /// Which event is a request's start, in recordings of block layer events.
    pub event: Option<StartEvent>,
    /// Bytes of a block, in formats that count in a device's own blocks (DiskSim, SPC, HP SRT).
    pub block_bytes: Option<u32>,
    /// Seed of the generator that spreads arrivals within a second, where stamps are whole seconds.
    pub seed: u64,
    /// Make an error of everything that [`Oddity::is_fault`](crate::Oddity::is_fault) calls a fault.
    pub strict: bool,
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
        }
    }
}
