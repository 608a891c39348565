//! Overrides of a drive's fields: `{depth=1,buffer=off}`.

use elevator::text::did_you_mean;
use toml::{Table, Value};

use crate::description::{DriveDescription, DriveParameters};
use crate::parameters::{Caching, FastWrite, ReadAhead};

/// Why an override is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// A switch has another value than on or off.
    #[error("expected on or off, found '{0}'")]
    Switch(String),
    /// Read-ahead of a solid-state drive.
    #[error("a solid-state drive does not read ahead")]
    NoReadAhead,
    /// The drive has no table of that name.
    #[error("the drive has no table '{name}'{hint}")]
    Table {
        /// The name.
        name: String,
        /// The nearest name, as the end of a sentence, or nothing.
        hint: String,
    },
    /// The drive has no field of that name.
    #[error("the drive has no field '{name}'{hint}")]
    Field {
        /// The name.
        name: String,
        /// The nearest name, as the end of a sentence, or nothing.
        hint: String,
    },
    /// The changed description is invalid.
    #[error("{0}")]
    Description(String),
}

/// One override.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Override {
    pub(crate) key: String,
    pub(crate) value: String,
}

/// The name before the braces and the overrides in them; `None` if the form is wrong.
pub(crate) fn split(spec: &str) -> Option<(&str, Vec<Override>)> {
    let Some((name, braces)) = spec.split_once('{') else {
        return (!spec.contains('}')).then_some((spec.trim(), Vec::new()));
    };
    let inner = braces.trim_end().strip_suffix('}')?;
    let changes = inner.split(',').map(str::trim).filter(|change| !change.is_empty());
    let change = |change: &str| {
        let (key, value) = change.split_once('=')?;
        Some(Override { key: key.trim().to_owned(), value: value.trim().to_owned() })
    };
    Some((name.trim(), changes.map(change).collect::<Option<_>>()?))
}

/// The short forms.
const SHORT: [&str; 4] = ["depth", "buffer", "write_cache", "read_ahead"];

/// The changed drive. Turning on what is already on changes nothing.
pub(crate) fn apply(drive: &DriveDescription, change: &Override) -> Result<DriveDescription, OverrideError> {
    if is_on(&change.key, &drive.parameters) && switch(&change.value)? {
        return Ok(drive.clone());
    }
    let mut root: Table =
        drive.to_toml().parse().map_err(|error: toml::de::Error| invalid(error.message()))?;
    let rotating = matches!(drive.parameters, DriveParameters::Rotating(_));
    for (path, value) in meaning(change, rotating)? {
        set(&mut root, path, value)?;
    }
    let changed =
        DriveDescription::parse(&drive.source, &root.to_string()).map_err(|error| invalid(&error.what))?;
    Ok(DriveDescription { notes: drive.notes.clone(), ..changed })
}

fn invalid(what: &str) -> OverrideError {
    OverrideError::Description(what.to_owned())
}

/// Whether a drive has the feature of a short form.
fn is_on(key: &str, drive: &DriveParameters) -> bool {
    let DriveParameters::Rotating(p) = drive else { return false };
    match key {
        "buffer" => p.buffer.caching != Caching::None,
        "read_ahead" => p.buffer.read_ahead != ReadAhead::None,
        "write_cache" => p.buffer.fast_write != FastWrite::None,
        _ => false,
    }
}

/// The fields that an override sets, and their values.
fn meaning(change: &Override, rotating: bool) -> Result<Vec<(&str, Value)>, OverrideError> {
    let word = |off: &str, on: &str| switch(&change.value).map(|set| Value::from(if set { on } else { off }));
    let flag = || switch(&change.value).map(Value::from);
    Ok(match (change.key.as_str(), rotating) {
        ("depth", true) => vec![("queue.depth", literal(&change.value))],
        ("write_cache", true) => vec![("buffer.fast_write", word("none", "all")?)],
        ("read_ahead", true) => vec![("buffer.read_ahead", word("none", "segment")?)],
        // As in DiskSim's own drives without a cache: the buffer still matches speeds.
        ("buffer", true) => vec![
            ("buffer.caching", word("none", "all")?),
            ("buffer.read_ahead", word("none", "segment")?),
            ("buffer.fast_write", word("none", "all")?),
            ("buffer.combine_writes", flag()?),
        ],
        ("write_cache" | "buffer", false) => vec![("write_buffer.write_cache", flag()?)],
        ("read_ahead", false) => return Err(OverrideError::NoReadAhead),
        (path, _) => vec![(path, literal(&change.value))],
    })
}

fn switch(text: &str) -> Result<bool, OverrideError> {
    match text {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err(OverrideError::Switch(text.to_owned())),
    }
}

/// A TOML value, or else a string.
fn literal(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>().ok();
    let value = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::from(text))
}

/// Sets an existing field, whose origin becomes the override.
fn set(root: &mut Table, path: &str, value: Value) -> Result<(), OverrideError> {
    let (parents, field) =
        path.rsplit_once('.').map_or((None, path), |(parents, field)| (Some(parents), field));
    let mut table = root;
    for name in parents.iter().flat_map(|parents| parents.split('.')) {
        let hint = hint(table, name);
        let found = table.get_mut(name).and_then(Value::as_table_mut);
        table = found.ok_or_else(|| OverrideError::Table { name: name.to_owned(), hint })?;
    }
    if !table.contains_key(field) {
        return Err(OverrideError::Field { name: field.to_owned(), hint: hint(table, field) });
    }
    table.insert(field.to_owned(), value);
    origins(table).insert(field.to_owned(), Value::from("override"));
    Ok(())
}

/// The origins of a table's fields, one by one: an origin of the whole table becomes that of each field.
fn origins(table: &mut Table) -> &mut Table {
    let origins = match table.remove("origin") {
        Some(Value::Table(origins)) => origins,
        Some(of_all) => table.keys().map(|field| (field.clone(), of_all.clone())).collect(),
        None => Table::new(),
    };
    let entry = table.entry("origin").or_insert(Value::Table(origins));
    entry.as_table_mut().expect("it was just made")
}

fn hint(table: &Table, name: &str) -> String {
    let known = table.keys().map(String::as_str).filter(|key| *key != "origin").chain(SHORT);
    did_you_mean(name, known)
}
