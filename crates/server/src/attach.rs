//! The attached device: the FUSE file, the loop device on it, how a later process continues both, and how they are taken down, also
//! after a server that was killed.
//!
//! | the server | the device |
//! |---|---|
//! | ends in order, the device is unused | detached, unmounted |
//! | ends in order, the device is used | served until it is unused; under systemd 254 or later left to the next start |
//! | is killed, another process stores the descriptor | requests wait; the next process continues |
//! | is killed, no process does | its users get errors; the next server takes down what is left |

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};

use crate::ServeError;
use crate::backend::Geometry;
use crate::buffer::LARGEST;
use crate::chosen::Chosen;
use crate::descriptor_store::{Store, Stored};
use crate::fuse::{Mount, Shared, abort, connection_number, is_connected, unmount};
use crate::locks;
use crate::loop_device::{Lifetime, LoopDevice, QueueSettings};
use crate::private_directory;

/// Time after which a device that is still attached counts as in use.
const PATIENCE: Duration = Duration::from_millis(500);

/// How the device is attached.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// The directory for a private directory with mount points and records. The records name what a killed server has left.
    pub runtime: PathBuf,
    /// Only mount the file: the caller attaches loop devices of its own to it, and detaches them before the server ends.
    pub only_file: bool,
    /// Maximum number of the loop device's requests in flight; at least 4, the kernel's minimum.
    pub nr_requests: u32,
    /// Read-ahead of the loop device in KiB. Linux: 128 for most disks, but 2560 for these unless it is set.
    pub read_ahead_kb: u32,
    /// Largest request of the loop device in KiB. Replies to small requests are on time; a reply of 1 MiB into newly allocated memory
    /// takes milliseconds.
    pub max_sectors_kb: u32,
    /// The file or device that holds the data. With it, a process that stores the connection's descriptor (systemd, or a supervisor)
    /// lets the device outlive this process. None if the data is this process's memory.
    pub source: Option<PathBuf>,
    /// The device is this member of an array, counted from 0. A supervisor keeps the devices of all members; systemd keeps none of them.
    pub member: Option<u32>,
}

impl Default for AttachOptions {
    fn default() -> Self {
        Self {
            runtime: PathBuf::from("/run/dwell"),
            only_file: false,
            nr_requests: 128,
            read_ahead_kb: 128,
            max_sectors_kb: 512,
            source: None,
            member: None,
        }
    }
}

/// A process, by its id and start time, because ids are reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct ProcessId {
    pid: u32,
    started: u64,
}

impl ProcessId {
    fn of(pid: u32) -> Self {
        Self { pid, started: start_time(pid).unwrap_or(0) }
    }

    fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// The data that a later process needs to continue a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Recovery {
    /// The process that stores the descriptor; none if systemd does.
    keeper: Option<ProcessId>,
    /// The control groups of the server, which identify its unit: they are the same after a restart.
    groups: String,
    source: PathBuf,
    /// The place in an array.
    #[serde(default)]
    member: Option<u32>,
    /// File system, number there, and device number of the source: another disk under the same name is not the same disk.
    node: (u64, u64, u64),
    /// The size in sectors, set when the loop device is attached.
    sectors: u64,
    block_bytes: u32,
}

fn node_of(path: &Path) -> io::Result<(u64, u64, u64)> {
    fs::metadata(path).map(|found| (found.dev(), found.ino(), found.rdev()))
}

/// The mount and loop device of a server, stored in a file for later servers.
#[derive(Serialize, Deserialize)]
struct Record {
    server: ProcessId,
    mount: PathBuf,
    /// The kernel's number of the connection.
    connection: Option<u32>,
    device: Option<LoopDevice>,
    recovery: Option<Recovery>,
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
    fn device_name(&self) -> String {
        self.device
            .as_ref()
            .map_or_else(|| "no device".to_owned(), |device| device.path().display().to_string())
    }
}

/// The device's file, mounted, and then the loop device on it.
pub(crate) struct Attachment {
    options: AttachOptions,
    name: String,
    record_path: PathBuf,
    record: Record,
    store: Option<Store>,
    /// A copy of the connection for the store.
    connection: OwnedFd,
    shared: Arc<Shared>,
    /// A former process has attached it.
    resumed: bool,
    /// The store has the connection.
    is_stored: bool,
    /// The next process continues the device, so nothing is taken down.
    is_left: bool,
    /// Dropped last of all: unmounts.
    mount: Option<Mount>,
}

