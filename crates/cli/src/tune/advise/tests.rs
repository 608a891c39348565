//! Tests of the conclusions from history, model and class.

use std::collections::BTreeSet;
use std::time::Duration;

use elevator::{Op, Sector, Sectors, Span, Time};
use tuner::prior::LoadClass;
use tuner::{
    Access, Better, Decision, Estimate, Observed, Parameters, Performance, Random, SchedulerId, Window,
};

use tuner_live::{Seen, Traffic};

use super::configuration::Host;
use super::history::{History, history_of};
use super::model::Row;
use super::recommend::{BY_CLASS, BY_MODEL, conclude, expect, set_too_late, too_small, without_value};
use super::*;

struct Two(Vec<String>);

impl Arms for Two {
    fn names(&self) -> &[String] {
        &self.0
    }

    fn current(&mut self) -> Result<String, tuner_live::Error> {
        Ok(self.0[0].clone())
    }

    fn switch(&mut self, _: usize) -> Result<Duration, tuner_live::Error> {
        panic!("advise changes nothing")
    }

    fn needs_a_switch(&self, arm: &str) -> bool {
        arm.contains("low_latency=0")
    }

    fn by_hand(&self, arm: &str) -> (String, Option<String>) {
        (format!("set {arm}"), (arm == "with a rule").then(|| "a rule".to_owned()))
    }
}

/// So much, measured so often, beyond chance.
fn of(value: f64, windows: u64) -> Option<Estimate> {
    Some(Estimate { value, windows, surely: 0.1 })
}

/// Of `none`, which is in use, and `bfq`, in each window.
fn advice(windows: &[[Option<Estimate>; 2]], better: Better) -> Advice {
    let mut advice = Advice { scheduler: "none".to_owned(), analysed: 4, ..Advice::default() };
    let arms = Two(["none", "bfq"].map(str::to_owned).to_vec());
    let mut history = History::new(arms.names(), "none", better);
    windows.iter().for_each(|of| history.add(of));
    conclude(&mut advice, &history, &arms);
    advice
}

/// The advice for a load of this class, under `none` or another scheduler, where the model has that gain for bfq.
fn expected(class: LoadClass, bypassed: bool, scheduler: &str, model: Option<f64>) -> Advice {
    let model = model.map(|gain| [("none", 0.0), ("bfq", gain)]);
    expected_of(&["none", "bfq"], class, bypassed, scheduler, model)
}

/// The same of these schedulers, where the model has these gains.
fn expected_of(
    schedulers: &[&str],
    class: LoadClass,
    bypassed: bool,
    scheduler: &str,
    model: Option<[(&str, f64); 2]>,
) -> Advice {
    let row = |(name, gain): (&str, f64)| Row {
        scheduler: name.to_owned(),
        gain: Some(gain),
        megabytes_per_second: 1.0,
        read_mean_ns: 1,
        read_p99_ns: 1,
        write_mean_ns: 0,
    };
    let replay = model.map(|gains| Modelled {
        requests: 100,
        results: gains.map(row).to_vec(),
        ..Modelled::default()
    });
    let schedulers = schedulers.iter().map(|name| (*name).to_owned()).collect();
    let mut advice = Advice { scheduler: scheduler.to_owned(), schedulers, replay, ..Advice::default() };
    expect(&mut advice, class, Metric::Bandwidth, bypassed);
    advice
}

#[test]
fn without_history_and_model_the_class_of_the_load_decides() {
    let by = |class, bypassed, scheduler: &str| expected(class, bypassed, scheduler, None).better;
    assert_eq!(by(LoadClass::Streams, false, "none").as_deref(), Some("bfq"));
    assert_eq!(by(LoadClass::Streams, true, "none"), None, "the host schedules");
    assert_eq!(by(LoadClass::Streams, true, "bfq").as_deref(), Some("none"));
    assert_eq!(by(LoadClass::Fast, false, "bfq").as_deref(), Some("none"));
    assert_eq!(by(LoadClass::RandomReads, false, "none"), None);
}

