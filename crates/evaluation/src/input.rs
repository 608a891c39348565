//! Workloads by name: a recording, a fio job file, or a built-in workload; and scripts.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use elevator::text::{counted, did_you_mean};
use elevator::{Op, SECTOR_BYTES, Sector, Span, Time};
use serde::{Deserialize, Serialize};
use traces::{DeviceChoice, Format, Options, Record, Recording, Skips, TimeUnit};
use workloads::builtin::Builtin;
use workloads::fio::JobFile;
use workloads::replay::{Closed, Open, Replay};
use workloads::scenario::{Scenario, papers};
use workloads::{Settings, Workload};

use crate::error::Error;
use crate::interrupt;
use crate::runs::Run;
use crate::spool::{StepFile, return_memory};
use crate::text_file;

/// Denotes standard input in place of a recording's file name.
pub const STANDARD_INPUT: &str = "-";

/// Options for reading a recording; the default detects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reading {
    /// Format of the recording.
    pub format: Option<String>,
    /// The device to read from a recording of several; `all` merges them.
    pub device: Option<String>,
    /// Unit of the recording's time stamps, if the format does not define it.
    pub unit: Option<String>,
    /// Reject a recording with unreadable lines.
    pub strict: bool,
}

impl Reading {
    /// The command-line name of the first option that is set.
    fn given(&self) -> Option<&'static str> {
        [
            ("--format", self.format.is_some()),
            ("--device", self.device.is_some()),
            ("--unit", self.unit.is_some()),
            ("--strict", self.strict),
        ]
        .into_iter()
        .find_map(|(option, given)| given.then_some(option))
    }
}

/// A workload, with notes about its interpretation.
pub struct Opened {
    pub workload: Box<dyn Workload>,
    /// How the recording was interpreted.
    pub notes: Vec<String>,
    /// Parts of the recording that are not replayed.
    pub missing: Vec<String>,
    /// Whether requests arrive at given times, regardless of the device's speed.
    pub by_time: bool,
    /// What was left out of the recording or corrected.
    pub skips: Skips,
    /// How long the workload lasts, if it is known.
    pub length: Option<Length>,
    /// The jobs of a job file with a runtime.
    pub runtimes: Runtimes,
}

/// How long a workload lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// From the first to the last request of the recording. A replay in closed loops lasts as long as the device needs.
    Recorded(Span),
    /// Each job has a runtime.
    Given(Span),
}

/// The jobs that end at a runtime, if they do not end with their work before: their names, and the times after their start.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Runtimes(Vec<(String, Span)>);

impl Runtimes {
    /// Whether a job of the run ended at its runtime: the time bounds the work then, not the work the time.
    pub fn bound(&self, run: &Run) -> bool {
        let is_bound = |(name, runtime): &(String, Span)| {
            let mut of_job = run.measured.processes.iter().filter(|process| process.name == *name);
            of_job.any(|process| process.elapsed_ns >= runtime.as_nanos())
        };
        self.0.iter().any(is_bound)
    }
}

/// How a recording is replayed.
#[derive(Clone, Copy, Default)]
pub struct Replaying {
    /// By its time stamps instead of in closed loops: the option that asks for it, for messages.
    pub open: Option<&'static str>,
    pub reads_only: bool,
    /// On a device, which executes no discards, instead of a model.
    pub on_device: bool,
    /// Another draw of the random numbers of a built-in workload or job file; 0 and 1 are as written.
    pub seed: u64,
}

