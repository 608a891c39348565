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

use disks::Ideal;
use elevator::{Op, Sector, Span, Time};
use serde::Serialize;

use crate::measure::Measured;
use crate::program::Io;

/// Records requests and think times during a run.
#[derive(Clone, Debug, Default)]
pub struct LimitRecorder {
    processes: Vec<Requests>,
    requests: usize,
    /// There were more requests than [`REQUESTS_MAX`]; nothing is recorded.
    is_full: bool,
}

/// Requests of a run whose limit is computed. A longer recording is replayed in constant memory, without its limit.
const REQUESTS_MAX: usize = 4 << 20;

/// The requests of one process.
#[derive(Clone, Debug, Default)]
struct Requests {
    /// Requests, in order. The requests of a batch may be served in any order.
    ios: Vec<Io>,
    /// The end of each batch in `ios`.
    batches: Vec<usize>,
    thought: Span,
    latest: Time,
    /// Think time since its last request or call. It counts once the process does something after it.
    thinks: Span,
    sleeps_until: Time,
    overlapped: bool,
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

impl LimitRecorder {
    fn of(&mut self, process: usize) -> &mut Requests {
        if self.processes.len() <= process {
            self.processes.resize_with(process + 1, Requests::default);
        }
        &mut self.processes[process]
    }

