//! Exported ratings as a table: a row for each host, type of device, metric, kind of load and scheduler. It is a Parquet file, or a JSON object
//! per row with the same names.

use std::collections::HashMap;
use std::path::Path;

use elevator::text::did_you_mean;
use serde::Serialize;
use study::{Cell, Field, Type};
use tuner::{Better, LatencyClass, LatencyStatistic, Metric, SharedLoad, SharedRating};
use tuner_live::in_words;

use crate::error::Error;

const FIELDS: &[Field] = &[
    Field { name: "host", kind: Type::Text, about: "name of the host" },
    Field { name: "device", kind: Type::Text, about: "type of the device" },
    Field { name: "metric", kind: Type::Text, about: "metric of the ratings, as in 'dwell patterns list'" },
    Field { name: "kind_windows", kind: Type::Whole, about: "windows of this kind of load" },
    Field { name: "shape", kind: Type::Text, about: "shares of the 48 classes of accesses, as a JSON list" },
    Field { name: "scheduler", kind: Type::Text, about: "scheduler; null if the kind has none" },
    Field { name: "rating", kind: Type::Number, about: "sum of relative differences to other schedulers" },
    Field { name: "pairs", kind: Type::Whole, about: "comparisons" },
    Field { name: "windows", kind: Type::Whole, about: "windows of the scheduler" },
];

/// A row; the last four fields are null if the kind of load has no scheduler.
#[derive(Clone, PartialEq, Serialize)]
pub(super) struct Row {
    host: String,
    device: String,
    metric: String,
    kind_windows: u64,
    shape: String,
    scheduler: Option<String>,
    rating: Option<f64>,
    pairs: Option<u64>,
    windows: Option<u64>,
}

pub(super) fn rows(loads: &[SharedLoad]) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for load in loads {
        let shape = serde_json::to_string(&load.shape).map_err(|error| Error::Failed(error.to_string()))?;
        let kind = Row {
            host: load.host.clone(),
            device: load.device.clone(),
            metric: in_words(load.metric),
            kind_windows: load.windows,
            shape,
            scheduler: None,
            rating: None,
            pairs: None,
            windows: None,
        };
        if load.schedulers.is_empty() {
            rows.push(kind);
            continue;
        }
        rows.extend(load.schedulers.iter().map(|of| Row {
            scheduler: Some(of.scheduler.clone()),
            rating: Some(of.rating),
            pairs: Some(of.pairs),
            windows: Some(of.windows),
            ..kind.clone()
        }));
    }
    Ok(rows)
}

/// Writes a Parquet file.
pub(super) fn write(path: &Path, loads: &[SharedLoad]) -> Result<(), Error> {
    let text = |text: Option<String>| text.map_or(Cell::Nothing, Cell::Text);
    let whole = |n: Option<u64>| n.map_or(Cell::Nothing, |n| Cell::Whole(n as i64));
    let cells = |row: Row| {
        vec![
            Cell::Text(row.host),
            Cell::Text(row.device),
            Cell::Text(row.metric),
            whole(Some(row.kind_windows)),
            Cell::Text(row.shape),
            text(row.scheduler),
            row.rating.map_or(Cell::Nothing, Cell::Number),
            whole(row.pairs),
            whole(row.windows),
        ]
    };
    let rows: Vec<Vec<Cell>> = rows(loads)?.into_iter().map(cells).collect();
    Ok(study::write_table(path, FIELDS, &rows)?)
}

/// The loads of a Parquet file.
pub(super) fn read(path: &Path) -> Result<Vec<SharedLoad>, Error> {
    let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
    let mut loads = Loads::default();
    for (cells, number) in study::read_table(path, &names)?.iter().zip(1..) {
        let added = row(cells).and_then(|row| loads.add(row));
        added.map_err(|problem| {
            let advice = "expected a file of 'dwell patterns export'";
            Error::Input(format!("{}, row {number}: {problem}; {advice}", path.display()))
        })?;
    }
    Ok(loads.loads)
}