/// Opens the workload that `text` names. `capacity` is the drive's.
///
/// # Errors
/// No such workload, an unreadable file, or a workload that does not fit the drive.
pub fn open(text: &str, reading: &Reading, how: Replaying, capacity: Sector) -> Result<Opened, Error> {
    // A pipe is read like a file. A folder is an error, unless it has a built-in workload's name.
    let (opened, is_recording) = match std::fs::metadata(text) {
        _ if text == STANDARD_INPUT => (recording(text, reading, how, capacity)?, true),
        Ok(about) if about.is_dir() && Builtin::named(text).is_some() => (builtin(text, how.seed)?, false),
        Ok(_) if text.ends_with(".toml") => {
            return Err(Error::Usage(format!("{text}: 'dwell run' runs scripts")));
        }
        Ok(about) if about.is_file() && is_job_file(text, &head(text).unwrap_or_default()) => {
            (job_file(text, how, capacity)?, false)
        }
        Ok(_) => (recording(text, reading, how, capacity)?, true),
        Err(_) => (builtin(text, how.seed)?, false),
    };
    if let Some(option) = reading.given().or(how.open).filter(|_| !is_recording) {
        return Err(Error::Usage(format!(
            "{option} applies to recordings only, and {text} is none; omit the option"
        )));
    }
    let end = opened.workload.end();
    if end > capacity {
        return Err(Error::Usage(format!(
            "{text} reaches to sector {end}, but the drive ends at {capacity}; choose a larger drive or a smaller workload"
        )));
    }
    Ok(opened)
}

/// Whether the file `name`, which begins with `head`, is a fio job file. The content decides; the extension `.fio` suffices unless the
/// content is a fio iolog.
pub fn is_job_file(name: &str, head: &[u8]) -> bool {
    JobFile::begins(head) || name.ends_with(".fio") && !head.starts_with(b"fio version ")
}

/// The start of a file. It is long because a job file may start with comments.
pub fn head(name: &str) -> std::io::Result<Vec<u8>> {
    const HEAD_BYTES: u64 = 64 * 1024;
    let mut head = Vec::new();
    File::open(name)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// The error for a recording in place of a program's script, if `name` is one.
pub fn no_script(name: &str) -> Option<Error> {
    let file = File::open(name).ok().filter(|_| Path::new(name).is_file())?;
    let mut recording = traces::open(name, Box::new(file), &Options::default()).ok()?;
    recording.next()?.ok()?;
    let format = recording.interpretation().format;
    Some(Error::Input(format!(
        "{name}: is a recording ({format}), not a script; replay it with 'dwell compare'"
    )))
}

fn job_file(path: &str, how: Replaying, capacity: Sector) -> Result<Opened, Error> {
    let text = text_file::read(path, "job file")?;
    let mut jobs = JobFile::parse_on_device(path, &text, capacity.0.saturating_mul(SECTOR_BYTES))
        .map_err(|e| Error::Input(e.to_string()))?;
    if let Some(job) = jobs.jobs().iter().find(|job| how.reads_only && (job.trims || job.reads_percent < 100))
    {
        return Err(Error::Usage(format!(
            "{path}: [{}] writes; --allow-writes permits that, and destroys the data on the device",
            job.name
        )));
    }
    if how.on_device && jobs.only_discards().is_some() {
        return Err(none_left(path, ": every job discards, and discards are left out on a device"));
    }
    jobs.reseed(how.seed.max(1) - 1);
    let notes = jobs.notes.iter().cloned().chain(jobs.buffered()).chain(jobs.only_discards()).collect();
    let (missing, skips) = (Vec::new(), Skips::default());
    let (length, runtimes) = (jobs.runtime().map(Length::Given), Runtimes(jobs.runtimes()));
    Ok(Opened { workload: Box::new(jobs), notes, missing, by_time: false, skips, length, runtimes })
}

fn builtin(text: &str, seed: u64) -> Result<Opened, Error> {
    let (name, mut settings) = name_and_settings(text)?;
    let Some(builtin) = Builtin::named(name) else {
        let names: Vec<&str> = Builtin::ALL.iter().map(|builtin| builtin.name).collect();
        let hint = did_you_mean(name, names.iter().copied());
        return Err(Error::Usage(format!(
            "'{text}' is neither a file nor a built-in workload; built in are {}{hint}",
            names.join(", ")
        )));
    };
    let is_set = settings.iter().any(|(name, _)| name == "seed");
    if seed > 1 && !is_set && builtin.settings.iter().any(|setting| setting.name == "seed") {
        settings.push(("seed".to_owned(), seed.to_string()));
    }
    let workload = builtin.build(&settings).map_err(|e| Error::Usage(e.to_string()))?;
    let (notes, missing, skips) = (Vec::new(), Vec::new(), Skips::default());
    Ok(Opened {
        workload,
        notes,
        missing,
        by_time: false,
        skips,
        length: None,
        runtimes: Runtimes::default(),
    })
}

/// Splits `name{key=value, key=value}`.
fn name_and_settings(text: &str) -> Result<(&str, Settings), Error> {
    let Some((name, rest)) = text.split_once('{') else { return Ok((text, Settings::new())) };
    let body =
        rest.strip_suffix('}').ok_or_else(|| Error::Usage(format!("'{text}': settings end with '}}'")))?;
    let settings = body.split(',').map(str::trim).filter(|part| !part.is_empty());
    let settings = settings.map(|part| match part.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => Err(Error::Usage(format!("'{part}' in '{text}': a setting is written name=value"))),
    });
    Ok((name, settings.collect::<Result<_, _>>()?))
}

