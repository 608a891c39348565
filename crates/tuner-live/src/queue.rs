//! A queue's settings in sysfs.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use capture::topology::schedulers;

use crate::error::Error;
use crate::kernel_defaults;
use crate::stable::{Property, UDEV};
use crate::system;

/// Settings that the tuner changes, in the order of restoring: a new scheduler resets `nr_requests`.
pub const SETTINGS: [&str; 4] = ["scheduler", "nr_requests", "read_ahead_kb", "wbt_lat_usec"];

/// The absence of a scheduler, which every queue offers.
pub(crate) const NO_SCHEDULER: &str = "none";

/// The system's block devices.
pub(crate) const BLOCK: &str = "/sys/block";

/// `/sys/block/NAME/queue`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueSettings {
    name: String,
    directory: PathBuf,
}

impl QueueSettings {
    /// The queue of a device by its name in `/sys/block`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self::within(Path::new(BLOCK), name)
    }

    /// The queue of a device in a tree like `/sys/block`.
    #[must_use]
    pub fn within(block: &Path, name: &str) -> Self {
        Self { name: name.to_owned(), directory: block.join(name).join("queue") }
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file of a setting.
    #[must_use]
    pub fn file(&self, setting: &str) -> PathBuf {
        self.directory.join(setting)
    }

    /// Whether the device still exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.directory.exists()
    }

    /// The inode of its directory. A later device with the same name has another one; a loop device keeps it, whatever file is attached.
    #[must_use]
    pub fn inode(&self) -> Option<u64> {
        fs::metadata(&self.directory).ok().map(|found| found.ino())
    }

    /// The kernel's number of the device's medium, since Linux 5.15: another medium, or another file of a loop device, has another one.
    #[must_use]
    pub fn diskseq(&self) -> Option<u64> {
        fs::read_to_string(self.directory.parent()?.join("diskseq")).ok()?.trim().parse().ok()
    }

    /// The device's size in sectors, if known.
    #[must_use]
    pub fn sectors(&self) -> Option<u64> {
        fs::read_to_string(self.directory.parent()?.join("size")).ok()?.trim().parse().ok()
    }

    /// A property that identifies the device whatever its name is, if it has one.
    #[must_use]
    pub fn property(&self) -> Option<Property> {
        Property::of(self.directory.parent()?.parent()?, Path::new(UDEV), &self.name)
    }

    /// The device's property if no udev rule can match it, as its value has characters that a rule reads as a pattern or as its end.
    #[must_use]
    pub fn unusable_property(&self) -> Option<Property> {
        Property::unusable(self.directory.parent()?.parent()?, Path::new(UDEV), &self.name)
    }

    /// A path below `/dev` that leads to the device whatever its name is, if udev has made one.
    #[must_use]
    pub fn link(&self) -> Option<String> {
        Property::link(self.directory.parent()?.parent()?, Path::new(UDEV), &self.name)
    }

    /// A shell's expression for the device's kernel name, by what stays the same when the kernel exchanges names. `None` if there is no such thing.
    #[must_use]
    pub fn name_by_property(&self) -> Option<String> {
        Property::name_in_a_shell(self.directory.parent()?.parent()?, Path::new(UDEV), &self.name)
    }

    /// A setting's value; for `scheduler` the one in use.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device was removed, otherwise why the file cannot be read.
    pub fn get(&self, setting: &str) -> Result<String, Error> {
        let text = fs::read_to_string(self.file(setting)).map_err(|error| self.failed(setting, error))?;
        let text = text.trim();
        if setting != "scheduler" {
            return Ok(text.to_owned());
        }
        schedulers(text).0.ok_or_else(|| {
            Error::Usage(format!("{}: no active scheduler in '{text}'", self.file(setting).display()))
        })
    }

    /// The schedulers that the kernel offers.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn offered(&self) -> Result<Vec<String>, Error> {
        let text = fs::read_to_string(self.file("scheduler")).map_err(|e| self.failed("scheduler", e))?;
        Ok(schedulers(&text).1)
    }

    /// Writes a setting, at normal priority.
    ///
    /// # Errors
    /// [`Error::Gone`] if the device was removed, otherwise [`Error::Rejected`].
    pub fn set(&self, setting: &str, value: &str) -> Result<(), Error> {
        let path = self.file(setting);
        let rejected =
            |source| Error::Rejected { what: path.display().to_string(), value: value.to_owned(), source };
        // Opened without creating: after the device is removed, a new file would be no setting.
        let write = |value: &str| {
            if !path.canonicalize()?.starts_with(self.directory.canonicalize()?) {
                let problem = "the path leads out of the device's queue directory";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
            }
            let mut file = fs::OpenOptions::new().write(true).truncate(true).open(&path)?;
            io::Write::write_all(&mut file, value.as_bytes())
        };
        let written = system::at_normal_priority(|| {
            if setting == "nr_requests"
                && let Ok(number) = value.parse::<u32>()
            {
                // The kernel ignores its present number, although the driver's tags may differ.
                let _ = write(&another(number).to_string());
            }
            write(value)
        });
        match written {
            Ok(()) => Ok(()),
            Err(_) if !self.exists() => Err(Error::Gone(self.name.clone())),
            Err(source) => Err(rejected(source)),
        }
    }

    /// The present values of all settings that exist: (setting, value) in the order of [`SETTINGS`], then those of the scheduler in use.
    #[must_use]
    pub fn all(&self) -> Vec<(String, String)> {
        let known = |setting: String| Some((setting.clone(), self.get(&setting).ok()?));
        let queue = SETTINGS.iter().map(|setting| (*setting).to_owned());
        queue.chain(self.of_scheduler()).filter_map(known).collect()
    }

    /// The scheduler in use with the settings that it would not have after a switch to another arm and back: those that are not the kernel's defaults, and
    /// those that `other` sets.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn arm_before(&self, other: &str) -> Result<String, Error> {
        let scheduler = self.get("scheduler")?;
        let inside = other.split_once('{').map_or("", |(_, inside)| inside);
        let named = |setting: &str| {
            inside
                .split([',', '}'])
                .any(|one| one.split('=').next().is_some_and(|name| name.trim() == setting))
        };
        let is_lost = |(name, value): &(String, String)| {
            let setting = name.trim_start_matches("iosched/");
            named(setting)
                || match setting {
                    // The kernel keeps the first one, and resets the other with the scheduler's own switch unless it was set.
                    "read_ahead_kb" | "wbt_lat_usec" => false,
                    "nr_requests" => self.usual_requests(&scheduler).as_ref() != Some(value),
                    // As many as requests since Linux 6.18.
                    "async_depth" => self.get("nr_requests").ok().as_ref() != Some(value),
                    _ => !kernel_defaults::is_default(&scheduler, setting, value).unwrap_or(false),
                }
        };
        let mut settings = self.all();
        settings.retain(is_lost);
        Ok(arm_of(&scheduler, &settings))
    }

    /// The number of requests that a switch to a scheduler sets, if the driver's tags are known.
    fn usual_requests(&self, scheduler: &str) -> Option<String> {
        /// `BLKDEV_DEFAULT_RQ`
        const MOST: u32 = 128;
        let tags = fs::read_to_string(self.directory.parent()?.join("mq/0/nr_tags")).ok()?;
        let tags: u32 = tags.trim().parse().ok()?;
        Some(if scheduler == NO_SCHEDULER { tags } else { 2 * tags.min(MOST) }.to_string())
    }

    /// The settings of the scheduler in use: `iosched/fifo_batch`. Dwell's elevators also have statistics there, which are only read, and
    /// files that are only written.
    fn of_scheduler(&self) -> Vec<String> {
        const READ_AND_WRITTEN: u32 = 0o600;
        let files = fs::read_dir(self.file("iosched")).into_iter().flatten().flatten();
        let is_setting = |file: &fs::DirEntry| {
            file.metadata().is_ok_and(|found| found.mode() & READ_AND_WRITTEN == READ_AND_WRITTEN)
        };
        let mut settings: Vec<String> = files
            .filter(is_setting)
            .map(|file| format!("iosched/{}", file.file_name().to_string_lossy()))
            .collect();
        settings.sort();
        settings
    }

    /// The error for a setting that cannot be read under `scheduler`, which is in use: it has no such setting, or the device was removed.
    pub(crate) fn lacks(&self, scheduler: &str, setting: &str, error: Error) -> Error {
        if !self.exists() || SETTINGS.contains(&setting) {
            return error;
        }
        let own = self.of_scheduler();
        let own = own.iter().filter_map(|setting| setting.strip_prefix("iosched/"));
        Error::no_setting(&self.name, scheduler, setting, own)
    }

    pub(crate) fn failed(&self, setting: &str, error: io::Error) -> Error {
        if self.exists() { Error::file(&self.file(setting), error) } else { Error::Gone(self.name.clone()) }
    }
}

