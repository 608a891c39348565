//! Origins of numbers.

use elevator::text::did_you_mean;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::error::Problem;

/// The origin of a number, or of all numbers of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Path of the table: `mechanics`, `layout.zones[2]`; empty for the root.
    pub table: String,
    /// The field; `None` for all fields of the table.
    pub field: Option<String>,
    /// The origin. In the built-in drives it begins with one of [`Origin::BASES`].
    pub text: String,
}

impl Origin {
    /// Kinds of origin: a data sheet or manual; a figure of a paper; general knowledge of such drives; derived from other numbers, as
    /// stated; chosen by us, as stated.
    pub const BASES: [&str; 5] = ["data sheet:", "paper:", "general knowledge:", "derived:", "assumed:"];

    /// Writes the origin into a table of parameters.
    pub(super) fn insert(&self, root: &mut Table) {
        let Some(table) = find(root, &self.table) else { return };
        match &self.field {
            None => drop(table.insert("origin".to_owned(), Value::from(self.text.as_str()))),
            Some(field) => {
                let origins = table.entry("origin").or_insert_with(|| Value::Table(Table::new()));
                if let Value::Table(origins) = origins {
                    origins.insert(field.clone(), Value::from(self.text.as_str()));
                }
            }
        }
    }
}

fn find<'t>(root: &'t mut Table, path: &str) -> Option<&'t mut Table> {
    let names = path.split('.').filter(|name| !name.is_empty());
    names.into_iter().try_fold(root, |table, name| {
        let (name, index) = match name.trim_end_matches(']').split_once('[') {
            Some((name, index)) => (name, index.parse::<usize>().ok()),
            None => (name, None),
        };
        match (table.get_mut(name)?, index) {
            (Value::Array(values), Some(index)) => values.get_mut(index)?.as_table_mut(),
            (value, _) => value.as_table_mut(),
        }
    })
}

/// Removes all origins from a tree and returns them.
pub(super) fn take(root: &mut DeTable<'_>) -> Result<Vec<Origin>, Problem> {
    let mut found = Vec::new();
    take_from(root, "", &mut found)?;
    Ok(found)
}

fn take_from(table: &mut DeTable<'_>, path: &str, found: &mut Vec<Origin>) -> Result<(), Problem> {
    if let Some(origin) = table.remove("origin") {
        add(table, path, origin, found)?;
    }
    for (key, value) in table.iter_mut() {
        let name = key.get_ref();
        let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        match value.get_mut() {
            DeValue::Table(table) => take_from(table, &path, found)?,
            DeValue::Array(values) => {
                for (i, value) in values.iter_mut().enumerate() {
                    if let DeValue::Table(table) = value.get_mut() {
                        take_from(table, &format!("{path}[{i}]"), found)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn add(
    table: &DeTable<'_>,
    path: &str,
    origin: Spanned<DeValue<'_>>,
    found: &mut Vec<Origin>,
) -> Result<(), Problem> {
    let place = origin.span();
    let mut push = |field, text: &str| {
        found.push(Origin { table: path.to_owned(), field, text: text.to_owned() });
    };
    match origin.get_ref() {
        DeValue::String(text) => push(None, text),
        DeValue::Table(fields) => {
            for (field, text) in fields {
                check_known(table, field)?;
                let not_text = || Problem::at(text.span(), "an origin must be a text");
                push(Some(field.get_ref().to_string()), text.get_ref().as_str().ok_or_else(not_text)?);
            }
        }
        _ => return Err(Problem::at(place, "origin must be a text, or a table of texts by field")),
    }
    Ok(())
}

/// The field that an origin names must exist.
fn check_known(table: &DeTable<'_>, field: &Spanned<toml::de::DeString<'_>>) -> Result<(), Problem> {
    let name = field.get_ref();
    if table.contains_key(&**name) {
        return Ok(());
    }
    let hint = did_you_mean(name, table.keys().map(|key| &**key.get_ref()));
    Err(Problem::at(field.span(), format!("origin of '{name}': the table has no such field{hint}")))
}
