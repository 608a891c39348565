//! The scheduler that a control client chose for an attached device, in a file beside the device's record: a server that replaces a crashed one
//! uses it again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file. Other than the record it is also written while the device is in use.
#[derive(Clone, Debug)]
pub(crate) struct Chosen(PathBuf);

impl Chosen {
    pub(crate) fn beside(record: &Path) -> Self {
        Self(record.with_extension("scheduler"))
    }

    /// The scheduler that was chosen in a former process; none if `check` rejects it.
    pub(crate) fn read(&self, check: impl FnOnce(&str) -> Result<(), String>) -> Option<String> {
        let name = fs::read_to_string(&self.0).ok()?;
        match check(&name) {
            Ok(()) => {
                say!("the scheduler is '{name}' again, as 'dwell ctl switch' has set it");
                Some(name)
            }
            Err(error) => {
                say!(
                    "the scheduler '{name}', which 'dwell ctl switch' has set, is in use no longer: {error}"
                );
                None
            }
        }
    }

    /// A client has chosen a scheduler.
    pub(crate) fn write(&self, name: &str) -> io::Result<()> {
        // A kill in between leaves the former one.
        let new = self.0.with_extension("scheduler-new");
        fs::write(&new, name)?;
        fs::rename(new, &self.0)
    }

    /// The device's next server, if there is one, uses the scheduler of its options.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.0);
    }
}
