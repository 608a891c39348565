//! The results that the documentation shows: a file of all rows, and the tables of the pages, which are made from it alone.
//!
//! A page has blocks between `<!-- results NAME -->` and `<!-- end -->`; [`tables`] lists the names. `dwell reproduce
//! --write-docs` writes the file and all blocks; a test fails if a block is not what the file gives.

mod tables;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::scripts::{self, Done};
use super::{Row, SuiteExperiment};
use crate::error::Error;

/// The file of results.
const FILE: &str = "results.json";

/// Replaces the results of the experiments that ran, and writes the pages anew.
pub(super) fn write(
    directory: &Path,
    done: &[Done],
    suites: &[(SuiteExperiment, Vec<Row>)],
) -> Result<(), Error> {
    let path = directory.join(FILE);
    let kept = match fs::read_to_string(&path) {
        Ok(text) => {
            serde_json::from_str(&text).map_err(|e| Error::Failed(format!("{}: {e}", path.display())))?
        }
        Err(_) => json!([]),
    };
    let results = merged(&kept, new(done, suites));
    let text = lines(&results);
    fs::write(&path, text).map_err(|e| Error::written(path.display(), &e))?;
    write_pages(directory, &results)
}

/// Writes the blocks of all pages in the directory.
fn write_pages(directory: &Path, results: &Value) -> Result<(), Error> {
    for (path, text) in pages(directory)? {
        let page =
            tables::page(&text, results).map_err(|e| Error::Failed(format!("{}: {e}", path.display())))?;
        if page != text {
            fs::write(&path, page).map_err(|e| Error::written(path.display(), &e))?;
        }
    }
    Ok(())
}

fn pages(directory: &Path) -> Result<Vec<(std::path::PathBuf, String)>, Error> {
    let failed = |e: std::io::Error| Error::Failed(format!("{}: {e}", directory.display()));
    let mut pages = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&path).map_err(failed)?;
            pages.push((path, text));
        }
    }
    pages.sort();
    Ok(pages)
}

/// An entry for each experiment: its name, drive and scale, and its rows.
fn new(done: &[Done], suites: &[(SuiteExperiment, Vec<Row>)]) -> Vec<Value> {
    let scripts = done.iter().filter(|done| done.is_complete()).map(scripts::entry);
    let suites = suites.iter().map(|(of, rows)| {
        json!({ "suite": of.suite, "experiment": of.experiment.name, "scale": of.scale, "rows": rows })
    });
    scripts.chain(suites).map(rounded).collect()
}

/// The name under which an entry replaces an earlier one.
fn key(entry: &Value) -> [String; 4] {
    ["suite", "paper", "experiment", "on"].map(|part| entry[part].as_str().unwrap_or_default().to_owned())
}

fn merged(kept: &Value, new: Vec<Value>) -> Value {
    let mut all: Vec<Value> = kept.as_array().cloned().unwrap_or_default();
    all.retain(|entry| new.iter().all(|other| key(other) != key(entry)));
    all.extend(new);
    all.sort_by_key(key);
    Value::Array(all)
}

/// Six significant digits: more are not shown, and the file stays readable.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let value = number.as_f64().unwrap_or_default();
            let text = format!("{value:.5e}");
            json!(text.parse::<f64>().unwrap_or(value))
        }
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, rounded(value))).collect(),
        other => other,
    }
}

/// One row per line, so that a change of a result is a line of a diff.
fn lines(results: &Value) -> String {
    let mut text = String::from("[\n");
    let entries = results.as_array().map(Vec::as_slice).unwrap_or_default();
    for (n, entry) in entries.iter().enumerate() {
        let mut head = entry.clone();
        let rows = head.as_object_mut().and_then(|head| head.remove("rows")).unwrap_or_default();
        let rows: Vec<String> = rows.as_array().into_iter().flatten().map(|row| format!("  {row}")).collect();
        let mut head = head.to_string();
        head.pop();
        text.push_str(&format!("{head},\"rows\":[\n{}\n]}}", rows.join(",\n")));
        text.push_str(if n + 1 < entries.len() { ",\n" } else { "\n" });
    }
    text.push_str("]\n");
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn directory() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduction")
    }

    fn results() -> Value {
        let text = fs::read_to_string(directory().join(FILE)).expect("docs/reproduction/results.json");
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn the_pages_are_what_the_results_give() {
        let results = results();
        if std::env::var_os("DWELL_BLESS").is_some() {
            write_pages(&directory(), &results).expect("pages");
        }
        for (path, text) in pages(&directory()).expect("pages") {
            let page = tables::page(&text, &results).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let differs = text.lines().zip(page.lines()).position(|(a, b)| a != b);
            assert!(
                page == text,
                "{}, line {:?}: not what results.json gives; write the tables with `dwell reproduce … --write-docs \
                 docs/reproduction`, or DWELL_BLESS=1 cargo test -p dwell-evaluation papers::docs",
                path.display(),
                differs.map(|line| line + 1)
            );
        }
    }

    /// The page whose tables are still of several runs at several sizes, and not of one file of results.
    const BY_HAND: &str = "ioanalyzer.md";

    #[test]
    fn every_table_with_a_number_is_made_from_the_results() {
        for (path, text) in pages(&directory()).expect("pages") {
            if path.ends_with(BY_HAND) {
                continue;
            }
            let mut inside = false;
            for (n, line) in text.lines().enumerate() {
                inside = (inside || line.starts_with(tables::BEGIN)) && line != tables::END;
                let by_hand = !inside && line.starts_with('|') && line.chars().any(|c| c.is_ascii_digit());
                assert!(!by_hand, "{}:{}: a table by hand: {line}", path.display(), n + 1);
            }
        }
    }

    #[test]
    fn the_file_is_written_as_it_is_read() {
        let text = fs::read_to_string(directory().join(FILE)).expect("docs/reproduction/results.json");
        assert_eq!(lines(&results()), text);
    }

    #[test]
    fn an_experiment_that_ran_again_replaces_its_entry() {
        let entry =
            |on: &str, value: f64| json!({ "paper": "p", "experiment": "e", "on": on, "rows": [value] });
        let kept = json!([entry("", 1.0), entry("in-order", 2.0)]);
        let merged = merged(&kept, vec![entry("", 3.0)]);
        assert_eq!(merged, json!([entry("", 3.0), entry("in-order", 2.0)]));
    }
}
