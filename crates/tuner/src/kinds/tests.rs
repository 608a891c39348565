//! Windows of two loads, reads and writes, under a few schedulers.

use elevator::{Op, Sector, Sectors, Span, Time};
use observation::{Access, Window};

use super::*;
use crate::load::Load;
use crate::measured::Measured;
use crate::shared::Given;

/// A window of sequential accesses, of which the first ones are reads.
fn shape(reads: u64, writes: u64) -> Shape {
    let access = |n: u64| Access {
        time: Time::ZERO,
        position: Sector(n * 8),
        op: if n < reads { Op::Read } else { Op::Write },
        size: Sectors(8),
    };
    let accesses = (0..reads + writes).map(access).collect();
    Shape::of(&Window { start: Time::ZERO, length: Span::from_secs(5), accesses })
}

fn reads() -> Shape {
    shape(100, 0)
}

fn writes() -> Shape {
    shape(0, 100)
}

/// Adds a window, of which higher values are better.
fn run(kinds: &mut Kinds, shape: &Shape, scheduler: usize, value: f64) -> KindDecision {
    let promise = vec![0.0; kinds.schedulers];
    kinds.window(shape, (SchedulerId(scheduler), value, true), &promise, Better::Higher)
}

fn runs(kinds: &mut Kinds, shape: &Shape, scheduler: usize, value: f64, windows: u32) {
    for _ in 0..windows {
        run(kinds, shape, scheduler, value);
    }
}

/// Windows of reads under scheduler 0 until a trial begins; returns the scheduler on trial.
fn until_trial(kinds: &mut Kinds) -> usize {
    for _ in 0..20 {
        let decided = run(kinds, &reads(), 0, 10.0);
        if decided.trial > 0 {
            return decided.scheduler.0;
        }
    }
    panic!("no trial");
}

#[test]
fn a_rejection_ends_the_trial_of_the_rejected_scheduler_only() {
    let mut kinds = Kinds::new(3);
    let on_trial = until_trial(&mut kinds);
    kinds.rejected(SchedulerId(3 - on_trial));
    assert_eq!(kinds.trial.map(|trial| trial.scheduler), Some(on_trial));
    kinds.rejected(SchedulerId(on_trial));
    assert_eq!(kinds.trial, None);
    // Both count as a window with a total loss.
    for scheduler in [1, 2] {
        let arm = kinds.kinds[0].arm(scheduler);
        assert_eq!((arm.windows, arm.pairs, arm.rating), (1, 1, -1.0));
    }
}

#[test]
fn a_window_that_is_as_similar_to_two_kinds_belongs_to_the_first() {
    let mut kinds = Kinds::new(1);
    run(&mut kinds, &shape(64, 0), 0, 1.0);
    run(&mut kinds, &shape(0, 64), 0, 1.0);
    // A sixty-fourth is exact.
    assert_eq!(kinds.nearest(&shape(32, 32)).map(|nearest| nearest.0), Some(0));
}

#[test]
fn a_merged_kind_is_found_as_the_kind_that_has_its_knowledge() {
    let mut kinds = Kinds::new(2);
    runs(&mut kinds, &reads(), 0, 1.0, 5);
    runs(&mut kinds, &writes(), 0, 1.0, 5);
    run(&mut kinds, &shape(100, 0), 0, 1.0);
    (kinds.served, kinds.latest) = (Some(0), Some(0));
    kinds.merge(1, 0).unwrap();
    assert_eq!((kinds.served, kinds.latest), (Some(1), Some(1)));
    assert_eq!(run(&mut kinds, &reads(), 0, 1.0).kind, 1);
    assert_eq!((kinds.load(0), kinds.count()), (None, 1));
}

#[test]
fn forgetting_a_kind_ends_its_trials_and_no_others() {
    let trial = |kind| Trial { kind, scheduler: 1 };
    let of = |under_way: usize, others: usize| {
        let mut kinds = Kinds::new(2);
        run(&mut kinds, &reads(), 0, 1.0);
        run(&mut kinds, &writes(), 0, 1.0);
        (kinds.trial, kinds.ended) = (Some(trial(under_way)), Some(trial(others)));
        kinds.revocable = Some((trial(others), Arm::default()));
        kinds.forget_load(1).unwrap();
        (kinds.trial.is_some(), kinds.ended.is_some(), kinds.revocable.is_some())
    };
    assert_eq!(of(1, 0), (false, true, true));
    assert_eq!(of(0, 1), (true, false, false));
}

