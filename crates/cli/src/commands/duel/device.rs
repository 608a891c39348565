//! `dwell duel DEVICE`: the kernel's schedulers on a real device, under small workloads that fit it.
//!
//! The measurement is that of `dwell replay`: schedulers alternate, the device is claimed, and a helper process restores the scheduler, also
//! after a SIGKILL.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use elevator::Span;
use elevator::text::did_you_mean;
use evaluation::input::{self as workload, Length, Opened, Replaying};
use schedulers::registry::Catalogue;
use workloads::fio::JobFile;

use super::DuelArguments;
use crate::commands::replay::{OptionNames, Prepared, ReplayArguments, Timing};
use crate::error::Error;
use crate::input::quantity::some_time;
use crate::input::shared_args::Reading;
use crate::interrupt;

const MIB: u64 = 1 << 20;
/// A smaller device has no distances.
const BYTES_MIN: u64 = 64 * MIB;
/// The files of sequential readers.
const FILE_MAX: u64 = 8 << 30;
/// What each scheduler gets of each workload.
const TIME: &str = "5s";

/// A workload as a fio job file, for a device of so many bytes, for so many seconds.
#[derive(Clone, Copy)]
struct DeviceBenchmark {
    name: &'static str,
    writes: bool,
    jobs: fn(u64) -> String,
}

const ALL: [DeviceBenchmark; 4] = [
    DeviceBenchmark { name: "par-read", writes: false, jobs: par_read },
    DeviceBenchmark { name: "random-reads", writes: false, jobs: random_reads },
    DeviceBenchmark { name: "reads-beside-stream", writes: false, jobs: |bytes| beside(bytes, "read") },
    DeviceBenchmark { name: "write-beside-reads", writes: true, jobs: |bytes| beside(bytes, "write") },
];

/// Four sequential readers, a quarter of the device apart.
fn par_read(bytes: u64) -> String {
    let quarter = bytes / 4 / MIB * MIB;
    let size = quarter.min(FILE_MAX);
    (0..4).map(|n| format!("[reader-{n}]\nrw=read\nbs=4k\noffset={}\nsize={size}\n", n * quarter)).collect()
}

/// Eight readers at random positions.
fn random_reads(bytes: u64) -> String {
    (0..8)
        .map(|n| format!("[random-{n}]\nrw=randread\nbs=4k\nsize={}\nrandseed={n}\n", bytes / MIB * MIB))
        .collect()
}

/// A stream of large requests in the first quarter beside a reader at random positions of the second half.
fn beside(bytes: u64, stream: &str) -> String {
    let half = bytes / 2 / MIB * MIB;
    format!(
        "[stream]\nrw={stream}\nbs=1m\nsize={}\n[random]\nrw=randread\nbs=4k\noffset={half}\nsize={half}\n",
        half / 2
    )
}

/// `dwell duel DEVICE`.
pub(super) fn run(arguments: &DuelArguments, device: &Path, catalogue: Catalogue) -> Result<(), Error> {
    if let Some(option) = only_emulated(arguments) {
        return Err(Error::Usage(format!(
            "{option} applies to an emulated drive, and {} is a device; omit it",
            device.display()
        )));
    }
    let benchmarks = benchmarks(arguments)?;
    let time = some_time("--for", arguments.during.as_deref().unwrap_or(TIME))?;
    let plain = |name: &String| name.strip_prefix("kernel:").unwrap_or(name).to_owned();
    let replay = ReplayArguments {
        workload: String::new(),
        target: device.to_owned(),
        timing: Timing::Closed,
        allow_writes: arguments.allow_writes,
        schedulers: arguments.schedulers.iter().map(plain).collect(),
        no_switch: false,
        even_if_used: arguments.even_if_used,
        rounds: arguments.repeat,
        at_most: arguments.patience.clone(),
        drive: Some(arguments.drive.clone().unwrap_or_else(|| "none".to_owned())),
        reached: arguments.reached,
        reading: Reading::default(),
        json: arguments.json,
        markdown: false,
        quiet: arguments.quiet,
        names: OptionNames { rounds: "--repeat", at_most: "--patience" },
    };
    let prepared = Prepared::of(&replay)?;
    let capacity = prepared.capacity();
    if capacity.bytes() < BYTES_MIN && !benchmarks.is_empty() {
        let (device, bytes) = (device.display(), capacity.bytes());
        return Err(Error::Usage(format!(
            "{device}: has {bytes} bytes; the benchmarks need {BYTES_MIN}, a --job may need less"
        )));
    }
    let own = benchmarks.iter().map(|of| of.open(capacity.bytes(), time));
    let jobs = arguments.jobs.iter().map(|job| {
        let name =
            job.to_str().ok_or_else(|| Error::Usage(format!("{}: is no UTF-8 name", job.display())))?;
        let how = Replaying { reads_only: !arguments.allow_writes, on_device: true, ..Replaying::default() };
        let opened = workload::open(name, &Reading::default().options(), how, capacity)?;
        Ok((name.to_owned(), opened))
    });
    let all = own.chain(jobs).collect::<Result<Vec<_>, Error>>()?;
    let claimed = prepared
        .claim("unmount it and stop the programs that use it, or add --even-if-used, which disturbs them")?;
    for (name, opened) in &all {
        if !arguments.quiet {
            opened.notes.iter().for_each(|note| say!("{note}"));
        }
        if !arguments.json {
            writeln!(std::io::stdout(), "{name} on {}\n", device.display())?;
        }
        claimed.replay(opened, catalogue)?;
        if !arguments.json {
            writeln!(std::io::stdout())?;
        }
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
    }
    Ok(())
}

