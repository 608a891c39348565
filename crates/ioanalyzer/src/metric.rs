//! What is to be improved: a number for each window, and whether more or less of it is better.

use std::collections::BTreeMap;

use elevator::{Op, Sectors, Span};
use serde::{Deserialize, Serialize};

/// No metric's value is greater: nothing that is measured is, and the square of this, and sums of such squares, can still be reckoned with
/// and saved.
pub const VALUE_MAX: f64 = 1e100;

/// Whether more or less is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Better {
    /// As of bandwidth.
    Higher,
    /// As of latency.
    Lower,
}

impl Better {
    /// `value` with its sign turned where less is better, so that more always is.
    #[must_use]
    pub fn oriented(self, value: f64) -> f64 {
        match self {
            Self::Higher => value,
            Self::Lower => -value,
        }
    }
}

/// Which requests a latency is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Of {
    /// Reads.
    Reads,
    /// Writes.
    Writes,
    /// Requests that somebody waits for: reads, and writes marked so.
    Synchronous,
}

/// What of many latencies counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Which {
    /// Their mean.
    Mean,
    /// The one that 99 of 100 stay within.
    P99,
}

/// What to improve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Metric {
    /// Bytes a second that the device completed: what the paper targets ("bandwidth on the system side").
    Bandwidth,
    /// Requests a second that the device completed.
    Iops,
    /// Latency, in seconds; less is better.
    Latency(Which, Of),
    /// Jain's index over the bytes each process got: 1 is equal shares, 1/n is one taking all.
    Fairness,
    /// The same over the bytes each control group got.
    CgroupFairness,
    /// Bytes a second that users got: the paper captures it "at system level and user level" (III-D).
    UserBandwidth,
    /// Bytes a second that users got beyond what the device gave: page cache hits (the paper's section V).
    UserMinusSystem,
    /// A number from outside, and whether more of it is better.
    External(Better),
}

impl Metric {
    /// Whether more or less of it is better.
    #[must_use]
    pub const fn better(self) -> Better {
        match self {
            Self::Latency(..) => Better::Lower,
            Self::External(better) => better,
            _ => Better::Higher,
        }
    }

    /// Whether it is an amount moved in a second, and so no more than what is asked for.
    #[must_use]
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::Bandwidth | Self::Iops | Self::UserBandwidth)
    }

    /// Its value in a window; `None` if what it needs was not measured or did not occur, or is beyond [`VALUE_MAX`] either way.
    #[must_use]
    pub fn of(self, performance: &Performance) -> Option<f64> {
        let value = match self {
            Self::Bandwidth => performance.bandwidth,
            Self::Iops => performance.iops,
            Self::Latency(which, of) => {
                let latency = performance.latencies[of as usize]?;
                match which {
                    Which::Mean => latency.mean,
                    Which::P99 => latency.p99,
                }
            }
            Self::Fairness | Self::CgroupFairness => performance.fairness?,
            Self::UserBandwidth => performance.user_bandwidth?,
            Self::UserMinusSystem => performance.user_bandwidth? - performance.bandwidth,
            Self::External(_) => performance.external?,
        };
        (value.abs() <= VALUE_MAX).then_some(value)
    }
}

/// Latencies of one kind of request in a window, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// Their mean.
    pub mean: f64,
    /// Their 99th percentile (nearest rank).
    pub p99: f64,
}

/// What a device did in a window under one scheduler, the paper's `P`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Performance {
    /// Bytes a second completed by the device.
    pub bandwidth: f64,
    /// Requests a second completed by the device.
    pub iops: f64,
    /// Latencies of [`Of::Reads`], [`Of::Writes`] and [`Of::Synchronous`], in that order, of those that occurred.
    pub latencies: [Option<Latency>; 3],
    /// Jain's index over the parties that got anything, if they are known: processes or control groups, as the metric asks.
    pub fairness: Option<f64>,
    /// Bytes a second that users read and wrote, if measured.
    pub user_bandwidth: Option<f64>,
    /// The number from outside, if there was one.
    pub external: Option<f64>,
}

/// One request that the device completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// What it did.
    pub op: Op,
    /// Whether somebody waited for it.
    pub sync: bool,
    /// How much it moved; of a discard, how much it names, which does not count as moved.
    pub size: Sectors,
    /// From its arrival above the scheduler to its completion.
    pub latency: Span,
    /// Who is to be treated fairly: a process or a cgroup, by any number; `None` if unknown.
    pub party: Option<u64>,
}

/// Adds up completions to a window's [`Performance`].
#[derive(Clone, Default, Debug)]
pub struct Tally {
    bytes: u64,
    requests: u64,
    latencies: [Vec<u64>; 3],
    parties: BTreeMap<u64, u64>,
}

