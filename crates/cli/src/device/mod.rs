//! The modelled drive, or array of drives, that a command line names; and what a duel puts around it (`way`, `parking`).

pub(crate) mod parking;
pub(crate) mod way;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use disks::array::{ArrayDescription, Geometry, Link, Linked, Striped};
use disks::{Drive, DriveDescription, DriveParameters, SkewedClock, catalogue};
use elevator::Sector;
use elevator::queue::{Barriers, Limits};
use elevator::service_time::ServiceCurve;
use schedulers::Environment;

use self::parking::Parking;
use self::way::{Distant, Leg};
use crate::error::Error;
use crate::profile;

/// A drive's description, with what was measured on it once; and the array that such drives make, if they do.
#[derive(Clone)]
pub(crate) struct Device {
    name: String,
    description: DriveDescription,
    capacity: Sector,
    service_times: ServiceCurve,
    array: Option<ArrayDescription>,
    /// The way there, if that takes time.
    way: Vec<Leg>,
    /// It takes one command at a time, and all tags of its queue but one are parked.
    parking: bool,
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
        let name = name.to_owned();
        let (array, way) = (None, Vec::new());
        Ok(Self { name, description, capacity, service_times, array, way, parking: false })
    }

    /// Lets schedulers be told the service times that were measured on a real one.
    pub(crate) fn profiled(mut self, profile: Option<&Path>) -> Result<Self, Error> {
        if let Some(profile) = profile.map(profile::read).transpose()? {
            self.service_times = profile.service_curve();
        }
        Ok(self)
    }

    /// Drives of this kind as an array: `raid0:5x64k`.
    pub(crate) fn in_array(self, array: &str) -> Result<Self, Error> {
        let array = ArrayDescription::parse(array).map_err(|e| Error::Usage(e.to_string()))?;
        if array.geometry(self.capacity).capacity() == Sector(0) {
            return Err(Error::Usage(format!(
                "{}: a drive is smaller than a stripe unit of {array}",
                self.name
            )));
        }
        Ok(Self { array: Some(array), ..self })
    }

    /// The same drive at the end of a way.
    pub(crate) fn distant(&self, way: Vec<Leg>) -> Self {
        Self { way, ..self.clone() }
    }

    /// The same drive with a parking area behind its end, one command at a time.
    pub(crate) fn with_parking(self) -> Self {
        Self { parking: true, ..self }
    }

    /// The array, if it is one.
    pub(crate) const fn array(&self) -> Option<&ArrayDescription> {
        self.array.as_ref()
    }

    /// How the array is laid out, if it is one.
    pub(crate) fn geometry(&self) -> Option<Geometry> {
        self.array.as_ref().map(|array| array.geometry(self.capacity))
    }

    pub(crate) fn capacity(&self) -> Sector {
        self.geometry().map_or(self.capacity, |geometry| geometry.capacity())
    }

    pub(crate) fn depth(&self) -> u32 {
        self.description.depth()
    }

    /// What a flush holds back in a queue that would hold back no more than this for it.
    pub(crate) fn barriers(&self, least: Barriers) -> Barriers {
        // Parked commands are there until everything else is over.
        let beside = self.parking || self.description.queues_flushes();
        if least == Barriers::Completed && !beside { Barriers::Alone } else { least }
    }

    pub(crate) fn describe(&self) -> String {
        let drive = format!("{}: {}", self.name, self.description.summary);
        self.array.as_ref().map_or_else(|| drive.clone(), |array| format!("{array} of {drive}"))
    }

    /// What its files say and the model has not, or not so.
    pub(crate) fn notes(&self) -> &[String] {
        &self.description.notes
    }

    /// What schedulers are told of it, and of the limits of its queue.
    pub(crate) fn environment(&self, limits: &Limits) -> Environment {
        Environment {
            service_times: self.service_times.clone(),
            rotational: self.rotational(),
            nr_requests: limits.both_directions(),
        }
    }

    /// Whether it has a head to move.
    pub(crate) const fn rotational(&self) -> bool {
        matches!(self.description.parameters, DriveParameters::Rotating(_))
    }

    /// A drive of this kind, at rest.
    pub(crate) fn build(&self) -> Box<dyn Drive + Send> {
        let mut drive = self.description.build().expect("it was built when it was opened");
        if !self.way.is_empty() {
            drive = Box::new(Distant::new(drive, self.way.clone()));
        }
        if self.parking { Box::new(Parking::new(drive)) } else { drive }
    }

    /// The array as one device: its drives behind a card that takes `depth` commands. Only of arrays without parity.
    pub(crate) fn build_behind_card(&self, array: &ArrayDescription, depth: u32) -> Box<dyn Drive> {
        Box::new(Striped::new(array.geometry(self.capacity), self.build_members(array), depth))
    }

    /// The drives of the array in order, at rest: the slow one slow, all behind the card that they share.
    pub(crate) fn build_members(&self, array: &ArrayDescription) -> Vec<Box<dyn Drive>> {
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

/// Says what a drive's files say in vain.
pub(crate) fn tell(notes: &[String]) {
    notes.iter().for_each(|note| say!("{note}"));
}

/// The description of a drive by name or file.
pub(crate) fn describe(name: &str) -> Result<DriveDescription, Error> {
    let file = name.split('{').next().unwrap_or(name).trim();
    catalogue::describe(name, &mut resolver(file)).map_err(|error| match error {
        disks::OpenError::Unknown { .. }
        | disks::OpenError::Override { .. }
        | disks::OpenError::Braces(_) => Error::Usage(error.to_string()),
        _ => Error::Input(error.to_string()),
    })
}
