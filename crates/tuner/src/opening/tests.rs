//! The order of trials, by values of each scheduler.

use super::*;
use elevator::{Op, Sector, Sectors, Span, Time};
use observation::Access;

const NAMES: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq{low_latency=0}"];

/// Four sequential readers of a disk, or requests at random.
fn window(streams: bool) -> Window {
    let access = |n: u64| Access {
        time: Time::ZERO,
        position: Sector(if streams { n % 4 * (1 << 28) + n / 4 * 8 } else { n * 99_999_999 % (1 << 30) }),
        op: Op::Read,
        size: Sectors(8),
    };
    Window { start: Time::ZERO, length: Span::from_secs(5), accesses: (0..600).map(access).collect() }
}

/// The schedulers of 40 windows on a device where window `n` under a scheduler has this value, and the results.
fn opened(streams: bool, value: impl Fn(usize, usize) -> f64) -> (Vec<usize>, Opened) {
    let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
    let (mut ran, mut all) = (0, Vec::new());
    while !opening.is_over() && all.len() < 40 {
        all.push(ran);
        let measured = Measured::throughout(value(ran, all.len()));
        let step = opening.window(ran, measured, (&window(streams), true), None);
        ran = step.scheduler.unwrap_or(ran);
    }
    (all, opening.results())
}

#[test]
fn the_highest_expected_gain_is_tried_first_and_lower_bounds_are_skipped() {
    let (all, opened) = opened(true, |arm, _| [0.5, 0.5, 0.5, 36.0][arm]);
    assert_eq!(all, [&[0, 3, 3][..], &[3; STAY], &[0]].concat());
    assert!(opened.clear && opened.best == Some(3) && opened.confirmed == Some((3, 0)), "{opened:?}");
}

#[test]
fn a_gain_is_confirmed_by_the_windows_of_the_stay_or_by_its_size() {
    let confirmed = |value: fn(usize, usize) -> f64| {
        let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
        let (mut ran, mut confirmed) = (0, Vec::new());
        for n in 0..12 {
            let measured = Measured::throughout(value(ran, n));
            ran = opening.window(ran, measured, (&window(true), true), None).scheduler.unwrap_or(ran);
            confirmed.push(opening.results().confirmed);
        }
        confirmed
    };
    let first = |all: &[Option<(usize, usize)>]| all.iter().position(Option::is_some);
    let plain = confirmed(|ran, _| [0.5, 0.5, 0.5, 36.0][ran]);
    assert_eq!((first(&plain), plain[2]), (Some(2), Some((3, 0))), "after the two windows of its trial");
    // Less than PLAIN: the first window is measured again before the stay. Less than expected: a second instance is tried.
    let clear = confirmed(|ran, _| [10.0, 10.0, 10.0, 18.0][ran]);
    assert_eq!(first(&clear), Some(4 + VERIFY), "{clear:?}");
    // The trial's value was too high, and the scheduler is still the best.
    let overstated = confirmed(|ran, n| [10.0, 10.0, 10.0, if n < 4 { 19.5 } else { 14.0 }][ran]);
    assert_eq!(first(&overstated), Some(4 + VERIFY), "{overstated:?}");
    // It was not better in the stay.
    let refuted = confirmed(|ran, n| [10.0, 10.0, 10.0, if n < 4 { 19.5 } else { 9.0 }][ran]);
    assert_eq!(first(&refuted), None, "{refuted:?}");
}

