//! `dwell trace info`: what a recording contains.

use std::io::Write;
use std::path::Path;

use clap::Args;
use elevator::text::{counted, whole as binary};
use evaluation::report::format::{bytes, number, object, percent, time};
use serde::Serialize;
use serde_json::json;
use traces::{DeviceChoice, Gatherer, Info, Latency, Record, Recording, StartEvent};

use super::{until_stopped, whole};
use crate::error::Error;
use crate::input::shared_args::Reading;
use crate::report::{Style, Table, Tone, fitted, quoted, text_style};
use evaluation::input::{STANDARD_INPUT, open_recording, options};

/// Limit of devices in the table.
const DEVICES_MAX: usize = 256;

/// Limit of listed processes.
const PROCESSES_MAX: usize = 12;

/// How the statistics are printed.
#[derive(Args, Debug)]
pub(crate) struct Format {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print a line for each device as CSV, with all digits; --json also has sizes and processes
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print tables as Markdown
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    markdown: bool,
    /// Print all columns, however wide the tables become. Default: those that fit the terminal, or 80 columns
    #[arg(long, conflicts_with_all = ["json", "csv", "markdown"])]
    wide: bool,
}

impl Format {
    fn style(&self) -> Style {
        match text_style() {
            _ if self.markdown => Style::Markdown,
            Style::Text { colour, .. } if self.wide => Style::Text { width: None, colour },
            style => style,
        }
    }
}

/// The parts of a request's latency: from the queue (Q) to the driver (D), and from the driver to completion (C).
#[derive(Serialize)]
struct Parts {
    /// Mean time in the scheduler's queue.
    q2d_mean_ns: f64,
    /// Time in the device.
    d2c: Latency,
}

pub(super) fn run(path: &Path, reading: &Reading, format: &Format) -> Result<(), Error> {
    let mut how = options(&reading.options(), None)?;
    if how.device == DeviceChoice::Single {
        how.device = DeviceChoice::All;
    }
    let mut recording = open_recording(path, &how)?;
    let mut all = Info::gatherer();
    let mut by_device: Vec<Gatherer> = Vec::new();
    until_stopped(&mut recording, |record, _| {
        all.add(record);
        add(&mut by_device, record);
        Ok(())
    })?;
    let used = recording.devices().iter().filter(|device| device.requests > 0).count();
    let lists = used > 1 && reading.device.is_none();
    let mut out = std::io::stdout().lock();
    let name = path.display().to_string();
    let style = format.style();
    if lists {
        let mut devices = devices(by_device, &recording);
        parts_of_each(path, how, &mut devices)?;
        match () {
            () if format.json => writeln!(out, "{}", object(&json!({"file": name, "devices": devices}))?)?,
            () if format.csv => {
                let rows =
                    devices.iter().map(|device| (&*device.device, &device.info, device.parts.as_ref()));
                writeln!(out, "{}", csv(rows))?;
            }
            () => {
                writeln!(out, "{}", printed(&name, &list(&devices, used, &recording, style), style))?;
            }
        }
        return whole();
    }
    let info = all.finish(&recording);
    let parts = parts(path, how, &info)?;
    match () {
        () if format.json => {
            writeln!(out, "{}", object(&json!({"file": name, "info": info, "parts": parts}))?)?;
        }
        () if format.csv => {
            let device = info.devices.iter().filter(|device| device.requests > 0);
            let device = match &*device.map(|device| &*device.name).collect::<Vec<_>>() {
                [one] => (*one).to_owned(),
                _ => reading.device.clone().unwrap_or_default(),
            };
            writeln!(out, "{}", csv([(&*device, &info, parts.as_ref())]))?;
        }
        () => writeln!(out, "{}", printed(&name, &in_words(&info, parts.as_ref(), style), style))?,
    }
    whole()
}

