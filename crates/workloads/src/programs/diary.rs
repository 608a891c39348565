//! Measurements of programs: run times and call durations.

use std::collections::BTreeMap;

use elevator::Time;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Measurements of the processes that share a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Start of the first one, in nanoseconds of the run.
    pub from_ns: u64,
    /// End of the last one, or its last call.
    pub to_ns: u64,
    /// Number of processes that have ended.
    pub ended: u32,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Number of read calls.
    pub reads: u64,
    /// Longest read call.
    pub worst_read_ns: u64,
    /// Longest write call.
    pub worst_write_ns: u64,
    /// Longest fsync.
    pub worst_sync_ns: u64,
}

impl Seen {
    /// Longest call.
    pub fn worst_ns(&self) -> u64 {
        self.worst_read_ns.max(self.worst_write_ns).max(self.worst_sync_ns)
    }
}

/// Durations of transactions from begin to commit: percentiles with three significant digits, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Transactions {
    /// Number of transactions.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
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

/// Measurements by name.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Diary {
    by_name: BTreeMap<String, Seen>,
    transactions: BTreeMap<String, Histogram<u64>>,
}

impl Diary {
    /// All measurements, in order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Seen)> {
        self.by_name.iter().map(|(name, seen)| (name.as_str(), seen))
    }

    /// Transaction durations, in order of names.
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
