//! `dwell trace`: inspect and convert recordings.

mod info;
mod parquet;
mod recipe;

use clap::{Args, Subcommand};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::path::PathBuf;

use elevator::Span;
use elevator::text::counted;
use traces::write::{BlkparseWriter, DiskSimWriter, DwellWriter, FioWriter, Written};
use traces::{Record, Recording};

use crate::error::Error;
use crate::input::quantity::some_time;
use crate::input::shared_args::Reading;
use crate::interrupt;
use crate::output_file::{can_be_compressed, is_same, sink};
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
    Info {
        /// The recording ('-' for standard input)
        file: PathBuf,
        #[command(flatten)]
        reading: Reading,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the kinds of load and clusters of windows that the tuner recognises in a recording
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
    Recipe {
        /// The tool; without it, the recipes are listed
        name: Option<String>,
    },
    /// Write each device of a recording to a Parquet file of its own, in one pass
    Split {
        /// The recording ('-' for standard input)
        from: PathBuf,
        /// The folder of the files, which are named after the devices
        to: PathBuf,
        #[command(flatten)]
        reading: Reading,
    },
    /// Write a recording in another format
    Convert {
        /// The recording ('-' for standard input)
        from: PathBuf,
        /// The file to write ('-' for standard output); .gz and .zst are compressed
        to: PathBuf,
        /// The format of the output: dwell, fio, blkparse, disksim or parquet. Default: parquet if the file's name ends in .parquet
        #[arg(long, value_name = "FORMAT")]
        to_format: Option<String>,
        #[command(flatten)]
        reading: Reading,
    },
}

pub(crate) fn run(arguments: &TraceArguments) -> Result<(), Error> {
    match &arguments.command {
        TraceCommand::Info { file, reading, json } => info::run(file, reading, *json),
        TraceCommand::Patterns { file, window, reading, json } => patterns(file, window, reading, *json),
        TraceCommand::Recipe { name } => recipe::run(name.as_deref()),
        TraceCommand::Split { from, to, reading } => parquet::split(from, to, &reading.options()),
        TraceCommand::Convert { from, to, to_format, reading } => {
            convert(from, to, &written_format(to, to_format.as_deref())?, reading)
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

/// Formats that Dwell writes.
const WRITTEN: [&str; 5] = ["dwell", "fio", "blkparse", "disksim", "parquet"];

/// The format to write: as given, or by the file's name.
fn written_format(to: &Path, given: Option<&str>) -> Result<String, Error> {
    let by_name = to.extension().filter(|extension| *extension == "parquet").map(|_| "parquet");
    let advice = "name the format to write: --to-format dwell, fio, blkparse, disksim or parquet";
    given.or(by_name).map(str::to_owned).ok_or_else(|| Error::Usage(advice.to_owned()))
}

fn unknown(format: &str) -> Error {
    Error::Usage(format!("Dwell does not write '{format}'; it writes {}", WRITTEN.join(", ")))
}

/// The writer of a format.
enum Writer<W: Write> {
    Dwell(DwellWriter<W>),
    Fio(FioWriter<W>),
    Blkparse(BlkparseWriter<W>),
    DiskSim(DiskSimWriter<W>),
}

impl<W: Write> Writer<W> {
    fn new(format: &str, sink: W, recording: &Recording) -> Result<Self, Error> {
        Ok(match format {
            "dwell" => {
                let comment = format!("converted from {}", recording.interpretation().format);
                let devices = recording.devices().iter().map(|device| &device.name);
                Self::Dwell(DwellWriter::new(sink, devices, &comment)?)
            }
            "fio" => Self::Fio(FioWriter::new(sink, recording.devices())?),
            "blkparse" => Self::Blkparse(BlkparseWriter::new(sink, recording.devices())),
            "disksim" => Self::DiskSim(DiskSimWriter::new(sink)),
            _ => return Err(unknown(format)),
        })
    }

    fn write(&mut self, record: &Record, recording: &Recording) -> std::io::Result<()> {
        match self {
            Self::Dwell(writer) => {
                let name = record.process.and_then(|pid| recording.process_name(pid));
                writer.write(record, name.as_deref())
            }
            Self::Fio(writer) => writer.write(record),
            Self::Blkparse(writer) => {
                let name = record.process.and_then(|pid| recording.process_name(pid));
                writer.write(record, name.as_deref())
            }
            Self::DiskSim(writer) => writer.write(record),
        }
    }

    /// Adds devices that the recording has named since the last call.
    fn add_devices(&mut self, recording: &Recording) {
        match self {
            Self::Dwell(writer) => writer.meet(recording.devices().iter().map(|device| &device.name)),
            Self::Fio(writer) => writer.meet(recording.devices()),
            Self::Blkparse(writer) => writer.meet(recording.devices()),
            Self::DiskSim(_) => {}
        }
    }

    fn finish(self) -> std::io::Result<Written> {
        match self {
            Self::Dwell(writer) => writer.finish(),
            Self::Fio(writer) => writer.finish(),
            Self::Blkparse(writer) => writer.finish(),
            Self::DiskSim(writer) => writer.finish(),
        }
    }
}

/// Checks before the output file is truncated.
fn check(from: &Path, to: &Path, format: &str) -> Result<(), Error> {
    if !WRITTEN.contains(&format) {
        return Err(unknown(format));
    }
    if format == "parquet" && !study::HAS_PARQUET {
        return Err(Error::Usage(study::NOT_BUILT.to_owned()));
    }
    can_be_compressed(to)?;
    if is_same(from, to) {
        return Err(Error::Usage(format!(
            "'{}' is the recording itself; name another output file",
            to.display()
        )));
    }
    Ok(())
}

fn convert(from: &Path, to: &Path, format: &str, reading: &Reading) -> Result<(), Error> {
    check(from, to, format)?;
    if format == "parquet" {
        return parquet::convert(from, to, &reading.options());
    }
    let mut recording = open(from, reading)?;
    // The first record is read before the file is created, so that an unreadable recording leaves no file.
    let first = next_record(&mut recording)?;
    let mut sink = sink(to)?;
    let mut writer = Writer::new(format, BufWriter::new(&mut sink), &recording)?;
    if let Some(first) = &first {
        writer.write(first, &recording)?;
    }
    let mut devices = recording.devices().len();
    until_stopped(&mut recording, |record, recording| {
        if recording.devices().len() > devices {
            devices = recording.devices().len();
            writer.add_devices(recording);
        }
        Ok(writer.write(record, recording)?)
    })?;
    let written = writer.finish()?;
    sink.finish()?;
    report(from, format, written, &recording)
}

/// Prints what was written.
fn report(from: &Path, format: &str, written: Written, recording: &Recording) -> Result<(), Error> {
    let Written { written, left_out, rounded } = written;
    say!("{}: {}", from.display(), recording.interpretation());
    say!(
        "{} written, {left_out} left out because {format} cannot express them, {rounded} rounded",
        counted(written, "request")
    );
    for line in recording.skips().to_string().lines() {
        say!("{}: {line}", from.display());
    }
    whole()
}
