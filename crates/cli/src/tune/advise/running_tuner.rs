//! The advice for a device that a tuner controls: the tuner's state, without a measurement.

use std::io::{self, Write};
use std::path::Path;

use elevator::text::counted;
use serde::Serialize;
use tuner_live::database::Database;
use tuner_live::status::Status;

use super::super::args::AdviseArguments;
use super::super::setup::{self, Target};
use super::super::{kinds, status_of, utc};
use super::{Advice, Facts};
use crate::error::Error;

/// A tuner that controls the device.
#[derive(Serialize, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct RunningTuner {
    pid: u32,
    /// Its unit of systemd's, if it has one.
    unit: Option<String>,
    /// When it began; `None` if it is of a version that does not store it.
    since: Option<String>,
    metric: String,
    /// It changes nothing.
    dry_run: bool,
    /// The scheduler that it restores at its end.
    before: String,
    windows: u64,
    switches: u64,
    latest_decision: String,
    /// What it has saved about the kinds of load, as a table.
    #[serde(skip)]
    learned: Option<String>,
}

impl RunningTuner {
    fn of(status: &Status) -> Self {
        let groups = std::fs::read_to_string(Path::new("/proc").join(status.pid.to_string()).join("cgroup"));
        Self {
            pid: status.pid,
            unit: groups.ok().and_then(|groups| unit(&groups)),
            since: (status.began > 0).then(|| utc(status.began)),
            metric: status.metric.clone(),
            dry_run: status.dry_run,
            before: status.before.clone(),
            windows: status.windows,
            switches: status.switches,
            latest_decision: status.latest.clone(),
            learned: None,
        }
    }

    pub(super) fn print(&self, scheduler: &str, out: &mut dyn Write) -> io::Result<()> {
        let Self { pid, metric, before, .. } = self;
        let since = self.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
        let unit = self.unit.as_ref().map(|unit| format!(" ({unit})")).unwrap_or_default();
        let does = if self.dry_run { "observed by 'dwell tune --dry-run'," } else { "tuned by" };
        writeln!(out, "{does} process {pid}{unit}{since}, to improve {metric}")?;
        let restores = if self.dry_run { "" } else { ", which the tuner restores at its end" };
        writeln!(out, "scheduler in use: {scheduler}; before: {before}{restores}")?;
        let latest = match &*self.latest_decision {
            "" => "none yet",
            latest => latest,
        };
        let (windows, switches) = (counted(self.windows, "window"), counted(self.switches, "switch"));
        writeln!(out, "{windows}, {switches}; latest decision: {latest}")?;
        match &self.learned {
            Some(table) => writeln!(out, "saved so far ('dwell patterns list' shows more):\n{table}")?,
            None => writeln!(out, "nothing saved yet; the tuner saves every 12 windows and at its end")?,
        }
        writeln!(
            out,
            "no recommendation: process {pid} {}, so that advise measured nothing",
            if self.dry_run { "observes the device" } else { "chooses the scheduler" }
        )?;
        let end =
            self.unit.as_ref().map_or_else(|| format!("kill {pid}"), |unit| format!("systemctl stop {unit}"));
        writeln!(out, "to measure instead: {end}, then 'dwell advise' again")
    }
}

/// The tuner's unit in a process's control groups (`0::/system.slice/dwell-tune@sda.service`).
fn unit(groups: &str) -> Option<String> {
    let mut parts = groups.split(['/', '\n']);
    parts.find(|part| part.starts_with("dwell-tune@") && part.ends_with(".service")).map(str::to_owned)
}

/// Reports the tuner that has claimed the device. Any other process's claim is an error.
pub(super) fn report(
    arguments: &AdviseArguments,
    target: &Target,
    facts: Facts,
    claimed: tuner_live::Error,
) -> Result<(), Error> {
    let tuner_live::Error::Claimed { pid, .. } = claimed else { return Err(claimed.into()) };
    let status = status_of(&arguments.watching, &target.name())?;
    let Some(status) = status.filter(|status| pid.is_none_or(|pid| pid == status.pid)) else {
        return Err(claimed.into());
    };
    // The state of another metric or another version is not the tuner's.
    let database = Database::open_existing(&arguments.watching.database).ok().flatten();
    let metric = setup::metric(&arguments.watching);
    let state = database.and_then(|database| database.load(&target.drive, metric).ok().flatten());
    let state =
        state.filter(|state| state.kinds.count() > 0 && tuner_live::in_words(metric) == status.metric);
    let tuner = RunningTuner {
        learned: state.map(|state| kinds::listed(&state).to_string()),
        ..RunningTuner::of(&status)
    };
    let advice = Advice {
        device: arguments.device.display().to_string(),
        stack: target.describe(),
        scheduler: status.current,
        metric: status.metric,
        schedulers: status.arms,
        doubts: target.doubts(&arguments.watching),
        why: status.latest,
        discarded: Some(
            "service times: not measured, because the reads would count as load for the tuner".to_owned(),
        ),
        facts,
        tuner: Some(tuner),
        ..Advice::default()
    };
    super::publish(advice, arguments.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuner_is_described_with_the_command_that_ends_it() {
        let status = Status {
            pid: 42,
            began: 951_782_400,
            metric: "bandwidth".to_owned(),
            before: "none".to_owned(),
            windows: 12,
            switches: 1,
            latest: "stay with bfq: the best for loads of kind 0 (window 11)".to_owned(),
            ..Status::default()
        };
        let printed = |tuner: &RunningTuner| {
            let mut out = Vec::new();
            tuner.print("bfq", &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let tuner = RunningTuner { unit: None, ..RunningTuner::of(&status) };
        let text = printed(&tuner);
        assert!(
            text.starts_with("tuned by process 42 since 2000-02-29T00:00:00Z, to improve bandwidth\n"),
            "{text}"
        );
        assert!(
            text.contains("\nscheduler in use: bfq; before: none, which the tuner restores at its end\n"),
            "{text}"
        );
        assert!(text.contains("\n12 windows, 1 switch; latest decision: stay with bfq: the best"), "{text}");
        assert!(text.ends_with("\nto measure instead: kill 42, then 'dwell advise' again\n"), "{text}");
        let text =
            printed(&RunningTuner { unit: Some("dwell-tune@sda.service".to_owned()), ..tuner.clone() });
        assert!(text.contains("systemctl stop dwell-tune@sda.service"), "{text}");
        let text = printed(&RunningTuner { dry_run: true, since: None, ..tuner });
        assert!(
            text.starts_with("observed by 'dwell tune --dry-run', process 42, to improve")
                && !text.contains("restores"),
            "{text}"
        );
    }

    #[test]
    fn the_unit_of_a_tuner_is_in_its_control_groups() {
        let of_unit =
            "12:devices:/system.slice\n0::/system.slice/system-dwell\\x2dtune.slice/dwell-tune@sda.service\n";
        assert_eq!(unit(of_unit).as_deref(), Some("dwell-tune@sda.service"));
        assert_eq!(unit("0::/user.slice/session-1.scope\n"), None);
    }
}
