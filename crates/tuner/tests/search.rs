//! The search of settings, in a world where some are better than what is preset.

mod world;

use tuner::{DeciderName, Ladder, Observed, Parameters, Performance, SchedulerId, Space};
use world::{analyser, window};

/// Two settings of one scheduler: the first counts most when it is 0, the second is best in the middle.
fn spaces() -> Vec<Space> {
    let ladder = |setting: &str, values: u64| Ladder {
        setting: setting.to_owned(),
        values: (0..values).map(|value| value.to_string()).collect(),
    };
    vec![Space { scheduler: "cfq".to_owned(), ladders: vec![ladder("idle", 6), ladder("turn", 7)] }]
}

/// What an arm gives: the plain ones 60 to 100 MB/s, settings of cfq 45 to 130.
fn bandwidth(arm: &str) -> f64 {
    let setting = |name: &str| -> f64 {
        let rest = arm.split_once(name).map_or("", |(_, rest)| rest.trim_start_matches('='));
        rest.split([',', '}']).next().and_then(|value| value.parse().ok()).unwrap_or(0.0)
    };
    match arm {
        "cfq" => 100e6,
        "noop" | "deadline" | "as" => 60e6,
        _ => 130e6 - 8e6 * setting("idle") - 15e6 * (setting("turn") - 3.0).abs(),
    }
}

/// The mean of the last hundred of six hundred windows, as a part of what the best plain scheduler gives.
fn end(decider: DeciderName, open: usize, seed: u64) -> f64 {
    let parameters = Parameters { x: 100, recheck: 0, ..Parameters::default() };
    let mut analyser = analyser(parameters, seed).with_decider(decider);
    if open > 0 {
        analyser = analyser.with_search(spaces(), open).unwrap();
    }
    let (mut arm, mut late) = (SchedulerId(0), 0.0);
    for number in 0..600 {
        let given = bandwidth(&analyser.schedulers()[arm.0]);
        late += if number >= 500 { given } else { 0.0 };
        let performance = Performance { bandwidth: given, ..Performance::default() };
        let observed = Observed { scheduler: Some(arm), performance };
        arm = analyser.window(&window(0, number), &observed).scheduler.unwrap_or(arm);
    }
    late / 100.0 / 100e6
}

#[test]
fn settings_that_are_better_are_found_and_kept() {
    let found: Vec<f64> = (1..=5).map(|seed| end(DeciderName::IoAnalyzer, 2, seed)).collect();
    let plain = end(DeciderName::IoAnalyzer, 0, 1);
    println!("over the best plain scheduler: {plain:.3} without, {found:.3?} with a search");
    assert!((plain - 1.0).abs() < 0.01, "{plain}");
    assert!(found.iter().all(|&part| part > 1.1), "{found:?}");
}

#[test]
fn the_search_works_with_kinds_too() {
    let found: Vec<f64> = (1..=5).map(|seed| end(DeciderName::Kinds, 2, seed)).collect();
    println!("by kinds, over the best plain scheduler: {found:.3?}");
    assert!(found.iter().all(|&part| part > 1.0) && found.iter().sum::<f64>() > 5.5, "{found:?}");
}

#[test]
fn open_arms_are_saved_and_restored() {
    let mut first = analyser(Parameters::default(), 1).with_search(spaces(), 2).unwrap();
    let state = first.state();
    let names = first.schedulers().to_vec();
    let mut second = analyser(Parameters::default(), 7).with_search(spaces(), 2).unwrap();
    second.restore(state).unwrap();
    assert_eq!(second.schedulers(), names);
    assert_eq!(second.plain(), ["noop", "deadline", "cfq", "as"]);
    let mut fewer = analyser(Parameters::default(), 7).with_search(spaces(), 1).unwrap();
    fewer.restore(second.state()).unwrap();
    for number in 0..500 {
        let observed = Observed { scheduler: Some(SchedulerId(0)), ..Observed::default() };
        fewer.window(&window(0, number), &observed);
        let saved = fewer.state().schedulers;
        let once: std::collections::BTreeSet<_> = saved.iter().collect();
        assert_eq!(once.len(), saved.len(), "what is searched was given a name that is kept: {saved:?}");
        assert!(saved.contains(&names[5]), "{saved:?}");
    }
    let plain = analyser(Parameters::default(), 1).state();
    first.restore(plain).unwrap();
    assert_eq!(first.schedulers(), names, "a state without a search leaves what is open as it is");
}
