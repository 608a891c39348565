//! Figure 6 with the paper's buffered programs: above a file system, a page cache and read-ahead, on the modelled
//! machine. The scripts are those of `dwell reproduce stream`, here also on other arrays and with other read-ahead.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use schedulers::Spec;
use workloads::programs::units::Bytes;
use workloads::scenario::{Scenario, papers};

use super::super::Row;
use super::{ANTICIPATORY, ARRAY_STREAM, ARRAYS, CFQ, STREAM};
use crate::error::Error;
use crate::interrupt;
use crate::run_setup::{Outcome, Overrides, RunSetup};

const DEADLINE: &str = "deadline-2.6.32";
/// The compared schedulers; the last one needs an array.
const SCHEDULERS: [&str; 6] = ["noop", DEADLINE, ANTICIPATORY, CFQ, STREAM, ARRAY_STREAM];
/// A drive whose queue serves commands in order of arrival.
const FCFS: &str = "wd5000aaks{queue.order=fcfs}";
/// A drive without a queue.
const ONE_AT_A_TIME: &str = "wd5000aaks{depth=1}";
/// Published: anticipation's gain on the array relative to its gain on one disk.
const SHARE: &str = "0.37 (1.33 over 3.57, TPC-H)";
/// Files of at least 128 MiB: in shorter files a stream has just formed.
const SCALE_MIN: f64 = 0.125;
/// An experiment of the figure.
struct Program {
    script: &'static str,
    name: &'static str,
    /// Published: throughput over noop.
    published: &'static str,
    /// The expected range at any scale; `dwell reproduce stream` compares the value at the paper's scale with the published one.
    gain: RangeInclusive<f64>,
    /// Published: anticipation on the array.
    anticipatory: &'static str,
    /// Whether anticipation gains on one disk.
    anticipates: bool,
}

const PAR_READ: Program = Program {
    script: "stream/array-par-read",
    name: "par-read",
    published: "2.14",
    gain: 1.5..=f64::INFINITY,
    anticipatory: "limited",
    anticipates: true,
};
const TPC_H: Program = Program {
    script: "stream/array-tpch",
    name: "TPC-H",
    published: "2.74",
    gain: 1.5..=f64::INFINITY,
    anticipatory: "about 1.33",
    anticipates: true,
};
const POSTMARK: Program = Program {
    script: "stream/array-postmark",
    name: "PostMark",
    published: "about 1",
    gain: 0.8..=1.2,
    anticipatory: "about 1",
    anticipates: false,
};

/// Changes to a script.
#[derive(Clone, Copy, Default)]
struct Change<'a> {
    /// Another drive, or the drive with other settings.
    drive: Option<&'a str>,
    /// The array; `None` for one disk.
    array: Option<&'a str>,
    /// The largest read-ahead window in bytes; `None`: md's default for an array, or the machine's for one disk.
    read_ahead: Option<u64>,
}

/// Seconds that a program takes under each scheduler.
type Times = BTreeMap<&'static str, f64>;

