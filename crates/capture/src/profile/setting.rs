//! A queue's scheduler, changed for a while.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::offered;
use crate::error::Error;

/// Puts the scheduler back when it is dropped, and also when this process is killed.
///
/// A shell waits for the end of a pipe that this process holds, and then writes the old name: whatever ends the process
/// closes the pipe. A record of what to restore at the next start, the other way, leaves the wrong scheduler until then.
pub(super) struct Setting {
    attribute: PathBuf,
    guard: Child,
}

impl Setting {
    pub(super) fn keep(attribute: &Path, present: &str) -> Result<Self, Error> {
        let guard = Command::new("sh")
            .args(["-c", "cat >/dev/null; printf '%s\\n' \"$0\" >\"$1\"", present])
            .arg(attribute)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for this process; its guard hears of that in its own way.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::io("starting a shell to put the scheduler back in any case", error))?;
        Ok(Self { attribute: attribute.to_path_buf(), guard })
    }

    pub(super) fn set(&self, name: &str) -> Result<(), Error> {
        let what = || format!("setting {} to {name}", self.attribute.display());
        fs::write(&self.attribute, name).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::Permission { what: what(), needs: "root" },
            _ => Error::io(what(), error),
        })?;
        match offered(&self.attribute)? {
            (Some(active), _) if active == name => Ok(()),
            (active, _) => {
                Err(Error::kernel(what(), format!("the kernel has {}", active.unwrap_or_default())))
            }
        }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_one_is_back_when_it_is_dropped() {
        let attribute = std::env::temp_dir().join(format!("dwell-setting-{}", std::process::id()));
        fs::write(&attribute, "[bfq]").unwrap();
        let setting = Setting::keep(&attribute, "bfq").unwrap();
        setting.set("none").unwrap();
        assert_eq!(fs::read_to_string(&attribute).unwrap(), "none");
        drop(setting);
        assert_eq!(fs::read_to_string(&attribute).unwrap(), "bfq\n");
        fs::remove_file(attribute).unwrap();
    }
}
