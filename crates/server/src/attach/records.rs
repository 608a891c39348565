//! Records of attached devices: what a server notes for later ones, and how they find and take down what a killed server has left.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ::control::process::{Stat, start_time};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::ServeError;
use crate::chosen::Chosen;
use crate::descriptor_store::Store;
use crate::fuse::{abort, connection_number, is_connected, unmount};
use crate::loop_device::LoopDevice;
use crate::private_directory;

/// Time after which a device that is still attached counts as in use.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// A process, by its id and start time, because ids are reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pid: u32,
    started: u64,
}

impl ProcessId {
    pub(super) fn of(pid: u32) -> Self {
        Self { pid, started: start_time(pid).unwrap_or(0) }
    }

    fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    /// Whether it is about to end, or has ended and its parent has not asked for its result.
    fn is_ending(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| !stat.runs() && stat.started() == Some(self.started))
    }
}

/// The data that a later process needs to continue a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Recovery {
    /// The process that stores the descriptor; none if systemd does.
    pub(super) keeper: Option<ProcessId>,
    /// The control groups of the server, which identify its unit: they are the same after a restart.
    pub(super) groups: String,
    pub(super) source: PathBuf,
    /// The place in an array.
    #[serde(default)]
    pub(super) member: Option<u32>,
    /// File system, number there, and device number of the source: another disk under the same name is not the same disk.
    pub(super) node: (u64, u64, u64),
    /// The size in sectors, set when the loop device is attached.
    pub(super) sectors: u64,
    pub(super) block_bytes: u32,
}

pub(super) fn node_of(path: &Path) -> io::Result<(u64, u64, u64)> {
    fs::metadata(path).map(|found| (found.dev(), found.ino(), found.rdev()))
}

/// The mount and loop device of a server, stored in a file for later servers.
#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) server: ProcessId,
    pub(super) mount: PathBuf,
    /// The kernel's number of the connection.
    pub(super) connection: Option<u32>,
    pub(super) device: Option<LoopDevice>,
    pub(super) recovery: Option<Recovery>,
}

impl Record {
    /// Whether a process serves the device, or may. A start of the same unit for the same source (`own`) did not inherit the device's
    /// descriptor, so systemd has closed it.
    fn is_alive(&self, own: Option<&Recovery>) -> bool {
        if self.server.is_alive() {
            return true;
        }
        let Some(recovery) = &self.recovery else { return false };
        let is_own = |own: &Recovery| {
            own.keeper.is_none() && (own.node, &own.groups) == (recovery.node, &recovery.groups)
        };
        match recovery.keeper {
            Some(keeper) => keeper.is_alive(),
            None if own.is_some_and(is_own) => false,
            // The mount is in the mount namespace of its unit, or here.
            None => connection_number(&self.mount).is_none() || is_connected(&self.mount),
        }
    }

    /// The loop device's path for messages.
    pub(super) fn device_name(&self) -> String {
        self.device
            .as_ref()
            .map_or_else(|| "no device".to_owned(), |device| device.path().display().to_string())
    }
}

pub(super) fn record_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.json"))
}

