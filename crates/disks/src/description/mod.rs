//! Drive descriptions in TOML.
//!
//! A file has `kind = "rotating"` or `kind = "solid-state"`, a `summary`, and the fields of [`RotatingParameters`] or
//! [`SsdParameters`] under their own names, whose suffixes are the units. Omitted fields have the defaults documented there. Each
//! number can have an origin:
//!
//! ```toml
//! [mechanics]
//! revolutions_per_minute = 7200
//! origin.revolutions_per_minute = "data sheet: 7200 rpm"
//! ```
//!
//! or, for all fields of a table, `origin = "assumed: …"`. Origins are kept, shown and written back, and have no effect on the
//! model.

mod error;
mod origin;
mod tree;

use elevator::Sector;
use elevator::service_time::ServiceCurve;
use serde::{Serialize, Serializer};
use toml::{Table, Value};

use crate::curve;
use crate::drive::Drive;
use crate::parameters::RotatingParameters;
use crate::rotating::Rotating;
use crate::ssd::{Ssd, SsdParameters};
use error::Problem;
pub use error::{DescriptionError, explain_toml, toml_in_words};
pub use origin::Origin;

/// The source of built-in descriptions.
pub(crate) const BUILT_IN: &str = "built in";

/// The description of a drive.
#[derive(Clone, PartialEq, Debug)]
pub struct DriveDescription {
    /// One line for people.
    pub summary: String,
    /// The source of the description: `built in`, or the name of the file.
    pub source: String,
    /// The parameters of the model.
    pub parameters: DriveParameters,
    /// The origins of the numbers.
    pub origins: Vec<Origin>,
    /// Settings of DiskSim's files that the model does not have, with their position. Empty for TOML descriptions.
    pub notes: Vec<String>,
}

/// The parameters of a drive, by kind.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum DriveParameters {
    /// A disk with platters and an arm.
    Rotating(Box<RotatingParameters>),
    /// A flash drive.
    SolidState(SsdParameters),
}

/// The same fields and tables as [`to_toml`](DriveDescription::to_toml).
impl Serialize for DriveDescription {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.table().serialize(serializer)
    }
}

impl DriveDescription {
    /// Parses a description. `file` is its source and its name in errors.
    ///
    /// # Errors
    /// With file, line and field: syntax errors, unknown fields (with the nearest name), missing fields, values of the wrong type or
    /// out of range, and parameters that contradict each other.
    pub fn parse(file: &str, text: &str) -> Result<Self, DescriptionError> {
        let description = read(file, text).map_err(|problem| problem.in_file(file, text))?;
        description.capacity()?;
        Ok(description)
    }

    /// The complete description as TOML, with all fields and origins.
    #[must_use]
    pub fn to_toml(&self) -> String {
        self.table().to_string()
    }

    fn table(&self) -> Table {
        let (kind, fields) = match &self.parameters {
            DriveParameters::Rotating(p) => ("rotating", Table::try_from(p)),
            DriveParameters::SolidState(p) => ("solid-state", Table::try_from(p)),
        };
        let mut table = Table::new();
        table.insert("kind".to_owned(), Value::from(kind));
        table.insert("summary".to_owned(), Value::from(self.summary.as_str()));
        table.extend(fields.expect("plain data has a form in TOML"));
        self.origins.iter().for_each(|origin| origin.insert(&mut table));
        table
    }

    /// The drive's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.parameters {
            DriveParameters::Rotating(p) => &p.name,
            DriveParameters::SolidState(p) => &p.name,
        }
    }

    /// Size in sectors of 512 bytes.
    ///
    /// # Errors
    /// If the parameters contradict each other.
    pub fn capacity(&self) -> Result<Sector, DescriptionError> {
        match &self.parameters {
            DriveParameters::Rotating(p) => {
                let sectors = crate::layout::capacity(&p.layout);
                sectors.map(Sector).map_err(|error| self.impossible(format!("layout: {error}")))
            }
            DriveParameters::SolidState(p) => Ok(Sector(p.capacity_sectors)),
        }
    }

    /// Number of commands that the drive accepts at once.
    #[must_use]
    pub fn depth(&self) -> u32 {
        match &self.parameters {
            DriveParameters::Rotating(p) => p.queue.depth,
            DriveParameters::SolidState(p) => p.depth,
        }
    }

    /// Whether a flush may be queued with other commands. Otherwise a host submits a flush only while no other command is in the drive,
    /// and no other command until it has completed.
    #[must_use]
    pub fn queues_flushes(&self) -> bool {
        match &self.parameters {
            DriveParameters::Rotating(p) => p.queue.queued_flush,
            DriveParameters::SolidState(p) => p.queued_flush,
        }
    }

    /// An idle drive.
    ///
    /// # Errors
    /// If the parameters contradict each other.
    pub fn build(&self) -> Result<Box<dyn Drive + Send>, DescriptionError> {
        match &self.parameters {
            DriveParameters::Rotating(p) => match Rotating::new((**p).clone()) {
                Ok(drive) => Ok(Box::new(drive)),
                Err(error) => Err(self.impossible(error)),
            },
            DriveParameters::SolidState(p) => match Ssd::new(p) {
                Ok(drive) => Ok(Box::new(drive)),
                Err(error) => Err(self.impossible(error)),
            },
        }
    }

    /// Measures service times by distance on a new drive of this description.
    ///
    /// # Errors
    /// If the parameters contradict each other.
    pub fn service_curve(&self) -> Result<ServiceCurve, DescriptionError> {
        Ok(curve::measure(&mut *self.build()?, curve::SEED).fit())
    }

    /// An error without a line. The file of a built-in drive is its name.
    fn impossible(&self, what: impl ToString) -> DescriptionError {
        let file = if self.source == BUILT_IN { self.name() } else { &self.source };
        DescriptionError { file: file.to_owned(), line: None, what: what.to_string() }
    }
}

fn read(file: &str, text: &str) -> Result<DriveDescription, Problem> {
    let mut root = toml::de::DeTable::parse(text)?;
    let origins = origin::take(root.get_mut())?;
    tree::check_numbers(root.get_ref())?;
    let kind = tree::take_text(root.get_mut(), "kind")?;
    let summary = tree::take_text(root.get_mut(), "summary")?.map_or_else(String::new, |(text, _)| text);
    let parameters = match &kind {
        Some((kind, _)) if kind == "rotating" => DriveParameters::Rotating(tree::deserialize(root)?),
        Some((kind, _)) if kind == "solid-state" => DriveParameters::SolidState(tree::deserialize(root)?),
        Some((kind, place)) => {
            let what = format!("kind: '{kind}' is unknown; it is \"rotating\" or \"solid-state\"");
            return Err(Problem::at(place.clone(), what));
        }
        None => return Err(Problem::whole("kind is missing: \"rotating\" or \"solid-state\"")),
    };
    Ok(DriveDescription { summary, source: file.to_owned(), parameters, origins, notes: Vec::new() })
}
