//! The interpretation of a recording: format, unit of time and other findings, for people and programs.

use std::fmt;

use elevator::Span;
use elevator::text::counted;
use serde::{Serialize, Serializer};

use crate::compression::Wrapping;
use crate::format::Format;
use crate::options::{StartEvent, TimeUnit};
use crate::unit::{RATE_MAX, UnitSource};

/// How a recording was read, and its size: `ftrace text, gzip, block_io_start, read as seconds: 15.5 s, 1677.2 IOPS, 6 processes`.
///
/// Before the first record it has only the former.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Interpretation {
    /// The format.
    pub format: Format,
    /// Whether the caller specified the format.
    pub format_forced: bool,
    /// Compression and archive formats, outermost first.
    pub wrappings: Vec<Wrapping>,
    /// The event that is a request's start, in recordings of block layer events.
    pub event: Option<StartEvent>,
    /// The unit of time stamps.
    pub unit: TimeUnit,
    /// The source of the unit.
    pub unit_source: UnitSource,
    /// Number of requests so far.
    pub requests: u64,
    /// From the first request to the last.
    #[serde(rename = "span_ns", serialize_with = "nanos")]
    pub span: Span,
    /// Number of processes so far; zero if the format has none.
    pub processes: usize,
    /// Further assumptions.
    pub notes: Vec<String>,
}

fn nanos<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(span.as_nanos())
}

impl Interpretation {
    /// Requests per second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        let seconds = self.span.as_secs_f64();
        if seconds > 0.0 { self.requests as f64 / seconds } else { 0.0 }
    }

    /// A warning if the rate is implausible, which suggests another unit of time.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        const ENOUGH: u64 = 1_000;
        let (iops, unit) = (self.iops(), self.unit);
        let advice = "is the unit of time right? name it if not";
        if self.requests < ENOUGH || self.unit_source == UnitSource::Forced {
            return None;
        }
        if self.span == Span::ZERO || iops > RATE_MAX as f64 {
            return Some(format!("{iops:.0} requests a second, read as {unit}: {advice}"));
        }
        (iops < 0.01).then(|| format!("{:.1} requests an hour, read as {unit}: {advice}", iops * 3_600.0))
    }
}

/// A duration for people: `24.0 h`, `15.5 s`, `12.1 ms`.
fn in_words(span: Span) -> String {
    let seconds = span.as_secs_f64();
    match seconds {
        s if s >= 7_200.0 => format!("{:.1} h", s / 3_600.0),
        s if s >= 120.0 => format!("{:.1} min", s / 60.0),
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 0.001 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.1} us", s * 1e6),
    }
}

impl fmt::Display for Interpretation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.format, if self.format_forced { " (as specified)" } else { "" })?;
        for wrapping in &self.wrappings {
            write!(f, ", {wrapping}")?;
        }
        if let Some(event) = self.event {
            write!(f, ", {event}")?;
        }
        write!(f, ", read as {}", self.unit)?;
        match self.unit_source {
            UnitSource::Forced => f.write_str(" (as specified)")?,
            UnitSource::Judged => f.write_str(" (judged by the time stamps; not the format's usual)")?,
            UnitSource::Published => {}
        }
        if self.requests > 0 {
            write!(f, ": {}, {:.1} IOPS", in_words(self.span), self.iops())?;
            if self.processes > 0 {
                write!(f, ", {}", counted(self.processes as u64, "process"))?;
            }
        }
        for note in &self.notes {
            write!(f, "; {note}")?;
        }
        Ok(())
    }
}
