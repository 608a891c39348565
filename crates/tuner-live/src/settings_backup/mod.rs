//! Settings backup: the values that a device's settings had before the tuner changed them, stored in a file, so that the next run restores
//! them if this process is killed.
//!
//! # Life of a file
//! [`SettingsBackup::begin`] writes the file before the first change. Dropping the backup restores the settings and removes the file. If the
//! process is killed the file stays, and [`restore_leftovers`] does the same at the next start on that device. A setting that the kernel rejects
//! keeps the file, and the next start tries again. The file names its process by number and start time, and the device by the inode of its queue
//! directory and the kernel's sequence number of its medium, because process numbers and device names are reused, and a loop device has another
//! file later. It is not flushed to the disk: settings do not survive a reboot either.
//!
//! # What is restored
//! Only values that the tuner set: a value that another process has set since stays. The file therefore also lists what each switch set, which
//! is everything that reads differently after the switch, as the kernel resets more than the scheduler. During a switch every value
//! counts as the tuner's own, except a third scheduler.
//!
//! # Trust
//! The file decides what root writes to sysfs. It is read only from a directory and with an owner that `PrivateDirectory` accepts, and it
//! may name only [`SETTINGS`] and the attributes in `iosched` of one device, with short printable values. [`QueueSettings::set`] also
//! rejects symbolic links that lead out of the device's queue directory.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use capture::{is_process, this_process};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::PrivateDirectory;
use crate::queue::{NO_SCHEDULER, QueueSettings, SETTINGS, arm_of, is_late};
use crate::system;

/// Where backups are stored. Only root can enter it.
pub const DIRECTORY: &str = "/run/dwell/tune";

/// A backup is about 1 KB long: four settings of the queue and some ten of the scheduler.
const LENGTH_MAX: u64 = 64 * 1024;
/// The longest value or attribute name. sysfs attributes are at most a page long, but settings are numbers and names.
const TEXT_MAX: usize = 256;

/// For each setting the values that the tuner gave it; an empty list accepts every value as the tuner's own.
type OwnValues = BTreeMap<String, Vec<String>>;

/// The content of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    pid: u32,
    started: u64,
    /// The kernel's identifier of this boot.
    boot: String,
    device: String,
    /// Of the queue's directory in sysfs.
    inode: Option<u64>,
    /// The device's sequence number: another medium, or another file of a loop device, has another one.
    #[serde(default)]
    diskseq: Option<u64>,
    before: Vec<(String, String)>,
    /// `None` if it is unknown what the tuner set: then every setting that differs is restored.
    set: Option<OwnValues>,
}

/// The settings of a device before the tuner changed them; restores them when it is dropped.
#[derive(Debug)]
pub struct SettingsBackup {
    directory: PrivateDirectory,
    queue: QueueSettings,
    record: Record,
    /// A failure to write the file was reported.
    is_failure_reported: bool,
}

/// The state of a queue at the start of a switch.
#[derive(Debug)]
pub(crate) struct Switch {
    from: Vec<Option<String>>,
    set: OwnValues,
}

impl SettingsBackup {
    /// Stores the present settings of `queue` in `directory`, or keeps the stored ones of a killed process that could not be restored.
    ///
    /// # Errors
    /// Another living process tunes the device, a stored file is damaged, or the file cannot be written.
    pub fn begin(directory: &Path, queue: &QueueSettings) -> Result<Self, Error> {
        let file = file_name(queue.name());
        let path = directory.join(&file);
        let failed = |source| Error::Backup { path: path.clone(), source };
        let directory = PrivateDirectory::create(directory).map_err(failed)?;
        let _lock = directory.lock().map_err(failed)?;
        let left = match Record::read(&directory, &file) {
            Ok(left) => Some(left),
            // It may be the only place that has the operator's settings.
            Err(problem) if path.exists() => {
                return Err(Error::Damaged { device: queue.name().to_owned(), path, problem });
            }
            Err(_) => None,
        };
        if let Some(other) = left.as_ref().filter(|left| left.is_alive()) {
            let problem = format!("{}: process {} already tunes it; end that first", queue.name(), other.pid);
            return Err(Error::Usage(problem));
        }
        let (pid, started) = this_process();
        let (before, set) = match left.filter(|left| left.is_obsolete(queue).is_none()) {
            Some(Record { before, set, .. }) => (before, set),
            None => (queue.all(), Some(OwnValues::new())),
        };
        let device = queue.name().to_owned();
        let (inode, diskseq) = (queue.inode(), queue.diskseq());
        let record = Record { pid, started, boot: boot(), device, inode, diskseq, before, set };
        record.write(&directory).map_err(failed)?;
        Ok(Self { directory, queue: queue.clone(), record, is_failure_reported: false })
    }