/// Regression: a request a second, of a file system's writeback, was classed as writes, for which another scheduler was recommended.
#[test]
fn a_small_load_is_not_judged() {
    let why = |requests, busy, class| {
        let advice = Advice { requests, busy, windows: 3, ..Advice::default() };
        too_small(&advice, class, Duration::from_secs(5))
    };
    let small = why(15, 0.0003, Some(LoadClass::Writes)).expect("a request a second");
    assert!(small.starts_with("15 requests in 15 s, busy 0.03% of the time: "), "{small}");
    assert!(why(0, 0.0, None).expect("idle").starts_with("no requests in 15 s"));
    assert!(why(60_000, 0.0005, Some(LoadClass::Fast)).is_some(), "the device is hardly busy");
    for (requests, busy) in [(50, 0.001), (30, 0.6), (20_000, 1.0)] {
        assert_eq!(why(requests, busy, Some(LoadClass::Writes)), None, "{requests}, {busy}");
    }
}

#[test]
fn a_device_that_orders_requests_itself_has_that_reason_without_a_load() {
    let why = |scheduler: &str, bypassed| {
        let (scheduler, schedulers) = (scheduler.to_owned(), ["none", "bfq"].map(str::to_owned).to_vec());
        Advice { scheduler, schedulers, ..Advice::default() }.whatever_the_load(bypassed)
    };
    assert!(why("bfq", true).contains("so that none is usually better than bfq"));
    assert_eq!([why("none", true), why("bfq", false)], ["", ""]);
}

/// Regression: without a model, kyber was advised for a command's number on a device without positioning costs.
#[test]
fn of_schedulers_that_are_equal_within_the_error_none_is_expected() {
    let schedulers = ["none", "kyber", "bfq"].map(str::to_owned).to_vec();
    let advice = |scheduler: &str, class| {
        let (scheduler, schedulers) = (scheduler.to_owned(), schedulers.clone());
        let mut advice = Advice { scheduler, schedulers, ..Advice::default() };
        expect(&mut advice, class, Metric::External(Better::Higher), false);
        advice.better
    };
    assert_eq!(advice("bfq", LoadClass::Fast).as_deref(), Some("none"));
    assert_eq!(advice("none", LoadClass::Fast), None);
    assert_eq!(advice("none", LoadClass::Streams).as_deref(), Some("bfq"));
}

#[test]
fn the_model_decides_before_the_class_and_both_are_surer() {
    let both = expected(LoadClass::Streams, false, "none", Some(2.0));
    assert_eq!((both.better.as_deref(), both.expected_gain), (Some("bfq"), Some(2.0)));
    let alone = expected(LoadClass::RandomReads, false, "none", Some(2.0));
    assert_eq!(alone.better.as_deref(), Some("bfq"));
    assert!(both.confidence > alone.confidence);
    let neither = expected(LoadClass::RandomReads, false, "none", Some(0.02));
    assert_eq!((neither.better, neither.basis), (None, Basis::Model));
    let against = expected(LoadClass::Streams, false, "none", Some(0.0));
    assert!(against.better.is_none() && against.confidence < neither.confidence, "{}", against.why);
    // What is in use is not kept for its own sake; the model has no gain of it over none.
    for class in [LoadClass::Fast, LoadClass::Writes] {
        assert_eq!(expected(class, false, "bfq", Some(0.0)).better.as_deref(), Some("none"));
    }
    let in_a_guest = expected(LoadClass::Streams, true, "none", Some(2.0));
    assert_eq!((in_a_guest.better, in_a_guest.basis), (None, Basis::Bypass));
    assert!(in_a_guest.why.contains("+200% for bfq"), "{}", in_a_guest.why);
}