/// `bfq{low_latency=0}`, set by hand while the programs ran, has the value of `none`.
#[test]
fn a_scheduler_in_use_whose_settings_follow_the_switch_is_set_again() {
    let run = |by_hand: f64| {
        let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
        let (mut ran, mut all, mut set) = (3, Vec::new(), false);
        while all.len() < 8 {
            all.push(ran);
            let value = if ran == 3 && !set { by_hand } else { [0.5, 0.5, 0.5, 36.0][ran] };
            let step = opening.window(ran, Measured::throughout(value), (&window(true), true), None);
            set |= opening.needs_another_instance();
            ran = step.scheduler.unwrap_or(ran);
        }
        assert!(set, "{all:?}");
        all
    };
    for by_hand in [0.6, 36.0] {
        assert_eq!(run(by_hand), [3, 0, 3, 3, 3, 3, 3, 3], "{by_hand}");
    }
    // Random reads, for which it has no gain.
    let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
    opening.window(3, Measured::throughout(10.0), (&window(false), true), None);
    assert_eq!(opening.inherited, None);
}

#[test]
fn a_gain_is_clear_only_if_none_is_as_slow_after_the_stay() {
    let (all, opened) = opened(true, |arm, n| match arm {
        3 => 36.0,
        0 if n > 1 => 30.0,
        _ => 0.5,
    });
    assert_eq!(all.last(), Some(&0));
    assert!(!opened.clear && opened.best == Some(3) && opened.confirmed.is_none(), "{opened:?}");
}

#[test]
fn a_clearly_worse_scheduler_is_abandoned_after_one_window() {
    let (all, opened) = opened(false, |arm, _| [100.0, 101.0, 100.0, 30.0][arm]);
    assert_eq!(all, [0, 1, 2, 3, 0]);
    assert_eq!((opened.clear, opened.hopeless), (false, vec![3]));
}

/// Regression: a loss of a fifth was "less than half" of an expected loss of a tenth. The scheduler was set again twice, and then warmed up.
#[test]
fn a_scheduler_that_loses_as_expected_has_one_window() {
    let names = ["none", "mq-deadline", "kyber", "bfq", "bfq{low_latency=0}"].map(str::to_owned);
    let windows = |of_streams, last: f64| {
        let mut opening = Opening::new(&names, Metric::Bandwidth);
        let (mut ran, mut all, mut set_again) = (0, Vec::new(), 0);
        while all.len() < 8 && !opening.is_over() {
            all.push(ran);
            let measured = Measured::throughout([100.0, 101.0, 102.0, 90.0, last][ran]);
            let step = opening.window(ran, measured, (&window(of_streams), true), None);
            set_again += usize::from(opening.needs_another_instance());
            ran = step.scheduler.unwrap_or(ran);
        }
        (all, set_again)
    };
    assert_eq!(windows(false, 80.0), (vec![0, 1, 2, 3, 4, 0], 0));
    assert_eq!(
        windows(false, 101.0),
        (vec![0, 1, 2, 3, 4, 0], 0),
        "the loss against the best is what counts"
    );
    let (all, set_again) = windows(false, 120.0);
    assert_eq!((&all[..6], set_again), (&[0, 1, 2, 3, 4, 4][..], 0), "a gain has a second window");
    let (all, set_again) = windows(true, 80.0);
    assert_eq!(
        (&all[..5], set_again),
        (&[0, 4, 4, 4, 4][..], 2),
        "readers in sequence, for which it should gain"
    );
}

#[test]
fn a_trial_ends_inside_a_window_by_the_same_limits() {
    let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
    assert_eq!(opening.early_end(), None, "the first window is no trial");
    // A scheduler that waits for readers may lose three fifths at first, as it is expected to gain.
    let mut to_end = |ran, value| {
        opening.window(ran, Measured::throughout(value), (&window(true), true), None);
        opening.early_end().map(|end| (end.scheduler, end.reference.value, end.limit))
    };
    assert_eq!(to_end(0, 10.0), Some((3, 10.0, COLD)));
    assert_eq!(to_end(3, 8.0), Some((3, 10.0, COLD)), "a second instance");
    assert_eq!(to_end(3, 30.0), Some((3, 10.0, ABANDON)), "its second window");
    assert_eq!(to_end(3, 30.0), None, "it stays");
}

