//! `dwell record`.

use clap::{Args, ValueEnum};
use std::collections::BTreeSet;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use capture::{Backend, Batch, Options, Recorder, Source};
use elevator::text::counted;
use elevator::{Span, Time};
use traces::write::Written;

use crate::device_capture::{self, Reached};
use crate::error::Error;
use crate::identities::Identities;
use crate::input::quantity::some_time;
use crate::interrupt;
use crate::output_file::{Output, check_compression, is_free, sink_in_place};
use capture::topology::{Layer, Stack};
use tuner_live::QueueSettings;

/// Options of `dwell record`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell record /dev/sda -o io.trace.zst --for 60s
  dwell compare io.trace.zst")]
pub(crate) struct RecordArguments {
    /// The device. Partitions, dm and md are followed down to the device that schedules; a loop device, and an array whose members all schedule, is recorded itself
    pub(crate) device: PathBuf,
    /// The file to write ('-' for standard output); .gz and .zst are compressed
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Duration; without it, record until Ctrl-C
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) during: Option<String>,
    #[command(flatten)]
    pub(crate) reached: Reached,
    /// Do not observe who causes what kernel threads write (a BPF program on each page that becomes dirty)
    #[arg(long)]
    pub(crate) no_causes: bool,
    /// How to observe the device; default: BPF, or tracefs where BPF is not allowed
    #[arg(long, value_enum)]
    pub(crate) backend: Option<BackendName>,
}

/// How a live device is observed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum BackendName {
    /// A BPF program at the block layer's tracepoints
    Bpf,
    /// The kernel's tracer, as text
    Tracefs,
}

impl From<BackendName> for Backend {
    fn from(name: BackendName) -> Self {
        match name {
            BackendName::Bpf => Self::Bpf,
            BackendName::Tracefs => Self::Tracefs,
        }
    }
}

/// The longest time between two reads of the capture; also the longest reaction time to Ctrl-C.
const ROUND: Duration = Duration::from_millis(200);
/// The time to wait for completions of the last requests.
const LAST: Duration = Duration::from_millis(500);

/// Dwell's own measurements of the device, whose requests are no load. The requests of a replay are the load that its user chose.
#[derive(Default)]
struct Probes {
    /// Processes and their threads: the tracer reports threads.
    tasks: BTreeSet<u32>,
    processes: BTreeSet<u32>,
    left_out: u64,
}

impl Probes {
    /// Looks for measurements; call it before each batch is taken.
    fn look(&mut self, queues: &[Layer]) {
        let holders = queues.iter().filter_map(|queue| QueueSettings::of(&queue.name).holder());
        for process in holders.filter(|process| is_probe(*process)) {
            self.processes.insert(process);
            let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
            let threads = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
            self.tasks.extend(threads.chain([process]));
        }
    }

    fn leave_out(&mut self, batch: &mut Batch) {
        let all = batch.arrivals.len();
        batch.arrivals.retain(|arrival| !arrival.process.is_some_and(|of| self.tasks.contains(&of.group)));
        self.left_out += (all - batch.arrivals.len()) as u64;
    }

    fn note(&self) -> Option<String> {
        let processes = self.processes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        (self.left_out > 0).then(|| {
            let requests = counted(self.left_out, "request");
            format!("left out {requests} with which 'dwell advise' or 'dwell profile' (process {processes}) measured the device")
        })
    }
}

/// Whether a process is `dwell advise` or `dwell profile`.
fn is_probe(process: u32) -> bool {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).skip(1).any(|word| word == b"advise" || word == b"profile")
}

/// Drops the requests that arrived after the end of the recording. Completions of recorded requests are kept.
fn drop_later(batch: &mut Batch, end: Time) {
    batch.arrivals.retain(|arrival| arrival.at <= end);
}

