//! The advice as text.

use std::collections::BTreeSet;
use std::io::{self, Write};

use elevator::text::counted;
use evaluation::report::format::{bytes, number, time};

use super::configuration::Configuration;
use super::model::BUSY;
use super::{Advice, Basis, Killed};
use crate::commands::doctor::beside;
use crate::report::{Style, Table, Tone};

/// Distances whose service time is printed.
const SHOWN: usize = 4;

pub(super) fn print(advice: &Advice, out: &mut dyn Write) -> io::Result<()> {
    device(advice, out)?;
    if let Some(tuner) = &advice.tuner {
        tuner.print(&advice.scheduler, out)?;
        return advice.doubts.iter().try_for_each(|doubt| writeln!(out, "note: {doubt}"));
    }
    if let Some(Killed { pid, in_use, arm, remedy, .. }) = &advice.killed_tuner {
        writeln!(
            out,
            "process {pid}, a tuner, was killed and left {in_use}; before: {arm}, which '{remedy}' restores; the load was observed under {in_use}"
        )?;
    }
    load(advice, out)?;
    writeln!(out, "schedulers: {}", advice.schedulers.join(", "))?;
    replayed(advice, out)?;
    recommendation(advice, out)?;
    configuration(advice, out)?;
    advice.doubts.iter().try_for_each(|doubt| writeln!(out, "note: {doubt}"))
}

fn device(advice: &Advice, out: &mut dyn Write) -> io::Result<()> {
    let facts = &advice.facts;
    let above = beside(&facts.file_systems).map(|of| format!("{of} > ")).unwrap_or_default();
    writeln!(out, "{}: {above}{}", advice.device, advice.stack)?;
    let machine = if facts.guest { "virtual machine" } else { "physical machine" };
    let capacity = facts.capacity_bytes.map(|capacity| format!(", {}", bytes(capacity))).unwrap_or_default();
    let depth = facts.device_depth.map(|depth| format!(", device queue {depth}")).unwrap_or_default();
    let queue = facts.settings.iter().map(|(name, value)| format!("{name}={value}"));
    writeln!(out, "{machine}{capacity}{depth}; {}", queue.collect::<Vec<_>>().join(" "))?;
    let Some(probe) = &advice.service_times else {
        let why = advice.discarded.as_deref().unwrap_or("service times: not measured");
        return writeln!(out, "{why}");
    };
    // Reads of the load delay those of the measurement.
    let during = if advice.busy >= BUSY { ", while it was busy" } else { "" };
    let points = &probe.service_time.points;
    // The nearest, the farthest, and some between.
    let last = points.len().saturating_sub(1);
    let indexes: BTreeSet<usize> = (0..SHOWN).map(|n| n * last / (SHOWN - 1)).collect();
    let shown = indexes.into_iter().filter_map(|index| points.get(index)).map(|(distance, ns)| {
        let distance = if *distance == 0 { "in sequence".to_owned() } else { bytes(distance * 512) };
        format!("{distance} {}", time(*ns))
    });
    let sequence = match probe.service_time.transfer_per_sector {
        0 => String::new(),
        ns => format!("; {}/s in sequence", bytes(512_000_000_000 / ns)),
    };
    writeln!(
        out,
        "service times of 4 KiB reads by distance{during}: {}{sequence}; serves {} at once",
        shown.collect::<Vec<_>>().join(", "),
        probe.lanes
    )?;
    advice.discarded.iter().try_for_each(|left_out| writeln!(out, "{left_out}"))
}

fn load(advice: &Advice, out: &mut dyn Write) -> io::Result<()> {
    let windows = counted(u64::from(advice.windows), "window");
    let rate = advice.flushes_per_second;
    let flushes =
        if rate > 0.0 { format!(", besides {} flushes a second", number(rate)) } else { String::new() };
    if advice.requests_per_second == 0.0 {
        return writeln!(out, "load in {windows}: no requests with data{flushes}");
    }
    let class = advice.load.map(|class| format!("; {class}")).unwrap_or_default();
    let recognised = match advice.recognised {
        0 => String::new(),
        windows => format!("; {windows} of {} known from before", advice.analysed),
    };
    writeln!(
        out,
        "load in {windows}: {} requests a second of {} ({}/s), {:.0}% of the bytes read, {:.0}% not sequential, busy {:.0}%{flushes}{class}{recognised}",
        number(advice.requests_per_second),
        bytes(advice.request_bytes as u64),
        bytes(advice.bytes_per_second as u64),
        advice.read_share * 100.0,
        advice.random_share * 100.0,
        advice.busy * 100.0
    )?;
    if advice.not_reported > 0 {
        writeln!(out, "{} counted but not reported", counted(advice.not_reported, "request"))?;
    }
    Ok(())
}

