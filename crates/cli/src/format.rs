//! Numbers for people, always with their unit; and objects for programs.

use serde::Serialize;

use crate::error::Error;

/// A time in nanoseconds, to three digits: `1.23 ms`.
pub(crate) fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => digits(ns / 1e3, "us"),
        _ if ns < 1e9 => digits(ns / 1e6, "ms"),
        _ => digits(ns / 1e9, "s"),
    }
}

/// Bytes, in powers of ten: `1.23 GB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        _ if bytes < 1e3 => format!("{bytes:.0} B"),
        _ if bytes < 1e6 => digits(bytes / 1e3, "kB"),
        _ if bytes < 1e9 => digits(bytes / 1e6, "MB"),
        _ if bytes < 1e12 => digits(bytes / 1e9, "GB"),
        _ => digits(bytes / 1e12, "TB"),
    }
}

/// Three digits and a unit.
fn digits(value: f64, unit: &str) -> String {
    match value {
        _ if value < 10.0 => format!("{value:.2} {unit}"),
        _ if value < 100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// Three digits of a plain number.
pub(crate) fn number(value: f64) -> String {
    digits(value, "").trim_end().to_owned()
}

/// A share in percent.
pub(crate) fn percent(share: f64) -> String {
    if share < 0.0995 { format!("{:.1}%", share * 100.0) } else { format!("{:.0}%", share * 100.0) }
}

/// One JSON object, on one line, with the version of its shape.
pub(crate) fn object(of: &impl Serialize) -> Result<String, Error> {
    #[derive(Serialize)]
    struct Versioned<'a, T> {
        schema_version: u32,
        #[serde(flatten)]
        of: &'a T,
    }
    serde_json::to_string(&Versioned { schema_version: 1, of }).map_err(|e| Error::Failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(1_234_567), "1.23 ms");
        assert_eq!(time(123_400_000_000), "123 s");
        assert_eq!(bytes(4_294_967_296), "4.29 GB");
        assert_eq!(percent(0.031), "3.1%");
        assert_eq!(percent(0.955), "96%");
    }
}
