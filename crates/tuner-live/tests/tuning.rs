//! The tuner over a device made up: a tree like `/sys/block`, and windows from nowhere.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use elevator::{Op, Sector, Sectors, Span, Time};
use tuner::{
    Access, Analyser, Better, DeciderName, Load, Metric, Parameters, Performance, Random, SchedulerId, Window,
};
use tuner_live::arms::{Arms, KernelArms};
use tuner_live::{Error, LiveTuner, Outcome, QueueSettings, Seen, Settings};

/// `/sys/block` with one device, removed when this is dropped.
struct Tree(PathBuf);

impl Tree {
    fn new(test: &str) -> Self {
        let root = std::env::temp_dir().join(format!("dwell-keeping-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join("sda/queue")).unwrap();
        std::fs::write(root.join("sda/queue/scheduler"), "none [mq-deadline] bfq\n").unwrap();
        Self(root)
    }

    fn queue(&self) -> QueueSettings {
        QueueSettings::within(&self.0, "sda")
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Arms that record switches; one of them is rejected.
#[derive(Clone, Default)]
struct Made(Rc<RefCell<Vec<usize>>>, Vec<String>);

impl Arms for Made {
    fn names(&self) -> &[String] {
        &self.1
    }

    fn current(&mut self) -> Result<String, Error> {
        Ok(self.1[self.0.borrow().last().copied().unwrap_or(0)].clone())
    }

    fn switch(&mut self, arm: usize) -> Result<Duration, Error> {
        if self.1[arm] == "refused" {
            let source = std::io::Error::from_raw_os_error(22);
            return Err(Error::Rejected {
                what: "scheduler".to_owned(),
                value: "refused".to_owned(),
                source,
            });
        }
        if self.1[arm] == "gone" {
            return Err(Error::Gone("sda".to_owned()));
        }
        self.0.borrow_mut().push(arm);
        Ok(Duration::from_millis(30))
    }

    fn by_hand(&self, _: &str) -> (String, Option<String>) {
        (String::new(), None)
    }
}

fn tuner(arms: Box<dyn Arms>, metric: Metric, settings: Settings) -> LiveTuner {
    deciding(DeciderName::Kinds, arms, metric, settings)
}

fn deciding(decider: DeciderName, arms: Box<dyn Arms>, metric: Metric, settings: Settings) -> LiveTuner {
    let names = arms.names().to_vec();
    let analyser = Analyser::new(names, metric, Parameters::default(), Random::new(3)).unwrap();
    LiveTuner::new("sda", analyser.with_decider(decider), arms, metric, settings).unwrap()
}

fn settings(dry_run: bool, command: Option<&str>) -> Settings {
    Settings { dry_run, command: command.map(str::to_owned) }
}

fn made(names: &[&str]) -> Made {
    Made(Rc::default(), names.iter().map(|name| (*name).to_owned()).collect())
}

/// A window of one sequential stream with that bandwidth.
fn seen(n: u64, bandwidth: f64) -> Seen {
    let start = Time::ZERO + Span::from_secs(5 * n);
    let access = |i: u64| Access {
        time: start + Span::from_millis(i * 5),
        position: Sector(i * 8),
        op: Op::Read,
        size: Sectors(8),
    };
    // Up to the end of the window: the load does not end.
    let window = Window { start, length: Span::from_secs(5), accesses: (0..1000).map(access).collect() };
    let performance = Performance { bandwidth, ..Performance::default() };
    Seen { window, performance, busy: 1.0, tasks: Default::default(), missed: 0, torn: false, early: false }
}

/// Windows on a device where each arm gives its bandwidth.
fn windows(tuner: &mut LiveTuner, arms: &Made, bandwidth: &[f64], count: u64) -> Vec<Outcome> {
    let now = || arms.0.borrow().last().copied().unwrap_or(0);
    (0..count).map(|n| tuner.window(seen(n, bandwidth[now()])).unwrap()).collect()
}

#[test]
fn every_arm_is_tried_and_the_best_one_kept() {
    let arms = made(&["none", "mq-deadline", "bfq"]);
    let mut tuner = tuner(Box::new(arms.clone()), Metric::Bandwidth, settings(false, None));
    let outcomes = windows(&mut tuner, &arms, &[50e6, 80e6, 60e6], 40);
    assert_eq!(*arms.0.borrow().last().unwrap(), 1);
    // Window 22 measures `none` again.
    let late = outcomes[24..].iter().filter(|outcome| outcome.switched.is_some()).count();
    assert_eq!(late, 0, "{:?}", outcomes.iter().map(|o| &o.line).collect::<Vec<_>>());
    let status = tuner.status();
    assert_eq!(
        (status.windows, status.current.as_str(), status.before.as_str()),
        (40, "mq-deadline", "none")
    );
    assert!(status.hits > 30 && status.switches >= 2, "{status:?}");
}

#[test]
fn without_a_better_arm_standby_begins_under_none() {
    let arms = made(&["none", "mq-deadline", "bfq"]);
    let command = "awk 'BEGIN { srand(); print 100 + rand() }'";
    let metric = Metric::External(Better::Higher);
    let mut tuner = tuner(Box::new(arms.clone()), metric, settings(false, Some(command)));
    // Far jumps that never come again: every window is a miss, and the bandit would try for ever.
    let mut random = Random::new(9);
    for n in 0..400 {
        let mut seen = seen(n, 0.0);
        seen.window.accesses.iter_mut().for_each(|access| access.position = Sector(random.below(1 << 30)));
        let outcome = tuner.window(seen).unwrap();
        if outcome.line.contains("using none") && n > 100 {
            assert_eq!(tuner.status().current, "none");
            return;
        }
    }
    panic!("it never came to rest: {:?}", tuner.status());
}

#[test]
fn a_dry_run_changes_nothing() {
    let tree = Tree::new("dry");
    let arms = KernelArms::new(vec![tree.queue()], &[]).unwrap();
    let mut tuner = tuner(Box::new(arms), Metric::Bandwidth, settings(true, None));
    let lines: Vec<String> = (0..20).map(|n| tuner.window(seen(n, 50e6)).unwrap().line).collect();
    assert!(lines.iter().any(|line| line.starts_with("would switch to ")), "{lines:?}");
    assert_eq!(tree.queue().get("scheduler").unwrap(), "mq-deadline");
    assert_eq!(tuner.status().switches, 0);
}

/// A dry run tries nothing, so nothing is tried again.
#[test]
fn a_dry_run_proposes_a_first_trial_repeatedly() {
    for dry_run in [true, false] {
        let arms = made(&["mq-deadline", "kyber", "bfq"]);
        let mut tuner = tuner(Box::new(arms.clone()), Metric::Bandwidth, settings(dry_run, None));
        let lines = windows(&mut tuner, &arms, &[50e6; 3], 40);
        let again = |outcome: &&Outcome| outcome.line.contains("tried again for loads of kind 0");
        let tried = |outcome: &&Outcome| {
            outcome.line.contains(": tried for loads of kind 0") || outcome.line.contains("; trying ")
        };
        assert!(lines.iter().any(|outcome| tried(&outcome)));
        assert_eq!(lines.iter().any(|outcome| again(&outcome)), !dry_run);
    }
}

#[test]
fn another_processs_switch_ends_tuning() {
    let tree = Tree::new("foreign");
    let arms = KernelArms::new(vec![tree.queue()], &[]).unwrap();
    let mut tuner = tuner(Box::new(arms), Metric::Bandwidth, settings(true, None));
    tuner.window(seen(0, 50e6)).unwrap();
    std::fs::write(tree.0.join("sda/queue/scheduler"), "none mq-deadline [bfq]\n").unwrap();
    let error = tuner.window(seen(1, 50e6)).unwrap_err().to_string();
    assert!(error.contains("from mq-deadline to bfq; keeping bfq"), "{error}");
}

#[test]
fn a_removed_device_ends_tuning() {
    let tree = Tree::new("gone");
    let arms = KernelArms::new(vec![tree.queue()], &[]).unwrap();
    let mut tuner = tuner(Box::new(arms), Metric::Bandwidth, settings(false, None));
    std::fs::remove_dir_all(tree.0.join("sda")).unwrap();
    assert!(matches!(tuner.window(seen(0, 50e6)), Err(Error::Gone(_))));
}

#[test]
fn a_rejected_scheduler_is_reported_and_nothing_changes() {
    let arms = made(&["mq-deadline", "refused"]);
    let mut tuner = tuner(Box::new(arms.clone()), Metric::Bandwidth, settings(false, None));
    let outcomes = windows(&mut tuner, &arms, &[50e6, 0.0], 10);
    assert!(outcomes.iter().any(|outcome| outcome.line.contains("rejected '")), "it was tried");
    assert!(arms.0.borrow().is_empty() && tuner.status().current == "mq-deadline");
}

/// A wrong lesson would be stored for the drive.
#[test]
fn a_device_removed_during_a_switch_does_not_reject_the_scheduler() {
    let arms = made(&["mq-deadline", "gone"]);
    let mut tuner = tuner(Box::new(arms), Metric::Bandwidth, settings(false, None));
    let ended = (0..10).find_map(|n| tuner.window(seen(n, 50e6)).err());
    assert!(matches!(ended, Some(Error::Gone(_))), "{ended:?}");
    assert_eq!(tuner.state().kinds.tallies(0).unwrap()[1], None);
}

/// An arm may have a setting that its scheduler lacks.
#[test]
fn a_rejected_arm_does_not_prevent_the_others() {
    for decider in [DeciderName::Kinds, DeciderName::IoAnalyzer] {
        let arms = made(&["mq-deadline", "refused", "bfq"]);
        let all: Box<dyn Arms> = Box::new(arms.clone());
        let mut tuner = deciding(decider, all, Metric::Bandwidth, settings(false, None));
        let outcomes = windows(&mut tuner, &arms, &[50e6, 0.0, 90e6], 100);
        let lines = outcomes.iter().filter(|outcome| outcome.line.contains("rejected '")).count();
        assert_eq!(tuner.status().current, "bfq", "{decider:?}, rejected {lines} times");
        assert_eq!(lines, 1, "{decider:?}");
    }
}

#[test]
fn a_scheduler_that_is_no_arm_is_replaced() {
    let tree = Tree::new("none-of-them");
    let names = ["bfq", "none"].map(|name| format!("{name}{{}}"));
    let arms = KernelArms::new(vec![tree.queue()], &names).unwrap();
    let mut tuner = tuner(Box::new(arms), Metric::Bandwidth, settings(false, None));
    assert_eq!(tuner.window(seen(0, 50e6)).unwrap().switched.as_deref(), Some("bfq{}"));
    assert_eq!(tree.queue().get("scheduler").unwrap(), "bfq");
}

/// Each attempt stops the queue for nothing.
#[test]
fn without_a_settable_arm_tuning_ends() {
    let tree = Tree::new("no-arm");
    let names = ["bfq{nosuch=1}", "none{nosuch=1}"].map(str::to_owned);
    let arms = KernelArms::new(vec![tree.queue()], &names).unwrap();
    let mut tuner = tuner(Box::new(arms), Metric::Bandwidth, settings(false, None));
    let first = tuner.window(seen(0, 50e6)).unwrap();
    assert!(first.line.contains("nosuch"), "{}", first.line);
    let error = (1..4).find_map(|n| tuner.window(seen(n, 50e6)).err()).expect("there is none left");
    assert!(error.to_string().starts_with("sda: no arm can be set; the last: "), "{error}");
    assert_eq!(tree.queue().get("scheduler").unwrap(), "mq-deadline");
}

#[test]
fn a_failed_command_and_a_discarded_window_are_reported() {
    let arms = made(&["mq-deadline", "bfq"]);
    let metric = Metric::External(Better::Lower);
    let mut tuner = tuner(Box::new(arms.clone()), metric, settings(false, Some("exit 7")));
    let outcome = tuner.window(seen(0, 0.0)).unwrap();
    assert!(outcome.line.contains("exit status: 7"), "{}", outcome.line);
    let torn = tuner.window(Seen { torn: true, ..seen(1, 0.0) }).unwrap();
    assert!(torn.line.contains("too long"));
}

/// Programs of one control group: `bfq` waits for each of them until it merges their queues. Regression: the tuner used `none`, and `patterns` and `advise` had
/// `bfq{low_latency=0}`.
#[test]
fn what_is_better_right_after_a_switch_only_is_not_known_as_better() {
    let names = ["none", "mq-deadline", "kyber", "bfq", "bfq{low_latency=0}"];
    for lasts in 1..6 {
        let arms = made(&names);
        let mut tuner = tuner(Box::new(arms.clone()), Metric::Bandwidth, settings(false, None));
        let (mut before, mut since, mut rested) = (0, 0, false);
        for n in 0..200 {
            let now = arms.0.borrow().last().copied().unwrap_or(0);
            since = if now == before { since + 1 } else { 1 };
            before = now;
            let bandwidth = if now == 4 && since <= lasts { 8e6 } else { 0.5e6 };
            let line = tuner.window(seen(n, bandwidth)).unwrap().line;
            rested |= line.contains("using none");
            if rested {
                let kinds = tuner.state().kinds;
                let known = kinds.compared(0, Some(SchedulerId(0)), Better::Higher).expect("known");
                let in_use = arms.0.borrow().last().copied().unwrap_or(0);
                assert_eq!((names[known.best().0], names[in_use]), ("none", "none"), "{lasts}: {line}");
                break;
            }
        }
        println!("better for {lasts} windows: rested {rested}, in use {}", tuner.status().current);
    }
}

/// Regression: the scheduler of the trial stayed for as long as the command failed.
#[test]
fn a_trial_that_cannot_be_measured_ends_at_once() {
    let arms = made(&["mq-deadline", "bfq", "none"]);
    let file = std::env::temp_dir().join(format!("dwell-fails-{}", std::process::id()));
    let command = format!("cat {}", file.display());
    let metric = Metric::External(Better::Higher);
    let mut tuner = tuner(Box::new(arms.clone()), metric, settings(false, Some(&command)));
    let now = || arms.0.borrow().last().copied().unwrap_or(0);
    let mut tried = std::collections::BTreeMap::new();
    for n in 0..60 {
        // The command measures the operator's scheduler only.
        let before = now();
        match before {
            0 => std::fs::write(&file, "100").unwrap(),
            arm => {
                *tried.entry(arm).or_insert(0) += 1;
                let _ = std::fs::remove_file(&file);
            }
        }
        let outcome = tuner.window(seen(n, 0.0)).unwrap();
        if before != 0 {
            assert_eq!(now(), 0, "{}", outcome.line);
            assert!(outcome.line.contains("ends, back to mq-deadline"), "{}", outcome.line);
        }
    }
    assert_eq!(tried.into_values().collect::<Vec<_>>(), [3, 3], "each arm is given up");
    // While the command fails, no trial begins.
    let arms = made(&["none", "bfq"]);
    let mut tuner = crate::tuner(Box::new(arms.clone()), metric, settings(false, Some("exit 1")));
    (0..30).for_each(|n| _ = tuner.window(seen(n, 0.0)).unwrap());
    assert_eq!(arms.0.borrow().len(), 0);
    let _ = std::fs::remove_file(&file);
}

/// Memory behind a loop device: a recurring pattern, and schedulers that cost little or nothing.
#[test]
fn without_a_difference_standby_begins_soon_at_no_cost() {
    for noise in [0.02, 0.2] {
        let arms = made(&["mq-deadline", "none", "kyber", "bfq"]);
        let mut tuner = tuner(Box::new(arms.clone()), Metric::Bandwidth, settings(false, None));
        let (mut random, mut rest, mut given) = (Random::new(7), None, 0.0);
        for n in 0..600 {
            let now = arms.0.borrow().last().copied().unwrap_or(0);
            let usual = [298e6, 300e6, 299e6, 200e6][now];
            given += usual;
            let outcome = tuner.window(seen(n, usual * (1.0 - noise + 2.0 * noise * random.unit()))).unwrap();
            if outcome.line.contains("using none") {
                rest.get_or_insert(n);
            }
        }
        let (rest, lost) = (rest.expect("it comes to rest"), 1.0 - given / (600.0 * 300e6));
        let switches = tuner.status().switches;
        println!(
            "noise {noise}: at rest after {rest} windows, {switches} switches, {:.2}% lost in 600",
            lost * 100.0
        );
        assert_eq!(tuner.status().current, "none");
        // With noise one arm looks better at first, and stays for 20 windows.
        assert!(rest <= 80 && lost < 0.005, "after {rest} windows, {lost} lost");
    }
}

/// A window on a device of this speed with this demand.
fn asked_for(n: u64, demand: f64, speed: f64) -> Seen {
    Seen { busy: (demand / speed).min(1.0), ..seen(n, demand.min(speed)) }
}

/// Runs a load with this demand per window on a device where no arm is better than `none`; returns the windows and switches until standby. `left` is
/// the share of the speed that the rest of the machine leaves.
fn found_out(demand: impl FnMut(u64) -> f64, mut left: impl FnMut() -> f64) -> (u64, u64) {
    let arms = made(&["none", "mq-deadline", "kyber", "bfq"]);
    let mut tuner = tuner(Box::new(arms.clone()), Metric::Bandwidth, settings(false, None));
    for (n, demand) in (0..100).map(demand).enumerate() {
        let speed = [300e6, 298e6, 299e6, 200e6][arms.0.borrow().last().copied().unwrap_or(0)];
        tuner.window(asked_for(n as u64, demand, left() * speed)).unwrap();
        if tuner.is_on_standby() {
            return (n as u64 + 1, tuner.status().switches);
        }
    }
    panic!("it never came to rest: {:?}", tuner.status());
}

#[test]
fn a_load_that_starts_within_a_window_is_no_gain() {
    for demand in [8e6_f64, 100e6, 900e6] {
        let (windows, switches) =
            found_out(|n| if n == 0 { 0.3 * demand.min(300e6) } else { demand }, || 1.0);
        assert!(windows <= 20 && switches <= 16, "{demand}: {windows} windows, {switches} switches");
    }
}

#[test]
fn bursts_are_no_gain() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (windows, _) = found_out(|_| 300e6 * random.unit() * random.unit(), || 1.0);
        assert!(windows <= 24, "seed {seed}: {windows}");
    }
}

/// Another process disturbs all measured windows of `none`, and then the choice no longer matters.
#[test]
fn without_a_lasting_gain_standby_begins() {
    let arms = made(&["none", "mq-deadline", "bfq"]);
    let mut tuner = tuner(Box::new(arms.clone()), Metric::Bandwidth, settings(false, None));
    windows(&mut tuner, &arms, &[100e6, 300e6, 290e6], 8);
    let rest = (0..700).find(|_| {
        windows(&mut tuner, &arms, &[300e6, 300e6, 290e6], 1);
        tuner.is_on_standby()
    });
    assert!(rest.is_some_and(|windows| windows <= 500), "{rest:?}");
}

#[test]
fn a_throttled_load_gains_nothing_on_a_busy_machine() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (windows, _) = found_out(|_| 40e6, || 0.15 + 0.85 * random.unit());
        assert!(windows <= 20, "seed {seed}: {windows}");
        let begins_late = |n| if n == 0 { 12e6 } else { 40e6 };
        let (windows, _) = found_out(begins_late, || 0.15 + 0.85 * random.unit());
        assert!(windows <= 24, "seed {seed}: {windows}");
    }
}

