//! Numbers with their unit, text as HTML, names with control characters, and JSON objects with their schema version.

use std::borrow::Cow;

use serde::Serialize;

use crate::error::Error;

/// Text as HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A name on one line: control characters, which file names may contain, as in Rust (`\n`, `\u{1b}`). They would break a table, or change the
/// terminal.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().fold(String::new(), |mut all, letter| {
        match letter.is_control() {
            true => all.extend(letter.escape_default()),
            false => all.push(letter),
        }
        all
    });
    Cow::Owned(escaped)
}

/// A time in nanoseconds with three significant digits: `1.23 ms`.
pub fn time(ns: u64) -> String {
    scaled(ns as f64, &["ns", "us", "ms", "s"])
}

/// Bytes in powers of ten with three significant digits: `1.23 GB`.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// Three significant digits in the largest of `units` that leaves at least 1. Each unit is a thousand of the one before; the smallest has no
/// decimals.
fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut at = 0;
    while value >= 999.5 && at + 1 < units.len() {
        value /= 1e3;
        at += 1;
    }
    if at == 0 { format!("{value:.0} {}", units[at]) } else { digits(value, units[at]) }
}

/// Three digits and a unit.
fn digits(value: f64, unit: &str) -> String {
    match value {
        _ if value < 9.995 => format!("{value:.2} {unit}"),
        _ if value < 99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// A plain number with three significant digits.
pub fn number(value: f64) -> String {
    digits(value, "").trim_end().to_owned()
}

/// A share (1 is all) in percent.
pub fn percent(share: f64) -> String {
    if share < 0.0995 { format!("{:.1}%", share * 100.0) } else { format!("{:.0}%", share * 100.0) }
}

/// One JSON object on one line, with its schema version.
///
/// # Errors
/// `of` cannot be serialised.
pub fn object(of: &impl Serialize) -> Result<String, Error> {
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
    fn control_characters_of_names_are_escaped() {
        assert_eq!(printable("a\nb\t\u{1b}[31m\u{85}c"), "a\\nb\\t\\u{1b}[31m\\u{85}c");
        assert_eq!(printable("r/ä \"x\".gz"), "r/ä \"x\".gz");
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(1_234_567), "1.23 ms");
        assert_eq!(time(123_400_000_000), "123 s");
        assert_eq!(time(999_949_999_999), "1000 s");
        assert_eq!(time(999_995_832), "1.00 s", "not 1000 ms");
        assert_eq!(time(9_999_000), "10.0 ms", "not 10.00 ms");
        assert_eq!(bytes(4_294_967_296), "4.29 GB");
        assert_eq!(bytes(27_415_000_000_000_000), "27.4 PB");
        assert_eq!(percent(0.031), "3.1%");
        assert_eq!(percent(0.955), "96%");
    }
}
