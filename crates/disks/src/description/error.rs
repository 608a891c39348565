//! Errors in descriptions, with their position.

use std::fmt;
use std::ops::Range;

use elevator::text::did_you_mean_of;

/// An invalid description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescriptionError {
    /// The file's name.
    pub file: String,
    /// The line, from 1, if the error has one.
    pub line: Option<usize>,
    /// The reason, with the field's name if the error is in a field.
    pub what: String,
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for DescriptionError {}

/// An error with its byte range in the text, before its line is computed.
#[derive(Debug)]
pub(super) struct Problem {
    place: Option<Range<usize>>,
    what: String,
}

impl Problem {
    pub(super) fn at(place: Range<usize>, what: impl Into<String>) -> Self {
        Self { place: Some(place), what: what.into() }
    }

    pub(super) fn whole(what: impl Into<String>) -> Self {
        Self { place: None, what: what.into() }
    }

    pub(super) fn in_file(self, file: &str, text: &str) -> DescriptionError {
        let start = self.place.map(|place| place.start.min(text.len()));
        let line = start.map(|start| 1 + text.as_bytes()[..start].iter().filter(|&&b| b == b'\n').count());
        let field = start.and_then(|start| field_at(text, start));
        let what = match field {
            Some(field) if !self.what.contains(field) => format!("{field}: {}", self.what),
            _ => self.what,
        };
        DescriptionError { file: file.to_owned(), line, what }
    }
}

/// The key before the last `=` that precedes a value on its line.
fn field_at(text: &str, start: usize) -> Option<&str> {
    let before = text.get(..start)?;
    let line = before.rsplit('\n').next()?;
    let name = line.trim_end().strip_suffix('=')?.trim_end();
    let name = name.rsplit(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c)).next()?;
    Some(name).filter(|name| !name.is_empty())
}

impl From<toml::de::Error> for Problem {
    fn from(error: toml::de::Error) -> Self {
        let message = error.message();
        Self { place: error.span(), what: toml_in_words(message) + &did_you_mean_of(message) }
    }
}

/// A message of the TOML parser on one line, without the names of Rust's types.
#[must_use]
pub fn toml_in_words(message: &str) -> String {
    let words = [
        ("expected u8", "expected a whole number from 0 to 255"),
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number from 0"),
        ("expected usize", "expected a whole number from 0"),
        ("expected i64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("expected a string", "expected text"),
        ("expected a sequence", "expected a list in brackets"),
        ("expected a map", "expected a table"),
        ("wanted string or table", "expected text or a table"),
        ("invalid type: string", "invalid type: text"),
        ("invalid type: floating point", "invalid type: number"),
        ("invalid type: integer", "invalid type: number"),
        ("invalid type: map", "invalid type: table"),
        ("invalid type: sequence", "invalid type: list"),
        ("invalid type: boolean", "invalid type: switch"),
        ("unknown variant", "unknown value"),
    ];
    let text = words.iter().fold(message.replace('\n', " "), |text, (from, to)| text.replace(from, to));
    // The name of a structure.
    match text.split_once("expected struct ") {
        Some((before, _)) => format!("{before}expected a table"),
        None => text,
    }
}

/// A TOML error as a message: line, field, and the nearest known name for an unknown one.
#[must_use]
pub fn explain_toml(text: &str, error: toml::de::Error) -> String {
    let DescriptionError { line, what, .. } = Problem::from(error).in_file("", text);
    line.map_or_else(|| what.clone(), |line| format!("line {line}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_names_of_types() {
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only their types count")]
        struct All {
            depth: Option<u32>,
            time: Option<f64>,
            is_on: Option<bool>,
            part: Option<Box<All>>,
            tracks: Option<Vec<u32>>,
        }
        for (text, expected) in [
            ("depth = 'x'", "depth: invalid type: text \"x\", expected a whole number from 0 to 4294967295"),
            ("depth = 1.5", "invalid type: number `1.5`, expected a whole number from 0"),
            ("time = [1]", "time: invalid type: list, expected a number"),
            ("is_on = 3", "is_on: invalid type: number `3`, expected true or false"),
            ("part = 3", "part: invalid type: number `3`, expected a table"),
            ("tracks = true", "tracks: invalid type: switch `true`, expected a list in brackets"),
        ] {
            let message = explain_toml(text, toml::from_str::<All>(text).unwrap_err());
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn text_before_a_name_may_have_any_encoding() {
        for text in ["é= 3 4", "\u{feff}depth =/ 1", "[host]\nà depth = [", "é =", "= 1"] {
            let error = text.parse::<toml::Table>().expect_err("no TOML");
            assert!(explain_toml(text, error).starts_with("line "), "{text}");
        }
        assert_eq!(field_at("[host]\n\u{e9}depth = [", 16), Some("depth"));
    }
}