/// Programs compute for two fifths of the time, and are twice as fast with a fast device.
#[test]
fn programs_that_compute_between_requests_can_gain() {
    let arms = made(&["none", "mq-deadline", "bfq"]);
    let mut tuner = tuner(Box::new(arms.clone()), Metric::Bandwidth, settings(false, None));
    for n in 0..60 {
        let speed: f64 = [1e6, 1e6, 9e6][arms.0.borrow().last().copied().unwrap_or(0)];
        let (think, served) = (0.4, 0.6 * 1e6 / speed);
        let given = 0.6e6 / (think + served);
        tuner.window(asked_for(n, given, speed)).unwrap();
    }
    assert_eq!(tuner.status().current, "bfq");
    assert!(!tuner.is_on_standby());
}

/// A tuner on standby.
fn resting() -> (LiveTuner, Made) {
    let arms = made(&["none", "mq-deadline", "bfq"]);
    let mut tuner = tuner(Box::new(arms.clone()), Metric::Bandwidth, settings(false, None));
    assert!(!tuner.is_on_standby(), "it has seen nothing yet");
    while !tuner.is_on_standby() {
        windows(&mut tuner, &arms, &[300e6, 298e6, 299e6], 1);
    }
    (tuner, arms)
}

#[test]
fn standby_ends_with_another_load() {
    let (mut tuner, arms) = resting();
    let small = Load {
        iops: 9000.0,
        bandwidth: 36e6,
        size: 4096.0,
        reads: 1.0,
        in_flight: 2.0,
        latency: 2e-4,
        ..Load::default()
    };
    for _ in 0..50 {
        assert_eq!(tuner.standby_window(&small).unwrap(), None);
    }
    assert_eq!(tuner.status().value, Some(36e6), "the kernel counts that, too");
    let scattered = Load { iops: 120.0, in_flight: 12.0, latency: 0.1, ..small };
    let lines: Vec<_> = (0..3).map(|_| tuner.standby_window(&scattered).unwrap()).collect();
    let why = lines[2].as_deref().unwrap_or_default();
    assert!(
        lines[..2] == [None, None] && why.contains("12.0 requests in flight instead of 2.0"),
        "{lines:?}"
    );
    assert!(!tuner.is_on_standby());
    // Now it is a disk. What was believed of the same pattern, twenty values an arm, has to go first.
    windows(&mut tuner, &arms, &[1e6, 1e6, 5e6], 120);
    assert_eq!((tuner.status().current.as_str(), tuner.is_on_standby()), ("bfq", false));
}

