//! Decisions on sequences whose right answer is known.

mod golden;
mod world;

use tuner::throughput::{Curve, CurveClass, Table};
use tuner::{
    Analyser, Choice, Decider, DeciderName, Decision, Fact, Facts, Input, Learned, Measured, Metric,
    Observed, Parameters, Performance, Random, SchedulerId, State, Tuner, Why,
};
use world::{BANDWIDTH, World, analyser, best, paper, window};

/// Compares a decision log. To record it: `DWELL_BLESS=1 cargo test -p dwell-tuner --test decisions`.
#[test]
fn golden_decisions() {
    let mut world = World::new(paper(Parameters::default(), 1));
    let mut log = String::new();
    for number in 0..60 {
        let pattern = if number % 10 == 9 { 3 } else { number / 2 % 3 };
        let ran = world::NAMES[world.scheduler.0];
        let (_, decision) = world.step(pattern);
        log += &format!(
            "{number:2} pattern {pattern} ran {ran:8} -> {}\n",
            decision.line(world.analyser.schedulers())
        );
    }
    golden::compare("decisions.txt", &log);
}

#[test]
fn three_alternating_patterns_are_predicted_once_trained() {
    let mut world = World::new(paper(Parameters { d: 1, ..Parameters::default() }, 1));
    let (mut trained_at, mut wrong) = (None, 0);
    for number in 0..600 {
        let (_, decision) = world.step(number % 3);
        // What is in force when the next window begins.
        let right = decision.scheduler == Some(best((number + 1) % 3));
        if number < 30 {
            trained_at = if right { trained_at.or(Some(number)) } else { None };
        } else {
            wrong += u32::from(!right);
        }
    }
    assert_eq!(world.analyser.store().clusters().len(), 3);
    assert!(
        trained_at.unwrap() <= 15,
        "three patterns times four schedulers, and the first hits: {trained_at:?}"
    );
    assert!(wrong <= 9 * 2, "only trials after every 200 hits may be wrong: {wrong}");
}

#[test]
fn sequences_beat_every_fixed_scheduler() {
    let mut world = World::new(paper(Parameters::default(), 3));
    let patterns: Vec<usize> = (0..1200).map(|number| number / 12 % 3).collect();
    let own: f64 = patterns.iter().map(|&pattern| world.step(pattern).0).sum();
    for (scheduler, name) in world::NAMES.iter().enumerate() {
        let fixed: f64 = patterns.iter().map(|&pattern| BANDWIDTH[pattern][scheduler]).sum();
        assert!(own > fixed, "{own:.3e} against {fixed:.3e} under {name}");
    }
    let ideal: f64 = patterns.iter().map(|&pattern| BANDWIDTH[pattern][best(pattern).0]).sum();
    assert!(own > 0.93 * ideal, "{:.3} of the ideal", own / ideal);
}

#[test]
fn every_scheduler_is_tried_for_every_cluster() {
    let mut world = World::new(paper(Parameters::default(), 4));
    (0..60).for_each(|number| drop(world.step(number % 3)));
    for cluster in world.analyser.store().clusters() {
        let tried: Vec<usize> = cluster.performance.iter().map(|values| values.count()).collect();
        assert!(tried.iter().all(|&count| count > 0), "cluster {}: {tried:?}", cluster.id.0);
        assert!(cluster.performance.iter().all(|values| values.count() <= 20));
    }
}

#[test]
fn random_windows_miss_and_the_bandit_serves_them() {
    let mut world = World::new(paper(Parameters { similarity: 95, x: 100, ..Parameters::default() }, 5));
    let (mut misses, mut under_best) = (0, 0);
    for _ in 0..400 {
        let (_, decision) = world.step(3);
        misses += u32::from(matches!(decision.why, Why::Bandit { .. }));
        under_best += u32::from(world.scheduler == best(0));
        assert!(world.analyser.bandit().probabilities().iter().all(|&p| p > 0.01));
    }
    assert!(misses > 390, "{misses}");
    assert!(under_best > 240, "{under_best} of 400 under the best one");
}

