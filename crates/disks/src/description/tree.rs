//! A description before deserialization: TOML tables with the position of each value.

use std::ops::Range;

use serde::de::DeserializeOwned;
use serde::de::IntoDeserializer;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Problem;
use crate::parameters::{LONGEST_MS, SCALE_MAX, SECTOR_MS_MAX};

/// Times that may be negative: some published drives settle sooner for a write.
const SIGNED: [&str; 2] = ["write_settle_ms", "seek_delta_ms"];
/// Other fields that may be negative: runs of an index may go outwards, and begin before the previous run.
const BACKWARDS: [&str; 3] = ["run_cylinders", "angle", "angle_step"];
/// Upper bounds of shares, and of factors that could otherwise make a time overflow.
const HIGHEST: [(&str, f64); 7] = [
    ("write_watermark", 1.0),
    ("read_watermark", 1.0),
    ("ageing", 1000.0),
    ("scale", SCALE_MAX),
    ("sector_ms", SECTOR_MS_MAX),
    ("host_read_sector_ms", SECTOR_MS_MAX),
    ("host_write_sector_ms", SECTOR_MS_MAX),
];

/// Removes a string from a table and returns it.
pub(super) fn take_text(
    table: &mut DeTable<'_>,
    key: &str,
) -> Result<Option<(String, Range<usize>)>, Problem> {
    let Some(value) = table.remove(key) else { return Ok(None) };
    let place = value.span();
    match value.get_ref().as_str() {
        Some(text) => Ok(Some((text.to_owned(), place))),
        None => Err(Problem::at(place, format!("{key} must be a text"))),
    }
}

/// Deserializes the rest of the tree.
pub(super) fn deserialize<T: DeserializeOwned>(root: Spanned<DeTable<'_>>) -> Result<T, Problem> {
    Ok(T::deserialize(root.into_deserializer())?)
}

/// The depths of the kinds of drives together.
const DEPTH: (f64, f64) = (1.0, 1024.0);

/// Rejects numbers that no drive has and that would overflow.
pub(super) fn check_numbers(table: &DeTable<'_>) -> Result<(), Problem> {
    table.iter().try_for_each(|(key, value)| check_value(key.get_ref(), value))
}

fn check_value(key: &str, value: &Spanned<DeValue<'_>>) -> Result<(), Problem> {
    let number: f64 = match value.get_ref() {
        DeValue::Table(table) => return check_numbers(table),
        DeValue::Array(values) => return values.iter().try_for_each(|value| check_value(key, value)),
        DeValue::Integer(number) => {
            i128::from_str_radix(number.as_str(), number.radix()).map_or(f64::NAN, |number| number as f64)
        }
        DeValue::Float(number) => number.as_str().parse().unwrap_or(f64::NAN),
        _ => return Ok(()),
    };
    let (low, high) = range(key);
    if (low..=high).contains(&number) {
        return Ok(());
    }
    Err(Problem::at(value.span(), format!("{key} must lie between {low} and {high}, not {number}")))
}

fn range(key: &str) -> (f64, f64) {
    if key == "depth" {
        return DEPTH;
    }
    if SIGNED.contains(&key) {
        return (-LONGEST_MS, LONGEST_MS);
    }
    if BACKWARDS.contains(&key) {
        return (-1e15, 1e15);
    }
    if let Some((_, high)) = HIGHEST.iter().find(|(name, _)| *name == key) {
        return (0.0, *high);
    }
    if key.ends_with("_ms") { (0.0, LONGEST_MS) } else { (0.0, 1e15) }
}
