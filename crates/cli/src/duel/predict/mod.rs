//! What the modelled machine says of a comparison before, or beside, reality: the same programs on the same drive, with the same
//! priorities and starting times.
//!
//! The model knows no way between a program and a drive, so it is told what that way takes in this kernel, on this machine with
//! whatever else runs on it. What lies above whoever schedules is time that a program thinks; what lies beneath, time that the
//! drive's answers come later.
//!
//! | file | programs |
//! |---|---|
//! | `requests` | that ask the device directly |
//! | `calls` | that go through a page cache and a file system, on the modelled kernel |

mod calls;
mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::duel::{Benchmark, Kind, LONGEST_BYTES, Outcome, SERVICES, Scheduler, Size, Way};
use elevator::queue::Identity;
use elevator::{Priority, PriorityClass, Sectors, Span};
use schedulers::Spec;
use schedulers::registry::Catalogue;

use self::requests::Source;
use super::comparison::{Entry, Predicted};
use crate::device::Device;
use crate::device::way::{Leg, Times};

/// Everything about a duel that the model must know.
pub(crate) struct Model<'a> {
    pub(crate) device: &'a Device,
    pub(crate) catalogue: Catalogue,
    pub(crate) size: Size,
    pub(crate) level: u8,
}

/// The longest request, as the testbed sets loop devices up.
const LONGEST: Sectors = Sectors::from_bytes(LONGEST_BYTES);

/// One entry, as the model is asked for it.
struct Asked<'a> {
    benchmark: &'a Benchmark,
    alone: bool,
    spec: Spec,
    depth: u32,
    /// The depth is one of several tags, and the others are parked.
    parks: bool,
    /// Programs that find no free tag sleep for one, and race each other.
    races: bool,
    /// Several of the kernel's workers hand requests on in turn to an elevator that has a queue for each and idles for it.
    workers: bool,
    identity: Identity,
    /// Whoever schedules is given requests by a loop device.
    behind_a_loop_device: bool,
    priority: Priority,
    at_most: Span,
    /// When programs began after the first of them.
    starts: Vec<Span>,
    ways: &'a [(Kind, Way)],
    drive: &'a Device,
}

impl Asked<'_> {
    /// The drive at the end of that share of each way.
    fn device(&self, share: impl Fn(&Way) -> f64) -> Device {
        self.drive.distant(self.legs(share))
    }

    /// That share of each way, by the length of requests.
    fn legs(&self, share: impl Fn(&Way) -> f64) -> Vec<Leg> {
        let mut legs = BTreeMap::<Sectors, Vec<Times>>::new();
        for (kind, way) in self.ways {
            let sectors = Sectors::from_bytes(kind.bytes).min(LONGEST);
            legs.entry(sectors).or_default().push(times(kind, way, share(way)));
        }
        legs.into_iter().map(|(sectors, times)| Leg { sectors, times }).collect()
    }
}

impl Model<'_> {
    /// What the model says, or why it cannot.
    pub(crate) fn predict(
        &self,
        benchmark: &Benchmark,
        entry: &Entry,
        depth: u32,
        hidden: bool,
    ) -> Result<Predicted, String> {
        let name = entry.scheduler.in_the_model();
        let spec =
            Spec::parse_in(self.catalogue, &name).map_err(|error| format!("{}: {error}", entry.scheduler))?;
        let asked = Asked {
            benchmark,
            alone: entry.alone,
            spec,
            depth,
            parks: entry.scheduler.is_kernel() && depth == 1,
            races: entry.scheduler.keeps_nothing() && !hidden,
            workers: hidden && depth == 1 && entry.scheduler.tells_processes_apart(),
            identity: identity(&entry.scheduler, hidden),
            behind_a_loop_device: hidden || !entry.scheduler.is_kernel(),
            priority: Priority { class: PriorityClass::BestEffort, level: self.level },
            at_most: span(benchmark.at_most(&self.size)),
            starts: starts(entry.outcomes.first()),
            ways: &entry.ways,
            drive: self.device,
        };
        match Source::of(self, benchmark)? {
            Some(programs) => requests::predict(self, &asked, programs),
            None => calls::predict(self, &asked),
        }
    }

    /// The kinds of requests whose ways the model wants to know.
    pub(crate) fn kinds(&self, benchmark: &Benchmark) -> BTreeSet<Kind> {
        let requests = match Source::of(self, benchmark) {
            Ok(Some((Source::Blocks(all), _))) => {
                // One request a call: of several, each waits for the one before.
                all.iter().map(|(_, blocks)| (blocks.block_bytes.min(LONGEST_BYTES), blocks.writes)).collect()
            }
            Ok(Some((Source::Jobs(_), _))) => vec![(4096, false)],
            Ok(None) if calls::can_predict(benchmark) => calls::REQUESTS.to_vec(),
            Ok(None) | Err(_) => Vec::new(),
        };
        let each = |(bytes, writes)| SERVICES.map(|service| Kind { bytes, writes, service });
        requests.into_iter().flat_map(each).collect()
    }
}

