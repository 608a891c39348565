//! `dwell tune`: keeps a device under the scheduler that serves it best.

mod advise;
pub(crate) mod args;
mod exchange;
mod exchange_table;
mod kinds;
mod patterns;
pub(crate) mod recognised;
mod selection;
mod setup;
mod switch;

use std::io::{ErrorKind, Write};
use std::iter::once;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Stdio};
use std::time::{Duration, Instant};

use capture::topology::Reach;
use elevator::text::counted;
use schedulers::registry::Catalogue;
use server::control::problem;
use tuner::{Analyser, Metric, State};
use tuner_live::database::{self, Database};
use tuner_live::settings_backup::{self, SettingsBackup};
use tuner_live::status::{self, Status, StatusServer};
use tuner_live::{
    Counters, IsLost, LiveTuner, QueueSettings, Seen, Settings, Windower, released_within, system,
};

use self::args::{TuneArguments, Watching};
use self::setup::Target;
use crate::error::Error;
use crate::input::quantity::some_time;
use crate::{interrupt, service_manager};
use evaluation::report::format::object;

pub(crate) use advise::run as advise;
pub(crate) use patterns::run as patterns;

/// Windows between two saves: a minute at the default length.
const SAVE_EVERY: u64 = 12;
/// Limit of the average write rate: a file of 70 MB (6,000 clusters) is saved every twelve minutes.
const SAVE_BYTES_PER_SECOND: u64 = 100_000;

pub(crate) fn run(arguments: &TuneArguments, catalogue: Catalogue) -> Result<(), Error> {
    if arguments.status {
        return show(arguments);
    }
    if arguments.restore {
        return restore_settings(arguments);
    }
    if let Some(wanted) = &arguments.switch_to {
        return switch::run(arguments, wanted);
    }
    let during = arguments.during.as_deref().map(|text| some_time("--for", text)).transpose()?;
    let backups = Path::new(settings_backup::DIRECTORY);
    let target = Target::find(&arguments.device, &arguments.watching)?;
    if !arguments.dry_run {
        target.restore_leftovers();
    }
    target.has_profile(&arguments.watching)?;
    if arguments.dry_run {
        target.left_behind_in_words().for_each(|line| say!("{line}"));
    }
    let metric = setup::metric(&arguments.watching);
    setup::measurable(metric, &arguments.watching)?;
    // A dry run claims the queue as well, because it writes a status and saves the learned state.
    let claims = target.claim().map_err(|claimed| match service_manager::has_started_this() {
        // A unit is not started again after exit code 7, and the other process may be a measurement that ends soon.
        true => Error::Failed(claimed.to_string()),
        false => claimed.into(),
    })?;
    during.iter().for_each(|during| released_within(&claims, *during));
    let served = arguments.watching.control.is_some();
    let changed = target.queues.iter().filter(|_| !arguments.dry_run && !served);
    let backed_up = changed.map(|queue| SettingsBackup::begin(backups, queue));
    let backed_up = backed_up.collect::<Result<Vec<_>, _>>()?;
    let restorer = if backed_up.is_empty() { None } else { SettingsRestorer::start(&target.queues) };
    let arms = setup::arms(&target, &arguments.watching, catalogue, backed_up)?;
    let seed = arguments.seed.unwrap_or_else(setup::drawn_seed);
    let (length, mut analyser) = setup::analyser(arms.names(), &arguments.watching, seed)?;
    let database = Database::open(&arguments.watching.database)?;
    let loaded = restore(&mut analyser, &database, &target.drive, arguments)?;
    say!("{}: {}", arguments.device.display(), target.describe());
    target.doubts(&arguments.watching).iter().chain(&loaded).for_each(|line| say!("{line}"));
    let settings = Settings { dry_run: arguments.dry_run, command: arguments.watching.command.clone() };
    let tuner = LiveTuner::new(&target.name(), analyser, arms, metric, settings)?;
    // At normal priority: the kernel verifies the program.
    let windows = target.watch(length, metric)?;
    system::lower().iter().for_each(|refused| say!("{refused}; tuning goes on"));
    let mut run = Run {
        windows,
        counters: target.counters(),
        tuner,
        database,
        drive: target.drive.clone(),
        saved: 0,
        save_after: Instant::now(),
        runtime: arguments.watching.runtime.clone(),
        status_failed: false,
        shown: StatusServer::default(),
        until: during.map(|during| Instant::now() + during),
    };
    show_metrics(&run.shown, arguments)?;
    let ended = run.tune_until_end();
    run.end();
    // Restores the settings.
    drop(run);
    drop(restorer);
    ended.map_err(Error::from)
}

