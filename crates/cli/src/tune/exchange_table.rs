//! Exported ratings in Parquet: a row for each host, type of device, metric, kind of load and scheduler.

use std::path::Path;

use study::{Cell, Field, Type};
use tuner::{SharedLoad, SharedRating};

use crate::error::Error;

const FIELDS: &[Field] = &[
    Field { name: "host", kind: Type::Text, about: "name of the host" },
    Field { name: "device", kind: Type::Text, about: "type of the device" },
    Field { name: "metric", kind: Type::Text, about: "metric of the ratings" },
    Field { name: "kind_windows", kind: Type::Whole, about: "windows of this kind of load" },
    Field { name: "shape", kind: Type::Text, about: "shape of the kind, as a list" },
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
            Cell::Text(text(serde_json::to_string(&load.metric))?),
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

/// The loads of a file, which are not checked.
pub(super) fn read(path: &Path) -> Result<Vec<SharedLoad>, Error> {
    let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
    let mut loads: Vec<SharedLoad> = Vec::new();
    for (number, row) in study::read_table(path, &names)?.iter().enumerate() {
        let parsed = load(row).ok_or_else(|| {
            let advice = "expected a file of 'dwell patterns export'";
            Error::Input(format!(
                "{}, row {}: a value is missing or wrong; {advice}",
                path.display(),
                number + 1
            ))
        });
        let mut parsed = parsed?;
        let same = |known: &&mut SharedLoad| {
            (&known.host, &known.device, known.metric) == (&parsed.host, &parsed.device, parsed.metric)
                && known.shape == parsed.shape
        };
        match loads.iter_mut().find(same) {
            Some(known) => known.schedulers.append(&mut parsed.schedulers),
            None => loads.push(parsed),
        }
    }
    Ok(loads)
}

/// The load of a row, with at most one scheduler.
fn load(row: &[Cell]) -> Option<SharedLoad> {
    let text = |at: usize| if let Cell::Text(text) = &row[at] { Some(text.as_str()) } else { None };
    let whole = |at: usize| if let Cell::Whole(n) = row[at] { u64::try_from(n).ok() } else { None };
    let schedulers = match (text(5), &row[6]) {
        (Some(scheduler), Cell::Number(rating)) => vec![SharedRating {
            scheduler: scheduler.to_owned(),
            rating: *rating,
            pairs: whole(7)?,
            windows: whole(8)?,
        }],
        (None, _) => Vec::new(),
        _ => return None,
    };
    Some(SharedLoad {
        host: text(0)?.to_owned(),
        device: text(1)?.to_owned(),
        metric: serde_json::from_str(text(2)?).ok()?,
        windows: whole(3)?,
        shape: serde_json::from_str(text(4)?).ok()?,
        schedulers,
    })
}
