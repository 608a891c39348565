//! A device under an elevator of the kernel module: its counters and streams from sysfs, decisions and reasons from the tracepoint.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use capture::topology::{Layer, Stack};
use capture::{Decision, Decisions, Verdict};

use super::{HEIGHT, SAMPLE, draw_texts};
use crate::error::Error;
use evaluation::report::format::{number, time};

/// Limit of displayed lines of `iosched/inspect`, and of displayed reasons.
const LINES: usize = 12;

/// Whether the path is a block device; otherwise it is a control socket.
pub(super) fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_block_device())
}

/// Whether an elevator of the module orders the device's requests.
pub(super) fn is_of_the_module(device: &Path) -> bool {
    let scheduling = Stack::of(device).and_then(|stack| stack.scheduling());
    scheduling.is_ok_and(|scheduling| scheduling.queues.iter().all(is_under_the_module))
}

fn is_under_the_module(layer: &Layer) -> bool {
    layer.scheduler.as_deref().is_some_and(|scheduler| scheduler.starts_with("dwell-"))
}

/// What `queue/iosched` holds at one moment.
#[derive(Clone, Default)]
struct Reading {
    stats: BTreeMap<String, String>,
    /// The lines of `inspect`.
    inspected: Vec<String>,
}

impl Reading {
    fn count(&self, name: &str) -> u64 {
        self.stats.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }
}

/// Enables the module's time measurement while this exists. `None`: it was enabled already, and stays so.
struct Timing(Option<PathBuf>);

impl Timing {
    fn of(directory: &Path) -> Result<Self, Error> {
        let path = directory.join("timing");
        if file(&path)?.trim() != "0" {
            return Ok(Self(None));
        }
        fs::write(&path, "1").map_err(|error| Error::file(path.display(), &error))?;
        Ok(Self(Some(path)))
    }
}

impl Drop for Timing {
    /// Errors are ignored: if the scheduler was changed meanwhile, the file no longer exists.
    fn drop(&mut self) {
        self.0.iter().for_each(|path| drop(fs::write(path, "0")));
    }
}

/// A device's elevator, its last two readings and the decisions between them.
struct Watched {
    title: String,
    directory: PathBuf,
    decisions: Decisions,
    _timing: Timing,
    now: Reading,
    before: Reading,
    decided: BTreeMap<Decision, u64>,
    counting: BTreeMap<Decision, u64>,
    since: Instant,
    over: Duration,
}

pub(super) fn run(device: &Path, every: Duration, once: bool) -> Result<(), Error> {
    let stack = Stack::of(device)?;
    let scheduling = stack.scheduling()?;
    let [layer] = &*scheduling.queues else {
        return Err(Error::Usage(format!(
            "{}: several queues order its requests ({}); name one of these devices",
            device.display(),
            scheduling.names()
        )));
    };
    let mut watched = Watched::new(layer)?;
    if once || !io::stdout().is_terminal() {
        std::thread::sleep(every);
        watched.take()?;
        watched.read()?;
        return Ok(write!(io::stdout().lock(), "{}", watched.snapshot())?);
    }
    draw_texts(SAMPLE, || {
        watched.take()?;
        if watched.since.elapsed() >= every {
            watched.read()?;
        }
        Ok(watched.snapshot())
    })
}

impl Watched {
    fn new(layer: &Layer) -> Result<Self, Error> {
        let scheduler = layer.scheduler.as_deref().unwrap_or("none");
        let directory = Path::new("/sys/block").join(&layer.name).join("queue/iosched");
        let spec = file(&directory.join("spec"))?;
        let title = format!("{}: {scheduler}, {}", layer.name, spec.trim());
        let decisions = Decisions::open(layer.number)?;
        let timing = Timing::of(&directory)?;
        let now = reading(&directory)?;
        let (decided, counting) = (BTreeMap::new(), BTreeMap::new());
        let (since, over) = (Instant::now(), Duration::ZERO);
        let before = now.clone();
        Ok(Self { title, directory, decisions, _timing: timing, now, before, decided, counting, since, over })
    }

    /// Counts the decisions since the last call.
    fn take(&mut self) -> Result<(), Error> {
        let counting = &mut self.counting;
        Ok(self.decisions.take(|decision| *counting.entry(decision).or_default() += 1)?)
    }

