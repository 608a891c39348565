//! Tunables as data: one table per scheduler with names, ranges, defaults and documentation. Help, parsing, error messages
//! and live control are generated from it.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use crate::time::Span;

/// A tunable's value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A length of time.
    Span(Span),
    /// A count.
    Count(u64),
    /// A distance or an amount in 512-byte sectors.
    Sectors(u64),
    /// Hundredths: 150 is a factor of 1.5.
    Percent(u64),
    /// On or off.
    Flag(bool),
}

impl Value {
    /// Parses `text` as a value of the same kind as `self`: `124ms`, `8`, `8192`, `50%` or `1.5`, `on` or
    /// `true` in upper or lower case.
    ///
    /// # Errors
    /// If `text` has another form, or is a length of time beyond the range of [`Span`].
    pub fn parse_like(self, text: &str) -> Result<Self, ValueError> {
        let text = text.trim();
        let expected = |form| ValueError::Form { expected: form, found: text.to_string() };
        match self {
            Self::Span(_) => parse_span(text).map(Self::Span),
            Self::Count(_) => text.parse().map(Self::Count).map_err(|_| expected("a whole number")),
            Self::Sectors(_) => {
                text.parse().map(Self::Sectors).map_err(|_| expected("a whole number of 512-byte sectors"))
            }
            Self::Percent(_) => parse_percent(text)
                .map(Self::Percent)
                .ok_or_else(|| expected("a percentage (50%) or a factor (1.5)")),
            Self::Flag(_) => match text.to_ascii_lowercase().as_str() {
                "1" | "on" | "true" | "yes" => Ok(Self::Flag(true)),
                "0" | "off" | "false" | "no" => Ok(Self::Flag(false)),
                _ => Err(expected("on or off")),
            },
        }
    }

    fn rank(self) -> u64 {
        match self {
            Self::Span(span) => span.as_nanos(),
            Self::Count(n) | Self::Sectors(n) | Self::Percent(n) => n,
            Self::Flag(on) => u64::from(on),
        }
    }

    fn same_kind(self, other: Self) -> bool {
        core::mem::discriminant(&self) == core::mem::discriminant(&other)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(span) => write!(f, "{span}"),
            Self::Count(n) => write!(f, "{n}"),
            Self::Sectors(n) => write!(f, "{n} sectors"),
            Self::Percent(n) => write!(f, "{n}%"),
            Self::Flag(on) => f.write_str(if *on { "on" } else { "off" }),
        }
    }
}

/// A text that is no value of the wanted kind.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ValueError {
    /// The text has another form.
    Form {
        /// The expected form, in words.
        expected: &'static str,
        /// The text.
        found: String,
    },
    /// The text is a length of time that exceeds [`Span::MAX`].
    TooLong {
        /// The text.
        found: String,
    },
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form { expected, found } => write!(f, "expected {expected}, found '{found}'"),
            Self::TooLong { found } => {
                write!(f, "'{found}' is longer than the longest supported time (584 years)")
            }
        }
    }
}

impl core::error::Error for ValueError {}

/// A decimal number scaled by `unit`, exact to the unit's digits, without floating point.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut value = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.chars() {
        place /= 10;
        value = value.checked_add(u64::from(digit.to_digit(10)?).checked_mul(place)?)?;
    }
    Some(value)
}

fn parse_span(text: &str) -> Result<Span, ValueError> {
    let form = "a length of time with its unit (124ms, 2us, 5s, 1h)";
    let error = || ValueError::Form { expected: form, found: text.to_string() };
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit.trim() {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" if number.bytes().all(|b| b == b'0') && !number.is_empty() => 1,
        _ => return Err(error()),
    };
    let is_number = number.bytes().any(|b| b.is_ascii_digit()) && number.matches('.').count() <= 1;
    let too_long = || ValueError::TooLong { found: text.to_string() };
    scaled(number, unit).map(Span::from_nanos).ok_or_else(|| if is_number { too_long() } else { error() })
}

fn parse_percent(text: &str) -> Option<u64> {
    match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().ok(),
        None => scaled(text, 100),
    }
}

/// One tunable of a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// The published name.
    pub name: &'static str,
    /// What the tunable does, and the effect of a change.
    pub doc: &'static str,
    /// The default; it determines the kind of value.
    pub default: Value,
    /// Least value allowed.
    pub min: Value,
    /// Greatest value allowed.
    pub max: Value,
}

