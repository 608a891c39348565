//! Sizes and lengths of time on the command line.

use std::time::Duration;

use elevator::{Span, Value};

use crate::error::Error;

/// A size in bytes: `500G` is decimal, `500GiB` binary.
pub(crate) fn size(text: &str) -> Result<u64, Error> {
    let error =
        || Error::Usage(format!("'{text}' is not a size; write 500G (10^9 bytes), 500GiB (2^30), or bytes"));
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (letter, binary) = match unit.strip_suffix("iB") {
        Some(letter) if !letter.is_empty() => (letter, true),
        _ => (unit.strip_suffix('B').unwrap_or(unit), false),
    };
    let power = ["", "K", "M", "G", "T"]
        .iter()
        .position(|&known| known.eq_ignore_ascii_case(letter))
        .ok_or_else(error)?;
    let base: u64 = if binary { 1024 } else { 1000 };
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(base.pow(power as u32))).ok_or_else(error)
}

/// A length of time from the command line.
pub(crate) fn span(what: &str, text: &str) -> Result<Duration, Error> {
    match Value::Span(Span::ZERO).parse_like(text) {
        Ok(Value::Span(span)) => Ok(Duration::from_nanos(span.as_nanos())),
        Ok(_) => Err(Error::Usage(format!("{what}: expected a length of time"))),
        Err(problem) => Err(Error::Usage(format!("{what}: {problem}"))),
    }
}

/// A length of time greater than zero.
pub(crate) fn some_time(what: &str, text: &str) -> Result<Duration, Error> {
    match span(what, text)? {
        Duration::ZERO => Err(Error::Usage(format!("{what}: must be greater than 0"))),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_decimal_unless_the_unit_is_binary() {
        assert_eq!(size("500G").unwrap(), 500_000_000_000);
        assert_eq!(size("4KiB").unwrap(), 4096);
        assert_eq!(size("512").unwrap(), 512);
        for wrong in ["500X", "", "99999999999T", "1BB", "1GBB", "1iB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert_eq!((size("7B").unwrap(), size("7kB").unwrap()), (7, 7000));
    }
}
