//! Drives by name: built-in drives, TOML files, DiskSim's parameter files, and overrides of any field.
//!
//! A specification is a built-in name (`wd5000aaks`) or a file (`my.toml`, `barracuda.diskspecs`), optionally followed by overrides
//! in braces: `wd5000aaks{depth=1,buffer=off}`. `depth`, `buffer`, `write_cache` and `read_ahead` are short forms; any other
//! override is the path of a field in the drive's TOML, such as `mechanics.revolutions_per_minute=5400`.

use std::io;

use elevator::text::did_you_mean;

use crate::description::{self, DescriptionError, DriveDescription, DriveParameters, Origin};
use crate::disksim::{self, Resolver};
use crate::drive::Drive;
pub use crate::overrides::OverrideError;
use crate::overrides::{self, Override};

/// Names and TOML of the built-in drives.
const BUILT_IN: [(&str, &str); 7] = [
    ("wd5000aaks", include_str!("builtin/wd5000aaks.toml")),
    ("barracuda-7200.10", include_str!("builtin/barracuda-7200.10.toml")),
    ("maxtor-20gb", include_str!("builtin/maxtor-20gb.toml")),
    ("ide-2003", include_str!("builtin/ide-2003.toml")),
    ("st31500341as", include_str!("builtin/st31500341as.toml")),
    ("ssd-sata", include_str!("builtin/ssd-sata.toml")),
    ("ssd-nvme", include_str!("builtin/ssd-nvme.toml")),
];

/// Upper bound for the size of a description.
const FILE_MAX: u64 = 16 << 20;

/// Why a drive cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No built-in drive has the name, and the name is not that of a file.
    #[error(
        "no drive is called '{name}'; drives are {}, or a file that ends in .toml, .diskspecs or .parv{}",
        .known.join(", "),
        did_you_mean(.name, .known.iter().copied())
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of all built-in drives.
        known: Vec<&'static str>,
    },
    /// A file cannot be read.
    #[error("{file}: {error}")]
    File {
        /// The file's name.
        file: String,
        /// The error of the reader.
        #[source]
        error: io::Error,
    },
    /// A description is invalid.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// A file of DiskSim's is invalid.
    #[error(transparent)]
    DiskSim(#[from] disksim::ReadError),
    /// An override is invalid.
    #[error("{drive}{{{key}={value}}}: {what}")]
    Override {
        /// The drive's name.
        drive: String,
        /// The field or short form.
        key: String,
        /// The requested value.
        value: String,
        /// The reason.
        what: Box<OverrideError>,
    },
    /// The braces behind the name do not have the form `{name=value,…}`.
    #[error("'{0}': overrides are written {{name=value,…}} behind the drive's name")]
    Braces(String),
}

/// The built-in drives.
pub fn built_in() -> impl Iterator<Item = DriveDescription> {
    BUILT_IN.iter().map(|(_, text)| parse_built_in(text))
}

fn parse_built_in(text: &str) -> DriveDescription {
    DriveDescription::parse(description::BUILT_IN, text).expect("tests read every built-in drive")
}

/// The description for a specification: a name or a file, with or without overrides. `open` opens the files.
///
/// # Errors
/// An unknown name (the error suggests the nearest and lists all), an unreadable or invalid file, or an invalid override.
pub fn describe(spec: &str, open: Resolver<'_>) -> Result<DriveDescription, OpenError> {
    let (name, changes) = overrides::split(spec).ok_or_else(|| OpenError::Braces(spec.to_owned()))?;
    let description = match BUILT_IN.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => parse_built_in(text),
        None => from_file(name, open)?,
    };
    changes.iter().try_fold(description, |description, change| apply(&description, name, change))
}

/// A drive and its description for a specification, as [`describe`] reads it.
///
/// # Errors
/// As [`describe`], and parameters that contradict each other.
pub fn open(spec: &str, open: Resolver<'_>) -> Result<(Box<dyn Drive + Send>, DriveDescription), OpenError> {
    let description = describe(spec, open)?;
    Ok((description.build()?, description))
}

fn apply(
    description: &DriveDescription,
    drive: &str,
    change: &Override,
) -> Result<DriveDescription, OpenError> {
    overrides::apply(description, change).map_err(|what| OpenError::Override {
        drive: drive.to_owned(),
        key: change.key.clone(),
        value: change.value.clone(),
        what: Box::new(what),
    })
}

fn from_file(name: &str, open: Resolver<'_>) -> Result<DriveDescription, OpenError> {
    if name.ends_with(".diskspecs") || name.ends_with(".parv") {
        return Ok(from_disksim(name, open)?);
    }
    if name.ends_with(".toml") || name.contains('/') {
        let text = read_text(name, open).map_err(|error| OpenError::File { file: name.to_owned(), error })?;
        return Ok(DriveDescription::parse(name, &text)?);
    }
    let known: Vec<&str> = BUILT_IN.iter().map(|(known, _)| *known).collect();
    Err(OpenError::Unknown { name: name.to_owned(), known })
}

fn read_text(name: &str, open: Resolver<'_>) -> io::Result<String> {
    use io::Read;
    let mut text = String::new();
    open(name)?.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        return Err(io::Error::other("longer than 16 MiB: no drive's description"));
    }
    Ok(text)
}

fn from_disksim(name: &str, open: Resolver<'_>) -> Result<DriveDescription, disksim::ReadError> {
    let disksim::ParsedDrive { parameters, host, notes } = disksim::read_with_notes(name, open)?;
    let text = format!("DiskSim parameter files: {name} and those it names");
    let mut origins = vec![Origin { table: String::new(), field: None, text }];
    let bus = |field: &str, text: &String| Origin {
        table: "bus".to_owned(),
        field: Some(field.to_owned()),
        text: text.clone(),
    };
    for field in ["host_read_sector_ms", "host_write_sector_ms"] {
        origins.extend(host.iter().map(|text| bus(field, text)));
    }
    Ok(DriveDescription {
        summary: format!("{}, from DiskSim's parameter files", parameters.name),
        source: name.to_owned(),
        parameters: DriveParameters::Rotating(Box::new(parameters)),
        origins,
        notes: notes.iter().map(ToString::to_string).collect(),
    })
}
