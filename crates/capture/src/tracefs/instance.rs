//! Instances of the kernel's tracer, and their removal after a kill.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

use super::pipe::Pipe;
use crate::error::Error;
use crate::process::{is_process, this_process};

/// Mount points of tracefs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The prefix of our instances' names, followed by the process, its start time and a number.
const PREFIX: &str = "dwell-";

/// An instance, removed when it is dropped.
pub(super) struct Instance(PathBuf);

impl Instance {
    pub(super) fn new() -> Result<Self, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Some(root) = root() else {
            let problem =
                "is not mounted or not accessible; as root: mount -t tracefs tracefs /sys/kernel/tracing";
            return Err(Error::kernel("tracefs", problem));
        };
        let (pid, started) = this_process();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("{PREFIX}{pid}-{started}-{number}"));
        fs::create_dir(&path).map_err(|error| refused(&path, error))?;
        Ok(Self(path))
    }

    pub(super) fn set(&self, file: &str, value: &str) -> Result<(), Error> {
        let path = self.0.join(file);
        fs::write(&path, value).map_err(|error| refused(&path, error))
    }

    pub(super) fn pipe(&self) -> Result<Pipe, Error> {
        let path = self.0.join("trace_pipe");
        let flags = OFlags::NONBLOCK.bits() as i32;
        let pipe = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        pipe.map(Pipe::new).map_err(|error| refused(&path, error))
    }
}

impl Drop for Instance {
    /// A process that another thread is starting holds our open files until exec; until then the kernel does not remove an instance.
    fn drop(&mut self) {
        const LOOK: Duration = Duration::from_millis(1);
        const LOOKS: u32 = 500;
        let busy = || fs::remove_dir(&self.0).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy);
        (0..LOOKS).take_while(|_| busy()).for_each(|_| thread::sleep(LOOK));
    }
}

fn refused(path: &Path, error: io::Error) -> Error {
    let what = format!("writing {}", path.display());
    match error.kind() {
        _ if is_locked_down() => {
            Error::Permission { what, needs: "a kernel without lockdown=confidentiality" }
        }
        io::ErrorKind::PermissionDenied => Error::Permission { what, needs: "root" },
        _ => Error::io(what, error),
    }
}

/// Whether lockdown disables the tracer; the error code varies.
fn is_locked_down() -> bool {
    fs::read_to_string("/sys/kernel/security/lockdown").is_ok_and(|text| text.contains("[confidentiality]"))
}

/// The directory of instances.
fn root() -> Option<PathBuf> {
    PLACES.iter().map(|place| Path::new(place).join("instances")).find(|root| root.is_dir())
}

/// Removes the instances of killed processes. Until then their events cost every request of the machine some time.
pub(crate) fn remove_those_left() {
    root().iter().for_each(|root| remove_within(root));
}

fn remove_within(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| {
            let mut numbers = rest.split('-').map(str::parse::<u64>);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
        });
        if let Some((pid, started)) = owner
            && !is_process(pid as u32, started)
        {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instances_of_killed_processes_are_removed() {
        let root = std::env::temp_dir().join(format!("dwell-instances-{}", std::process::id()));
        let (pid, started) = this_process();
        let own = |started| root.join(format!("{PREFIX}{pid}-{started}-0"));
        let (dead, living, other) = (own(started + 1), own(started), root.join("somebody"));
        [&dead, &living, &other].iter().for_each(|path| fs::create_dir_all(path).unwrap());
        remove_within(&root);
        assert_eq!([dead.exists(), living.exists(), other.exists()], [false, true, true]);
        fs::remove_dir_all(root).unwrap();
    }
}