/// A number of requests that differs from this one for the kernel, whose minimum is 4.
const fn another(number: u32) -> u32 {
    if number > 4 { number - 1 } else { 5 }
}

/// Whether requests that come between the switch to a scheduler and its settings have a lasting effect. `setting` has the value of a setting of the
/// scheduler, if it is set.
pub(crate) fn is_late<'a>(scheduler: &str, setting: impl FnOnce(&str) -> Option<&'a str>) -> bool {
    scheduler == "bfq" && setting("low_latency") == Some("0")
}

/// An arm of a scheduler and values of settings, among which the scheduler is left out.
pub(crate) fn arm_of(scheduler: &str, values: &[(String, String)]) -> String {
    let settings = values.iter().filter(|(name, _)| name != "scheduler");
    let settings = settings.map(|(name, value)| format!("{}={value}", name.trim_start_matches("iosched/")));
    let settings: Vec<String> = settings.collect();
    let braces = if settings.is_empty() { String::new() } else { format!("{{{}}}", settings.join(",")) };
    format!("{scheduler}{braces}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::Tree;

    #[test]
    fn what_a_scheduler_only_shows_or_only_takes_is_no_setting() {
        let tree = Tree::new("only-shown");
        let queue = tree.queue("sda");
        let own = queue.file("iosched");
        fs::create_dir(&own).unwrap();
        for (name, mode) in [("fifo_batch", 0o644), ("stats", 0o444), ("service_times", 0o200)] {
            fs::write(own.join(name), "16\n").unwrap();
            fs::set_permissions(own.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(queue.of_scheduler(), ["iosched/fifo_batch"]);
    }

    /// Regression: the line that reverts a recommendation had all of bfq's settings at the kernel's defaults.
    #[test]
    fn what_a_switch_restores_is_left_out() {
        let tree = Tree::new("arm-before");
        let queue = tree.queue("sda");
        let own = queue.file("iosched");
        fs::create_dir(&own).unwrap();
        fs::write(queue.file("scheduler"), "none mq-deadline [bfq]\n").unwrap();
        let with = |timeout: &str, seek: &str| {
            for (name, value) in [
                ("low_latency", "1"),
                ("timeout_sync", timeout),
                ("back_seek_max", seek),
                ("of_a_later_kernel", "7"),
            ] {
                fs::write(own.join(name), format!("{value}\n")).unwrap();
                fs::set_permissions(own.join(name), fs::Permissions::from_mode(0o644)).unwrap();
            }
        };
        with("124", "16384");
        let before = |other: &str| queue.arm_before(other).unwrap();
        // The tree has no tags, so that the usual number of requests is unknown.
        assert_eq!(before("none"), "bfq{nr_requests=64,of_a_later_kernel=7}");
        let tags = queue.file("").parent().unwrap().join("mq/0");
        fs::create_dir_all(&tags).unwrap();
        fs::write(tags.join("nr_tags"), "32\n").unwrap();
        assert_eq!(before("none"), "bfq{of_a_later_kernel=7}");
        assert_eq!(
            before("bfq{low_latency=0, read_ahead_kb=64}"),
            "bfq{read_ahead_kb=128,low_latency=1,of_a_later_kernel=7}"
        );
        with("99", "1024");
        fs::write(tags.join("nr_tags"), "31\n").unwrap();
        assert_eq!(
            before("none"),
            "bfq{nr_requests=64,back_seek_max=1024,of_a_later_kernel=7,timeout_sync=99}"
        );
    }

    #[test]
    fn the_intermediate_number_always_differs_for_the_kernel() {
        for number in [0, 1, 3, 4, 5, 6, 128] {
            assert_ne!(another(number).max(4), number.max(4), "{number}");
        }
    }
}