/// Restores what killed tuners have changed of a device.
fn restore_settings(arguments: &TuneArguments) -> Result<(), Error> {
    let backups = Path::new(settings_backup::DIRECTORY);
    let denied = std::fs::read_dir(backups).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    if denied {
        return Err(Error::Permission(format!("{}: not permitted; --restore needs root", backups.display())));
    }
    // The record of a killed tuner is that of a queue: of the named device's own if there is one, whatever lies below it.
    let own = Target::of_node(&arguments.device, Reach::Here).ok().filter(|own| own.has_backup(backups));
    let target = match own {
        Some(own) => own,
        None => Target::find(&arguments.device, &arguments.watching)?,
    };
    let lines = target.restore_leftovers();
    let kept = target.queues.iter().find(|queue| settings_backup::is_kept(backups, queue));
    let device = arguments.device.display();
    if kept.is_some() {
        return Err(match lines.is_empty() {
            true => Error::Overruled(format!("{device}: a tuner runs, and restores the settings at its end")),
            false => Error::Failed(format!("{device}: not restored")),
        });
    }
    if lines.is_empty() {
        say!("{device}: no settings of a killed tuner to restore");
    }
    Ok(())
}

/// A process that restores the settings if this one is killed. If it is killed as well, the next start on the device does.
struct SettingsRestorer(Child);

/// Waits for a line, or for the end of this process, and then of its descriptors and locks. Neither Ctrl-C nor systemd's SIGTERM ends it.
const KEEP: &str = r#"trap '' INT TERM HUP
read -r _ && exit
while grep -qs '^State:[^ZX]*$' /proc/$PPID/status; do sleep 0.05; done
for device; do "$0" tune --restore "$device"; done"#;

impl SettingsRestorer {
    fn start(queues: &[QueueSettings]) -> Option<Self> {
        let devices = queues.iter().map(|queue| format!("/dev/{}", queue.name().replace('!', "/")));
        let program = std::env::current_exe();
        let shell = program.and_then(|program| {
            let mut shell = process::Command::new("sh");
            shell.args(["-c", KEEP]).arg(program).args(devices).stdin(Stdio::piped()).stdout(Stdio::null());
            shell.env("DWELL_CONFIG", "").process_group(0).spawn()
        });
        let failed = |error| {
            say!("{error}: no process restores the settings if this one is killed, but the next start does")
        };
        shell.map_err(failed).ok().map(Self)
    }
}

impl Drop for SettingsRestorer {
    fn drop(&mut self) {
        let _ = self.0.stdin.take().map(|mut pipe| writeln!(pipe));
        let _ = self.0.wait();
    }
}

fn show_metrics(shown: &StatusServer, arguments: &TuneArguments) -> Result<(), Error> {
    let Some(address) = arguments.metrics_addr else { return Ok(()) };
    let bound = shown.serve(address).map_err(|e| Error::Failed(format!("--metrics-addr {address}: {e}")))?;
    say!("Prometheus metrics: http://{bound}/metrics");
    Ok(())
}

/// A tuner at work.
struct Run {
    windows: Windower<capture::Capture>,
    /// Read instead of the capture on standby.
    counters: Option<Counters>,
    tuner: LiveTuner,
    database: Database,
    drive: String,
    /// Windows analysed until the last save.
    saved: u64,
    /// The earliest time of the next save, so that a large file is not written too often.
    save_after: Instant,
    runtime: PathBuf,
    /// A failure to write the status was reported; further failures are not.
    status_failed: bool,
    shown: StatusServer,
    until: Option<Instant>,
}