impl Tunable {
    /// Parses `text` as a value of this tunable.
    ///
    /// # Errors
    /// If `text` has another form, or the value is out of range.
    pub fn parse(&self, text: &str) -> Result<Value, TuneError> {
        match self.default.parse_like(text) {
            Ok(value) => self.check(value).map(|()| value),
            Err(_) if self.overflows(text) => Err(self.out_of_range(text.trim().to_string())),
            Err(error) => Err(TuneError::Form { name: self.name, error }),
        }
    }

    /// Whether `text` fails to parse only because its number is too large.
    fn overflows(&self, text: &str) -> bool {
        let unit = text.trim().trim_start_matches(|c: char| c.is_ascii_digit());
        unit.len() < text.trim().len() && self.default.parse_like(&format!("1{unit}")).is_ok()
    }

    const fn out_of_range(&self, found: String) -> TuneError {
        TuneError::OutOfRange { name: self.name, min: self.min, max: self.max, found }
    }

    /// Checks that `value` is of this tunable's kind and within its range.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(&self, value: Value) -> Result<(), TuneError> {
        if !value.same_kind(self.default) {
            return Err(TuneError::Kind { name: self.name, example: self.default, found: value });
        }
        if value.rank() < self.min.rank() || value.rank() > self.max.rank() {
            return Err(self.out_of_range(value.to_string()));
        }
        Ok(())
    }
}

/// A tunable could not be set.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum TuneError {
    /// The scheduler has no tunable of that name.
    Unknown {
        /// The name.
        name: String,
    },
    /// The value is of another kind.
    Kind {
        /// The tunable.
        name: &'static str,
        /// A value of the right kind: the tunable's default.
        example: Value,
        /// The value.
        found: Value,
    },
    /// The value is out of range.
    OutOfRange {
        /// The tunable.
        name: &'static str,
        /// Least value allowed.
        min: Value,
        /// Greatest value allowed.
        max: Value,
        /// The value, as given.
        found: String,
    },
    /// The text is no value of the tunable's kind.
    Form {
        /// The tunable.
        name: &'static str,
        /// The reason why the text is invalid.
        error: ValueError,
    },
}

impl TuneError {
    /// The scheduler has no tunable of that name.
    #[must_use]
    pub fn unknown(name: &str) -> Self {
        Self::Unknown { name: name.to_string() }
    }
}

impl fmt::Display for TuneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => write!(f, "tunable '{name}' is not a tunable of this scheduler"),
            Self::Kind { name, example, found } => {
                write!(f, "tunable '{name}' takes a value like {example}, not {found}")
            }
            Self::OutOfRange { name, min, max, found } => {
                write!(f, "tunable '{name}' must be from {min} to {max}, not {found}")
            }
            Self::Form { name, error } => write!(f, "'{name}': {error}"),
        }
    }
}

impl core::error::Error for TuneError {}

/// A set of tunables. [`tunables!`](crate::tunables) implements it.
pub trait Tuning {
    /// Every tunable with its default, range and documentation; of a wrapper its own, then those of the wrapped policy.
    fn table(&self) -> &[Tunable];

    /// The present value of a tunable.
    fn value(&self, name: &str) -> Option<Value>;

    /// Sets a tunable, effective from the next event on.
    ///
    /// # Errors
    /// If there is no such tunable, or the value is of another kind or out of range.
    fn set_value(&mut self, name: &str, value: Value) -> Result<(), TuneError>;
}

