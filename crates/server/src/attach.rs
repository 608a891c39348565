//! The attached device: the FUSE file, the loop device on it, how a later process continues both, and how they are taken down. Its
//! [record](records) is for later servers, also after a server that was killed.
//!
//! | the server | the device |
//! |---|---|
//! | ends in order, the device is unused | detached, unmounted |
//! | ends in order, the device is used | served until it is unused; under systemd 254 or later left to the next start |
//! | is killed, another process stores the descriptor | requests wait; the next process continues |
//! | is killed, no process does | its users get errors; a watcher of the supervisor, or the next server, takes down what is left |

mod records;

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use records::{
    PATIENCE, ProcessId, Record, Recovery, clean_up, node_of, record_of, record_path, refuse_twice, remove,
    write,
};
pub(crate) use records::{abandon_member, fail_requests, give_up, members_left, process, take_down_of};
use rustix::thread::{CapabilitySet, capabilities};

use crate::ServeError;
use crate::backend::Geometry;
use crate::buffer::LARGEST;
use crate::chosen::Chosen;
use crate::descriptor_store::{Store, Stored};
use crate::fuse::{Mount, Shared, abort, connection_number, unmount};
use crate::locks;
use crate::loop_device::{Lifetime, LoopDevice, QueueSettings};
use crate::private_directory;

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
        check_mount_capability()?;
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
        let server = ProcessId::of(std::process::id());
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
            let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
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
        record.server = ProcessId::of(std::process::id());
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
        let detaching = thread::Builder::new().name("detach".into()).spawn(move || {
            if let Err(error) = device.detach_apart() {
                say!("{}: {error}", device.path().display());
            }
        });
        let is_detaching = || detaching.as_ref().is_ok_and(|thread| !thread.is_finished());
        let began = Instant::now();
        let mut reported: Option<(Instant, Vec<String>)> = None;
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
            } else if began.elapsed() > PATIENCE {
                // Again if others use it: udev may assemble an array anew that was stopped.
                let users = waits.users();
                if reported.as_ref().is_none_or(|(at, known)| at.elapsed() > REPORTS && *known != users) {
                    let by = users.join(", ");
                    let by = if by.is_empty() { "the kernel" } else { &by };
                    say!(
                        "{}: still in use by {by}; served until then, or until a second signal",
                        path.display()
                    );
                    reported = Some((Instant::now(), users));
                }
                thread::sleep(USERS_STEP);
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

/// The time between two reports about its users: udev looks at each new device for a moment.
const REPORTS: Duration = Duration::from_secs(5);

/// Period of these checks while something uses it: the look at all processes takes time.
const USERS_STEP: Duration = Duration::from_millis(200);

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

/// The array stops: should this process die before all members are unused, the next one stops as well.
pub(crate) fn array_is_ending() {
    if let (Some(store), _) = Store::of_several(|_| false) {
        store.is_ending();
    }
}

/// Maximum time for which unfinished requests of a former process may use the source: a disk's error recovery takes up to a
/// minute.
pub(crate) const SOURCE_BUSY: Duration = Duration::from_secs(90);

/// Checks for missing capabilities at the start, for a clear message.
pub(crate) fn check_mount_capability() -> Result<(), ServeError> {
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
