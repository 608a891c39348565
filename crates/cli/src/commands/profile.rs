//! `dwell profile`: measures a device; and the reader of its files.

use clap::Args;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use capture::profile::{Load, Plan, Profile};
use elevator::text::whole;
use server::supervisor;

use crate::device_capture::{self, Reached};
use crate::error::Error;
use crate::input::quantity::some_time;
use crate::interrupt;
use crate::output_file::{self, check_distinct, check_writable, is_free};
use crate::report::{Style, Table, Tone};
use evaluation::report::format::{bytes, number, time};
use evaluation::text_file;

/// Options of `dwell profile`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell profile /dev/sdb -o sdb.toml
  dwell serve /dev/sdb --profile sdb.toml --scheduler 'stream(deadline)' --attach --control /run/dwell/sdb.ctl
  dwell profile /dev/sdb -o sdb.toml --service-times sdb.times --overwrite
  cat sdb.times >/sys/block/sdb/queue/iosched/service_times")]
pub(crate) struct ProfileArguments {
    /// The device. Partitions, dm and md are followed down to the device that schedules, or to the array members that do
    pub(crate) device: PathBuf,
    /// The file to write (TOML; '-' for standard output)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Replace the files if they exist
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Also write the service times in the format of the kernel module's queue/iosched/service_times
    #[arg(long, value_name = "FILE")]
    pub(crate) service_times: Option<PathBuf>,
    /// Measure only the active scheduler; switch nothing
    #[arg(long)]
    pub(crate) no_switch: bool,
    /// Time to measure each scheduler at each request size, all rounds together
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) each: String,
    #[command(flatten)]
    pub(crate) reached: Reached,
    /// Number of measurements of each scheduler; the order alternates between forwards and backwards
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Write the profile even if 'none' gave different results from round to round; 'advise' and 'tune' reject such a profile
    #[arg(long)]
    pub(crate) even_if_unsteady: bool,
    /// Switch schedulers even if the device is mounted or open
    #[arg(long)]
    pub(crate) even_if_used: bool,
}

pub(crate) fn run(arguments: &ProfileArguments) -> Result<(), Error> {
    let each = some_time("--each", &arguments.each)?.max(Duration::from_millis(1));
    let scheduling = device_capture::scheduling_of(&arguments.device, arguments.reached.reach())?;
    let to_file = arguments.output != Path::new("-");
    let outputs: Vec<(&str, &Path)> = std::iter::once(("--output", &*arguments.output))
        .filter(|_| to_file)
        .chain(arguments.service_times.as_deref().map(|path| ("--service-times", path)))
        .collect();
    check_distinct(&outputs, &[])?;
    for (_, path) in outputs {
        is_free(path, arguments.overwrite)?;
        check_writable(path)?;
    }
    let load = Load { each, ..Load::default() };
    let _claims = device_capture::claim_queues(&scheduling, scheduling.offers_a_choice())?;
    let ProfileArguments { rounds, even_if_unsteady, even_if_used, .. } = *arguments;
    let plan = Plan { switch: !arguments.no_switch, even_if_used, rounds, even_if_unsteady, load };
    let mut say = |what: &str| say!("{}: {what}", scheduling.above.name);
    if let Some(rate) = requests_per_second(&scheduling.above.name) {
        say(&format!(
            "other programs issued {rate:.0} requests a second before the measurement, and delay it; measure the device while it is idle"
        ));
    }
    let profile = Profile::measure(&scheduling, &plan, &mut say, &interrupt::requested).map_err(unsteady)?;
    if let Some(why) = &profile.unsteady {
        say(&format!(
            "{why}: the profile has service times only for 'serve' and 'compare'; 'advise' and 'tune' reject it"
        ));
    }
    let summary = in_words(&profile);
    // A part of the schedulers and sizes would be taken for all.
    if interrupt::requested() {
        let output = arguments.output.display();
        say!("{output}: not written, because the measurement was interrupted; measured so far:\n{summary}");
        return Err(Error::Interrupted);
    }
    let text = profile.to_toml().map_err(Error::Failed)?;
    output_file::write(&arguments.output, text.as_bytes())?;
    if let Some(path) = &arguments.service_times {
        output_file::write(path, profile.service_times_of_the_module().as_bytes())?;
    }
    // Standard output has the TOML only.
    if to_file {
        writeln!(io::stdout(), "{summary}")?;
    } else {
        say!("{summary}");
    }
    Ok(())
}

/// The requests a second of other programs, if there are more than a few.
fn requests_per_second(name: &str) -> Option<f64> {
    const OBSERVED: Duration = Duration::from_millis(300);
    const FEW: f64 = 10.0;
    let completed = || {
        let text = std::fs::read_to_string(Path::new("/sys/class/block").join(name).join("stat")).ok()?;
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        // Reads and writes (Documentation/block/stat.rst).
        Some(fields.first()? + fields.get(4)?)
    };
    let before = completed()?;
    std::thread::sleep(OBSERVED);
    let rate = completed()?.saturating_sub(before) as f64 / OBSERVED.as_secs_f64();
    (rate > FEW).then_some(rate)
}

/// Adds the option that accepts an unsteady device.
fn unsteady(error: capture::Error) -> Error {
    let is_unsteady = matches!(error, capture::Error::Unsteady { .. });
    match Error::from(error) {
        Error::Failed(text) if is_unsteady => Error::Failed(format!(
            "{text}, or write the service times alone with --even-if-unsteady; nothing was written"
        )),
        other => other,
    }
}

