//! What hosts share: a hundred of them in virtual time, with and without the experience of others.

mod world;

use elevator::{Op, Sector, Sectors, Span, Time};
use tuner::{
    Access, Analyser, Given, Observed, Parameters, Performance, Random, SchedulerId, Shared, State, Window,
};
use world::T;

const DEVICE: &str = "a disk, 976773168 sectors, rotating";

/// MB/s of sequential readers, random reads and random large writes under noop, deadline, cfq and as.
const GIVEN: [[f64; 4]; 3] = [[20.0, 22.0, 60.0, 50.0], [5.0, 6.5, 4.5, 4.2], [60.0, 80.0, 66.0, 50.0]];

fn window(load: usize, number: u64) -> Window {
    let start = Time::ZERO + T * number;
    let count = 200 + Random::new(number).below(20);
    let random = |n: u64| Random::new(number << 20 | n).below(1 << 29);
    let access = |n: u64| Access {
        time: start + Span::from_nanos(n * T.as_nanos() / count),
        position: Sector(if load == 0 { n % 4 * 300_000_000 + n / 4 * 8 } else { random(n) }),
        op: if load == 2 { Op::Write } else { Op::Read },
        size: Sectors(if load == 2 { 512 } else { 8 }),
    };
    Window { start, length: T, accesses: (0..count).map(access).collect() }
}

/// A host's bandwidth in MB/s: it differs from the usual one by up to a tenth, for each load and scheduler.
fn given(host: u64, load: usize, scheduler: usize) -> f64 {
    let factor = 0.9 + 0.2 * Random::new(host * 64 + (load * 8 + scheduler) as u64).unit();
    GIVEN[load][scheduler] * factor
}

/// A host with one load.
struct Host {
    number: u64,
    load: usize,
    analyser: Analyser,
    scheduler: usize,
    windows: u64,
    noise: Random,
}

impl Host {
    fn new(number: u64, prior: &Shared) -> Self {
        let mut analyser = world::analyser(Parameters { x: 100, ..Parameters::default() }, number);
        let mut state = analyser.state();
        prior.give_to(DEVICE, &mut state);
        analyser.restore(state).expect("the state is valid");
        let load = (number % 3) as usize;
        Self { number, load, analyser, scheduler: 0, windows: 0, noise: Random::new(number) }
    }

    /// Serves a window with the present scheduler, and returns what it gave as a share of the best one.
    fn step(&mut self) -> f64 {
        let of = |scheduler| given(self.number, self.load, scheduler);
        let (present, best) = (of(self.scheduler), (0..4).map(of).fold(0.0, f64::max));
        let bandwidth = present * 1e6 * (0.97 + 0.06 * self.noise.unit());
        let performance = Performance { bandwidth, ..Performance::default() };
        let observed = Observed { scheduler: Some(SchedulerId(self.scheduler)), performance };
        let decision = self.analyser.window(&window(self.load, self.windows), &observed);
        self.windows += 1;
        self.scheduler = decision.scheduler.map_or(self.scheduler, |scheduler| scheduler.0);
        present / best
    }
}

/// Windows until the host has used a scheduler within a tenth of its best one for five windows in a row, the mean share of the best one's
/// bandwidth in the first forty windows, and the state after 200.
fn windows_until_best(number: u64, prior: &Shared) -> (u64, f64, State) {
    let mut host = Host::new(number, prior);
    let shares: Vec<f64> = (0..200).map(|_| host.step()).collect();
    let until = shares.windows(5).position(|five| five.iter().all(|&share| share >= 0.9));
    (until.unwrap_or(200) as u64, shares[..40].iter().sum::<f64>() / 40.0, host.analyser.state())
}

#[test]
fn a_hundred_hosts_find_the_best_scheduler_sooner_with_the_experience_of_others() {
    let mut shared = Shared::default();
    for host in 0..30 {
        let (_, _, state) = windows_until_best(host, &Shared::default());
        shared.merge(Shared::of(&format!("host {host}"), DEVICE, &state));
    }
    let measure = |prior: &Shared| {
        let hosts: Vec<(u64, f64)> = (1000..1100)
            .map(|host| {
                let (until, share, _) = windows_until_best(host, prior);
                (until, share)
            })
            .collect();
        let mut until: Vec<u64> = hosts.iter().map(|host| host.0).collect();
        until.sort_unstable();
        let mean = until.iter().sum::<u64>() as f64 / 100.0;
        (mean, until[50], until[90], hosts.iter().map(|host| host.1).sum::<f64>() / 100.0)
    };
    let (without, with) = (measure(&Shared::default()), measure(&shared));
    println!("windows until the best (mean, median, 90%), share of the best in the first forty windows");
    println!("without: {without:?}\nwith:    {with:?}");
    assert!(with.0 < without.0 / 2.0 && with.3 > without.3, "{with:?} and {without:?}");
}

#[test]
fn merging_twice_changes_nothing_and_newer_exports_replace_older_ones() {
    let (_, _, state) = windows_until_best(1, &Shared::default());
    let export = Shared::of("a", DEVICE, &state);
    assert_eq!(export.loads.len(), 1);
    let mut all = export.clone();
    assert!(all.merge(export.clone()).is_empty());
    assert_eq!(all, export);
    let mut newer = export.clone();
    newer.loads[0].windows += 1;
    assert_eq!(all.merge(newer.clone()), ["a"]);
    assert_eq!(all.merge(export.clone()), ["a"]);
    assert_eq!(all, newer);
    all.merge(Shared::of("b", DEVICE, &state));
    assert_eq!(all.loads.len(), 2);
    assert_eq!(all.describe(), "2 loads of 1 device type on 2 hosts");
}

#[test]
fn a_prior_is_only_for_its_device_and_for_kinds_that_are_unknown() {
    let (_, _, state) = windows_until_best(1, &Shared::default());
    let shared = Shared::of("a", DEVICE, &state);
    let fresh = || world::analyser(Parameters { x: 100, ..Parameters::default() }, 1).state();
    assert_eq!(shared.give_to("another", &mut fresh()), Given::default());
    let mut known = state.clone();
    assert_eq!(shared.give_to(DEVICE, &mut known), Given { known: 1, ..Given::default() });
    assert_eq!(known, state);
    let mut new = fresh();
    assert_eq!(shared.give_to(DEVICE, &mut new), Given { added: 1, ..Given::default() });
    assert!(
        Shared::of("b", DEVICE, &new).loads.is_empty(),
        "the ratings of other hosts are not exported as own ones"
    );
    assert_eq!(shared.give_to(DEVICE, &mut new), Given { known: 1, ..Given::default() });
    let mut broken = shared.clone();
    broken.loads[0].schedulers[0].rating = f64::NAN;
    assert_eq!(broken.give_to(DEVICE, &mut fresh()), Given::default());
}

#[test]
fn a_wrong_prior_is_overruled() {
    let (_, _, state) = windows_until_best(0, &Shared::default());
    let mut wrong = Shared::of("a", DEVICE, &state);
    wrong.loads[0].schedulers.iter_mut().for_each(|of| of.rating = -of.rating);
    let mut host = Host::new(3, &wrong);
    (0..200).for_each(|_| {
        host.step();
    });
    let share = (0..200).map(|_| host.step()).sum::<f64>() / 200.0;
    // Two schedulers give three times as much as the two that the prior prefers.
    assert!(share > 0.7, "{share} of the best after 200 windows");
}
