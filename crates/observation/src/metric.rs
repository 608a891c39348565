//! Metrics: a number for each window, and which direction is better.

use std::collections::BTreeMap;

use elevator::{Op, Sectors, Span};
use serde::{Deserialize, Serialize};

/// The greatest valid value: its square, and sums of such squares, are finite.
pub const VALUE_MAX: f64 = 1e100;

/// Which direction is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Better {
    /// Higher values, as for bandwidth.
    Higher,
    /// Lower values, as for latency.
    Lower,
}

impl Better {
    /// `value`, negated if lower values are better, so that more is better.
    pub fn oriented(self, value: f64) -> f64 {
        match self {
            Self::Higher => value,
            Self::Lower => -value,
        }
    }
}

/// The class of requests whose latency is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LatencyClass {
    Reads,
    Writes,
    /// Synchronous requests: reads, and writes with the flag.
    Synchronous,
}

/// A statistic of the latencies of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LatencyStatistic {
    Mean,
    /// The 99th percentile.
    P99,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Metric {
    /// Bytes per second of the device, the paper's target ("bandwidth on the system side").
    Bandwidth,
    /// Requests per second of the device.
    Iops,
    /// Latency in seconds.
    Latency(LatencyStatistic, LatencyClass),
    /// Jain's index over the bytes of each process: 1 for equal shares, 1/n if one of n takes everything.
    Fairness,
    /// The same over the bytes of each control group.
    CgroupFairness,
    /// Bytes per second of user programs: the paper captures it "at system level and user level" (III-D).
    UserBandwidth,
    /// The same minus the device's: page cache hits (the paper's section V).
    UserMinusSystem,
    /// A number from outside, and its better direction.
    External(Better),
}

impl Metric {
    /// Which direction is better.
    pub const fn better(self) -> Better {
        match self {
            Self::Latency(..) => Better::Lower,
            Self::External(better) => better,
            _ => Better::Higher,
        }
    }

    /// Whether it is an amount per second, whose maximum is the rate of the requests.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::Bandwidth | Self::Iops | Self::UserBandwidth)
    }

    /// Its value in a window; `None` if it was not measured, did not occur, or exceeds [`VALUE_MAX`].
    pub fn of(self, performance: &Performance) -> Option<f64> {
        let value = match self {
            Self::Bandwidth => performance.bandwidth,
            Self::Iops => performance.iops,
            Self::Latency(which, of) => {
                let latency = performance.latencies[of as usize]?;
                match which {
                    LatencyStatistic::Mean => latency.mean,
                    LatencyStatistic::P99 => latency.p99,
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

/// Latencies of one type of request in a window, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    pub mean: f64,
    /// Their 99th percentile (nearest rank).
    pub p99: f64,
}

/// A device's performance in a window, the paper's `P`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Performance {
    /// Bytes per second of the device.
    pub bandwidth: f64,
    /// Requests per second of the device.
    pub iops: f64,
    /// Latencies of [`LatencyClass::Reads`], [`LatencyClass::Writes`] and [`LatencyClass::Synchronous`], if they occurred.
    pub latencies: [Option<Latency>; 3],
    /// Jain's index over the fairness units with any bytes, if known.
    pub fairness: Option<f64>,
    /// Bytes per second of user programs, if measured.
    pub user_bandwidth: Option<f64>,
    /// The number from outside, if there was one.
    pub external: Option<f64>,
}

/// One request that the device completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The operation.
    pub op: Op,
    /// Whether it was synchronous.
    pub sync: bool,
    /// The length; a discard moves no data.
    pub size: Sectors,
    /// From its arrival above the scheduler to its completion.
    pub latency: Span,
    /// The fairness unit: the number of a process or control group, if known.
    pub party: Option<u64>,
}

/// Sums completions up to a window's [`Performance`].
#[derive(Clone, Default, Debug)]
pub struct Tally {
    bytes: u64,
    requests: u64,
    latencies: [Vec<u64>; 3],
    parties: BTreeMap<u64, u64>,
}

impl Tally {
    pub fn add(&mut self, completion: Completion) {
        // A discard moves no data.
        let bytes = match completion.op {
            Op::Read | Op::Write => completion.size.bytes(),
            Op::Discard | Op::Flush => 0,
        };
        self.bytes += bytes;
        self.requests += 1;
        let latency = completion.latency.as_nanos();
        match completion.op {
            Op::Read => self.latencies[LatencyClass::Reads as usize].push(latency),
            Op::Write => self.latencies[LatencyClass::Writes as usize].push(latency),
            Op::Discard | Op::Flush => {}
        }
        if completion.op == Op::Read || completion.sync {
            self.latencies[LatencyClass::Synchronous as usize].push(latency);
        }
        if let Some(party) = completion.party.filter(|_| bytes > 0) {
            *self.parties.entry(party).or_default() += bytes;
        }
    }

    /// The window's performance, without the values of users and from outside; resets the sums.
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

/// Jain's fairness index, (Σx)² / (n Σx²); `None` if all are zero.
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
        assert_eq!(
            Metric::Latency(LatencyStatistic::Mean, LatencyClass::Reads).of(&performance),
            Some(0.051)
        );
        assert_eq!(
            Metric::Latency(LatencyStatistic::P99, LatencyClass::Writes).of(&performance),
            Some(0.099)
        );
        assert_eq!(
            Metric::Latency(LatencyStatistic::P99, LatencyClass::Synchronous).of(&performance),
            Some(0.1)
        );
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
    fn requests_without_data_count_for_no_unit() {
        let mut tally = Tally::default();
        let latency = Span::from_millis(1);
        let requests = [(Op::Read, 8, 1), (Op::Read, 8, 2), (Op::Flush, 0, 3), (Op::Discard, 1 << 30, 4)];
        for (op, sectors, party) in requests {
            tally.add(Completion { op, sync: false, size: Sectors(sectors), latency, party: Some(party) });
        }
        let performance = tally.finish(Span::from_secs(1));
        assert_eq!((performance.bandwidth, performance.iops), (8192.0, 4.0));
        assert_eq!(performance.fairness, Some(1.0), "of the two with any bytes");
    }

    #[test]
    fn taking_everything_is_unfair() {
        assert_eq!(jain([4.0, 0.0, 0.0, 0.0].into_iter()), Some(0.25));
        assert_eq!(jain([0.0].into_iter()), None);
    }
}
