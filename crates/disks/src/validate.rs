//! Comparison of a model with the physical drive: a measured trace is served by the model.
//!
//! The trace has the requests that a physical drive served one at a time. Each is issued a measured gap after the completion of the
//! one before, in the model's time. The result is their [demerit].

use std::io::{self, BufRead};

use elevator::{Op, Sector, Sectors, Span, Time};

use crate::demerit;
use crate::drive::{Command, Drive, Tag};

/// A request that a physical drive served.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// A write; otherwise a read.
    pub write: bool,
    /// First sector.
    pub start: Sector,
    /// Length.
    pub sectors: Sectors,
    /// Service time: from issue to completion.
    pub service: Span,
    /// From completion to the issue of the next request.
    pub gap: Span,
}

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The trace cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line is malformed.
    #[error("line {line}: {field}: '{text}' is not {expected}")]
    Line {
        /// The line's number, from 1.
        line: usize,
        /// The field.
        field: &'static str,
        /// The field's content.
        text: String,
        /// What the field must be.
        expected: &'static str,
    },
    /// A request lies beyond the drive.
    #[error("request {request}: sectors {start}+{sectors} are beyond the drive's {capacity}")]
    Beyond {
        /// The request's number, from 1.
        request: usize,
        /// First sector.
        start: Sector,
        /// Length.
        sectors: u32,
        /// The drive's size.
        capacity: Sector,
    },
    /// The drive never completes a request.
    #[error("request {0}: the drive never answers")]
    NoAnswer(usize),
    /// The trace has no requests.
    #[error("the trace holds no request")]
    Empty,
}

/// Reads a trace: lines of `R|W class first_block blocks service_us gap_us`. A block is a sector of 512 bytes.
///
/// # Errors
/// If a line is malformed (the error has line and field), incomplete, or unreadable, or if there is no request. A byte-order mark is
/// allowed.
pub fn read_trace(trace: impl BufRead) -> Result<Vec<Measured>, TraceError> {
    let mut requests = Vec::new();
    for (i, line) in trace.lines().enumerate() {
        let line = line?;
        let text = line.trim_start_matches('\u{feff}');
        if !text.trim().is_empty() {
            requests.push(parse(text, i + 1)?);
        }
    }
    if requests.is_empty() { Err(TraceError::Empty) } else { Ok(requests) }
}

