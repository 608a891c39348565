//! The physical limit: a time that no order of service can beat.
//!
//! It is the longest of
//! - the time in which the medium serves each sector of the workload once, in one sweep: the least transfer time of the sectors, and the least
//!   moves between the tracks that have them. Data that is read and also written may come from the drive's buffer and counts as written; as
//!   much written data as the buffer holds does not count, because it may be there at the end;
//! - the time in which all requests cross the drive's interface (on one drive; an array may combine requests);
//! - the time of each process alone, if the drive's buffer answers every request: think times, sleeps until a given time, and transfers over
//!   the interface, in its own order. Requests that it submits together are transferred one after the other, while it thinks;
//! - on one drive, the path of the head over the *unbuffered* reads, those that its buffer cannot answer ([`visits`]), of each process and of all.
//!
//! Rotational delays other than those on the path of unbuffered reads, command overheads, the order of other accesses to the medium, parity and the controller of an array do not count:
//! read-ahead, the moves for another process, or a full queue can hide them. Service begins when the first process submits.
//!
//! The steps of the programs determine the limit, not the times of completions. It is therefore the same under each scheduler, unless a program
//! chooses its steps by the time.
//!
//! A run of any length takes constant memory: requests are added up while the run lasts ([`LimitRecorder::fold`]), and only the extents that they
//! cover are kept. Of more than half a million extents the narrowest gaps are closed; the moves then do not count. Processes that are reported as a
//! [group](LimitRecorder::group) have no times of their own: only the sectors of their requests and their pauses count.
//!
//! It also estimates the time of each process alone with perfect locality (`alone_ns`), for the [fairness index](crate::fairness): each jump between
//! requests costs the shortest seek of that distance.

use disks::Ideal;
use elevator::{Span, Time};
use serde::Serialize;

use crate::program::{Await, Io};

mod chain;
mod covered;
mod sweep;
mod visits;

use chain::Chain;
pub(crate) use chain::Interface;
use covered::Covered;
use sweep::Sweep;
use visits::Visits;

/// Records requests and think times during a run.
#[derive(Clone, Debug)]
pub struct LimitRecorder {
    /// The place of each process.
    places: Vec<Place>,
    processes: Vec<Requests>,
    /// The times of grouped processes.
    pauses: Vec<Pauses>,
    /// Requests of grouped processes that are not added up.
    grouped: Vec<Io>,
    /// Requests in `processes` that are not added up.
    kept: usize,
    /// The devices have no ideal times, so nothing is recorded.
    is_unknown: bool,
    most: Most,
    interface: Interface,
    /// Sectors transferred, read and written.
    transferred: [u64; 2],
    /// The earliest time of the first request.
    first: Option<Time>,
    /// What is read and what is written of each device.
    covered: Vec<[Covered; 2]>,
    visits: Visits,
}

/// Where the recorder has what a process did.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In `processes`.
    Own(u32),
    /// In `pauses`, as the process is reported with others as a group.
    Grouped(u32),
}

/// The earliest times of a grouped process: think times, and sleeps until a given time.
#[derive(Clone, Copy, Debug, Default)]
struct Pauses {
    now: Time,
    /// Of its latest request.
    submitted: Time,
}

/// Upper bounds that keep the memory of a recorder constant.
#[derive(Clone, Copy, Debug)]
struct Most {
    /// Requests that are not added up: 3 MiB.
    requests: usize,
    /// Extents of the requests of all processes together, and of what is covered: 8 MiB each, and as much while they grow.
    extents: usize,
}

const MOST: Most = Most { requests: 1 << 17, extents: 1 << 19 };

/// The requests of one process.
#[derive(Clone, Debug, Default)]
struct Requests {
    chain: Chain,
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
    /// Device time: one sweep over the medium, or the transfers if they take longer; of an array, that of the busiest member.
    pub service_ns: u64,
    /// Of each process from its start, in order of start.
    pub processes_ns: Vec<u64>,
    /// Moves between tracks in the sweep.
    pub seeks: u64,
    /// An estimate of each process's time alone with perfect locality, for the [fairness index](crate::fairness).
    #[serde(skip)]
    pub alone_ns: Vec<u64>,
}

impl Default for LimitRecorder {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            processes: Vec::new(),
            pauses: Vec::new(),
            grouped: Vec::new(),
            kept: 0,
            is_unknown: false,
            most: MOST,
            interface: Interface::default(),
            transferred: [0; 2],
            first: None,
            covered: Vec::new(),
            visits: Visits::default(),
        }
    }
}

impl LimitRecorder {
    pub(crate) fn new(interface: Interface) -> Self {
        Self { interface, ..Self::default() }
    }

