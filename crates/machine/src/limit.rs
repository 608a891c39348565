//! The physical limit: the time of the same requests with perfect locality.
//!
//! A request takes at least the time in which its data passes under the head. A process that waits for each of its requests
//! needs them in its own order: each jump between them costs the shortest seek of that distance, without rotational delay.
//! Requests that it submits together may be served in any order: they cost a seek to the nearest of them and a seek across
//! each gap. The device serves one process after the other, and no process ends before its own service and think time.
//!
//! Schedulers approach this limit. They exceed it if the drive's cache answers requests without the medium, and if many
//! processes jump about in the same region: serving one process on the way to another saves a seek for both (102% with 32
//! random readers). A limit that allowed for this would be useless: for two greps of small files it would be the time of
//! reading the whole disk in one sweep.
//!
//! A run of any length takes constant memory: requests are added up while the run lasts ([`LimitRecorder::fold`]), and of a batch only the
//! extents that it covers are kept. Of more than a million extents the narrowest gaps are closed, so that the seeks across them do not count and
//! the limit is lower than the exact one.

use disks::Ideal;
use elevator::{Span, Time};
use serde::Serialize;

use crate::measure::Measured;
use crate::program::Io;

mod sweep;

use sweep::Sweep;

/// Records requests and think times during a run.
#[derive(Clone, Debug)]
pub struct LimitRecorder {
    processes: Vec<Requests>,
    /// Requests in `processes` that are not added up.
    kept: usize,
    /// The devices have no ideal times, so nothing is recorded.
    is_unknown: bool,
    most: Most,
}

/// Upper bounds that keep the memory of a recorder constant.
#[derive(Clone, Copy, Debug)]
struct Most {
    /// Requests that are not added up: 3 MiB.
    requests: usize,
    /// Extents, of all processes together: 16 MiB.
    extents: usize,
}

const MOST: Most = Most { requests: 1 << 17, extents: 1 << 20 };

/// The requests of one process.
#[derive(Clone, Debug, Default)]
struct Requests {
    /// Requests that are not added up, in order. The requests of a batch may be served in any order.
    ios: Vec<Io>,
    /// The end of each batch in `ios`.
    batches: Vec<usize>,
    /// What was added up, for each device.
    swept: Vec<Sweep>,
    thought: Span,
    latest: Time,
    /// Think time since its last request or call. It counts once the process does something after it.
    thinks: Span,
    sleeps_until: Time,
    overlapped: bool,
}

/// The devices that serve the requests.
pub(crate) trait Devices {
    /// Their number.
    fn count(&self) -> usize;

    /// The ideal times of a device, if they are known.
    fn ideal(&self, device: usize) -> Option<&dyn Ideal>;

    /// Appends the accesses that a request needs on a device.
    fn accesses(&self, device: usize, io: &Io, to: &mut Vec<Io>);
}

/// The least time of a workload on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// Of the whole workload.
    pub elapsed_ns: u64,
    /// Device time, positioning and transfer; of an array, that of the busiest member.
    pub service_ns: u64,
    /// Of each process alone, in order of start.
    pub processes_ns: Vec<u64>,
    /// Jumps between requests of one process.
    pub seeks: u64,
}

impl Default for LimitRecorder {
    fn default() -> Self {
        Self { processes: Vec::new(), kept: 0, is_unknown: false, most: MOST }
    }
}

impl LimitRecorder {
    fn of(&mut self, process: usize) -> &mut Requests {
        if self.processes.len() <= process {
            self.processes.resize_with(process + 1, Requests::default);
        }
        &mut self.processes[process]
    }

    /// Records a request. If it returns true, the caller must [`fold`](Self::fold).
    #[must_use]
    pub(crate) fn asked(&mut self, process: usize, io: &Io, others_unfinished: bool) -> bool {
        if self.is_unknown {
            return false;
        }
        let asked = self.of(process);
        asked.overlapped |= others_unfinished;
        asked.ios.push(*io);
        self.kept += 1;
        self.acted(process);
        self.kept >= self.most.requests
    }

