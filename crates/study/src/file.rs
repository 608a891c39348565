//! The study file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use elevator::text::did_you_mean_of;
use elevator::{Span, Value};
use evaluation::input::Reading;
use evaluation::{Error, text_file};
use serde::Deserialize;
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
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a value, a list, a range such as \"1..64*2\", or a table of them")]
pub(crate) enum Tunables {
    Values(Values),
    OfScheduler(BTreeMap<String, Values>),
}

/// `4`, `[1, 4, 16]`, `"1..64*2"` or `["1..4", 8]`.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "expected a value, a list, or a range such as \"1..64*2\"")]
pub(crate) enum Values {
    One(Scalar),
    Many(Vec<Scalar>),
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Scalar {
    Flag(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

impl Values {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Many(all) if all.is_empty())
    }

    /// As `--sweep` has them.
    pub(crate) fn text(&self) -> String {
        let one = |scalar: &Scalar| match scalar {
            Scalar::Flag(on) => if *on { "on" } else { "off" }.to_owned(),
            Scalar::Whole(n) => n.to_string(),
            Scalar::Number(n) => n.to_string(),
            Scalar::Text(text) => text.clone(),
        };
        match self {
            Self::One(scalar) => one(scalar),
            Self::Many(all) => all.iter().map(one).collect::<Vec<_>>().join(","),
        }
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
                let at = error.span().map_or(0, |span| span.start);
                let message = error
                    .message()
                    .replace('\n', " ")
                    .replace("expected a sequence", "expected a list in brackets");
                let hint = did_you_mean_of(error.message());
                let key = key_of_value(&text, at).map_or_else(String::new, |key| format!("{key}: "));
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

    /// The position of a key of the table that begins at `table`, which the parser of values of several types does not report; `table` if no line begins with
    /// the key.
    pub(crate) fn key_at(&self, table: usize, key: &str) -> usize {
        let mut at = table;
        for (number, line) in self.text[table..].split_inclusive('\n').enumerate() {
            let word = line.trim_start();
            if number > 0 && word.starts_with('[') {
                break;
            }
            let rest = word.trim_start_matches(['"', '\'']).strip_prefix(key);
            if rest.is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with('=')) {
                return at;
            }
            at += line.len();
        }
        table
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

/// The key whose value contains this position, with those of its tables; none outside of values.
fn key_of_value(text: &str, at: usize) -> Option<String> {
    fn path<'t>(table: &'t DeTable<'_>, at: usize) -> Vec<&'t str> {
        let Some((key, value)) = table.iter().find(|(_, value)| value.span().contains(&at)) else {
            return Vec::new();
        };
        let inner = if let DeValue::Table(inner) = value.get_ref() { path(inner, at) } else { Vec::new() };
        [vec![&**key.get_ref()], inner].concat()
    }
    let (table, _) = DeTable::parse_recoverable(text);
    let keys = path(table.get_ref(), at);
    (!keys.is_empty()).then(|| keys.join("."))
}

fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}