/// The options for reading a recording.
///
/// # Errors
/// An unknown format or unit.
pub fn options(reading: &Reading, capacity: Option<Sector>) -> Result<Options, Error> {
    let unit = match &reading.unit {
        None => None,
        Some(name) => Some(TimeUnit::from_short(name).ok_or_else(|| {
            Error::Usage(format!("'{name}' is not a unit of time; units are s, ms, us, 100ns, ns"))
        })?),
    };
    let format = match &reading.format {
        None => None,
        Some(name) => Some(Format::from_name(name).ok_or_else(|| {
            let known: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            let hint = did_you_mean(name, known.iter().copied());
            Error::Usage(format!(
                "'{name}' is not a recording format; formats are {}{hint}",
                known.join(", ")
            ))
        })?),
    };
    let device = match reading.device.as_deref() {
        None => DeviceChoice::Single,
        Some("all") => DeviceChoice::All,
        Some(name) => DeviceChoice::Named(name.to_owned()),
    };
    let capacity = capacity.map(|sector| sector.0.saturating_mul(SECTOR_BYTES));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Options { format, device, capacity, unit, strict: reading.strict, threads, ..Options::default() })
}

/// Opens a recording's file, or standard input.
///
/// # Errors
/// The file cannot be read, or has no known format.
pub fn open_recording(path: &Path, options: &Options) -> Result<Recording, Error> {
    let name = path.to_string_lossy();
    let opened = match name == STANDARD_INPUT {
        true => traces::open(&name, Box::new(std::io::stdin()), options),
        false => traces::open_file(&name, open_file(path, &name)?, options),
    };
    opened.map_err(|e| unreadable(&e))
}

fn open_file(path: &Path, name: &str) -> Result<File, Error> {
    let file = File::open(path).map_err(|e| Error::file(name, &e))?;
    if file.metadata().is_ok_and(|about| about.is_dir()) {
        return Err(Error::Input(format!("'{name}' is a folder; name a recording in it")));
    }
    Ok(file)
}

/// The recording's next record; an error if it cannot be read, or after Ctrl-C.
///
/// # Errors
/// The recording is damaged, or the user pressed Ctrl-C.
pub fn next_record(recording: &mut Recording) -> Result<Option<Record>, Error> {
    if interrupt::requested() {
        return Err(Error::Interrupted);
    }
    recording.next().transpose().map_err(|e| unreadable(&e))
}

/// The next records, into `to`; false at the end.
pub fn read_batch(recording: &mut Recording, to: &mut Vec<Record>) -> Result<bool, Error> {
    if interrupt::requested() {
        return Err(Error::Interrupted);
    }
    recording.read_batch(to).map_err(|e| unreadable(&e))
}