/// Regression: the present scheduler was kept where the model had +9% for the one that the class of the load favours, and 'tune' measured +1200%.
#[test]
fn a_small_gain_in_the_model_counts_if_the_class_favours_that_scheduler() {
    let small = expected(LoadClass::Streams, false, "none", Some(0.09));
    assert_eq!(
        (small.better.as_deref(), small.basis, small.confidence),
        (Some("bfq"), Basis::Model, BY_MODEL)
    );
    assert_eq!(expected(LoadClass::RandomReads, false, "none", Some(0.09)).better, None);
    assert_eq!(expected(LoadClass::Streams, false, "none", Some(0.02)).better, None, "less than 3%");
}

/// Regression: mq-deadline and kyber were kept where none was as good in the model and by the class of the load.
#[test]
fn a_scheduler_that_gains_nothing_over_none_is_replaced_by_it() {
    let advice = |scheduler: &str, class, of_none: Option<f64>| {
        let model = of_none.map(|of_none| [("none", of_none), (scheduler, 0.0)]);
        expected_of(&["none", "mq-deadline", "kyber"], class, false, scheduler, model)
    };
    for class in [LoadClass::RandomReads, LoadClass::Fast] {
        for of_none in [Some(0.0), Some(-0.05), None] {
            for scheduler in ["mq-deadline", "kyber"] {
                let of = advice(scheduler, class, of_none);
                assert_eq!((of.better.as_deref(), of.confidence), (Some("none"), BY_CLASS), "{}", of.why);
            }
            assert_eq!(advice("none", class, of_none).better, None);
        }
    }
    assert_eq!(
        advice("mq-deadline", LoadClass::RandomReads, Some(-0.2)).better,
        None,
        "it gains in the model"
    );
    let writes = advice("mq-deadline", LoadClass::StreamsWithWrites, Some(0.0));
    assert_eq!(writes.better, None, "it gains by its class");
    // Without a model, a scheduler that the class favours is expected, not none.
    assert_eq!(expected(LoadClass::Streams, false, "bfq", None).better, None);
}