    /// The process is reported with others as a group. Call it before the process does anything.
    pub(crate) fn group(&mut self, process: usize) {
        self.extend_to(process);
        debug_assert_eq!(self.places.len(), process, "a process that has done nothing");
        self.places.push(Place::Grouped(self.pauses.len() as u32));
        self.pauses.push(Pauses::default());
    }

    /// Gives all processes before this one a place.
    fn extend_to(&mut self, process: usize) {
        while self.places.len() < process {
            self.places.push(Place::Own(self.processes.len() as u32));
            self.processes.push(Requests::default());
        }
    }

    /// The place of a process; none if nothing is recorded.
    #[inline]
    fn place(&mut self, process: usize) -> Option<Place> {
        if self.is_unknown {
            return None;
        }
        if self.places.len() <= process {
            self.extend_to(process + 1);
        }
        Some(self.places[process])
    }

    /// A process that is not grouped.
    fn of(&mut self, process: usize) -> Option<&mut Requests> {
        match self.place(process)? {
            Place::Own(place) => Some(&mut self.processes[place as usize]),
            Place::Grouped(_) => None,
        }
    }

    /// Records the process's request of that number. If it returns true, the caller must [`fold`](Self::fold).
    #[must_use]
    pub(crate) fn asked(&mut self, process: usize, number: u64, io: &Io, others_unfinished: bool) -> bool {
        if self.is_unknown {
            return false;
        }
        let interface = self.interface;
        let transfers = interface.transfers(io);
        if transfers {
            self.transferred[io.op.direction() as usize] += u64::from(io.sectors.0);
            self.kept += 1;
        }
        match self.place(process) {
            None => {}
            Some(Place::Own(place)) => self.asked_by(place as usize, number, io, others_unfinished),
            Some(Place::Grouped(place)) => {
                let pauses = &mut self.pauses[place as usize];
                pauses.submitted = pauses.now;
                let at = pauses.now;
                self.first = Some(self.first.map_or(at, |first| first.min(at)));
                if let Some(reach) = interface.reach.filter(|_| transfers) {
                    self.visits.passed(io, reach);
                }
                self.grouped.extend(transfers.then_some(*io));
            }
        }
        self.kept >= self.most.requests
    }

    fn asked_by(&mut self, place: usize, number: u64, io: &Io, others_unfinished: bool) {
        let interface = self.interface;
        let transfers = interface.transfers(io);
        let asked = &mut self.processes[place];
        let at = asked.chain.submit(number, io, &interface);
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        if let Some(reach) = interface.reach.filter(|_| transfers) {
            self.visits.submitted(place, io, at, &asked.chain, reach);
        }
        asked.overlapped |= others_unfinished;
        asked.ios.extend(transfers.then_some(*io));
        asked.acted();
    }

    /// The process did something other than think, so the device may have waited for its think time.
    pub(crate) fn acted(&mut self, process: usize) {
        if let Some(asked) = self.of(process) {
            asked.acted();
        }
    }

    /// The process waits, whether or not what it waits for has completed.
    pub(crate) fn waits(&mut self, process: usize, what: Await) {
        let interface = self.interface;
        let Some(Place::Own(place)) = self.place(process) else { return };
        let place = place as usize;
        let chain = &mut self.processes[place].chain;
        if chain.wait(what, &interface) {
            self.visits.completed(place, chain);
        }
    }

    /// The process continues not before a time, whether or not the time has passed.
    pub(crate) fn continues_at(&mut self, process: usize, at: Time) {
        match self.place(process) {
            None => {}
            Some(Place::Own(place)) => self.processes[place as usize].chain.sleep_until(at),
            Some(Place::Grouped(place)) => {
                let now = &mut self.pauses[place as usize].now;
                *now = at.max(*now);
            }
        }
    }

    /// A process starts another one.
    pub(crate) fn spawned(&mut self, parent: usize, child: usize) {
        let chain = self.of(parent).map(|parent| Chain::child(&mut parent.chain));
        if let (Some(chain), Some(child)) = (chain, self.of(child)) {
            child.chain = chain;
        }
    }

    /// The process waits for its children.
    pub(crate) fn joins(&mut self, process: usize) {
        if let Some(asked) = self.of(process) {
            asked.chain.join();
        }
    }

    pub(crate) fn child_ended(&mut self, parent: usize, child: usize) {
        let ended = self.of(child).map(|child| child.chain.now());
        if let (Some(ended), Some(parent)) = (ended, self.of(parent)) {
            parent.chain.child_ended(ended);
        }
    }