/// The row of a line of JSON. Fields that are no columns are ignored, as in Parquet.
pub(super) fn of_json(line: &str) -> Result<Row, String> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line)
        .map_err(|error| format!("no JSON object of a row (column {})", error.column()))?;
    let cell = |field: &Field| match object.get(field.name) {
        None | Some(serde_json::Value::Null) => Ok(Cell::Nothing),
        Some(serde_json::Value::Bool(flag)) => Ok(Cell::Flag(*flag)),
        Some(serde_json::Value::Number(number)) => {
            let fraction = || Cell::Number(number.as_f64().unwrap_or(f64::NAN));
            Ok(number.as_i64().map_or_else(fraction, Cell::Whole))
        }
        Some(serde_json::Value::String(text)) => Ok(Cell::Text(text.clone())),
        Some(_) => Err(format!("{}: expected one value, found a list or an object", field.name)),
    };
    row(&FIELDS.iter().map(cell).collect::<Result<Vec<_>, _>>()?)
}

fn row(cells: &[Cell]) -> Result<Row, String> {
    let wrong = |at: usize| {
        let (expected, found) = match (FIELDS[at].kind, &cells[at]) {
            (_, Cell::Nothing) => return is_missing(FIELDS[at].name),
            (Type::Whole, Cell::Whole(n)) => ("a whole number from 0", n.to_string()),
            (Type::Whole, found) => ("a whole number", kind(found).to_owned()),
            (Type::Number, found) => ("a number", kind(found).to_owned()),
            (_, found) => ("text", kind(found).to_owned()),
        };
        format!("{}: expected {expected}, found {found}", FIELDS[at].name)
    };
    let optional_text = |at: usize| match &cells[at] {
        Cell::Text(text) => Ok(Some(text.clone())),
        Cell::Nothing => Ok(None),
        _ => Err(wrong(at)),
    };
    let optional = |at: usize| match cells[at] {
        Cell::Whole(n) => u64::try_from(n).map(Some).map_err(|_| wrong(at)),
        Cell::Nothing => Ok(None),
        _ => Err(wrong(at)),
    };
    let text = |at: usize| optional_text(at)?.ok_or_else(|| wrong(at));
    Ok(Row {
        host: text(0)?,
        device: text(1)?,
        metric: text(2)?,
        kind_windows: optional(3)?.ok_or_else(|| wrong(3))?,
        shape: text(4)?,
        scheduler: optional_text(5)?,
        rating: match cells[6] {
            Cell::Number(rating) => Some(rating),
            Cell::Whole(rating) => Some(rating as f64),
            Cell::Nothing => None,
            _ => return Err(wrong(6)),
        },
        pairs: optional(7)?,
        windows: optional(8)?,
    })
}

/// The type of a value.
const fn kind(cell: &Cell) -> &'static str {
    match cell {
        Cell::Flag(_) => "a flag",
        Cell::Whole(_) => "a whole number",
        Cell::Number(_) => "a number with a fraction",
        Cell::Text(_) => "text",
        Cell::Nothing => "nothing",
    }
}

fn is_missing(field: &str) -> String {
    format!("{field}: there is no value")
}

/// The loads of rows. If rows of one load, host and scheduler differ, the load is there twice: the merge of loads decides.
#[derive(Default)]
pub(super) struct Loads {
    pub(super) loads: Vec<SharedLoad>,
    places: HashMap<(String, String), Vec<usize>>,
}

impl Loads {
    /// Adds a row; an error names what is wrong.
    pub(super) fn add(&mut self, row: Row) -> Result<(), String> {
        let parsed = load(row)?;
        parsed.check()?;
        let of_host = self.places.entry((parsed.host.clone(), parsed.device.clone())).or_default();
        let differs =
            |one: &SharedRating, other: &SharedRating| one.scheduler == other.scheduler && one != other;
        let fits = |known: &SharedLoad| {
            known.metric == parsed.metric
                && known.shape == parsed.shape
                && known.windows == parsed.windows
                && !known.schedulers.iter().any(|of| parsed.schedulers.iter().any(|new| differs(of, new)))
        };
        // Rows of a load mostly follow each other.
        let Some(&known) = of_host.iter().rev().find(|at| fits(&self.loads[**at])) else {
            of_host.push(self.loads.len());
            self.loads.push(parsed);
            return Ok(());
        };
        let known = &mut self.loads[known].schedulers;
        known.extend(parsed.schedulers.into_iter().filter(|new| !known.contains(new)).collect::<Vec<_>>());
        Ok(())
    }
}

