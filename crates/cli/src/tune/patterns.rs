//! `dwell patterns`: shows and changes what the tuner has learned.

use std::io::Write;
use std::path::Path;

use elevator::text::counted;
use serde::Serialize;
use serde_json::{Value, json};
use tuner::{ClusterState, State};
use tuner_live::database::{Database, Drive};
use tuner_live::{chart, in_words, learned};

use super::args::{PatternsArguments, PatternsCommand};
use super::selection::{claim_all, nothing, only_drive, only_metric, selected, worth};
use super::{exchange, kinds};
use crate::error::Error;
use crate::output_file;
use crate::report::table_of_texts;
use evaluation::report::format::object;

/// Width of a chart in a list, and alone, in characters.
const NARROW: usize = 40;
const WIDE: usize = 80;

pub(crate) fn run(arguments: &PatternsArguments) -> Result<(), Error> {
    match &arguments.command {
        PatternsCommand::Export { file, host } => exchange::export(arguments, file, host.as_deref()),
        PatternsCommand::Import { files } => exchange::import(arguments, files),
        PatternsCommand::Merge { kinds, into, others } => match (index(into), others.as_slice()) {
            (Some(_), [other]) if index(other).is_some() => show_or_change(arguments),
            (None, others) if !kinds && others.iter().all(|other| index(other).is_none()) => {
                exchange::merge(into, others)
            }
            _ => Err(Error::Usage(
                "merge takes two numbers, or the file to write and exported files".to_owned(),
            )),
        },
        _ => show_or_change(arguments),
    }
}

/// The number of a cluster or kind, unless the argument is a file.
fn index(argument: &Path) -> Option<u64> {
    argument.to_str()?.parse().ok()
}

fn show_or_change(arguments: &PatternsArguments) -> Result<(), Error> {
    let path = &arguments.database;
    let changes = matches!(arguments.command, PatternsCommand::Merge { .. } | PatternsCommand::Forget { .. });
    let database = Database::open_existing(path)?.ok_or_else(|| nothing(arguments))?;
    let selected = selected(&database, arguments)?;
    if let (PatternsCommand::List { json }, [_, _, ..]) = (&arguments.command, &*selected) {
        return drives(&selected, *json);
    }
    let drive = only_drive(&selected)?;
    let _alone = if changes { claim_all(drive)? } else { Vec::new() };
    if let PatternsCommand::Forget { all: true, .. } = arguments.command {
        return Ok(selected.iter().try_for_each(|of| database.forget(drive, of.metric).map(drop))?);
    }
    let Drive { metric, saved, .. } = *only_metric(&selected)?;
    let unknown = || Error::Usage(format!("the database has no state for {drive}"));
    let mut state = database.load(drive, metric)?.ok_or_else(unknown)?;
    match &arguments.command {
        PatternsCommand::List { json } => list(drive, &state, *json),
        PatternsCommand::Show { kind: Some(kind), json, .. } => kinds::show(drive, &state, *kind, *json),
        PatternsCommand::Show { cluster, html, json, .. } => {
            let cluster = cluster_of(&state, cluster.unwrap_or_default())?;
            show(drive, &state, cluster, *json)?;
            html.as_deref().map_or(Ok(()), |path| draw(cluster, path))
        }
        PatternsCommand::Merge { kinds, into, others } => {
            let [Some(into), Some(other)] = [Some(into), others.first()].map(|of| index(of?)) else {
                return Ok(());
            };
            match kinds {
                true => state.kinds.merge(into as usize, other as usize),
                false => learned::merge(&mut state, into, other),
            }
            .map_err(Error::Usage)?;
            Ok(database.save(drive, &state, saved).map(drop)?)
        }
        PatternsCommand::Forget { kind: Some(kind), .. } => {
            state.kinds.forget_load(*kind).map_err(Error::Usage)?;
            Ok(database.save(drive, &state, saved).map(drop)?)
        }
        PatternsCommand::Forget { cluster, .. } => {
            learned::forget(&mut state, cluster.unwrap_or_default()).map_err(Error::Usage)?;
            Ok(database.save(drive, &state, saved).map(drop)?)
        }
        PatternsCommand::Export { .. } | PatternsCommand::Import { .. } => Ok(()),
    }
}

fn drives(drives: &[Drive], as_json: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if as_json {
        return Ok(writeln!(out, "{}", object(&json!({"drives": drives}))?)?);
    }
    let mut table = table_of_texts(&["drive", "metric", "kinds of load", "windows", "clusters", "windows"]);
    for drive in drives {
        let counts = [drive.kinds, drive.windows, drive.clusters, drive.hits].map(|count| count.to_string());
        table.add_row([drive.name.clone(), in_words(drive.metric)].into_iter().chain(counts));
    }
    Ok(writeln!(out, "{table}")?)
}

/// The values of a scheduler in the windows of a cluster.
#[derive(Serialize)]
struct Measured<'a> {
    scheduler: &'a str,
    /// The number of values.
    measured: usize,
    mean: Option<f64>,
    least: Option<f64>,
    greatest: Option<f64>,
}