    pub(crate) fn awaited(&mut self, process: usize) {
        if let Some(asked) = self.of(process)
            && asked.batches.last() != Some(&asked.ios.len())
        {
            asked.batches.push(asked.ios.len());
        }
    }

    pub(crate) fn thought(&mut self, process: usize, span: Span, some_unfinished: bool) {
        match self.place(process) {
            None => {}
            Some(Place::Own(place)) => {
                let asked = &mut self.processes[place as usize];
                asked.overlapped |= some_unfinished;
                asked.thinks += span;
                asked.chain.think(span);
            }
            Some(Place::Grouped(place)) => self.pauses[place as usize].now += span,
        }
    }

    pub(crate) fn slept_until(&mut self, process: usize, at: Time) {
        if let Some(asked) = self.of(process) {
            asked.sleeps_until = asked.sleeps_until.max(at);
        }
    }

    /// Adds up the service of the requests so far, and frees their memory.
    pub(crate) fn fold(&mut self, devices: &dyn Devices) {
        self.kept = 0;
        let Some(ideals) =
            (0..devices.count()).map(|device| devices.ideal(device)).collect::<Option<Vec<_>>>()
        else {
            (self.is_unknown, self.processes, self.places) = (true, Vec::new(), Vec::new());
            return;
        };
        let mut accesses = Vec::new();
        self.covered.resize_with(ideals.len(), <[Covered; 2]>::default);
        for asked in &mut self.processes {
            asked.fold(devices, &ideals, &mut self.covered, &mut accesses);
        }
        for (device, covered) in self.covered.iter_mut().enumerate() {
            accesses.clear();
            self.grouped.iter().for_each(|io| devices.accesses(device, io, &mut accesses));
            add_all(covered, &accesses);
        }
        self.grouped.clear();
        let share = self.most.extents / (2 * ideals.len()).max(1);
        for (covered, ideal) in self.covered.iter_mut().zip(&ideals) {
            for covered in covered {
                covered.merge();
                if covered.size() > share {
                    covered.shrink(share / 2, *ideal);
                }
            }
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

    /// The limit on devices with known ideal times, which work in parallel: that of the busiest.
    pub(crate) fn limit_on(mut self, devices: &dyn Devices) -> Option<Limit> {
        self.fold(devices);
        if self.is_unknown {
            return None;
        }
        let (mut seeks, mut service) = (0, self.interface.time(self.transferred));
        let mut alone_ns = vec![0; self.processes.len()];
        for device in 0..devices.count() {
            let ideal = devices.ideal(device)?;
            let (time, moves) = covered::least_time(&self.covered[device], ideal);
            (service, seeks) = (service.max(time), seeks + moves);
            for (asked, alone) in self.processes.iter_mut().zip(&mut alone_ns) {
                *alone = asked.alone_on(device, ideal).max(*alone);
            }
        }
        let mut limit = Limit { service_ns: service.as_nanos(), seeks, alone_ns, ..Limit::default() };
        limit.elapsed_ns = (self.first.unwrap_or(Time::ZERO) + service).as_nanos();
        for pauses in &self.pauses {
            limit.elapsed_ns = limit.elapsed_ns.max(pauses.submitted.as_nanos());
        }
        let mut ends = Vec::new();
        for asked in self.processes {
            let [absolute, own, busy] = asked.chain.least(&self.interface);
            limit.elapsed_ns = limit.elapsed_ns.max(absolute.as_nanos());
            limit.processes_ns.push(own.as_nanos());
            ends.push(busy);
        }
        if let Some((reach, ideal)) = self.interface.reach.zip(devices.ideal(0)) {
            let bounds = self.visits.least(&ends, ideal, reach);
            limit.elapsed_ns = limit.elapsed_ns.max(bounds.elapsed.as_nanos());
            for (process, least) in bounds.own {
                limit.processes_ns[process] = limit.processes_ns[process].max(least.as_nanos());
            }
        }
        limit.processes_ns = by_process(&self.places, &limit.processes_ns);
        limit.alone_ns = by_process(&self.places, &limit.alone_ns);
        // Without any bound there is none to print.
        (limit.elapsed_ns > 0).then_some(limit)
    }
}

impl Limit {
    /// The lower of two limits of the same work, which differ if a program chooses its steps by the time.
    pub fn lower(&mut self, other: &Self) {
        self.elapsed_ns = self.elapsed_ns.min(other.elapsed_ns);
        self.service_ns = self.service_ns.min(other.service_ns);
        self.seeks = self.seeks.min(other.seeks);
        for (own, others) in self.processes_ns.iter_mut().zip(&other.processes_ns) {
            *own = (*own).min(*others);
        }
    }
}

/// The times of all processes, from those of the places; 0 for grouped ones.
fn by_process(places: &[Place], times: &[u64]) -> Vec<u64> {
    let time = |place: &Place| if let Place::Own(place) = place { times[*place as usize] } else { 0 };
    places.iter().map(time).collect()
}

fn add_all(covered: &mut [Covered; 2], accesses: &[Io]) {
    for io in accesses {
        covered[io.op.direction() as usize].add((io.start, io.start + io.sectors));
    }
}

impl Requests {
    fn acted(&mut self) {
        self.thought += std::mem::take(&mut self.thinks);
        self.latest = self.latest.max(self.sleeps_until);
    }

    /// Adds up the requests. Those after the last batch begin a batch that continues.
    fn fold(
        &mut self,
        devices: &dyn Devices,
        ideals: &[&dyn Ideal],
        covered: &mut [[Covered; 2]],
        accesses: &mut Vec<Io>,
    ) {
        self.swept.resize_with(ideals.len(), Sweep::default);
        for (device, (sweep, ideal)) in self.swept.iter_mut().zip(ideals).enumerate() {
            let mut add = |sweep: &mut Sweep, ios: &[Io]| {
                accesses.clear();
                ios.iter().for_each(|io| devices.accesses(device, io, accesses));
                add_all(&mut covered[device], accesses);
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

    /// An estimate of the process's time alone on a device. If the device can read and write at the same time, it does, except for a process
    /// that waits for each request.
    fn alone_on(&mut self, device: usize, ideal: &dyn Ideal) -> u64 {
        let mut sweep = self.swept.get_mut(device).map(std::mem::take).unwrap_or_default();
        sweep.end_batch(ideal);
        let [reads, writes] = sweep.total;
        let alone = match self.overlapped {
            true if ideal.full_duplex() => reads.max(writes).max(self.thought),
            true => (reads + writes).max(self.thought),
            false => reads + writes + self.thought,
        };
        alone.as_nanos().max(self.latest.as_nanos())
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

        fn least_pass(
            &self,
            extents: &mut dyn Iterator<Item = (Sector, Sector)>,
            moves: bool,
        ) -> (Span, u64) {
            let (mut nanos, mut moved, mut last) = (0, 0, None);
            for (start, end) in extents {
                nanos += start.distance(end);
                if let Some(before) = last.replace(end).filter(|_| moves) {
                    nanos += self.least_seek(before, start).as_nanos();
                    moved += 1;
                }
            }
            (Span::from_nanos(nanos), moved)
        }

        fn buffered_writes(&self) -> Option<Span> {
            Some(Span::from_nanos(3))
        }
    }

    fn read(start: u64) -> Io {
        Io::read(Sector(start), Sectors(8))
    }

    #[test]
    fn requests_of_a_waiting_process_keep_their_order() {
        let mut limit_recorder = LimitRecorder::default();
        limit_recorder.thought(0, Span::from_nanos(5000), false);
        for (number, start) in [(0, 16), (1, 0), (2, 8)] {
            let _ = limit_recorder.asked(0, number, &read(start), false);
            limit_recorder.awaited(0);
        }
        let limit = limit_recorder.limit_on(&Single(Some(&Plain))).unwrap();
        assert_eq!(limit.alone_ns, [1024 + 24 + 5000]);
        assert_eq!((limit.service_ns, limit.seeks, limit.elapsed_ns), (24, 0, 5000 + 24), "read-ahead");
    }

    #[test]
    fn think_time_after_the_last_request_does_not_count() {
        let mut limit_recorder = LimitRecorder::default();
        let _ = limit_recorder.asked(0, 0, &read(0), false);
        limit_recorder.awaited(0);
        limit_recorder.thought(0, Span::from_nanos(5000), false);
        limit_recorder.slept_until(0, Time::from_nanos(9000));
        limit_recorder.continues_at(0, Time::from_nanos(9000));
        assert_eq!(limit_recorder.limit_on(&Single(Some(&Plain))).unwrap().elapsed_ns, 8);
    }

    #[test]
    fn think_time_and_service_in_parallel_count_as_the_longer() {
        let mut limit_recorder = LimitRecorder::default();
        let _ = limit_recorder.asked(0, 0, &read(0), false);
        limit_recorder.thought(0, Span::from_nanos(5000), true);
        let _ = limit_recorder.asked(0, 1, &read(8), false);
        let limit = limit_recorder.limit_on(&Single(Some(&Plain))).unwrap();
        assert_eq!((limit.elapsed_ns, limit.alone_ns), (5000, vec![5000]));
    }

    #[test]
    fn a_batch_is_served_in_order_of_sectors() {
        let mut limit_recorder = LimitRecorder::default();
        for (number, start) in [(0, 16), (1, 0), (2, 8)] {
            let _ = limit_recorder.asked(0, number, &read(start), true);
        }
        let limit = limit_recorder.limit_on(&Single(Some(&Plain))).unwrap();
        assert_eq!((limit.service_ns, limit.alone_ns), (24, vec![24]));
    }

    #[test]
    fn what_several_processes_read_passes_once() {
        let mut limit_recorder = LimitRecorder::default();
        for (number, start) in [(0, 0), (1, 100_000), (2, 0), (3, 100_000)] {
            for process in [0, 1] {
                let _ = limit_recorder.asked(process, number, &read(start), false);
                limit_recorder.awaited(process);
            }
        }
        let limit = limit_recorder.limit_on(&Single(Some(&Plain))).unwrap();
        let (there, back) = (1000 + 100_000 - 8, 1000 + 100_000 + 8);
        let alone = 2 * there + back + 32;
        assert_eq!(limit.alone_ns, [alone; 2]);
        assert_eq!((limit.service_ns, limit.elapsed_ns, limit.seeks), (there + 16, there + 16, 1));
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
        let (mut extents, mut numbers) = (0, 0..);
        for _ in 0..400 {
            let process = random.below(3) as usize;
            for _ in 0..random.below(9) {
                let op = [Op::Read, Op::Write, Op::Flush][random.below(3) as usize];
                let io =
                    Io { op, sectors: Sectors(1 + random.below(12) as u32), ..read(random.below(1_500)) };
                let number = numbers.next().unwrap();
                if limit_recorder.asked(process, number, &io, random.below(2) == 0) {
                    limit_recorder.fold(devices);
                    extents = extents.max(limit_recorder.extents());
                }
            }
            if process > 0 && random.below(3) == 0 {
                limit_recorder.awaited(process);
                limit_recorder.waits(process, Await::All);
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
                // With so few extents there may be no bound left.
                let Some(limit) = limit_recorder.limit_on(&device) else { continue };
                assert!(limit.elapsed_ns <= exact.elapsed_ns && limit.service_ns <= exact.service_ns);
                assert!(limit.seeks <= exact.seeks);
                let each = limit.alone_ns.iter().zip(&exact.alone_ns);
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
                for (number, &start) in batch.iter().enumerate() {
                    let _ = limit_recorder.asked(0, number as u64, &read(start), true);
                }
                limit_recorder.awaited(0);
                limit_recorder.waits(0, Await::All);
            }
            let limit = limit_recorder.limit_on(&Single(Some(&Plain))).unwrap();
            let alone = limit.alone_ns[0];
            assert!(limit.elapsed_ns <= tried(&batches) && alone <= tried(&batches), "{batches:?}");
            if batches.iter().all(|batch| batch.len() == 1) {
                assert_eq!(alone, tried(&batches), "{batches:?}");
            }
        }
    }

    #[test]
    fn a_full_duplex_drive_reads_and_writes_at_once() {
        let ways = |name: &str, overlapped: bool| {
            let (drive, _) = disks::open(name, &mut |_| unreachable!("built in")).expect("a drive");
            let ideal = drive.ideal().expect("the drive has ideal times");
            let (picos, full_duplex) = (ideal.interface_picos(), ideal.full_duplex());
            let interface = Interface { picos, full_duplex, ..Interface::default() };
            let mut limit_recorder = LimitRecorder::new(interface);
            for n in 0..100 {
                let read = Io::read(Sector(n * 512), Sectors(512));
                let _ = limit_recorder.asked(0, n, &read, overlapped);
                let _ = limit_recorder.asked(1, n, &Io { op: Op::Write, ..read }, overlapped);
            }
            let one = ideal.sequential_transfer(Sector(0), Sectors(512)).as_nanos() * 100;
            let limit = limit_recorder.limit_on(&Single(Some(ideal))).unwrap();
            assert_eq!(limit.alone_ns, [one, one]);
            (limit.elapsed_ns, one)
        };
        // Each of a hundred transfers is rounded up to a nanosecond.
        let is_nearly = |least: u64, exact: u64| least <= exact && exact - least <= 300;
        for overlapped in [false, true] {
            let (both, one) = ways("ssd-nvme", overlapped);
            assert!(is_nearly(both, one), "reads pass while writes do: {both}, {one}");
            let (both, one) = ways("ssd-sata", overlapped);
            assert!(is_nearly(both, 2 * one), "{both}, {one}");
        }
    }
}
