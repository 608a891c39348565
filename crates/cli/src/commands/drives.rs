//! `dwell drives`.

use clap::{Args, Subcommand};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::path::PathBuf;

use disks::{Drive, DriveDescription, catalogue, validate};
use elevator::text::counted;
use serde_json::json;

use crate::error::Error;
use crate::report::{table_of_texts, wide_table_of_texts};
use evaluation::device::describe;
use evaluation::report::format::{bytes, object};

/// Options of `dwell drives`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  dwell drives
  dwell drives show wd5000aaks"
)]
pub(crate) struct DrivesArguments {
    #[command(subcommand)]
    pub(crate) command: Option<DrivesCommand>,
    #[command(flatten)]
    pub(crate) list: ListArguments,
}

/// Options of the list of drives.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ListArguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print each drive on one line, however wide the table becomes
    #[arg(long, conflicts_with = "json")]
    wide: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum DrivesCommand {
    /// List the built-in drives
    #[command(after_help = "Examples:
  dwell drives list --wide")]
    List(ListArguments),
    /// Print a drive's description, with the origin of each number
    #[command(after_help = "Examples:
  dwell drives show wd5000aaks")]
    Show {
        /// A built-in drive or a file (.toml, .diskspecs, .parv)
        drive: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Replay a physical drive's measured trace and print the demerit
    #[command(after_help = "Examples:
  dwell drives validate wd5000aaks measured.trace")]
    Validate {
        /// A built-in drive or a file (.toml, .diskspecs, .parv)
        drive: String,
        /// The trace: R|W class block blocks service_us gap_us
        trace: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(arguments: &DrivesArguments) -> Result<(), Error> {
    match &arguments.command {
        None => list(arguments.list),
        Some(DrivesCommand::List(how)) => list(*how),
        Some(DrivesCommand::Show { drive, json }) => show(drive, *json),
        Some(DrivesCommand::Validate { drive, trace, json }) => run_trace(drive, trace, *json),
    }
}

fn list(how: ListArguments) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if how.json {
        let of = |drive: DriveDescription| {
            let bytes = drive.capacity().ok().map(|sectors| sectors.bytes());
            json!({"name": drive.name(), "bytes": bytes, "depth": drive.depth(), "summary": drive.summary})
        };
        let drives: Vec<_> = catalogue::built_in().map(of).collect();
        return Ok(writeln!(out, "{}", object(&json!({"drives": drives}))?)?);
    }
    let heads = ["drive", "size", "depth", "description"];
    let mut table = if how.wide { wide_table_of_texts(&heads) } else { table_of_texts(&heads) };
    for drive in catalogue::built_in() {
        let size = drive.capacity().map_or_else(|e| e.to_string(), |sectors| bytes(sectors.bytes()));
        table.add_row([drive.name().to_owned(), size, drive.depth().to_string(), drive.summary.clone()]);
    }
    Ok(writeln!(out, "{table}")?)
}

/// A drive and its description. Prints a note for each parameter of the description that has no effect.
fn built(name: &str) -> Result<(DriveDescription, Box<dyn Drive>), Error> {
    let description = describe(name)?;
    let drive = description.build().map_err(|error| Error::Input(error.to_string()))?;
    description.notes.iter().for_each(|note| say!("{note}"));
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
    let (trace, _) = traces::decompress(Box::new(file));
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
        "{name}: {}\nmean service time: {:.3} ms measured, {:.3} ms modelled\ndemerit: {:.3} ms, {:.2}% of the measured mean (computed as in DiskSim; {:.3} ms between the exact curves)",
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
