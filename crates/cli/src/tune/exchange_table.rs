//! Exported ratings in Parquet: a row for each host, type of device, metric, kind of load and scheduler.

use std::collections::HashMap;
use std::path::Path;

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

pub(super) fn write(path: &Path, loads: &[SharedLoad]) -> Result<(), Error> {
    let mut rows = Vec::new();
    for load in loads {
        let text =
            |value: serde_json::Result<String>| value.map_err(|error| Error::Failed(error.to_string()));
        let kind = [
            Cell::Text(load.host.clone()),
            Cell::Text(load.device.clone()),
            Cell::Text(in_words(load.metric)),
            Cell::Whole(load.windows as i64),
            Cell::Text(text(serde_json::to_string(&load.shape))?),
        ];
        let none = [const { Cell::Nothing }; 4];
        let rating = |of: &SharedRating| {
            let counts = [of.pairs, of.windows].map(|count| Cell::Whole(count as i64));
            let [pairs, windows] = counts;
            [Cell::Text(of.scheduler.clone()), Cell::Number(of.rating), pairs, windows]
        };
        let ratings: Vec<[Cell; 4]> = load.schedulers.iter().map(rating).collect();
        let ratings = if ratings.is_empty() { vec![none] } else { ratings };
        rows.extend(ratings.iter().map(|rating| [&kind[..], rating].concat()));
    }
    Ok(study::write_table(path, FIELDS, &rows)?)
}

/// The loads of a file.
pub(super) fn read(path: &Path) -> Result<Vec<SharedLoad>, Error> {
    let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
    let mut loads: Vec<SharedLoad> = Vec::new();
    let mut places: HashMap<(String, String), Vec<usize>> = HashMap::new();
    for (number, row) in study::read_table(path, &names)?.iter().enumerate() {
        let wrong = |problem: String| {
            let advice = "expected a file of 'dwell patterns export'";
            Error::Input(format!("{}, row {}: {problem}; {advice}", path.display(), number + 1))
        };
        let parsed = load(row).map_err(|field| wrong(format!("{field}: is missing or wrong")))?;
        parsed.check().map_err(wrong)?;
        // Rows of a load mostly follow each other, and those of a host do.
        let of_host = places.entry((parsed.host.clone(), parsed.device.clone())).or_default();
        let same = |known: &SharedLoad| known.metric == parsed.metric && known.shape == parsed.shape;
        let Some(&known) = of_host.iter().find(|at| same(&loads[**at])) else {
            of_host.push(loads.len());
            loads.push(parsed);
            continue;
        };
        let known = &mut loads[known];
        known.windows = known.windows.max(parsed.windows);
        for rating in parsed.schedulers {
            match known.schedulers.iter_mut().find(|of| of.scheduler == rating.scheduler) {
                // A row that is there twice.
                Some(of) if of.windows < rating.windows => *of = rating,
                Some(_) => {}
                None => known.schedulers.push(rating),
            }
        }
    }
    Ok(loads)
}

/// The load of a row, with at most one scheduler; or the first field that is wrong.
fn load(row: &[Cell]) -> Result<SharedLoad, &'static str> {
    let field = |at: usize| FIELDS[at].name;
    let text = |at: usize| if let Cell::Text(text) = &row[at] { Ok(text.as_str()) } else { Err(field(at)) };
    let whole = |at: usize| match row[at] {
        Cell::Whole(n) => u64::try_from(n).map_err(|_| field(at)),
        _ => Err(field(at)),
    };
    let schedulers = match (text(5), &row[6]) {
        (Ok(scheduler), Cell::Number(rating)) => vec![SharedRating {
            scheduler: scheduler.to_owned(),
            rating: *rating,
            pairs: whole(7)?,
            windows: whole(8)?,
        }],
        (Err(_), Cell::Nothing) => Vec::new(),
        (Ok(_), _) => return Err(field(6)),
        (Err(field), _) => return Err(field),
    };
    Ok(SharedLoad {
        host: text(0)?.to_owned(),
        device: text(1)?.to_owned(),
        metric: metric(text(2)?).ok_or(field(2))?,
        windows: whole(3)?,
        shape: serde_json::from_str(text(4)?).map_err(|_| field(4))?,
        schedulers,
    })
}

/// The metric of this name. Files of earlier versions have it in JSON.
fn metric(name: &str) -> Option<Metric> {
    let latency = |statistic: LatencyStatistic| {
        let classes = [LatencyClass::Reads, LatencyClass::Writes, LatencyClass::Synchronous];
        classes.map(|class| Metric::Latency(statistic, class))
    };
    let others = [Metric::Bandwidth, Metric::Iops, Metric::Fairness, Metric::CgroupFairness];
    let of_users = [Metric::UserBandwidth, Metric::UserMinusSystem];
    let external = [Better::Higher, Better::Lower].map(Metric::External);
    let latencies = [LatencyStatistic::Mean, LatencyStatistic::P99].into_iter().flat_map(latency);
    let mut all = others.into_iter().chain(of_users).chain(external).chain(latencies);
    let named = all.find(|metric| in_words(*metric) == name);
    named.or_else(|| serde_json::from_str(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_there_twice_count_once() {
        if !study::HAS_PARQUET {
            return;
        }
        let path = std::env::temp_dir().join(format!("dwell-exchange-{}.parquet", std::process::id()));
        let rating = |scheduler: &str, windows| SharedRating {
            scheduler: scheduler.to_owned(),
            rating: 0.5,
            pairs: 3,
            windows,
        };
        let shares: Vec<f64> = (0..48).map(|class| if class == 5 { 1.0 } else { 0.0 }).collect();
        let load = |windows| SharedLoad {
            host: "h".to_owned(),
            device: "d".to_owned(),
            metric: Metric::Bandwidth,
            windows,
            shape: serde_json::from_value(shares.clone().into()).unwrap(),
            schedulers: vec![rating("bfq", windows), rating("none", windows)],
        };
        write(&path, &[load(7), load(9), load(8)]).unwrap();
        let found = read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.unwrap(), [load(9)]);
    }

    #[test]
    fn a_metric_is_found_by_its_name_and_by_the_json_of_earlier_files() {
        let latency = Metric::Latency(LatencyStatistic::P99, LatencyClass::Synchronous);
        for of in [Metric::Bandwidth, Metric::UserMinusSystem, Metric::External(Better::Lower), latency] {
            assert_eq!(metric(&in_words(of)), Some(of));
            assert_eq!(metric(&serde_json::to_string(&of).unwrap()), Some(of));
        }
        assert_eq!(metric("speed"), None);
    }
}
