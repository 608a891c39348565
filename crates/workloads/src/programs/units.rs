//! Units of scripts: sizes, times, counts, names.

use std::fmt;

use elevator::{Span, Value};
use machine::Barrier;
use machine::kernel::Path;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::os::Os;

/// Bytes that the scale reduces: file sizes and transferred data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Size(pub u64);

impl Size {
    /// At a scale, in whole pages of 4 KB, at least one.
    pub fn at(self, scale: f64) -> u64 {
        if scale >= 1.0 { self.0 } else { ((self.0 as f64 * scale) as u64).next_multiple_of(4096).max(4096) }
    }
}

/// Bytes that the scale does not change: of a call, of a small file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Bytes(pub u64);

/// A number of files or operations, which the scale reduces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Count(pub u64);

impl Count {
    /// At a scale, at least one.
    pub fn at(self, scale: f64) -> u64 {
        if scale >= 1.0 { self.0 } else { ((self.0 as f64 * scale) as u64).max(1) }
    }
}

/// A time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Delay(pub Span);

impl Delay {
    /// At a scale, for durations.
    pub fn at(self, scale: f64) -> Span {
        if scale >= 1.0 { self.0 } else { Span::from_nanos((self.0.as_nanos() as f64 * scale) as u64) }
    }
}

/// A barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Meet {
    /// Its number, the same for all members; below 65536.
    pub at: u16,
    /// Number of members.
    pub members: u32,
}

impl Meet {
    /// The machine's barrier.
    pub fn meeting(self) -> Barrier {
        Barrier { name: self.at.into(), members: self.members }
    }
}

/// An absolute path; `{n}` is the copy's number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Name(String);

impl Name {
    /// The path for the calling process.
    pub fn of(&self, os: &Os) -> Path {
        Path::from(self.numbered(os.copy()))
    }

    /// The path for a copy.
    pub fn numbered(&self, copy: u32) -> String {
        numbered(&self.0, copy)
    }
}

/// Replaces `{n}` by a copy's number.
pub fn numbered(text: &str, copy: u32) -> String {
    text.replace("{n}", &copy.to_string())
}

/// Parses `"64 KiB"`, `"2 GB"`, or a number of bytes.
fn bytes(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit: u64 = match unit.trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let fraction = if fraction.is_empty() {
        0
    } else {
        let digits = u32::try_from(fraction.len()).ok()?;
        fraction.parse::<u64>().ok()?.checked_mul(unit)? / 10u64.checked_pow(digits)?
    };
    whole.checked_add(fraction)
}

struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"64 KiB\", \"2 GB\" or a number of bytes")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value).map_err(|_| E::custom("a size is not negative"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        bytes(text).ok_or_else(|| {
            E::custom(format!("expected a size such as \"64 KiB\" or \"2 GB\", found '{text}'"))
        })
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor).map(Self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor).map(Self)
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match Value::Span(Span::ZERO).parse_like(&text.replace(' ', "")) {
            Ok(Value::Span(span)) => Ok(Self(span)),
            Ok(_) => Err(D::Error::custom("expected a time such as \"5 ms\"")),
            Err(problem) => Err(D::Error::custom(problem)),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parts = || text[1..].split('/');
        if !text.starts_with('/') || (text.len() > 1 && parts().any(|part| matches!(part, "" | "." | ".."))) {
            return Err(D::Error::custom(format!(
                "'{text}' is not a path: paths begin with '/' and have no empty components, '.' or '..'"
            )));
        }
        Ok(Self(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_fractions() {
        assert_eq!(bytes("64 KiB"), Some(65_536));
        assert_eq!(bytes("1.5 GB"), Some(1_500_000_000));
        assert_eq!(bytes("512"), Some(512));
        assert_eq!(bytes("12 parsecs"), None);
        assert_eq!(bytes("99999999999 GiB"), None);
    }

    #[test]
    fn a_scaled_size_is_whole_pages() {
        assert_eq!(Size(100 << 20).at(1.0), 100 << 20);
        assert_eq!(Size(100_000).at(0.1), 12_288);
        assert_eq!(Size(100).at(0.1), 4096);
        assert_eq!(Count(3).at(0.01), 1);
    }
}