#[test]
fn the_values_of_an_opening_are_pairs_with_its_first_scheduler() {
    let mut kinds = Kinds::new(4);
    runs(&mut kinds, &reads(), 0, 10.0, 3);
    kinds.opened(0, &opened(&[Some(10.0), Some(20.0), None, Some(5.0)], None), Better::Higher);
    let arms = [0, 1, 2, 3].map(|arm| kinds.kinds[0].arm(arm));
    assert_eq!(arms.map(|arm| arm.pairs), [0, 1, 0, 1]);
    assert_eq!(arms.map(|arm| arm.rating), [0.0, 0.5, 0.0, -0.5]);
    let before = kinds.clone();
    kinds.opened(7, &opened(&[Some(10.0), Some(20.0)], None), Better::Higher);
    assert_eq!(kinds, before, "there is no such kind");
}

/// Regression: the tuner used a scheduler with 27 times the throughput of `none`, and `patterns` and `advise` had "no other is better beyond chance",
/// because the opening counted as one pair.
#[test]
fn a_gain_in_several_windows_is_beyond_chance_whatever_the_number_of_pairs() {
    // Whichever is first, and also while the opening lasts.
    for (none, fast) in [(0, 1), (1, 0)] {
        for rate in [Kinds::opened, Kinds::rate] {
            let mut kinds = Kinds::new(3);
            runs(&mut kinds, &reads(), none, 10.0, 1);
            runs(&mut kinds, &reads(), fast, 40.0, 9);
            let mut values = [None; 3];
            (values[none], values[fast]) = (Some(10.0), Some(40.0));
            rate(&mut kinds, 0, &opened(&values, Some((fast, none))), Better::Higher);
            assert!(kinds.kinds[0].arm(fast).pairs + kinds.kinds[0].arm(none).pairs >= CONFIRMED);
            let known = kinds.compared(0, Some(SchedulerId(none)), Better::Higher).expect("known");
            assert_eq!(known.best().0, fast, "none is {none}");
        }
    }
}

/// Regression: `tune` used `none`, by its significance test, and `patterns` and `advise` had the scheduler whose first windows after a switch were
/// better.
#[test]
fn what_the_significance_test_found_is_known_for_the_kind() {
    let mut kinds = Kinds::new(3);
    runs(&mut kinds, &reads(), 0, 10.0, 3);
    runs(&mut kinds, &reads(), 1, 160.0, 2);
    let best =
        |kinds: &Kinds| kinds.compared(0, Some(SchedulerId(0)), Better::Higher).expect("known").best().0;
    assert_eq!(best(&kinds), 1);
    kinds.settled(0, SchedulerId(0));
    assert_eq!(best(&kinds), 0);
    // After an opening that postponed the turn of `none`.
    let mut late = Kinds::new(2);
    runs(&mut late, &reads(), 0, 10.0, 1);
    runs(&mut late, &reads(), 1, 160.0, 3);
    late.opened(0, &opened(&[Some(10.0), Some(160.0)], None), Better::Higher);
    late.settled(0, SchedulerId(0));
    assert_eq!(best(&late), 0);
    let before = kinds.clone();
    kinds.settled(7, SchedulerId(0));
    kinds.settled(0, SchedulerId(2));
    assert_eq!(kinds, before, "there is no such kind, and this scheduler was not measured");
}

/// The results of an opening with these values.
fn opened(values: &[Option<f64>], confirmed: Option<(usize, usize)>) -> Opened {
    let values = values.iter().map(|value| value.map(Measured::throughout)).collect();
    Opened { values, load: Load::default(), clear: false, best: None, confirmed, hopeless: Vec::new() }
}

#[test]
fn another_load_after_a_trial_revokes_its_pair() {
    let mut kinds = Kinds::new(2);
    let on_trial = until_trial(&mut kinds);
    // The first trial is kept, because nothing was known before.
    run(&mut kinds, &reads(), on_trial, 5.0);
    run(&mut kinds, &reads(), on_trial, 5.0);
    assert_eq!((kinds.kinds[0].arm(on_trial).pairs, kinds.revocable), (1, None));
    let mut again = 0;
    for _ in 0..400 {
        let decided = run(&mut kinds, &reads(), again, 10.0);
        again = decided.scheduler.0;
        if decided.trial > 0 && decided.scheduler.0 == on_trial {
            break;
        }
    }
    assert_eq!(again, on_trial, "it is tried again");
    let before = kinds.kinds[0].arm(on_trial);
    run(&mut kinds, &reads(), on_trial, 1.0);
    let decided = run(&mut kinds, &reads(), on_trial, 1.0);
    assert!(kinds.kinds[0].arm(on_trial).pairs > before.pairs && kinds.revocable.is_some());
    run(&mut kinds, &writes(), decided.scheduler.0, 10.0);
    let after = kinds.kinds[0].arm(on_trial);
    assert_eq!((after.pairs, after.rating), (before.pairs, before.rating));
}

