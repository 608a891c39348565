//! Measured seek curves: lines of `distance, ms[, deviation[, write ms]]`, below a line with their number.
//!
//! The fourth number is Western Digital's extension. Either every line has it or none.

use super::{ReadError, SourceLine};
use crate::parameters::{LONGEST_MS, SeekPoint};

/// The points of a `.seek` file, and those of writes if it has any.
pub(super) struct Curve {
    pub(super) points: Vec<SeekPoint>,
    pub(super) writes: Vec<SeekPoint>,
}

pub(super) fn curve(file: &str, text: &str) -> Result<Curve, ReadError> {
    let mut points: Vec<SeekPoint> = Vec::new();
    let mut writes: Vec<SeekPoint> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = SourceLine { file: file.to_owned(), line: number as u32 + 1 };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with("Seek distances measured") {
            continue;
        }
        let (point, write) = point(line).ok_or_else(|| {
            ReadError::at(&place, format!("expected 'distance, milliseconds', found '{line}'"))
        })?;
        if points.last().is_some_and(|last| last.distance >= point.distance) || point.distance == 0 {
            return Err(ReadError::at(&place, "distances must rise, and begin at 1 or more"));
        }
        points.push(point);
        writes.extend(write);
        if !writes.is_empty() && writes.len() != points.len() {
            return Err(ReadError::at(&place, "every line must have a write's time or none"));
        }
    }
    let end = SourceLine { file: file.to_owned(), line: text.lines().count() as u32 };
    if points.is_empty() {
        Err(ReadError::at(&end, "a seek curve without a point"))
    } else {
        Ok(Curve { points, writes })
    }
}

fn point(line: &str) -> Option<(SeekPoint, Option<SeekPoint>)> {
    let mut parts = line.split(',').map(str::trim);
    let distance = parts.next()?.parse().ok()?;
    let at = |ms: f64| (0.0..=LONGEST_MS).contains(&ms).then_some(SeekPoint { distance, ms });
    let read = at(parts.next()?.parse().ok()?)?;
    if parts.next().is_some_and(|deviation| deviation.parse::<f64>().is_err()) {
        return None;
    }
    let write = match parts.next() {
        Some(ms) => Some(at(ms.parse().ok()?)?),
        None => None,
    };
    parts.next().is_none().then_some((read, write))
}