#[test]
fn the_bandit_alone_stores_nothing() {
    let mut world = World::new(paper(Parameters::default(), 6).with_decider(DeciderName::Bandit));
    let served = (0..300).filter(|_| world.step(0).1.scheduler == Some(best(0))).count();
    assert!(world.analyser.store().clusters().is_empty());
    assert!(served > 200, "{served}");
}

#[test]
fn the_least_recently_used_cluster_is_removed() {
    let mut world = World::new(paper(Parameters { clusters: 2, ..Parameters::default() }, 7));
    let ids = [0, 1, 0, 2].map(|pattern| world.step(pattern).1.cluster.unwrap());
    assert_eq!(ids[0], ids[2]);
    let store = world.analyser.store();
    assert_eq!(store.clusters().len(), 2);
    assert!(store.get(ids[0]).is_some() && store.get(ids[3]).is_some());
    assert!(store.get(ids[1]).is_none(), "the second was not used since");
    let links: Vec<_> = store.clusters().iter().flat_map(|cluster| &cluster.successors).collect();
    assert!(links.iter().all(|link| store.get(link.cluster).is_some()), "a link to nowhere: {links:?}");
    assert!(world.step(1).1.cluster.unwrap() > ids[3], "a name is never used again");
}

#[test]
fn maxdifference_never_decreases() {
    let mut world = World::new(paper(Parameters::default(), 8));
    let mut before = 0.0;
    for number in 0..200 {
        world.step((number * 7 % 11) % 4);
        let now = world.analyser.store().maxdifference();
        assert!(now >= before);
        before = now;
    }
    assert!(before > 0.0);
}

#[test]
fn an_idle_window_keeps_the_scheduler() {
    let mut analyser = paper(Parameters::default(), 9);
    let mut few = window(0, 0);
    few.accesses.truncate(5);
    let decision = analyser.window(&few, &Observed::default());
    assert_eq!(
        (decision.scheduler, decision.cluster, decision.why),
        (None, None, Why::TooLittle { requests: 5 })
    );
}

#[test]
fn windows_with_an_unknown_scheduler_or_metric_are_not_learned() {
    for decider in [DeciderName::IoAnalyzer, DeciderName::Kinds, DeciderName::Bandit] {
        let mut analyser = analyser(Parameters::default(), 10).with_decider(decider);
        for number in 0..20 {
            let observed = match number % 3 {
                0 => Observed { scheduler: Some(SchedulerId(7)), ..measured(1e6) },
                1 => Observed { scheduler: None, ..measured(1e6) },
                _ => Observed { scheduler: Some(SchedulerId(0)), ..measured(f64::NAN) },
            };
            let decision = analyser.window(&window(0, number), &observed);
            assert_ne!(decision.scheduler, Some(SchedulerId(7)), "{:?}", decision.why);
        }
        let mut values = analyser.store().clusters().iter().flat_map(|cluster| &cluster.performance);
        assert!(values.all(|values| values.count() == 0));
        assert!(analyser.bandit().knows_nothing());
        assert_eq!(analyser.kinds().count(), 0);
    }
}

fn measured(bandwidth: f64) -> Observed {
    let performance = Performance { bandwidth, ..Performance::default() };
    Observed { scheduler: None, performance }
}

#[test]
fn a_change_of_the_device_is_noticed() {
    let mut world = World::new(paper(Parameters { recheck: 20, ..Parameters::default() }, 11));
    world.bandwidth = |_, scheduler, number| {
        if (scheduler == 2) == (number < 200) { 100e6 } else { 60e6 + scheduler as f64 }
    };
    (0..200).for_each(|_| drop(world.step(0)));
    assert_eq!(world.scheduler, SchedulerId(2));
    let right = (0..300).filter(|_| world.step(0).1.scheduler != Some(SchedulerId(2))).count();
    assert!(right > 250, "{right}");
}

