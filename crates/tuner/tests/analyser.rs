//! The analyser around its deciders: openings, tables, rejected arms, searches.

mod world;

use tuner::selector::{Curve, Kind, Table};
use tuner::{
    Better, DeciderName, Ladder, Load, Measured, Observed, Opened, Parameters, Performance, RegretBound,
    SchedulerId, Space, Why,
};
use world::{World, analyser, window};

fn few_points() -> Parameters {
    Parameters { x: 100, ..Parameters::default() }
}

fn observed(scheduler: usize, bandwidth: f64) -> Observed {
    let performance = Performance { bandwidth, ..Performance::default() };
    Observed { scheduler: Some(SchedulerId(scheduler)), performance }
}

fn table() -> Table {
    let curve = |t: f64| vec![Curve { kind: Kind::MIXED, points: vec![(4096.0, t)] }];
    Table { curves: [5e6, 9e6, 7e6, 8e6].map(curve).to_vec() }
}

fn spaces() -> Vec<Space> {
    let values = (0..9).map(|value| value.to_string()).collect();
    let ladders = vec![Ladder { setting: "idle".to_owned(), values }];
    vec![Space { scheduler: "cfq".to_owned(), ladders }]
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
    analyser.opened(
        0,
        &Opened {
            values,
            load: Load::default(),
            clear: false,
            best: Some(2),
            confirmed: None,
            hopeless: Vec::new(),
        },
    );
    for number in 4..14 {
        let decision = analyser.window(&window(0, number), &observed(2, 40.0));
        assert_eq!(decision.scheduler, Some(SchedulerId(2)), "window {number}");
    }
    let known = analyser.kinds().compared(0, Some(SchedulerId(0)), Better::Higher).expect("known");
    let gains = [1, 2, 3].map(|scheduler| known.gain(SchedulerId(scheduler)).expect("tried"));
    assert!(gains[0] < 0.0 && (gains[1] - 3.0).abs() < 1e-9 && gains[2] < 0.0, "{gains:?}");
}

#[test]
fn a_search_keeps_the_table_and_the_bound() {
    let new = || analyser(few_points(), 1).with_a_priori(table());
    let mut searching = new().with_search(spaces(), 2).unwrap();
    let decision = searching.window(&window(0, 0), &observed(0, 1e6));
    assert!(matches!(decision.why, Why::APriori { .. }), "{:?}", decision.why);
    assert!(searching.allows_significance_test());
    let bound = RegretBound::new(6, Better::Higher);
    assert!(!new().with_regret_bound(bound).with_search(spaces(), 2).unwrap().allows_significance_test());
    let paper = new().with_decider(DeciderName::IoAnalyzer).with_search(spaces(), 2).unwrap();
    assert!(!paper.allows_significance_test());
}

/// The paper's deciders use the table on each miss while nothing is known, kinds before their first window only.
#[test]
fn ioanalyzer_uses_the_table_until_it_has_a_value() {
    for (decider, again) in [(DeciderName::IoAnalyzer, true), (DeciderName::Kinds, false)] {
        let mut analyser = analyser(few_points(), 1).with_decider(decider).with_a_priori(table());
        analyser.window(&window(0, 0), &observed(0, f64::NAN));
        let decision = analyser.window(&window(1, 1), &observed(0, f64::NAN));
        assert_eq!(matches!(decision.why, Why::APriori { .. }), again, "{decider}: {:?}", decision.why);
    }
}

#[test]
fn ioanalyzer_tries_no_rejected_scheduler() {
    let mut world = World::new(analyser(few_points(), 1).with_decider(DeciderName::IoAnalyzer));
    world.analyser.rejected(SchedulerId(1));
    world.analyser.rejected(SchedulerId(1));
    let mut tried = [false; 4];
    for _ in 0..60 {
        let (_, decision) = world.step(0);
        if matches!(decision.why, Why::Untested { .. }) {
            decision.scheduler.into_iter().for_each(|scheduler| tried[scheduler.0] = true);
        }
    }
    assert!(!tried[1] && (tried[2] || tried[3]), "{tried:?}");
}

#[test]
fn new_settings_of_a_rejected_arm_are_tried() {
    let analyser = analyser(few_points(), 1).with_decider(DeciderName::IoAnalyzer);
    let mut analyser = analyser.with_search(spaces(), 2).unwrap();
    let before = analyser.schedulers()[4].clone();
    (4..6).for_each(|arm| analyser.rejected(SchedulerId(arm)));
    let (mut arm, mut tried) = (SchedulerId(0), [false; 6]);
    for number in 0..120 {
        arm = analyser.window(&window(0, number), &observed(arm.0, 1e6)).scheduler.unwrap_or(arm);
        tried[arm.0] = true;
    }
    assert_ne!(analyser.schedulers()[4], before);
    assert!(tried[4] && tried[5], "{tried:?}");
}