#[test]
fn a_kind_from_elsewhere_needs_two_ratings() {
    let of = |ratings: &[Option<f64>]| {
        let (mut kinds, mut given) = (Kinds::new(3), Given::default());
        kinds.expect(&reads(), ratings, &mut given);
        kinds.expect(&reads(), ratings, &mut given);
        given
    };
    assert_eq!(of(&[Some(0.0), None, None]), Given { unrated: 2, ..Given::default() });
    let twice = Given { added: 1, known: 1, ..Given::default() };
    assert_eq!(of(&[Some(0.0), Some(0.5), None]), twice, "the second time it is known");
    assert_eq!(of(&[Some(0.0), Some(0.5), Some(-0.5)]), twice);
}

/// Scheduler 1 is twice as good, scheduler 2 as good as scheduler 0.
fn learned() -> Kinds {
    let (mut kinds, mut scheduler) = (Kinds::new(4), 0);
    for _ in 0..400 {
        scheduler = run(&mut kinds, &reads(), scheduler, [10.0, 20.0, 10.0, 9.0][scheduler]).scheduler.0;
    }
    kinds
}

fn tally(kinds: &Kinds, scheduler: usize) -> (u64, f64) {
    let tally = kinds.kinds[0].arm(scheduler).tally;
    (tally.windows, tally.mean)
}

/// Regression: a scheduler's value was pulled to that of the others where windows depended on those before.
#[test]
fn knowledge_has_the_values_as_they_were_measured() {
    let mut kinds = Kinds::new(2);
    runs(&mut kinds, &reads(), 0, 0.38, 2);
    // Phases of several windows look like autocorrelation.
    for value in [6.9, 6.5, 0.5, 0.5, 9.2, 8.7, 6.2, 0.4, 0.4] {
        run(&mut kinds, &reads(), 1, value);
    }
    let of = |scheduler: usize| {
        kinds.compared(0, None, Better::Higher).unwrap().estimates[scheduler].map(|of| (of.windows, of.value))
    };
    assert_eq!(of(0), Some((1, 0.38)), "without the first window");
    let mean = [6.5, 0.5, 0.5, 9.2, 8.7, 6.2, 0.4, 0.4].iter().sum::<f64>() / 8.0;
    assert!(of(1).is_some_and(|(windows, value)| windows == 8 && (value - mean).abs() < 1e-9), "{:?}", of(1));
}

#[test]
fn the_first_window_after_a_switch_counts_until_there_is_a_second_one() {
    let mut kinds = Kinds::new(2);
    run(&mut kinds, &reads(), 0, 50.0);
    assert_eq!(tally(&kinds, 0), (1, 50.0));
    runs(&mut kinds, &reads(), 0, 10.0, 2);
    assert_eq!(tally(&kinds, 0), (2, 10.0));
    run(&mut kinds, &reads(), 1, 30.0);
    run(&mut kinds, &reads(), 0, 13.0);
    assert_eq!((tally(&kinds, 1), tally(&kinds, 0)), ((1, 30.0), (3, 11.0)));
    // Set again, it is a new instance with effects of its own.
    kinds.settle();
    run(&mut kinds, &reads(), 0, 99.0);
    run(&mut kinds, &reads(), 0, 11.0);
    assert_eq!(tally(&kinds, 0), (4, 11.0));
}

#[test]
fn windows_that_are_not_whole_and_trials_with_another_load_are_not_counted() {
    let mut kinds = Kinds::new(2);
    runs(&mut kinds, &reads(), 0, 10.0, 2);
    let part = (SchedulerId(0), 3.0, false);
    kinds.window(&reads(), part, &[0.0; 2], Better::Higher);
    assert_eq!(tally(&kinds, 0), (1, 10.0));
    let mut kinds = Kinds::new(2);
    let on_trial = until_trial(&mut kinds);
    runs(&mut kinds, &reads(), on_trial, 90.0, 2);
    assert_eq!(tally(&kinds, on_trial), (1, 90.0));
    run(&mut kinds, &writes(), 0, 10.0);
    assert_eq!(tally(&kinds, on_trial).0, 0, "the load changed during the trial");
}

