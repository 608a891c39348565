//! The study file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use elevator::text::did_you_mean_of;
use elevator::{Span, Value};
use evaluation::input::Reading;
use evaluation::{Error, text_file};
use serde::de::{self, DeserializeSeed, Error as _, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use workloads::scenario::Identity;

/// A study: what its file contains.
pub struct Study {
    pub(crate) page: Page,
    /// The file's name in errors.
    pub(crate) name: String,
    text: String,
    /// Paths in the file are relative to this folder.
    pub(crate) folder: PathBuf,
    /// What addresses name: for each, or each pattern of them, addresses with their local copies.
    pub(crate) copies: Copies,
}

/// For each address, or pattern of addresses, of a study file: addresses with the paths of their local copies.
pub type Copies = BTreeMap<String, Vec<(String, PathBuf)>>;

/// Whether a name is an address, such as `s3://bucket/a.gz`.
pub(crate) fn is_address(name: &str) -> bool {
    name.contains("://")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    pub(crate) workloads: Spanned<Vec<Spanned<String>>>,
    pub(crate) schedulers: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    pub(crate) tunables: BTreeMap<String, Spanned<Tunables>>,
    pub(crate) drives: Option<Spanned<Vec<Spanned<String>>>>,
    pub(crate) arrays: Option<Spanned<Vec<Spanned<String>>>>,
    pub(crate) machine: Option<Spanned<String>>,
    pub(crate) depths: Option<Spanned<Values>>,
    pub(crate) identities: Option<Spanned<Vec<Identity>>>,
    pub(crate) seeds: Option<Spanned<Values>>,
    pub(crate) nr_requests: Option<Spanned<u32>>,
    pub(crate) open: Option<Spanned<bool>>,
    pub(crate) reading: Option<Spanned<Reading>>,
    pub(crate) scale: Option<Spanned<f64>>,
    pub(crate) at_most: Option<Spanned<String>>,
    pub(crate) window: Option<Spanned<String>>,
}

/// Values of a tunable, or tunables of one scheduler.
pub(crate) enum Tunables {
    Values(Values),
    OfScheduler(BTreeMap<String, Spanned<Values>>),
}

/// `4`, `[1, 4, 16]`, `"1..64*2"` or `["1..4", 8]`, as texts.
pub(crate) struct Values(Vec<String>);

impl Values {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As `--sweep` has them.
    pub(crate) fn text(&self) -> String {
        self.0.join(",")
    }
}

/// What a position of the file may have. A visitor and not an untagged enumeration, because an error then has the position of the value.
#[derive(Clone, Copy, PartialEq)]
enum Expected {
    Value,
    Values,
    Tunables,
}

impl<'de> Deserialize<'de> for Tunables {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Expected::Tunables.deserialize(from)
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Expected::Values.deserialize(from)? {
            Tunables::Values(values) => Ok(values),
            Tunables::OfScheduler(_) => Err(D::Error::invalid_type(Unexpected::Map, &Expected::Values)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Expected {
    type Value = Tunables;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Tunables, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Expected {
    type Value = Tunables;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Value => "a value, or a range such as \"1..64*2\"",
            Self::Values => "a value, a list, or a range such as \"1..64*2\"",
            Self::Tunables => "a value, a list, a range such as \"1..64*2\", or a table of them",
        })
    }

    fn visit_bool<E: de::Error>(self, on: bool) -> Result<Tunables, E> {
        self.visit_string(on.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Tunables, E> {
        self.visit_string(number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Tunables, E> {
        self.visit_string(number.to_string())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Tunables, E> {
        Ok(Tunables::Values(Values(vec![text.to_owned()])))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tunables, A::Error> {
        if self == Self::Value {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        let mut all = Vec::new();
        while let Some(item) = list.next_element_seed(Self::Value)? {
            if let Tunables::Values(Values(values)) = item {
                all.extend(values);
            }
        }
        Ok(Tunables::Values(Values(all)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Tunables, A::Error> {
        if self != Self::Tunables {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        }
        let mut all = BTreeMap::new();
        while let Some((key, values)) = table.next_entry()? {
            all.insert(key, values);
        }
        Ok(Tunables::OfScheduler(all))
    }
}

impl Study {
    /// Reads a study file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// The file cannot be read, or has an error: with file, line and key.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = text_file::read(path, "study")?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Self::parse(&path.display().to_string(), text, folder.unwrap_or(Path::new(".")))
    }

    /// Parses the text of a study file; `name` is the file's name in errors.
    ///
    /// # Errors
    /// The text has an error: with name, line and key.
    pub fn parse(name: &str, text: String, folder: &Path) -> Result<Self, Error> {
        match toml::from_str(&text) {
            Ok(page) => {
                let (name, folder, copies) = (name.to_owned(), folder.to_owned(), Copies::new());
                Ok(Self { page, name, text, folder, copies })
            }
            Err(error) => {
                let span = error.span().unwrap_or_default();
                let at = span.start;
                let (table, _) = DeTable::parse_recoverable(&text);
                let table = table.get_ref();
                let key = match error.message() {
                    // The position is that of the key.
                    "duplicate key" => text.get(span).map(str::to_owned),
                    _ => key_of_value(table, at),
                };
                let key = key.map_or_else(String::new, |key| format!("{key}: "));
                let (message, hint) = match table.values().any(|value| is_date(value, at)) {
                    true => ("a date has no meaning here; write a text in quotes".to_owned(), String::new()),
                    false => (plain(error.message()), did_you_mean_of(error.message())),
                };
                Err(Error::Input(format!("{name}:{}: {key}{message}{hint}", line(&text, at))))
            }
        }
    }

    /// The addresses, and patterns of addresses, of workloads, schedulers, drives and the machine, without overrides. Their contents must be copied before the
    /// runs are known, because the identifiers of runs have the hashes of contents: see [`with_copies`](Self::with_copies).
    pub fn addresses(&self) -> Vec<String> {
        let drives = self.page.drives.iter().flat_map(|drives| drives.get_ref());
        let schedulers = self.page.schedulers.get_ref();
        let texts =
            self.page.workloads.get_ref().iter().chain(schedulers).chain(drives).chain(&self.page.machine);
        let addresses = texts.map(|text| text.get_ref().split('{').next().unwrap_or_default());
        let mut all: Vec<String> = addresses.filter(|text| is_address(text)).map(str::to_owned).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The study with local copies of its addresses.
    #[must_use]
    pub fn with_copies(self, copies: Copies) -> Self {
        Self { copies, ..self }
    }

    /// The error for a value at this position.
    pub(crate) fn wrong(&self, at: usize, key: &str, problem: &str) -> Error {
        Error::Input(format!("{}:{}: {key}: {problem}", self.name, line(&self.text, at)))
    }

    /// A length of time above 0.
    pub(crate) fn time(&self, key: &str, text: Option<&Spanned<String>>) -> Result<Option<u64>, Error> {
        let Some(text) = text else { return Ok(None) };
        match Value::Span(Span::ZERO).parse_like(text.get_ref()) {
            Ok(Value::Span(span)) if span > Span::ZERO => Ok(Some(span.as_nanos())),
            Ok(_) => Err(self.wrong(text.span().start, key, "expected a length of time above 0")),
            Err(error) => Err(self.wrong(text.span().start, key, &error.to_string())),
        }
    }
}

/// A message of the parser, in the words of the documentation and on one line.
fn plain(message: &str) -> String {
    let words = [
        ("expected struct Reading", "expected a table such as { format = \"msr\" }"),
        // Of nr_requests, the only number of this type.
        ("expected u32", "expected a whole number from 1 to 4294967295"),
        ("unknown field", "unknown key"),
        ("missing field", "missing key"),
        ("duplicate key", "this key is there twice; remove one"),
    ];
    let text = words.iter().fold(message.to_owned(), |text, (from, to)| text.replace(from, to));
    disks::toml_in_words(&text)
}

/// The key whose value contains this position, with those of its tables; none outside of values.
fn key_of_value(table: &DeTable<'_>, at: usize) -> Option<String> {
    fn path<'t>(table: &'t DeTable<'_>, at: usize) -> Vec<&'t str> {
        for (key, value) in table {
            // The span of a table with a head is that of its head.
            let inner =
                if let DeValue::Table(inner) = value.get_ref() { path(inner, at) } else { Vec::new() };
            if !inner.is_empty() || value.span().contains(&at) {
                return [vec![&**key.get_ref()], inner].concat();
            }
        }
        Vec::new()
    }
    let keys = path(table, at);
    (!keys.is_empty()).then(|| keys.join("."))
}

/// Whether a value, or one in it, is at this position and is a date, which the parser calls a table.
fn is_date(value: &Spanned<DeValue<'_>>, at: usize) -> bool {
    match value.get_ref() {
        DeValue::Datetime(_) => value.span().contains(&at),
        DeValue::Array(values) => values.iter().any(|value| is_date(value, at)),
        DeValue::Table(table) => table.values().any(|value| is_date(value, at)),
        _ => false,
    }
}

fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}