fn times(
    program: &Program,
    change: Change<'_>,
    names: &[&'static str],
    scale: f64,
) -> Result<(Times, u64), Error> {
    let text = papers::SCRIPTS.iter().find(|(name, _)| *name == program.script).map(|(_, text)| *text);
    let text = text.ok_or_else(|| Error::Failed(format!("there is no script {}", program.script)))?;
    let scenario = Scenario::parse(program.script, text, scale.max(SCALE_MIN));
    let mut scenario = scenario.map_err(|e| Error::Failed(e.to_string()))?;
    scenario.script.array = change.array.map(str::to_owned);
    scenario.script.change.read_ahead = change.read_ahead.map(Bytes);
    let setup = RunSetup::open(scenario, Overrides { drive: change.drive, ..Overrides::default() })?;
    let mut times = Times::new();
    let mut bytes = 0;
    for &name in names {
        let spec = Spec::parse(name).map_err(|e| Error::Failed(e.to_string()))?;
        let outcome = setup.run(&spec, &mut |_| None)?.outcome;
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        times.insert(name, seconds(name, &outcome)?);
        bytes = outcome.seen.values().map(|seen| seen.read_bytes + seen.written_bytes).sum();
    }
    Ok((times, bytes))
}

fn seconds(name: &str, outcome: &Outcome) -> Result<f64, Error> {
    if let Some(failure) = &outcome.failure {
        return Err(Error::Failed(format!("{name}: {failure}")));
    }
    let (from, to) = outcome.window(|_| true).unwrap_or_default();
    Ok((to - from) as f64 / 1e9)
}

/// The figure on an array of that description.
pub(super) fn run(array: &str, scale: f64) -> Result<Vec<Row>, Error> {
    let level = if array.starts_with("raid5") { "RAID 5" } else { "RAID 0" };
    let change = Change { array: Some(array), ..Change::default() };
    let mut rows = Vec::new();
    for program in [&PAR_READ, &TPC_H, &POSTMARK] {
        let experiment = format!("{}, {level}", program.name);
        let (times, bytes) = times(program, change, &SCHEDULERS, scale)?;
        let gain = |name: &str| times["noop"] / times[name];
        let figure = format!("{ARRAY_STREAM} over noop");
        rows.push(Row::within(
            &experiment,
            figure,
            program.published,
            gain(ARRAY_STREAM),
            "x",
            program.gain.clone(),
        ));
        rows.extend(
            SCHEDULERS[1..5].iter().map(|name| {
                Row::reported(&experiment, format!("{name} over noop"), "limited", gain(name), "x")
            }),
        );
        rows.push(rate(&experiment, ARRAY_STREAM, bytes, times[ARRAY_STREAM]));
        rows.push(rate(&experiment, "noop", bytes, times["noop"]));
        if program.anticipates {
            rows.push(against_one_disk(&experiment, program, gain(ANTICIPATORY), scale)?);
        }
    }
    Ok(rows)
}

fn rate(experiment: &str, name: &str, bytes: u64, seconds: f64) -> Row {
    Row::reported(experiment, name.to_owned(), "", bytes as f64 / 1e6 / seconds, "MB/s")
}

/// Published: anticipation gains far less on the array than on one disk.
fn against_one_disk(experiment: &str, program: &Program, on_array: f64, scale: f64) -> Result<Row, Error> {
    let (times, _) = times(program, Change::default(), &["noop", ANTICIPATORY], scale)?;
    let share = on_array / (times["noop"] / times[ANTICIPATORY]);
    let figure = "anticipatory's gain, array over one disk".to_owned();
    Ok(Row::reported(experiment, figure, SHARE, share, "x"))
}

/// The paper's schedulers assume that the drive's own queue "does not make a major change in the order" (section 3.1). The modelled
/// drive does: at depth 31 its own queue prefers near requests, so that anticipation gains nothing. These experiments use drives that keep
/// the order of arrival, and drives that accept one request at a time: one of them, and an array of five.
pub(super) fn in_the_order_sent(scale: f64) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for (drive, what) in
        [(FCFS, "drive keeps the order"), (ONE_AT_A_TIME, "drive takes one request at a time")]
    {
        for (program, one_disk) in [(&PAR_READ, "3.2"), (&TPC_H, "3.57")] {
            let alone = Change { drive: Some(drive), ..Change::default() };
            let (alone, _) = times(program, alone, &SCHEDULERS[..5], scale)?;
            let array = Change { drive: Some(drive), array: Some(ARRAYS[0]), ..Change::default() };
            let (array, bytes) = times(program, array, &SCHEDULERS, scale)?;
            let experiment = format!("{}, {what}", program.name);
            rows.extend(gains(&experiment, "one disk", &alone, |name| match name {
                STREAM | ANTICIPATORY | CFQ => one_disk,
                _ => "about 1",
            }));
            rows.extend(gains(&experiment, "RAID 0", &array, |name| match name {
                ARRAY_STREAM => program.published,
                ANTICIPATORY => program.anticipatory,
                STREAM => "not published",
                _ => "limited",
            }));
            rows.push(rate(&experiment, ARRAY_STREAM, bytes, array[ARRAY_STREAM]));
            rows.push(rate(&experiment, "noop", bytes, array["noop"]));
            rows.push(share_of_anticipation(&experiment, &alone, &array));
        }
    }
    Ok(rows)
}

/// Each scheduler's gain over noop with the published value.
fn gains(experiment: &str, what: &str, times: &Times, published: impl Fn(&str) -> &'static str) -> Vec<Row> {
    let others = SCHEDULERS[1..].iter().filter_map(|name| Some((name, times.get(name)?)));
    let row = |(name, time): (&&'static str, &f64)| {
        let figure = format!("{name} over noop, {what}");
        Row::reported(experiment, figure, published(name), times["noop"] / time, "x")
    };
    others.map(row).collect()
}

/// Anticipation's gain on the array relative to its gain on one disk.
fn share_of_anticipation(experiment: &str, alone: &Times, array: &Times) -> Row {
    let gain = |times: &Times| times["noop"] / times[ANTICIPATORY];
    let figure = "anticipatory's gain, array over one disk".to_owned();
    Row::within(experiment, figure, SHARE, gain(array) / gain(alone), "x", 0.0..=0.6)
}

/// The same with the read-ahead of a single disk, with one stripe unit, and without read-ahead.
pub(super) fn without_read_ahead(scale: f64) -> Result<Vec<Row>, Error> {
    let names = ["noop", ANTICIPATORY, CFQ, STREAM, ARRAY_STREAM];
    let mut rows = Vec::new();
    for (kib, what) in [(128, "128 KB"), (64, "64 KB"), (0, "nothing")] {
        let change = Change { array: Some(ARRAYS[0]), read_ahead: Some(kib << 10), ..Change::default() };
        let (times, bytes) = times(&PAR_READ, change, &names, scale)?;
        let experiment = format!("par-read, {what} ahead");
        rows.extend(names.iter().map(|name| rate(&experiment, name, bytes, times[name])));
    }
    Ok(rows)
}
