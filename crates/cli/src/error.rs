//! What can go wrong, and the exit code that says which kind it was.

use std::fs::OpenOptions;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;

/// Ended by Ctrl-C, with partial results.
pub(crate) const INTERRUPTED: u8 = 130;

/// Somebody else took over; `packaging/` names it, so that nothing is started again.
const OVERRULED: u8 = 7;

/// An error that ends the program. Each prints as one line that says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something failed that should not.
    #[error("{0}")]
    Failed(String),
    /// The command line asks for what does not exist.
    #[error("{0}")]
    Usage(String),
    /// A file is not what it should be.
    #[error("{0}")]
    Input(String),
    /// Not allowed here.
    #[error("{0}")]
    Permission(String),
    /// The kernel lacks something.
    #[error("{0}")]
    Kernel(String),
    /// Somebody else decides now, who is not to be overruled by a new start.
    #[error("{0}")]
    Overruled(String),
    /// Interrupted; what was measured until then has been printed.
    #[error("interrupted: the results above are partial")]
    Interrupted,
    /// The reader of our output went away: not an error worth words.
    #[error("")]
    Pipe,
}

impl Error {
    /// 1 failed, 2 usage, 4 kernel feature missing, 5 permission, 6 bad input, 7 overruled, 130 interrupted.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Kernel(_) => 4,
            Self::Permission(_) => 5,
            Self::Input(_) => 6,
            Self::Overruled(_) => OVERRULED,
            Self::Interrupted => INTERRUPTED,
            Self::Pipe => 0,
        })
    }

    /// A file could not be read.
    pub(crate) fn file(path: impl std::fmt::Display, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => Self::Permission(format!("{path}: {error}")),
            _ => Self::Input(format!("{path}: {error}")),
        }
    }

    /// A file could not be written.
    pub(crate) fn written(path: impl std::fmt::Display, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => Self::Permission(format!("{path}: {error}")),
            std::io::ErrorKind::BrokenPipe => Self::Pipe,
            _ => Self::Failed(format!("{path}: cannot be written: {error}")),
        }
    }
}

/// A device that is named in place of a file would be written over.
pub(crate) fn is_no_device(path: &Path) -> Result<(), Error> {
    match path.metadata() {
        Ok(found) if found.file_type().is_block_device() => Err(Error::Usage(format!(
            "{}: it is a block device, which would be written over; name a file",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Says before something long begins that what comes of it could not be written there. The file is left as it is.
pub(crate) fn can_be_written(path: &Path) -> Result<(), Error> {
    is_no_device(path)?;
    let found = path.metadata().ok();
    // A pipe's reader would take our end's closing for the end of what comes.
    if found.as_ref().is_some_and(|found| !found.is_file() && !found.is_dir()) {
        return Ok(());
    }
    let tried = OpenOptions::new().append(true).create(true).open(path);
    tried.map_err(|error| Error::written(path.display(), &error))?;
    if found.is_none() {
        // It was made by this, and whatever is to be there is written later.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Pipe,
            _ => Self::Failed(format!("writing output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_device_is_not_written_over() {
        let nodes = std::fs::read_dir("/dev").unwrap().flatten().map(|entry| entry.path());
        let is_device = |path: &std::path::PathBuf| {
            path.metadata().is_ok_and(|found| found.file_type().is_block_device())
        };
        let Some(device) = nodes.into_iter().find(is_device) else {
            return eprintln!("SKIPPED: there is no block device in /dev");
        };
        let refused = |result| matches!(result, Err(Error::Usage(_)));
        assert!(refused(is_no_device(&device)) && refused(can_be_written(&device)));
        assert!(is_no_device(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn whether_a_file_can_be_written_is_found_out_without_a_trace() {
        let path = std::env::temp_dir().join(format!("dwell-written-{}", std::process::id()));
        assert!(can_be_written(&path).is_ok() && !path.exists());
        std::fs::write(&path, "kept").unwrap();
        assert!(can_be_written(&path).is_ok());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
        assert!(matches!(can_be_written(&path.join("below")), Err(Error::Failed(_))));
        std::fs::remove_file(path).unwrap();
        assert!(matches!(can_be_written(&std::env::temp_dir()), Err(Error::Failed(_))));
    }

    #[test]
    fn a_tuner_that_was_overruled_is_not_started_again() {
        let (device, ours, theirs) = ("sda".to_owned(), "none".to_owned(), "bfq".to_owned());
        let overruled = Error::from(tuner_live::Error::Foreign { device, ours, theirs });
        assert!(matches!(overruled, Error::Overruled(_)), "{overruled:?}");
        let unit = include_str!("../../../packaging/dwell-tune@.service");
        assert!(unit.contains(&format!("\nRestartPreventExitStatus={OVERRULED}\n")));
    }
}
