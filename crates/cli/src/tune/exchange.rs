//! `dwell patterns export`, `merge` and `import`: share learned ratings between hosts.
//!
//! A file `NAME.parquet` has a row for each host, kind of load and scheduler; other files have a JSON object per line with the same fields.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use elevator::text::counted;
use tuner::{Analyser, Metric, Parameters, Random, Shared, SharedLoad, State};
use tuner_live::database::{Database, Drive};
use tuner_live::in_words;

use super::args::PatternsArguments;
use super::exchange_table;
use super::selection::{claim_all, is_called, nothing, selected};
use super::setup::displayed;
use crate::error::Error;
use crate::output_file::{self, is_same};

const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Writes the ratings of the selected drives.
pub(super) fn export(arguments: &PatternsArguments, file: &Path, host: Option<&str>) -> Result<(), Error> {
    let database = Database::open_existing(&arguments.database)?.ok_or_else(|| nothing(arguments))?;
    if host == Some("") {
        return Err(Error::Usage("--host: the name is empty; give each host a name of its own".to_owned()));
    }
    let host = host.map(str::to_owned).or_else(host_name).ok_or_else(|| {
        Error::Usage(format!("{HOST_NAME}: the host name is empty; set a name with --host"))
    })?;
    let mut shared = Shared::default();
    for Drive { name, metric, .. } in selected(&database, arguments)? {
        if let Some(state) = database.load(&name, metric)? {
            shared.merge(Shared::of(&host, &name, &state));
        }
    }
    if shared.loads.is_empty() {
        return Err(Error::Input(format!(
            "{}: no kind of load in which this host has compared schedulers itself, and imported ratings are not exported; run the tuner first ('dwell tune')",
            arguments.database.display()
        )));
    }
    is_replaceable(file, &host)?;
    write(file, &shared)
}

fn host_name() -> Option<String> {
    let name = fs::read_to_string(HOST_NAME).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Rejects a file whose content an export would destroy: it replaces only an earlier export of the same host.
fn is_replaceable(file: &Path, host: &str) -> Result<(), Error> {
    if !has_content(file) {
        return Ok(());
    }
    let kept = |problem: &str| Err(Error::Usage(format!("{}: {problem}", file.display())));
    let Ok(known) = read(file) else {
        return kept("exists and is no file of 'dwell patterns export'; name another file, or remove it");
    };
    known.loads.iter().find(|load| load.host != host).map_or(Ok(()), |other| {
        kept(&format!(
            "has loads of host '{}', and this export has only those of '{host}'; export to a new file, then merge both with 'dwell patterns merge'",
            other.host
        ))
    })
}

/// Merges files into one, which may be one of them. Another file with content is not replaced: it may be an export, if the name of the result was
/// forgotten.
pub(super) fn merge(into: &Path, files: &[PathBuf]) -> Result<(), Error> {
    if has_content(into) && !files.iter().any(|file| is_same(file, into)) {
        let problem =
            "exists, and is none of the files to merge; name a new file first, or name it among them as well";
        return Err(Error::Usage(format!("{}: {problem}", into.display())));
    }
    write(into, &read_all(files)?)
}

/// Whether it is a regular file that is not empty.
fn has_content(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.len() > 0)
}

