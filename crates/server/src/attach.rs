//! The device as the kernel sees it: the FUSE file, the loop device on it, and how both are taken down, also by a later
//! server when this one was killed.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};

use crate::ServeError;
use crate::backend::Geometry;
use crate::buffer::LARGEST;
use crate::fuse::{Mount, abort, unmount};
use crate::loop_device::{Lifetime, LoopDevice, QueueSettings};
use crate::private_directory;

/// How long a detached device may take to be gone before somebody is said to use it.
const PATIENCE: Duration = Duration::from_millis(500);

/// How the device is attached.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// Holds a private directory with mount points and records, by which what a killed server left is found.
    pub runtime: PathBuf,
    /// Only the file: whoever asked attaches loop devices of their own to it, and detaches them before the server ends.
    pub only_file: bool,
    /// Requests that the loop device has under way at once; at least 4, which is the kernel's least.
    pub nr_requests: u32,
    /// Read-ahead of the loop device in KiB. Linux: 128 for most disks, but 2560 for these unless it is set.
    pub read_ahead_kb: u32,
    /// Largest request of the loop device in KiB. Small ones keep answers punctual: an answer of 1 MiB into fresh memory
    /// takes milliseconds.
    pub max_sectors_kb: u32,
}

impl Default for AttachOptions {
    fn default() -> Self {
        Self {
            runtime: PathBuf::from("/run/dwell"),
            only_file: false,
            nr_requests: 128,
            read_ahead_kb: 128,
            max_sectors_kb: 512,
        }
    }
}

/// What a server has put up, in a file for those after it.
#[derive(Serialize, Deserialize)]
struct Record {
    pid: u32,
    /// When that process started, as pids are used again.
    started: u64,
    mount: PathBuf,
    device: Option<LoopDevice>,
}

/// The device's file, mounted, and then the loop device on it.
pub(crate) struct Attachment {
    options: AttachOptions,
    record_path: PathBuf,
    record: Record,
    /// Dropped last of all: unmounts.
    _mount: Mount,
}

impl Attachment {
    /// Mounts the file; the server must serve the descriptor before anybody opens it.
    pub(crate) fn mount(options: &AttachOptions) -> Result<(Self, OwnedFd), ServeError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let failed = |source| ServeError::io("attaching", source);
        may_mount()?;
        let directory = private_directory::make(&options.runtime)?;
        clean_up(&directory);
        let name = format!("{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = directory.join(&name);
        let record_path = directory.join(format!("{name}.json"));
        let started = start_time(process::id()).unwrap_or(0);
        let record = Record { pid: process::id(), started, mount: path.clone(), device: None };
        write(&record_path, &record).map_err(failed)?;
        let (mount, connection) = Mount::new(&path, LARGEST as u32)
            .inspect_err(|_| {
                let _ = fs::remove_file(&record_path);
            })
            .map_err(failed)?;
        Ok((Self { options: options.clone(), record_path, record, _mount: mount }, connection))
    }

    /// Attaches the loop device, unless only the file is wanted; the path of what there is. The file must be served.
    pub(crate) fn attach(&mut self, geometry: &Geometry) -> Result<PathBuf, ServeError> {
        let failed = |source| ServeError::io("attaching a loop device (CAP_SYS_ADMIN)", source);
        if self.options.only_file {
            return Ok(self.record.mount.clone());
        }
        let lifetime = Lifetime::UntilDetached;
        let (device, _) =
            LoopDevice::attach(&self.record.mount, geometry.block_bytes, lifetime).map_err(failed)?;
        let path = device.path();
        // Before anything of it is changed, and once: with what was there.
        self.record.device = Some(device.clone());
        write(&self.record_path, &self.record).map_err(failed)?;
        if geometry.read_only {
            device.set_read_only(true).map_err(failed)?;
        }
        let refused = device.set_up(QueueSettings {
            rotational: geometry.rotational,
            nr_requests: self.options.nr_requests.max(4),
            read_ahead_kb: self.options.read_ahead_kb,
            max_sectors_kb: self.options.max_sectors_kb,
        });
        refused.iter().for_each(|what| say!("{}: not set: {what}", path.display()));
        Ok(path)
    }

    /// Detaches the loop device while the file is still served. Waits as long as somebody uses it, unless `give_up`
    /// says so: then its users get errors.
    pub(crate) fn detach(&self, give_up: impl Fn() -> bool) {
        let Some(device) = &self.record.device else { return };
        // While it is ours: once detached, it may be somebody else's at once.
        device.restore();
        if let Err(error) = device.ask_to_detach() {
            say!("{}: {error}", device.path().display());
        }
        let mut told = false;
        while !device.wait_detached(PATIENCE) {
            if give_up() {
                say!("{}: given up while in use; its users get errors", device.path().display());
                return;
            }
            if !told {
                told = true;
                let mounts = device.mounts().join(", ");
                let by =
                    if mounts.is_empty() { "a program".to_string() } else { format!("mounts: {mounts}") };
                say!("{}: still in use by {by}; served until then", device.path().display());
            }
        }
    }
}