#[test]
fn a_scheduler_whose_settings_may_have_come_too_late_is_set_again() {
    let again = |first: f64, names: [&str; 2]| {
        let mut opening = Opening::new(&names.map(str::to_owned), Metric::Bandwidth);
        let mut window = |ran, value| {
            let step = opening.window(ran, Measured::throughout(value), (&window(true), true), None);
            (step.scheduler, opening.needs_another_instance())
        };
        [window(0, 10.0), window(1, first), window(1, first), window(1, first)].map(|(_, again)| again)
    };
    let bfq = ["none", "bfq{low_latency=0}"];
    assert_eq!(again(9.5, bfq), [false, true, true, false], "expected: three times as much");
    assert_eq!(again(30.0, bfq), [false; 4]);
    assert_eq!(again(9.5, ["none", "bfq"]), [false; 4], "it has no settings of its own");
}

/// Regression: the burst after the switch counted by half, and the scheduler stayed without a gain.
#[test]
fn a_burst_after_the_switch_is_no_gain() {
    let none = |n: usize| 0.48 + (n % 3) as f64 / 100.0;
    let (all, opened) = opened(true, |arm, n| if arm == 3 && n == 2 { 8.8 } else { none(n) });
    assert_eq!(all[..6], [0, 3, 3, 3, 3, 3], "three instances");
    assert!(all.len() <= 9 && !opened.clear && opened.confirmed.is_none(), "{all:?} {opened:?}");
    let value = opened.values[3].map(|of| of.value).expect("tried");
    assert!(value < 0.51, "{value}");
}

/// Regression: `none` was never measured again after the value had fallen to its level.
#[test]
fn a_value_that_falls_to_that_of_none_ends_the_stay() {
    for end in [6, 10, 15] {
        let (all, opened) = opened(true, |arm, n| if arm == 3 && n < end { 9.0 } else { 0.5 });
        let fell = all.iter().rposition(|arm| *arm == 3).expect("it stayed");
        assert!(fell <= end + 2 * VERIFY && all[fell..].contains(&0), "{end}: {all:?}");
        assert!(!opened.clear && opened.confirmed.is_none(), "{end}: {opened:?}");
        assert!(opened.values[3].is_some_and(|of| of.value < 0.6), "{end}: {opened:?}");
    }
    // The load changed, under each scheduler.
    let (all, opened) = opened(true, |arm, n| [0.5, 0.5, 0.5, 9.0][arm] * if n < 10 { 1.0 } else { 0.2 });
    assert_eq!((all.last(), opened.best, opened.clear), (Some(&0), Some(3), true), "{all:?}");
}

/// `bfq` merges the queues of running programs at some switches and not at others.
#[test]
fn a_scheduler_whose_value_fell_is_set_again_once() {
    // The second instance gains, or none does for long.
    for (lasting, expected) in [(1, true), (9, false)] {
        let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
        let (mut ran, mut instance, mut windows) = (0, 0, Vec::new());
        while !opening.is_over() && windows.len() < 60 {
            let gains = ran == 3 && (instance == lasting || windows.len() < 4);
            let step = opening.window(
                ran,
                Measured::throughout(if gains { 9.0 } else { 0.5 }),
                (&window(true), true),
                None,
            );
            windows.push(ran);
            instance += usize::from(opening.needs_another_instance());
            ran = step.scheduler.unwrap_or(ran);
        }
        assert_eq!(windows[..8], [0, 3, 3, 3, 3, 3, 3, 3], "{windows:?}");
        let opened = opening.results();
        assert_eq!((opened.clear, opened.best == Some(3)), (expected, expected), "{windows:?} {opened:?}");
        assert!(instance <= 5 && windows.len() < 35, "{instance} {windows:?}");
    }
}