#[test]
fn a_better_one_is_named() {
    let mut found = advice(&[[of(10.0, 1), of(20.0, 3)]; 3], Better::Higher);
    (found.windows, found.metric) = (3, "bandwidth".to_owned());
    let mut out = Vec::new();
    print::print(&found, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let gain = "\nrecommendation: bfq instead of none (+100% bandwidth over none by the means of the windows of 'dwell tune', confidence 0.68)\n";
    assert!(text.contains(gain), "{text}");
    assert_eq!((found.better.as_deref(), found.basis), (Some("bfq"), Basis::History));
    assert_eq!((found.expected_gain, found.confidence), (Some(1.0), 0.75 * 0.9));
}

/// Regression: 'tune' used none, and the advice was to keep bfq, because bfq was in use.
#[test]
fn a_scheduler_that_is_no_better_than_none_is_not_kept() {
    let found = |none_suffices| {
        let mut advice = Advice { scheduler: "bfq".to_owned(), analysed: 3, ..Advice::default() };
        let arms = Two(["none", "bfq"].map(str::to_owned).to_vec());
        let mut history = History::new(arms.names(), "bfq", Better::Higher);
        (0..3).for_each(|_| history.add(&[of(30.0, 3), of(30.0, 9)]));
        history.none_suffices = none_suffices;
        conclude(&mut advice, &history, &arms);
        advice
    };
    let instead = found(2);
    assert_eq!((instead.better.as_deref(), instead.expected_gain), (Some("none"), None));
    assert_eq!(found(1).better, None, "in most windows bfq is better than none");
    let in_use = advice(&[[of(30.0, 3), of(30.0, 9)]; 3], Better::Higher);
    assert_eq!(in_use.better, None, "it is in use");
}

/// Regression: the advice was "none instead of bfq" and to return to bfq, which only a killed tuner had set.
fn printed(advice: &Advice) -> String {
    let mut out = Vec::new();
    print::print(advice, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn after_a_kill_the_advice_is_about_the_operators_scheduler() {
    let killed = Killed {
        pid: 7,
        in_use: "bfq".to_owned(),
        before: "none".to_owned(),
        arm: "none{nr_requests=128}".to_owned(),
        complete_arm: "none{nr_requests=128}".to_owned(),
        remedy: "dwell tune /dev/sda --restore".to_owned(),
    };
    let advice = Advice { scheduler: killed.before.clone(), killed_tuner: Some(killed), ..Advice::default() };
    let text = printed(&advice);
    let left = "process 7, a tuner, was killed and left bfq; before: none{nr_requests=128}, which 'dwell tune /dev/sda --restore' restores";
    assert!(text.contains(left), "{text}");
    let arms = Two(["none", "bfq"].map(str::to_owned).to_vec());
    let host = Host::of(&Roots::at(std::path::Path::new("/nosuch")));
    let states = ["bfq", "none", "none{nr_requests=128}"];
    let configuration = Configuration::of(states, &[], &arms, (&host, "dwell tune /dev/sda"));
    assert_eq!(configuration.set.as_deref(), Some("set bfq"), "though it is in use by chance");
    assert_eq!(configuration.revert, ["set none{nr_requests=128}"]);
}

/// Regression: the line to paste gave readers that ran 1.1 instead of 20 MB/s, because bfq merged their queues.
#[test]
fn a_scheduler_that_programs_do_not_notice_by_hand_is_set_by_the_tuners_switch() {
    let arms = Two(["none", "bfq"].map(str::to_owned).to_vec());
    let host = Host::of(&Roots::at(std::path::Path::new("/nosuch")));
    let of = |states| Configuration::of(states, &[], &arms, (&host, "dwell tune /dev/sda --here"));
    const LATE: &str = "bfq{low_latency=0, strict_guarantees=1}";
    let configuration = of([LATE, "none", "none{nr_requests=128}"]);
    let line = format!("dwell tune /dev/sda --here --switch-to '{LATE}'");
    assert_eq!(configuration.set.as_ref(), Some(&line));
    assert_eq!(configuration.set_by_hand, Some(format!("set {LATE}")));
    assert_eq!(configuration.revert, ["set none{nr_requests=128}"]);
    let advice = Advice { configuration: Some(configuration), ..Advice::default() };
    let mut out = Vec::new();
    print::print(&advice, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let paste = format!(
        "\nto paste into a shell of root:\nset it:  {line}\n#        without dwell, for programs that start later (those that run may \
         stay slow until they restart): set {LATE}\n"
    );
    assert!(text.contains(&paste), "{text}");
    let back = of(["none", LATE, "bfq{nr_requests=64,low_latency=0}"]);
    assert_eq!((back.set.as_deref(), back.set_by_hand), (Some("set none"), None));
    assert_eq!(back.revert, ["dwell tune /dev/sda --here --switch-to 'bfq{nr_requests=64,low_latency=0}'"]);
    // It is set: the way to keep it has the same form.
    let kept = of([LATE, LATE, LATE]);
    assert_eq!((kept.set.as_ref(), kept.set_by_hand.clone()), (None, Some(format!("set {LATE}"))));
    let text = printed(&Advice { configuration: Some(kept), ..Advice::default() });
    let keep = format!(
        "; where the device is set up, run {line}\n#        without dwell, for programs that start later ("
    );
    assert!(text.contains(&keep) && text.matches("without dwell").count() == 1, "{text}");
    assert_eq!(of(["none", "none", "none"]).set_by_hand, None);
}

#[test]
fn a_scheduler_in_use_without_its_effect_is_reported_with_the_command_that_sets_it_again() {
    let note = |observed, learned, model: Option<f64>| {
        let row = |rate| Row {
            scheduler: "bfq".to_owned(),
            gain: None,
            megabytes_per_second: rate,
            read_mean_ns: 1,
            read_p99_ns: 1,
            write_mean_ns: 0,
        };
        let results = model.into_iter().map(row).collect();
        let replay = Some(Modelled { results, ..Modelled::default() });
        let advice =
            Advice { scheduler: "bfq".to_owned(), bytes_per_second: observed, replay, ..Advice::default() };
        set_too_late(&advice, LoadClass::Streams, learned, "dwell tune /dev/sda --switch-to 'bfq'")
    };
    let learned = note(1.1e6, Some(20e6), Some(1.0)).expect("a twentieth");
    assert!(
        learned.starts_with("bfq gives 1.10 MB/s instead of 20.0 MB/s in the windows of 'dwell tune': ")
            && learned.ends_with("dwell tune /dev/sda --switch-to 'bfq'"),
        "{learned}"
    );
    assert!(note(1.1e6, None, Some(36.0)).is_some_and(|note| note.contains("36.0 MB/s in the model")));
    assert_eq!(
        [note(11e6, Some(20e6), Some(36.0)), note(20e6, None, Some(36.0)), note(1e6, None, None)],
        [None, None, None]
    );
    // By the positions of the requests: without a model that describes the device, or with one that has no more. Regression: 41% was not enough, nor was any
    // share beside a model with 7.8 MB/s, of a scheduler that gives 25.
    let alternates = |class, change_share, replay: Option<(f64, Option<&str>)>| {
        let replay = replay.map(|(megabytes_per_second, unfit)| {
            let results = vec![Row {
                scheduler: "bfq".to_owned(),
                gain: None,
                megabytes_per_second,
                read_mean_ns: 1,
                read_p99_ns: 1,
                write_mean_ns: 0,
            }];
            Modelled { results, unfit: unfit.map(str::to_owned), ..Modelled::default() }
        });
        let scheduler = "bfq".to_owned();
        let bytes_per_second = 6e6;
        let advice =
            Advice { scheduler, bytes_per_second, change_share, replay, busy: 0.97, ..Advice::default() };
        set_too_late(&advice, class, None, "AGAIN")
    };
    for replay in [None, Some((0.02, Some("far"))), Some((7.8, None))] {
        let note = alternates(LoadClass::Streams, 0.41, replay).expect("it has no effect");
        let start = "bfq serves sequential readers, and moves between them at 41% of the requests: it may have been set while";
        assert!(note.starts_with(start) && note.ends_with(": AGAIN"), "{note}");
        assert_eq!(alternates(LoadClass::Streams, 0.02, replay), None, "it has an effect");
        assert_eq!(alternates(LoadClass::RandomReads, 0.98, replay), None);
    }
    let idle = Advice { scheduler: "bfq".to_owned(), change_share: 0.9, busy: 0.2, ..Advice::default() };
    assert_eq!(set_too_late(&idle, LoadClass::Streams, None, "AGAIN"), None, "the readers pause");
}

/// Regression: the table had +700% for another scheduler than the recommended one, from a model that was wrong by a factor of 350.
#[test]
fn a_model_that_does_not_describe_the_device_has_no_table() {
    let mut advice = expected(LoadClass::Streams, false, "none", Some(7.0));
    assert!(printed(&advice).contains("+700%"), "{}", printed(&advice));
    let model = advice.replay.as_mut().unwrap();
    model.observed = Some(350.0);
    model.check("none", false);
    (advice.better, advice.expected_gain, advice.basis) = (None, None, Basis::Nothing);
    expect(&mut advice, LoadClass::Streams, Metric::Bandwidth, false);
    let text = printed(&advice);
    assert!(!text.contains("+700%") && !text.contains("──"), "{text}");
    assert!(text.contains(
        "the model does not describe the device now (a cache below, or service times that contain waits"
    ));
    assert_eq!((advice.basis, advice.confidence), (Basis::Class, BY_CLASS), "{}", advice.why);
}

/// Regression: the lines to paste had a rule, which nothing applied, without a word.
#[test]
fn a_rule_without_udev_has_a_note() {
    let root = std::env::temp_dir().join(format!("dwell-udev-{}", std::process::id()));
    let arms = Two(["none", "with a rule"].map(str::to_owned).to_vec());
    let printed = || {
        let host = Host::of(&Roots::at(&root));
        let configuration = Configuration::of(["with a rule", "none", "none"], &[], &arms, (&host, ""));
        let advice = Advice { configuration: Some(configuration), ..Advice::default() };
        let mut out = Vec::new();
        print::print(&advice, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let note = "note: udev does not run here, so that nothing applies the rule; at each start, run the command above instead";
    assert!(printed().contains(note), "{}", printed());
    std::fs::create_dir_all(root.join("run/udev")).unwrap();
    assert!(printed().contains("a rule") && !printed().contains("note: udev"), "{}", printed());
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn what_is_no_better_or_not_known_is_not_recommended() {
    let found = |bfq: f64, better| advice(&[[of(30.0, 3), of(bfq, 9)]], better);
    assert!(found(30.5, Better::Higher).better.is_none(), "too little");
    assert!(found(60.0, Better::Lower).better.is_none(), "less is better");
    let by_chance = of(60.0, 9).map(|of| Estimate { surely: 0.0, ..of });
    assert!(advice(&[[of(30.0, 3), by_chance]], Better::Higher).better.is_none(), "it may be chance");
    let unknown = advice(&[[None, of(60.0, 9)]], Better::Higher);
    assert!(unknown.expected_gain.is_none(), "nothing to compare with");
    let alone = advice(&[[of(30.0, 3), None]], Better::Higher);
    assert!(alone.expected_gain.is_none(), "as good as any is no word for the only one that was tried");
}

#[test]
fn while_nothing_is_known_the_profile_decides() {
    use tuner::throughput::{Curve, CurveClass, Table};
    let names = ["none", "bfq"].map(str::to_owned).to_vec();
    let curve = |rate| Curve { kind: CurveClass { reads: None, random: None }, points: vec![(4096.0, rate)] };
    let by = |rates: [f64; 2]| {
        let table = Table { curves: rates.map(|rate| vec![curve(rate)]).to_vec() };
        let (parameters, random) = (Parameters::default(), Random::new(1));
        let analyser = Analyser::new(names.clone(), Metric::Bandwidth, parameters, random).unwrap();
        let mut analyser = analyser.with_a_priori(table);
        let mut history = History::new(&names, "none", Better::Higher);
        let mut advice = Advice { scheduler: "none".to_owned(), ..Advice::default() };
        for _ in 0..3 {
            let decision = reads(&mut analyser, SchedulerId(0), 30e6);
            history.note_profile(&decision, &names);
        }
        conclude(&mut advice, &history, &Two(names.clone()));
        advice
    };
    let better = by([1e6, 2e6]);
    assert_eq!((better.better.as_deref(), better.expected_gain), (Some("bfq"), None));
    assert!(better.why.contains("the device's table has 2.0 MB/s"), "{}", better.why);
    assert!(by([2e6, 1e6]).better.is_none(), "it is in use");
}

/// Sums over different windows cannot be compared: the arm that was measured in fewer windows would have the lower sum of latencies.
#[test]
fn each_is_compared_where_it_is_known() {
    let windows = [[of(10.0, 5), of(15.0, 5)], [of(10.0, 5), None]];
    let slower = advice(&windows, Better::Lower);
    assert_eq!((slower.better, slower.expected_gain), (None, Some(0.0)));
    let faster = advice(&windows, Better::Higher);
    assert_eq!((faster.better.as_deref(), faster.expected_gain), (Some("bfq"), Some(0.25)));
    assert_eq!(faster.confidence, 0.25 * 5.0 / 6.0, "known in one of four");
}

/// Windows of one reader in sequence under a scheduler that gives so much, by kinds of load.
fn reads(analyser: &mut Analyser, scheduler: SchedulerId, bandwidth: f64) -> Decision {
    let access = |n: u64| Access {
        time: Time::from_nanos(n * 10_000_000),
        position: Sector(n * 8),
        op: Op::Read,
        size: Sectors(8),
    };
    let accesses = (0..500).map(access).collect();
    let window = Window { start: Time::ZERO, length: Span::from_secs(5), accesses };
    let performance = Performance { bandwidth, ..Performance::default() };
    analyser.window(&window, &Observed { scheduler: Some(scheduler), performance })
}

#[test]
fn what_is_known_by_kinds_of_load_is_recommended() {
    let names = ["none", "bfq"].map(str::to_owned).to_vec();
    let parameters = Parameters::default();
    let mut analyser = Analyser::new(names.clone(), Metric::Bandwidth, parameters, Random::new(1)).unwrap();
    let mut scheduler = SchedulerId(0);
    let first = reads(&mut analyser, scheduler, 30e6);
    let mut history = History::new(&names, "none", Better::Higher);
    assert!(history_of(&analyser, &first, &history).is_none(), "the first of its like");
    for _ in 0..200 {
        let decision = reads(&mut analyser, scheduler, [30e6, 60e6][scheduler.0]);
        scheduler = decision.scheduler.unwrap_or(scheduler);
    }
    history.saved = Some(analyser.kinds().clone());
    // From here on nothing is changed, whatever is decided.
    let mut advice = Advice { scheduler: "none".to_owned(), ..Advice::default() };
    for _ in 0..5 {
        let decision = reads(&mut analyser, SchedulerId(0), 30e6);
        let of = history_of(&analyser, &decision, &history).expect("a kind that is known");
        history.add(&of);
        (advice.analysed, advice.recognised) = (advice.analysed + 1, advice.recognised + 1);
    }
    conclude(&mut advice, &history, &Two(names));
    assert_eq!(advice.better.as_deref(), Some("bfq"));
    let gain = advice.expected_gain.unwrap();
    assert!((0.8..1.2).contains(&gain), "twice as much: {gain}");
    // What 'patterns' lists and what 'tune' uses.
    let state = analyser.state();
    let kind = state.kinds.loads().next().expect("a kind");
    assert_eq!(super::super::kinds::best(&state, kind), Some("bfq"));
    assert_eq!(scheduler, SchedulerId(1));
}

/// Regression: the kernel counts a flush as a write, so that a database's requests were twice as many and half as large.
#[test]
fn flushes_are_no_requests_of_the_load() {
    let access = |op, sectors| Access { time: Time::ZERO, position: Sector(0), op, size: Sectors(sectors) };
    let pair = [access(Op::Write, 16), access(Op::Flush, 0)];
    let window = Window { start: Time::ZERO, length: Span::from_secs(1), accesses: pair.repeat(100) };
    let performance = Performance { bandwidth: 819_200.0, ..Performance::default() };
    let seen =
        Seen { window, performance, busy: 0.5, tasks: BTreeSet::new(), missed: 0, torn: false, early: false };
    let mut advice = Advice::default();
    advice.add(&seen);
    let traffic = Traffic {
        requests_per_second: 200.0,
        bytes_per_second: 819_200.0,
        mean_bytes: 4096.0,
        read_share: 0.0,
        busy: 0.5,
        ..Traffic::default()
    };
    advice.count(&traffic);
    let text = printed(&advice);
    let load = "load in 1 window: 100 requests a second of 8.19 kB (819 kB/s), 0% of the bytes read";
    assert!(text.contains(load) && text.contains("busy 50%, besides 100 flushes a second"), "{text}");
    let only_flushes = Advice { windows: 1, flushes_per_second: 3.0, ..Advice::default() };
    let text = printed(&only_flushes);
    assert!(text.contains("load in 1 window: no requests with data, besides 3.00 flushes"), "{text}");
}

/// Regression: under readers alone, bfq was advised for the latency of writes, because the class of the load favours it.
#[test]
fn the_latency_of_requests_that_the_load_does_not_have_is_no_reason() {
    use tuner::{LatencyClass, LatencyStatistic};
    let of = |op, class| {
        let access = Access { time: Time::ZERO, position: Sector(0), op, size: Sectors(8) };
        let window = Window { start: Time::ZERO, length: Span::from_secs(1), accesses: vec![access; 100] };
        let (performance, tasks) = (Performance::default(), BTreeSet::new());
        let seen = Seen { window, performance, busy: 0.5, tasks, missed: 0, torn: false, early: false };
        let metric = Metric::Latency(LatencyStatistic::P99, class);
        let scheduler = "none".to_owned();
        let mut advice = Advice { scheduler, metric: in_words(metric), ..Advice::default() };
        advice.add(&seen);
        advice.why = without_value(&mut advice, metric)?;
        Some(printed(&advice))
    };
    let text = of(Op::Read, LatencyClass::Writes).expect("no writes");
    let keep = "\nrecommendation: keep none: the load has no writes\nwhy: ";
    assert!(text.contains(keep) && text.contains(" has no value without writes: "), "{text}");
    let text = of(Op::Write, LatencyClass::Reads).expect("no reads");
    assert!(text.contains("\nrecommendation: keep none: the load has no reads\n"), "{text}");
    assert_eq!([of(Op::Read, LatencyClass::Reads), of(Op::Write, LatencyClass::Writes)], [None, None]);
    assert_eq!(of(Op::Read, LatencyClass::Synchronous), None);
    assert_eq!(without_value(&mut Advice::default(), Metric::Bandwidth), None);
}

/// Regression: the reason was that the model predicts no gain, below a table with +9%, and a reader that `none` starved was not noticed.
#[test]
fn a_gain_within_the_error_of_the_model_is_in_the_reason() {
    let mut advice = expected(LoadClass::RandomReads, false, "none", Some(0.09));
    let why = "neither the model (+9% for bfq) nor the class of the load (random reads) predicts a gain of at least 10%";
    assert_eq!((&*advice.why, advice.better.as_deref()), (why, None));
    let nothing = expected(LoadClass::RandomReads, false, "none", Some(0.0));
    assert!(nothing.why.starts_with("neither the model nor the class"), "{}", nothing.why);
    let unsure = expected(LoadClass::Streams, false, "none", Some(0.02)).why;
    assert!(unsure.starts_with("the model (+2% for bfq) predicts no gain of at least 10%"), "{unsure}");
    let confidence = advice.confidence;
    advice.replay.as_mut().unwrap().starved = Some("process 7 (fio)".to_owned());
    let mut again = |class| {
        advice.basis = Basis::Nothing;
        expect(&mut advice, class, Metric::Bandwidth, false);
        (advice.confidence, advice.why.clone())
    };
    let (low, why) = again(LoadClass::RandomReads);
    assert!(low == BY_CLASS && low < confidence, "{low}");
    assert!(why.contains("; process 7 (fio) reads in sequence") && why.contains("'dwell tune'"), "{why}");
    assert_eq!(again(LoadClass::Fast).0, confidence, "no head moves");
}

/// Regression: `advise` kept `none` for a reader that waits for random reads, where `tune` found +3800%: the model replays the few reads that the reader
/// had, and has no gain.
#[test]
fn a_starved_reader_gets_the_scheduler_of_its_class() {
    let starved = |gain, process: Option<&str>| {
        let mut advice = expected(LoadClass::StreamAmongRandom, false, "none", Some(gain));
        advice.replay.as_mut().unwrap().starved = process.map(str::to_owned);
        (advice.basis, advice.better, advice.expected_gain) = (Basis::Nothing, None, None);
        expect(&mut advice, LoadClass::StreamAmongRandom, Metric::Bandwidth, false);
        (advice.better.clone(), advice.confidence, advice.why)
    };
    for gain in [-0.02, 0.01] {
        let (better, confidence, why) = starved(gain, Some("process 7 (fio)"));
        assert_eq!((better.as_deref(), confidence), (Some("bfq"), BY_CLASS), "{why}");
        let start = "expected from the class of the load (a sequential reader among random requests); process 7 (fio) reads in";
        assert!(why.starts_with(start) && why.contains("'dwell tune'"), "{why}");
    }
    let (better, confidence, why) = starved(0.07, Some("process 7 (fio)"));
    assert_eq!((better.as_deref(), confidence), (Some("bfq"), BY_MODEL), "{why}");
    assert!(why.contains("; process 7 (fio) reads in sequence"), "{why}");
    // A reader that has all that it requests.
    let (better, _, why) = starved(0.01, None);
    assert_eq!(better, None, "{why}");
}
