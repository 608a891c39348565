//! DiskSim's parameter files: `.diskspecs`, the `.model` it takes its mechanics from, the `.seek` curve that names, and
//! of the experiment's own file (`.parv`) the bus that the drive is on.
//!
//! The syntax is libparam's: `type name { field = value, … }`, where a value is a number, a word, a list, a block, or
//! `source file`. Comments begin with `#`. Every field of DiskSim 4.0's `disksim_disk`, `dm_disk`, `dm_layout_g1`,
//! `dm_layout_g2`, `dm_layout_g4` and `dm_mech_g1` is known; one that is unknown is refused with the nearest known name, one that this model cannot honour
//! is refused unless it is neutral, and one that has no effect in DiskSim either is noted where it is not neutral.
//!
//! Files are opened by the caller: a name found in a file is given to the resolver as it is written there.
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

/// What opens a file that a file names.
pub type Resolver<'a> = &'a mut dyn FnMut(&str) -> io::Result<Box<dyn Read>>;

/// A file longer than this is no parameter file.
const FILE_MAX: u64 = 16 << 20;

/// A drive as read, and what its reader should know.
#[derive(Clone, PartialEq, Debug)]
pub struct ParsedDrive {
    /// The drive.
    pub parameters: RotatingParameters,
    /// Where the speed of the host's bus is from, if the drive's own file leaves it open.
    pub host: Option<String>,
    /// What was read but has no effect.
    pub notes: Vec<Note>,
}

/// Something in a file that has no effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// Where.
    pub place: SourceLine,
    /// What and why.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// A line in a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceLine {
    /// The file, as the caller or another file named it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Why files do not describe a drive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file that the caller named cannot be opened or read.
    #[error("{file}: {error}")]
    File {
        /// Its name.
        file: String,
        /// What the system says.
        error: io::Error,
    },
    /// Something in a file is wrong.
    #[error("{place}: {what}")]
    Content {
        /// Where.
        place: SourceLine,
        /// What, with the field's name where it is a field.
        what: String,
    },
}

impl ReadError {
    fn at(place: &SourceLine, what: impl Into<String>) -> Self {
        Self::Content { place: place.clone(), what: what.into() }
    }

    /// A file that cannot be had, as what is wrong where it is named; other errors as they are.
    fn named_at(self, place: &SourceLine) -> Self {
        match self {
            Self::File { file, error } => Self::at(place, format!("{file}: {error}")),
            Self::Content { .. } => self,
        }
    }
}

/// Reads a drive from a `.diskspecs` file and those it names, or from an experiment's `.parv` that has it.
///
/// # Errors
/// With file, line and field: syntax, unknown or missing fields, values out of range, what the model cannot honour,
/// files that cannot be read.
pub fn read(name: &str, open: Resolver<'_>) -> Result<RotatingParameters, ReadError> {
    read_with_notes(name, open).map(|reading| reading.parameters)
}

/// As [`read`], and says what in the files has no effect.
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

/// The whole text of a file, without a byte-order mark. What is not UTF-8 becomes a character that no rule accepts outside
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
