//! `dwell patterns` for kinds of load.

use std::io::Write;

use comfy_table::Table;
use elevator::text::counted;
use serde_json::{Value, json};
use tuner::{Knowledge, SchedulerId, Shape, State};
use tuner_live::in_words;

use super::selection::worth;
use crate::error::Error;
use crate::report::table_of_texts;
use evaluation::report::format::object;

/// Classes of accesses shown in a list.
pub(super) const NAMED: usize = 2;

/// What is known for a kind, compared with `none`, or with the first scheduler that was tried.
fn known(state: &State, kind: usize) -> Option<Knowledge> {
    let none = state.schedulers.iter().position(|name| name == "none").map(SchedulerId);
    state.kinds.compared(kind, none, state.metric.better())
}

/// The scheduler that is better than the others, if one is, else `none`.
pub(super) fn best(state: &State, kind: usize) -> Option<&str> {
    Some(state.schedulers.get(known(state, kind)?.best().0)?.as_str())
}

/// The best scheduler with its value and its gain.
fn best_in_words(state: &State, kind: usize) -> Option<String> {
    let known = known(state, kind)?;
    let best = known.best();
    let name = |scheduler: SchedulerId| state.schedulers.get(scheduler.0);
    let value = worth(state.metric, known.estimates.get(best.0)?.as_ref()?.value);
    let compared = match known.gain(best) {
        _ if !known.compares() => "no other was tried".to_owned(),
        Some(gain) if best != known.base => format!("{:+.0}% over {}", gain * 100.0, name(known.base)?),
        _ => "no other is better beyond chance".to_owned(),
    };
    Some(format!("{} ({value}; {compared})", name(best)?))
}

/// The most frequent classes of accesses with their shares.
pub(super) fn access_classes(shape: &Shape, most: usize) -> Vec<String> {
    let of = |(part, class): (f64, String)| format!("{:.0}% {class}", part * 100.0);
    shape.in_words().into_iter().take(most).map(of).collect()
}

pub(super) fn listed(state: &State) -> Table {
    let mut table = table_of_texts(&["kind", "windows", "requests", "best so far"]);
    for kind in state.kinds.loads() {
        let Some((shape, windows)) = state.kinds.load(kind) else { continue };
        let best = best_in_words(state, kind).unwrap_or_default();
        table.add_row([kind.to_string(), windows.to_string(), access_classes(shape, NAMED).join("\n"), best]);
    }
    table
}

pub(super) fn json(state: &State) -> Vec<Value> {
    let of = |kind: usize| {
        let (shape, windows) = state.kinds.load(kind)?;
        let asked = access_classes(shape, usize::MAX);
        let best = best(state, kind);
        Some(json!({"kind": kind, "windows": windows, "asked": asked, "best": best}))
    };
    state.kinds.loads().filter_map(of).collect()
}

pub(super) fn show(drive: &str, state: &State, kind: usize, as_json: bool) -> Result<(), Error> {
    let missing = || Error::Usage(format!("there is no kind {kind}; 'dwell patterns list' lists them"));
    let (shape, windows) = state.kinds.load(kind).ok_or_else(missing)?;
    let classes = access_classes(shape, usize::MAX);
    let expected = state.kinds.expected(kind, state.metric.better());
    let expected = expected.unwrap_or_else(|| vec![None; state.schedulers.len()]);
    let expected = state.schedulers.iter().zip(expected);
    let mut out = std::io::stdout().lock();
    if as_json {
        let of = |(name, of): (&String, Option<(f64, u64)>)| {
            let (value, windows) = of.unzip();
            json!({"scheduler": name, "windows": windows.unwrap_or(0), "expected": value})
        };
        let object = object(&json!({
            "drive": drive, "metric": in_words(state.metric), "kind": kind, "windows": windows, "asked": classes,
            "schedulers": expected.map(of).collect::<Vec<_>>(),
        }))?;
        return Ok(writeln!(out, "{object}")?);
    }
    writeln!(out, "kind {kind}, by {}: {}", in_words(state.metric), counted(windows, "window"))?;
    classes.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    let mut table = table_of_texts(&["scheduler", "windows", "expected"]);
    for (name, of) in expected {
        let (windows, value) =
            of.map_or_else(Default::default, |(value, n)| (n.to_string(), worth(state.metric, value)));
        table.add_row([name.clone(), windows, value]);
    }
    Ok(writeln!(out, "{table}")?)
}