/// The load of a row, with at most one scheduler; or what is wrong with the first wrong field.
fn load(row: Row) -> Result<SharedLoad, String> {
    let missing = |field| move || is_missing(field);
    let schedulers = match (row.scheduler, row.rating) {
        (Some(scheduler), Some(rating)) => vec![SharedRating {
            scheduler,
            rating,
            pairs: row.pairs.ok_or_else(missing("pairs"))?,
            windows: row.windows.ok_or_else(missing("windows"))?,
        }],
        (None, None) => Vec::new(),
        (Some(_), None) => return Err(is_missing("rating")),
        (None, Some(_)) => return Err(is_missing("scheduler")),
    };
    Ok(SharedLoad {
        host: row.host,
        device: row.device,
        metric: metric(&row.metric).ok_or_else(|| unknown_metric(&row.metric))?,
        windows: row.kind_windows,
        shape: serde_json::from_str(&row.shape)
            .map_err(|_| "shape: expected the numbers of a load in brackets".to_owned())?,
        schedulers,
    })
}

fn unknown_metric(name: &str) -> String {
    let known: Vec<String> = metrics().map(in_words).collect();
    let hint = did_you_mean(name, known.iter().map(String::as_str));
    format!("metric: '{name}' is none of {}{hint}", known.join(", "))
}

/// Every metric that ratings may have.
fn metrics() -> impl Iterator<Item = Metric> {
    let latency = |statistic: LatencyStatistic| {
        let classes = [LatencyClass::Reads, LatencyClass::Writes, LatencyClass::Synchronous];
        classes.map(|class| Metric::Latency(statistic, class))
    };
    let others = [Metric::Bandwidth, Metric::Iops, Metric::Fairness, Metric::CgroupFairness];
    let of_users = [Metric::UserBandwidth, Metric::UserMinusSystem];
    let external = [Better::Higher, Better::Lower].map(Metric::External);
    let latencies = [LatencyStatistic::Mean, LatencyStatistic::P99].into_iter().flat_map(latency);
    others.into_iter().chain(of_users).chain(external).chain(latencies)
}

