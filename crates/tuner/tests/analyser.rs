//! The analyser around its deciders: openings, tables, rejected arms.

mod world;

use tuner::throughput::{Curve, CurveClass, Table};
use tuner::{Better, DeciderName, Fact, Load, Measured, Observed, Opened, Performance, SchedulerId, Why};
use world::{World, analyser, few_points, window};

fn observed(scheduler: usize, bandwidth: f64) -> Observed {
    let performance = Performance { bandwidth, ..Performance::default() };
    Observed { scheduler: Some(SchedulerId(scheduler)), performance }
}

fn table() -> Table {
    let curve = |t: f64| vec![Curve { kind: CurveClass::MIXED, points: vec![(4096.0, t)] }];
    Table { curves: [5e6, 9e6, 7e6, 8e6].map(curve).to_vec() }
}

#[test]
fn the_number_behind_the_last_scheduler_is_unknown() {
    let mut analyser = analyser(few_points(), 1);
    let decision = analyser.window(&window(0, 0), &observed(4, 1e6));
    assert_eq!((decision.why, decision.scheduler), (Why::Unmeasured, None));
}

#[test]
fn after_an_opening_the_best_scheduler_is_used() {
    let mut analyser = analyser(few_points(), 1);
    let given = [10.0, 5.0, 40.0, 8.0];
    for (scheduler, value) in given.into_iter().enumerate() {
        analyser.window(&window(0, scheduler as u64), &observed(scheduler, value));
    }
    let values = given.map(|value| Some(Measured::throughout(value))).to_vec();
    let (load, hopeless) = (Load::default(), Vec::new());
    let opened = Opened { values, load, clear: false, best: Some(2), confirmed: None, hopeless };
    analyser.learn(Fact::Opened(0, &opened));
    for number in 4..14 {
        let decision = analyser.window(&window(0, number), &observed(2, 40.0));
        assert_eq!(decision.scheduler, Some(SchedulerId(2)), "window {number}");
    }
    let known = analyser.kinds().compared(0, Some(SchedulerId(0)), Better::Higher).expect("known");
    let gains = [1, 2, 3].map(|scheduler| known.gain(SchedulerId(scheduler)).expect("tried"));
    assert!(gains[0] < 0.0 && (gains[1] - 3.0).abs() < 1e-9 && gains[2] < 0.0, "{gains:?}");
}

/// The paper's deciders use the table on each miss while nothing is known, kinds before their first window only.
#[test]
fn ioanalyzer_uses_the_table_until_it_has_a_value() {
    for (decider, again) in [(DeciderName::IoAnalyzer, true), (DeciderName::Kinds, false)] {
        let mut analyser = analyser(few_points(), 1).with_decider(decider).with_a_priori(table());
        analyser.window(&window(0, 0), &observed(0, f64::NAN));
        let decision = analyser.window(&window(1, 1), &observed(0, f64::NAN));
        assert_eq!(matches!(decision.why, Why::APriori { .. }), again, "{decider:?}: {:?}", decision.why);
    }
}

#[test]
fn ioanalyzer_tries_no_rejected_scheduler() {
    let mut world = World::new(analyser(few_points(), 1).with_decider(DeciderName::IoAnalyzer));
    world.analyser.learn(Fact::Rejected(SchedulerId(1)));
    world.analyser.learn(Fact::Rejected(SchedulerId(1)));
    let mut tried = [false; 4];
    for _ in 0..60 {
        let (_, decision) = world.step(0);
        if matches!(decision.why, Why::Untested { .. }) {
            decision.scheduler.into_iter().for_each(|scheduler| tried[scheduler.0] = true);
        }
    }
    assert!(!tried[1] && (tried[2] || tried[3]), "{tried:?}");
}
