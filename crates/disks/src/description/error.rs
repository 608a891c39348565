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
        Self { place: error.span(), what: message.to_owned() + &did_you_mean_of(message) }
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
    fn text_before_a_name_may_have_any_encoding() {
        for text in ["é= 3 4", "\u{feff}depth =/ 1", "[host]\nà depth = [", "é =", "= 1"] {
            let error = text.parse::<toml::Table>().expect_err("no TOML");
            assert!(explain_toml(text, error).starts_with("line "), "{text}");
        }
        assert_eq!(field_at("[host]\n\u{e9}depth = [", 16), Some("depth"));
    }
}