    /// Call before a switch to `scheduler`. Values that another process has set until now become the values to restore.
    pub(crate) fn begin_switch(&mut self, scheduler: &str) -> Switch {
        self.record.adopt_foreign(&self.queue);
        let from = self.record.readings(&self.queue);
        let set = self.record.set.replace(self.record.during_switch(&self.queue, scheduler));
        self.write();
        Switch { from, set: set.unwrap_or_else(|| self.record.everything()) }
    }

    /// Call after a switch, whether it succeeded or not.
    pub(crate) fn end_switch(&mut self, Switch { from, mut set }: Switch) {
        for (((setting, _), from), now) in
            self.record.before.iter().zip(from).zip(self.record.readings(&self.queue))
        {
            match now {
                Some(now) if from.as_ref() != Some(&now) => _ = set.insert(setting.clone(), vec![now]),
                Some(_) => {}
                None => _ = set.remove(setting),
            }
        }
        self.record.set = Some(set);
        self.write();
    }

    /// Whether dropping this sets a scheduler with a setting that has no effect on programs whose requests come between the two.
    pub(crate) fn restores_late(&self) -> bool {
        self.record.is_of(&self.queue)
            && self.record.target(&self.record.foreign(&self.queue)).is_set_late(&self.queue)
    }

    /// Tuning goes on if this fails: only after a kill would an outdated file matter.
    fn write(&mut self) {
        let written = self.record.write(&self.directory);
        if written.is_err() {
            // By the outdated file the tuner's latest values would be another process's.
            let unknown = Record { set: None, ..self.record.clone() };
            let text = serde_json::to_vec(&unknown).unwrap_or_default();
            let _ = self.directory.overwrite(&file_name(&self.record.device), text);
        }
        if let Err(source) = &written
            && !self.is_failure_reported
        {
            let path = self.directory.path(&file_name(&self.record.device));
            system::warn(&format!(
                "{}: {source}; if this process is killed, the next start may not restore every setting",
                path.display()
            ));
        }
        self.is_failure_reported = written.is_err();
    }
}

impl Drop for SettingsBackup {
    fn drop(&mut self) {
        if !self.record.is_of(&self.queue) {
            let _ = self.directory.remove(&file_name(&self.record.device));
            return;
        }
        let Restored { foreign, problems, .. } = restore(&self.directory, &self.queue, &self.record);
        foreign.iter().chain(&problems).for_each(|line| system::warn(line));
    }
}

/// A slash in a device's name is `!` in sysfs.
fn file_name(device: &str) -> String {
    format!("{}.json", device.replace('/', "!"))
}

/// Restores what killed processes have changed of the `named` devices (names in `block`, which is `/sys/block`); returns what was done, a line each,
/// and a line for each other device that has such settings. Without permission to enter the directory, or where it is missing, there is nothing to do.
#[must_use]
pub fn restore_leftovers(directory: &Path, block: &Path, named: &[&str]) -> Vec<String> {
    let path = directory;
    let directory = match PrivateDirectory::open(directory) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        // Not even a look into it is allowed.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => return Vec::new(),
        Err(error) => {
            return vec![format!("{}: {error}; the settings backups in it are ignored", path.display())];
        }
    };
    let Ok(_lock) = directory.lock() else { return Vec::new() };
    let files = directory.names().into_iter().filter(|name| name.ends_with(".json"));
    files.flat_map(|file| restore_leftover(&directory, &file, block, named)).collect()
}