/// Whether the error advises to name the format.
fn is_other_format(error: &str) -> bool {
    ["name it if", "specify"].iter().any(|advice| error.contains(advice))
}

/// A recording's error, with the options that avoid it.
fn unreadable(error: &traces::Error) -> Error {
    Error::Input(match error.kind() {
        traces::ErrorKind::Device => {
            format!("{error} (--device NAME, --device all; in a study file: device = \"NAME\" in [reading])")
        }
        traces::ErrorKind::NotBuilt => {
            format!(
                "{error}; build dwell with 'cargo build --release --features studies', or install the package"
            )
        }
        // The format of an empty file, or of a Parquet file with other columns, is not the problem.
        traces::ErrorKind::Format if is_other_format(&error.to_string()) => {
            format!("{error} (--format NAME; in a study file: format = \"NAME\" in [reading])")
        }
        _ => error.to_string(),
    })
}

fn none_left(path: &str, why: &str) -> Error {
    Error::Input(format!("{path}: has no request that can be replayed{why}"))
}

fn recording(path: &str, reading: &Reading, how: Replaying, capacity: Sector) -> Result<Opened, Error> {
    let mut recording = open_recording(Path::new(path), &options(reading, Some(capacity))?)?;
    let (mut left_out, mut executable) = (0, 0_u64);
    let mut times: Option<(Time, Time)> = None;
    let mut next = |recording: &mut Recording| {
        loop {
            match next_record(recording)? {
                Some(record) if how.reads_only && record.op != Op::Read => left_out += 1,
                record => {
                    executable += u64::from(record.as_ref().is_some_and(|record| record.op != Op::Discard));
                    if let Some(at) = record.as_ref().map(|record| record.at) {
                        times = Some(times.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
                    }
                    return Ok(record);
                }
            }
        }
    };
    let Made { replay, mut notes, by_time } = match how.open {
        Some(_) => {
            Made { replay: at_times(path, &mut recording, &mut next)?, notes: Vec::new(), by_time: true }
        }
        None => in_loops(path, &mut recording, &mut next)?,
    };
    return_memory();
    if left_out > 0 {
        let requests = counted(left_out, "request");
        notes.push(format!("{path}: {requests} other than reads left out; --allow-writes replays them"));
    }
    if replay.requests() == 0 {
        let skips = recording.skips().to_string().replace('\n', "; ");
        let skips = if skips.is_empty() { skips } else { format!(": {skips}") };
        return Err(none_left(path, &skips));
    }
    if how.on_device && executable == 0 {
        return Err(none_left(path, ": it has only discards, which are left out on a device"));
    }
    let interpretation = recording.interpretation();
    notes.insert(0, format!("{path}: {interpretation}"));
    notes.extend(interpretation.doubt());
    notes.extend(replay.note().map(|note| format!("{path}: {note}")));
    let devices = recording.devices().iter().filter(|device| device.requests > 0).count();
    if reading.device.as_deref() == Some("all") && devices > 1 {
        notes.push(format!("{path}: its {devices} devices are replayed on one, each at its own addresses"));
    }
    let (faults, oddities): (Vec<_>, Vec<_>) =
        recording.skips().lines().partition(|(oddity, _)| oddity.is_fault());
    let lines = |of: Vec<(_, String)>| of.into_iter().map(|(_, line)| format!("{path}: {line}"));
    notes.extend(lines(oddities));
    let (missing, skips) = (lines(faults).collect(), recording.skips().clone());
    let length = times.map(|(first, last)| Length::Recorded(last.since(first)));
    Ok(Opened {
        workload: Box::new(replay),
        notes,
        missing,
        by_time,
        skips,
        length,
        runtimes: Runtimes::default(),
    })
}

/// A replay, and whether it is by time stamps.
struct Made {
    replay: Replay,
    notes: Vec<String>,
    by_time: bool,
}

/// Returns the next record that is replayed.
type NextRecord<'a> = &'a mut dyn FnMut(&mut Recording) -> Result<Option<Record>, Error>;

fn at_times(path: &str, recording: &mut Recording, next: NextRecord<'_>) -> Result<Replay, Error> {
    let mut open = Open::spilling_to(Arc::new(StepFile::default()));
    while let Some(record) = next(recording)? {
        open.push(&record);
    }
    Ok(open.finish(path, &|pid| recording.process_name(pid)))
}

/// Closed loops; or, without completions, a replay by time stamps, and a note: the request that a process waited for is unknown then.
fn in_loops(path: &str, recording: &mut Recording, next: NextRecord<'_>) -> Result<Made, Error> {
    let mut closed = Closed::spilling_to(Arc::new(StepFile::default()));
    let mut open = Open::spilling_to(Arc::new(StepFile::default()));
    let mut completions = Completions::default();
    while let Some(record) = next(recording)? {
        if completions.add(&record) {
            open = Open::default();
        }
        if completions.is_none() {
            open.push(&record);
        }
        closed.push(&record);
    }
    let names = |pid| recording.process_name(pid);
    if !completions.is_none() {
        let note = completions.note().map(|note| format!("{path}: {note}"));
        let replay = closed.finish(path, &names);
        return Ok(Made { replay, notes: note.into_iter().collect(), by_time: false });
    }
    let note = "has no completions, so that dependencies between requests are unknown: replayed by its time stamps, as with --open";
    let replay = open.finish(path, &names);
    Ok(Made { replay, notes: vec![format!("{path}: {note}")], by_time: true })
}

/// Counts the requests of a recording that have a completion.
#[derive(Clone, Copy, Default)]
pub struct Completions {
    with: u64,
    all: u64,
}

impl Completions {
    /// Counts a record; whether it is the first one with a completion.
    pub fn add(&mut self, record: &Record) -> bool {
        self.all += 1;
        self.with += u64::from(record.completed.is_some());
        record.completed.is_some() && self.with == 1
    }

    /// Whether no record has one.
    pub const fn is_none(self) -> bool {
        self.with == 0
    }

    /// What a replay in closed loops says if more than one record in a hundred has none. A few have none in every recording: those under way at its end.
    pub fn note(self) -> Option<String> {
        let missing = self.all - self.with;
        (missing > self.all / 100).then(|| {
            format!(
                "{missing} of {} requests have no completion: the next request of their process does not wait for them, so that the \
                 replay may end too early; --open (open=True) replays by time stamps",
                self.all
            )
        })
    }
}

fn scripts() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    papers::SCRIPTS.iter().chain(papers::IOANALYZER)
}

