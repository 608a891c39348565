//! Errors of recordings: file, position, field, reason, and what to do.

use std::{fmt, io};

use serde::Serialize;

/// A position in a file, after decompression.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Position {
    /// A line, from 1.
    Line(u64),
    /// A byte, from 0.
    Byte(u64),
    /// A row of a table, from 1.
    Row(u64),
}

impl Position {
    /// The position of the record `n` records later, if no other lines are between them.
    pub(crate) const fn after(self, n: u64) -> Self {
        match self {
            Self::Line(line) => Self::Line(line + n),
            Self::Row(row) => Self::Row(row + n),
            byte @ Self::Byte(_) => byte,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(n) => write!(f, "line {n}"),
            Self::Byte(n) => write!(f, "byte {n}"),
            Self::Row(n) => write!(f, "row {n}"),
        }
    }
}

/// The reason of an [`Error`], for callers that handle some of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Reading or decompressing failed.
    Io,
    /// The format was not detected, or the file does not have the specified format.
    Format,
    /// This build does not include the file's format.
    NotBuilt,
    /// A line or record is malformed.
    Malformed,
    /// An anomaly that [`Options::strict`](crate::Options::strict) makes an error.
    Strict,
    /// The clock went backwards and stayed there.
    Clock,
    /// The recording has several devices and none was chosen, or the chosen device does not occur.
    Device,
    /// More devices or a longer line than any valid recording has.
    Limit,
}

/// Why a recording cannot be read, or not to its end.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    file: String,
    place: Option<Position>,
    field: Option<&'static str>,
    problem: String,
    advice: String,
    source: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, file: &str, problem: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            file: file.to_owned(),
            place: None,
            field: None,
            problem: problem.into(),
            advice: String::new(),
            source: None,
        }))
    }

    pub(crate) fn at(mut self, place: Position) -> Self {
        self.0.place = Some(place);
        self
    }

    pub(crate) fn field(mut self, field: &'static str) -> Self {
        self.0.field = Some(field);
        self
    }

    pub(crate) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = advice.into();
        self
    }

    pub(crate) fn caused_by(mut self, source: io::Error) -> Self {
        self.0.source = Some(source);
        self
    }

    /// The kind of error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The name that was passed to [`open`](crate::open).
    #[must_use]
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// The position in the file, if the error has one.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.0.place
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { file, place, field, problem, advice, .. } = &*self.0;
        f.write_str(file)?;
        match place {
            Some(Position::Line(line)) => write!(f, ":{line}")?,
            Some(place) => write!(f, ", {place}")?,
            None => {}
        }
        match (field, place) {
            (Some(field), Some(Position::Line(_))) => write!(f, ": {field}")?,
            (Some(field), _) => write!(f, ", {field}")?,
            (None, _) => {}
        }
        write!(f, ": {problem}")?;
        if !advice.is_empty() {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind())
    }
}

/// The source is the reader's [`io::Error`], for [`ErrorKind::Io`].
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}
