//! The back end with the kernel's tracer, for kernels that refuse BPF.
//!
//! It uses an instance of its own, so that other tracing is not disturbed. The instance is removed at the end; the next capture removes that of
//! a killed process. Text is written and parsed for each event, which costs several times what BPF does, and nothing is omitted above a rate:
//! what does not fit in the kernel's buffer is lost and counted.

mod decisions;
mod instance;
mod line;
mod pipe;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use control::device_number::{DeviceNumber, directory, number_in, partitions};
use elevator::{Op, Sector};

use crate::error::Error;
use crate::event::{Arrival, Batch, Completed};
use crate::source::{Backend, Counts, Options, Source};
pub use decisions::{Decision, Decisions, Verdict};
use instance::Instance;
pub(crate) use instance::remove_those_left;
use line::Line;
use pipe::Pipe;

/// How often the kernel's buffer is emptied while waiting.
const ROUND: Duration = Duration::from_millis(100);
/// The greatest number of submissions in flight; above it, completions were lost.
const UNDER_WAY_MAX: usize = 1 << 14;

/// An instance of the kernel's tracer.
pub(crate) struct Tracefs {
    /// Closed before the instance is removed.
    pipe: Pipe,
    under_way: Option<Vec<Arrival>>,
    counts: Counts,
    _instance: Instance,
}

impl Tracefs {
    /// Observes the disk with that number and its partitions.
    pub(crate) fn open(disk: DeviceNumber, options: &Options) -> Result<Self, Error> {
        let instance = Instance::new()?;
        let filter = filter(Path::new("/sys"), disk);
        instance.set("trace_clock", "mono")?;
        // Per CPU. The text is made at reading, so an event takes few bytes.
        instance.set("buffer_size_kb", &(options.ring_bytes >> 10).max(64).to_string())?;
        // Submissions last, otherwise the completions of the first ones would be missing.
        let completions =
            ["block_rq_complete", "block_bio_complete"].into_iter().filter(|_| options.completions);
        for event in completions.chain(["block_bio_queue"]) {
            instance.set(&format!("events/block/{event}/filter"), &filter)?;
            instance.set(&format!("events/block/{event}/enable"), "1")?;
        }
        let pipe = instance.pipe()?;
        let under_way = options.completions.then(Vec::new);
        Ok(Self { pipe, under_way, counts: Counts::default(), _instance: instance })
    }

    /// Reads the available text.
    fn drain(&mut self, batch: &mut Batch) -> Result<(), Error> {
        let text = self.pipe.lines()?;
        let lines = text.split(|&byte| byte == b'\n');
        let mut lines: Vec<Line> = lines.filter_map(Line::parse).collect();
        // The kernel keeps one buffer per CPU and returns events out of order after a loss or during writes.
        lines.sort_by_key(Line::at);
        self.count_lost(&lines);
        lines.into_iter().for_each(|line| self.take_line(line, batch));
        Ok(())
    }

    fn count_lost(&mut self, lines: &[Line]) {
        let (lost, submissions) = lost(lines);
        self.counts.arrived += submissions;
        self.counts.lost += submissions;
        self.counts.ends_lost += lost - submissions;
        if lost > 0 {
            // Their completions may be among the lost events.
            self.under_way.iter_mut().for_each(Vec::clear);
        }
    }

    fn take_line(&mut self, line: Line, batch: &mut Batch) {
        match (line, &mut self.under_way) {
            (Line::Arrived(arrival), under_way) => {
                self.counts.arrived += 1;
                batch.arrivals.push(arrival);
                if let Some(under_way) = under_way {
                    if under_way.len() >= UNDER_WAY_MAX {
                        under_way.clear();
                    }
                    under_way.push(arrival);
                }
            }
            (Line::Completed { op, start, end, at, failed }, Some(under_way)) => {
                let done = |arrival| batch.completed.push(Completed { arrival, at, failed });
                take_completed(under_way, op, start, end, done);
            }
            (Line::Completed { .. }, None) | (Line::Lost(_), _) => {}
        }
    }
}

/// The number of lost events, and an estimate of the submissions among them: their share of the events read, or all if none was read.
fn lost(lines: &[Line]) -> (u64, u64) {
    let (mut lost, mut submissions, mut events) = (0, 1, 1);
    for line in lines {
        match line {
            Line::Lost(count) => lost += count,
            Line::Arrived(_) => (submissions, events) = (submissions + 1, events + 1),
            Line::Completed { .. } => events += 1,
        }
    }
    (lost, (lost * submissions).div_ceil(events))
}

