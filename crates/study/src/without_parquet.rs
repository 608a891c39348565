//! Tables in Parquet, in a build without Parquet: errors.

use std::path::Path;

use evaluation::Error;

use crate::table::{Cell, Field};

/// Writes no file.
///
/// # Errors
/// Always.
pub fn write_table(_path: &Path, _fields: &[Field], _rows: &[Vec<Cell>]) -> Result<(), Error> {
    Err(Error::Usage(crate::NOT_BUILT.to_owned()))
}

/// Reads no file.
///
/// # Errors
/// Always.
pub fn read_table(_path: &Path, _names: &[&str]) -> Result<Vec<Vec<Cell>>, Error> {
    Err(Error::Usage(crate::NOT_BUILT.to_owned()))
}

/// Encodes nothing.
pub(crate) fn encode(
    _fields: &[Field],
    _rows: &[&Vec<Cell>],
    _metadata: &[(String, String)],
) -> Result<Vec<u8>, Error> {
    Err(Error::Usage(crate::NOT_BUILT.to_owned()))
}

pub(crate) const CHECKSUM: &str = "";

pub(crate) fn file_checksum(_content: &[u8]) -> String {
    String::new()
}

/// A part of a table, which cannot be opened.
pub(crate) enum Part {}

impl Part {
    /// Reads no file.
    pub(crate) fn open(_path: &Path) -> Result<Self, Error> {
        Err(Error::Usage(crate::NOT_BUILT.to_owned()))
    }

    pub(crate) fn rows(&self) -> i64 {
        match *self {}
    }

    pub(crate) fn metadata(&self, _key: &str) -> Option<&str> {
        match *self {}
    }

    pub(crate) fn cells(&self, _names: &[&str]) -> Result<Vec<Vec<Cell>>, Error> {
        match *self {}
    }
}
