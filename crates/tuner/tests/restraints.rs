//! The restraints beyond the paper, in a world where trials hurt.

mod world;

use tuner::{
    Analyser, Better, DeciderName, Metric, Observed, Parameters, Performance, Random, Restraint, SchedulerId,
    Why,
};
use world::{World, analyser, names, paper, window};

/// One scheduler is good, the others are dreadful.
fn dreadful(_: usize, scheduler: usize, _: u64) -> f64 {
    if scheduler == 0 { 100e6 } else { 5e6 }
}

/// The worst regret against the good one over any hour, for windows that the good one would give 100 MB/s.
fn worst_hour(given: &[f64]) -> f64 {
    let regret = |hour: &[f64]| 1.0 - hour.iter().sum::<f64>() / (100e6 * hour.len() as f64);
    (1..=given.len()).map(|end| regret(&given[end.saturating_sub(720)..end])).fold(0.0, f64::max)
}

/// With a bound on regret, if asked for.
fn restrained(analyser: Analyser, bound: bool) -> Analyser {
    if bound { analyser.with_regret_bound() } else { analyser }
}

fn given(decider: DeciderName, bound: bool, pattern: fn(usize) -> usize) -> Vec<f64> {
    let parameters = Parameters { recheck: 50, x: 100, clusters: 60, ..Parameters::default() };
    let mut world = World::new(restrained(analyser(parameters, 1).with_decider(decider), bound));
    world.bandwidth = dreadful;
    // Without the measurement's noise, so that the bound can be checked exactly.
    (0..1500).map(|number| if world.step(pattern(number)).0 > 50e6 { 100e6 } else { 5e6 }).collect()
}

#[test]
fn regret_stays_in_its_bound_in_every_hour() {
    for decider in [DeciderName::IoAnalyzer, DeciderName::Kinds] {
        for pattern in [|number| number / 40 % 3, |number| number % 4, |_| 3] {
            let free = worst_hour(&given(decider, false, pattern));
            let bound = worst_hour(&given(decider, true, pattern));
            println!(
                "{decider:?}: worst hour {:.1}% without, {:.1}% with the bound",
                free * 100.0,
                bound * 100.0
            );
            assert!(bound <= 0.055, "{bound}");
            assert!(free > 0.05, "the world is too easy: {free}");
        }
    }
}

#[test]
fn a_harmful_switch_is_reverted_immediately() {
    let mut world = World::new(restrained(paper(Parameters::default(), 1), true));
    world.bandwidth = dreadful;
    let (mut hurt, mut back) = (0, 0);
    for _ in 0..200 {
        let under = world.scheduler;
        let (_, decision) = world.step(0);
        if under != SchedulerId(0) {
            hurt += 1;
            back += u32::from(decision.scheduler == Some(SchedulerId(0)));
        }
    }
    assert!(hurt >= 3, "each was tried: {hurt}");
    assert_eq!(hurt, back);
}

/// A trial by kinds is of two windows, and all schedulers do badly in the first after a switch.
#[test]
fn an_allowed_trial_is_completed() {
    for (better, cold) in [(Better::Higher, 1.0 / 3.0), (Better::Lower, 3.0)] {
        let parameters = Parameters { x: 100, ..Parameters::default() };
        let analyser = Analyser::new(names(), Metric::External(better), parameters, Random::new(1)).unwrap();
        let mut analyser = analyser.with_regret_bound();
        let (mut scheduler, mut switched, mut first_trials) = (SchedulerId(0), false, 0);
        for number in 0..1500 {
            let external = Some(if switched { cold } else { 1.0 });
            let performance = Performance { external, ..Performance::default() };
            let observed = Observed { scheduler: Some(scheduler), performance };
            let decision = analyser.window(&window(0, number), &observed);
            if let Why::Kind(served) = decision.why {
                let ends_early = served.trial == 1 && decision.change;
                assert!(!ends_early, "window {number}: {}", decision.line(analyser.schedulers()));
                let begins = served.trial == 2 && decision.restraint.is_none();
                first_trials += u32::from(begins && !served.again);
            }
            (scheduler, switched) = (decision.scheduler.unwrap_or(scheduler), decision.change);
        }
        println!("{better:?}: {first_trials} first trials of three schedulers");
        assert_eq!(first_trials, 3);
    }
}

#[test]
fn the_end_of_a_harmful_trial_is_not_a_rollback() {
    let parameters = Parameters { x: 100, ..Parameters::default() };
    let mut world = World::new(restrained(analyser(parameters, 1), true));
    let mut ran = [false; 4];
    for _ in 0..600 {
        // Poor when it is used for the first time of all, which is on trial; then as good as any.
        world.bandwidth = if ran[world.scheduler.0] { |_, _, _| 100e6 } else { |_, _, _| 80e6 };
        ran[world.scheduler.0] = true;
        let (_, decision) = world.step(0);
        let is_trial = matches!(decision.why, Why::Kind(served) if served.trial > 0);
        if let Some(Restraint::RegretBound { regret, .. }) = decision.restraint {
            assert!(is_trial || regret > 0.05, "{}", decision.line(world.analyser.schedulers()));
        }
    }
    assert_eq!(ran, [true; 4]);
}

#[test]
fn a_rollback_is_not_reverted() {
    // All are equal, and each does badly in the first window after a switch.
    for decider in [DeciderName::Kinds, DeciderName::IoAnalyzer] {
        let parameters = Parameters { x: 100, ..Parameters::default() };
        let mut world = World::new(restrained(analyser(parameters, 1).with_decider(decider), true));
        let (mut switched, mut went_back, mut in_all) = (false, false, 0);
        for _ in 0..600 {
            world.bandwidth = if switched { |_, _, _| 70e6 } else { |_, _, _| 100e6 };
            let (_, decision) = world.step(0);
            let goes_back = matches!(decision.restraint, Some(Restraint::Rollback { .. }));
            assert!(!(went_back && goes_back), "{}", decision.line(world.analyser.schedulers()));
            (switched, went_back) = (decision.change, goes_back);
            in_all += u32::from(goes_back);
        }
        println!("went back {in_all} times");
        assert!(in_all > 0);
    }
}