/// Regression: the burst of a second instance counted as its value, and the scheduler stayed for three windows at the level of `none`.
#[test]
fn a_useless_instance_takes_two_windows_also_if_it_is_not_the_first() {
    let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
    let (mut ran, mut instance, mut of_instance, mut values) = (0, 0, 0, Vec::new());
    for _ in 0..8 {
        // MB/s of a measured run: two instances that were useless after a burst.
        let value = match (ran, instance, of_instance) {
            (3, 0 | 1, 0) => 1.7,
            (3, 2, _) => 20.0,
            _ => 0.48,
        };
        of_instance += 1;
        values.push(value);
        let step = opening.window(ran, Measured::throughout(value), (&window(true), true), None);
        if opening.needs_another_instance() {
            (instance, of_instance) = (instance + 1, 0);
        }
        if step.scheduler.is_some_and(|next| next != ran) {
            (ran, of_instance) = (step.scheduler.unwrap(), 0);
        }
    }
    assert_eq!(values, [0.48, 1.7, 0.48, 1.7, 0.48, 20.0, 20.0, 20.0]);
}

#[test]
fn stays_whose_values_keep_falling_are_limited() {
    let (all, _) = opened(true, |arm, n| if arm == 3 { 0.7_f64.powi(n as i32 / 4) } else { 1e-9 });
    assert!(
        all.len() < 40 && all.iter().filter(|arm| **arm == 0).count() <= 2 + RELAPSES as usize,
        "{all:?}"
    );
}

#[test]
fn a_disturbed_first_window_is_measured_again() {
    let (all, opened) = opened(false, |arm, n| if n == 1 { 50.0 } else { [100.0, 99.0, 100.0, 60.0][arm] });
    assert_eq!((all, opened.best), (vec![0, 1, 0, 2, 3], Some(0)));
}

#[test]
fn after_a_lucky_trial_the_other_schedulers_are_tried() {
    let (all, opened) =
        opened(true, |arm, n| if arm == 3 && n > 3 { 5.0 } else { [10.0, 12.0, 10.0, 90.0][arm] });
    assert_eq!(all[..11], [0, 3, 3, 3, 3, 3, 3, 3, 0, 1, 2], "it is set and tried again first, then `none`");
    assert_eq!(opened.best, Some(1));
}

#[test]
fn a_rejected_scheduler_is_not_tried_again() {
    let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
    let first = opening.window(0, Measured::throughout(1.0), (&window(true), true), None);
    assert_eq!(first.scheduler, Some(3));
    assert_eq!(opening.rejected(3).scheduler, Some(1));
    assert!(opening.results().values[3].is_none());
    let next = opening.window(0, Measured::throughout(1.0), (&window(true), true), None);
    assert_eq!(next.scheduler, Some(1));
    assert!(next.why.starts_with("bfq{low_latency=0} cannot be used and is skipped; trying mq-"), "{next:?}");
}

/// Regression: the line had no reason.
#[test]
fn an_opening_whose_last_scheduler_is_rejected_ends_with_a_reason() {
    let mut opening = Opening::new(&["none", "kyber"].map(str::to_owned), Metric::Bandwidth);
    opening.window(0, Measured::throughout(1.0), (&window(true), true), None);
    opening.rejected(1);
    let last = opening.window(0, Measured::throughout(1.0), (&window(true), true), None);
    let why = "kyber cannot be used and is skipped".to_owned();
    assert_eq!((opening.is_over(), last), (true, Step { scheduler: None, why }));
}

#[test]
fn none_is_tried_even_if_four_others_promise_more() {
    let names = ["bfq", "none", "kyber", "dwell", "cfq", "anticipatory", "mq-deadline"].map(str::to_owned);
    let mut opening = Opening::new(&names, Metric::Bandwidth);
    let (mut ran, mut all) = (0, Vec::new());
    while !opening.is_over() && all.len() < 9 {
        all.push(ran);
        let measured = Measured::throughout(10.0);
        ran = opening.window(ran, measured, (&window(true), true), None).scheduler.unwrap_or(ran);
    }
    assert!(all.contains(&1), "{all:?}");
    assert!(opening.left.is_empty() && opening.results().values.iter().flatten().count() <= 1 + TRIALS);
}

