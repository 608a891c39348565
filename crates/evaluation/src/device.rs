//! The modelled drive, or array of drives, that a name or file describes.

use std::cell::RefCell;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use disks::array::{ArrayDescription, Geometry, Link, Linked, Striped};
use disks::{Drive, DriveDescription, DriveParameters, SkewedClock, catalogue};
use elevator::Sector;
use elevator::queue::{Barriers, Limits};
use elevator::service_time::ServiceCurve;
use schedulers::Environment;
use server::control::problem;
use server::supervisor::{input, read_at_most};

use crate::error::Error;

/// Puts something around each drive that a [`Device`] builds.
pub type Wrapper = Arc<dyn Fn(Box<dyn Drive + Send>) -> Box<dyn Drive + Send> + Send + Sync>;

/// A drive's description with its service times, and the array that such drives form, if any.
#[derive(Clone)]
pub struct Device {
    name: String,
    description: DriveDescription,
    capacity: Sector,
    service_times: ServiceCurve,
    array: Option<ArrayDescription>,
    wrapper: Option<Wrapper>,
    /// The drive accepts a flush while other commands are in flight, as it would with `queues_flushes` in its description.
    queues_flushes: bool,
}

/// Length of a file that the readers of descriptions accept.
const DESCRIPTION_MAX: u64 = 16 << 20;

