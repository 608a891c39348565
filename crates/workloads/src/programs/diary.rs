//! What programs saw: when they ran, and how long each call kept them.

use std::collections::BTreeMap;

use elevator::{Span, Time};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// What the processes that share a name saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// When the first of them began, in nanoseconds of the run.
    pub from_ns: u64,
    /// When the last of them ended, or what it did last.
    pub to_ns: u64,
    /// How many have ended.
    pub ended: u32,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Calls that read.
    pub reads: u64,
    /// The longest that one of them took.
    pub worst_read_ns: u64,
    /// The longest that a call which writes took.
    pub worst_write_ns: u64,
    /// The longest that an fsync took.
    pub worst_sync_ns: u64,
}

impl Seen {
    /// From the first one's start to the last one's end.
    #[must_use]
    pub const fn elapsed(&self) -> Span {
        Span::from_nanos(self.to_ns.saturating_sub(self.from_ns))
    }
}

/// How long transactions took, from their begin to their commit: percentiles to three digits, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Transactions {
    /// How many.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99 of a hundred took no longer,
    pub p99_ns: u64,
    /// and 999 of a thousand no longer than this.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl From<&Histogram<u64>> for Transactions {
    fn from(all: &Histogram<u64>) -> Self {
        Self {
            count: all.len(),
            p50_ns: all.value_at_quantile(0.5),
            p99_ns: all.value_at_quantile(0.99),
            p999_ns: all.value_at_quantile(0.999),
            max_ns: all.max(),
        }
    }
}

/// What was seen, by name.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Diary {
    by_name: BTreeMap<String, Seen>,
    transactions: BTreeMap<String, Histogram<u64>>,
}

impl Diary {
    /// Everybody, in order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Seen)> {
        self.by_name.iter().map(|(name, seen)| (name.as_str(), seen))
    }

    /// The transactions of those who had any, in order of names.
    pub fn transactions(&self) -> impl Iterator<Item = (&str, Transactions)> {
        self.transactions.iter().map(|(name, all)| (name.as_str(), all.into()))
    }

    fn of(&mut self, name: &str) -> &mut Seen {
        if !self.by_name.contains_key(name) {
            self.by_name.insert(name.to_owned(), Seen::default());
        }
        self.by_name.entry(name.to_owned()).or_default()
    }

    pub(super) fn started(&mut self, name: &str, now: Time) {
        if !self.by_name.contains_key(name) {
            self.of(name).from_ns = now.as_nanos();
        }
    }

    pub(super) fn ended(&mut self, name: &str, now: Time) {
        let seen = self.of(name);
        seen.ended += 1;
        seen.to_ns = seen.to_ns.max(now.as_nanos());
    }

    pub(super) fn read(&mut self, name: &str, asked: Time, now: Time, bytes: u64) {
        let seen = self.of(name);
        seen.reads += 1;
        seen.read_bytes += bytes;
        seen.worst_read_ns = seen.worst_read_ns.max(now.since(asked).as_nanos());
        seen.to_ns = seen.to_ns.max(now.as_nanos());
    }

    pub(super) fn wrote(&mut self, name: &str, asked: Time, now: Time, bytes: u64) {
        let seen = self.of(name);
        seen.written_bytes += bytes;
        seen.worst_write_ns = seen.worst_write_ns.max(now.since(asked).as_nanos());
        seen.to_ns = seen.to_ns.max(now.as_nanos());
    }

    pub(super) fn synced(&mut self, name: &str, asked: Time, now: Time) {
        let seen = self.of(name);
        seen.worst_sync_ns = seen.worst_sync_ns.max(now.since(asked).as_nanos());
        seen.to_ns = seen.to_ns.max(now.as_nanos());
    }

    pub(super) fn committed(&mut self, name: &str, from: Time, now: Time) {
        if !self.transactions.contains_key(name) {
            let empty = Histogram::new(3).expect("three digits are allowed");
            self.transactions.insert(name.to_owned(), empty);
        }
        if let Some(all) = self.transactions.get_mut(name) {
            all.record(now.since(from).as_nanos()).expect("it grows");
        }
    }
}