impl Run {
    fn tune_until_end(&mut self) -> Result<(), tuner_live::Error> {
        service_manager::notify(&[service_manager::State::Ready]);
        self.publish();
        let until = self.until;
        let mut is_running = || {
            service_manager::notify(&[service_manager::State::Watchdog]);
            !interrupt::requested() && until.is_none_or(|until| Instant::now() < until)
        };
        while let Some(line) = self.window(&mut is_running)? {
            if let Some(line) = line {
                // Tuning continues if standard output is closed.
                let _ = writeln!(std::io::stdout(), "{} {}: {line}", now_utc(), self.tuner.status().device);
            }
            self.publish();
            if self.tuner.status().windows.is_multiple_of(SAVE_EVERY)
                && Instant::now() >= self.save_after
                && let Err(error) = self.save()
            {
                say!("cannot save the learned state: {error}; retrying at the next save");
            }
        }
        Ok(())
    }

    /// One window, captured or on standby. Returns its line, if it has one, or `None` to end.
    fn window(
        &mut self,
        is_running: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Option<String>>, tuner_live::Error> {
        let counters = self.counters.as_mut().filter(|_| self.tuner.is_on_standby());
        if let Some(counters) = counters {
            self.windows.close();
            let load = counters.window(self.windows.length(), is_running)?;
            return load.map(|load| self.tuner.standby_window(&load)).transpose();
        }
        self.counters.iter_mut().for_each(Counters::reset);
        let tuner = &self.tuner;
        let is_lost = |so_far: &Seen, part: f64| tuner.is_lost(so_far, part);
        let is_lost = tuner.early_end().map(|_| &is_lost as &IsLost<'_>);
        let seen = self.windows.next_unless(&mut capture::now, is_running, is_lost)?;
        let Some(seen) = seen else { return Ok(None) };
        let has_accesses = !seen.window.accesses.is_empty();
        let unmeasured = self.tuner.status().unmeasured;
        let outcome = self.tuner.window(seen)?;
        // Also of an idle device.
        let is_problem = self.tuner.status().unmeasured > unmeasured;
        Ok(Some((has_accesses || is_problem).then_some(outcome.line)))
    }

    /// Publishes the status.
    fn publish(&mut self) {
        let status = self.tuner.status();
        if let Err(error) = status::write(&self.runtime, status)
            && !std::mem::replace(&mut self.status_failed, true)
        {
            let place = self.runtime.display();
            say!(
                "{place}: {}; 'dwell tune --status' cannot show this tuner; name another directory with --runtime",
                problem::writing(&error)
            );
        }
        self.shown.set(status.clone());
        service_manager::notify(&[service_manager::State::Status(&status.latest)]);
    }

    /// Saves the learned state. Without new windows nothing is written, so that a sleeping disk is not woken.
    fn save(&mut self) -> Result<(), tuner_live::Error> {
        let analysed = self.tuner.status().analysed;
        if analysed == self.saved {
            return Ok(());
        }
        let now = system::unix_seconds() as i64;
        let length = self.database.save(&self.drive, &self.tuner.state(), now)?;
        self.saved = analysed;
        self.save_after = Instant::now() + Duration::from_secs(length / SAVE_BYTES_PER_SECOND);
        Ok(())
    }

    fn end(&mut self) {
        service_manager::notify(&[service_manager::State::Stopping]);
        if let Err(error) = self.save() {
            say!("cannot save the learned state: {error}; it ends at the previous save");
        }
        let Status { device, pid, .. } = self.tuner.status();
        if status::read(&self.runtime, device).is_ok_and(|found| found.is_some_and(|found| found.pid == *pid))
        {
            let _ = std::fs::remove_file(status::file(&self.runtime, device));
        }
        say!("{}", ended(self.tuner.status()));
    }
}

/// The last line.
fn ended(status: &Status) -> String {
    let Status { windows, switches, switching_seconds, processor_seconds, .. } = status;
    let too_short = match windows {
        0 => "; no window was over: run it longer, or with a shorter --window",
        _ => "",
    };
    format!(
        "ended after {}, {} ({switching_seconds:.2} s in total), {processor_seconds:.2} s of CPU time{}{too_short}",
        counted(*windows, "window"),
        counted(*switches, "switch"),
        unmeasured(status)
    )
}

/// Loads the state that an earlier run learned about this drive, or else the state that `--transfer` names. Returns a line about it.
fn restore(
    analyser: &mut Analyser,
    database: &Database,
    drive: &str,
    arguments: &TuneArguments,
) -> Result<Option<String>, Error> {
    let path = &arguments.watching.database;
    let metric = setup::metric(&arguments.watching);
    if let Some(state) = database.load(drive, metric)? {
        let known = in_words(&state);
        analyser.restore(state).map_err(|problem| does_not_fit("--database", path, &problem))?;
        let ignored = if arguments.transfer.is_some() { "; --transfer is ignored" } else { "" };
        Ok(Some(format!("loaded {known} for {drive} and {}{ignored}", tuner_live::in_words(metric))))
    } else if let Some(other) = &arguments.transfer {
        let by = tuner_live::in_words(metric);
        let state = transferred(other, drive, metric)?
            .ok_or_else(|| Error::Input(format!("{}: has no state for {drive} and {by}", other.display())))?;
        let known = in_words(&state);
        analyser.restore(state).map_err(|problem| does_not_fit("--transfer", other, &problem))?;
        Ok(Some(format!("loaded {known} for {drive} and {by} from {}", other.display())))
    } else {
        Ok(None)
    }
}

/// In how many windows the metric could not be measured, if in any.
fn unmeasured(status: &Status) -> String {
    match status.unmeasured {
        0 => String::new(),
        windows => format!("; the metric could not be measured in {}", counted(windows, "window")),
    }
}

/// Since when a tuner runs: ` since 2026-11-25T03:04:05Z`. Empty for one of an earlier version.
fn since(status: &Status) -> String {
    if status.began == 0 { String::new() } else { format!(" since {}", utc(status.began)) }
}

/// The time of day in UTC, as in RFC 3339.
fn now_utc() -> String {
    utc(system::unix_seconds())
}

/// `2026-11-25T03:04:05Z` for seconds since 1970. Days to a date: Hinnant, "chrono-compatible low-level date algorithms".
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let [hour, minute, second] = [second / 3600, second / 60 % 60, second % 60];
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// This drive's state in another machine's database: `path` is the database's directory or one of its files.
fn transferred(path: &Path, drive: &str, metric: Metric) -> Result<Option<State>, Error> {
    let metadata = std::fs::metadata(path).map_err(|error| Error::file(path.display(), &error))?;
    if metadata.is_dir() {
        let database = Database::open_existing(path)?;
        return Ok(database.map(|database| database.load(drive, metric)).transpose()?.flatten());
    }
    let (name, state) = database::read_file(path)?;
    Ok(Some(state).filter(|state| name == drive && state.metric == metric))
}

/// The error for a state that the analyser rejects. `option` is the option that named the file.
fn does_not_fit(option: &str, file: &Path, problem: &str) -> Error {
    let file = file.display();
    Error::Usage(format!(
        "{file}: {problem}; use the --window, --decider and --set with which it was written, the version of dwell that wrote it, or another {option}"
    ))
}

fn in_words(state: &State) -> String {
    let [kinds, clusters] = [state.kinds.count(), state.clusters.len()].map(|number| number as u64);
    format!("{} of load and {}", counted(kinds, "kind"), counted(clusters, "cluster"))
}

/// The status of the tuner that runs on a device, if one does.
fn status_of(watching: &Watching, name: &str) -> Result<Option<Status>, Error> {
    let runtime = &watching.runtime;
    status::read(runtime, name).map_err(|error| Error::file(status::file(runtime, name).display(), &error))
}

fn show(arguments: &TuneArguments) -> Result<(), Error> {
    let target = Target::find(&arguments.device, &arguments.watching)?;
    let name = &target.name();
    let Some(status) = status_of(&arguments.watching, name)? else {
        let lines = once(format!("{name}: not being tuned")).chain(target.left_behind_in_words());
        return Err(Error::Failed(lines.collect::<Vec<_>>().join("; ")));
    };
    let mut out = std::io::stdout().lock();
    if arguments.json {
        return Ok(writeln!(out, "{}", object(&status)?)?);
    }
    let Status { current, before, windows, analysed, hits, kinds, clusters, switches, .. } = &status;
    let dry = if status.dry_run { " (dry run)" } else { "" };
    let since = since(&status);
    writeln!(out, "{name}: process {1}{dry} improves {0}{since}", status.metric, status.pid)?;
    writeln!(out, "scheduler: {current} (before: {before}); arms: {}", status.arms.join(", "))?;
    writeln!(
        out,
        "{}, {analysed} analysed, {hits} recognised; {} of load, {}; {} ({:.2} s)",
        counted(*windows, "window"),
        counted(*kinds, "kind"),
        counted(*clusters, "cluster"),
        counted(*switches, "switch"),
        status.switching_seconds
    )?;
    writeln!(
        out,
        "{:.2} s of CPU time, {} not reported{}",
        status.processor_seconds,
        counted(status.missed, "request"),
        unmeasured(&status)
    )?;
    writeln!(out, "last decision: {}", status.latest)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use elevator::Span;
    use tuner::{Parameters, Random};

    use super::*;
    use crate::commands::{Arguments, Command};

    #[test]
    fn seconds_become_dates() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), date);
        }
    }

    /// Regression: `--for 1s` ended without any result, and without the reason.
    #[test]
    fn the_last_line_has_the_reason_if_no_window_was_over() {
        let line = |windows| ended(&Status { windows, ..Status::default() });
        assert_eq!(line(1), "ended after 1 window, 0 switches (0.00 s in total), 0.00 s of CPU time");
        assert!(line(0).ends_with("; no window was over: run it longer, or with a shorter --window"));
    }

    /// Regression: without a command, `--less-is-better` had no effect.
    #[test]
    fn less_is_better_needs_a_command() {
        let parsed = |more: &[&str]| {
            Arguments::try_parse_from([&["dwell", "tune", "sda", "--less-is-better"], more].concat()).is_ok()
        };
        assert!(parsed(&["--command", "true"]) && !parsed(&[]) && !parsed(&["--metric", "iops"]));
    }

    /// A message that names `--database` would send the user to the wrong file.
    #[test]
    fn errors_in_a_transferred_file_name_that_file() {
        let name = |what: &str| std::env::temp_dir().join(format!("dwell-{what}-{}", process::id()));
        let (own, damaged, foreign) = (name("own"), name("damaged"), name("foreign"));
        std::fs::write(&damaged, "no database: ".repeat(10)).unwrap();
        let analyser = |seconds| {
            let arms = ["none", "bfq"].map(str::to_owned).to_vec();
            let parameters = Parameters { t: Span::from_secs(seconds), ..Parameters::default() };
            Analyser::new(arms, Metric::Bandwidth, parameters, Random::new(1)).unwrap()
        };
        Database::open(&foreign).unwrap().save("disk", &analyser(7).state(), 0).unwrap();
        let database = Database::open(&own).unwrap();
        let missing = name("missing");
        let cases = [
            (&damaged, "is damaged"),
            (&foreign, "the length of a window"),
            (&missing, "there is no such file; correct its name"),
        ];
        for (file, problem) in cases {
            let line = ["dwell", "tune", "/dev/sda", "--transfer", file.to_str().unwrap()];
            let Command::Tune(arguments) = Arguments::parse_from(line).command else { panic!("{line:?}") };
            let message = restore(&mut analyser(5), &database, "disk", &arguments).unwrap_err().to_string();
            assert!(message.contains(problem) && message.contains(file.to_str().unwrap()), "{message}");
            assert!(!message.contains("--database"), "{message}");
        }
        std::fs::remove_file(damaged).unwrap();
        [own, foreign].iter().for_each(|directory| std::fs::remove_dir_all(directory).unwrap());
    }
}