impl Tally {
    /// Counts one completion.
    pub fn add(&mut self, completion: Completion) {
        // A discard names a stretch, and moves nothing.
        let bytes = match completion.op {
            Op::Read | Op::Write => completion.size.bytes(),
            Op::Discard | Op::Flush => 0,
        };
        self.bytes += bytes;
        self.requests += 1;
        let latency = completion.latency.as_nanos();
        match completion.op {
            Op::Read => self.latencies[Of::Reads as usize].push(latency),
            Op::Write => self.latencies[Of::Writes as usize].push(latency),
            Op::Discard | Op::Flush => {}
        }
        if completion.op == Op::Read || completion.sync {
            self.latencies[Of::Synchronous as usize].push(latency);
        }
        if let Some(party) = completion.party.filter(|_| bytes > 0) {
            *self.parties.entry(party).or_default() += bytes;
        }
    }

    /// The window's performance, with nothing from users or outside; begins anew.
    pub fn finish(&mut self, length: Span) -> Performance {
        let mut all = core::mem::take(self);
        let seconds = length.as_secs_f64().max(1e-9);
        Performance {
            bandwidth: all.bytes as f64 / seconds,
            iops: all.requests as f64 / seconds,
            latencies: core::array::from_fn(|of| summary(&mut all.latencies[of])),
            fairness: jain(all.parties.values().map(|&bytes| bytes as f64)),
            user_bandwidth: None,
            external: None,
        }
    }
}

fn summary(nanos: &mut [u64]) -> Option<Latency> {
    let rank = (nanos.len() * 99).div_ceil(100).checked_sub(1)?;
    let total: u128 = nanos.iter().map(|&n| u128::from(n)).sum();
    let (_, p99, _) = nanos.select_nth_unstable(rank);
    let p99 = *p99 as f64 / 1e9;
    Some(Latency { mean: total as f64 / nanos.len() as f64 / 1e9, p99 })
}

/// Jain's fairness index, (Σx)² / (n Σx²); `None` if nobody got anything.
#[must_use]
pub fn jain(shares: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum, squares) =
        shares.fold((0.0, 0.0, 0.0), |(n, sum, squares), x| (n + 1.0, sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_of_a_small_window() {
        let mut tally = Tally::default();
        for i in 1..=100 {
            let (op, party) = if i % 2 == 0 { (Op::Read, 1) } else { (Op::Write, 2) };
            let latency = Span::from_millis(i);
            tally.add(Completion { op, sync: i == 1, size: Sectors(8), latency, party: Some(party) });
        }
        let mut performance = tally.finish(Span::from_secs(5));
        assert_eq!(Metric::Bandwidth.of(&performance), Some(81_920.0));
        assert_eq!(Metric::Iops.of(&performance), Some(20.0));
        assert_eq!(Metric::Latency(Which::Mean, Of::Reads).of(&performance), Some(0.051));
        assert_eq!(Metric::Latency(Which::P99, Of::Writes).of(&performance), Some(0.099));
        assert_eq!(Metric::Latency(Which::P99, Of::Synchronous).of(&performance), Some(0.1));
        assert_eq!(Metric::Fairness.of(&performance), Some(1.0));
        assert_eq!(Metric::UserMinusSystem.of(&performance), None);
        performance.user_bandwidth = Some(100_000.0);
        assert_eq!(Metric::UserMinusSystem.of(&performance), Some(18_080.0));
        assert_eq!(Metric::UserBandwidth.of(&performance), performance.user_bandwidth);
        assert_eq!(
            tally.finish(Span::from_secs(5)),
            Performance { fairness: None, ..Performance::default() }
        );
    }

    #[test]
    fn what_moves_no_data_is_no_bandwidth_and_nobodys_share() {
        let mut tally = Tally::default();
        let latency = Span::from_millis(1);
        let requests = [(Op::Read, 8, 1), (Op::Read, 8, 2), (Op::Flush, 0, 3), (Op::Discard, 1 << 30, 4)];
        for (op, sectors, party) in requests {
            tally.add(Completion { op, sync: false, size: Sectors(sectors), latency, party: Some(party) });
        }
        let performance = tally.finish(Span::from_secs(1));
        assert_eq!((performance.bandwidth, performance.iops), (8192.0, 4.0));
        assert_eq!(performance.fairness, Some(1.0), "of the two who got anything");
    }

    #[test]
    fn one_who_takes_all_is_unfair() {
        assert_eq!(jain([4.0, 0.0, 0.0, 0.0].into_iter()), Some(0.25));
        assert_eq!(jain([0.0].into_iter()), None);
    }
}