    /// The process did something other than think, so the device may have waited for its think time.
    pub(crate) fn acted(&mut self, process: usize) {
        let asked = self.of(process);
        asked.thought += std::mem::take(&mut asked.thinks);
        asked.latest = asked.latest.max(asked.sleeps_until);
    }

    pub(crate) fn awaited(&mut self, process: usize) {
        let asked = self.of(process);
        if asked.batches.last() != Some(&asked.ios.len()) {
            asked.batches.push(asked.ios.len());
        }
    }

    pub(crate) fn thought(&mut self, process: usize, span: Span, some_unfinished: bool) {
        let asked = self.of(process);
        asked.overlapped |= some_unfinished;
        asked.thinks += span;
    }

    pub(crate) fn slept_until(&mut self, process: usize, at: Time) {
        let asked = self.of(process);
        asked.sleeps_until = asked.sleeps_until.max(at);
    }

    /// Adds up the service of the requests so far, and frees their memory.
    pub(crate) fn fold(&mut self, devices: &dyn Devices) {
        self.kept = 0;
        let Some(ideals) =
            (0..devices.count()).map(|device| devices.ideal(device)).collect::<Option<Vec<_>>>()
        else {
            (self.is_unknown, self.processes) = (true, Vec::new());
            return;
        };
        let mut accesses = Vec::new();
        for asked in &mut self.processes {
            asked.fold(devices, &ideals, &mut accesses);
        }
        if self.extents() > self.most.extents {
            self.sweeps().for_each(Sweep::forget_ends);
        }
        if self.extents() > self.most.extents {
            let share = self.most.extents / self.sweeps().filter(|sweep| sweep.size() > 0).count();
            self.sweeps().filter(|sweep| sweep.size() > share).for_each(|sweep| sweep.shrink(share));
        }
    }

    fn sweeps(&mut self) -> impl Iterator<Item = &mut Sweep> {
        self.processes.iter_mut().flat_map(|asked| &mut asked.swept)
    }

    /// Extents in memory.
    fn extents(&self) -> usize {
        self.processes.iter().flat_map(|asked| &asked.swept).map(Sweep::size).sum()
    }

    /// The limit on devices with known ideal times, which work in parallel: that of the busiest. If a device can read and write at the same
    /// time, it does, except for a process that waits for each request.
    pub(crate) fn limit_on(mut self, devices: &dyn Devices) -> Option<Limit> {
        self.fold(devices);
        if self.is_unknown {
            return None;
        }
        let mut limit = |device: usize| Some(self.limit_of(device, devices.ideal(device)?));
        (0..devices.count()).map(&mut limit).reduce(|all, other| Some(all?.beside(other?)))?
    }

    /// The limit of one device.
    fn limit_of(&mut self, device: usize, ideal: &dyn Ideal) -> Limit {
        let mut limit = Limit::default();
        let full_duplex = ideal.full_duplex();
        let least = |[reads, writes]: [Span; 2]| if full_duplex { reads.max(writes) } else { reads + writes };
        let mut service = [Span::ZERO; 2];
        for asked in &mut self.processes {
            let mut sweep = asked.swept.get_mut(device).map(std::mem::take).unwrap_or_default();
            sweep.end_batch(ideal);
            limit.seeks += sweep.seeks;
            let own = sweep.total;
            let one_by_one = own[0] + own[1];
            let alone =
                if asked.overlapped { least(own).max(asked.thought) } else { one_by_one + asked.thought };
            limit.processes_ns.push(alone.as_nanos().max(asked.latest.as_nanos()));
            service = [service[0] + own[0], service[1] + own[1]];
        }
        limit.service_ns = least(service).as_nanos();
        limit.elapsed_ns = limit.processes_ns.iter().copied().fold(limit.service_ns, u64::max);
        limit
    }
}

impl Limit {
    /// The limit of two devices that work in parallel on the same processes' requests.
    fn beside(mut self, other: Self) -> Self {
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.service_ns = self.service_ns.max(other.service_ns);
        self.seeks += other.seeks;
        for (own, others) in self.processes_ns.iter_mut().zip(other.processes_ns) {
            *own = (*own).max(others);
        }
        self
    }
}