fn restore_leftover(directory: &PrivateDirectory, file: &str, block: &Path, named: &[&str]) -> Vec<String> {
    let record = match Record::read(directory, file) {
        Ok(record) if record.is_alive() => return Vec::new(),
        Ok(record) => record,
        Err(problem) => {
            let device = file.trim_end_matches(".json").to_owned();
            let unusable = Unusable { device, path: directory.path(file), problem };
            return vec![format!("{unusable}; {}", unusable.remedy())];
        }
    };
    let queue = QueueSettings::within(block, &record.device);
    let Record { device, pid, .. } = &record;
    if let Some(why) = record.is_obsolete(&queue) {
        let _ = directory.remove(file);
        return vec![format!("{device}: process {pid} was killed, and {why} since; nothing is restored")];
    }
    // The user did not name that device: another program may measure it.
    if !named.iter().any(|name| file_name(name) == file) {
        return record.left_behind(&queue).iter().map(LeftBehind::with_remedy).collect();
    }
    let _claim = match queue.claim() {
        Ok(claim) => claim,
        Err(why) => {
            return vec![format!(
                "{why}; the settings that process {pid} had changed before it was killed stay until then"
            )];
        }
    };
    let Restored { settings, foreign, problems } = restore(directory, &queue, &record);
    let settings = settings.join(" ");
    let mut lines = Vec::new();
    if !problems.is_empty() {
        let path = directory.path(file);
        lines.push(format!(
            "{device}: not every setting could be restored after process {pid} was killed, only: {settings}; the next start tries again, unless you remove {}",
            path.display()
        ));
    } else if !settings.is_empty() {
        lines.push(format!("{device}: restored after process {pid} was killed: {settings}"));
    }
    lines.into_iter().chain(foreign).chain(problems).collect()
}

/// The values of a queue before a killed process changed them, where they differ from the present ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftBehind {
    device: String,
    /// The killed process.
    pub pid: u32,
    /// The scheduler before.
    pub scheduler: String,
    /// The differing values before, the scheduler's included.
    pub before: Vec<(String, String)>,
    /// All values before, also those of its scheduler, which another one does not have.
    all: Vec<(String, String)>,
}

impl LeftBehind {
    /// The state before, as an arm: `none{nr_requests=77}`.
    #[must_use]
    pub fn arm(&self) -> String {
        arm_of(&self.scheduler, &self.before)
    }

    /// The same with all settings, which another scheduler resets.
    #[must_use]
    pub fn complete_arm(&self) -> String {
        arm_of(&self.scheduler, &self.all)
    }

    /// A line with both.
    #[must_use]
    pub fn with_remedy(&self) -> String {
        format!("{self}; '{}' restores that", self.remedy())
    }

    /// The command that restores them.
    #[must_use]
    pub fn remedy(&self) -> String {
        format!("dwell tune /dev/{} --restore", self.device.replace('!', "/"))
    }
}

impl fmt::Display for LeftBehind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, pid, before, .. } = self;
        let before: Vec<String> = before.iter().map(|(name, value)| format!("{name}={value}")).collect();
        write!(
            out,
            "{device}: process {pid} changed its settings and was killed; before: {}",
            before.join(" ")
        )
    }
}

/// A backup that exists and from which nothing can be restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unusable {
    /// As sysfs names it.
    device: String,
    path: PathBuf,
    problem: String,
}

