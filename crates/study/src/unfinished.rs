//! Files under a temporary name until they are complete.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Creates a file beside `path`, under a name that no file has. The caller renames or removes the file.
///
/// # Errors
/// The directory is missing, full or not writable.
pub fn create(path: &Path) -> io::Result<(File, PathBuf)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}-{number}.tmp", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&name) {
            // From a killed process with the same number.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            file => return Ok((file?, name.into())),
        }
    }
}