/// That share of a way's times.
fn times(kind: &Kind, way: &Way, share: f64) -> Times {
    let part = |time: &Duration| Span::from_nanos((time.as_nanos() as f64 * share) as u64);
    let turns = way.turns.iter().copied().map(span).collect();
    Times { waited: span(kind.service), times: way.times.iter().map(part).collect(), turns }
}

fn span(time: Duration) -> Span {
    Span::from_nanos(time.as_nanos() as u64)
}

/// When programs began after the first of them.
fn starts(outcome: Option<&Outcome>) -> Vec<Span> {
    let began: Vec<u64> =
        outcome.into_iter().flat_map(|outcome| &outcome.tasks).map(|task| task.began_ns).collect();
    let first = began.iter().copied().min().unwrap_or(0);
    began.into_iter().map(|began| Span::from_nanos(began - first)).collect()
}

/// Who a scheduler takes for the issuer. A loop device submits what it gets by a worker, which the kernel's elevators take for a
/// process; here it is always the same one, there it may change from request to request (docs/duel.md), of which nothing is said where
/// that decides. Dwell's schedulers,
/// behind FUSE, are told of nobody.
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
    fn who_is_seen_is_what_a_loop_device_shows() {
        let (kernel, ours) = ("kernel:bfq".parse().unwrap(), "stream(deadline)".parse().unwrap());
        assert_eq!(identity(&kernel, false), Identity::Shown);
        assert_eq!(identity(&kernel, true), Identity::Same);
        assert_eq!(identity(&ours, false), Identity::Hidden);
    }

    /// What the model says of a benchmark under `kernel:bfq`.
    fn under_bfq(benchmark: &Benchmark, seconds: u64, depth: u32) -> Predicted {
        predicted(benchmark, "kernel:bfq", seconds, depth, false).unwrap()
    }

    /// What the model says, nothing having been measured of the way there.
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

    /// A program that reads a device call by call makes no plug, so its first thought is none, and nobody's writes are injected after
    /// each of its reads: 118 a second in reality once the drive's buffer has been written, and a third of that if it had made one.
    #[test]
    fn a_reader_without_a_plug_thinks_briefly_from_the_first() {
        let reads = under_bfq(&Benchmark::WriteBesideReads, 4, 31).operations_per_second;
        assert!(reads > 60.0, "{reads} a second");
    }

    /// One worker stands for two there, each of which has a queue of its own with `bfq`.
    #[test]
    fn of_workers_that_take_turns_nothing_is_said() {
        let told =
            |name: &str, hidden| predicted(&Benchmark::ParRead { direct: true }, name, 1, 1, hidden).err();
        assert!(told("kernel:bfq{low_latency=0}", true).is_some_and(|why| why.contains("workers")));
        assert_eq!(told("kernel:bfq{low_latency=0}", false), None);
        assert_eq!(told("kernel:mq-deadline", true), None);
    }

    /// With one tag of four and four readers `bfq` sees eight queues begin, which is a crowd with one task: nobody is raised, and it
    /// idles for each. Without those who are parked it raises all, and idles for none.
    #[test]
    fn who_is_parked_is_seen_by_bfq() {
        let direct = Benchmark::ParRead { direct: true };
        let predicted = |depth| under_bfq(&direct, 2, depth).megabytes_per_second;
        let (one, many) = (predicted(1), predicted(4));
        assert!(one > 25.0 && many < 1.0, "{one} and {many} MB/s");
    }
}