impl Unusable {
    /// What the operator has to do.
    #[must_use]
    pub fn remedy(&self) -> String {
        let Self { device, path, .. } = self;
        format!(
            "if /sys/block/{device}/queue/scheduler is not the intended one, set that; then rm {}",
            path.display()
        )
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, path, problem } = self;
        let path = path.display();
        write!(out, "{path}: {problem}, so that the settings of {device} before a killed tuner are unknown")
    }
}

/// What [`restore_leftovers`] would restore of a queue, if anything. Without permission to enter the directory, nothing.
///
/// # Errors
/// There is a file, but it is damaged, or another user can write to it.
pub fn left_behind(directory: &Path, queue: &QueueSettings) -> Result<Option<LeftBehind>, Unusable> {
    let file = file_name(queue.name());
    let unusable = |problem| {
        let device = queue.name().replace('/', "!");
        Unusable { device, path: directory.join(&file), problem }
    };
    let opened = match PrivateDirectory::open(directory) {
        Ok(opened) => opened,
        Err(error) if error.raw_os_error().is_some() => return Ok(None),
        Err(_) if !is_kept(directory, queue) => return Ok(None),
        Err(error) => return Err(unusable(format!("the directory is ignored ({error})"))),
    };
    match Record::read(&opened, &file) {
        Ok(record) => Ok(record.left_behind(queue)),
        Err(_) if !is_kept(directory, queue) => Ok(None),
        Err(problem) => Err(unusable(problem)),
    }
}

impl Record {
    /// What has to be restored of the queue.
    fn left_behind(self, queue: &QueueSettings) -> Option<LeftBehind> {
        if self.is_alive() || self.is_obsolete(queue).is_some() {
            return None;
        }
        let target = self.target(&self.foreign(queue));
        let scheduler = target
            .before("scheduler")
            .map_or_else(|| queue.get("scheduler").ok(), |of| Some(of.to_owned()))?;
        let all = target.before;
        let before: Vec<_> = all.iter().filter(|it| differs(queue, it)).cloned().collect();
        (!before.is_empty()).then(|| LeftBehind {
            device: queue.name().to_owned(),
            pid: self.pid,
            scheduler,
            before,
            all,
        })
    }
}

/// Whether a queue's settings wait for the end of a living process, or for another attempt to restore them.
#[must_use]
pub fn is_kept(directory: &Path, queue: &QueueSettings) -> bool {
    directory.join(file_name(queue.name())).exists()
}

/// Whether a readable setting has another value.
fn differs(queue: &QueueSettings, (setting, value): &(String, String)) -> bool {
    queue.get(setting).is_ok_and(|now| now != *value)
}

/// The result of restoring a device.
struct Restored {
    /// Settings that had other values, as `name=value`.
    settings: Vec<String>,
    /// A line for each value that another process has set.
    foreign: Vec<String>,
    /// A line for each setting that the kernel rejected.
    problems: Vec<String>,
}

/// Restores what the tuner has set, and removes the file unless the kernel rejected a setting.
fn restore(directory: &PrivateDirectory, queue: &QueueSettings, record: &Record) -> Restored {
    let foreign = record.foreign(queue);
    let target = record.target(&foreign);
    let differed: Vec<bool> = target.before.iter().map(|it| differs(queue, it)).collect();
    if differed.contains(&true) {
        // A kill after the scheduler is restored leaves the kernel's own values in the other settings.
        let _ = target.write(directory);
    }
    // A new instance, as for each arm; a failure shows when the scheduler is set.
    if target.is_set_late(queue) {
        let _ = queue.set("scheduler", NO_SCHEDULER);
    }
    let (mut settings, mut problems) = (Vec::new(), Vec::new());
    for (each @ (setting, value), differed) in target.before.iter().zip(differed) {
        match differs(queue, each).then(|| queue.set(setting, value)) {
            Some(Err(problem)) => problems.push(problem.to_string()),
            // The kernel may have reset it together with the scheduler.
            Some(Ok(())) | None if differed => settings.push(format!("{setting}={value}")),
            _ => {}
        }
    }
    // A rejected setting is restored later only if it still has the tuner's value.
    let _ = match problems.is_empty() {
        true => directory.remove(&file_name(&record.device)),
        false => Record { set: record.set.clone(), ..target.clone() }.write(directory),
    };
    let line = |(name, value): &(String, String)| {
        format!("{}: another process has set {name}={value} since; keeping that", record.device)
    };
    let stays = foreign.iter().any(|(name, _)| name == "scheduler");
    let is_of_interest = |name: &str| !stays || matches!(name, "scheduler" | "read_ahead_kb");
    let foreign = foreign.iter().filter(|(name, _)| is_of_interest(name)).map(line);
    Restored { settings, foreign: foreign.collect(), problems }
}