fn parse(text: &str, line: usize) -> Result<Measured, TraceError> {
    let mut words = text.split_whitespace();
    let mut field = |field: &'static str| (field, words.next().unwrap_or(""));
    let wrong = |(field, text): (&'static str, &str), expected| TraceError::Line {
        line,
        field,
        text: text.to_owned(),
        expected,
    };
    let op = field("operation");
    let write = match op.1 {
        "R" => false,
        "W" => true,
        _ => return Err(wrong(op, "R or W")),
    };
    field("class");
    let (start, sectors) = (field("first block"), field("blocks"));
    let (service, gap) = (field("service time"), field("gap"));
    let micros = |f: (&'static str, &str)| {
        let value = f.1.parse().ok().filter(|us: &f64| (0.0..1e13).contains(us));
        value.map(|us| Span::from_nanos((us * 1000.0).round() as u64)).ok_or_else(|| wrong(f, "a time in µs"))
    };
    Ok(Measured {
        write,
        start: Sector(start.1.parse().map_err(|_| wrong(start, "a sector"))?),
        sectors: Sectors(
            sectors.1.parse().ok().filter(|&n| n > 0).ok_or_else(|| wrong(sectors, "a length"))?,
        ),
        service: micros(service)?,
        gap: micros(gap)?,
    })
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct Validation {
    /// Number of requests.
    pub requests: usize,
    /// Mean service time of the physical drive, in ms.
    pub measured_mean_ms: f64,
    /// Mean service time of the model, in ms.
    pub modelled_mean_ms: f64,
    /// The demerit as DiskSim computes it, in ms.
    pub demerit_ms: f64,
    /// The demerit between curves through the service times themselves, in ms.
    pub exact_demerit_ms: f64,
    /// The model's service time of each request, in the order of the trace.
    pub modelled: Vec<Span>,
}

impl Validation {
    /// DiskSim's demerit divided by the measured mean.
    #[must_use]
    pub fn relative_demerit(&self) -> f64 {
        self.demerit_ms / self.measured_mean_ms
    }
}

/// Serves a trace with `drive`, which must be unused.
///
/// # Errors
/// If the trace is empty, a request lies beyond the drive, or the drive never completes one.
pub fn validate(drive: &mut dyn Drive, trace: &[Measured]) -> Result<Validation, TraceError> {
    let capacity = drive.capacity();
    let mut now = Time::ZERO;
    let mut modelled = Vec::with_capacity(trace.len());
    for (i, request) in trace.iter().enumerate() {
        let (start, sectors) = (request.start, request.sectors.0);
        if start.0.checked_add(sectors.into()).is_none_or(|end| end > capacity.0) {
            return Err(TraceError::Beyond { request: i + 1, start, sectors, capacity });
        }
        let done = serve(drive, now, request).ok_or(TraceError::NoAnswer(i + 1))?;
        modelled.push(done.since(now));
        now = done + request.gap;
    }
    let measured: Vec<Span> = trace.iter().map(|request| request.service).collect();
    let demerit_ms = demerit::disksim_ms(&measured, &modelled).ok_or(TraceError::Empty)?;
    let exact_demerit_ms = demerit::exact_ms(&measured, &modelled).ok_or(TraceError::Empty)?;
    Ok(Validation {
        requests: trace.len(),
        measured_mean_ms: mean_ms(&measured),
        modelled_mean_ms: mean_ms(&modelled),
        demerit_ms,
        exact_demerit_ms,
        modelled,
    })
}

/// The completion time of a request issued at `now`; `None` if the drive has no further events.
fn serve(drive: &mut dyn Drive, now: Time, request: &Measured) -> Option<Time> {
    let op = if request.write { Op::Write } else { Op::Read };
    let command = Command { tag: Tag(0), op, start: request.start, sectors: request.sectors, fua: false };
    drive.submit(now, command);
    let mut at = now;
    loop {
        if let Some(done) = drive.poll(at) {
            return Some(done.at);
        }
        at = drive.next_event()?;
    }
}

fn mean_ms(times: &[Span]) -> f64 {
    times.iter().map(|t| t.as_millis_f64()).sum::<f64>() / times.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_line_and_field() {
        let message = |text: &str| read_trace(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(message("R Hit 5 2 10.5 3\nX Hit 5 2 1 1\n"), "line 2: operation: 'X' is not R or W");
        assert_eq!(message("R Hit -5 2 1 1"), "line 1: first block: '-5' is not a sector");
        assert_eq!(message("R Hit 5 0 1 1"), "line 1: blocks: '0' is not a length");
        assert_eq!(message("R Hit 5 2 nan 1"), "line 1: service time: 'nan' is not a time in µs");
        assert_eq!(message("R Hit 5 2 1"), "line 1: gap: '' is not a time in µs");
        assert_eq!(message("\r\n"), "the trace holds no request");
        assert!(read_trace("\u{feff}R Hit 5 2 10.5 3\r\n".as_bytes()).is_ok());
    }

    #[test]
    fn a_request_beyond_the_drive_is_rejected_with_its_number() {
        let mut drive = crate::Fixed::new(100 * 512, 1, Span::from_micros(1));
        let mut message = |text: &str| {
            let trace = read_trace(text.as_bytes()).unwrap();
            validate(&mut drive, &trace).map(|found| found.requests).map_err(|error| error.to_string())
        };
        assert_eq!(message("R Hit 0 2 1 1\nW Hit 98 2 1 1\n"), Ok(2));
        let beyond = "request 2: sectors 99+2 are beyond the drive's 100";
        assert_eq!(message("R Hit 0 2 1 1\nW Hit 99 2 1 1\n"), Err(beyond.to_owned()));
        assert!(message("R Hit 18446744073709551615 2 1 1").is_err());
    }
}
