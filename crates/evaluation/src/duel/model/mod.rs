//! The model's prediction for a comparison: the same programs on the same drive, with the same priorities and start times.
//!
//! The model has no path between a program and the drive, so the duel measures its latency in this kernel on this machine. The part
//! above the scheduler becomes think time of the program; the part below delays the drive's completions.
//!
//! | file | programs |
//! |---|---|
//! | `requests` | direct I/O on the device |
//! | `calls` | system calls through page cache and file system, on the modelled kernel |

mod calls;
mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::duel::{Benchmark, LONGEST_BYTES, Outcome, PathLatency, RequestKind, SERVICES, Scheduler, Size};
use disks::Drive;
use elevator::queue::{Identity, SyncWrites};
use elevator::{Priority, PriorityClass, Sectors, Span};
use schedulers::Spec;
use schedulers::registry::Catalogue;

use self::requests::Source;
use crate::device::Device;
use crate::duel::comparison::{Entry, Predicted};
use crate::duel::path_latency::{DelayedDrive, LatencySamples, SizeClass};

/// The model's view of the duel.
pub struct Model<'a> {
    /// The emulated drive.
    pub device: &'a Device,
    /// Known schedulers.
    pub catalogue: Catalogue,
    /// Sizes of the benchmarks.
    pub size: Size,
    /// The programs' I/O priority: level of the best-effort class.
    pub level: u8,
}

/// The longest request of the testbed's loop devices.
const LONGEST: Sectors = Sectors::from_bytes(LONGEST_BYTES);

/// One entry to predict.
struct Query<'a> {
    benchmark: &'a Benchmark,
    alone: bool,
    spec: Spec,
    depth: u32,
    /// The drive takes one command at a time because the other tags are parked.
    parks: bool,
    /// Programs that find no free tag sleep and race for the next.
    races: bool,
    /// Several kernel workers submit in turn to a scheduler that has a queue per process and idles for each.
    workers: bool,
    identity: Identity,
    /// A loop device submits the requests that the scheduler gets.
    behind_a_loop_device: bool,
    /// Which writes count as synchronous: a server does not learn it.
    sync_writes: SyncWrites,
    priority: Priority,
    at_most: Span,
    /// Start of each program, after the first.
    starts: Vec<Span>,
    latencies: &'a [(RequestKind, PathLatency)],
    drive: &'a Device,
}

impl Query<'_> {
    /// The drive behind this share of each path latency.
    fn device(&self, share: impl Fn(&PathLatency) -> f64) -> Device {
        let classes = self.size_classes(share);
        if classes.is_empty() {
            return self.drive.clone();
        }
        let delayed = move |drive: Box<dyn Drive + Send>| -> Box<dyn Drive + Send> {
            Box::new(DelayedDrive::new(drive, classes.clone()))
        };
        self.drive.clone().wrapped(Arc::new(delayed), None)
    }

    /// This share of each path latency, by request size.
    fn size_classes(&self, share: impl Fn(&PathLatency) -> f64) -> Vec<SizeClass> {
        let mut classes = BTreeMap::<Sectors, Vec<LatencySamples>>::new();
        for (kind, latency) in self.latencies {
            let sectors = Sectors::from_bytes(kind.bytes).min(LONGEST);
            classes.entry(sectors).or_default().push(samples(kind, latency, share(latency)));
        }
        classes.into_iter().map(|(sectors, times)| SizeClass { sectors, times }).collect()
    }
}

impl Model<'_> {
    /// The prediction, or the reason why there is none.
    ///
    /// # Errors
    /// The model cannot predict this entry; the text says why.
    pub fn predict(
        &self,
        benchmark: &Benchmark,
        entry: &Entry,
        depth: u32,
        hidden: bool,
    ) -> Result<Predicted, String> {
        let name = entry.scheduler.in_the_model();
        let spec =
            Spec::parse_in(self.catalogue, &name).map_err(|error| format!("{}: {error}", entry.scheduler))?;
        let query = Query {
            benchmark,
            alone: entry.alone,
            spec,
            depth,
            parks: entry.scheduler.is_kernel() && depth == 1,
            races: entry.scheduler.keeps_nothing() && !hidden,
            workers: hidden && depth == 1 && entry.scheduler.tells_processes_apart(),
            identity: identity(&entry.scheduler, hidden),
            behind_a_loop_device: hidden || !entry.scheduler.is_kernel(),
            sync_writes: if entry.scheduler.is_kernel() { SyncWrites::Flagged } else { SyncWrites::Guessed },
            priority: Priority { class: PriorityClass::BestEffort, level: self.level },
            at_most: span(benchmark.at_most(&self.size)),
            starts: starts(entry.outcomes.first()),
            latencies: &entry.latencies,
            drive: self.device,
        };
        self.answer(&query)
    }

    /// The same benchmark without the testbed: no path latency, no parked tags, no loop device, and all programs start together.
    ///
    /// # Errors
    /// The model cannot predict this benchmark; the text says why.
    pub fn without_testbed(
        &self,
        benchmark: &Benchmark,
        spec: Spec,
        depth: u32,
        identity: Identity,
    ) -> Result<Predicted, String> {
        self.answer(&Query {
            benchmark,
            alone: false,
            spec,
            depth,
            parks: false,
            races: false,
            workers: false,
            identity,
            behind_a_loop_device: false,
            sync_writes: SyncWrites::Flagged,
            priority: Priority { class: PriorityClass::BestEffort, level: self.level },
            at_most: span(benchmark.at_most(&self.size)),
            starts: Vec::new(),
            latencies: &[],
            drive: self.device,
        })
    }

    fn answer(&self, query: &Query<'_>) -> Result<Predicted, String> {
        match Source::of(self, query.benchmark)? {
            Some(programs) => requests::predict(self, query, programs),
            None => calls::predict(self, query),
        }
    }

    /// The kinds of requests whose path latency the prediction needs.
    pub fn kinds(&self, benchmark: &Benchmark) -> BTreeSet<RequestKind> {
        let requests = match Source::of(self, benchmark) {
            Ok(Some((Source::Blocks(all), _))) => {
                // A call of several requests submits them one after the other, so the latency of one request counts.
                all.iter().map(|(_, blocks)| (blocks.block_bytes.min(LONGEST_BYTES), blocks.writes)).collect()
            }
            Ok(Some((Source::Jobs(_), _))) => vec![(4096, false)],
            Ok(None) if calls::can_predict(benchmark) => calls::REQUESTS.to_vec(),
            Ok(None) | Err(_) => Vec::new(),
        };
        let each = |(bytes, writes)| SERVICES.map(|service| RequestKind { bytes, writes, service });
        requests.into_iter().flat_map(each).collect()
    }
}