/// Whether the tuner may write this attribute of a queue.
fn is_allowed(setting: &str) -> bool {
    let plain = |name: &str| {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        !name.is_empty() && name.len() <= TEXT_MAX && name.bytes().all(valid)
    };
    // The kernel puts nothing but the scheduler's tunables there, by names that depend on the scheduler.
    SETTINGS.contains(&setting) || setting.strip_prefix("iosched/").is_some_and(plain)
}

impl Record {
    /// Reads and checks a file.
    fn read(directory: &PrivateDirectory, file: &str) -> Result<Self, String> {
        let bytes = directory.read(file, LENGTH_MAX).map_err(|error| match error.raw_os_error() {
            Some(_) => format!("cannot be read ({error})"),
            None => error.to_string(),
        })?;
        let record: Self = serde_json::from_slice(&bytes).map_err(|error| format!("is damaged ({error})"))?;
        record.check(file)?;
        Ok(record)
    }

    fn check(&self, file: &str) -> Result<(), String> {
        if file_name(&self.device) != file || self.device.is_empty() || self.device.contains(['/', '\0']) {
            return Err(format!("names the device '{}'", self.device.escape_default()));
        }
        let of_own = self.set.iter().flatten();
        let names = self.before.iter().map(|(name, _)| name).chain(of_own.clone().map(|(name, _)| name));
        if let Some(name) = names.into_iter().find(|name| !is_allowed(name)) {
            return Err(format!("names '{}', which is no setting of a queue", name.escape_default()));
        }
        let values = self.before.iter().map(|(_, value)| value).chain(of_own.flat_map(|(_, values)| values));
        let printable = |value: &&String| value.len() <= TEXT_MAX && !value.contains(char::is_control);
        match values.into_iter().find(|value| !printable(value)) {
            Some(value) => Err(format!("holds the value '{:.60}'", value.escape_default().to_string())),
            None => Ok(()),
        }
    }

    fn write(&self, directory: &PrivateDirectory) -> io::Result<()> {
        directory.replace(&file_name(&self.device), &serde_json::to_vec(self)?)
    }

    /// Whether the process that wrote it still runs.
    fn is_alive(&self) -> bool {
        self.is_of_this_boot() && is_process(self.pid, self.started)
    }

    /// Settings do not survive a reboot, and the name may be another device's then.
    fn is_of_this_boot(&self) -> bool {
        self.boot == boot()
    }

    /// Whether it is of this queue and not of an earlier device with the same name.
    fn is_of(&self, queue: &QueueSettings) -> bool {
        queue.exists() && self.inode.is_none_or(|stored| queue.inode() == Some(stored))
    }

