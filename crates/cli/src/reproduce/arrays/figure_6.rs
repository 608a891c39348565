//! Figure 6 with its programs as they were: buffered, above a file system, a page cache and read-ahead, on the modelled
//! machine. The scripts are those of `dwell reproduce stream`, here on other arrays and with other read-ahead, too.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use schedulers::Spec;
use workloads::programs::units::Bytes;
use workloads::scenario::{Scenario, papers};

use super::super::{Row, interrupt};
use super::{ANTICIPATORY, ARRAY_STREAM, ARRAYS, CFQ, STREAM};
use crate::error::Error;
use crate::scene::{Chosen, Outcome, Scene};

const DEADLINE: &str = "deadline-2.6.32";
/// Files of 128 MiB at least: in less a stream has hardly formed.
const SCALE_MIN: f64 = 0.125;
/// An experiment of the figure.
struct Program {
    /// Its script.
    script: &'static str,
    name: &'static str,
    /// Published: throughput over noop.
    published: &'static str,
    /// What it must be here at any scale; `dwell reproduce stream` compares it with the published value at the paper's.
    gain: RangeInclusive<f64>,
    /// Whether anticipation gains on one disk.
    anticipates: bool,
}

const PAR_READ: Program = Program {
    script: "stream/array-par-read",
    name: "par-read",
    published: "2.14",
    gain: 1.5..=f64::INFINITY,
    anticipates: true,
};
const TPC_H: Program = Program {
    script: "stream/array-tpch",
    name: "TPC-H",
    published: "2.74",
    gain: 1.5..=f64::INFINITY,
    anticipates: true,
};
const POSTMARK: Program = Program {
    script: "stream/array-postmark",
    name: "PostMark",
    published: "about 1",
    gain: 0.8..=1.2,
    anticipates: false,
};

/// How a script is changed.
#[derive(Clone, Copy)]
struct Change<'a> {
    /// The array; `None` for one disk.
    array: Option<&'a str>,
    /// The largest read-ahead window in bytes; `None` for what md gives an array, or the machine one disk.
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
    scenario.page.array = change.array.map(str::to_owned);
    scenario.page.change.read_ahead = change.read_ahead.map(Bytes);
    let scene = Scene::open(scenario, Chosen::default())?;
    let mut times = Times::new();
    let mut bytes = 0;
    for &name in names {
        let spec = Spec::parse(name).map_err(|e| Error::Failed(e.to_string()))?;
        let outcome = scene.run(&spec, &mut |_| None)?.outcome;
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
    let names = ["noop", DEADLINE, ANTICIPATORY, CFQ, STREAM, ARRAY_STREAM];
    let change = Change { array: Some(array), read_ahead: None };
    let mut rows = Vec::new();
    for program in [&PAR_READ, &TPC_H, &POSTMARK] {
        let experiment = format!("{}, {level}", program.name);
        let (times, bytes) = times(program, change, &names, scale)?;
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
            names[1..5].iter().map(|name| {
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
    let one_disk = Change { array: None, read_ahead: None };
    let (times, _) = times(program, one_disk, &["noop", ANTICIPATORY], scale)?;
    let share = on_array / (times["noop"] / times[ANTICIPATORY]);
    let figure = "anticipatory's gain, array over one disk".to_owned();
    Ok(Row::reported(experiment, figure, "0.37 (1.33 over 3.57, TPC-H)", share, "x"))
}

/// The same with the window of a lone disk, with one unit's, and with none.
pub(super) fn without_read_ahead(scale: f64) -> Result<Vec<Row>, Error> {
    let names = ["noop", ANTICIPATORY, CFQ, STREAM, ARRAY_STREAM];
    let mut rows = Vec::new();
    for (kib, what) in [(128, "128 KB"), (64, "64 KB"), (0, "nothing")] {
        let change = Change { array: Some(ARRAYS[0]), read_ahead: Some(kib << 10) };
        let (times, bytes) = times(&PAR_READ, change, &names, scale)?;
        let experiment = format!("par-read, {what} ahead");
        rows.extend(names.iter().map(|name| rate(&experiment, name, bytes, times[name])));
    }
    Ok(rows)
}