impl Requests {
    /// Adds up the requests. Those after the last batch begin a batch that continues.
    fn fold(&mut self, devices: &dyn Devices, ideals: &[&dyn Ideal], accesses: &mut Vec<Io>) {
        self.swept.resize_with(ideals.len(), Sweep::default);
        for (device, (sweep, ideal)) in self.swept.iter_mut().zip(ideals).enumerate() {
            let mut add = |sweep: &mut Sweep, ios: &[Io]| {
                accesses.clear();
                ios.iter().for_each(|io| devices.accesses(device, io, accesses));
                sweep.add(accesses, *ideal);
            };
            let mut from = 0;
            for &to in &self.batches {
                add(sweep, &self.ios[from..to]);
                sweep.end_batch(*ideal);
                from = to;
            }
            add(sweep, &self.ios[from..]);
        }
        (self.ios, self.batches) = (Vec::new(), Vec::new());
    }
}

/// One device.
pub(crate) struct Single<'a>(pub(crate) Option<&'a dyn Ideal>);

impl Devices for Single<'_> {
    fn count(&self) -> usize {
        1
    }

    fn ideal(&self, _device: usize) -> Option<&dyn Ideal> {
        self.0
    }

    fn accesses(&self, _device: usize, io: &Io, to: &mut Vec<Io>) {
        to.push(*io);
    }
}