#[test]
fn without_measurements_the_table_decides() {
    let curve = |t: f64| vec![Curve { kind: CurveClass::MIXED, points: vec![(4096.0, t)] }];
    let table = Table { curves: [5e6, 9e6, 7e6, 8e6].map(curve).to_vec() };
    let mut world = World::new(paper(Parameters::default(), 12).with_a_priori(table));
    let (_, first) = world.step(0);
    assert_eq!(first.scheduler, Some(SchedulerId(1)));
    assert!(matches!(first.why, Why::APriori { size, .. } if size == 4096.0));
    // Then the untested ones, the most promising first; the first window ran under 0.
    let order: Vec<usize> = (0..3).map(|_| world.step(0).1.scheduler.unwrap().0).collect();
    assert_eq!(order, [3, 2, 2], "0 and 1 ran already; the last is not a trial, as 2 is the best");
}

#[test]
fn the_table_promises_gains_over_none() {
    let names = ["none", "bfq", "kyber", "cfq"].map(str::to_string).to_vec();
    let new = |names: &[String]| {
        Analyser::new(names.to_vec(), Metric::Bandwidth, Parameters::default(), Random::new(1)).unwrap()
    };
    let curve = |t: f64| vec![Curve { kind: CurveClass::MIXED, points: vec![(4096.0, t)] }];
    let table = |of: [f64; 3]| Table { curves: [of.map(curve).to_vec(), vec![Vec::new()]].concat() };
    let gains = |table| new(&names).with_a_priori(table).promised_gains(&window(0, 0));
    assert_eq!(gains(table([5e6, 10e6, 4e6])), Some(vec![0.0, 1.0, 4.0 / 5.0 - 1.0, 0.0]));
    let without_none = Table { curves: vec![Vec::new(), curve(10e6), curve(4e6), Vec::new()] };
    assert_eq!(gains(without_none), None);
    assert_eq!(new(&names).promised_gains(&window(0, 0)), None);
    let others = names[1..].to_vec();
    assert_eq!(new(&others).with_a_priori(table([5e6, 10e6, 4e6])).promised_gains(&window(0, 0)), None);
}

#[test]
fn the_curve_of_the_most_specific_kind_counts() {
    let curve = |reads, t: f64| Curve { kind: CurveClass { reads, random: None }, points: vec![(4096.0, t)] };
    let (mixed, reads) = (curve(None, 5e6), curve(Some(true), 10e6));
    let mut window = window(0, 0);
    window.accesses.iter_mut().for_each(|access| access.op = elevator::Op::Read);
    for of_bfq in [vec![mixed.clone(), reads.clone()], vec![reads, mixed.clone()]] {
        let names = ["none", "bfq"].map(str::to_string).to_vec();
        let table = Table { curves: vec![vec![mixed.clone()], of_bfq] };
        let new = Analyser::new(names, Metric::Bandwidth, Parameters::default(), Random::new(1));
        assert_eq!(new.unwrap().with_a_priori(table).promised_gains(&window), Some(vec![0.0, 1.0]));
    }
}

/// The decision on a window of four readers under a scheduler with this bandwidth; `None`: it could not be measured.
fn decide(tuner: &mut Tuner, number: u64, scheduler: &str, bandwidth: Option<f64>) -> Decision {
    let mut window = window(0, number);
    let places = (0..).map(|n| elevator::Sector(n % 4 * 300_000_000 + n / 4 * 8));
    window.accesses.iter_mut().zip(places).for_each(|(access, place)| access.position = place);
    let performance = measured(bandwidth.unwrap_or(f64::NAN)).performance;
    let (measured, early, failed) = (bandwidth.map(Measured::throughout), false, bandwidth.is_none());
    tuner.window(&Facts { window: &window, scheduler, performance, measured, early, failed })
}

