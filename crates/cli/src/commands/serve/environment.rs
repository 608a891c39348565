//! The environment that schedulers of a served device receive: rotational or not, service times, and their origin.
//!
//! A measurement decides where one is possible. The kernel's flag decides only against a head: Linux sets it on virtual disks whatever is
//! below them. No drive is assumed: without measured service times, schedulers receive none, and have no reason to wait.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use capture::profile::{Probe, Profile, ServiceTime};
use elevator::Span;
use elevator::queue::Limits;
use elevator::service_time::ServiceCurve;
use evaluation::device::Device;
use evaluation::report::format::time;
use schedulers::Environment;
use serde::{Deserialize, Serialize};
use server::control::device_number;
use server::supervisor::input;

use crate::commands::profile;
use crate::error::Error;

/// What schedulers receive, and where it comes from.
#[derive(Debug)]
pub(super) struct DeviceEnvironment {
    pub(super) environment: Environment,
    /// In words.
    reason: String,
}

/// What a measurement found, as a supervisor hands it over to its servers.
#[derive(Serialize, Deserialize, Debug)]
struct Measured {
    rotational: bool,
    service_time: Option<ServiceTime>,
    reason: String,
}

impl Measured {
    fn of(flag: Option<bool>, sample: impl FnOnce() -> Result<Option<ServiceTime>, capture::Error>) -> Self {
        let without =
            |reason: &str| Self { rotational: false, service_time: None, reason: reason.to_owned() };
        if flag == Some(false) {
            return without("the kernel reports a device that does not rotate");
        }
        match sample() {
            Ok(Some(sample)) => {
                let rotational = sample.rewards_waiting();
                let (near, far) = sample.near_and_far().unwrap_or_default();
                let (near, far) = (time(near.as_nanos()), time(far.as_nanos()));
                let reason = format!("distant reads take {far} and adjacent ones {near}, as sampled");
                Self { rotational, service_time: Some(sample), reason }
            }
            Ok(None) => without("it has too little data for a measurement, and no --profile is given"),
            Err(error) => without(&format!("not measured: {error}")),
        }
    }

    /// The device at `path`, measured once: a restarted server receives the result from its supervisor, because the disk may not answer.
    fn once(path: &Path) -> Result<Self, Error> {
        let mut key = OsString::from("sample of ");
        key.push(path);
        let measure = || {
            let found = Self::of(is_rotational(path), || Probe::sample(path));
            serde_json::to_vec(&found).map_err(io::Error::from)
        };
        let failed = |error: &io::Error| Error::file(path.display(), error);
        let kept = input(Path::new(&key), measure).map_err(|error| failed(&error))?;
        serde_json::from_slice(&kept).map_err(|error| failed(&error.into()))
    }
}

impl From<Measured> for DeviceEnvironment {
    fn from(Measured { rotational, service_time, reason }: Measured) -> Self {
        let none = || ServiceCurve::fit(&[], Span::ZERO);
        let service_times = service_time.map_or_else(none, |times| times.curve());
        Self { environment: Environment { service_times, rotational, ..Environment::default() }, reason }
    }
}

impl DeviceEnvironment {
    /// By the profile, the emulated drive, or a measurement.
    ///
    /// # Errors
    /// The profile cannot be read.
    pub(super) fn of(
        profile: Option<&Path>,
        device: Option<&Device>,
        path: Option<&Path>,
    ) -> Result<Self, Error> {
        if let Some(path) = profile {
            let Profile { rotational, service_time, .. } = profile::read(path)?;
            let reason = format!("by {}", path.display());
            return Ok(Measured { rotational, service_time: Some(service_time), reason }.into());
        }
        Ok(match (device, path) {
            (Some(device), _) => {
                let reason = "by the drive's description".to_owned();
                Self { environment: device.environment(&Limits::default()), reason }
            }
            (None, Some(path)) => Measured::once(path)?.into(),
            (None, None) => {
                Measured { rotational: false, service_time: None, reason: "in memory".to_owned() }.into()
            }
        })
    }

    /// What was found, in a line.
    pub(super) fn in_words(&self, scheduler: &str) -> String {
        let so = match (self.environment.rotational, scheduler.split('{').next()) {
            (true, _) => "; schedulers may wait for nearby requests",
            (false, Some("dwell")) => "; dwell does not wait",
            (false, Some("split-token" | "afq")) => "; requests cost their bytes",
            (false, _) => "",
        };
        let found = if self.environment.rotational { "with" } else { "without" };
        format!("device {found} a head: {}{so}", self.reason)
    }
}

/// The kernel's flag of a device, or of the one that a file is on.
fn is_rotational(path: &Path) -> Option<bool> {
    let found = fs::metadata(path).ok()?;
    let number = if found.file_type().is_block_device() { found.rdev() } else { found.dev() };
    let device = device_number::directory(Path::new("/sys"), device_number::split(number));
    // A partition's queue is the disk's.
    let flags = ["queue/rotational", "../queue/rotational"].map(|flag| device.join(flag));
    let flag = flags.iter().find_map(|flag| fs::read_to_string(flag).ok())?;
    Some(flag.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_drive_is_assumed() {
        for flag in [Some(false), Some(true), None] {
            let found = DeviceEnvironment::from(Measured::of(flag, || Ok(None)));
            assert!(!found.environment.rotational, "{}", found.in_words("dwell"));
            assert_eq!(found.environment.service_times.longest(), Span::ZERO);
        }
    }

    #[test]
    fn the_line_is_about_the_scheduler_in_use() {
        let line =
            |scheduler| DeviceEnvironment::from(Measured::of(Some(false), || Ok(None))).in_words(scheduler);
        assert!(line("dwell{streams=4}").ends_with("; dwell does not wait"));
        assert!(
            line("split-token").ends_with("; requests cost their bytes") && !line("deadline").contains(';')
        );
    }

    #[test]
    fn a_file_in_memory_has_no_head() {
        let path = Path::new("/dev/shm").join(format!("dwell-environment-{}", std::process::id()));
        if let Err(error) = fs::write(&path, vec![1; 8 << 20]) {
            return eprintln!("SKIPPED: {}: {error}", path.display());
        }
        let found = DeviceEnvironment::from(Measured::of(is_rotational(&path), || Probe::sample(&path)));
        fs::remove_file(&path).unwrap();
        assert!(!found.environment.rotational, "{}", found.in_words("dwell"));
    }
}
