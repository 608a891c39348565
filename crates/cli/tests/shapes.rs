//! The papers' shapes at a small scale, through the program: what `dwell reproduce stream` judges must hold, except for known differences.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// Figures that do not hold, as (experiment, figure). docs/reproduction/stream.md explains them. A figure that holds again must be
/// removed from this list.
const KNOWN: [(&str, &str); 4] = [
    ("multi-threads, depth 31, drive's buffer on", "anticipatory over noop"),
    ("multi-threads, depth 31, in order, drive's buffer on", "anticipatory over noop"),
    ("multi-threads, depth 1, drive's buffer on", "anticipatory over noop"),
    ("chunk reads, two instances", "cooperative over anticipatory-2.6.9"),
];

/// Runs the experiments; asserts that at least this many figures are judged and that exactly the `known` ones do not hold.
fn judge(which: &str, scale: &str, at_least: usize, known: &[(&str, &str)]) {
    let output = Command::new(env!("CARGO_BIN_EXE_dwell"))
        .args(["reproduce", "stream", which, "--scale", scale, "--json", "--results", ""])
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let experiments = report["whole"].as_array().expect("experiments").iter();
    let rows = experiments.flat_map(|whole| whole["rows"].as_array().expect("rows"));
    let judged: Vec<&Value> = rows.filter(|row| !row["holds"].is_null()).collect();
    assert!(judged.len() >= at_least, "only {} figures were judged", judged.len());
    let name = |row: &&&Value| {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        (text("experiment"), text("figure"))
    };
    let missed: BTreeSet<_> =
        judged.iter().filter(|row| row["holds"] != true).map(|row| name(&row)).collect();
    let known: BTreeSet<_> = known.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let (new, held): (Vec<_>, Vec<_>) =
        (missed.difference(&known).collect(), known.difference(&missed).collect());
    assert!(new.is_empty(), "these figures do not hold: {new:#?}");
    assert!(held.is_empty(), "these figures hold now; remove them from KNOWN: {held:#?}");
}

#[test]
fn stream_shapes_hold_on_one_disk() {
    judge("--single-disk", "0.01", 20, &KNOWN);
}

#[test]
fn stream_shapes_hold_on_disk_arrays() {
    judge("--arrays", "0.01", 25, &[]);
}