fn of_two_arms() -> Analyser {
    let names = ["none", "bfq{low_latency=0}"].map(str::to_string).to_vec();
    Analyser::new(names, Metric::Bandwidth, Parameters::default(), Random::new(3)).unwrap()
}

/// The paper's deciders make their own trials.
#[test]
fn the_opening_and_the_test_require_kinds() {
    let go_first = |analyser| {
        let mut tuner = Tuner::new(analyser, "none", true);
        let decisions = (0..20).map(|number| decide(&mut tuner, number, "none", Some(300e6)));
        decisions.filter(|decision| decision.restraint.is_some()).count()
    };
    assert_eq!(go_first(of_two_arms()), 20);
    assert_eq!(go_first(of_two_arms().with_decider(DeciderName::IoAnalyzer)), 0);
    assert_eq!(go_first(of_two_arms().with_decider(DeciderName::Bandit)), 0);
}

/// Regression: the line of a failed metric said that the scheduler is set again, also when another one was.
#[test]
fn only_an_opening_that_can_use_the_window_sets_a_scheduler_again() {
    let mut tuner = Tuner::new(of_two_arms(), "none", true);
    let names = tuner.analyser().schedulers().to_vec();
    decide(&mut tuner, 0, "none", Some(1e6));
    let again = decide(&mut tuner, 1, &names[1], Some(1e6));
    assert!(again.change && again.scheduler == Some(SchedulerId(1)), "{again:?}");
    assert!(again.line(&names).contains("; setting it again, because"), "{}", again.line(&names));
    let failed = decide(&mut tuner, 2, &names[1], None).line(&names);
    assert!(failed.ends_with("ends, back to none"), "{failed}");
}

/// A decider of another crate: always the last scheduler.
#[test]
fn a_decider_of_your_own_decides() {
    struct Last;
    impl Decider for Last {
        fn decide(&mut self, _: &mut Learned, input: &Input<'_>, _: &mut Random) -> Choice {
            let scheduler = Some(SchedulerId(input.promise.len() - 1));
            Choice { scheduler, confidence: 1.0, ..Choice::keep(Why::Unmeasured) }
        }
    }
    let own: Box<dyn Decider> = Box::new(Last);
    let mut analyser = analyser(Parameters::default(), 1).with_decider(own);
    let decision = analyser.window(&window(0, 0), &measured(1e6));
    assert_eq!((decision.scheduler, decision.confidence), (Some(SchedulerId(3)), 1.0));
}

/// One access of seven is a write, and `dwell profile` measures reads alone.
#[test]
fn the_table_decides_for_a_load_with_some_writes() {
    let of_reads = |random, t| Curve {
        kind: CurveClass { reads: Some(true), random: Some(random) },
        points: vec![(4096.0, t), (65536.0, 2.0 * t)],
    };
    let curves = |t| vec![of_reads(true, t / 10.0), of_reads(false, t)];
    for decider in [DeciderName::Kinds, DeciderName::IoAnalyzer] {
        let table = Table { curves: [5e6, 9e6, 7e6, 8e6].map(curves).to_vec() };
        let mut world =
            World::new(analyser(Parameters::default(), 12).with_decider(decider).with_a_priori(table));
        let (_, first) = world.step(0);
        assert!(matches!(first.why, Why::APriori { .. }), "{:?}", first.why);
        assert_eq!(first.scheduler, Some(SchedulerId(1)));
    }
}

#[test]
fn a_restored_state_continues_like_the_original() {
    let mut world = World::new(paper(Parameters::default(), 13));
    (0..50).for_each(|number| drop(world.step(number / 2 % 4)));
    let text = serde_json::to_string(&world.analyser.state()).unwrap();
    let state: State = serde_json::from_str(&text).unwrap();
    assert!(state == world.analyser.state(), "text must keep every bit of a number");
    let mut other = World::new(paper(Parameters::default(), 77));
    other.analyser.restore(state).unwrap();
    (other.scheduler, other.number, other.noise) = (world.scheduler, world.number, world.noise);
    for number in 50..100 {
        let (mine, theirs) = (world.step(number / 2 % 4), other.step(number / 2 % 4));
        assert_eq!(mine, theirs, "window {number}");
    }
}