/// Declares a scheduler's tunables: a struct of typed fields with `Default`, its table, and [`Tuning`](crate::Tuning) by
/// name. Each line is `name: kind = default, least, greatest`.
///
/// ```
/// use dwell_elevator::{tunables, Span};
/// tunables! {
///     /// Tunables of an example.
///     pub struct Example {
///         /// Maximum wait of a read.
///         read_expire: Span = Span::from_millis(500), Span::ZERO, Span::from_secs(60);
///         /// Requests in a batch.
///         fifo_batch: Count = 16, 1, 1024;
///     }
/// }
/// assert_eq!(Example::default().fifo_batch, 16);
/// assert_eq!(Example::TABLE[0].name, "read_expire");
/// ```
#[macro_export]
macro_rules! tunables {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident : $kind:ident = $default:expr, $min:expr, $max:expr;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $crate::tunables!(@type $kind),)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $name {
            /// The tunables as data.
            pub const TABLE: &'static [$crate::Tunable] = &[$($crate::Tunable {
                name: stringify!($field),
                doc: concat!($($doc),+),
                default: $crate::Value::$kind($default),
                min: $crate::Value::$kind($min),
                max: $crate::Value::$kind($max),
            },)*];

            /// The value of the tunable with that name.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<$crate::Value> {
                match name {
                    $(stringify!($field) => Some($crate::Value::$kind(self.$field)),)*
                    _ => None,
                }
            }

            /// Sets the tunable with that name.
            ///
            /// # Errors
            /// If there is none, or the value is of another kind or out of range.
            pub fn set(&mut self, name: &str, value: $crate::Value) -> Result<(), $crate::TuneError> {
                let tunable = Self::TABLE.iter().find(|t| t.name == name).ok_or_else(|| $crate::TuneError::unknown(name))?;
                tunable.check(value)?;
                match (name, value) {
                    $((stringify!($field), $crate::Value::$kind(value)) => self.$field = value,)*
                    _ => return Err($crate::TuneError::unknown(name)),
                }
                Ok(())
            }
        }

        impl $crate::Tuning for $name {
            fn table(&self) -> &[$crate::Tunable] {
                Self::TABLE
            }

            fn value(&self, name: &str) -> Option<$crate::Value> {
                self.get(name)
            }

            fn set_value(&mut self, name: &str, value: $crate::Value) -> Result<(), $crate::TuneError> {
                self.set(name, value)
            }
        }
    };
    (@type Span) => { $crate::Span };
    (@type Count) => { u64 };
    (@type Sectors) => { u64 };
    (@type Percent) => { u64 };
    (@type Flag) => { bool };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_with_their_units() {
        let span = Value::Span(Span::ZERO);
        assert_eq!(span.parse_like("124ms"), Ok(Value::Span(Span::from_millis(124))));
        assert_eq!(span.parse_like("0.5 s"), Ok(Value::Span(Span::from_millis(500))));
        assert_eq!(span.parse_like("0"), Ok(Value::Span(Span::ZERO)));
        assert_eq!(span.parse_like("1.5min"), Ok(Value::Span(Span::from_secs(90))));
        assert_eq!(span.parse_like("1h"), Ok(Value::Span(Span::from_secs(3_600))));
        assert!(span.parse_like("124").is_err());
        assert!(span.parse_like("99999999999999999999s").is_err());
        assert_eq!(Value::Percent(0).parse_like("1.5"), Ok(Value::Percent(150)));
        assert_eq!(Value::Percent(0).parse_like("50%"), Ok(Value::Percent(50)));
        assert_eq!(Value::Flag(true).parse_like("off"), Ok(Value::Flag(false)));
        // Python's notation.
        assert_eq!(Value::Flag(false).parse_like("True"), Ok(Value::Flag(true)));
    }

    tunables! {
        /// For the test.
        pub struct Example {
            /// A number.
            fifo_batch: Count = 16, 1, 1024;
        }
    }

    #[test]
    fn a_number_too_large_to_parse_is_reported_as_out_of_range() {
        let message = |text: &str| Example::TABLE[0].parse(text).unwrap_err().to_string();
        for huge in ["2000", "99999999999999999999", " 99999999999999999999 "] {
            assert_eq!(
                message(huge),
                format!("tunable 'fifo_batch' must be from 1 to 1024, not {}", huge.trim())
            );
        }
        for other in ["", "many", "-1", "1.5", "99999999999999999999x"] {
            assert!(message(other).contains("expected a whole number"), "{other}");
        }
        let span = Value::Span(Span::ZERO);
        let wait =
            Tunable { default: span, min: span, max: Value::Span(Span::from_secs(60)), ..Example::TABLE[0] };
        assert!(matches!(wait.parse("99999999999999999999s"), Err(TuneError::OutOfRange { .. })));
        assert!(matches!(wait.parse("99999999999999999999"), Err(TuneError::Form { .. })));
        assert_eq!(Example::TABLE[0].parse("8"), Ok(Value::Count(8)));
    }

    #[test]
    fn a_value_out_of_range_or_of_another_kind_is_rejected() {
        let mut example = Example::default();
        assert!(example.set("fifo_batch", Value::Count(0)).is_err());
        assert!(example.set("fifo_batch", Value::Flag(true)).is_err());
        assert!(example.set("fifo_batches", Value::Count(2)).is_err());
        example.set("fifo_batch", Value::Count(2)).unwrap();
        assert_eq!(example.get("fifo_batch"), Some(Value::Count(2)));
    }
}
