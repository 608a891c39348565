//! The part of the database that `dwell patterns` works on, and values of metrics in words.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use capture::topology::Stack;
use tuner::Metric;
use tuner_live::database::{Database, Drive};
use tuner_live::{QueueSettings, identity, in_words};

use super::args::PatternsArguments;
use crate::error::Error;
use evaluation::report::format::{bytes, number, time};

/// The error for a database without content.
pub(super) fn nothing(arguments: &PatternsArguments) -> Error {
    Error::Input(format!(
        "{}: missing or empty; 'dwell tune' creates it a minute after its begin, or at its end",
        arguments.database.display()
    ))
}

/// Claims every device that matches the drive's name, and the members of matching arrays, because a running tuner would overwrite the changes.
pub(super) fn claim_all(drive: &str) -> Result<Vec<File>, Error> {
    let scheduling = |name: &str| Stack::named(name).and_then(|stack| stack.scheduling()).ok();
    let matching = identity::queues_of(Path::new("/sys/block"), drive, scheduling);
    matching.iter().map(|name| Ok(QueueSettings::of(name).claim()?)).collect()
}

/// The drives and metrics that the arguments select, sorted by drive: at least one.
pub(super) fn selected(database: &Database, arguments: &PatternsArguments) -> Result<Vec<Drive>, Error> {
    let known = database.drives()?;
    let part = arguments.drive.as_deref().unwrap_or_default();
    let mut matching = known.clone();
    matching.retain(|drive| drive.name.contains(part));
    if matching.is_empty() {
        let all = names(&known).join("; ");
        return Err(Error::Usage(format!("no drive's name contains '{part}'; the database has {all}")));
    }
    let Some(metric) = &arguments.metric else { return Ok(matching) };
    let by = metrics(&matching);
    matching.retain(|drive| is_called(drive.metric, metric));
    if matching.is_empty() {
        return Err(Error::Usage(format!("the database has no metric '{metric}'; it has {by}")));
    }
    Ok(matching)
}

/// Whether a metric has that name. The direction of a command's number may be omitted.
pub(super) fn is_called(metric: Metric, name: &str) -> bool {
    let words = in_words(metric);
    words == name || words.split_once(',').is_some_and(|(first, _)| first == name)
}

fn names(known: &[Drive]) -> Vec<&str> {
    let mut names: Vec<&str> = known.iter().map(|drive| &*drive.name).collect();
    names.dedup();
    names
}

fn metrics(known: &[Drive]) -> String {
    let words: BTreeSet<String> = known.iter().map(|drive| in_words(drive.metric)).collect();
    Vec::from_iter(words).join("; ")
}

/// The selected drive.
pub(super) fn only_drive(selected: &[Drive]) -> Result<&str, Error> {
    match &*names(selected) {
        [one] => Ok(one),
        several => Err(Error::Usage(format!(
            "the database has several drives; choose one with --drive: {}",
            several.join("; ")
        ))),
    }
}

/// The selected metric of that drive.
pub(super) fn only_metric(selected: &[Drive]) -> Result<&Drive, Error> {
    match selected {
        [one] => Ok(one),
        several => Err(Error::Usage(format!(
            "the database has several metrics; choose one with --metric: {}",
            metrics(several)
        ))),
    }
}

/// A value of a metric, with its unit.
pub(super) fn worth(metric: Metric, value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let size = value.abs();
    match metric {
        Metric::Bandwidth | Metric::UserBandwidth | Metric::UserMinusSystem => {
            format!("{sign}{}/s", bytes(size as u64))
        }
        Metric::Iops => format!("{}/s", number(value)),
        Metric::Latency(..) => time((size * 1e9) as u64),
        Metric::Fairness | Metric::CgroupFairness => format!("{value:.2}"),
        Metric::External(_) => number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tuner::{LatencyClass, LatencyStatistic};

    #[test]
    fn values_of_a_metric_have_its_unit() {
        assert_eq!(worth(Metric::Bandwidth, 8_201_216.0), "8.20 MB/s");
        assert_eq!(worth(Metric::UserMinusSystem, -2e6), "-2.00 MB/s");
        assert_eq!(worth(Metric::Latency(LatencyStatistic::P99, LatencyClass::Reads), 0.0123), "12.3 ms");
        assert_eq!(worth(Metric::Iops, 2018.4), "2018/s");
        assert_eq!(worth(Metric::Fairness, 0.5), "0.50");
    }
}
