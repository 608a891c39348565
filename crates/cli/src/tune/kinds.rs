//! `dwell patterns` for kinds of load.

use std::io::Write;

use comfy_table::Table;
use elevator::text::counted;
use serde_json::{Value, json};
use tuner::{Knowledge, MeasuredValues, SchedulerId, Shape, State};
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
        _ if !known.compares() => "no other was measured in a whole window".to_owned(),
        Some(gain) if best != known.base => format!("{:+.0}% over {}", gain * 100.0, name(known.base)?),
        _ => "no other is better beyond chance".to_owned(),
    };
    Some(format!("{} ({value}; {compared})", name(best)?))
}

/// The best scheduler by the ratings of other hosts, for a kind that had no window here.
fn best_elsewhere(state: &State, kind: usize) -> Option<String> {
    let ratings = state.kinds.of_other_hosts(kind)?;
    let best = ratings.iter().position(|rating| *rating == Some(0.0))?;
    Some(format!("{} (by ratings of other hosts)", state.schedulers.get(best)?))
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
        let best = best_in_words(state, kind).or_else(|| best_elsewhere(state, kind)).unwrap_or_default();
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
    let tallies = state.kinds.tallies(kind).unwrap_or_else(|| vec![None; state.schedulers.len()]);
    let elsewhere = state.kinds.of_other_hosts(kind);
    let elsewhere_of = |index: usize| elsewhere.as_ref()?.get(index).copied().flatten();
    let measured = state.schedulers.iter().zip(tallies).enumerate();
    let mut out = std::io::stdout().lock();
    if as_json {
        let schedulers = measured.map(|(index, (name, of))| {
            let mut object = json!({
                "scheduler": name, "measured": of.map_or(0, |of| of.windows), "mean": of.map(|of| of.mean),
                "least": of.map(|of| of.least), "greatest": of.map(|of| of.greatest),
            });
            if elsewhere.is_some() {
                object["other_hosts"] = json!(elsewhere_of(index));
            }
            object
        });
        let object = object(&json!({
            "drive": drive, "metric": in_words(state.metric), "kind": kind, "windows": windows, "asked": classes,
            "schedulers": schedulers.collect::<Vec<_>>(),
        }))?;
        return Ok(writeln!(out, "{object}")?);
    }
    writeln!(out, "kind {kind}, by {}: {}", in_words(state.metric), counted(windows, "window"))?;
    classes.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    let columns = ["scheduler", "windows", "mean", "least", "greatest", "ratings of other hosts"];
    let columns = if elsewhere.is_some() { &columns[..] } else { &columns[..5] };
    let mut table = table_of_texts(columns);
    for (index, (name, of)) in measured {
        let windows = of.map_or_else(|| "0".to_owned(), |of| of.windows.to_string());
        let value =
            |get: fn(&MeasuredValues) -> f64| of.map_or_else(String::new, |of| worth(state.metric, get(&of)));
        let [mean, least, greatest] = [value(|of| of.mean), value(|of| of.least), value(|of| of.greatest)];
        let other = elsewhere_of(index).map_or_else(String::new, |behind| match behind {
            0.0 => "the best".to_owned(),
            _ => format!("{:.0}%", behind * 100.0),
        });
        table.add_row([name.clone(), windows, mean, least, greatest, other].into_iter().take(columns.len()));
    }
    Ok(writeln!(out, "{table}")?)
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};
    use tuner::{Access, Analyser, Metric, Observed, Parameters, Performance, Random, Window};

    use super::*;

    /// Regression: "no other was tried", although `tune` had compared the scheduler with a window of `none` in which the readers started.
    #[test]
    fn a_scheduler_without_a_whole_window_is_not_called_untried() {
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        let mut analyser =
            Analyser::new(names, Metric::Bandwidth, Parameters::default(), Random::new(1)).unwrap();
        let mut window = |scheduler, from: u64, bandwidth| {
            let access = |n: u64| Access {
                time: Time::ZERO + Span::from_millis(n * 10),
                position: Sector(n * 8),
                op: Op::Read,
                size: Sectors(8),
            };
            let accesses = (from..500).map(access).collect();
            let window = Window { start: Time::ZERO, length: Span::from_secs(5), accesses };
            let performance = Performance { bandwidth, ..Performance::default() };
            analyser.window(&window, &Observed { scheduler: Some(SchedulerId(scheduler)), performance });
        };
        window(0, 300, 1e6);
        window(1, 0, 19e6);
        let state = analyser.state();
        let best = best_in_words(&state, 0).unwrap();
        assert_eq!(best, "bfq (19.0 MB/s; no other was measured in a whole window)");
    }
}
