//! `dwell profile`, and its files read.

use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use capture::profile::{Load, Plan, Profile};
use comfy_table::{Table, presets};
use elevator::text::whole;
use tuner_live::{QueueSettings, settings_backup};

use crate::arguments::ProfileArguments;
use crate::error::{Error, can_be_written};
use crate::format::{bytes, time};
use crate::interrupt;
use crate::live;
use crate::quantity::some_time;
use crate::text_file;
use crate::trace::created;

pub(crate) fn run(arguments: &ProfileArguments) -> Result<(), Error> {
    let each = some_time("--each", &arguments.each)?.max(Duration::from_millis(1));
    let scheduling = live::scheduling_of(&arguments.device, arguments.here)?;
    let to_file = arguments.output != Path::new("-");
    if to_file {
        can_be_written(&arguments.output)?;
    }
    let load = Load { readers: arguments.readers, each, ..Load::default() };
    // A tuner would switch what is measured, and take the switches here for somebody's, where there is anything to switch.
    let switched = scheduling.queues.iter().filter(|_| scheduling.offers_a_choice());
    let backups = Path::new(settings_backup::DIRECTORY);
    settings_backup::restore_leftovers(backups, Path::new("/sys/block"))
        .iter()
        .for_each(|line| say!("{line}"));
    let claims = switched.map(|layer| QueueSettings::of(&layer.name).claim());
    let _claims = claims.collect::<Result<Vec<_>, _>>()?;
    let plan = Plan { switch: !arguments.no_switch, even_if_used: arguments.even_if_used, load };
    let mut say = |what: &str| say!("{}: {what}", scheduling.above.name);
    let profile = Profile::measure(&scheduling, &plan, &mut say, &interrupt::requested)?;
    let text = profile.to_toml().map_err(Error::Failed)?;
    let written = created(&arguments.output)?.write_all(text.as_bytes());
    written.map_err(|e| Error::written(arguments.output.display(), &e))?;
    // Whoever reads the profile from a pipe reads TOML.
    if to_file {
        writeln!(io::stdout(), "{}", in_words(&profile))?;
    } else {
        say!("{}", in_words(&profile));
    }
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
}

/// Reads a profile's file.
pub(crate) fn read(path: &Path) -> Result<Profile, Error> {
    // A pipe with a name may never be written, and a device never end.
    let kind = path.symlink_metadata().map_err(|error| Error::file(path.display(), &error))?.file_type();
    if kind.is_fifo() || kind.is_char_device() || kind.is_block_device() {
        return Err(Error::Usage(format!(
            "{}: is no file; name one that 'dwell profile' has made",
            path.display()
        )));
    }
    let text = text_file::read(path, "profile")?;
    Profile::from_toml(&text).map_err(|problem| Error::Input(format!("{}: {problem}", path.display())))
}

fn in_words(profile: &Profile) -> String {
    let mut text = format!("{}, {}\n", profile.device, bytes(profile.capacity));
    let points = &profile.service_time.points;
    if let (Some(near), Some(far)) = (points.first(), points.last()) {
        text += &format!("service time: {} in sequence, {} across the device\n", time(near.1), time(far.1));
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "scheduler",
        "reads",
        "throughput by request size",
    ]);
    for throughput in &profile.throughput {
        for curve in &throughput.curves {
            let kind = if curve.kind.random == Some(true) { "random" } else { "sequential" };
            let points = curve
                .points
                .iter()
                .map(|&(size, rate)| format!("{}: {}/s", whole(size as u64), bytes(rate as u64)));
            table.add_row([&throughput.scheduler, kind, &points.collect::<Vec<_>>().join(", ")]);
        }
    }
    text + &table.to_string()
}