/// The names of the papers' experiments.
pub fn script_names() -> impl Iterator<Item = &'static str> {
    scripts().map(|(name, _)| *name)
}

/// Experiments that a message lists for a name that none has.
const SIMILAR_MAX: usize = 5;

/// The experiments of a paper if `name` is one, or those whose names are near `name` or contain it, or the papers.
fn similar_scripts(name: &str) -> String {
    let paper = |known: &'static str| known.split('/').next().unwrap_or(known);
    let title = |known: &'static str| known.rsplit('/').next().unwrap_or(known);
    let part = name.trim_matches('/').to_lowercase();
    let of_paper: Vec<&str> = script_names().filter(|known| paper(known) == part).collect();
    if !of_paper.is_empty() {
        return format!("experiments of this paper are {}", of_paper.join(", "));
    }
    let is_near = |known: &&'static str| {
        let contains = part.chars().count() > 2 && known.contains(&part);
        contains || [*known, title(known)].iter().any(|of| !did_you_mean(&part, [*of]).is_empty())
    };
    let mut near: Vec<&str> = script_names().filter(is_near).collect();
    let more = near.len().saturating_sub(SIMILAR_MAX);
    near.truncate(SIMILAR_MAX);
    match (&near[..], more) {
        ([], _) => {
            let papers: BTreeSet<&str> = script_names().map(paper).collect();
            let papers: Vec<&str> = papers.into_iter().collect();
            format!("name a paper to list its experiments: {}", papers.join(", "))
        }
        ([one], _) => format!("did you mean '{one}'?"),
        (all, 0) => format!("similar are {}", all.join(", ")),
        (all, more) => format!("similar are {}, and {more} more", all.join(", ")),
    }
}

