//! Measured seek curves: lines of `distance, ms[, deviation]`, under a line that says how many there are.

use super::{Place, ReadError};
use crate::parameters::SeekPoint;

/// The points of a `.seek` file.
pub(super) fn curve(file: &str, text: &str) -> Result<Vec<SeekPoint>, ReadError> {
    let mut points: Vec<SeekPoint> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = Place { file: file.to_owned(), line: number as u32 + 1 };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with("Seek distances measured") {
            continue;
        }
        let point = point(line).ok_or_else(|| {
            ReadError::at(&place, format!("expected 'distance, milliseconds', found '{line}'"))
        })?;
        if points.last().is_some_and(|last| last.distance >= point.distance) || point.distance == 0 {
            return Err(ReadError::at(&place, "distances must rise, and begin at 1 or more"));
        }
        points.push(point);
    }
    let end = Place { file: file.to_owned(), line: text.lines().count() as u32 };
    if points.is_empty() { Err(ReadError::at(&end, "a seek curve without a point")) } else { Ok(points) }
}

fn point(line: &str) -> Option<SeekPoint> {
    let mut parts = line.split(',').map(str::trim);
    let distance = parts.next()?.parse().ok()?;
    let ms: f64 = parts.next()?.parse().ok()?;
    let sound = (0.0..=3_600_000.0).contains(&ms) && parts.next().is_none_or(|d| d.parse::<f64>().is_ok());
    (sound && parts.next().is_none()).then_some(SeekPoint { distance, ms })
}
