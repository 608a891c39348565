//! A temporary change of a queue's scheduler.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::offered;
use crate::error::Error;
use crate::topology::Layer;

/// Restores a queue's scheduler and settings when it is dropped or when this process is killed. The owner sets each scheduler through
/// [`set`](Self::set).
///
/// A shell waits for the end of a pipe that this process holds, and then writes the old name: the pipe closes however the process ends. A
/// backup file, in contrast, would leave the wrong scheduler until the next start.
///
/// The pipe carries each name before and after its switch. A scheduler other than the one set last, or the one of a switch that did not
/// complete, was set by another process and stays, even if this process had set the same name earlier.
#[derive(Debug)]
pub struct Guard {
    shell: Child,
}

/// The present scheduler of a queue, which is set for a measurement, and its [`Guard`].
pub(super) struct Setting {
    device: String,
    attribute: PathBuf,
    guard: Guard,
    /// The scheduler that was set last.
    last: RefCell<Option<String>>,
}

/// Writes the scheduler, then each other file whose value differs. A removed device is ignored.
const PUT_BACK: &str = r#"last= begun=
while read -r what name; do case $what in
    begin) begun=$name ;;
    end) last=$name begun= ;;
esac; done
[ -e "$1" ] && [ -n "$last$begun" ] || exit 0
now=$(sed 's/.*\[\(.*\)\].*/\1/' "$1" 2>/dev/null)
[ -n "$now" ] || exit 0
[ "$now" = "$last" ] || [ "$now" = "$begun" ] || [ "$now" = "$0" ] || exit 0
problem=$({ printf '%s\n' "$0" >"$1"; } 2>&1) || [ ! -e "$1" ] || printf '%s\n' "$problem" >&2
shift
while [ $# -gt 1 ]; do
    { [ "$(cat "$1")" = "$2" ] || printf '%s\n' "$2" >"$1"; } 2>/dev/null; shift 2
done"#;

/// The files that a switch of the scheduler resets, and those that a measurement sets with it, with their values.
fn files_to_restore(attribute: &Path) -> Vec<OsString> {
    let queue = attribute.parent().unwrap_or(Path::new("."));
    let own = fs::read_dir(queue.join("iosched")).into_iter().flatten().flatten().map(|file| file.path());
    let files = ["nr_requests", "wbt_lat_usec", "read_ahead_kb"].map(|name| queue.join(name));
    let value = |file: &PathBuf| fs::read_to_string(file).ok().map(|text| text.trim().to_owned());
    let pair = |file: PathBuf| value(&file).map(|value| [file.into(), value.into()]);
    files.into_iter().chain(own).filter_map(pair).flatten().collect()
}

impl Guard {
    /// Keeps the present scheduler and settings of a queue, by the file of its scheduler.
    ///
    /// # Errors
    /// The scheduler cannot be read, or the shell that restores it cannot be started.
    pub fn keep(attribute: &Path) -> Result<Self, Error> {
        let present = offered(attribute)?.0.unwrap_or_else(|| "none".to_owned());
        let shell = Command::new("sh")
            .args(["-c", PUT_BACK, &present])
            .arg(attribute)
            .args(files_to_restore(attribute))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // The shell ignores Ctrl-C; it reacts to the closing pipe.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::io("starting the shell that restores the scheduler", error))?;
        Ok(Self { shell })
    }

    /// Sets a scheduler with `set`.
    ///
    /// # Errors
    /// As `set`; or the shell has ended, so that nothing would be restored after a kill.
    pub fn set<T, E: From<Error>>(
        &self,
        scheduler: &str,
        set: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.announce("begin", scheduler)?;
        let done = set()?;
        self.announce("end", scheduler)?;
        Ok(done)
    }

    fn announce(&self, what: &str, scheduler: &str) -> Result<(), Error> {
        let written = self.shell.stdin.as_ref().map(|mut pipe| writeln!(pipe, "{what} {scheduler}"));
        let failed = |error| Error::io("writing to the shell that restores the scheduler", error);
        written.transpose().map(|_| ()).map_err(failed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

impl Setting {
    /// Keeps the present scheduler of a device's queue.
    pub(super) fn keep(layer: &Layer) -> Result<Self, Error> {
        let attribute = Path::new("/sys/block").join(&layer.name).join("queue/scheduler");
        Self::keep_file(&layer.name, &attribute)
    }

    fn keep_file(device: &str, attribute: &Path) -> Result<Self, Error> {
        let (device, guard) = (device.to_owned(), Guard::keep(attribute)?);
        Ok(Self { device, attribute: attribute.to_path_buf(), guard, last: RefCell::default() })
    }

    /// Switches the queue to a scheduler.
    ///
    /// # Errors
    /// The kernel rejects it, or another process has set one.
    pub(super) fn set(&self, name: &str) -> Result<(), Error> {
        let what = || format!("setting {} to {name}", self.attribute.display());
        self.check_unchanged()?;
        self.guard.set(name, || {
            fs::write(&self.attribute, name).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => Error::Permission { what: what(), needs: "root" },
                _ => Error::io(what(), error),
            })
        })?;
        match offered(&self.attribute)? {
            (Some(active), _) if active == name => {
                *self.last.borrow_mut() = Some(active);
                Ok(())
            }
            (active, _) => {
                Err(Error::kernel(what(), format!("the kernel has {}", active.unwrap_or_default())))
            }
        }
    }

    /// Checks that the scheduler is the one that was set.
    ///
    /// # Errors
    /// Another process has set another scheduler.
    pub(super) fn check_unchanged(&self) -> Result<(), Error> {
        let last = self.last.borrow();
        match (last.clone(), offered(&self.attribute)?.0) {
            (Some(ours), Some(theirs)) if theirs != ours => {
                Err(Error::Foreign { device: self.device.clone(), ours, theirs })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_scheduler_is_restored_on_drop() {
        let attribute = std::env::temp_dir().join(format!("dwell-setting-{}", std::process::id()));
        fs::write(&attribute, "[bfq]").unwrap();
        let setting = Setting::keep_file("sda", &attribute).unwrap();
        setting.set("none").unwrap();
        assert_eq!(fs::read_to_string(&attribute).unwrap(), "none");
        drop(setting);
        assert_eq!(fs::read_to_string(&attribute).unwrap(), "bfq\n");
        fs::remove_file(attribute).unwrap();
    }

    #[test]
    fn a_device_removed_meanwhile_causes_no_message() {
        // Exists but cannot be read: a directory.
        let mut guard = Command::new("sh")
            .args(["-c", PUT_BACK, "bfq"])
            .arg(std::env::temp_dir())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        guard.stdin.take().unwrap().write_all(b"begin none\nend none\n").unwrap();
        let output = guard.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }

    #[test]
    fn a_scheduler_set_by_another_process_stays() {
        let attribute = std::env::temp_dir().join(format!("dwell-setting-theirs-{}", std::process::id()));
        fs::write(&attribute, "[bfq]").unwrap();
        let setting = Setting::keep_file("sda", &attribute).unwrap();
        setting.set("none").unwrap();
        setting.set("mq-deadline").unwrap();
        fs::write(&attribute, "none mq-deadline [kyber] bfq").unwrap();
        let error = setting.set("none").unwrap_err().to_string();
        assert!(error.contains("from mq-deadline to kyber"), "{error}");
        drop(setting);
        assert_eq!(fs::read_to_string(&attribute).unwrap(), "none mq-deadline [kyber] bfq");
        fs::remove_file(attribute).unwrap();
    }

    #[test]
    fn an_earlier_scheduler_set_again_by_another_process_stays() {
        let attribute = std::env::temp_dir().join(format!("dwell-setting-earlier-{}", std::process::id()));
        fs::write(&attribute, "[none]").unwrap();
        let setting = Setting::keep_file("sda", &attribute).unwrap();
        setting.set("mq-deadline").unwrap();
        setting.set("bfq").unwrap();
        let theirs = "none [mq-deadline] bfq";
        fs::write(&attribute, theirs).unwrap();
        assert!(setting.check_unchanged().is_err());
        drop(setting);
        assert_eq!(fs::read_to_string(&attribute).unwrap(), theirs);
        fs::remove_file(attribute).unwrap();
    }

    #[test]
    fn a_switch_that_does_not_complete_is_reverted() {
        let attribute = std::env::temp_dir().join(format!("dwell-setting-begun-{}", std::process::id()));
        for active in ["mq-deadline", "bfq"] {
            fs::write(&attribute, "[none]").unwrap();
            let setting = Setting::keep_file("sda", &attribute).unwrap();
            setting.set("mq-deadline").unwrap();
            let rejected = || Err::<(), Error>(Error::kernel("setting sda", "rejected"));
            setting.guard.set("bfq", rejected).unwrap_err();
            fs::write(&attribute, format!("none [{active}]")).unwrap();
            drop(setting);
            assert_eq!(fs::read_to_string(&attribute).unwrap(), "none\n", "{active}");
        }
        fs::remove_file(attribute).unwrap();
    }

    #[test]
    fn files_reset_by_a_switch_are_restored_too() {
        let queue = std::env::temp_dir().join(format!("dwell-setting-queue-{}", std::process::id()));
        let own = queue.join("iosched");
        fs::create_dir_all(&own).unwrap();
        let attribute = queue.join("scheduler");
        let put = |requests: &str, expire: &str| {
            fs::write(queue.join("nr_requests"), requests).unwrap();
            fs::write(own.join("read_expire"), expire).unwrap();
        };
        fs::write(&attribute, "[mq-deadline]").unwrap();
        put("33\n", "80\n");
        let setting = Setting::keep_file("sda", &attribute).unwrap();
        setting.set("none").unwrap();
        // As the kernel does.
        put("256\n", "500\n");
        drop(setting);
        let read = |file: PathBuf| fs::read_to_string(file).unwrap();
        assert_eq!(read(attribute.clone()), "mq-deadline\n");
        assert_eq!(
            (read(queue.join("nr_requests")), read(own.join("read_expire"))),
            ("33\n".into(), "80\n".into())
        );
        fs::remove_dir_all(queue).unwrap();
    }
}