/// The text of a file, as wide as the terminal (tables fit already), or as a list and tables of Markdown.
fn printed(name: &str, text: &str, style: Style) -> String {
    let text = format!("{name}: {text}");
    match style {
        Style::Text { width, .. } => fitted(&text, width),
        Style::Markdown => {
            let lines = text.lines().map(|line| match line.strip_prefix("  ") {
                Some(item) => format!("- {}", item.trim_start()),
                None => line.to_owned(),
            });
            // A list begins after an empty line.
            lines.collect::<Vec<_>>().join("\n").replacen("\n- ", "\n\n- ", 1)
        }
    }
}

/// A line for each device, with all digits; times in nanoseconds. The first line names the columns.
fn csv<'a>(devices: impl IntoIterator<Item = (&'a str, &'a Info, Option<&'a Parts>)>) -> String {
    const LATENCIES: [&str; 6] = ["", "read_", "write_", "flush_", "preflush_", "d2c_"];
    let mut heads: Vec<String> = [
        "device",
        "reads",
        "read_bytes",
        "writes",
        "written_bytes",
        "discards",
        "discarded_bytes",
        "flushes",
        "iops",
        "sequential",
        "depth_mean",
        "depth_max",
    ]
    .map(str::to_owned)
    .to_vec();
    for of in LATENCIES {
        heads.extend(["mean", "p50", "p90", "p99", "p999", "max"].map(|value| format!("{of}{value}_ns")));
    }
    let mut text = heads.join(",");
    for (device, info, parts) in devices {
        let amounts = [info.reads, info.writes, info.discards];
        let mut cells = vec![quoted(device.to_owned())];
        cells.extend(amounts.iter().flat_map(|of| [of.requests.to_string(), of.bytes.to_string()]));
        cells.extend([info.flushes.to_string(), info.iops.to_string(), info.sequential.to_string()]);
        let depth = info.latency.map(|of| [of.depth_mean.to_string(), of.depth_max.to_string()]);
        cells.extend(depth.unwrap_or_default());
        let d2c = parts.map(|parts| parts.d2c);
        let by_kind = [info.latency, info.read_latency, info.write_latency, info.flush_latency];
        for of in by_kind.into_iter().chain([info.preflush_latency, d2c]) {
            let values = of.map(|of| {
                let percentiles = [of.p50_ns, of.p90_ns, of.p99_ns, of.p999_ns, of.max_ns];
                [vec![of.mean_ns.to_string()], percentiles.map(|ns| ns.to_string()).to_vec()].concat()
            });
            cells.extend(values.unwrap_or_else(|| vec![String::new(); 6]));
        }
        text += &format!("\n{}", cells.join(","));
    }
    text
}

/// One device of several.
#[derive(Serialize)]
struct DeviceInfo {
    device: String,
    #[serde(flatten)]
    info: Info,
    parts: Option<Parts>,
}

/// Adds a request to those of its device.
fn add(by_device: &mut Vec<Gatherer>, record: &Record) {
    let device = record.device.0 as usize;
    if device < DEVICES_MAX {
        by_device.resize_with(by_device.len().max(device + 1), Info::gatherer);
        by_device[device].add(record);
    }
}

fn devices(by_device: Vec<Gatherer>, recording: &Recording) -> Vec<DeviceInfo> {
    let named = recording.devices().iter().zip(by_device);
    let used = named.filter(|(device, _)| device.requests > 0);
    let info = |gatherer: Gatherer| gatherer.finish_device(recording);
    let device = |name: &str, info| DeviceInfo { device: name.to_owned(), info, parts: None };
    used.map(|(of, gatherer)| device(&of.name, info(gatherer))).collect()
}