#[test]
fn the_load_is_that_of_the_latest_window_under_none() {
    let names = ["mq-deadline", "none"].map(str::to_owned);
    let mut opening = Opening::new(&names, Metric::Bandwidth);
    let (one, mut other) = (window(true), window(true));
    other.accesses.truncate(300);
    assert_eq!(opening.window(0, Measured::throughout(1.0), (&one, true), None).scheduler, Some(1));
    assert_eq!(opening.results().load, observed(&one, None));
    opening.window(1, Measured::throughout(1.0), (&other, true), None);
    assert_eq!(opening.results().load, observed(&other, None));
    opening.window(0, Measured::throughout(1.0), (&one, true), None);
    assert_eq!(opening.results().load, observed(&other, None), "another scheduler changes what is requested");
}

/// The windows of an opening whose load is that of `streams` for each window, with the reasons.
fn opened_under(
    streams: impl Fn(usize, usize) -> bool,
    value: impl Fn(usize, bool) -> f64,
) -> (Opening, Vec<(usize, String)>) {
    let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
    let (mut ran, mut all) = (0, Vec::new());
    while !opening.is_over() && all.len() < 60 {
        let of_streams = streams(ran, all.len());
        let measured = Measured::throughout(value(ran, of_streams));
        let step = opening.window(ran, measured, (&window(of_streams), true), None);
        all.push((ran, step.why));
        ran = step.scheduler.unwrap_or(ran);
    }
    (opening, all)
}

/// Regression: schedulers that were equal for random reads were compared with the value of `none` for streams, and abandoned.
#[test]
fn no_value_is_compared_with_one_of_another_load() {
    // kB/s of a measured run.
    let value = |arm: usize, streams: bool| if streams { [742.0, 750.0, 745.0, 15e3][arm] } else { 430.0 };
    for change in [4, 8, 15] {
        let (opening, all) = opened_under(|_, n| n < change, value);
        let after: Vec<&str> = all[change..].iter().map(|(_, why)| &**why).collect();
        assert!(after[0].starts_with("the requests differ from those before"), "{change}: {after:?}");
        let began = "the load changed; measured bfq{low_latency=0} for random reads; trying mq-deadline";
        assert!(after[1].starts_with(began), "{change}: {after:?}");
        let compared: Vec<&&str> = after.iter().filter(|why| why.contains("against")).collect();
        assert!(compared.len() >= 2, "{change}: {after:?}");
        assert!(compared.iter().all(|why| why.contains("+0% against")), "{change}: {after:?}");
        assert_eq!(opening.results().values, [Some(Measured::throughout(430.0)); 4], "{change}");
    }
}

#[test]
fn a_load_that_changes_in_a_trial_is_another_one_if_the_reference_has_it_too() {
    let value = |arm: usize, streams: bool| if streams { [742.0, 750.0, 745.0, 15e3][arm] } else { 430.0 };
    let (_, all) = opened_under(|_, n| n == 0, value);
    let whys: Vec<&str> = all.iter().map(|(_, why)| &**why).collect();
    assert!(
        whys[1].contains("-42% against a window of none in its first window"),
        "it is not known yet: {whys:?}"
    );
    assert!(whys[2].ends_with("with other requests than before; measuring none again"), "{whys:?}");
    assert!(whys[3].starts_with("the load changed; measured none for random reads; trying"), "{whys:?}");
    assert!(
        whys[4..].iter().filter(|why| why.contains("against")).all(|why| why.contains("+0%")),
        "{whys:?}"
    );
}

#[test]
fn requests_that_differ_under_one_scheduler_only_are_its_effect() {
    let (opening, all) = opened_under(|arm, _| arm != 3, |arm, _| [10.0, 10.0, 10.0, 36.0][arm]);
    let order: Vec<usize> = all.iter().map(|(arm, _)| *arm).collect();
    assert_eq!(order[..5], [0, 3, 3, 0, 3], "{all:?}");
    assert!(all[3].1.starts_with("measured none again: the load has not changed; using bfq"), "{all:?}");
    assert!(opening.results().clear, "{all:?}");
}

