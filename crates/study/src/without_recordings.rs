//! Recordings in Parquet, in a build without Parquet: errors.

use std::path::Path;

use evaluation::Error;
use traces::Recording;
use traces::write::Written;

/// Writes no file.
///
/// # Errors
/// Always.
pub fn convert(_recording: &mut Recording, _to: &Path) -> Result<Written, Error> {
    Err(Error::Usage(crate::NOT_BUILT.to_owned()))
}

/// Writes no files.
///
/// # Errors
/// Always.
pub fn split(_recording: &mut Recording, _folder: &Path) -> Result<(Written, usize), Error> {
    Err(Error::Usage(crate::NOT_BUILT.to_owned()))
}
