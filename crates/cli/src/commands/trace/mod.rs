//! `dwell trace`: inspect and convert recordings.

mod info;
mod parquet;
pub(crate) mod recipe;

use clap::{Args, Subcommand};
use std::io::BufWriter;
use std::path::Path;
use std::path::PathBuf;

use elevator::Span;
use elevator::text::{counted, did_you_mean};
use traces::write::{Writer, Written};
use traces::{Format, Record, Recording};

use crate::error::Error;
use crate::input::quantity::some_time;
use crate::input::shared_args::Reading;
use crate::interrupt;
use crate::output_file::{Output, check_compression, is_free, is_same, sink};
use crate::tune::recognised::Recognised;
use evaluation::input::{next_record, open_recording, options};

/// Options of `dwell trace`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell trace info recordings/pgbench.ftrace.gz
  dwell trace convert recordings/pgbench.ftrace.gz pgbench.trace.zst --to-format dwell")]
pub(crate) struct TraceArguments {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TraceCommand {
    /// Print a recording's sizes, latency percentiles, queue depth and sequentiality; for several devices, one line each
    #[command(after_help = "Examples:
  dwell trace info recordings/pgbench.ftrace.gz")]
    Info {
        /// The recording ('-' for standard input)
        file: PathBuf,
        #[command(flatten)]
        reading: Reading,
        #[command(flatten)]
        format: info::Format,
    },
    /// Print the kinds of load and clusters of windows that the tuner recognises in a recording
    #[command(after_help = "Examples:
  dwell trace patterns recordings/pgbench.ftrace.gz --window 1s")]
    Patterns {
        /// The recording ('-' for standard input)
        file: PathBuf,
        /// Length of a window
        #[arg(long, value_name = "TIME", default_value = "5s")]
        window: String,
        #[command(flatten)]
        reading: Reading,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print a shell script that records a device with another tool (ftrace, blktrace, bpftrace), for a machine without dwell
    #[command(after_help = "Examples:
  dwell trace recipe ftrace >ftrace.sh")]
    Recipe {
        /// The tool; without it, the recipes are listed
        name: Option<String>,
    },
    /// Write each device of a recording to a Parquet file of its own, in one pass
    #[command(after_help = "Examples:
  dwell trace split recordings/pgbench.ftrace.gz devices")]
    Split {
        /// The recording ('-' for standard input)
        from: PathBuf,
        /// The folder of the files, which are named after the devices
        to: PathBuf,
        #[command(flatten)]
        reading: Reading,
    },
    /// Write a recording in another format
    #[command(after_help = "Examples:
  dwell trace convert recordings/pgbench.ftrace.gz pgbench.trace.zst --to-format dwell")]
    Convert {
        /// The recording ('-' for standard input)
        from: PathBuf,
        /// The file to write ('-' for standard output); .gz and .zst are compressed
        to: PathBuf,
        /// The format of the output: any of --format (docs/traces.md has what each holds). Default: parquet if the file's name ends in .parquet
        #[arg(long, value_name = "FORMAT")]
        to_format: Option<String>,
        /// Replace the file if it exists
        #[arg(long)]
        overwrite: bool,
        #[command(flatten)]
        reading: Reading,
    },
}

pub(crate) fn run(arguments: &TraceArguments) -> Result<(), Error> {
    match &arguments.command {
        TraceCommand::Info { file, reading, format } => info::run(file, reading, format),
        TraceCommand::Patterns { file, window, reading, json } => patterns(file, window, reading, *json),
        TraceCommand::Recipe { name } => recipe::run(name.as_deref()),
        TraceCommand::Split { from, to, reading } => parquet::split(from, to, &reading.options()),
        TraceCommand::Convert { from, to, to_format, overwrite, reading } => {
            let format = written_format(to, to_format.as_deref())?;
            check(from, to, format, *overwrite)?;
            convert(from, to, format, reading)
        }
    }
}

fn open(path: &Path, reading: &Reading) -> Result<Recording, Error> {
    Ok(open_recording(path, &options(&reading.options(), None)?)?)
}

fn patterns(path: &Path, window: &str, reading: &Reading, as_json: bool) -> Result<(), Error> {
    let mut recognised = Recognised::new(Span::from_nanos(some_time("--window", window)?.as_nanos() as u64))?;
    let mut recording = open(path, reading)?;
    until_stopped(&mut recording, |record, _| {
        recognised.push(record);
        Ok(())
    })?;
    recognised.print(&path.display().to_string(), as_json)?;
    whole()
}

/// Takes every record until the end of the recording or Ctrl-C.
fn until_stopped(
    recording: &mut Recording,
    mut take: impl FnMut(&Record, &Recording) -> Result<(), Error>,
) -> Result<(), Error> {
    loop {
        match next_record(recording) {
            Ok(Some(record)) => take(&record, recording)?,
            Ok(None) | Err(evaluation::Error::Interrupted) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// An error if Ctrl-C made the output incomplete.
fn whole() -> Result<(), Error> {
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
}

/// The format to write: as given, or by the file's name.
fn written_format(to: &Path, given: Option<&str>) -> Result<Format, Error> {
    let names = || Format::ALL.iter().map(|format| format.name());
    let list = || names().collect::<Vec<_>>().join(", ");
    match given {
        Some(name) => Format::from_name(name).ok_or_else(|| {
            Error::Usage(format!(
                "Dwell does not write '{name}'; it writes {}{}",
                list(),
                did_you_mean(name, names())
            ))
        }),
        None if to.extension().is_some_and(|extension| extension == "parquet") => Ok(Format::Parquet),
        None => Err(Error::Usage(format!("name the format to write with --to-format: {}", list()))),
    }
}

/// Checks before the output file is truncated.
fn check(from: &Path, to: &Path, format: Format, overwrite: bool) -> Result<(), Error> {
    if format == Format::Parquet && !study::HAS_PARQUET {
        return Err(Error::Usage(study::NOT_BUILT.to_owned()));
    }
    check_compression(to)?;
    if is_same(from, to) {
        return Err(Error::Usage(format!(
            "'{}' is the recording itself; name another output file",
            to.display()
        )));
    }
    if to == Path::new("-") { Ok(()) } else { is_free(to, overwrite) }
}

fn convert(from: &Path, to: &Path, format: Format, reading: &Reading) -> Result<(), Error> {
    if format == Format::Parquet {
        return parquet::convert(from, to, &reading.options());
    }
    let mut recording = open(from, reading)?;
    // The first record is read before the file is created, so that an unreadable recording leaves no file.
    let first = next_record(&mut recording)?;
    let mut sink = sink(to)?;
    // An error on standard output is a closed pipe.
    let failed = |error: std::io::Error| match to == Path::new("-") {
        true => Error::from(error),
        false => Error::written(to.display(), &error),
    };
    let comment = format!("converted from {}", recording.interpretation().format);
    let mut writer =
        Writer::new(format, BufWriter::new(&mut sink), recording.devices(), &comment).map_err(failed)?;
    let write = |writer: &mut Writer<'_>, record: &Record, recording: &Recording| {
        let name = record.process.and_then(|pid| recording.process_name(pid));
        writer.write(record, name.as_deref()).map_err(failed)
    };
    if let Some(first) = &first {
        write(&mut writer, first, &recording)?;
    }
    let mut devices = recording.devices().len();
    until_stopped(&mut recording, |record, recording| {
        if recording.devices().len() > devices {
            devices = recording.devices().len();
            writer.meet(recording.devices());
        }
        write(&mut writer, record, recording)
    })?;
    let written = writer.finish().map_err(failed)?;
    if to != Path::new("-") {
        // A part of a recording would look like a recording, and would replace one.
        whole()?;
    }
    sink.finish().and_then(Output::complete).map_err(failed)?;
    report(from, format, written, &recording)
}

/// Prints what was written.
fn report(from: &Path, format: Format, written: Written, recording: &Recording) -> Result<(), Error> {
    let Written { written, left_out, rounded, uncompleted, lost } = written;
    let format = format.name();
    say!("{}: {}", from.display(), recording.interpretation());
    say!(
        "{} written, {left_out} left out because {format} cannot express them, {rounded} rounded",
        counted(written, "request")
    );
    if uncompleted > 0 {
        say!(
            "{} written without the completion, which {format} would assign to an earlier request that has none",
            counted(uncompleted, "request")
        );
    }
    if !lost.is_empty() {
        say!("{format} does not hold: {lost}");
    }
    for line in recording.skips().to_string().lines() {
        say!("{}: {line}", from.display());
    }
    whole()
}