/// Reads a profile's file for a choice of schedulers.
pub(crate) fn read_steady(path: &Path) -> Result<Profile, Error> {
    let profile = read(path)?;
    match &profile.unsteady {
        None => Ok(profile),
        Some(why) => Err(Error::Input(format!(
            "{}: {why}, so that it cannot compare schedulers; measure {} again while it is idle, or omit --profile",
            path.display(),
            profile.device
        ))),
    }
}

/// An error if a profile is of a device of another size, or of another kind. One of an identical device is accepted.
pub(crate) fn is_of(
    path: &Path,
    profile: &Profile,
    device: &str,
    (capacity, rotational): (u64, bool),
) -> Result<(), Error> {
    if (profile.capacity, profile.rotational) == (capacity, rotational) {
        return Ok(());
    }
    let in_words = |bytes: u64, rotational: bool| {
        format!("{bytes} bytes, {}", if rotational { "rotating" } else { "not rotating" })
    };
    Err(Error::Input(format!(
        "{}: was measured on another device ({}: {}) than {device} ({}); measure {device} with 'dwell profile', or omit --profile",
        path.display(),
        profile.device,
        in_words(profile.capacity, profile.rotational),
        in_words(capacity, rotational)
    )))
}

/// Reads a profile's file.
pub(crate) fn read(path: &Path) -> Result<Profile, Error> {
    // A server that is restarted receives the content from its supervisor: the path may lead to the device that waits for it.
    if !supervisor::is_server() {
        // Reading a named pipe may block forever, and a device may have no end.
        let found = path.symlink_metadata().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let path = path.display();
                Error::Input(format!(
                    "{path}: no such file; write it with 'dwell profile DEVICE -o {path}', or omit --profile"
                ))
            }
            _ => Error::file(path.display(), &error),
        })?;
        let found = found.file_type();
        if found.is_fifo() || found.is_char_device() || found.is_block_device() {
            return Err(Error::Usage(format!(
                "{}: is not a regular file; name a profile that 'dwell profile' wrote",
                path.display()
            )));
        }
    }
    let text = text_file::read(path, "profile")?;
    Profile::from_toml(&text).map_err(|problem| Error::Input(in_file(path, &problem)))
}

/// A problem in a file, as `FILE:LINE: PROBLEM` if it begins with its line.
fn in_file(path: &Path, problem: &str) -> String {
    let place = problem.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
    match place {
        Some((line, what)) => format!("{}:{line}: {what}", path.display()),
        None => format!("{}: {problem}", path.display()),
    }
}

/// Half the width of a 95% confidence interval as a part of the value: ` ±3%`.
fn within(rate: f64, width: Option<&f64>) -> String {
    width.filter(|_| rate > 0.0).map_or_else(String::new, |width| format!(" ±{:.0}%", width / rate * 100.0))
}

fn in_words(profile: &Profile) -> String {
    let mut text = format!("{}, {}\n", profile.device, bytes(profile.capacity));
    let points = &profile.service_time.points;
    if let (Some(near), Some(far)) = (points.first(), points.last()) {
        text += &format!("service time: {} in sequence, {} across the device\n", time(near.1), time(far.1));
    }
    let sizes: BTreeSet<u64> = profile
        .throughput
        .iter()
        .flat_map(|of| &of.curves)
        .flat_map(|curve| curve.points.iter().map(|&(size, _)| size as u64))
        .collect();
    let mut table =
        Table::new(std::iter::once("MB/s of reads".to_owned()).chain(sizes.iter().map(|&size| whole(size))));
    for throughput in &profile.throughput {
        for (n, curve) in throughput.curves.iter().enumerate() {
            let widths = throughput.intervals.get(n).map_or(&[][..], Vec::as_slice);
            let kind = if curve.kind.random == Some(true) { "random" } else { "sequential" };
            let cell = |&size: &u64| {
                let point = curve.points.iter().position(|&(of, _)| of as u64 == size);
                let cell = |at: usize| {
                    let rate = curve.points[at].1;
                    format!("{}{}", number(rate / 1e6), within(rate, widths.get(at)))
                };
                point.map_or_else(String::new, cell)
            };
            let name = format!("{} {kind}", throughput.scheduler);
            table.row(Tone::Plain, std::iter::once(name).chain(sizes.iter().map(cell)).collect());
        }
    }
    text + &table.print(Style::Text { width: None, colour: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_a_profile_has_its_file_and_line() {
        let problem = Profile::from_toml("version = 1\nsize = [").unwrap_err();
        let place = in_file(Path::new("y.toml"), &problem);
        assert!(place.starts_with("y.toml:2: "), "{place}");
        assert_eq!(in_file(Path::new("y.toml"), "has version 9"), "y.toml: has version 9");
    }

    #[test]
    fn a_profile_of_a_device_of_another_size_or_kind_is_rejected() {
        let profile = Profile::from_toml(include_str!("../../../../fuzz/seeds/profile/two.toml")).unwrap();
        let (bytes, rotational) = (profile.capacity, profile.rotational);
        let of = |facts| is_of(Path::new("p.toml"), &profile, "sdb", facts);
        of((bytes, rotational)).unwrap();
        for other in [(bytes + 512, rotational), (bytes, !rotational)] {
            let error = of(other).unwrap_err();
            assert!(
                matches!(&error, Error::Input(text) if text.contains("measured on another device")),
                "{error}"
            );
        }
    }
}