impl Attachment {
    /// Continues a device that a former process left, or mounts the file; the server must serve the descriptor before a process opens
    /// the file.
    pub(crate) fn mount(options: &AttachOptions) -> Result<(Self, OwnedFd), ServeError> {
        let failed = |source| ServeError::io("attaching", source);
        may_mount()?;
        let directory = private_directory::make(&options.runtime)?;
        let (store, stored) = match (&options.source, options.member) {
            (None, _) => (None, Vec::new()),
            _ if options.only_file => (None, Vec::new()),
            (_, None) => Store::from_environment(),
            (_, member) => Store::of_several(|name| {
                let recovery = record_of(&directory, name).and_then(|record| record.recovery);
                recovery.is_some_and(|recovery| recovery.member == member)
            }),
        };
        for stored in stored {
            if let Some(resumed) = Self::resume(options, &directory, store.as_ref(), stored)? {
                return Ok(resumed);
            }
        }
        let recovery = match (&store, &options.source) {
            (Some(store), Some(source)) => {
                let keeper = store.pid().map(ProcessId::of);
                // The back end creates a file that does not exist yet; `attach` reads its numbers again.
                let node = node_of(source).unwrap_or_default();
                let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
                let (source, member) = (source.clone(), options.member);
                Some(Recovery { keeper, groups, source, member, node, sectors: 0, block_bytes: 0 })
            }
            _ => None,
        };
        clean_up(&directory, recovery.as_ref());
        refuse_twice(&directory, recovery.as_ref())?;
        let (name, mount, connection) = Self::new_mount(&directory).map_err(failed)?;
        let path = directory.join(&name);
        let server = ProcessId::of(process::id());
        let record =
            Record { server, connection: connection_number(&path), mount: path, device: None, recovery };
        let record_path = record_path(&directory, &name);
        write(&record_path, &record).map_err(failed)?;
        let copy = connection.try_clone().map_err(failed)?;
        let attachment = Self {
            options: options.clone(),
            name,
            record_path,
            record,
            store,
            connection: copy,
            shared: Arc::default(),
            resumed: false,
            is_stored: false,
            is_left: false,
            mount: Some(mount),
        };
        Ok((attachment, connection))
    }