impl<'a> Measured<'a> {
    fn by(scheduler: &'a str, values: &[f64]) -> Self {
        let of = |fold: fn(f64, f64) -> f64| values.iter().copied().reduce(fold);
        let sum = of(|a, b| a + b);
        let mean = sum.map(|sum| sum / values.len() as f64);
        Self { scheduler, measured: values.len(), mean, least: of(f64::min), greatest: of(f64::max) }
    }
}

/// The values of each scheduler in the windows of a cluster.
fn measured_values<'a>(state: &'a State, cluster: &'a ClusterState) -> impl Iterator<Item = Measured<'a>> {
    let all = state.schedulers.iter().zip(&cluster.performance);
    all.map(|(name, (values, _))| Measured::by(name, values))
}

/// The scheduler with the best mean, and that mean.
fn best<'a>(state: &'a State, cluster: &'a ClusterState) -> Option<(&'a str, f64)> {
    let better = state.metric.better();
    let tried = measured_values(state, cluster).filter_map(|values| Some((values.scheduler, values.mean?)));
    tried.max_by(|a, b| better.oriented(a.1).total_cmp(&better.oriented(b.1)))
}

fn list(drive: &str, state: &State, as_json: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    let mut clusters: Vec<&ClusterState> = state.clusters.iter().collect();
    clusters.sort_by_key(|cluster| std::cmp::Reverse(cluster.hits));
    if as_json {
        let cluster = |cluster: &&ClusterState| json!({"cluster": cluster.id, "windows": cluster.hits, "requests": cluster.requests, "best": best(state, cluster).map(|(name, _)| name)});
        let clusters: Vec<_> = clusters.iter().map(cluster).collect();
        let of = json!({"drive": drive, "metric": in_words(state.metric), "kinds": kinds::json(state), "clusters": clusters});
        return Ok(writeln!(out, "{}", object(&of)?)?);
    }
    writeln!(out, "{drive}, by {}", in_words(state.metric))?;
    if state.kinds.count() > 0 {
        writeln!(out, "{}", kinds::listed(state))?;
    }
    if clusters.is_empty() {
        return Ok(());
    }
    let mut table =
        table_of_texts(&["cluster", "windows", "requests", "best so far", "jumps forwards and backwards"]);
    for cluster in clusters {
        let best = best(state, cluster)
            .map_or_else(String::new, |(name, mean)| format!("{name} ({})", worth(state.metric, mean)));
        let [up, down] = chart::sparkline(&cluster.points, NARROW);
        table.add_row([
            cluster.id.to_string(),
            cluster.hits.to_string(),
            cluster.requests.to_string(),
            best,
            format!("{up}\n{down}"),
        ]);
    }
    Ok(writeln!(out, "{table}")?)
}

fn cluster_of(state: &State, id: u64) -> Result<&ClusterState, Error> {
    let missing = || Error::Usage(format!("there is no cluster {id}; 'dwell patterns list' lists them"));
    state.clusters.iter().find(|cluster| cluster.id == id).ok_or_else(missing)
}

fn show(drive: &str, state: &State, cluster: &ClusterState, as_json: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if as_json {
        return Ok(writeln!(out, "{}", object(&json(drive, state, cluster))?)?);
    }
    let [up, down] = chart::sparkline(&cluster.points, WIDE);
    writeln!(
        out,
        "cluster {}, by {}: {}, {} in the first\n{up}\n{down}",
        cluster.id,
        in_words(state.metric),
        counted(cluster.hits, "window"),
        counted(cluster.requests, "request")
    )?;
    let mut table = table_of_texts(&["scheduler", "measured", "mean", "least", "greatest"]);
    for Measured { scheduler, measured, mean, least, greatest } in measured_values(state, cluster) {
        let values = [mean, least, greatest];
        let values = values.map(|of| of.map_or_else(String::new, |value| worth(state.metric, value)));
        table.add_row([scheduler.to_owned(), measured.to_string()].into_iter().chain(values));
    }
    writeln!(out, "{table}")?;
    let total: u64 = cluster.successors.iter().map(|(_, count)| count).sum();
    for (next, count) in &cluster.successors {
        writeln!(out, "followed by cluster {next}: {count} of {total}")?;
    }
    Ok(())
}

/// A cluster as JSON. Times are in seconds, rates in bytes or requests per second, jumps in sectors (negative: backwards).
fn json(drive: &str, state: &State, cluster: &ClusterState) -> Value {
    let next = |&(cluster, windows): &(u64, u64)| json!({"cluster": cluster, "windows": windows});
    json!({
        "drive": drive, "metric": in_words(state.metric), "cluster": cluster.id, "windows": cluster.hits,
        "requests": cluster.requests, "jumps": cluster.points,
        "schedulers": measured_values(state, cluster).collect::<Vec<_>>(),
        "followed_by": cluster.successors.iter().map(next).collect::<Vec<_>>(),
    })
}

/// Draws a cluster into an HTML page.
fn draw(cluster: &ClusterState, path: &Path) -> Result<(), Error> {
    let title = format!("cluster {}: {}", cluster.id, counted(cluster.hits, "window"));
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>{title}</title><style>body{{font:16px sans-serif;margin:2em;color-scheme:light dark}}svg{{width:100%;max-width:60em}}</style><h1>{title}</h1><p>Sector jumps over the window: forwards above, backwards below, on a scale of powers of two.</p>{}",
        chart::svg(&cluster.points, &title)
    );
    output_file::write(path, page.as_bytes())
}