/// Jain's fairness index of the processes' slowdowns relative to their physical limits when alone: 1 if all are slowed alike,
/// 1/n if one process had everything.
#[must_use]
pub fn fairness(measured: &Measured, alone_ns: &[u64]) -> f64 {
    let progress: Vec<f64> = measured
        .processes
        .iter()
        .zip(alone_ns)
        .filter(|(process, alone)| process.elapsed_ns > 0 && **alone > 0)
        .map(|(process, &alone)| alone as f64 / process.elapsed_ns as f64)
        .collect();
    let sum: f64 = progress.iter().sum();
    let squares: f64 = progress.iter().map(|x| x * x).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (progress.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors};

    use super::*;

    /// Ideal times for tests: 1 ns a sector, and 1000 ns a seek plus 1 ns for each sector of distance.
    struct Plain;

    impl Ideal for Plain {
        fn least_seek(&self, from: Sector, to: Sector) -> Span {
            Span::from_nanos(1000 + from.distance(to))
        }

        fn sequential_transfer(&self, _start: Sector, sectors: Sectors) -> Span {
            Span::from_nanos(sectors.0.into())
        }
    }

    fn read(start: u64) -> Io {
        Io::read(Sector(start), Sectors(8))
    }

    #[test]
    fn requests_of_a_waiting_process_keep_their_order() {
        let mut limit_recorder = LimitRecorder::default();
        limit_recorder.thought(0, Span::from_nanos(5000), false);
        for start in [16, 0, 8] {
            let _ = limit_recorder.asked(0, &read(start), false);
            limit_recorder.awaited(0);
        }
        let limit = limit_recorder.limit_on(&Single(Some(&Plain))).unwrap();
        assert_eq!((limit.service_ns, limit.seeks), (1024 + 24, 1));
        assert_eq!(limit.elapsed_ns, 1024 + 24 + 5000);
    }

    #[test]
    fn think_time_after_the_last_request_does_not_count() {
        let mut limit_recorder = LimitRecorder::default();
        let _ = limit_recorder.asked(0, &read(0), false);
        limit_recorder.awaited(0);
        limit_recorder.thought(0, Span::from_nanos(5000), false);
        limit_recorder.slept_until(0, Time::from_nanos(9000));
        assert_eq!(limit_recorder.limit_on(&Single(Some(&Plain))).unwrap().elapsed_ns, 8);
    }

    #[test]
    fn think_time_and_service_in_parallel_count_as_the_longer() {
        let mut limit_recorder = LimitRecorder::default();
        let _ = limit_recorder.asked(0, &read(0), false);
        limit_recorder.thought(0, Span::from_nanos(5000), true);
        let _ = limit_recorder.asked(0, &read(8), false);
        assert_eq!(limit_recorder.limit_on(&Single(Some(&Plain))).unwrap().elapsed_ns, 5000);
    }

    #[test]
    fn a_batch_is_served_in_order_of_sectors() {
        let mut limit_recorder = LimitRecorder::default();
        for start in [16, 0, 8] {
            let _ = limit_recorder.asked(0, &read(start), true);
        }
        assert_eq!(limit_recorder.limit_on(&Single(Some(&Plain))).unwrap().service_ns, 24);
    }

    #[test]
    fn processes_are_served_one_after_the_other() {
        let mut limit_recorder = LimitRecorder::default();
        for start in [0, 100_000, 0, 100_000] {
            for process in [0, 1] {
                let _ = limit_recorder.asked(process, &read(start), false);
                limit_recorder.awaited(process);
            }
        }
        let limit = limit_recorder.limit_on(&Single(Some(&Plain))).unwrap();
        let (there, back) = (1000 + 100_000 - 8, 1000 + 100_000 + 8);
        let alone = 2 * there + back + 32;
        assert_eq!(limit.processes_ns, [alone; 2]);
        assert_eq!((limit.service_ns, limit.elapsed_ns), (2 * alone, 2 * alone));
    }

    /// Two devices with alternate sectors of eight.
    struct Pair;

    impl Devices for Pair {
        fn count(&self) -> usize {
            2
        }

        fn ideal(&self, _device: usize) -> Option<&dyn Ideal> {
            Some(&Plain)
        }

        fn accesses(&self, device: usize, io: &Io, to: &mut Vec<Io>) {
            if io.start.0 / 8 % 2 == device as u64 {
                to.push(*io);
            }
        }
    }

    /// Batches of requests that overlap, of three processes, of which some never wait.
    fn recorded(devices: &dyn Devices, most: Most, seed: u64) -> (LimitRecorder, usize) {
        let mut random = elevator::Random::new(seed);
        let mut limit_recorder = LimitRecorder { most, ..LimitRecorder::default() };
        let mut extents = 0;
        for _ in 0..400 {
            let process = random.below(3) as usize;
            for _ in 0..random.below(9) {
                let op = [Op::Read, Op::Write, Op::Flush][random.below(3) as usize];
                let io =
                    Io { op, sectors: Sectors(1 + random.below(12) as u32), ..read(random.below(1_500)) };
                if limit_recorder.asked(process, &io, random.below(2) == 0) {
                    limit_recorder.fold(devices);
                    extents = extents.max(limit_recorder.extents());
                }
            }
            if process > 0 && random.below(3) == 0 {
                limit_recorder.awaited(process);
            }
        }
        (limit_recorder, extents)
    }

    #[test]
    fn requests_added_up_in_pieces_have_the_same_limit() {
        for devices in [&Single(Some(&Plain)) as &dyn Devices, &Pair] {
            for seed in 1..40 {
                let whole = recorded(devices, MOST, seed).0.limit_on(devices).unwrap();
                for requests in [1, 2, 7, 100] {
                    let (limit_recorder, _) = recorded(devices, Most { requests, ..MOST }, seed);
                    assert_eq!(limit_recorder.limit_on(devices).unwrap(), whole, "{requests}, seed {seed}");
                }
            }
        }
    }

    #[test]
    fn few_extents_give_a_lower_bound() {
        let device = Single(Some(&Plain));
        for seed in 1..40 {
            let exact = recorded(&device, MOST, seed).0.limit_on(&device).unwrap();
            for extents in [3, 20, 60] {
                let (limit_recorder, kept) = recorded(&device, Most { requests: 5, extents }, seed);
                assert!(kept <= extents.max(6), "{kept} of {extents}");
                let limit = limit_recorder.limit_on(&device).unwrap();
                assert!(limit.elapsed_ns <= exact.elapsed_ns && limit.service_ns <= exact.service_ns);
                assert!(limit.service_ns > 0 && limit.seeks <= exact.seeks);
                let each = limit.processes_ns.iter().zip(&exact.processes_ns);
                assert!(each.clone().all(|(bound, exact)| bound <= exact));
            }
        }
    }

    #[test]
    fn a_device_without_ideal_times_has_no_limit() {
        let device = Single(None);
        let (limit_recorder, _) = recorded(&device, Most { requests: 5, ..MOST }, 1);
        assert_eq!(limit_recorder.processes.iter().map(|asked| asked.ios.len()).sum::<usize>(), 0);
        assert_eq!(limit_recorder.limit_on(&device), None);
    }

    /// The least that a process's batches take, found by trying every order.
    fn tried(batches: &[Vec<u64>]) -> u64 {
        fn rest(head: Option<u64>, batch: &[u64], later: &[Vec<u64>]) -> u64 {
            if batch.is_empty() {
                return later.split_first().map_or(0, |(next, later)| rest(head, next, later));
            }
            let each = (0..batch.len()).map(|n| {
                let mut others = batch.to_vec();
                let start = others.remove(n);
                let seek = head.filter(|&head| head != start).map_or(0, |head| 1000 + head.abs_diff(start));
                8 + seek + rest(Some(start + 8), &others, later)
            });
            each.min().unwrap_or_default()
        }
        rest(None, &[], batches)
    }

    #[test]
    fn no_order_of_a_batch_is_faster() {
        let mut random = elevator::Random::new(3);
        for _ in 0..500 {
            let batches: Vec<Vec<u64>> = (0..1 + random.below(3))
                .map(|_| (0..1 + random.below(4)).map(|_| 8 * random.below(200)).collect())
                .collect();
            let mut limit_recorder = LimitRecorder::default();
            for batch in &batches {
                for &start in batch {
                    let _ = limit_recorder.asked(0, &read(start), true);
                }
                limit_recorder.awaited(0);
            }
            let limit = limit_recorder.limit_on(&Single(Some(&Plain))).unwrap();
            assert!(limit.elapsed_ns <= tried(&batches), "{batches:?}");
            if batches.iter().all(|batch| batch.len() == 1) {
                assert_eq!(limit.elapsed_ns, tried(&batches), "{batches:?}");
            }
        }
    }

    #[test]
    fn a_full_duplex_drive_reads_and_writes_at_once() {
        let ways = |name: &str, overlapped: bool| {
            let (drive, _) = disks::open(name, &mut |_| unreachable!("built in")).expect("a drive");
            let ideal = drive.ideal().expect("the drive has ideal times");
            let mut limit_recorder = LimitRecorder::default();
            for n in 0..100 {
                let read = Io::read(Sector(n * 512), Sectors(512));
                let _ = limit_recorder.asked(0, &read, overlapped);
                let _ = limit_recorder.asked(1, &Io { op: Op::Write, ..read }, overlapped);
            }
            let one = ideal.sequential_transfer(Sector(0), Sectors(512)).as_nanos() * 100;
            let limit = limit_recorder.limit_on(&Single(Some(ideal))).unwrap();
            assert_eq!(limit.processes_ns, [one, one]);
            (limit.elapsed_ns, one)
        };
        for overlapped in [false, true] {
            let (both, one) = ways("ssd-nvme", overlapped);
            assert_eq!(both, one, "reads pass while writes do");
            let (both, one) = ways("ssd-sata", overlapped);
            assert_eq!(both, 2 * one);
        }
    }

    #[test]
    fn equal_slowdowns_have_fairness_one() {
        let process = |elapsed_ns| crate::ProcessMeasured { elapsed_ns, ..Default::default() };
        let measured = Measured { processes: vec![process(100), process(200)], ..Default::default() };
        assert!((fairness(&measured, &[10, 20]) - 1.0).abs() < 1e-9);
        assert!(
            (fairness(&measured, &[100, 0]) - 1.0).abs() < 1e-9,
            "a process without requests does not count"
        );
        assert!(fairness(&measured, &[100, 2]) < 0.52);
    }
}