/// Says at once what is missing, rather than leaving it to the first call that fails.
fn may_mount() -> Result<(), ServeError> {
    let missing = "it needs CAP_SYS_ADMIN, which this process lacks: run it as root, or serve NBD";
    let sets = capabilities(None).map_err(|error| ServeError::io("looking at capabilities", error.into()))?;
    if !sets.effective.contains(CapabilitySet::SYS_ADMIN) {
        let error = io::Error::new(io::ErrorKind::PermissionDenied, missing);
        return Err(ServeError::io("attaching a device", error));
    }
    Ok(())
}

impl Drop for Attachment {
    fn drop(&mut self) {
        unmount(&self.record.mount);
        let _ = fs::remove_file(&self.record_path);
    }
}

fn write(path: &Path, record: &Record) -> io::Result<()> {
    // Whole or not at all: a server that is killed meanwhile must leave what can be read.
    let new = path.with_extension("new");
    fs::write(&new, serde_json::to_vec(record)?)?;
    fs::rename(new, path)
}

/// When a living process started, in clock ticks since boot: field 22 of its `stat`. One that was killed and that nobody has
/// asked about yet (a zombie, field 3) lives no more.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may hold anything, parentheses and spaces included.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    fields.next().filter(|&state| !matches!(state, "Z" | "X"))?;
    fields.nth(18)?.parse().ok()
}

/// Takes down what servers that live no more have put up.
fn clean_up(runtime: &Path) {
    for entry in fs::read_dir(runtime).into_iter().flatten().flatten() {
        let path = entry.path();
        // Everything else in there is a server's file, and to look at it waits for that server.
        let is_record = path.extension().is_some_and(|extension| extension == "json");
        // What a record says is done with all our rights, so it must be ours.
        let ours = || entry.metadata().is_ok_and(|found| found.uid() == geteuid().as_raw());
        if let Some(record) = (is_record && ours()).then(|| fs::read(&path).ok()).flatten()
            && let Ok(record) = serde_json::from_slice::<Record>(&record)
            && start_time(record.pid) != Some(record.started)
        {
            say!("cleaning up after server {}, which was killed", record.pid);
            record.take_down();
            let _ = fs::remove_file(path);
        }
    }
}

impl Record {
    fn take_down(&self) {
        // Others may have the one that was noted, and one may have had no time to be.
        let noted = self.device.as_ref().filter(|noted| noted.is_attached());
        let is_noted = |device: &LoopDevice| noted.is_some_and(|noted| noted.path() == device.path());
        let others = LoopDevice::attached_to(&self.mount).into_iter().filter(|device| !is_noted(device));
        let attached: Vec<LoopDevice> = noted.cloned().into_iter().chain(others).collect();
        // One that was killed while it had its own file open waits for its own answer to the end of that, and with it whoever asks
        // the device for anything.
        abort(&self.mount);
        for device in attached {
            device.restore();
            if let Err(error) = device.ask_to_detach() {
                say!("{}: {error}", device.path().display());
            }
            let _ = device.wait_detached(PATIENCE);
        }
        unmount(&self.mount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_a_dead_server_is_cleaned_up_and_of_a_living_one_kept() {
        let runtime = std::env::temp_dir().join(format!("dwell-attach-{}", process::id()));
        fs::create_dir(&runtime).unwrap();
        let mount = runtime.join("nothing");
        let started = start_time(process::id()).unwrap();
        for (name, started) in [("dead.json", started + 1), ("living.json", started)] {
            let record = Record { pid: process::id(), started, mount: mount.clone(), device: None };
            write(&runtime.join(name), &record).unwrap();
        }
        clean_up(&runtime);
        assert!(!runtime.join("dead.json").exists());
        assert!(runtime.join("living.json").exists());
        fs::remove_dir_all(runtime).unwrap();
    }

    #[test]
    fn a_killed_server_is_dead_before_its_parent_has_asked_about_it() {
        let mut child = process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(start_time(child.id()).is_some());
        child.kill().unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(5);
        while start_time(child.id()).is_some() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(start_time(child.id()), None);
        child.wait().unwrap();
    }

    #[test]
    fn a_record_that_somebody_else_has_put_there_is_left_alone() {
        if !geteuid().is_root() {
            return eprintln!("SKIPPED: only root can make a file somebody else's");
        }
        let runtime = std::env::temp_dir().join(format!("dwell-attach-other-{}", process::id()));
        fs::create_dir(&runtime).unwrap();
        let victim = runtime.join("not a mount of ours");
        fs::write(&victim, "kept").unwrap();
        let record = Record { pid: process::id(), started: 1, mount: victim.clone(), device: None };
        let path = runtime.join("planted.json");
        write(&path, &record).unwrap();
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        clean_up(&runtime);
        assert!(victim.exists() && path.exists());
        fs::remove_dir_all(runtime).unwrap();
    }
}
