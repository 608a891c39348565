//! The value of a paper's figure in a run.

use std::collections::BTreeMap;

use workloads::programs::diary::{Seen, Transactions};
use workloads::scenario::{Amount, Figure, Percentile};

use crate::run_setup::Outcome;

/// The runs of an experiment, by the paper's word for the scheduler.
pub(super) type Runs = BTreeMap<String, Outcome>;

/// A figure's value under one scheduler, if it was measured; for an interrupted run, its value up to then.
pub(super) fn value(figure: &Figure, runs: &Runs, scheduler: &str) -> Option<f64> {
    let run = runs.get(scheduler).filter(|run| run.failure.is_none())?;
    let other = |word: &str| runs.get(word).filter(|run| run.failure.is_none());
    match figure {
        Figure::Time(names) => seconds(run, names),
        Figure::First(names) => {
            of(run, names).map(|seen| seen.to_ns - seen.from_ns).min().map(|ns| ns as f64 / 1e9)
        }
        Figure::DiskRate(names) => window(run, names).map(|(from, to)| run.vmstat.rate(from, to)),
        Figure::Rate(names) => rate(run, names),
        Figure::WorstRead(names) => {
            of(run, names).map(|seen| seen.worst_read_ns).max().map(|ns| ns as f64 / 1e9)
        }
        Figure::LongestRequest => Some(run.vmstat.longest_ns as f64 / 1e9),
        Figure::WorstSync(names) => worst_sync(run, names),
        Figure::WorstSyncOver(names, word) => {
            ratio(worst_sync(other(word)?, names)?, worst_sync(run, names)?)
        }
        Figure::Transaction(names, percentile) => transaction(run, names, *percentile),
        Figure::TransactionOver(names, percentile, word) => {
            ratio(transaction(other(word)?, names, *percentile)?, transaction(run, names, *percentile)?)
        }
        Figure::Transactions(names) => {
            let all: u64 = transactions(run, names).map(|all| all.count).sum();
            ratio(all as f64, seconds(run, names)?)
        }
        Figure::HookShare => ratio(100.0 * run.tagging.hooks_ns as f64, run.tagging.processor_ns as f64),
        Figure::TagMemory(Amount::Mean) => Some(run.tagging.bytes_mean as f64 / 1e6),
        Figure::TagMemory(Amount::Max) => Some(run.tagging.bytes_max as f64 / 1e6),
        Figure::Deviation(shares) => deviation(run, shares),
        Figure::TimeOver(names, word) => ratio(seconds(other(word)?, names)?, seconds(run, names)?),
        Figure::GainOver(names, word) => {
            Some(100.0 * (ratio(seconds(other(word)?, names)?, seconds(run, names)?)? - 1.0))
        }
        Figure::TimeSaved(names, word) => {
            Some(100.0 * (1.0 - ratio(seconds(run, names)?, seconds(other(word)?, names)?)?))
        }
        Figure::TimeRelative(names, word) => ratio(seconds(run, names)?, seconds(other(word)?, names)?),
        Figure::RateRelative(names, word) => ratio(rate(run, names)?, rate(other(word)?, names)?),
    }
}

/// Whether more is better, and the unit; `None` where the figure compares schedulers itself.
pub(super) const fn more_is_better(figure: &Figure) -> Option<bool> {
    match figure {
        Figure::Time(_)
        | Figure::First(_)
        | Figure::WorstRead(_)
        | Figure::WorstSync(_)
        | Figure::Transaction(..)
        | Figure::LongestRequest
        | Figure::HookShare
        | Figure::TagMemory(_)
        | Figure::Deviation(_) => Some(false),
        Figure::DiskRate(_) | Figure::Rate(_) | Figure::Transactions(_) => Some(true),
        Figure::TimeOver(..)
        | Figure::GainOver(..)
        | Figure::TimeSaved(..)
        | Figure::TimeRelative(..)
        | Figure::RateRelative(..)
        | Figure::TransactionOver(..)
        | Figure::WorstSyncOver(..) => None,
    }
}

