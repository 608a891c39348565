//! `dwell drives`.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use comfy_table::{Table, presets};
use disks::{Drive, DriveDescription, catalogue, validate};
use elevator::text::counted;
use serde_json::json;

use crate::arguments::{DrivesArguments, DrivesCommand};
use crate::device::{describe, tell};
use crate::error::Error;
use crate::format::{bytes, object};

pub(crate) fn run(arguments: &DrivesArguments) -> Result<(), Error> {
    match &arguments.command {
        None => list(false),
        Some(DrivesCommand::List { json }) => list(*json),
        Some(DrivesCommand::Show { drive, json }) => show(drive, *json),
        Some(DrivesCommand::Validate { drive, trace, json }) => run_trace(drive, trace, *json),
    }
}

fn list(as_json: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if as_json {
        let of = |drive: DriveDescription| {
            let bytes = drive.capacity().ok().map(|sectors| sectors.bytes());
            json!({"name": drive.name(), "bytes": bytes, "depth": drive.depth(), "summary": drive.summary})
        };
        let drives: Vec<_> = catalogue::built_in().map(of).collect();
        return Ok(writeln!(out, "{}", object(&json!({"drives": drives}))?)?);
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(["drive", "size", "depth", "what it is"]);
    for drive in catalogue::built_in() {
        let size = drive.capacity().map_or_else(|e| e.to_string(), |sectors| bytes(sectors.bytes()));
        table.add_row([drive.name().to_owned(), size, drive.depth().to_string(), drive.summary.clone()]);
    }
    Ok(writeln!(out, "{table}")?)
}

/// A drive that is possible, with its description; what that says in vain is said.
fn built(name: &str) -> Result<(DriveDescription, Box<dyn Drive>), Error> {
    let description = describe(name)?;
    let drive = description.build().map_err(|error| Error::Input(error.to_string()))?;
    tell(&description.notes);
    Ok((description, drive))
}

fn show(name: &str, as_json: bool) -> Result<(), Error> {
    let (description, _) = built(name)?;
    let mut out = std::io::stdout().lock();
    if as_json {
        return Ok(writeln!(out, "{}", object(&description)?)?);
    }
    Ok(write!(out, "{}", description.to_toml())?)
}

fn run_trace(name: &str, path: &Path, as_json: bool) -> Result<(), Error> {
    let (description, mut drive) = built(name)?;
    let host = description.origins.iter().find(|o| o.field.as_deref() == Some("host_read_sector_ms"));
    let file = File::open(path).map_err(|e| Error::file(path.display(), &e))?;
    let wrong = |error: validate::TraceError| Error::Input(format!("{}: {error}", path.display()));
    let (trace, _) = traces::unwrap(Box::new(file));
    let trace = validate::read_trace(BufReader::new(trace)).map_err(wrong)?;
    let found = validate::validate(&mut *drive, &trace).map_err(wrong)?;
    let mut out = std::io::stdout().lock();
    if as_json {
        let of = json!({
            "drive": name, "requests": found.requests, "measured_mean_ms": found.measured_mean_ms,
            "modelled_mean_ms": found.modelled_mean_ms, "demerit_ms": found.demerit_ms,
            "demerit_share": found.relative_demerit(), "exact_demerit_ms": found.exact_demerit_ms,
            "host_bus": host.map(|origin| &origin.text),
        });
        return Ok(writeln!(out, "{}", object(&of)?)?);
    }
    writeln!(
        out,
        "{name}: {}\nmean service time: {:.3} ms measured, {:.3} ms modelled\ndemerit: {:.3} ms, {:.2}% of the measured mean (as DiskSim reckons it; {:.3} ms between the exact curves)",
        counted(found.requests as u64, "request"),
        found.measured_mean_ms,
        found.modelled_mean_ms,
        found.demerit_ms,
        found.relative_demerit() * 100.0,
        found.exact_demerit_ms
    )?;
    if let Some(host) = host {
        writeln!(out, "host's bus: {}", host.text)?;
    }
    Ok(())
}