    /// A mount of a name that no other server has. A former process may have had the same process id.
    fn new_mount(directory: &Path) -> io::Result<(String, Mount, OwnedFd)> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!("{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            match Mount::new(&directory.join(&name), LARGEST as u32) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                mounted => return mounted.map(|(mount, connection)| (name, mount, connection)),
            }
        }
    }

    /// Continues the device of a stored descriptor; none if no device was left.
    fn resume(
        options: &AttachOptions,
        directory: &Path,
        store: Option<&Store>,
        Stored { name, descriptor }: Stored,
    ) -> Result<Option<(Self, OwnedFd)>, ServeError> {
        let failed = |source| ServeError::io("continuing the attached device", source);
        let record_path = record_path(directory, &name);
        let record = record_of(directory, &name).filter(|record| {
            record.recovery.is_some() && record.device.as_ref().is_some_and(LoopDevice::is_attached)
        });
        let (Some(store), Some(mut record)) = (store, record) else {
            let _ = store.map(|store| store.remove(&name));
            return Ok(None);
        };
        let (device, Some(recovery)) = (record.device_name(), &record.recovery) else { return Ok(None) };
        if let Some(source) = &options.source
            && node_of(source).ok() != Some(recovery.node)
        {
            let problem = format!(
                "{device} is attached to {} and waits for its server: start it with that file or device again, or close the stored \
                 descriptor ('systemctl clean --what=fdstore UNIT'), which makes the users of {device} fail",
                recovery.source.display()
            );
            return Err(ServeError::refused(source, &problem));
        }
        // Unfinished writes of the former process could overwrite later ones.
        locks::wait_until_free(&recovery.source, SOURCE_BUSY)?;
        record.server = ProcessId::of(process::id());
        let copy = descriptor.try_clone().map_err(failed)?;
        let attachment = Self {
            options: options.clone(),
            name,
            record_path,
            mount: Some(Mount::adopt(&record.mount)),
            record,
            store: Some(store.clone()),
            connection: copy,
            shared: Arc::new(Shared { can_resend: AtomicBool::new(true), ..Shared::default() }),
            resumed: true,
            is_stored: true,
            // If this start fails before it serves the device, the next one continues it.
            is_left: true,
        };
        Ok(Some((attachment, descriptor)))
    }

    pub(crate) const fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// State shared with the front end.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Attaches the loop device, unless only the file is requested; returns the path of the device or file. The file must be served.
    pub(crate) fn attach(&mut self, geometry: &Geometry) -> Result<PathBuf, ServeError> {
        let failed = |source| ServeError::io("attaching a loop device (CAP_SYS_ADMIN)", source);
        if self.options.only_file {
            return Ok(self.record.mount.clone());
        }
        if self.resumed {
            let path = self.attach_again(geometry)?;
            // Only now: what allocates memory may wait for writeback to the device, so it is served first.
            if let Some(store) = &self.store {
                store.has_continued();
            }
            self.is_left = false;
            say!("{}: continuing after another process; requests have waited", path.display());
            write(&self.record_path, &self.record).map_err(failed)?;
            return Ok(path);
        }
        let lifetime = Lifetime::UntilDetached;
        let (device, _) =
            LoopDevice::attach(&self.record.mount, geometry.block_bytes, lifetime).map_err(failed)?;
        let path = device.path();
        // Recorded before the first change, so that the record has the previous settings.
        self.record.device = Some(device.clone());
        self.record_size(geometry);
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
        self.store_connection(&path);
        Ok(path)
    }

    fn record_size(&mut self, geometry: &Geometry) {
        if let Some(recovery) = &mut self.record.recovery {
            recovery.node = node_of(&recovery.source).unwrap_or(recovery.node);
            (recovery.sectors, recovery.block_bytes) = (geometry.capacity.0, geometry.block_bytes);
        }
    }

    /// Checks that the existing loop device has the geometry that this server serves.
    fn attach_again(&self, geometry: &Geometry) -> Result<PathBuf, ServeError> {
        let (Some(device), Some(recovery)) = (&self.record.device, &self.record.recovery) else {
            return Err(ServeError::io("attaching", io::ErrorKind::NotFound.into()));
        };
        let (now, then) =
            ((geometry.capacity.0, geometry.block_bytes), (recovery.sectors, recovery.block_bytes));
        if now != then {
            let problem = format!(
                "{} has {} sectors in blocks of {} bytes, but this start serves {} in blocks of {}: start with the former options",
                device.path().display(),
                then.0,
                then.1,
                now.0,
                now.1
            );
            return Err(ServeError::refused(&recovery.source, &problem));
        }
        Ok(device.path())
    }

    fn store_connection(&mut self, device: &Path) {
        let Some(store) = &self.store else { return };
        let stored = if self.shared.can_resend.load(Ordering::Relaxed) {
            store
                .put(&self.name, self.connection.as_fd())
                .map_err(|error| format!("its descriptor was not stored ({error})"))
        } else {
            Err("the kernel cannot send requests again (Linux 6.9 and later can)".to_owned())
        };
        if let Err(reason) = stored {
            say!("{}: a crash of this process loses the device: {reason}", device.display());
            // No process will continue it: the next server that attaches takes it down.
            self.record.recovery = None;
            let _ = write(&self.record_path, &self.record);
        } else {
            self.is_stored = true;
        }
    }

    /// Whether the next process is to continue the device: this one never served it or `broke`, or it ends in order while a file system
    /// on the device is mounted or a program has claimed the device.
    pub(crate) fn is_for_next(&self, broke: bool) -> bool {
        // A member that fails leaves its users, and the array continues without it in this process.
        let broke = broke && self.options.member.is_none();
        let keeps = self.store.as_ref().is_some_and(Store::keeps_while_stopped);
        let is_claimed = || self.record.device.as_ref().is_some_and(LoopDevice::is_claimed);
        self.is_left || self.is_stored && (broke || keeps && is_claimed())
    }

    /// Where the scheduler is noted that a client chooses; none for a member of an array, which has one for all.
    pub(crate) fn chosen(&self) -> Option<Chosen> {
        self.options.member.is_none().then(|| Chosen::beside(&self.record_path))
    }

    /// Leaves everything to the next process. If this one ends in order, that excludes the choice of a scheduler: the options of the next one may be
    /// others on purpose.
    pub(crate) fn leave(&mut self, in_order: bool) {
        if in_order {
            Chosen::beside(&self.record_path).remove();
        }
        say!("{}: left attached; requests wait for the next start", self.record.device_name());
        self.is_left = true;
    }

    /// Detaches the loop device while the file is still served. Waits while a process uses it, unless `give_up` (called with whether
    /// the kernel is still about to detach it) has a reason: then its users get errors. Returns whether that was so.
    pub(crate) fn detach(&self, mut give_up: impl FnMut(bool) -> GiveUp) -> bool {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        // A member may end without the array: see `array_is_ending`.
        if let (Some(store), None) = (&self.store, self.options.member) {
            store.is_ending();
        }
        let Some(device) = self.record.device.clone() else { return false };
        let path = device.path();
        let waits = device.clone();
        // Both calls wait for requests to the device, so a thread of its own makes them.
        let detaching = thread::Builder::new().name("detach".into()).spawn(move || {
            // Before the detachment: afterwards another program may attach the loop device at any time.
            device.restore();
            if let Err(error) = device.ask_to_detach() {
                say!("{}: {error}", device.path().display());
            }
        });
        let is_detaching = || detaching.as_ref().is_ok_and(|thread| !thread.is_finished());
        let began = Instant::now();
        let mut warned = false;
        loop {
            if !is_detaching() && waits.wait_detached(DETACH_STEP) {
                return false;
            }
            let reason = match give_up(is_detaching()) {
                GiveUp::No => None,
                GiveUp::Asked | GiveUp::Broke => Some("given up while in use".to_owned()),
                GiveUp::Stalled { limit } => {
                    Some(format!("no request was completed for {} s", limit.as_secs_f64()))
                }
            };
            if let Some(reason) = reason {
                say!("{}: {reason}; its users get errors", path.display());
                self.abort();
                // Nothing delays it any more. If this process ended before, the loop device would stay attached to nothing.
                let began = Instant::now();
                while is_detaching() && began.elapsed() < LAST_WAIT {
                    thread::sleep(DETACH_STEP);
                }
                return true;
            }
            if is_detaching() {
                thread::sleep(DETACH_STEP);
            } else if !warned && began.elapsed() > PATIENCE {
                warned = true;
                let mounts = waits.mounts().join(", ");
                let by =
                    if mounts.is_empty() { "a program".to_string() } else { format!("mounts: {mounts}") };
                say!("{}: still in use by {by}; served until then", path.display());
            }
        }
    }

    /// Fails every present and later request to the device.
    pub(crate) fn abort(&self) {
        abort(&self.record.mount, self.record.connection);
    }
}