#[test]
fn a_restored_analyser_depends_on_the_saved_state_only() {
    let parameters = Parameters::default();
    let mut learned = World::new(paper(parameters, 13));
    (0..4).for_each(|number| drop(learned.step(number % 2)));
    let state = learned.analyser.state();
    // At its best for the one pattern, when the other comes.
    let mut used = World::new(paper(parameters, 2));
    (0..20).for_each(|_| drop(used.step(0)));
    let go_on = |mut analyser: Analyser| {
        analyser.restore(state.clone()).unwrap();
        let mut world = World { scheduler: best(0), number: 20, ..World::new(analyser) };
        (0..40).map(|number| world.step(1 - number % 2)).collect::<Vec<_>>()
    };
    let new = go_on(paper(parameters, 1));
    used.analyser.learn(Fact::Rejected(SchedulerId(3)));
    assert_eq!(go_on(used.analyser), new);
}

#[test]
fn a_state_that_does_not_fit_is_rejected_or_restored_in_part() {
    let mut world = World::new(paper(Parameters::default(), 14));
    (0..40).for_each(|number| drop(world.step(number % 3)));
    let state = world.analyser.state();
    let mut fresh = paper(Parameters::default(), 1);
    let refused = |fresh: &mut Analyser, change: fn(&mut State)| {
        let mut changed = state.clone();
        change(&mut changed);
        fresh.restore(changed).unwrap_err()
    };
    assert!(refused(&mut fresh, |state| state.version = 2).contains("version 2"));
    assert!(refused(&mut fresh, |state| state.metric = Metric::Iops).contains("Iops, not Bandwidth"));
    assert!(
        refused(&mut fresh, |state| state.made.x = 10).contains("(x) was 10 buckets and is 1000 buckets now")
    );
    assert!(refused(&mut fresh, |state| state.maxdifference = f64::NAN).contains("maxdifference"));
    assert!(refused(&mut fresh, |state| state.clusters[1].id = 0).contains("twice"));
    assert!(refused(&mut fresh, |state| state.clusters[1].points.truncate(3)).contains("3 points"));
    assert!(refused(&mut fresh, |state| state.clusters[1].points[0] = f64::INFINITY).contains("finite"));
    assert!(fresh.store().clusters().is_empty(), "nothing is changed by a refusal");

    // Other schedulers: matched by name.
    let names = ["kyber", "as"].map(str::to_string).to_vec();
    let mut other = Analyser::new(names, Metric::Bandwidth, Parameters::default(), Random::new(1)).unwrap();
    other.restore(state).unwrap();
    let cluster = &other.store().clusters()[0];
    assert_eq!(cluster.performance[0].count(), 0);
    assert_eq!(
        cluster.mean(SchedulerId(1)),
        world.analyser.store().get(cluster.id).unwrap().mean(SchedulerId(3))
    );
}

#[test]
fn invalid_arguments_are_errors() {
    let new = |names: &[&str], parameters| {
        let names = names.iter().map(|name| (*name).to_string()).collect();
        Analyser::new(names, Metric::Iops, parameters, Random::new(0)).err().unwrap()
    };
    assert!(new(&[], Parameters::default()).contains("no scheduler"));
    assert!(new(&["a", "b", "a"], Parameters::default()).contains("'a' is listed twice"));
    assert!(new(&["a"], Parameters { band: 10, x: 0, ..Parameters::default() }).contains("band"));
    assert!(new(&["a"], Parameters { d: 0, ..Parameters::default() }).contains("'d'"));
}