    pub(crate) fn asked(&mut self, process: usize, io: &Io, others_unfinished: bool) {
        self.requests += 1;
        if self.requests > REQUESTS_MAX {
            (self.is_full, self.processes) = (true, Vec::new());
            return;
        }
        let asked = self.of(process);
        asked.overlapped |= others_unfinished;
        asked.ios.push(*io);
        self.acted(process);
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

    /// The same requests, each replaced by the requests that `map` makes of it.
    pub(crate) fn mapped(&self, map: &mut dyn FnMut(&Io, &mut Vec<Io>)) -> Self {
        let mut processes = self.processes.clone();
        for asked in &mut processes {
            let ios = std::mem::take(&mut asked.ios);
            let mut batches = asked.batches.iter_mut().peekable();
            for (index, io) in ios.iter().enumerate() {
                while let Some(end) = batches.next_if(|end| **end <= index) {
                    *end = asked.ios.len();
                }
                map(io, &mut asked.ios);
            }
            batches.for_each(|end| *end = asked.ios.len());
        }
        Self { processes, ..*self }
    }

    /// Whether the limit is known.
    pub(crate) fn is_known(&self) -> bool {
        !self.is_full
    }

    /// The limit on a device with known ideal times. If the device can read and write at the same time, it does, except for a
    /// process that waits for each request.
    pub(crate) fn limit_on(mut self, ideal: &dyn Ideal) -> Limit {
        let mut limit = Limit::default();
        let full_duplex = ideal.full_duplex();
        let least = |[reads, writes]: [Span; 2]| if full_duplex { reads.max(writes) } else { reads + writes };
        let mut service = [Span::ZERO; 2];
        for asked in &mut self.processes {
            let own = asked.service(ideal, &mut limit.seeks);
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
    pub(crate) fn beside(mut self, other: Self) -> Self {
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
    /// The service time of reads and of writes.
    fn service(&mut self, ideal: &dyn Ideal, seeks: &mut u64) -> [Span; 2] {
        let (mut from, mut sweep, mut total) = (0, Sweep::default(), [Span::ZERO; 2]);
        self.batches.push(self.ios.len());
        for &to in &self.batches {
            let [reads, writes] = sweep.over(&mut self.ios[from..to], ideal);
            total = [total[0] + reads, total[1] + writes];
            from = to;
        }
        *seeks += sweep.seeks;
        total
    }
}

/// The head's position over batches of requests.
#[derive(Default)]
struct Sweep {
    /// The ends of the last batch's requests, in order: the head is at one of them.
    ends: Vec<Sector>,
    seeks: u64,
}

impl Sweep {
    /// The least time of a batch, of reads and of writes: transfers, the seek to the nearest request, and a seek across each
    /// gap between neighbours, which every order crosses.
    fn over(&mut self, ios: &mut [Io], ideal: &dyn Ideal) -> [Span; 2] {
        ios.sort_by_key(|io| io.start);
        let mut total = [Span::ZERO; 2];
        let mut reach: Option<Sector> = None;
        let mut nearest: Option<(Span, &Io)> = None;
        for io in ios.iter().filter(|io| transfers(io)) {
            let gap = reach.filter(|&reach| reach < io.start);
            self.seeks += u64::from(gap.is_some());
            let seek = gap.map_or(Span::ZERO, |reach| ideal.least_seek(reach, io.start));
            total[io.op.direction() as usize] += seek + ideal.sequential_transfer(io.start, io.sectors);
            reach = reach.max(Some(io.start + io.sectors));
            if let Some(way) = self.way_to(io, ideal)
                && nearest.is_none_or(|(known, _)| way < known)
            {
                nearest = Some((way, io));
            }
        }
        if let Some((way, io)) = nearest {
            total[io.op.direction() as usize] += way;
            self.seeks += u64::from(self.ends.binary_search(&io.start).is_err());
        }
        if reach.is_some() {
            self.ends.clear();
            self.ends.extend(ios.iter().filter(|io| transfers(io)).map(|io| io.start + io.sectors));
            self.ends.sort_unstable();
        }
        total
    }

    /// The shortest seek to a request from any possible position of the head.
    fn way_to(&self, io: &Io, ideal: &dyn Ideal) -> Option<Span> {
        let above = self.ends.partition_point(|&end| end < io.start);
        let neighbours = &self.ends[above.saturating_sub(1)..self.ends.len().min(above + 1)];
        let way = |&end: &Sector| if end == io.start { Span::ZERO } else { ideal.least_seek(end, io.start) };
        neighbours.iter().map(way).min()
    }
}

fn transfers(io: &Io) -> bool {
    matches!(io.op, Op::Read | Op::Write)
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
    use elevator::Sectors;

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
            limit_recorder.asked(0, &read(start), false);
            limit_recorder.awaited(0);
        }
        let limit = limit_recorder.limit_on(&Plain);
        assert_eq!((limit.service_ns, limit.seeks), (1024 + 24, 1));
        assert_eq!(limit.elapsed_ns, 1024 + 24 + 5000);
    }

    #[test]
    fn think_time_after_the_last_request_does_not_count() {
        let mut limit_recorder = LimitRecorder::default();
        limit_recorder.asked(0, &read(0), false);
        limit_recorder.awaited(0);
        limit_recorder.thought(0, Span::from_nanos(5000), false);
        limit_recorder.slept_until(0, Time::from_nanos(9000));
        assert_eq!(limit_recorder.limit_on(&Plain).elapsed_ns, 8);
    }

    #[test]
    fn think_time_and_service_in_parallel_count_as_the_longer() {
        let mut limit_recorder = LimitRecorder::default();
        limit_recorder.asked(0, &read(0), false);
        limit_recorder.thought(0, Span::from_nanos(5000), true);
        limit_recorder.asked(0, &read(8), false);
        assert_eq!(limit_recorder.limit_on(&Plain).elapsed_ns, 5000);
    }

    #[test]
    fn a_batch_is_served_in_order_of_sectors() {
        let mut limit_recorder = LimitRecorder::default();
        for start in [16, 0, 8] {
            limit_recorder.asked(0, &read(start), true);
        }
        assert_eq!(limit_recorder.limit_on(&Plain).service_ns, 24);
    }

    #[test]
    fn processes_are_served_one_after_the_other() {
        let mut limit_recorder = LimitRecorder::default();
        for start in [0, 100_000, 0, 100_000] {
            for process in [0, 1] {
                limit_recorder.asked(process, &read(start), false);
                limit_recorder.awaited(process);
            }
        }
        let limit = limit_recorder.limit_on(&Plain);
        let (there, back) = (1000 + 100_000 - 8, 1000 + 100_000 + 8);
        let alone = 2 * there + back + 32;
        assert_eq!(limit.processes_ns, [alone; 2]);
        assert_eq!((limit.service_ns, limit.elapsed_ns), (2 * alone, 2 * alone));
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
                batch.iter().for_each(|&start| limit_recorder.asked(0, &read(start), true));
                limit_recorder.awaited(0);
            }
            let limit = limit_recorder.limit_on(&Plain);
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
                limit_recorder.asked(0, &read, overlapped);
                limit_recorder.asked(1, &Io { op: Op::Write, ..read }, overlapped);
            }
            let one = ideal.sequential_transfer(Sector(0), Sectors(512)).as_nanos() * 100;
            let limit = limit_recorder.limit_on(ideal);
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
