//! What goes wrong with a recording, said once: file, place, field, problem, and what to do.

use std::fmt;

use serde::Serialize;

/// Where in a file (after decompression).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Position {
    /// A line, counted from 1.
    Line(u64),
    /// A byte, counted from 0.
    Byte(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(n) => write!(f, "line {n}"),
            Self::Byte(n) => write!(f, "byte {n}"),
        }
    }
}

/// The kinds of errors, for callers that act on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// Reading failed, or what was read does not decompress.
    Io,
    /// The format could not be told, or the file is not of the stated one.
    Format,
    /// A line or record cannot be understood.
    Malformed,
    /// Something that would be a counted skip, under [`Options::strict`](crate::Options::strict).
    Strict,
    /// The clock ran backwards and stayed there.
    Clock,
    /// The recording has several devices and none was chosen, or the chosen one is not there.
    Device,
    /// More distinct devices, or longer lines, than anybody's recording has.
    Limit,
}

/// A recording cannot be read, or not from here on.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    file: String,
    place: Option<Position>,
    field: Option<&'static str>,
    problem: String,
    advice: String,
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

    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Where it is, if it is somewhere.
    #[must_use]
    pub fn place(&self) -> Option<Position> {
        self.0.place
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { file, place, field, problem, advice, .. } = &*self.0;
        f.write_str(file)?;
        if let Some(place) = place {
            write!(f, ", {place}")?;
        }
        if let Some(field) = field {
            write!(f, ", {field}")?;
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

impl std::error::Error for Error {}