/// The devices as a table.
fn list(devices: &[DeviceInfo], used: usize, recording: &Recording, style: Style) -> String {
    let heads =
        ["device", "reads", "writes", "read", "written", "sequential", "latency\np50", "latency\np99"];
    // Columns that most recordings cannot fill.
    let d2c = ["D2C\np50", "D2C\np99"].into_iter().filter(|_| devices.iter().any(|of| of.parts.is_some()));
    let heads: Vec<&str> = heads.into_iter().chain(d2c).collect();
    let mut order = vec![1, 2, 7, 3, 4, 5, 6];
    order.extend(8..heads.len());
    let columns = heads.len();
    let mut table = Table::new(heads);
    for DeviceInfo { device, info, parts } in devices {
        let or_empty = |ns: Option<u64>| ns.map_or(String::new(), time);
        let d2c = parts.as_ref().map(|parts| parts.d2c);
        let mut cells = vec![
            device.clone(),
            info.reads.requests.to_string(),
            info.writes.requests.to_string(),
            bytes(info.reads.bytes),
            bytes(info.writes.bytes),
            percent(info.sequential),
            or_empty(info.latency.map(|latency| latency.p50_ns)),
            or_empty(info.latency.map(|latency| latency.p99_ns)),
            or_empty(d2c.map(|latency| latency.p50_ns)),
            or_empty(d2c.map(|latency| latency.p99_ns)),
        ];
        cells.truncate(columns);
        table.row(Tone::Plain, cells);
    }
    if let Style::Text { width, .. } = style {
        table.fit(width, &order);
    }
    let left_out = match used - devices.len() {
        0 => String::new(),
        n => format!("\n(and {n} more)"),
    };
    format!(
        "{}\n{}, each at its own addresses:\n\n{}{left_out}\n\n\
         --device NAME describes one device, --device all describes all together.",
        recording.interpretation(),
        counted(used as u64, "device"),
        table.print(style),
    )
}

impl Parts {
    /// Of a request from its creation (`q2c`), and from the driver.
    fn of(q2c: Latency, d2c: Latency) -> Self {
        Self { q2d_mean_ns: (q2c.mean_ns - d2c.mean_ns).max(0.0), d2c }
    }
}

/// Whether the recording can be read a second time, with latency from the issue to the driver.
fn has_parts(path: &Path, info: &Info) -> bool {
    let has_both = info.interpretation.event.is_some_and(|event| event != StartEvent::Issue);
    has_both && info.latency.is_some() && path != Path::new(STANDARD_INPUT) && path.is_file()
}

/// Reads the recording a second time, with latency from the issue to the driver, if it has both events.
fn parts(path: &Path, how: traces::Options, info: &Info) -> Result<Option<Parts>, Error> {
    let Some(q2c) = info.latency.filter(|_| has_parts(path, info)) else { return Ok(None) };
    let mut recording = open_recording(path, &traces::Options { event: Some(StartEvent::Issue), ..how })?;
    let mut gatherer = Info::gatherer();
    until_stopped(&mut recording, |record, _| {
        gatherer.add(record);
        Ok(())
    })?;
    let d2c = gatherer.finish(&recording).latency;
    Ok(d2c.map(|d2c| Parts::of(q2c, d2c)))
}

/// The same for each of several devices.
fn parts_of_each(path: &Path, how: traces::Options, devices: &mut [DeviceInfo]) -> Result<(), Error> {
    if !devices.iter().any(|device| has_parts(path, &device.info)) {
        return Ok(());
    }
    let mut recording = open_recording(path, &traces::Options { event: Some(StartEvent::Issue), ..how })?;
    let mut by_device: Vec<Gatherer> = Vec::new();
    until_stopped(&mut recording, |record, _| {
        add(&mut by_device, record);
        Ok(())
    })?;
    // Not by number: the first request that was issued may be of another device than the first one that was created.
    for DeviceInfo { device, info, .. } in self::devices(by_device, &recording) {
        if let Some(first) = devices.iter_mut().find(|first| first.device == device) {
            first.parts = first.info.latency.zip(info.latency).map(|(q2c, d2c)| Parts::of(q2c, d2c));
        }
    }
    Ok(())
}