/// Regression: the trial of an opening that ended early had no value if the scheduler's turn had come as well.
#[test]
fn a_trial_that_ended_early_counts() {
    let mut kinds = Kinds::new(2);
    let on_trial = until_trial(&mut kinds);
    kinds.end_trial();
    run(&mut kinds, &reads(), on_trial, 2.0);
    assert_eq!((kinds.trial, tally(&kinds, on_trial)), (None, (1, 2.0)));
}

#[test]
fn no_scheduler_is_better_than_none_after_a_test_until_another_test() {
    let mut kinds = learned();
    let best = |kinds: &Kinds| kinds.compared(0, Some(SchedulerId(0)), Better::Higher).unwrap().best();
    assert_eq!(best(&kinds), SchedulerId(1));
    kinds.settled(0, SchedulerId(0));
    assert_eq!(best(&kinds), SchedulerId(0));
    kinds.matters(0);
    assert_eq!(best(&kinds), SchedulerId(1));
}

#[test]
fn knowledge_compares_schedulers_with_the_base() {
    let kinds = learned();
    let known = kinds.compared(0, Some(SchedulerId(0)), Better::Higher).expect("known");
    assert_eq!((known.base, known.best(), known.compares()), (SchedulerId(0), SchedulerId(1), true));
    assert!((known.gain(SchedulerId(1)).expect("tried") - 1.0).abs() < 0.05);
    assert_eq!(known.estimates[0].map(|of| of.surely), Some(0.0));
    let mut one = Kinds::new(2);
    runs(&mut one, &reads(), 1, 10.0, 3);
    let known = one.compared(0, Some(SchedulerId(0)), Better::Higher).expect("known");
    assert_eq!((known.base, known.compares()), (SchedulerId(1), false), "the first one that is known");
    assert!(one.compared(3, None, Better::Higher).is_none());
    assert!(is_worth_it(0.03, 0.01) && !is_worth_it(0.029, 0.01) && !is_worth_it(0.03, 0.0));
}

#[test]
fn after_an_opening_turns_wait_until_their_loss_is_within_the_budget() {
    let mut kinds = Kinds::new(3);
    runs(&mut kinds, &reads(), 0, 10.0, 2);
    runs(&mut kinds, &reads(), 1, 9.0, 1);
    let windows = kinds.kinds[0].windows;
    kinds.opened(0, &opened(&[Some(10.0), Some(9.0), None], None), Better::Higher);
    // A tenth is lost in each of twenty windows; of what was not tried, everything in two.
    let text = serde_json::to_value(&kinds).unwrap();
    let aside = |arm: usize| text["kinds"][0]["arms"][arm]["aside"].as_u64().unwrap() - windows;
    assert_eq!([aside(0), aside(2)], [0, 200]);
    assert!((199..=200).contains(&aside(1)), "{}", aside(1));
}

/// Regression: with and without a sequential reader, random reads were one kind, as `none` leaves the reader 5% of the requests. What was learned of one load
/// was used for the other: a 27th of the best scheduler's throughput, or a loss of half.
#[test]
fn a_sequential_reader_among_random_requests_makes_another_kind() {
    let mut kinds = Kinds::new(2);
    let mut kind_of = |has_stream| {
        kinds.expect_stream(has_stream);
        run(&mut kinds, &reads(), 0, 1.0).kind
    };
    let without = kind_of(Some(false));
    let with = kind_of(Some(true));
    assert_ne!(without, with);
    assert_eq!([kind_of(Some(false)), kind_of(Some(true)), kind_of(None)], [without, with, without]);
    let saved = serde_json::to_string(&kinds).unwrap();
    let mut restored: Kinds = serde_json::from_str(&saved).unwrap();
    restored.expect_stream(Some(true));
    assert_eq!(run(&mut restored, &reads(), 0, 1.0).kind, with);
}

#[test]
fn an_opening_unites_the_kinds_of_one_load() {
    let mut kinds = Kinds::new(2);
    let [one, other] = [reads(), writes()].map(|shape| run(&mut kinds, &shape, 0, 1.0).kind);
    kinds.unite(one, one);
    kinds.unite(one, 7);
    kinds.kinds[one].set_stream(Some(false));
    assert_eq!(kinds.without_contradiction(vec![one, other]), [one, other]);
    kinds.kinds[other].set_stream(Some(true));
    assert_eq!(kinds.without_contradiction(vec![one, other]), [other]);
    assert_eq!(kinds.without_contradiction(vec![other, one]), [one]);
    assert_eq!(kinds.kinds[other].part_of, None);
    kinds.unite(one, other);
    kinds.unite(one, other);
    assert_eq!(run(&mut kinds, &writes(), 0, 1.0).kind, one);
}
