//! The modelled drive that a command line names.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use disks::{Drive, DriveDescription, DriveParameters, catalogue};
use elevator::Sector;
use elevator::service_time::ServiceCurve;
use schedulers::Environment;

use crate::error::Error;

/// A drive's description, with what was measured on it once.
pub(crate) struct Device {
    name: String,
    description: DriveDescription,
    capacity: Sector,
    service_times: ServiceCurve,
}

/// Opens files for a description: those that a description names lie beside it.
fn resolver(description: &str) -> impl FnMut(&str) -> io::Result<Box<dyn Read>> {
    let beside = Path::new(description).parent().map(Path::to_owned).unwrap_or_default();
    let description = description.to_owned();
    move |file| {
        let path = if file == description { PathBuf::from(file) } else { beside.join(file) };
        Ok(Box::new(File::open(path)?))
    }
}

impl Device {
    /// Opens what `name` names: a built-in drive or a file, with overrides in braces.
    pub(crate) fn open(name: &str) -> Result<Self, Error> {
        let description = describe(name)?;
        let wrong = |e: disks::DescriptionError| Error::Input(e.to_string());
        let capacity = description.capacity().map_err(wrong)?;
        let service_times = description.service_curve().map_err(wrong)?;
        description.build().map_err(wrong)?;
        Ok(Self { name: name.to_owned(), description, capacity, service_times })
    }

    pub(crate) const fn capacity(&self) -> Sector {
        self.capacity
    }

    pub(crate) fn depth(&self) -> u32 {
        self.description.depth()
    }

    pub(crate) fn describe(&self) -> String {
        format!("{}: {}", self.name, self.description.summary)
    }

    /// What schedulers are told of it.
    pub(crate) fn environment(&self) -> Environment {
        Environment {
            service_times: self.service_times.clone(),
            rotational: self.rotational(),
            ..Environment::default()
        }
    }

    /// Whether it has a head to move.
    pub(crate) const fn rotational(&self) -> bool {
        matches!(self.description.parameters, DriveParameters::Rotating(_))
    }

    /// A drive of this kind, at rest.
    pub(crate) fn build(&self) -> Box<dyn Drive + Send> {
        self.description.build().expect("it was built when it was opened")
    }
}

/// The description of a drive by name or file.
pub(crate) fn describe(name: &str) -> Result<DriveDescription, Error> {
    let file = name.split('{').next().unwrap_or(name);
    catalogue::describe(name, &mut resolver(file)).map_err(|error| match error {
        disks::OpenError::Unknown { .. }
        | disks::OpenError::Override { .. }
        | disks::OpenError::Braces(_) => Error::Usage(error.to_string()),
        _ => Error::Input(error.to_string()),
    })
}
