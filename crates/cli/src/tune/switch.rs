//! `dwell tune DEVICE --switch-to NAME`: sets a scheduler once, also for programs that run.
//!
//! Settings of `bfq` that are written after its switch do not concern the queues of programs that submit requests in between. [`KernelArms`] gives these
//! programs other I/O levels during the switch, so that the device is watched first to find them.

use std::io::Write;
use std::time::Duration;

use elevator::text::counted;
use evaluation::report::format::bytes;
use tuner::Metric;
use tuner_live::arms::{Arms, KernelArms};
use tuner_live::{Seen, released_within};

use super::args::TuneArguments;
use super::setup::Target;
use crate::error::Error;
use crate::interrupt;

/// How long the device is watched before and after the switch: a program with fewer requests than one in this time is hardly delayed by the others.
const WATCHED: Duration = Duration::from_secs(2);

pub(super) fn run(arguments: &TuneArguments, wanted: &str) -> Result<(), Error> {
    let target = Target::find(&arguments.device, &arguments.watching)?;
    let mut arms = KernelArms::any_number(target.queues.clone(), &[wanted.to_owned()])?.checked()?;
    let name = target.name();
    let mut out = std::io::stdout();
    if arguments.dry_run {
        let before = present(&target)?;
        target.left_behind_in_words().for_each(|line| say!("{line}"));
        return Ok(writeln!(out, "{name}: would switch from {before} to {wanted}")?);
    }
    target.restore_leftovers();
    let claims = target.claim()?;
    released_within(&claims, 3 * WATCHED);
    target.doubts(&arguments.watching).iter().for_each(|line| say!("{line}"));
    let before = present(&target)?;
    let watched = arms.needs_a_switch(wanted);
    let earlier = if watched { Some(watch(&target)?) } else { None };
    earlier.iter().for_each(|seen| arms.used_by(&seen.tasks));
    let took = arms.switch(0)?;
    let mut line = format!("{name}: {before} -> {wanted}, in {:.0} ms", took.as_secs_f64() * 1e3);
    if let Some(earlier) = earlier {
        let tasks = counted(earlier.tasks.len() as u64, "task");
        let rates = [earlier, watch(&target)?].map(|seen| bytes(seen.performance.bandwidth as u64));
        line += &format!("; {tasks}: {}/s before, {}/s after", rates[0], rates[1]);
    }
    writeln!(out, "{line}")?;
    arms.adjusted().iter().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(())
}

/// What is in use, with the settings by which the tuner distinguishes schedulers.
fn present(target: &Target) -> Result<String, Error> {
    Ok(KernelArms::for_tuning(target.queues.clone(), &[])?.current()?)
}

/// Watches the device for a window.
fn watch(target: &Target) -> Result<Seen, Error> {
    let mut windows = target.watch(WATCHED, Metric::Bandwidth)?;
    windows.next(&mut capture::now, &mut || !interrupt::requested())?.ok_or(Error::Interrupted)
}
