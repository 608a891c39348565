//! A queue's scheduler, changed for a while.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::offered;
use crate::error::Error;
use crate::topology::Layer;

/// Puts the scheduler back when it is dropped, with what the kernel sets anew at each switch, and also when this process is killed.
///
/// A shell waits for the end of a pipe that this process holds, and then writes the old name: whatever ends the process
/// closes the pipe. A record of what to restore at the next start, the other way, leaves the wrong scheduler until then.
pub(super) struct Setting {
    attribute: PathBuf,
    guard: Child,
}

/// The scheduler, then each other file that does not hold its value any more. Of a device that is gone nothing.
const PUT_BACK: &str = r#"cat >/dev/null; [ -e "$1" ] || exit 0; printf '%s\n' "$0" >"$1"; shift
while [ $# -gt 1 ]; do
    { [ "$(cat "$1")" = "$2" ] || printf '%s\n' "$2" >"$1"; } 2>/dev/null; shift 2
done"#;

/// What a switch of schedulers sets to the kernel's own values: files beside the scheduler's, and what is in them.
fn what_goes_with_it(attribute: &Path) -> Vec<OsString> {
    let queue = attribute.parent().unwrap_or(Path::new("."));
    let own = fs::read_dir(queue.join("iosched")).into_iter().flatten().flatten().map(|file| file.path());
    let files = ["nr_requests", "wbt_lat_usec"].map(|name| queue.join(name)).into_iter().chain(own);
    let value = |file: &PathBuf| fs::read_to_string(file).ok().map(|text| text.trim().to_owned());
    let pair = |file: PathBuf| value(&file).map(|value| [file.into(), value.into()]);
    files.filter_map(pair).flatten().collect()
}

impl Setting {
    /// Of a device's queue.
    pub(super) fn keep(layer: &Layer) -> Result<Self, Error> {
        let attribute = Path::new("/sys/block").join(&layer.name).join("queue/scheduler");
        Self::keep_file(&attribute, layer.scheduler.as_deref().unwrap_or("none"))
    }

    fn keep_file(attribute: &Path, present: &str) -> Result<Self, Error> {
        let guard = Command::new("sh")
            .args(["-c", PUT_BACK, present])
            .arg(attribute)
            .args(what_goes_with_it(attribute))
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
        let setting = Setting::keep_file(&attribute, "bfq").unwrap();
        setting.set("none").unwrap();
        assert_eq!(fs::read_to_string(&attribute).unwrap(), "none");
        drop(setting);
        assert_eq!(fs::read_to_string(&attribute).unwrap(), "bfq\n");
        fs::remove_file(attribute).unwrap();
    }

    #[test]
    fn what_changes_with_the_scheduler_is_back_too() {
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
        let setting = Setting::keep_file(&attribute, "mq-deadline").unwrap();
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