    /// Reads the counters and begins the next interval.
    fn read(&mut self) -> Result<(), Error> {
        let now = reading(&self.directory)?;
        self.before = std::mem::replace(&mut self.now, now);
        self.decided = std::mem::take(&mut self.counting);
        self.over = self.since.elapsed();
        self.since = Instant::now();
        Ok(())
    }

    fn snapshot(&self) -> String {
        snapshot(&self.title, &self.before, &self.now, self.over, &self.decided, self.decisions.lost())
    }
}

fn file(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| Error::file(path.display(), &error))
}

fn reading(directory: &Path) -> Result<Reading, Error> {
    let stats = file(&directory.join("stats"))?;
    let stats = stats.lines().filter_map(|line| line.split_once(' '));
    let inspected = file(&directory.join("inspect"))?;
    Ok(Reading {
        stats: stats.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        inspected: inspected.lines().map(str::to_owned).collect(),
    })
}

fn snapshot(
    title: &str,
    before: &Reading,
    now: &Reading,
    over: Duration,
    decided: &BTreeMap<Decision, u64>,
    lost: u64,
) -> String {
    let grown = |name: &str| now.count(name).saturating_sub(before.count(name));
    let rate = |name: &str| number(grown(name) as f64 / over.as_secs_f64().max(1e-3));
    let mut text = format!(
        "{title}\n{} queued, {} of {} in the device; {} dispatched/s, {} merged/s, {} holds/s\n",
        now.count("queued"),
        now.count("in_flight"),
        now.count("depth"),
        rate("dispatched"),
        rate("merged"),
        rate("held"),
    );
    let each = grown("policy_ns") / grown("timed").max(1);
    let none = String::new();
    let fault = now.stats.get("fault").unwrap_or(&none);
    text += &format!(
        "policy: {} per dispatched request, maximum {}; fault: {fault}\nlock held (us): {}\n",
        time(each),
        time(now.count("policy_ns_max")),
        now.stats.get("lock_hold_us").unwrap_or(&none),
    );
    let mut rows: Vec<_> = decided.iter().collect();
    rows.sort_by_key(|&(_, &count)| std::cmp::Reverse(count));
    text += &format!("\ndecisions in {}{}\n", time(over.as_nanos() as u64), lost_in_words(lost));
    for (decision, count) in rows.into_iter().take(LINES) {
        let verdict = match decision.verdict {
            Verdict::Dispatch => "dispatch",
            Verdict::Hold => "hold",
        };
        text += &format!("{count:>9}  {verdict:<8}  {}\n", decision.reason);
    }
    if !now.inspected.is_empty() {
        text += &format!("\nitems of the policy: {}\n", now.inspected.len());
        let room = usize::from(HEIGHT).saturating_sub(text.lines().count()).min(LINES);
        now.inspected.iter().take(room).for_each(|line| text += &format!("  {line}\n"));
    }
    text
}

fn lost_in_words(lost: u64) -> String {
    if lost == 0 { String::new() } else { format!(" ({lost} lost since the start)") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_has_rates_and_reasons() {
        let reading = |dispatched: u64, policy_ns: u64| Reading {
            stats: [
                ("queued", "3".to_owned()),
                ("in_flight", "1".to_owned()),
                ("depth", "31".to_owned()),
                ("dispatched", dispatched.to_string()),
                ("timed", dispatched.to_string()),
                ("policy_ns", policy_ns.to_string()),
                ("policy_ns_max", "9000".to_owned()),
                ("fault", "none".to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
            inspected: vec!["stream 0 length=12".to_owned()],
        };
        let decision = |verdict, reason: &str| Decision { verdict, reason: reason.to_owned() };
        let decided = BTreeMap::from([
            (decision(Verdict::Hold, "awaits a child"), 3),
            (decision(Verdict::Dispatch, "child"), 200),
        ]);
        let text = snapshot(
            "sda: dwell-stream",
            &reading(100, 0),
            &reading(300, 60_000),
            Duration::from_secs(2),
            &decided,
            0,
        );
        assert_eq!(
            text,
            "sda: dwell-stream\n3 queued, 1 of 31 in the device; 100 dispatched/s, 0.00 merged/s, 0.00 holds/s\n\
             policy: 300 ns per dispatched request, maximum 9.00 us; fault: none\nlock held (us): \n\n\
             decisions in 2.00 s\n      200  dispatch  child\n        3  hold      awaits a child\n\n\
             items of the policy: 1\n  stream 0 length=12\n"
        );
    }
}
