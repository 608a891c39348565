//! The physical limit: the same requests with perfect locality.
//!
//! A request takes at least the time that its data needs to pass under the head, and a process that waits for each of its
//! requests has to have them in its own sequence: for each jump that it makes itself the least seek of that distance, with no
//! rotation lost. What it submits without waiting for all of it in between may be served in any order, so it counts from the
//! nearest on, with a seek across each gap. The device is done when every process was served so, one after the other, and no
//! process before its own service and thinking are over.
//!
//! A scheduler comes near this limit; it can pass it where the drive's buffer answers something that never comes from the
//! medium, and where many processes jump about in the same places: to serve one on the way to another saves both of them a
//! seek (32 random readers came to 102%). Nobody's own way would be in a limit that allows for that: two greps of small files
//! would be told what reading the whole disk in one sweep takes.

use disks::Ideal;
use elevator::{Op, Sector, Span, Time};
use serde::Serialize;

use crate::measure::Measured;
use crate::program::Io;

/// What each process asked for and how long it thought, written down during a run.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    processes: Vec<Asked>,
}

/// One process's requests.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// Requests, in order; a batch may be served in any order.
    ios: Vec<Io>,
    /// Where each batch ends in `ios`.
    batches: Vec<usize>,
    thought: Span,
    latest: Time,
    /// The same since it last did anything but wait: it counts if that was not the last that it did.
    thinks: Span,
    sleeps_until: Time,
    overlapped: bool,
}

/// The least time that a workload takes on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// For everything.
    pub elapsed_ns: u64,
    /// Of the device's time: positioning and transfer; of an array, that of the member with most of it.
    pub service_ns: u64,
    /// For each process alone, in order of start.
    pub processes_ns: Vec<u64>,
    /// Jumps that processes make themselves.
    pub seeks: u64,
}

impl Witness {
    fn of(&mut self, process: usize) -> &mut Asked {
        if self.processes.len() <= process {
            self.processes.resize_with(process + 1, Asked::default);
        }
        &mut self.processes[process]
    }

    pub(crate) fn asked(&mut self, process: usize, io: &Io, others_unfinished: bool) {
        let asked = self.of(process);
        asked.overlapped |= others_unfinished;
        asked.ios.push(*io);
        self.acted(process);
    }

    /// A process did something but wait: the device may have been waiting for its thinking.
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

    /// The same of what `map` makes of each request.
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
        Self { processes }
    }

    /// The limit on a device that knows what it could do at best. Where it lets reads and writes pass at the same time, it does,
    /// but not those of a process that waits for each.
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
    /// Of two devices that work side by side on the same processes' requests.
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

impl Asked {
    /// What its reads and its writes take.
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

/// The head on its way over requests that may be served in any order, then over the next such.
#[derive(Default)]
struct Sweep {
    /// Where those before ended, in order: it is at one of them.
    ends: Vec<Sector>,
    seeks: u64,
}

impl Sweep {
    /// The least that these take, reads and writes: their transfers, the way to the nearest of them, and a seek across each gap
    /// between neighbours, which any order of serving them crosses.
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

    /// The least seek to a request from where the head may be.
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

/// Jain's index of fairness over how fast each process got on, compared with how fast it would have been alone at the
/// physical limit: 1 if all were slowed down alike, 1/n if one had everything.
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

    /// A nanosecond a sector, a thousand a seek and one more for each sector that it goes.
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
    fn a_process_that_waits_is_served_in_its_own_order() {
        let mut witness = Witness::default();
        witness.thought(0, Span::from_nanos(5000), false);
        for start in [16, 0, 8] {
            witness.asked(0, &read(start), false);
            witness.awaited(0);
        }
        let limit = witness.limit_on(&Plain);
        assert_eq!((limit.service_ns, limit.seeks), (1024 + 24, 1));
        assert_eq!(limit.elapsed_ns, 1024 + 24 + 5000);
    }

    #[test]
    fn what_it_thinks_after_its_last_request_makes_nobody_wait() {
        let mut witness = Witness::default();
        witness.asked(0, &read(0), false);
        witness.awaited(0);
        witness.thought(0, Span::from_nanos(5000), false);
        witness.slept_until(0, Time::from_nanos(9000));
        assert_eq!(witness.limit_on(&Plain).elapsed_ns, 8);
    }

    #[test]
    fn who_thinks_while_the_device_works_for_it_is_delayed_by_the_longer_of_both() {
        let mut witness = Witness::default();
        witness.asked(0, &read(0), false);
        witness.thought(0, Span::from_nanos(5000), true);
        witness.asked(0, &read(8), false);
        assert_eq!(witness.limit_on(&Plain).elapsed_ns, 5000);
    }

    #[test]
    fn what_goes_out_together_counts_sorted() {
        let mut witness = Witness::default();
        for start in [16, 0, 8] {
            witness.asked(0, &read(start), true);
        }
        assert_eq!(witness.limit_on(&Plain).service_ns, 24);
    }

    #[test]
    fn processes_are_served_one_after_the_other() {
        let mut witness = Witness::default();
        for start in [0, 100_000, 0, 100_000] {
            for process in [0, 1] {
                witness.asked(process, &read(start), false);
                witness.awaited(process);
            }
        }
        let limit = witness.limit_on(&Plain);
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
    fn no_order_of_serving_them_is_faster() {
        let mut random = elevator::Random::new(3);
        for _ in 0..500 {
            let batches: Vec<Vec<u64>> = (0..1 + random.below(3))
                .map(|_| (0..1 + random.below(4)).map(|_| 8 * random.below(200)).collect())
                .collect();
            let mut witness = Witness::default();
            for batch in &batches {
                batch.iter().for_each(|&start| witness.asked(0, &read(start), true));
                witness.awaited(0);
            }
            let limit = witness.limit_on(&Plain);
            assert!(limit.elapsed_ns <= tried(&batches), "{batches:?}");
            if batches.iter().all(|batch| batch.len() == 1) {
                assert_eq!(limit.elapsed_ns, tried(&batches), "{batches:?}");
            }
        }
    }

    #[test]
    fn a_drive_with_a_way_each_reads_and_writes_at_once() {
        let ways = |name: &str, overlapped: bool| {
            let (drive, _) = disks::open(name, &mut |_| unreachable!("built in")).expect("a drive");
            let ideal = drive.ideal().expect("it knows");
            let mut witness = Witness::default();
            for n in 0..100 {
                let read = Io::read(Sector(n * 512), Sectors(512));
                witness.asked(0, &read, overlapped);
                witness.asked(1, &Io { op: Op::Write, ..read }, overlapped);
            }
            let one = ideal.sequential_transfer(Sector(0), Sectors(512)).as_nanos() * 100;
            let limit = witness.limit_on(ideal);
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
    fn fairness_is_one_when_all_are_slowed_alike() {
        let process = |elapsed_ns| crate::ProcessMeasured { elapsed_ns, ..Default::default() };
        let measured = Measured { processes: vec![process(100), process(200)], ..Default::default() };
        assert!((fairness(&measured, &[10, 20]) - 1.0).abs() < 1e-9);
        assert!((fairness(&measured, &[100, 0]) - 1.0).abs() < 1e-9, "who asked for nothing does not count");
        assert!(fairness(&measured, &[100, 2]) < 0.52);
    }
}