fn in_words(info: &Info, parts: Option<&Parts>, style: Style) -> String {
    let mut text = format!("{}\n", info.interpretation);
    if let Some(doubt) = info.interpretation.doubt() {
        text += &format!("  {doubt}\n");
    }
    for (what, amount) in [("reads", info.reads), ("writes", info.writes), ("discards", info.discards)] {
        text += &format!("  {what}: {}, {}\n", counted(amount.requests, "request"), bytes(amount.bytes));
    }
    text += &format!(
        "  flushes: {}{}\n  sequential: {} of requests{}\n  read-ahead: {} of reads; synchronous: {} of writes\n  reaches to {}\n",
        info.flushes,
        match (info.preflush_writes, info.fua_writes) {
            (0, 0) => String::new(),
            (preflush, fua) => {
                format!("\n  writes with a preflush: {preflush}; with forced unit access: {fua}")
            }
        },
        percent(info.sequential),
        info.sequential_per_process
            .map_or(String::new(), |share| format!(", {} within their process", percent(share))),
        percent(info.read_ahead),
        percent(info.sync_writes),
        bytes(info.end_bytes),
    );
    if let Some(latency) = &info.latency {
        let mean = number(latency.depth_mean);
        text += &format!("  depth: {mean} requests in flight on average, at most {}\n", latency.depth_max);
    }
    text += &latencies(info, parts, style);
    text += &sizes(info, style);
    if !info.processes.is_empty() {
        text += "\n";
    }
    for process in info.processes.iter().take(PROCESSES_MAX) {
        let name = process.name.as_deref().unwrap_or("unnamed");
        text +=
            &format!("  process {} ({name}): {}\n", process.pid, counted(process.total.requests, "request"));
    }
    for line in info.skips.to_string().lines() {
        text += &format!("  {line}\n");
    }
    text.trim_end().to_owned()
}

/// Latency percentiles of reads and writes, and of a request's parts.
fn latencies(info: &Info, parts: Option<&Parts>, style: Style) -> String {
    let mut table = Table::new(["latency", "requests", "mean", "p50", "p90", "p99", "p99.9", "max"]);
    let mut row = |name: &str, latency: Option<Latency>| {
        if let Some(of) = latency {
            let percentiles = [of.p50_ns, of.p90_ns, of.p99_ns, of.p999_ns, of.max_ns].map(time);
            let first = [name.to_owned(), of.requests.to_string(), time(of.mean_ns as u64)];
            table.row(Tone::Plain, [&first[..], &percentiles].concat());
        }
    };
    row("reads", info.read_latency);
    row("writes", info.write_latency);
    row("with preflush", info.preflush_latency);
    row("flushes", info.flush_latency);
    row("all", info.latency);
    row("device (D2C)", parts.map(|parts| parts.d2c));
    if info.latency.is_none() {
        return String::new();
    }
    // Text directly below a table of Markdown would be a row of it.
    let below = if style == Style::Markdown { "\n\n" } else { "\n" };
    let queued = parts.map_or(String::new(), |parts| {
        format!("{below}queue (Q2D): mean {}", time(parts.q2d_mean_ns as u64))
    });
    let added = parts.zip(info.latency).map(|(parts, all)| parts.d2c.requests.saturating_sub(all.requests));
    let added = added.filter(|&added| added > 0).map_or(String::new(), |added| {
        format!("{below}D2C has {added} more: the kernel adds flushes (preflush, forced unit access)")
    });
    indented(&format!("{}{queued}{added}", table.print(style)), style)
}

fn sizes(info: &Info, style: Style) -> String {
    let mut table = Table::new(["size up to", "reads", "writes"]);
    for row in &info.sizes {
        let cells = [binary(row.up_to_bytes), row.reads.to_string(), row.writes.to_string()];
        table.row(Tone::Plain, cells.to_vec());
    }
    indented(&table.print(style), style)
}

/// A part of the text below an empty line.
fn indented(text: &str, style: Style) -> String {
    let indent = if style == Style::Markdown { "" } else { "  " };
    let lines: String = text.lines().map(|line| format!("{indent}{line}\n")).collect();
    format!("\n{lines}")
}