pub(super) fn record_of(directory: &Path, name: &str) -> Option<Record> {
    let text = fs::read(record_path(directory, name)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The members of an array that a killed process served, and their sources: `member replace` may have changed them.
pub(crate) fn members_left(runtime: &Path) -> BTreeMap<u32, PathBuf> {
    let mut left = BTreeMap::new();
    let Ok(directory) = private_directory::make(runtime) else { return left };
    let found = |name: &str| {
        let recovery = record_of(&directory, name).and_then(|record| record.recovery)?;
        Some((recovery.member?, recovery.source))
    };
    // Takes none.
    let _ = Store::of_several(|name| {
        left.extend(found(name));
        false
    });
    left
}

/// A member that was left cannot be continued: its users get errors, and the rest of the array is served.
pub(crate) fn abandon_member(runtime: &Path, member: u32) {
    let Ok(directory) = private_directory::make(runtime) else { return };
    let is_it = |recovery: &Recovery| recovery.member == Some(member);
    let (store, _) = Store::of_several(|name| {
        record_of(&directory, name)
            .and_then(|record| record.recovery)
            .is_some_and(|recovery| is_it(&recovery))
    });
    let keeper = store.as_ref().and_then(Store::pid).map(ProcessId::of);
    let own = |record: &Record| {
        record.recovery.as_ref().is_some_and(|recovery| is_it(recovery) && recovery.keeper == keeper)
    };
    for (path, record) in records(&directory).filter(|(_, record)| own(record)) {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        fail_requests(&directory, &name);
        record.take_down();
        let _ = store.as_ref().map(|store| store.remove(&name));
        remove(&path);
    }
}

/// Rejects a source that another process serves, or will continue to serve.
pub(super) fn refuse_twice(directory: &Path, wanted: Option<&Recovery>) -> Result<(), ServeError> {
    let Some(wanted) = wanted else { return Ok(()) };
    for (_, record) in records(directory) {
        if let Some(recovery) = &record.recovery
            && recovery.node == wanted.node
            && wanted.node != (0, 0, 0)
            && record.is_alive(Some(wanted))
        {
            let by = match (record.server.is_alive(), recovery.keeper) {
                (true, _) => format!("process {} serves it", record.server.pid),
                (false, Some(keeper)) => format!("process {} is about to serve it again", keeper.pid),
                (false, None) => "systemd keeps it for its unit: start that".to_owned(),
            };
            let problem = format!("is attached as {}, and {by}", record.device_name());
            return Err(ServeError::refused(&wanted.source, &problem));
        }
    }
    Ok(())
}

/// Removes a record, and what is beside it.
pub(super) fn remove(record: &Path) {
    let _ = fs::remove_file(record);
    Chosen::beside(record).remove();
}

pub(super) fn write(path: &Path, record: &Record) -> io::Result<()> {
    // Written to a new file and renamed, so that a kill in between leaves a complete record.
    let new = path.with_extension("new");
    fs::write(&new, serde_json::to_vec(record)?)?;
    fs::rename(new, path)
}

/// The records of this user's servers.
fn records(directory: &Path) -> impl Iterator<Item = (PathBuf, Record)> {
    fs::read_dir(directory).into_iter().flatten().flatten().filter_map(|entry| {
        let path = entry.path();
        // Other entries are mounted files of servers; accessing them would wait for those servers.
        let is_record = path.extension().is_some_and(|extension| extension == "json");
        // The paths in a record are unmounted with the rights of this process, so only records of this user are trusted.
        let is_ours = || entry.metadata().is_ok_and(|found| found.uid() == geteuid().as_raw());
        let text = (is_record && is_ours()).then(|| fs::read(&path).ok()).flatten()?;
        Some((path, serde_json::from_slice(&text).ok()?))
    })
}

/// Takes down the devices of servers that have ended, unless another process will continue them.
pub(super) fn clean_up(directory: &Path, own: Option<&Recovery>) {
    for (path, record) in records(directory) {
        if !record.is_alive(own) {
            say!("cleaning up after server {}, which was killed", record.server.pid);
            record.take_down();
            remove(&path);
        }
    }
}

/// How often it is checked whether the servers of an ended supervisor have ended as well.
const LOOK: Duration = Duration::from_secs(1);

/// A running process.
pub(crate) fn process(number: u32) -> ProcessId {
    ProcessId::of(number)
}

/// Takes down the devices that an ended supervisor has left, each when no process serves it any more, and returns then.
pub(crate) fn take_down_of(directory: &Path, supervisor: ProcessId) {
    let is_own =
        |record: &Record| record.recovery.as_ref().is_some_and(|found| found.keeper == Some(supervisor));
    loop {
        let mut is_served = false;
        for (path, record) in records(directory).filter(|(_, record)| is_own(record)) {
            // A server that is about to continue the device has the connection already: only after its predecessor has ended. One that was killed, and
            // waits for its own device in its last system call, still has the connection; what it waits for ends with that.
            if record.server.is_alive() || !record.server.is_ending() && is_connected(&record.mount) {
                is_served = true;
            } else {
                record.take_down();
                remove(&path);
            }
        }
        if !is_served {
            return;
        }
        thread::sleep(LOOK);
    }
}

/// Fails every request to the device of that name, those to come included. Other than `give_up` it reads no file.
pub(crate) fn fail_requests(directory: &Path, name: &str) {
    abort(&directory.join(name), None);
}

/// Takes down the device of that name, which no process will continue.
pub(crate) fn give_up(runtime: &Path, name: &str) {
    let Ok(directory) = private_directory::make(runtime) else { return };
    let path = record_path(&directory, name);
    if let Some((_, record)) = records(&directory).find(|(found, _)| *found == path) {
        record.take_down();
        remove(&path);
    }
}

impl Record {
    fn take_down(&self) {
        // Another program may have attached the recorded loop device since. A killed server may not have recorded its device.
        let noted = self.device.as_ref().filter(|noted| noted.is_attached());
        let is_noted = |device: &LoopDevice| noted.is_some_and(|noted| noted.path() == device.path());
        let others = LoopDevice::attached_to(&self.mount).into_iter().filter(|device| !is_noted(device));
        let attached: Vec<LoopDevice> = noted.cloned().into_iter().chain(others).collect();
        // A server that was killed with its own file open waits for its own reply to the close, and every request to the device waits
        // with it.
        abort(&self.mount, self.connection);
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
    use std::process;
    use std::time::Instant;

    use super::*;

    /// A directory of a test's own.
    fn runtime(name: &str) -> PathBuf {
        let runtime = std::env::temp_dir().join(format!("dwell-attach-{name}-{}", process::id()));
        fs::create_dir(&runtime).unwrap();
        runtime
    }

    fn record_of(server: ProcessId, mount: PathBuf, recovery: Option<Recovery>) -> Record {
        Record { server, mount, connection: None, device: None, recovery }
    }

    /// A device over a file in the directory.
    fn recovery_of(runtime: &Path) -> Recovery {
        let source = runtime.join("disk");
        fs::write(&source, "").unwrap();
        let node = node_of(&source).unwrap();
        Recovery {
            keeper: None,
            groups: String::new(),
            source,
            member: None,
            node,
            sectors: 8,
            block_bytes: 512,
        }
    }

    #[test]
    fn records_of_ended_servers_are_cleaned_up_and_of_running_ones_kept() {
        let runtime = runtime("ended");
        let mount = runtime.join("nothing");
        let started = start_time(process::id()).unwrap();
        for (name, started) in [("dead.json", started + 1), ("living.json", started)] {
            let server = ProcessId { pid: process::id(), started };
            write(&runtime.join(name), &record_of(server, mount.clone(), None)).unwrap();
        }
        clean_up(&runtime, None);
        assert!(!runtime.join("dead.json").exists());
        assert!(runtime.join("living.json").exists());
        fs::remove_dir_all(runtime).unwrap();
    }

    #[test]
    fn the_record_of_a_dead_server_is_kept_while_its_supervisor_lives() {
        let runtime = runtime("keeper");
        let living = ProcessId::of(process::id());
        let dead = ProcessId { started: living.started + 1, ..living };
        let recovery = |keeper| Recovery { keeper, ..recovery_of(&runtime) };
        let path = runtime.join("x.json");
        let record = |keeper| record_of(dead, runtime.join("x"), Some(recovery(Some(keeper))));
        write(&path, &record(living)).unwrap();
        clean_up(&runtime, None);
        assert!(path.exists(), "its supervisor is about to continue it");
        let refused = refuse_twice(&runtime, Some(&recovery(Some(living)))).unwrap_err().to_string();
        assert!(refused.contains("is about to serve it again"), "{refused}");
        write(&path, &record(dead)).unwrap();
        refuse_twice(&runtime, Some(&recovery(Some(living)))).unwrap();
        clean_up(&runtime, None);
        assert!(!path.exists());
        fs::remove_dir_all(runtime).unwrap();
    }

    #[test]
    fn a_device_whose_descriptor_systemd_has_closed_is_taken_down_by_its_own_unit_only() {
        let runtime = runtime("unit");
        let server = ProcessId { pid: process::id(), started: 1 };
        let recovery = |groups: &str| Recovery { groups: groups.to_owned(), ..recovery_of(&runtime) };
        let path = runtime.join("x.json");
        let record = record_of(server, runtime.join("x"), Some(recovery("0::/dwell-serve@x.service\n")));
        write(&path, &record).unwrap();
        for other in [None, Some(recovery("0::/dwell-serve@y.service\n"))] {
            clean_up(&runtime, other.as_ref());
            assert!(path.exists(), "its mount may be in another namespace");
        }
        assert!(refuse_twice(&runtime, Some(&recovery("0::/dwell-serve@y.service\n"))).is_err());
        clean_up(&runtime, Some(&recovery("0::/dwell-serve@x.service\n")));
        assert!(!path.exists());
        fs::remove_dir_all(runtime).unwrap();
    }

    #[test]
    fn a_zombie_does_not_count_as_running() {
        let mut child = process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(start_time(child.id()).is_some());
        child.kill().unwrap();
        let until = Instant::now() + Duration::from_secs(5);
        while start_time(child.id()).is_some() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(start_time(child.id()), None);
        child.wait().unwrap();
    }

    const KILLED: &str = "DWELL_TEST_KILLED_SERVER";

    /// The process of the next test: a server that waits for its own answer.
    #[test]
    fn helper() {
        let Some(path) = std::env::var_os(KILLED).map(PathBuf::from) else { return };
        let (mount, connection) = crate::fuse::Mount::new(&path, 4096).unwrap();
        let opens = path.clone();
        thread::spawn(move || fs::File::open(opens));
        let next = || {
            let mut request = [0; 65536];
            loop {
                match rustix::io::read(&connection, &mut request) {
                    Ok(_) => return request[4..16].to_vec(),
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
        };
        let init = next();
        let mut answer = [0; 80];
        answer[..4].copy_from_slice(&80_u32.to_le_bytes());
        answer[8..16].copy_from_slice(&init[4..]);
        answer[16..24].copy_from_slice(&[7, 0, 0, 0, 31, 0, 0, 0]);
        rustix::io::write(&connection, &answer).unwrap();
        // What the other thread waits for.
        next();
        mount.leave();
        fs::write(path.with_extension("waits"), "").unwrap();
        thread::sleep(Duration::from_secs(600));
    }

    #[test]
    fn a_killed_server_that_waits_for_its_own_device_is_taken_down() {
        if !geteuid().is_root() {
            return eprintln!("SKIPPED: only root can mount");
        }
        let runtime = runtime("own");
        let mount = runtime.join("x");
        let mut server = process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "attach::records::tests::helper"])
            .env(KILLED, &mount)
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while !runtime.join("x.waits").exists() {
            if server.try_wait().unwrap().is_some() || Instant::now() > until {
                return eprintln!("SKIPPED: no FUSE here");
            }
            thread::sleep(Duration::from_millis(5));
        }
        let ended = ProcessId { pid: process::id(), started: 1 };
        let recovery = Some(Recovery { keeper: Some(ended), ..recovery_of(&runtime) });
        let record = record_of(ProcessId::of(server.id()), mount.clone(), recovery);
        write(&runtime.join("x.json"), &record).unwrap();
        server.kill().unwrap();
        thread::sleep(Duration::from_millis(100));
        assert!(server.try_wait().unwrap().is_none(), "it waits for itself");
        let (done, returned) = std::sync::mpsc::channel();
        let directory = runtime.clone();
        thread::spawn(move || {
            take_down_of(&directory, ended);
            done.send(()).unwrap();
        });
        let is_taken_down = returned.recv_timeout(Duration::from_secs(30)).is_ok();
        abort(&mount, None);
        unmount(&mount);
        server.wait().unwrap();
        fs::remove_dir_all(runtime).unwrap();
        assert!(is_taken_down);
    }

    #[test]
    fn a_record_of_another_user_is_ignored() {
        if !geteuid().is_root() {
            return eprintln!("SKIPPED: only root can give a file to another user");
        }
        let runtime = runtime("other");
        let victim = runtime.join("not a mount of ours");
        fs::write(&victim, "kept").unwrap();
        let server = ProcessId { pid: process::id(), started: 1 };
        let record = record_of(server, victim.clone(), None);
        let path = runtime.join("planted.json");
        write(&path, &record).unwrap();
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        clean_up(&runtime, None);
        assert!(victim.exists() && path.exists());
        fs::remove_dir_all(runtime).unwrap();
    }
}