/// An option that has no meaning for a real device, if one is given.
fn only_emulated(arguments: &DuelArguments) -> Option<&'static str> {
    let given = [
        ("--depth", !arguments.depths.is_empty()),
        ("--programs", arguments.programs.is_some()),
        ("--tree-files", arguments.tree_files.is_some()),
        ("--transactions", arguments.transactions.is_some()),
        ("--nice", arguments.nice.is_some()),
        ("--level", arguments.level.is_some()),
        ("--quick", arguments.quick),
        ("--report", arguments.report.is_some()),
    ];
    given.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
}

/// The benchmarks to run; by default all that are permitted, or none beside jobs.
fn benchmarks(arguments: &DuelArguments) -> Result<Vec<DeviceBenchmark>, Error> {
    if arguments.benchmarks.is_empty() {
        let permitted =
            |of: &DeviceBenchmark| arguments.jobs.is_empty() && (arguments.allow_writes || !of.writes);
        return Ok(ALL.into_iter().filter(permitted).collect());
    }
    let named = |name: &String| {
        let found = ALL.into_iter().find(|of| of.name == name).ok_or_else(|| {
            let names = ALL.map(|of| of.name);
            let hint = did_you_mean(name, names);
            Error::Usage(format!(
                "'{name}' is not a benchmark for a device; these are {}{hint}",
                names.join(", ")
            ))
        })?;
        if found.writes && !arguments.allow_writes {
            return Err(Error::Usage(format!(
                "{name} writes; --allow-writes permits that, and destroys the data on the device"
            )));
        }
        Ok(found)
    };
    arguments.benchmarks.iter().map(named).collect()
}

impl DeviceBenchmark {
    /// All jobs share one file, which is the device.
    fn open(&self, bytes: u64, time: Duration) -> Result<(String, Opened), Error> {
        let text = format!(
            "[global]\nfilename=device\ndirect=1\ntime_based=1\nruntime={}ms\n{}",
            time.as_millis(),
            (self.jobs)(bytes)
        );
        let jobs = JobFile::parse(self.name, &text).map_err(|error| Error::Failed(error.to_string()))?;
        let opened = Opened {
            workload: Box::new(jobs),
            notes: Vec::new(),
            missing: Vec::new(),
            by_time: false,
            skips: Default::default(),
            length: Some(Length::Given(Span::from_nanos(time.as_nanos() as u64))),
            runtimes: Default::default(),
        };
        Ok((self.name.to_owned(), opened))
    }
}

#[cfg(test)]
mod tests {
    use elevator::SECTOR_BYTES;

    use super::*;

    #[test]
    fn the_benchmarks_fit_any_device_and_only_one_writes() {
        for bytes in [BYTES_MIN, BYTES_MIN + 4096, 500 << 30] {
            for of in ALL {
                let (_, opened) = of.open(bytes, Duration::from_millis(100)).expect("a valid job file");
                assert!(opened.workload.end().0 * SECTOR_BYTES <= bytes, "{} of {bytes}", of.name);
            }
        }
        assert_eq!(ALL.map(|of| (of.jobs)(1 << 30).contains("write")), ALL.map(|of| of.writes));
    }
}
