//! DiskSim's parameter files: `.diskspecs`, the `.model` file and `.seek` curve that it refers to, and the bus of an experiment file
//! (`.parv`).
//!
//! The syntax is libparam's: `type name { field = value, … }`, where a value is a number, a word, a list, a block, or
//! `source file`. Comments begin with `#`. All fields of DiskSim 4.0's `disksim_disk`, `dm_disk`, `dm_layout_g1`, `dm_layout_g2`,
//! `dm_layout_g4` and `dm_mech_g1` are known. Unknown fields are an error that suggests the nearest name. Fields that the model does
//! not support are an error unless their value is neutral. Fields without effect in DiskSim produce a note unless neutral.
//!
//! The caller opens files: the resolver receives names as they are written in the files.
//!
//! *Source.* DiskSim 4.0 reference manual (CMU-PDL-08-101), chapters 3 and "diskmodel".

mod experiment;
mod fields;
mod hosts;
mod indexed;
mod lexer;
mod mapped;
mod model;
mod parser;
mod seek;
mod specs;

use std::fmt;
use std::io::{self, Read};

use crate::parameters::RotatingParameters;
use hosts::HostSource;

/// Opens a file that the caller or another file names.
pub type Resolver<'a> = &'a mut dyn FnMut(&str) -> io::Result<Box<dyn Read>>;

/// Upper bound for the size of a parameter file.
const FILE_MAX: u64 = 16 << 20;

/// A drive read from parameter files.
#[derive(Clone, PartialEq, Debug)]
pub struct ParsedDrive {
    /// The drive's parameters.
    pub parameters: RotatingParameters,
    /// The origin of the host's transfer time, if the drive's own file does not state it.
    pub host: Option<String>,
    /// Settings without effect.
    pub notes: Vec<Note>,
}

/// A setting without effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The line of the setting.
    pub place: SourceLine,
    /// The setting, and why it has no effect.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// A line of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceLine {
    /// The file, as the caller or another file names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Why parameter files describe no drive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file that the caller named cannot be opened or read.
    #[error("{file}: {error}")]
    File {
        /// The file's name.
        file: String,
        /// The error of the reader.
        error: io::Error,
    },
    /// The content of a file is invalid.
    #[error("{place}: {what}")]
    Content {
        /// The line.
        place: SourceLine,
        /// The reason, with the field's name if the error is in a field.
        what: String,
    },
}

impl ReadError {
    fn at(place: &SourceLine, what: impl Into<String>) -> Self {
        Self::Content { place: place.clone(), what: what.into() }
    }

    /// Turns an error of a file that another file names into an error at that line.
    fn named_at(self, place: &SourceLine) -> Self {
        match self {
            Self::File { file, error } => Self::at(place, format!("{file}: {error}")),
            Self::Content { .. } => self,
        }
    }
}

/// Reads a drive from a `.diskspecs` file and the files that it names, or from an experiment file (`.parv`).
///
/// # Errors
/// With file, line and field: syntax errors, unknown or missing fields, values out of range, settings that the model does not
/// support, and unreadable files.
pub fn read(name: &str, open: Resolver<'_>) -> Result<RotatingParameters, ReadError> {
    read_with_notes(name, open).map(|reading| reading.parameters)
}

/// As [`read`], also returning the settings without effect.
///
/// # Errors
/// As [`read`].
pub fn read_with_notes(name: &str, open: Resolver<'_>) -> Result<ParsedDrive, ReadError> {
    if !name.ends_with(".parv") {
        return specs::drive(parser::file(name, open)?, None, open);
    }
    let experiment::Experiment { drive, host } = experiment::read(name, open)?;
    specs::drive(drive, Some(HostSource { host, origin: format!("{name}: {host}") }), open)
}

/// The text of a file, without a byte-order mark. Bytes that are not UTF-8 become replacement characters, which are valid only in
/// comments.
fn text(name: &str, open: Resolver<'_>) -> Result<String, ReadError> {
    let failed = |error| ReadError::File { file: name.to_owned(), error };
    let mut bytes = Vec::new();
    open(name).map_err(failed)?.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(failed(io::Error::other("longer than 16 MiB: no parameter file")));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

#[cfg(test)]
mod tests;