/// A script's text: a file's, or an experiment's.
///
/// # Errors
/// No such experiment or file.
pub fn script_text(name: &str) -> Result<String, Error> {
    if let Some((_, text)) = scripts().find(|(known, _)| *known == name) {
        return Ok((*text).to_owned());
    }
    if !Path::new(name).exists() && !name.ends_with(".toml") && !name.ends_with(".fio") {
        return Err(Error::Usage(format!(
            "'{name}' is neither a file nor an experiment; {}",
            similar_scripts(name)
        )));
    }
    text_file::read(name, "script")
}

/// The script of that name, or a job file as a script, with notes about its interpretation.
///
/// # Errors
/// No such script, an error in it, or a scale that does not apply.
pub fn open_script(name: &str, scale: f64) -> Result<(Scenario, Vec<String>), Error> {
    let text = script_text(name)?;
    if name.ends_with(".toml") || !is_job_file(name, text.as_bytes()) {
        let scenario = Scenario::parse(name, &text, scale).map_err(|e| Error::Input(e.to_string()))?;
        return Ok((scenario, Vec::new()));
    }
    let jobs = JobFile::parse(name, &text).map_err(|e| Error::Input(e.to_string()))?;
    if let Some(job) = jobs.jobs().iter().find(|job| job.trims) {
        let problem = "discards sectors, and the modelled kernel has no system call for that; 'dwell compare' runs the job on the device";
        return Err(Error::Input(format!("{name}: [{}] {problem}", job.name)));
    }
    if scale < 1.0 {
        return Err(Error::Usage("--scale is for scripts; set size= in a job file".to_owned()));
    }
    let notes = jobs.notes.iter().cloned().chain(jobs.one_by_one()).collect();
    Ok((Scenario::of_jobs(&jobs), notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_completions_are_stated_if_there_are_many() {
        let note = |with: u64, all: u64| Completions { with, all }.note();
        assert_eq!([note(99, 100), note(990, 1000), note(5, 5), note(0, 0)], [const { None }; 4]);
        assert!(note(98, 100).is_some_and(|note| note.starts_with("2 of 100 requests have no completion")));
        assert!(note(1, 5).is_some_and(|note| note.starts_with("4 of 5")));
    }

    /// The note about missing completions does not make a replay in closed loops one by time stamps.
    #[test]
    fn a_replay_is_by_time_only_without_any_completion() {
        let path = std::env::temp_dir().join(format!("dwell-input-{}.dwell", std::process::id()));
        let read = |missing: u64, stamps: Option<&'static str>| {
            let latency = |n| if n < missing { "-" } else { "5000000" };
            let line = |n| format!("{} {} 8,0 R {} 4096 - 1 p\n", n * 9_000_000, latency(n), n << 20);
            let text = "# dwell recording 1\n".to_owned() + &(0..100).map(line).collect::<String>();
            std::fs::write(&path, text).unwrap();
            let how = Replaying { open: stamps, ..Replaying::default() };
            let opened = open(&path.to_string_lossy(), &Reading::default(), how, Sector(1 << 30)).unwrap();
            let notes = |part: &str| opened.notes.iter().filter(|note| note.contains(part)).count();
            (opened.by_time, notes("have no completion"), notes("replayed by its time stamps"))
        };
        assert_eq!(read(0, None), (false, 0, 0));
        assert_eq!(read(2, None), (false, 1, 0));
        assert_eq!(read(100, None), (true, 0, 1));
        assert_eq!(read(2, Some("--open")), (true, 0, 0));
        std::fs::remove_file(path).unwrap();
    }
}