    /// Why there is nothing to restore, if so: "... since".
    fn is_obsolete(&self, queue: &QueueSettings) -> Option<&'static str> {
        match () {
            () if !self.is_of_this_boot() => Some("the machine was restarted"),
            () if !self.is_of(queue) => Some("the device was removed"),
            () if self.diskseq.is_some_and(|stored| queue.diskseq() != Some(stored)) => {
                Some("the device got another medium or file")
            }
            () => None,
        }
    }

    /// Whether the queue gets a scheduler with a setting that has no effect on programs whose requests come before it.
    fn is_set_late(&self, queue: &QueueSettings) -> bool {
        let of_scheduler = |setting: &str| self.before(&format!("iosched/{setting}"));
        let is_changed = |(name, _): &&(String, String)| name == "scheduler" || name == "iosched/low_latency";
        self.before("scheduler").is_some_and(|scheduler| is_late(scheduler, of_scheduler))
            && self.before.iter().filter(is_changed).any(|each| differs(queue, each))
    }

    fn before(&self, setting: &str) -> Option<&str> {
        self.before.iter().find(|(name, _)| name == setting).map(|(_, value)| value.as_str())
    }

    /// The present value of each stored setting; of a scheduler's settings only while that scheduler is in use, as others have settings
    /// of the same name.
    fn readings(&self, queue: &QueueSettings) -> Vec<Option<String>> {
        let same = queue.get("scheduler").is_ok_and(|now| self.before("scheduler") == Some(now.as_str()));
        let reads = |name: &String| queue.get(name).ok().filter(|_| same || !name.starts_with("iosched/"));
        self.before.iter().map(|(name, _)| reads(name)).collect()
    }

    /// Settings with a value that is neither the stored one nor the tuner's.
    fn foreign(&self, queue: &QueueSettings) -> Vec<(String, String)> {
        let each = self.before.iter().zip(self.readings(queue));
        let reads = each.filter_map(|((name, before), now)| Some((name, before, now?)));
        let foreign = reads.filter(|(name, before, now)| now != *before && !self.is_own(name, now));
        foreign.map(|(name, _, now)| (name.clone(), now)).collect()
    }

    /// The same with the values that a restoration sets, all of them this process's own then. `foreign` has the other processes' values, which stay.
    fn target(&self, foreign: &[(String, String)]) -> Self {
        let stays = |setting: &str| foreign.iter().any(|(name, _)| name == setting);
        // With another process's scheduler, the kernel has reset every other setting.
        let concerned = |setting: &str| !stays("scheduler") || setting == "read_ahead_kb";
        let mut target = Self { set: Some(self.everything()), ..self.clone() };
        target.before.retain(|(setting, _)| concerned(setting));
        // Restoring the scheduler resets another process's values, too.
        target.before.iter_mut().for_each(|(setting, value)| {
            foreign.iter().filter(|(name, _)| name == setting).for_each(|(_, now)| value.clone_from(now));
        });
        target
    }

    /// Whether the tuner has given a setting that value.
    fn is_own(&self, setting: &str, value: &String) -> bool {
        let Some(set) = &self.set else { return true };
        set.get(setting).is_some_and(|own| own.is_empty() || own.contains(value))
    }

    /// Makes values that another process has set, except the scheduler, the values to restore.
    fn adopt_foreign(&mut self, queue: &QueueSettings) {
        for (setting, now) in self.foreign(queue) {
            let stored = self.before.iter_mut().find(|(name, _)| *name == setting && name != "scheduler");
            let Some((_, before)) = stored else { continue };
            *before = now;
            self.set.iter_mut().for_each(|set| _ = set.remove(&setting));
        }
    }

    /// Every setting, with any value, as the tuner's own.
    fn everything(&self) -> OwnValues {
        self.before.iter().map(|(name, _)| (name.clone(), Vec::new())).collect()
    }

    /// The tuner's own values while the queue is switched to a scheduler.
    fn during_switch(&self, queue: &QueueSettings, scheduler: &str) -> OwnValues {
        // A switch to the scheduler in use passes through `none`.
        let through = [scheduler, NO_SCHEDULER].map(str::to_owned);
        let schedulers = queue.get("scheduler").into_iter().chain(through).collect();
        let mut set = self.everything();
        set.insert("scheduler".to_owned(), schedulers);
        set
    }
}

/// The kernel's identifier of this boot.
fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.map_or_else(|_| String::new(), |id| id.trim().to_owned())
}

#[cfg(test)]
mod tests;
