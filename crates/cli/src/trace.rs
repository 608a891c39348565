//! `dwell trace`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use comfy_table::{Table, presets};
use elevator::Span;
use elevator::text::counted;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::json;
use traces::write::{
    BlkparseWriter, Compressed, DiskSimWriter, DwellWriter, FioWriter, Written, not_written,
};
use traces::{Info, Record, Recording};

use crate::arguments::{Reading, TraceArguments, TraceCommand};
use crate::error::{Error, is_no_device};
use crate::format::{bytes, number, object, percent, time};
use crate::interrupt;
use crate::quantity::some_time;
use crate::tune::recognised::Recognised;
use crate::workload::{next_record, open_recording, options};

pub(crate) fn run(arguments: &TraceArguments) -> Result<(), Error> {
    match &arguments.command {
        TraceCommand::Info { file, reading, json } => info(file, reading, *json),
        TraceCommand::Patterns { file, window, reading, json } => patterns(file, window, reading, *json),
        TraceCommand::Convert { from, to, to_format, reading } => convert(from, to, to_format, reading),
    }
}

fn open(path: &Path, reading: &Reading) -> Result<Recording, Error> {
    open_recording(path, &options(reading, None)?)
}

fn info(path: &Path, reading: &Reading, as_json: bool) -> Result<(), Error> {
    let mut recording = open(path, reading)?;
    let mut gatherer = Info::gatherer();
    until_stopped(&mut recording, |record, _| {
        gatherer.add(record);
        Ok(())
    })?;
    let info = gatherer.finish(&recording);
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{}", object(&json!({"file": path.display().to_string(), "info": info}))?)?;
    } else {
        writeln!(out, "{}: {}", path.display(), in_words(&info))?;
    }
    whole()
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

/// Takes every record, until there are no more or somebody asked to stop.
fn until_stopped(
    recording: &mut Recording,
    mut take: impl FnMut(&Record, &Recording) -> Result<(), Error>,
) -> Result<(), Error> {
    loop {
        match next_record(recording) {
            Ok(Some(record)) => take(&record, recording)?,
            Ok(None) | Err(Error::Interrupted) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// What has been printed is all there is, unless somebody asked to stop.
fn whole() -> Result<(), Error> {
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
}

fn in_words(info: &Info) -> String {
    let mut text = format!("{}\n", info.interpretation);
    if let Some(doubt) = info.interpretation.doubt() {
        text += &format!("  {doubt}\n");
    }
    for (what, amount) in [("reads", info.reads), ("writes", info.writes), ("discards", info.discards)] {
        text += &format!("  {what}: {}, {}\n", counted(amount.requests, "request"), bytes(amount.bytes));
    }
    text += &format!(
        "  flushes: {}\n  sequential: {} of requests{}\n  read-ahead: {} of reads; synchronous: {} of writes\n  reaches to {}\n",
        info.flushes,
        percent(info.sequential),
        info.sequential_per_process
            .map_or(String::new(), |share| format!(", {} within their process", percent(share))),
        percent(info.read_ahead),
        percent(info.sync_writes),
        bytes(info.end_bytes),
    );
    if let Some(latency) = &info.latency {
        text += &format!(
            "  latency: mean {} over {}\n",
            time(latency.mean_ns as u64),
            counted(latency.requests, "request")
        );
    }
    text += &sizes(info);
    for process in info.processes.iter().take(12) {
        let name = process.name.as_deref().unwrap_or("unnamed");
        text +=
            &format!("  process {} ({name}): {}\n", process.pid, counted(process.total.requests, "request"));
    }
    for line in info.skips.to_string().lines() {
        text += &format!("  {line}\n");
    }
    text.trim_end().to_owned()
}

fn sizes(info: &Info) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(["size up to", "reads", "writes"]);
    for row in &info.sizes {
        table.add_row([number(row.up_to_bytes as f64) + " B", row.reads.to_string(), row.writes.to_string()]);
    }
    format!("{table}\n")
}

/// The formats that are written.
const WRITTEN: [&str; 4] = ["dwell", "fio", "blkparse", "disksim"];

fn unknown(format: &str) -> Error {
    Error::Usage(format!("'{format}' is not written; written are {}", WRITTEN.join(", ")))
}

/// A format that is written.
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

    /// Learns of the devices that the recording has met by now.
    fn meet(&mut self, recording: &Recording) {
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

/// What can be known to be wrong before anything is written over.
fn check(from: &Path, to: &Path, format: &str) -> Result<(), Error> {
    if !WRITTEN.contains(&format) {
        return Err(unknown(format));
    }
    can_be_compressed(to)?;
    match (from.canonicalize(), to.canonicalize()) {
        (Ok(source), Ok(target)) if source == target && target.is_file() => {
            Err(Error::Usage(format!("'{}' is the recording itself; write to another file", to.display())))
        }
        _ => Ok(()),
    }
}

/// A recording's file, or standard output.
pub(crate) fn sink(to: &Path) -> Result<Compressed<Box<dyn Write>>, Error> {
    Ok(Compressed::new(&to.to_string_lossy(), created(to)?))
}

/// A file begun anew, or standard output.
pub(crate) fn created(to: &Path) -> Result<Box<dyn Write>, Error> {
    is_no_device(to)?;
    Ok(if to == Path::new("-") {
        Box::new(std::io::stdout().lock())
    } else {
        let _reader = await_reader(to)?;
        Box::new(File::create(to).map_err(|e| Error::written(to.display(), &e))?)
    })
}

/// A pipe with a name cannot be opened to be written before somebody reads it, who may never come: until somebody asks to stop. Of anything
/// else nothing.
fn await_reader(to: &Path) -> Result<Option<OwnedFd>, Error> {
    if !to.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
        return Ok(None);
    }
    loop {
        match rustix::fs::open(to, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()) {
            Ok(pipe) => return Ok(Some(pipe)),
            Err(Errno::NXIO) if interrupt::requested() => return Err(Error::Interrupted),
            Err(Errno::NXIO) => std::thread::sleep(Duration::from_millis(50)),
            Err(error) => return Err(Error::written(to.display(), &error.into())),
        }
    }
}

/// A name that promises a compression that nobody writes would be a lie.
pub(crate) fn can_be_compressed(to: &Path) -> Result<(), Error> {
    let to = to.to_string_lossy();
    not_written(&to).map_or(Ok(()), |extension| {
        let problem =
            format!("'{to}': .{extension} is not written; name it .gz, .zst or without compression");
        Err(Error::Usage(problem))
    })
}

fn convert(from: &Path, to: &Path, format: &str, reading: &Reading) -> Result<(), Error> {
    check(from, to, format)?;
    let mut recording = open(from, reading)?;
    // The first record is read before the file is made, so that there is none if nothing can be read.
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
            writer.meet(recording);
        }
        Ok(writer.write(record, recording)?)
    })?;
    let Written { written, left_out, rounded } = writer.finish()?;
    sink.finish()?;
    say!("{}: {}", from.display(), recording.interpretation());
    say!(
        "{} written, {left_out} left out as {format} has no word for them, {rounded} rounded",
        counted(written, "request")
    );
    for line in recording.skips().to_string().lines() {
        say!("{}: {line}", from.display());
    }
    whole()
}