fn replayed(advice: &Advice, out: &mut dyn Write) -> io::Result<()> {
    let Some(model) = &advice.replay else { return Ok(()) };
    let requests = counted(model.requests as u64, "request");
    if let Some(why) = &model.unfit {
        return writeln!(
            out,
            "{requests} of it, replayed on a model of the device ({}): {why}",
            model.device
        );
    }
    writeln!(out, "{requests} of it, replayed on a model of the device ({}):\n", model.device)?;
    let mut table = Table::new(["scheduler", "MB/s", "mean read", "p99 read", "mean write", "gain"]);
    let best = model.best().map(|(name, _)| name);
    for row in &model.results {
        let gain = row.gain.map_or_else(|| "-".to_owned(), |gain| format!("{:+.0}%", gain * 100.0));
        let or_dash = |ns: u64| if ns == 0 { "-".to_owned() } else { time(ns) };
        let tone = if best == Some(&row.scheduler) { Tone::Best } else { Tone::Plain };
        let [mean, p99, write] = [row.read_mean_ns, row.read_p99_ns, row.write_mean_ns].map(or_dash);
        let cells = vec![row.scheduler.clone(), number(row.megabytes_per_second), mean, p99, write, gain];
        table.row(tone, cells);
    }
    let text = table.print(Style::Text { width: None, colour: false });
    text.lines().try_for_each(|line| writeln!(out, "    {}", line.trim_end()))?;
    writeln!(out)
}

fn recommendation(advice: &Advice, out: &mut dyn Write) -> io::Result<()> {
    let Advice { scheduler, better, confidence, .. } = advice;
    let gain = advice.expected_gain.filter(|_| better.is_some());
    let by = match advice.basis {
        Basis::History => " by the means of the windows of 'dwell tune'",
        Basis::Model => " in the model",
        Basis::Nothing | Basis::Profile | Basis::Bypass | Basis::Class => "",
    };
    let gain = gain.map(|gain| format!("{:+.0}% {} over {scheduler}{by}, ", gain * 100.0, advice.metric));
    let gain = gain.unwrap_or_default();
    match (better, advice.basis) {
        (_, Basis::Nothing) if advice.windows == 0 => {
            return writeln!(out, "no recommendation: ended before the first window was over");
        }
        (_, Basis::Nothing) => {
            let why = match advice.absent {
                Some(requests) => format!("the load has no {requests}"),
                None => "the load is too small to judge".to_owned(),
            };
            writeln!(out, "recommendation: keep {scheduler}: {why}")?
        }
        (Some(better), _) => {
            writeln!(
                out,
                "recommendation: {better} instead of {scheduler} ({gain}confidence {confidence:.2})"
            )?;
        }
        (None, _) => writeln!(out, "recommendation: keep {scheduler} (confidence {confidence:.2})")?,
    }
    if advice.why.is_empty() { Ok(()) } else { writeln!(out, "why: {}", advice.why) }
}

fn configuration(advice: &Advice, out: &mut dyn Write) -> io::Result<()> {
    let Some(configuration) = &advice.configuration else { return Ok(()) };
    if configuration.set.is_some() || configuration.udev_rule.is_some() {
        writeln!(out, "to paste into a shell of root:")?;
    }
    // A comment for a shell, into which all lines may be pasted.
    let by_hand = configuration.set_by_hand.iter().map(|by_hand| {
        format!(
            "#        without dwell, for programs that start later (those that run may stay slow until they restart): {by_hand}"
        )
    });
    if let Some(set) = &configuration.set {
        writeln!(out, "set it:  {set}")?;
        by_hand.clone().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if let (Some(rule), Some(file)) = (&configuration.udev_rule, &configuration.udev_file) {
        writeln!(out, "keep it:")?;
        file_to_paste(out, file, rule)?;
    }
    if let Some(remark) = &configuration.remark {
        let heading = if configuration.udev_rule.is_some() { "note:" } else { "keep it:" };
        writeln!(out, "{heading} {remark}")?;
        // The remark names the command then.
        if configuration.set.is_none() {
            by_hand.clone().try_for_each(|line| writeln!(out, "{line}"))?;
        }
    }
    if configuration.set.is_some() || configuration.udev_rule.is_some() {
        configuration.revert.iter().try_for_each(|line| writeln!(out, "revert:  {line}"))?;
    }
    if let (Some(profile), Some(revert)) = (&configuration.tuned_profile, &configuration.tuned_revert) {
        let directory = &configuration.tuned_directory;
        writeln!(out, "or keep it with tuned, instead of the rule:\nmkdir -p {directory}")?;
        file_to_paste(out, &format!("{directory}/tuned.conf"), profile)?;
        writeln!(out, "revert:  {revert}")?;
    }
    if let (Some(unit), Some(revert)) = (&configuration.unit, &configuration.unit_revert) {
        writeln!(out, "or, for a load that changes, instead of both:\n{unit}\nrevert:  {revert}")?;
    }
    if let Some(remark) = &configuration.unit_remark {
        writeln!(out, "or {remark}")?;
    }
    Ok(())
}

/// A command that writes a file, and the one that applies the file, which its first line has. Not indented: the shell would not find the end.
fn file_to_paste(out: &mut dyn Write, file: &str, text: &str) -> io::Result<()> {
    writeln!(out, "cat > {file} <<'END'\n{text}\nEND")?;
    let apply = text.lines().find_map(|line| line.strip_prefix(Configuration::APPLY));
    apply.iter().try_for_each(|apply| writeln!(out, "{apply}"))
}