/// How long the detachment of an aborted device may take.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Period of checks whether the device is detached.
const DETACH_STEP: Duration = Duration::from_millis(20);

/// The reason for not serving a device until its users are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GiveUp {
    No,
    Asked,
    /// The device's thread has ended.
    Broke,
    Stalled {
        limit: Duration,
    },
}

fn record_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.json"))
}

fn record_of(directory: &Path, name: &str) -> Option<Record> {
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

/// The array stops: should this process die before all members are unused, the next one stops as well.
pub(crate) fn array_is_ending() {
    if let (Some(store), _) = Store::of_several(|_| false) {
        store.is_ending();
    }
}

/// Rejects a source that another process serves, or will continue to serve.
fn refuse_twice(directory: &Path, wanted: Option<&Recovery>) -> Result<(), ServeError> {
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

/// Maximum time for which unfinished requests of a former process may use the source: a disk's error recovery takes up to a
/// minute.
pub(crate) const SOURCE_BUSY: Duration = Duration::from_secs(90);

/// Checks for missing capabilities at the start, for a clear message.
pub(crate) fn may_mount() -> Result<(), ServeError> {
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
        if self.is_left {
            if let Some(mount) = self.mount.take() {
                mount.leave();
            }
            return;
        }
        if let (true, Some(store)) = (self.is_stored, &self.store) {
            let _ = store.remove(&self.name);
        }
        unmount(&self.record.mount);
        remove(&self.record_path);
    }
}

/// Removes a record, and what is beside it.
fn remove(record: &Path) {
    let _ = fs::remove_file(record);
    Chosen::beside(record).remove();
}

fn write(path: &Path, record: &Record) -> io::Result<()> {
    // Written to a new file and renamed, so that a kill in between leaves a complete record.
    let new = path.with_extension("new");
    fs::write(&new, serde_json::to_vec(record)?)?;
    fs::rename(new, path)
}

/// The start time of a running process in clock ticks since boot: field 22 of its `stat`. A zombie (field 3) does not count as
/// running.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may contain any characters, also parentheses and spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    fields.next().filter(|&state| !matches!(state, "Z" | "X"))?;
    fields.nth(18)?.parse().ok()
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
fn clean_up(directory: &Path, own: Option<&Recovery>) {
    for (path, record) in records(directory) {
        if !record.is_alive(own) {
            say!("cleaning up after server {}, which was killed", record.server.pid);
            record.take_down();
            remove(&path);
        }
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
    use super::*;

    #[test]
    fn records_of_ended_servers_are_cleaned_up_and_of_running_ones_kept() {
        let runtime = std::env::temp_dir().join(format!("dwell-attach-{}", process::id()));
        fs::create_dir(&runtime).unwrap();
        let mount = runtime.join("nothing");
        let started = start_time(process::id()).unwrap();
        for (name, started) in [("dead.json", started + 1), ("living.json", started)] {
            let server = ProcessId { pid: process::id(), started };
            let record =
                Record { server, mount: mount.clone(), connection: None, device: None, recovery: None };
            write(&runtime.join(name), &record).unwrap();
        }
        clean_up(&runtime, None);
        assert!(!runtime.join("dead.json").exists());
        assert!(runtime.join("living.json").exists());
        fs::remove_dir_all(runtime).unwrap();
    }

    #[test]
    fn the_record_of_a_dead_server_is_kept_while_its_supervisor_lives() {
        let runtime = std::env::temp_dir().join(format!("dwell-attach-keeper-{}", process::id()));
        fs::create_dir(&runtime).unwrap();
        let source = runtime.join("disk");
        fs::write(&source, "").unwrap();
        let living = ProcessId::of(process::id());
        let dead = ProcessId { started: living.started + 1, ..living };
        let node = node_of(&source).unwrap();
        let recovery = |keeper| Recovery {
            keeper,
            groups: String::new(),
            source: source.clone(),
            member: None,
            node,
            sectors: 8,
            block_bytes: 512,
        };
        let path = runtime.join("x.json");
        let record = |keeper| {
            let recovery = Some(recovery(Some(keeper)));
            Record { server: dead, mount: runtime.join("x"), connection: None, device: None, recovery }
        };
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
        let runtime = std::env::temp_dir().join(format!("dwell-attach-unit-{}", process::id()));
        fs::create_dir(&runtime).unwrap();
        let source = runtime.join("disk");
        fs::write(&source, "").unwrap();
        let server = ProcessId { pid: process::id(), started: 1 };
        let node = node_of(&source).unwrap();
        let recovery = |groups: &str| Recovery {
            keeper: None,
            groups: groups.to_owned(),
            source: source.clone(),
            member: None,
            node,
            sectors: 8,
            block_bytes: 512,
        };
        let path = runtime.join("x.json");
        let record = Record {
            server,
            mount: runtime.join("x"),
            connection: None,
            device: None,
            recovery: Some(recovery("0::/dwell-serve@x.service\n")),
        };
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

    #[test]
    fn a_record_of_another_user_is_ignored() {
        if !geteuid().is_root() {
            return eprintln!("SKIPPED: only root can give a file to another user");
        }
        let runtime = std::env::temp_dir().join(format!("dwell-attach-other-{}", process::id()));
        fs::create_dir(&runtime).unwrap();
        let victim = runtime.join("not a mount of ours");
        fs::write(&victim, "kept").unwrap();
        let server = ProcessId { pid: process::id(), started: 1 };
        let record = Record { server, mount: victim.clone(), connection: None, device: None, recovery: None };
        let path = runtime.join("planted.json");
        write(&path, &record).unwrap();
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        clean_up(&runtime, None);
        assert!(victim.exists() && path.exists());
        fs::remove_dir_all(runtime).unwrap();
    }
}
