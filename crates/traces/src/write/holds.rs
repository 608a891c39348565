//! The fields of a record that each format can hold.

use std::fmt;

use elevator::{Flags, Op, Span};
use serde::{Serialize, Serializer};

use crate::record::Record;

/// A field of records that not all formats have. Every format has the time of issue, reads and writes, and extents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// More than one device.
    Devices,
    /// The completion.
    Completions,
    /// A missing completion. Formats without this field have a response time of 0 instead.
    NoCompletion,
    /// Discards.
    Discards,
    /// Flushes.
    Flushes,
    /// The flag for synchronous requests.
    Synchronous,
    /// The other flags.
    Flags,
    /// The I/O priority.
    Priorities,
    /// The process.
    Processes,
    /// The name of the process.
    Names,
    /// An offset or length that is no multiple of a sector.
    Bytes,
}

impl Field {
    /// All fields.
    pub const ALL: &'static [Self] = &[
        Self::Devices,
        Self::Completions,
        Self::NoCompletion,
        Self::Discards,
        Self::Flushes,
        Self::Synchronous,
        Self::Flags,
        Self::Priorities,
        Self::Processes,
        Self::Names,
        Self::Bytes,
    ];

    /// The field, for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Devices => "several devices",
            Self::Completions => "response times",
            Self::NoCompletion => "missing response times (0 instead)",
            Self::Discards => "discards",
            Self::Flushes => "flushes",
            Self::Synchronous => "the flag of synchronous requests",
            Self::Flags => "other flags",
            Self::Priorities => "priorities",
            Self::Processes => "processes",
            Self::Names => "names of processes",
            Self::Bytes => "parts of a sector",
        }
    }
}

/// A set of fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fields(u16);

impl Fields {
    /// Whether the field is in the set.
    #[must_use]
    pub const fn has(self, field: Field) -> bool {
        self.0 & 1 << field as u16 != 0
    }

    /// Whether there is no field in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn insert(&mut self, field: Field) {
        self.0 |= 1 << field as u16;
    }

    /// The fields that are not in the other set.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The fields of the set.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        Field::ALL.iter().copied().filter(move |field| self.has(*field))
    }

    /// Adds the fields that a record has.
    pub(crate) fn see(&mut self, record: &Record, has_name: bool) {
        let Flags { sync, .. } = record.flags;
        let others = Flags { sync: false, ..record.flags } != Flags::default();
        for (field, has) in [
            (Field::Completions, record.completed.is_some()),
            (Field::NoCompletion, record.completed.is_none()),
            (Field::Discards, record.op == Op::Discard),
            (Field::Flushes, record.op == Op::Flush),
            (Field::Synchronous, sync && record.op != Op::Flush),
            (Field::Flags, others),
            (Field::Priorities, record.priority.is_some()),
            (Field::Processes, record.process.is_some()),
            (Field::Names, record.process.is_some() && has_name),
            (Field::Bytes, !record.is_aligned()),
        ] {
            self.0 |= u16::from(has) << field as u16;
        }
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Field::as_str).collect();
        f.write_str(&names.join(", "))
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Field::as_str))
    }
}

/// What a format holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holds {
    /// The fields.
    pub fields: Fields,
    /// The resolution of its times.
    pub resolution: Span,
}

impl Holds {
    /// Reads and writes in whole sectors, with times in units of so many nanoseconds.
    pub(crate) const fn least(resolution: u64) -> Self {
        Self { fields: Fields(1 << Field::NoCompletion as u16), resolution: Span::from_nanos(resolution) }
    }

    /// Everything.
    pub(crate) const fn all(resolution: u64) -> Self {
        Self { fields: Fields(u16::MAX), resolution: Span::from_nanos(resolution) }
    }

    pub(crate) const fn with(mut self, field: Field) -> Self {
        self.fields.insert(field);
        self
    }

    pub(crate) const fn except(mut self, field: Field) -> Self {
        self.fields.0 &= !(1 << field as u16);
        self
    }
}
