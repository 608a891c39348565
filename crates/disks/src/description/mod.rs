//! Drives written down: our own TOML form.
//!
//! A file says `kind = "rotating"` or `kind = "solid-state"`, a `summary`, and then the fields of
//! [`RotatingParameters`] or [`SsdParameters`] under their own names, each with its unit in its name; what is left out
//! has the default that those types document. Beside any number stands where it comes from:
//!
//! ```toml
//! [mechanics]
//! revolutions_per_minute = 7200
//! origin.revolutions_per_minute = "data sheet: 7200 rpm"
//! ```
//!
//! or, for all fields of a table together, `origin = "assumed: …"`. Origins are kept, shown and written back; nothing
//! is computed from them.

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
pub use error::{DescriptionError, explain_toml};
pub use origin::Origin;

/// The source of descriptions that come with the program.
pub(crate) const BUILT_IN: &str = "built in";

/// A drive as it is written down.
#[derive(Clone, PartialEq, Debug)]
pub struct DriveDescription {
    /// What it is, in a line.
    pub summary: String,
    /// Where the description itself is from: `built in`, or the file that was read.
    pub source: String,
    /// What describes it.
    pub parameters: DriveParameters,
    /// Where its numbers are from.
    pub origins: Vec<Origin>,
    /// What its files say and the model has not, or not so, each with its place. Our own form has nothing of the kind.
    pub notes: Vec<String>,
}

/// What describes a drive, by kind.
#[derive(Clone, PartialEq, Debug)]
pub enum DriveParameters {
    /// Platters and an arm.
    Rotating(Box<RotatingParameters>),
    /// Flash.
    SolidState(SsdParameters),
}

/// As [`to_toml`](DriveDescription::to_toml) writes it: the same fields, in the same tables.
impl Serialize for DriveDescription {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.table().serialize(serializer)
    }
}

impl DriveDescription {
    /// Reads a description. `file` names it in errors and as the source.
    ///
    /// # Errors
    /// With file, line and field: syntax, unknown fields (with the nearest name), missing ones, values of the wrong
    /// kind or out of range, parameters that contradict each other.
    pub fn parse(file: &str, text: &str) -> Result<Self, DescriptionError> {
        let description = read(file, text).map_err(|problem| problem.in_file(file, text))?;
        description.capacity()?;
        Ok(description)
    }

    /// The same as TOML, complete: every field is written, origins too.
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

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.parameters {
            DriveParameters::Rotating(p) => &p.name,
            DriveParameters::SolidState(p) => &p.name,
        }
    }

    /// Its size in sectors.
    ///
    /// # Errors
    /// If its parameters contradict each other.
    pub fn capacity(&self) -> Result<Sector, DescriptionError> {
        match &self.parameters {
            DriveParameters::Rotating(p) => {
                let sectors = crate::layout::capacity(&p.layout);
                sectors.map(Sector).map_err(|error| self.impossible(format!("layout: {error}")))
            }
            DriveParameters::SolidState(p) => Ok(Sector(p.capacity_sectors)),
        }
    }

    /// How many commands it takes at once.
    #[must_use]
    pub fn depth(&self) -> u32 {
        match &self.parameters {
            DriveParameters::Rotating(p) => p.queue.depth,
            DriveParameters::SolidState(p) => p.depth,
        }
    }

    /// Whether it takes a flush beside other commands. If not, a host sends it when the drive has nothing else, and nothing
    /// beside it.
    #[must_use]
    pub fn queues_flushes(&self) -> bool {
        match &self.parameters {
            DriveParameters::Rotating(p) => p.queue.queued_flush,
            DriveParameters::SolidState(p) => p.queued_flush,
        }
    }

    /// A drive of this description, at rest.
    ///
    /// # Errors
    /// If its parameters contradict each other.
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

    /// How long it takes for requests at a distance, measured on a drive of its own.
    ///
    /// # Errors
    /// If its parameters contradict each other.
    pub fn service_curve(&self) -> Result<ServiceCurve, DescriptionError> {
        Ok(curve::measure(&mut *self.build()?, curve::SEED).fit())
    }

    /// A built-in drive has no file; its name says which it is.
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