/// The metric of this name. Files of earlier versions have it in JSON.
fn metric(name: &str) -> Option<Metric> {
    let named = metrics().find(|metric| in_words(*metric) == name);
    named.or_else(|| serde_json::from_str(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(windows: u64) -> SharedLoad {
        let rating = |scheduler: &str| SharedRating {
            scheduler: scheduler.to_owned(),
            rating: 0.5,
            pairs: 3,
            windows,
        };
        let shares: Vec<f64> = (0..48).map(|class| if class == 5 { 1.0 } else { 0.0 }).collect();
        SharedLoad {
            host: "h".to_owned(),
            device: "d".to_owned(),
            metric: Metric::Bandwidth,
            windows,
            shape: serde_json::from_value(shares.into()).unwrap(),
            schedulers: vec![rating("bfq"), rating("none")],
        }
    }

    #[test]
    fn errors_in_a_line_of_json_name_the_column() {
        let line = |shape: &str, pairs: &str| {
            format!(
                r#"{{"host":"h","device":"d","metric":"bandwidth","kind_windows":1,"shape":{shape},"scheduler":"none","rating":0.5,"pairs":{pairs},"windows":2,"more":[]}}"#
            )
        };
        let good = |pairs| of_json(&line("\"[1]\"", pairs));
        assert!(good("3").is_ok_and(|row| row.pairs == Some(3)));
        let error = |line: &str| of_json(line).err().unwrap_or_default();
        assert_eq!(good("-1").err().unwrap_or_default(), "pairs: expected a whole number from 0, found -1");
        assert_eq!(error(&line("[1]", "3")), "shape: expected one value, found a list or an object");
        assert_eq!(error("{}"), "host: there is no value");
        let nan = error(&line("\"[1]\"", "NaN"));
        assert!(nan.starts_with("no JSON object of a row (column "), "{nan}");
    }

    #[test]
    fn equal_rows_count_once_and_the_merge_decides_about_others() {
        if !study::HAS_PARQUET {
            return;
        }
        let path = std::env::temp_dir().join(format!("dwell-exchange-{}.parquet", std::process::id()));
        write(&path, &[example(7), example(9), example(9), example(8)]).unwrap();
        let found = read(&path);
        std::fs::remove_file(&path).unwrap();
        let found = found.unwrap();
        assert_eq!(found, [example(7), example(9), example(8)]);
        let mut merged = tuner::Shared::default();
        assert_eq!(merged.merge(tuner::Shared { loads: found }), ["h", "h"]);
        assert_eq!(merged.loads, [example(9)]);
    }

    #[test]
    fn a_column_of_another_type_is_named_with_both_types() {
        let good = || {
            let text = |text: &str| Cell::Text(text.to_owned());
            let shape = serde_json::to_string(&example(1).shape).unwrap();
            let (some, rating) = (text("noop"), Cell::Number(0.5));
            vec![
                text("h"),
                text("d"),
                text("bandwidth"),
                Cell::Whole(7),
                text(&shape),
                some,
                rating,
                Cell::Whole(3),
                Cell::Whole(7),
            ]
        };
        assert!(row(&good()).is_ok());
        for (at, cell, expected) in [
            (3, Cell::Number(7.5), "kind_windows: expected a whole number, found a number with a fraction"),
            (3, Cell::Whole(-1), "kind_windows: expected a whole number from 0, found -1"),
            (3, Cell::Nothing, "kind_windows: there is no value"),
            (6, Cell::Flag(true), "rating: expected a number, found a flag"),
            (0, Cell::Whole(1), "host: expected text, found a whole number"),
        ] {
            let mut cells = good();
            cells[at] = cell;
            assert_eq!(row(&cells).err().as_deref(), Some(expected));
        }
        let mut cells = good();
        cells[6] = Cell::Whole(1);
        assert!(row(&cells).is_ok_and(|row| row.rating == Some(1.0)));
    }

    #[test]
    fn json_objects_have_the_columns() {
        let rows = rows(&[example(7)]).unwrap();
        assert_eq!(rows.len(), 2);
        let mut loads = Loads::default();
        for row in rows {
            let json = serde_json::to_value(&row).unwrap();
            let mut names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
            names.sort_unstable();
            let mut found: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
            found.sort_unstable();
            assert_eq!(found, names);
            loads.add(of_json(&json.to_string()).unwrap()).unwrap();
        }
        assert_eq!(loads.loads, [example(7)]);
    }

    #[test]
    fn two_ratings_of_one_scheduler_are_two_loads() {
        let mut loads = Loads::default();
        let mut rows = rows(&[example(7)]).unwrap();
        let mut other = rows[0].clone();
        other.rating = Some(0.25);
        rows.push(other);
        rows.into_iter().for_each(|row| loads.add(row).unwrap());
        assert_eq!(loads.loads.len(), 2);
    }

    #[test]
    fn a_metric_is_found_by_its_name_and_by_the_json_of_earlier_files() {
        let latency = Metric::Latency(LatencyStatistic::P99, LatencyClass::Synchronous);
        for of in [Metric::Bandwidth, Metric::UserMinusSystem, Metric::External(Better::Lower), latency] {
            assert_eq!(metric(&in_words(of)), Some(of));
            assert_eq!(metric(&serde_json::to_string(&of).unwrap()), Some(of));
        }
        assert_eq!(metric("speed"), None);
        let error = unknown_metric("bandwith");
        assert!(error.starts_with("metric: 'bandwith' is none of bandwidth, "), "{error}");
        assert!(error.ends_with("did you mean 'bandwidth'?"), "{error}");
    }
}