pub(super) const fn unit(figure: &Figure) -> &'static str {
    match figure {
        Figure::Time(_)
        | Figure::First(_)
        | Figure::WorstRead(_)
        | Figure::WorstSync(_)
        | Figure::Transaction(..)
        | Figure::LongestRequest => "s",
        Figure::Transactions(_) => "/s",
        Figure::DiskRate(_) | Figure::Rate(_) => "MB/s",
        Figure::TimeOver(..)
        | Figure::TimeRelative(..)
        | Figure::RateRelative(..)
        | Figure::TransactionOver(..)
        | Figure::WorstSyncOver(..) => "x",
        Figure::TagMemory(_) => "MB",
        Figure::GainOver(..) | Figure::TimeSaved(..) | Figure::Deviation(_) | Figure::HookShare => "%",
    }
}

/// The processes that a figure is about.
pub(super) fn processes(figure: &Figure) -> &str {
    match figure {
        Figure::Time(names)
        | Figure::First(names)
        | Figure::DiskRate(names)
        | Figure::Rate(names)
        | Figure::WorstRead(names)
        | Figure::TimeOver(names, _)
        | Figure::GainOver(names, _)
        | Figure::TimeSaved(names, _)
        | Figure::TimeRelative(names, _)
        | Figure::RateRelative(names, _)
        | Figure::WorstSync(names)
        | Figure::WorstSyncOver(names, _)
        | Figure::Transaction(names, _)
        | Figure::TransactionOver(names, ..)
        | Figure::Transactions(names) => names,
        Figure::LongestRequest | Figure::Deviation(_) | Figure::HookShare | Figure::TagMemory(_) => "",
    }
}

fn of<'a>(run: &'a Outcome, names: &'a str) -> impl Iterator<Item = &'a Seen> {
    run.seen.iter().filter(move |(name, _)| name.starts_with(names)).map(|(_, seen)| seen)
}

/// From the first start to the last end of processes, in nanoseconds.
pub(super) fn window(run: &Outcome, names: &str) -> Option<(u64, u64)> {
    run.window(|name| name.starts_with(names))
}

fn seconds(run: &Outcome, names: &str) -> Option<f64> {
    window(run, names).map(|(from, to)| (to - from) as f64 / 1e9)
}

fn rate(run: &Outcome, names: &str) -> Option<f64> {
    let bytes: u64 = of(run, names).map(|seen| seen.read_bytes + seen.written_bytes).sum();
    ratio(bytes as f64 / 1e6, seconds(run, names)?)
}

fn transactions<'a>(run: &'a Outcome, names: &'a str) -> impl Iterator<Item = &'a Transactions> {
    run.transactions.iter().filter(move |(name, _)| name.starts_with(names)).map(|(_, all)| all)
}

fn transaction(run: &Outcome, names: &str, percentile: Percentile) -> Option<f64> {
    let of = |all: &Transactions| match percentile {
        Percentile::P50 => all.p50_ns,
        Percentile::P99 => all.p99_ns,
        Percentile::P999 => all.p999_ns,
        Percentile::Max => all.max_ns,
    };
    transactions(run, names).map(of).max().map(|ns| ns as f64 / 1e9)
}

fn worst_sync(run: &Outcome, names: &str) -> Option<f64> {
    of(run, names).map(|seen| seen.worst_sync_ns).max().filter(|&ns| ns > 0).map(|ns| ns as f64 / 1e9)
}

/// The mean deviation of shares from their targets, in percent of the targets.
fn deviation(run: &Outcome, shares: &BTreeMap<String, u32>) -> Option<f64> {
    let moved = |name: &String| run.seen.get(name).map(|seen| (seen.read_bytes + seen.written_bytes) as f64);
    let moved: Option<Vec<f64>> = shares.keys().map(moved).collect();
    let (moved, should): (Vec<f64>, u32) = (moved?, shares.values().sum());
    let all: f64 = moved.iter().sum();
    let off = moved
        .iter()
        .zip(shares.values())
        .map(|(moved, share)| (moved / all * f64::from(should) / f64::from(*share) - 1.0).abs());
    (all > 0.0).then(|| 100.0 * off.sum::<f64>() / shares.len() as f64)
}

fn ratio(of: f64, over: f64) -> Option<f64> {
    (over > 0.0).then(|| of / over)
}