/// Programs' bytes count since the last reading, which may be long ago.
#[test]
fn bytes_on_standby_belong_to_no_window() {
    let arms = made(&["none", "bfq"]);
    let mut tuner = tuner(Box::new(arms), Metric::UserBandwidth, settings(false, None));
    let mut value = |n| {
        tuner.window(seen(n, 0.0)).unwrap();
        let value = tuner.status().value;
        tuner.standby_window(&Load::default()).unwrap();
        value
    };
    assert_eq!([value(0), value(1)], [None, None]);
}

#[test]
fn another_processs_switch_on_standby_ends_tuning() {
    let (mut tuner, arms) = resting();
    arms.0.borrow_mut().push(2);
    assert!(matches!(tuner.standby_window(&Load::default()), Err(Error::Foreign { .. })));
}

#[test]
fn a_dry_run_never_goes_to_standby() {
    let arms = made(&["none", "mq-deadline"]);
    let mut tuner = tuner(Box::new(arms.clone()), Metric::Bandwidth, settings(true, None));
    windows(&mut tuner, &arms, &[300e6, 300e6], 60);
    assert!(!tuner.is_on_standby());
}

/// On a disk the decider chooses after two blocks.
#[test]
fn on_a_disk_the_test_takes_two_blocks() {
    let arms = made(&["none", "mq-deadline", "bfq"]);
    let mut tuner = tuner(Box::new(arms.clone()), Metric::Bandwidth, settings(false, None));
    let outcomes = windows(&mut tuner, &arms, &[30e6, 35e6, 90e6], 40);
    let asked = outcomes.iter().filter(|outcome| outcome.line.contains("measuring ")).count();
    assert!(asked <= 6, "{asked}");
    assert_eq!(tuner.status().current, "bfq");
}
