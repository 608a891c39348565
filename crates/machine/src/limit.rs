//! The physical limit: the same requests with perfect locality.
//!
//! Every process is served in its own sequence as if it were alone: the time that its data takes to pass under the
//! head, and for each jump that it makes itself the least seek of that distance, with no rotation lost. What it submits
//! without waiting for all of it in between may be served in any order, so it counts sorted. The device then can be no faster than
//! the sum over all processes, and no process can be done before its own thinking and service are over. A scheduler comes
//! near this limit; it can pass it only where the drive's buffer answers something that never comes from the medium.

use disks::Ideal;
use elevator::{Direction, Op, Sector, Span, Time};
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

    /// The limit on a device that knows what it could do at best.
    pub(crate) fn limit_on(self, ideal: &dyn Ideal) -> Limit {
        let cost = &mut |head: Option<Sector>, io: &Io| {
            let seek = head
                .filter(|&head| head != io.start)
                .map_or(Span::ZERO, |head| ideal.least_seek(head, io.start));
            seek + ideal.sequential_transfer(io.start, io.sectors)
        };
        self.limit_of(cost, ideal.full_duplex())
    }

    /// The limit on a device that takes `cost(head, io)` at least for `io`, with the head where the process's previous
    /// request ended (`None` for its first one).
    #[must_use]
    pub fn limit(self, cost: &mut dyn FnMut(Option<Sector>, &Io) -> Span) -> Limit {
        self.limit_of(cost, false)
    }

    /// With `full_duplex`, reads and writes may pass at the same time, but for those of a process that waits for each.
    fn limit_of(mut self, cost: &mut dyn FnMut(Option<Sector>, &Io) -> Span, full_duplex: bool) -> Limit {
        let mut limit = Limit::default();
        let least = |[reads, writes]: [Span; 2]| if full_duplex { reads.max(writes) } else { reads + writes };
        let mut service = [Span::ZERO; 2];
        for asked in &mut self.processes {
            let own = asked.service(cost, &mut limit.seeks);
            let one_by_one = own[0] + own[1];
            Direction::BOTH.into_iter().for_each(|way| service[way as usize] += own[way as usize]);
            let alone =
                if asked.overlapped { least(own).max(asked.thought) } else { one_by_one + asked.thought };
            limit.processes_ns.push(alone.as_nanos().max(asked.latest.as_nanos()));
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
    fn service(&mut self, cost: &mut dyn FnMut(Option<Sector>, &Io) -> Span, seeks: &mut u64) -> [Span; 2] {
        let (mut from, mut head, mut total) = (0, None, [Span::ZERO; 2]);
        self.batches.push(self.ios.len());
        for &to in &self.batches {
            let batch = &mut self.ios[from..to];
            batch.sort_by_key(|io| io.start);
            for io in batch.iter().filter(|io| matches!(io.op, Op::Read | Op::Write)) {
                *seeks += u64::from(head.is_some_and(|head| head != io.start));
                total[io.op.direction() as usize] += cost(head, io);
                head = Some(io.start + io.sectors);
            }
            from = to;
        }
        total
    }
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

    fn cost(head: Option<Sector>, io: &Io) -> Span {
        let jump = if head == Some(io.start) { 0 } else { 1000 };
        Span::from_nanos(jump + u64::from(io.sectors.0))
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
        let limit = witness.limit(&mut cost);
        assert_eq!((limit.service_ns, limit.seeks), (2 * 1000 + 24, 1));
        assert_eq!(limit.elapsed_ns, 2024 + 5000);
    }

    #[test]
    fn what_it_thinks_after_its_last_request_makes_nobody_wait() {
        let mut witness = Witness::default();
        witness.asked(0, &read(0), false);
        witness.awaited(0);
        witness.thought(0, Span::from_nanos(5000), false);
        witness.slept_until(0, Time::from_nanos(9000));
        assert_eq!(witness.limit(&mut cost).elapsed_ns, 1008);
    }

    #[test]
    fn who_thinks_while_the_device_works_for_it_is_delayed_by_the_longer_of_both() {
        let mut witness = Witness::default();
        witness.asked(0, &read(0), false);
        witness.thought(0, Span::from_nanos(5000), true);
        witness.asked(0, &read(8), false);
        assert_eq!(witness.limit(&mut cost).elapsed_ns, 5000);
    }

    #[test]
    fn what_goes_out_together_counts_sorted() {
        let mut witness = Witness::default();
        for start in [16, 0, 8] {
            witness.asked(0, &read(start), true);
        }
        assert_eq!(witness.limit(&mut cost).service_ns, 1024);
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