#[test]
fn an_opening_of_loads_that_alternate_ends() {
    let (opening, all) = opened_under(|_, n| n / 3 % 2 == 0, |_, _| 10.0);
    assert!(all.len() < 30 && opening.is_over(), "{all:?}");
    assert_eq!(all.last().map(|(_, why)| &**why), Some("the load changes too often to compare schedulers"));
    assert_eq!(opening.results().values, [None; 4]);
}

/// Regression: `tune` compared a scheduler with a window of `none` in which the readers started, which `patterns` does not count.
#[test]
fn a_window_in_which_the_load_begins_is_measured_again() {
    let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
    let mut ended = |ran, value, is_whole| {
        opening.window(ran, Measured::throughout(value), (&window(true), is_whole), None)
    };
    let first = ended(0, 0.2, false);
    assert_eq!(
        (first.scheduler, &*first.why),
        (Some(0), "the load began or ended in this window; measuring another one")
    );
    assert_eq!(ended(0, 0.5, true).scheduler, Some(3));
    assert_eq!(ended(3, 1.6, false).scheduler, Some(3));
    // A load with pauses has no other windows.
    assert!(ended(3, 1.6, false).why.contains("+220% against a window of none in its first window"));
}

/// The better value of the two windows under `none` counts: the other one was disturbed.
#[test]
fn a_repeated_window_of_none_counts_if_it_was_better() {
    for (again, expected) in [(0.6, 0.6), (0.4, 0.5)] {
        let (all, opened) = opened(true, |arm, n| match arm {
            3 => 36.0,
            0 if n > 1 => again,
            _ => 0.5,
        });
        assert_eq!(all.last(), Some(&0));
        assert_eq!(opened.values[0].map(|of| of.value), Some(expected));
    }
}

/// Regression: with history, the worst schedulers were tried first, and the best one only in the fifth window.
#[test]
fn the_best_scheduler_of_earlier_runs_is_used_from_the_second_window_on() {
    let run = |first: usize, value: &dyn Fn(usize, usize) -> f64| {
        let mut opening = Opening::new(&NAMES.map(str::to_owned), Metric::Bandwidth);
        let (mut ran, mut all, mut again) = (first, Vec::new(), Vec::new());
        while !opening.is_over() && all.len() < 40 {
            all.push(ran);
            // Random reads: the expected gain of the best one is below 0.
            let values = vec![Some(10.0), Some(11.0), None, Some(20.0)];
            opening.remember(Some(Remembered { values, best: 3 }));
            let measured = Measured::throughout(value(ran, all.len()));
            let step = opening.window(ran, measured, (&window(false), true), None);
            if all == [0, 3] {
                assert!(step.why.contains("% against the earlier mean of mq-deadline"), "{}", step.why);
            }
            again.extend(opening.needs_another_instance().then_some(all.len()));
            ran = step.scheduler.unwrap_or(ran);
        }
        (all, again, opening.results())
    };
    let (all, _, opened) = run(0, &|arm, _| [10.0, 11.0, 10.0, 20.0][arm]);
    assert_eq!(all, [&[0, 3, 3][..], &[3; STAY], &[0]].concat());
    assert!(opened.clear && opened.best == Some(3) && opened.values[1].is_none(), "{opened:?}");
    // It is in use, with its value or without it.
    let (all, again, _) = run(3, &|_, _| 20.0);
    assert_eq!((&all[..6], again), (&[3; 6][..], vec![]));
    let (all, again, _) = run(3, &|_, n| if n == 1 { 10.0 } else { 20.0 });
    assert_eq!((&all[..6], again), (&[3; 6][..], vec![1]));
    // It is no better any more: the others are tried, at first the best of them.
    let (all, _, opened) = run(0, &|arm, _| [10.0, 15.0, 10.0, 10.0][arm]);
    assert!(all.contains(&1) && opened.best == Some(1), "{all:?} {opened:?}");
}