pub(crate) fn run(arguments: &RecordArguments) -> Result<(), Error> {
    let during = arguments.during.as_deref().map(|text| some_time("--for", text)).transpose()?;
    check_compression(&arguments.output)?;
    is_free(&arguments.output, arguments.overwrite)?;
    let reach = arguments.reached.reach();
    let scheduling = device_capture::observed(&arguments.device, reach)?;
    let layer = &scheduling.above;
    let backend = arguments.backend.map(Into::into);
    let ring_bytes = 16 << 20;
    let options = Options { completions: true, rate_max: None, ring_bytes, backend, ..Options::default() };
    let output = arguments.output.display();
    let mut capture = device_capture::open_capture(layer, &options)?;
    let (mut identities, notes) = Identities::open(layer, !arguments.no_causes);
    notes.iter().for_each(|note| say!("{}: {note}", layer.name));
    let mut sink = sink_in_place(&arguments.output)?;
    capture::lower_priority();
    let (origin, begun) = (capture::now(), Instant::now());
    let scheduler = device_capture::schedulers_of(&scheduling);
    let by = if capture.backend() == Backend::Bpf { "BPF" } else { "tracefs" };
    let comment = format!("{} under {scheduler}, by {by}", layer.name);
    let failed = |error: std::io::Error| Error::written(&output, &error);
    let mut recorder =
        Recorder::new(BufWriter::new(&mut sink), layer.number, origin, &comment, true).map_err(failed)?;
    say!("recording {comment} to {output}; Ctrl-C ends it");
    let mut batch = Batch::default();
    let is_over = || interrupt::requested() || during.is_some_and(|during| begun.elapsed() >= during);
    let mut outcome = Ok(());
    let mut probes = Probes::default();
    while !is_over() && outcome.is_ok() {
        probes.look(&scheduling.queues);
        let left = during.map_or(ROUND, |during| during.saturating_sub(begun.elapsed()));
        outcome = capture.take(&mut batch, left.min(ROUND).max(Duration::from_millis(1)));
        probes.leave_out(&mut batch);
        recorder.take(&batch).map_err(failed)?;
        identities.take(&batch)?;
        batch.clear();
    }
    // The capture may take longer than the recording on a busy machine, and Ctrl-C ends it earlier.
    let ended = capture::now();
    let until = during.map_or(ended, |during| ended.min(origin + Span::from_nanos(during.as_nanos() as u64)));
    if outcome.is_ok() {
        // On a busy machine this may be the first call that gets any.
        outcome = capture.take(&mut batch, LAST.min(ROUND));
        drop_later(&mut batch, until);
        probes.leave_out(&mut batch);
        recorder.take(&batch).map_err(failed)?;
        identities.take(&batch)?;
    }
    recorder.identify(identities.finish()?);
    let missing = device_capture::missing(&capture)?;
    let Written { written, .. } = recorder.finish(missing.as_deref()).map_err(failed)?;
    sink.finish().and_then(Output::complete).map_err(failed)?;
    say!("{output}: {} in {:.1} s", counted(written, "request"), until.since(origin).as_secs_f64());
    // The comment of the recording names the scheduler at its begin.
    let now = Stack::of(&arguments.device).and_then(|stack| stack.scheduling_within(reach));
    if let Some(now) = now.ok().map(|now| device_capture::schedulers_of(&now)).filter(|now| *now != scheduler)
    {
        say!(
            "{output}: another process changed the scheduler from {scheduler} to {now} during the recording"
        );
    }
    if written == 0 {
        let node = layer.node();
        let node = node.display();
        say!(
            "{output}: {node} had no request: the load did not run, it used another device ('dwell doctor DIRECTORY' prints the device of a \
             directory, 'dwell top {node}' the load of a device), or the page cache served its reads"
        );
    }
    probes.note().iter().chain(&missing).for_each(|text| say!("{output}: {text}"));
    outcome.map_err(Error::from)
}

#[cfg(test)]
mod tests {
    use capture::Arrival;
    use elevator::{Flags, Op, Process, Sector, Sectors};

    use super::*;

    #[test]
    fn requests_until_the_end_are_kept() {
        let arrival = |at: u64| Arrival {
            at: Time::from_nanos(at),
            op: Op::Read,
            start: Sector(0),
            sectors: Sectors(8),
            flags: Flags::default(),
            priority: None,
            process: None,
            name: capture::Name::new([0; 16]),
        };
        let mut batch = Batch { arrivals: [5, 10, 11].map(arrival).to_vec(), ..Batch::default() };
        drop_later(&mut batch, Time::from_nanos(10));
        let kept = |batch: &Batch| batch.arrivals.iter().map(|arrival| arrival.at).collect::<Vec<Time>>();
        assert_eq!(kept(&batch), [5, 10].map(Time::from_nanos));
        // Regression: the reads of 'advise' were recorded as the load.
        batch.arrivals[0].process = Some(Process::single(7));
        let mut probes = Probes { tasks: [7].into(), processes: [7].into(), left_out: 0 };
        probes.leave_out(&mut batch);
        assert_eq!(kept(&batch), [Time::from_nanos(10)]);
        let note = probes.note().unwrap();
        assert!(note.starts_with("left out 1 request with which") && note.contains("(process 7)"), "{note}");
        assert!(!is_probe(std::process::id()));
    }
}