/// This share of a measured path latency.
fn samples(kind: &RequestKind, latency: &PathLatency, share: f64) -> LatencySamples {
    let part = |time: &Duration| Span::from_nanos((time.as_nanos() as f64 * share) as u64);
    let gaps = latency.gaps.iter().copied().map(span).collect();
    LatencySamples { waited: span(kind.service), times: latency.times.iter().map(part).collect(), gaps }
}

fn span(time: Duration) -> Span {
    Span::from_nanos(time.as_nanos() as u64)
}

/// Start of each program, after the first.
fn starts(outcome: Option<&Outcome>) -> Vec<Span> {
    let began: Vec<u64> =
        outcome.into_iter().flat_map(|outcome| &outcome.tasks).map(|task| task.began_ns).collect();
    let first = began.iter().copied().min().unwrap_or(0);
    began.into_iter().map(|began| Span::from_nanos(began - first)).collect()
}

/// The issuer that a scheduler sees. A loop device submits through a kernel worker, which the kernel's schedulers take for a process.
/// The model has one worker; the kernel may change the worker from request to request (docs/duel.md), and where that matters there is
/// no prediction. Dwell's schedulers are behind FUSE and see no process.
fn identity(scheduler: &Scheduler, hidden: bool) -> Identity {
    match (scheduler.is_kernel(), hidden) {
        (false, _) => Identity::Hidden,
        (true, true) => Identity::Same,
        (true, false) => Identity::Shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duel::comparison::Comparison;

    #[test]
    fn the_visible_issuer_is_what_a_loop_device_shows() {
        let (kernel, ours) = ("kernel:bfq".parse().unwrap(), "stream(deadline)".parse().unwrap());
        assert_eq!(identity(&kernel, false), Identity::Shown);
        assert_eq!(identity(&kernel, true), Identity::Same);
        assert_eq!(identity(&ours, false), Identity::Hidden);
    }

    /// The prediction for a benchmark under `kernel:bfq`.
    fn under_bfq(benchmark: &Benchmark, seconds: u64, depth: u32) -> Predicted {
        predicted(benchmark, "kernel:bfq", seconds, depth, false).unwrap()
    }

    /// A prediction without measured path latency.
    fn predicted(
        benchmark: &Benchmark,
        scheduler: &str,
        seconds: u64,
        depth: u32,
        hidden: bool,
    ) -> Result<Predicted, String> {
        let device = Device::open("wd5000aaks").unwrap();
        let second = Duration::from_secs(1);
        let size = Size { time: second * seconds as u32, patience: second, tree_files: 0, transactions: 0 };
        let model = Model { device: &device, catalogue: Catalogue::default(), size, level: 4 };
        let scheduler = [scheduler.parse::<Scheduler>().unwrap()];
        let mut comparison = Comparison::new(benchmark, &model.size, depth, hidden, &scheduler);
        model.predict(benchmark, &comparison.entries.remove(0), depth, hidden)
    }

    /// A program that reads a device call by call makes no plug, so `bfq` measures a short think time from its first read and injects
    /// no writes after each read. Measured: 118 reads a second once the drive's buffer is written; with a plug a third of that.
    #[test]
    fn a_reader_without_a_plug_has_a_short_think_time_from_its_first_read() {
        let reads = under_bfq(&Benchmark::WriteBesideReads, 4, 31).operations_per_second;
        assert!(reads > 60.0, "{reads} a second");
    }

    /// The model has one worker where the kernel has two, and `bfq` has a queue for each.
    #[test]
    fn workers_that_alternate_are_not_predicted() {
        let reason =
            |name: &str, hidden| predicted(&Benchmark::ParRead { direct: true }, name, 1, 1, hidden).err();
        assert!(reason("kernel:bfq{low_latency=0}", true).is_some_and(|why| why.contains("workers")));
        assert_eq!(reason("kernel:bfq{low_latency=0}", false), None);
        assert_eq!(reason("kernel:mq-deadline", true), None);
    }

    /// With three of four tags parked, `bfq` sees eight queues start, takes them for one task's burst, raises no weight and idles for
    /// each. Without parked readers it raises all weights and idles for none.
    #[test]
    fn bfq_counts_parked_readers() {
        let direct = Benchmark::ParRead { direct: true };
        let predicted = |depth| under_bfq(&direct, 2, depth).megabytes_per_second;
        let (one, many) = (predicted(1), predicted(4));
        assert!(one > 25.0 && many < 1.0, "{one} and {many} MB/s");
    }
}