/// Adds the files' kinds of load that the database lacks.
pub(super) fn import(arguments: &PatternsArguments, files: &[PathBuf]) -> Result<(), Error> {
    let shared = read_all(files)?;
    let part = arguments.drive.as_deref().unwrap_or_default();
    let metric = arguments.metric.as_deref();
    let is_selected = |load: &&SharedLoad| {
        load.device.contains(part) && metric.is_none_or(|name| is_called(load.metric, name))
    };
    let mut targets: Vec<(&str, Metric)> =
        shared.loads.iter().filter(is_selected).map(|load| (load.device.as_str(), load.metric)).collect();
    targets.sort_by_key(|(device, metric)| (*device, in_words(*metric)));
    targets.dedup();
    if targets.is_empty() {
        return Err(Error::Usage(format!(
            "no load in {} matches --drive and --metric; the files have {}",
            displayed(files),
            shared.describe()
        )));
    }
    let database = Database::open(&arguments.database)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    for (device, metric) in targets {
        let described = format!("{device}, by {}", in_words(metric));
        if shared.of_device(device, metric).all(|load| load.schedulers.is_empty()) {
            writeln!(std::io::stdout().lock(), "{described}: no scheduler has a rating")?;
            continue;
        }
        let _alone = claim_all(device)?;
        let mut state = match database.load(device, metric)? {
            Some(state) => state,
            None => empty(&shared, device, metric)?,
        };
        let given = shared.give_to(device, &mut state);
        if given.added > 0 {
            database.save(device, &state, now)?;
        }
        let added = counted(given.added as u64, "kind");
        let mut hosts: Vec<&str> = shared.of_device(device, metric).map(|load| load.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let hosts = counted(hosts.len() as u64, "host");
        let reasons = [
            (given.known, "in the database before"),
            (given.unrated, "with ratings of fewer than two schedulers of the database"),
            (given.excess, "beyond the greatest number of kinds of a drive"),
        ];
        let reasons = reasons.iter().filter(|(count, _)| *count > 0);
        let left_out: String = reasons.map(|(count, reason)| format!("; {count} {reason}")).collect();
        writeln!(std::io::stdout().lock(), "{described}: {added} of load added, of {hosts}{left_out}")?;
    }
    Ok(())
}

/// The state of a new tuner, for the schedulers that occur in the files.
fn empty(shared: &Shared, device: &str, metric: Metric) -> Result<State, Error> {
    let ratings = shared.of_device(device, metric).flat_map(|load| &load.schedulers);
    let mut names: Vec<String> = ratings.map(|rating| rating.scheduler.clone()).collect();
    names.sort();
    names.dedup();
    let made = Analyser::new(names, metric, Parameters::default(), Random::new(1));
    made.map(|analyser| analyser.state()).map_err(|problem| Error::Input(format!("{device}: {problem}")))
}

fn read_all(files: &[PathBuf]) -> Result<Shared, Error> {
    let mut entries = Vec::new();
    for file in files {
        let mut loads = read(file)?.loads;
        // Also of an export that was cut: its host would be missing from the result.
        if loads.is_empty() {
            let problem = "no load; export it again from a host whose tuner has run, or leave the file out";
            return Err(Error::Input(format!("{}: {problem}", file.display())));
        }
        entries.append(&mut loads);
    }
    let mut all = Shared::default();
    let mut differing = all.merge(Shared { loads: entries });
    differing.sort();
    for hosts in differing.chunk_by(|one, other| one == other) {
        let loads = counted(hosts.len() as u64, "load");
        say!(
            "note: host '{}': two different entries for {loads}; the one with more windows is kept. If two hosts have this name, export each with \
             a --host of its own",
            hosts[0]
        );
    }
    Ok(all)
}

fn is_parquet(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "parquet")
}

fn read(file: &Path) -> Result<Shared, Error> {
    if is_parquet(file) {
        return Ok(Shared { loads: exchange_table::read(file)? });
    }
    // A device such as /dev/zero has no end.
    if file.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir() && !found.file_type().is_fifo())
    {
        let path = file.display();
        return Err(Error::Usage(format!("{path}: is no file; name a file of 'dwell patterns export'")));
    }
    let text = fs::read_to_string(file).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => Error::Input(format!(
            "{}: is no text; expected a file of 'dwell patterns export' (in Parquet if its name ends in .parquet)",
            file.display()
        )),
        _ => Error::file(file.display(), &error),
    })?;
    let mut loads = exchange_table::Loads::default();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |problem: &str| {
            let advice = "expected a file of 'dwell patterns export'";
            Error::Input(format!("{}:{}: {problem}; {advice}", file.display(), number + 1))
        };
        let row = exchange_table::of_json(line).map_err(|problem| wrong(&problem))?;
        loads.add(row).map_err(|problem| wrong(&problem))?;
    }
    Ok(Shared { loads: loads.loads })
}

fn write(file: &Path, shared: &Shared) -> Result<(), Error> {
    if is_parquet(file) {
        exchange_table::write(file, &shared.loads)?;
    } else {
        let mut text = String::new();
        for row in exchange_table::rows(&shared.loads)? {
            text += &serde_json::to_string(&row).map_err(|error| Error::Failed(error.to_string()))?;
            text.push('\n');
        }
        output_file::write(file, text.as_bytes())?;
    }
    if file != Path::new("-") {
        writeln!(std::io::stdout().lock(), "{}: {}", file.display(), shared.describe())?;
    }
    Ok(())
}