/// Opens the files of a description; a file that the description names is relative to the description.
fn resolver(description: &str) -> impl FnMut(&str) -> io::Result<Box<dyn Read>> {
    let beside = Path::new(description).parent().map(Path::to_owned).unwrap_or_default();
    let description = description.to_owned();
    move |file| {
        let path = if file == description { PathBuf::from(file) } else { beside.join(file) };
        let bytes = input(&path, || read_at_most(&path, DESCRIPTION_MAX + 1))
            .map_err(|error| io::Error::new(error.kind(), problem::reading(&error)))?;
        if bytes.len() as u64 > DESCRIPTION_MAX {
            let problem = "is longer than 16 MiB; name a description of a drive";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        // Those of DiskSim may have comments in any encoding.
        let is_disksim = [".diskspecs", ".parv"].iter().any(|ending| file.ends_with(ending));
        if !is_disksim && std::str::from_utf8(&bytes).is_err() {
            let problem = "is not text (UTF-8); name a description of a drive (.toml, .diskspecs or .parv)";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(Box::new(Cursor::new(bytes)))
    }
}

impl Device {
    /// Opens the built-in drive or the file `name`, which may have overrides in braces.
    ///
    /// # Errors
    /// No such drive ([`Error::Usage`]), or a description that is not possible ([`Error::Input`]).
    pub fn open(name: &str) -> Result<Self, Error> {
        let description = describe(name)?;
        let wrong = |e: disks::DescriptionError| Error::Input(e.to_string());
        let capacity = description.capacity().map_err(wrong)?;
        let service_times = description.service_curve().map_err(wrong)?;
        description.build().map_err(wrong)?;
        let name = name.to_owned();
        let queues_flushes = description.queues_flushes();
        let (array, wrapper) = (None, None);
        Ok(Self { name, description, capacity, service_times, array, wrapper, queues_flushes })
    }

    /// The same device, but schedulers receive these service times instead of the drive's own.
    #[must_use]
    pub fn with_service_times(self, service_times: ServiceCurve) -> Self {
        Self { service_times, ..self }
    }

    /// An array of such drives: `raid0:5x64k`.
    ///
    /// # Errors
    /// The description is wrong, or a drive is smaller than a stripe unit.
    pub fn in_array(self, array: &str) -> Result<Self, Error> {
        let array = ArrayDescription::parse(array).map_err(|e| Error::Usage(e.to_string()))?;
        if array.geometry(self.capacity).capacity() == Sector(0) {
            return Err(Error::Usage(format!(
                "{}: a drive is smaller than a stripe unit of {array}",
                self.name
            )));
        }
        Ok(Self { array: Some(array), ..self })
    }

    /// The same device with `wrapper` around each drive, inside any earlier wrapper's result. `queues_flushes` states whether the
    /// wrapped drive accepts flushes while other commands are in flight; `None` keeps the drive's own answer.
    #[must_use]
    pub fn wrapped(self, wrapper: Wrapper, queues_flushes: Option<bool>) -> Self {
        let queues_flushes = queues_flushes.unwrap_or(self.queues_flushes);
        let both: Wrapper = match self.wrapper {
            Some(inner) => Arc::new(move |drive| wrapper(inner(drive))),
            None => wrapper,
        };
        Self { wrapper: Some(both), queues_flushes, ..self }
    }

    /// The array, if the device is one.
    pub const fn array(&self) -> Option<&ArrayDescription> {
        self.array.as_ref()
    }

    /// The layout of the array, if the device is one.
    pub fn geometry(&self) -> Option<Geometry> {
        self.array.as_ref().map(|array| array.geometry(self.capacity))
    }

    /// Capacity of the drive or array.
    pub fn capacity(&self) -> Sector {
        self.geometry().map_or(self.capacity, |geometry| geometry.capacity())
    }

    /// Commands that one drive queues.
    pub fn depth(&self) -> u32 {
        self.description.depth()
    }

    /// What happens to a depth that the drive does not have; `None` if it has it.
    pub fn depth_note(&self, asked: u32) -> Option<String> {
        let most = self.depth();
        (asked > most).then(|| {
            let commands = elevator::text::counted(u64::from(most), "command");
            format!("depth {asked}: {} queues at most {commands}; the depth is {most}", self.name())
        })
    }

    /// How far a queue in front of this device must separate a flush from other requests, given the host's own minimum.
    pub fn barriers(&self, least: Barriers) -> Barriers {
        if least == Barriers::Completed && !self.queues_flushes { Barriers::Alone } else { least }
    }

    /// The specification that opened the drive.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device in one line.
    pub fn describe(&self) -> String {
        let drive = format!("{}: {}", self.name, self.description.summary);
        self.array.as_ref().map_or_else(|| drive.clone(), |array| format!("{array} of {drive}"))
    }

    /// Statements of the description that the model ignores or changes.
    pub fn notes(&self) -> &[String] {
        &self.description.notes
    }

    /// What schedulers receive about the device and the limits of its queue.
    pub fn environment(&self, limits: &Limits) -> Environment {
        Environment {
            service_times: self.service_times.clone(),
            rotational: self.rotational(),
            nr_requests: limits.both_directions(),
        }
    }

    /// Whether the drive has a moving head.
    pub const fn rotational(&self) -> bool {
        matches!(self.description.parameters, DriveParameters::Rotating(_))
    }

    /// A drive of this kind, idle.
    ///
    /// # Panics
    /// Never: [`Device::open`] built the same description before.
    pub fn build(&self) -> Box<dyn Drive + Send> {
        let drive = self.description.build().expect("Device::open built this description before");
        match &self.wrapper {
            Some(wrapper) => wrapper(drive),
            None => drive,
        }
    }

    /// The array as one device: its drives behind a controller that queues `depth` commands. Only for arrays without parity.
    pub fn build_behind_card(&self, array: &ArrayDescription, depth: u32) -> Box<dyn Drive> {
        Box::new(Striped::new(array.geometry(self.capacity), self.build_members(array), depth))
    }

    /// The drives of the array in order, idle, with the array's slow member and shared link.
    pub fn build_members(&self, array: &ArrayDescription) -> Vec<Box<dyn Drive>> {
        let link = array.link.map(|rate| Rc::new(RefCell::new(Link::new(rate))));
        let member = |index| {
            let mut drive: Box<dyn Drive> = self.build();
            if let Some((slow, percent)) = array.slow
                && slow == index
            {
                drive = Box::new(SkewedClock::slow(drive, percent));
            }
            match &link {
                Some(link) => Box::new(Linked::new(drive, Rc::clone(link))),
                None => drive,
            }
        };
        (0..array.members).map(member).collect()
    }
}

/// The description of a drive by name or file.
///
/// # Errors
/// No such drive ([`Error::Usage`]), or a file that is no description ([`Error::Input`]).
pub fn describe(name: &str) -> Result<DriveDescription, Error> {
    let file = name.split('{').next().unwrap_or(name).trim();
    catalogue::describe(name, &mut resolver(file)).map_err(|error| match error {
        disks::OpenError::Unknown { .. }
        | disks::OpenError::Override { .. }
        | disks::OpenError::Braces(_) => Error::Usage(error.to_string()),
        disks::OpenError::File { file, error } => Error::file(file, &error),
        _ => Error::Input(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_that_is_no_text_is_named() {
        let path = std::env::temp_dir().join(format!("dwell-binary-{}.toml", std::process::id()));
        std::fs::write(&path, b"\xff\xfe\0\x01").unwrap();
        let problem = describe(&path.to_string_lossy()).unwrap_err().to_string();
        std::fs::remove_file(path).unwrap();
        assert!(problem.contains("is not text (UTF-8); name a description of a drive"), "{problem}");
    }
}