/// A completed request ends the submissions whose last sector it contains; one without sectors ends a flush. Of several with the same end it
/// ends the newest: after a missed completion only one submission stays open, instead of each later one being taken for the one before. Such
/// a submission is no part of a later, larger request either: parts of a request do not overlap.
fn take_completed(
    under_way: &mut Vec<Arrival>,
    op: Op,
    start: Sector,
    end: Sector,
    mut done: impl FnMut(Arrival),
) {
    let mut ended: Vec<Arrival> = Vec::new();
    let mut place = under_way.len();
    while place > 0 {
        place -= 1;
        let arrival = under_way[place];
        let arrival_end = arrival.start + arrival.sectors;
        let overlaps =
            |other: &Arrival| arrival.start < other.start + other.sectors && other.start < arrival_end;
        let ends = if start == end {
            arrival.op == Op::Flush && ended.is_empty()
        } else {
            arrival.op == op && arrival_end > start && arrival_end <= end && !ended.iter().any(overlaps)
        };
        if ends {
            ended.push(arrival);
            done(under_way.remove(place));
        }
    }
}

/// The disk and its partitions: submissions name their target, completions the disk.
fn filter(sysfs: &Path, disk: DeviceNumber) -> String {
    let parts = partitions(&directory(sysfs, disk)).filter_map(|part| number_in(&part));
    let tests =
        std::iter::once(disk).chain(parts).map(|(major, minor)| format!("dev == {}", major << 20 | minor));
    tests.collect::<Vec<_>>().join(" || ")
}

impl Source for Tracefs {
    fn take(&mut self, batch: &mut Batch, patience: Duration) -> Result<(), Error> {
        let begun = Instant::now();
        self.drain(batch)?;
        while begun.elapsed() < patience {
            thread::sleep(ROUND.min(patience.saturating_sub(begun.elapsed())));
            self.drain(batch)?;
        }
        Ok(())
    }

    fn counts(&self) -> Result<Counts, Error> {
        Ok(self.counts)
    }

    fn backend(&self) -> Backend {
        Backend::Tracefs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(line: &str) -> Arrival {
        match Line::parse(line.as_bytes()) {
            Some(Line::Arrived(arrival)) => arrival,
            _ => panic!("{line}"),
        }
    }

    #[test]
    fn lost_events_are_divided_like_the_read_ones() {
        let of = |lines: &[&str]| {
            lost(&lines.iter().filter_map(|line| Line::parse(line.as_bytes())).collect::<Vec<_>>())
        };
        let gap = "CPU:1 [LOST 90 EVENTS]";
        let queued = "a-1 [000] ..... 0.000001: block_bio_queue: 7,0 R 0 + 8 [a]";
        let done = "a-1 [000] ..... 0.000002: block_rq_complete: 7,0 R () 0 + 8 none,0,0 [0]";
        assert_eq!(of(&[queued, done]), (0, 0));
        assert_eq!(of(&[gap, queued, queued, gap]), (180, 180));
        assert_eq!(of(&[gap, queued, queued, done, queued, done]), (90, 60));
        assert_eq!((of(&[gap]), of(&["CPU:1 [LOST EVENTS]", done])), ((90, 90), (1, 1)));
    }

    #[test]
    fn a_request_completes_the_submissions_that_it_contains() {
        let bio = |us: u64, extent: &str| {
            arrived(&format!("a-1 [000] ..... 0.{us:06}: block_bio_queue: 7,0 R {extent} [a]"))
        };
        let mut under_way = vec![bio(1, "0 + 8"), bio(2, "8 + 8"), bio(3, "0 + 8"), bio(4, "16 + 16")];
        let mut ended = |start, end| {
            let mut done = Vec::new();
            let which = |a: Arrival| done.push(a.at.as_nanos() / 1000);
            take_completed(&mut under_way, Op::Read, Sector(start), Sector(end), which);
            done
        };
        assert_eq!(ended(0, 16), [3, 2], "the newest one with the same end");
        assert_eq!(ended(0, 8), [1], "the older one with the same end");
        assert_eq!(ended(16, 24), [0; 0], "its first half");
        assert_eq!(ended(24, 32), [4], "its second half");
    }

    #[test]
    fn a_submission_with_a_missed_completion_is_no_part_of_a_later_request() {
        let bio =
            |extent: &str| arrived(&format!("a-1 [000] ..... 0.000001: block_bio_queue: 7,0 R {extent} [a]"));
        let mut under_way = vec![bio("8 + 8"), bio("0 + 32"), bio("32 + 8")];
        let mut done = Vec::new();
        take_completed(&mut under_way, Op::Read, Sector(0), Sector(40), |a| done.push(a.start.0));
        assert_eq!(done, [32, 0]);
    }
}
