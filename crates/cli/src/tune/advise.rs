//! `dwell advise`: watches a device and recommends a scheduler, without trying any.

use std::io::Write;

use capture::profile::Profile;
use capture::topology::Kind;
use elevator::text::counted;
use schedulers::registry::Catalogue;
use serde::Serialize;
use tuner::prior::{self, LoadClass};
use tuner::selector::Workload;
use tuner::{Analyser, Better, Decision, KindDecision, Metric, Observed, SchedulerId, Values, Why};
use tuner_live::arms::Arms;
use tuner_live::database::Database;
use tuner_live::outside::Outside;
use tuner_live::{Seen, in_words};

use super::args::AdviseArguments;
use super::does_not_fit;
use super::setup::{self, Target};
use crate::error::Error;
use crate::interrupt;
use evaluation::report::format::object;

/// Smaller gains are not recommended.
const WORTH_IT: f64 = 0.03;
/// The confidence of a recommendation that is derived from the class of the load alone.
const CONFIDENCE_OF_CLASS: f64 = 0.3;

/// The result.
#[derive(Serialize, Default)]
struct Advice {
    device: String,
    stack: String,
    scheduler: String,
    metric: String,
    windows: u32,
    analysed: u32,
    recognised: u32,
    requests_per_second: f64,
    request_bytes: f64,
    /// Requests in all windows that the capture counted but did not report.
    not_reported: u64,
    read_share: f64,
    random_share: f64,
    doubts: Vec<String>,
    /// The class of the load, from which the expectation is derived if there is no history.
    load: Option<&'static str>,
    /// How to return to the present scheduler.
    revert: Option<String>,
    /// The recommended scheduler, if another one than the present.
    better: Option<String>,
    expected_gain: Option<f64>,
    confidence: f64,
    why: String,
    set: Option<String>,
    keep: Option<String>,
}

/// What the database's history shows about the arms, summed over the windows for whose kind of load the arm in use was measured. An arm that was not
/// measured for a window's kind counts as equal in that window.
struct History {
    /// The arm in use; `None` if the scheduler in use is not an arm.
    now: Option<usize>,
    better: Better,
    /// The value of the arm in use, summed over the windows.
    base: f64,
    arms: Vec<Compared>,
    /// The arm that the device's profile prefers, and the reason. Used if there is no history.
    profiled: Option<(usize, String)>,
}

/// An arm compared with the one in use.
#[derive(Clone, Copy, Default)]
struct Compared {
    /// Its gain, summed over the windows for which it was measured.
    gained: f64,
    /// The significant part of the gain.
    surely: f64,
    windows: u32,
    /// The number of measurements.
    measured: usize,
}

/// The expected value of an arm for a window.
#[derive(Clone, Copy)]
struct Estimate {
    value: f64,
    /// The number of measurements.
    measured: usize,
    /// The significant part of its advance over the arm in use, as a share of the greater value.
    surely: f64,
}

pub(crate) fn run(arguments: &AdviseArguments, catalogue: Catalogue) -> Result<(), Error> {
    let target = Target::find(&arguments.device, arguments.watching.reached.reach())?;
    let metric = setup::metric(&arguments.watching);
    setup::measurable(metric)?;
    let mut outside = Outside::new(arguments.watching.command.clone());
    // At idle priority a busy machine may not complete one window in a minute, and advise ends after a few windows.
    capture::lower_priority();
    let mut arms = setup::arms(&target, &arguments.watching, catalogue, Vec::new())?;
    let (length, mut analyser) = setup::analyser(arms.names(), &arguments.watching, 1)?;
    if let Some(database) = Database::open_existing(&arguments.watching.database)?
        && let Some(state) = database.load(&target.drive, metric)?
    {
        let file = &arguments.watching.database;
        analyser.restore(state).map_err(|problem| does_not_fit("--database", file, &problem))?;
    }
    let mut windows = target.watch(length, metric)?;
    say!(
        "watching {} for {} of {:.0} s; changing nothing",
        target.layer.name,
        counted(u64::from(arguments.windows), "window"),
        length.as_secs_f64()
    );
    let current = arms.current()?;
    let mut advice = Advice {
        device: arguments.device.display().to_string(),
        stack: target.stack.describe(),
        scheduler: current.clone(),
        metric: in_words(metric),
        doubts: target.doubts(&arguments.watching),
        ..Advice::default()
    };
    let mut history = History::new(arms.names(), &current, metric.better());
    let profile = arguments.watching.profile.as_deref().map(crate::commands::profile::read).transpose()?;
    let mut class = None;
    while advice.windows < arguments.windows {
        let Some(mut seen) = windows.next(&mut capture::now, &mut || !interrupt::requested())? else { break };
        let now = arms.current()?;
        if now != current {
            let device = arguments.device.display();
            let problem = format!(
                "{device}: another process changed the scheduler from {current} to {now}; run advise again"
            );
            return Err(Error::Failed(problem));
        }
        outside.measure(metric, &mut seen).iter().for_each(|problem| say!("{problem}"));
        if seen.torn {
            say!("window discarded: it lasted too long (the machine slept or was overloaded)");
            continue;
        }
        class = seen.window.counts().then(|| LoadClass::of(&seen.window, seen.busy)).or(class);
        look(&mut advice, &mut history, &mut analyser, seen);
    }
    if let Some(profile) = &profile {
        history.keep_significant(profile, &current, arms.names(), &advice);
    }
    conclude(&mut advice, &history, &*arms);
    if let Some(class) = class {
        advice.load = Some(class.in_words());
        let bypassed =
            matches!(target.kind(), Kind::Nvme | Kind::Virtual) && arguments.watching.control.is_none();
        by_class(&mut advice, class, metric, bypassed, &*arms);
    }
    advice.revert = advice.better.is_some().then(|| arms.by_hand(&current).0);
    print(&advice, arguments.json)?;
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
}

fn look(advice: &mut Advice, history: &mut History, analyser: &mut Analyser, seen: Seen) {
    let n = f64::from(advice.windows);
    let mean = |so_far: f64, value: f64| (so_far * n + value) / (n + 1.0);
    let requests = (seen.window.requests() + seen.missed) as f64 / seen.window.length.as_secs_f64();
    advice.requests_per_second = mean(advice.requests_per_second, requests);
    advice.request_bytes = mean(advice.request_bytes, seen.window.mean_size());
    advice.not_reported += seen.missed;
    advice.read_share = mean(advice.read_share, seen.window.read_share());
    advice.random_share = mean(advice.random_share, seen.window.random_share());
    advice.windows += 1;
    let scheduler = history.now.map(SchedulerId);
    let observed = Observed { scheduler, performance: seen.performance };
    let decision = analyser.window(&seen.window, &observed);
    advice.analysed += u32::from(decision.is_analysed());
    if let Some(of) = history_of(analyser, &decision, history) {
        advice.recognised += 1;
        history.add(&of);
    }
    history.note_profile(&decision, analyser.schedulers());
    advice.why = match &decision.why {
        // The decider's line would name its next step, perhaps a trial, and not a reason.
        Why::Kind(KindDecision { kind, windows, .. }) => {
            format!("loads of kind {kind}, observed in {}", counted(*windows, "window"))
        }
        _ => decision.line(analyser.schedulers()),
    };
}

/// The history of each arm for the window's cluster or kind of load. `None` for the first window of its kind.
fn history_of(analyser: &Analyser, decision: &Decision, history: &History) -> Option<Vec<Option<Estimate>>> {
    match decision.why {
        Why::Kind(KindDecision { kind, windows, .. }) if windows > 1 => {
            let expected = analyser.kinds().expected(kind, history.better)?;
            let surely = |arm| {
                let now = SchedulerId(history.now?);
                Some(analyser.kinds().surely_ahead(kind, SchedulerId(arm), now, history.better))
            };
            let of = |(arm, of): (usize, Option<(f64, u64)>)| {
                let (value, windows) = of?;
                Some(Estimate { value, measured: windows as usize, surely: surely(arm).unwrap_or(0.0) })
            };
            Some(expected.into_iter().enumerate().map(of).collect())
        }
        Why::Best { .. } | Why::Untested { .. } => {
            let cluster = analyser.store().get(decision.cluster?)?;
            // The paper compares means only.
            let of = |values: &Values| {
                Some(Estimate { value: values.mean()?, measured: values.count(), surely: 1.0 })
            };
            Some(cluster.performance.iter().map(of).collect())
        }
        _ => None,
    }
}

impl History {
    fn new(arms: &[String], current: &str, better: Better) -> Self {
        let now = arms.iter().position(|name| name == current);
        Self { now, better, base: 0.0, arms: vec![Compared::default(); arms.len()], profiled: None }
    }

    fn add(&mut self, of: &[Option<Estimate>]) {
        let Some(Estimate { value: base, .. }) = self.now.and_then(|now| of[now]) else { return };
        self.base += base;
        for (arm, of) in self.arms.iter_mut().zip(of) {
            if let Some(Estimate { value, measured, surely }) = *of {
                arm.gained += self.better.oriented(value - base);
                arm.surely += surely;
                arm.windows += 1;
                arm.measured += measured;
            }
        }
    }

    fn note_profile(&mut self, decision: &Decision, names: &[String]) {
        if let (Why::APriori { .. }, Some(best), true) = (&decision.why, decision.scheduler, decision.change)
        {
            self.profiled = Some((best.0, decision.line(names)));
        }
    }

    /// Drops the profile's preference if the confidence intervals of the two schedulers overlap for this load.
    fn keep_significant(&mut self, profile: &Profile, current: &str, names: &[String], advice: &Advice) {
        let Some((best, _)) = &self.profiled else { return };
        let (best, load) = (&names[*best], advice.load());
        let why = match profile.is_surely_better(best, current, &load) {
            Some(true) => return,
            Some(false) => format!(
                "the profile has no significant difference between {best} and {current} for this load"
            ),
            None => format!(
                "the profile has no confidence intervals for {best} and {current}; measure the device again with 'dwell profile'"
            ),
        };
        say!("{why}");
        self.profiled = None;
    }

    /// The best arm, if another arm than the one in use was measured.
    fn best(&self) -> Option<(usize, Compared)> {
        let tried = || self.arms.iter().copied().enumerate().filter(|(_, arm)| arm.windows > 0);
        tried().find(|(arm, _)| Some(*arm) != self.now)?;
        tried().max_by(|a, b| a.1.gained.total_cmp(&b.1.gained))
    }
}

impl Advice {
    /// The observed load, for a profile's table.
    fn load(&self) -> Workload {
        Workload { size: self.request_bytes, read_share: self.read_share, random_share: self.random_share }
    }
}

fn conclude(advice: &mut Advice, history: &History, arms: &dyn Arms) {
    let Some((best, of)) = history.best() else { return by_profile(advice, history, arms) };
    let gain = if history.base == 0.0 { 0.0 } else { of.gained / history.base.abs() };
    let recognised = f64::from(of.windows) / f64::from(advice.analysed.max(1));
    advice.confidence = recognised * of.measured as f64 / (of.measured + 1) as f64;
    advice.expected_gain = Some(gain);
    if Some(best) != history.now && gain >= WORTH_IT && of.surely > 0.0 {
        recommend(advice, &arms.names()[best], arms);
    }
}

/// Recommends the profile's preference if there is no history. The profile does not predict the gain of this load.
fn by_profile(advice: &mut Advice, history: &History, arms: &dyn Arms) {
    if let Some((best, why)) = &history.profiled {
        advice.why.clone_from(why);
        recommend(advice, &arms.names()[*best], arms);
    }
}

/// Recommends by the expected gain for the class of the load if neither the history nor a profile decides. The gain was not measured on this device.
fn by_class(advice: &mut Advice, class: LoadClass, metric: Metric, bypassed: bool, arms: &dyn Arms) {
    if advice.better.is_some() || advice.expected_gain.is_some() {
        return;
    }
    let gain = |name: &str| prior::gain(name, class, metric);
    let now = gain(&advice.scheduler);
    let best = arms
        .names()
        .iter()
        .map(String::as_str)
        .reduce(|best, name| if gain(name) > gain(best) { name } else { best });
    let none = arms.names().iter().map(String::as_str).find(|name| *name == "none");
    let (best, why) = match (best, none) {
        (_, Some(none)) if bypassed => {
            (none, "the drive, or the host of this virtual machine, schedules the requests itself")
        }
        (Some(best), _) if gain(best) - now >= WORTH_IT => (best, class.in_words()),
        _ => return,
    };
    if best != advice.scheduler {
        advice.why = format!(
            "{why}; expected from the class of the load, not measured on this device: 'dwell tune' measures it"
        );
        advice.confidence = CONFIDENCE_OF_CLASS;
        recommend(advice, best, arms);
    }
}

fn recommend(advice: &mut Advice, name: &str, arms: &dyn Arms) {
    let (line, rule) = arms.by_hand(name);
    (advice.better, advice.set, advice.keep) = (Some(name.to_owned()), Some(line), rule);
}

fn print(advice: &Advice, json: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if json {
        return Ok(writeln!(out, "{}", object(advice)?)?);
    }
    let Advice { stack, scheduler, windows, analysed, recognised, .. } = advice;
    writeln!(out, "{}: {stack}", advice.device)?;
    writeln!(
        out,
        "{}: {:.0} requests a second, {:.0}% of the bytes read, {:.0}% not sequential; {recognised} of {analysed} recognised",
        counted(u64::from(*windows), "window"),
        advice.requests_per_second,
        advice.read_share * 100.0,
        advice.random_share * 100.0
    )?;
    if advice.not_reported > 0 {
        writeln!(out, "{} counted but not reported", counted(advice.not_reported, "request"))?;
    }
    match (&advice.better, advice.expected_gain) {
        (Some(better), Some(gain)) => {
            writeln!(
                out,
                "better: {better} ({:+.0}% {}, confidence {:.2})",
                gain * 100.0,
                advice.metric,
                advice.confidence
            )?;
            writeln!(out, "why: {}", advice.why)?;
        }
        (Some(better), None) if advice.confidence > 0.0 => {
            writeln!(out, "try: {better} (confidence {:.2})", advice.confidence)?;
            writeln!(out, "why: {}", advice.why)?;
        }
        (Some(better), None) => {
            writeln!(out, "better: {better}, according to the device's profile")?;
            writeln!(out, "why: {}", advice.why)?;
        }
        (None, Some(_)) => {
            writeln!(
                out,
                "{scheduler} is as good as every scheduler that was tried (confidence {:.2})",
                advice.confidence
            )?;
        }
        _ if *analysed == 0 => writeln!(out, "the device was idle: at most one request a second")?,
        _ => writeln!(
            out,
            "keep {scheduler}: no other scheduler is expected to be better for this load ({}); nothing was measured on this drive yet; \
             'dwell tune' measures schedulers and restores the present one when it ends",
            advice.load.unwrap_or("unknown")
        )?,
    }
    if let Some(line) = &advice.set {
        writeln!(out, "set it:  {line}")?;
    }
    if let Some(rule) = &advice.keep {
        writeln!(out, "keep it: {rule}    (a udev rule)")?;
    }
    if let Some(line) = &advice.revert {
        writeln!(out, "revert:  {line}")?;
    }
    advice.doubts.iter().try_for_each(|doubt| writeln!(out, "note: {doubt}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use elevator::{Op, Sector, Sectors, Span, Time};
    use tuner::{Access, Parameters, Performance, Random, Window};

    use super::*;

    struct Two(Vec<String>);

    impl Arms for Two {
        fn names(&self) -> &[String] {
            &self.0
        }

        fn add(&mut self, _: &str) -> Result<(), tuner_live::Error> {
            panic!("advise searches nothing")
        }

        fn rename(&mut self, _: usize, _: &str) -> Result<(), tuner_live::Error> {
            panic!("advise searches nothing")
        }

        fn current(&mut self) -> Result<String, tuner_live::Error> {
            Ok(self.0[0].clone())
        }

        fn switch(&mut self, _: usize) -> Result<Duration, tuner_live::Error> {
            panic!("advise changes nothing")
        }

        fn by_hand(&self, arm: &str) -> (String, Option<String>) {
            (format!("set {arm}"), None)
        }
    }

    /// A significant value from this number of measurements.
    fn of(value: f64, measured: usize) -> Option<Estimate> {
        Some(Estimate { value, measured, surely: 0.1 })
    }

    /// The advice after these windows: the values of `none`, which is in use, and `bfq`.
    fn advice(windows: &[[Option<Estimate>; 2]], better: Better) -> Advice {
        let mut advice = Advice { scheduler: "none".to_owned(), analysed: 4, ..Advice::default() };
        let arms = Two(["none", "bfq"].map(str::to_owned).to_vec());
        let mut history = History::new(arms.names(), "none", better);
        windows.iter().for_each(|of| history.add(of));
        conclude(&mut advice, &history, &arms);
        advice
    }

    #[test]
    fn without_history_the_class_of_the_load_decides() {
        let by = |class, bypassed, scheduler: &str| {
            let arms = Two(["none", "bfq"].map(str::to_owned).to_vec());
            let mut advice = Advice { scheduler: scheduler.to_owned(), ..Advice::default() };
            by_class(&mut advice, class, Metric::Bandwidth, bypassed, &arms);
            advice.better
        };
        assert_eq!(by(LoadClass::Streams, false, "none").as_deref(), Some("bfq"));
        assert_eq!(by(LoadClass::Streams, true, "none"), None, "the host schedules");
        assert_eq!(by(LoadClass::Streams, true, "bfq").as_deref(), Some("none"));
        assert_eq!(by(LoadClass::Fast, false, "bfq").as_deref(), Some("none"));
        assert_eq!(by(LoadClass::RandomReads, false, "none"), None);
    }

    #[test]
    fn advice_has_the_command_that_sets_the_better_scheduler() {
        let found = advice(&[[of(10.0, 1), of(20.0, 3)]; 3], Better::Higher);
        assert_eq!((found.better.as_deref(), found.set.as_deref()), (Some("bfq"), Some("set bfq")));
        assert_eq!((found.expected_gain, found.confidence), (Some(1.0), 0.75 * 0.9));
    }

    #[test]
    fn an_arm_without_a_significant_gain_is_not_recommended() {
        let found = |bfq: f64, better| advice(&[[of(30.0, 3), of(bfq, 9)]], better);
        assert!(found(30.5, Better::Higher).better.is_none(), "a gain below the threshold");
        assert!(found(60.0, Better::Lower).better.is_none(), "lower values are better");
        let by_chance = of(60.0, 9).map(|of| Estimate { surely: 0.0, ..of });
        assert!(advice(&[[of(30.0, 3), by_chance]], Better::Higher).better.is_none(), "not significant");
        let unknown = advice(&[[None, of(60.0, 9)]], Better::Higher);
        assert!(unknown.expected_gain.is_none(), "the arm in use was not measured");
        let alone = advice(&[[of(30.0, 3), None]], Better::Higher);
        assert!(alone.expected_gain.is_none(), "no other arm was measured");
    }

    #[test]
    fn without_history_the_profile_decides() {
        use tuner::selector::{Curve, Kind, Table};
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        let curve = |rate| Curve { kind: Kind { reads: None, random: None }, points: vec![(4096.0, rate)] };
        let by = |rates: [f64; 2]| {
            let table = Table { curves: rates.map(|rate| vec![curve(rate)]).to_vec() };
            let (parameters, random) = (Parameters::default(), Random::seeded(1));
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
        assert!(by([2e6, 1e6]).better.is_none(), "the profile prefers the arm in use");
    }

    /// Sums over different windows cannot be compared: the arm that was measured in fewer windows would have the lower sum of latencies.
    #[test]
    fn arms_are_compared_over_the_windows_of_both() {
        let windows = [[of(10.0, 5), of(15.0, 5)], [of(10.0, 5), None]];
        let slower = advice(&windows, Better::Lower);
        assert_eq!((slower.better, slower.expected_gain), (None, Some(0.0)));
        let faster = advice(&windows, Better::Higher);
        assert_eq!((faster.better.as_deref(), faster.expected_gain), (Some("bfq"), Some(0.25)));
        assert_eq!(faster.confidence, 0.25 * 5.0 / 6.0, "measured in one of four windows");
    }

    /// A window of one sequential reader under a scheduler with this bandwidth.
    fn reads(analyser: &mut Analyser, scheduler: SchedulerId, bandwidth: f64) -> Decision {
        let access = |n: u64| Access {
            time: Time::from_nanos(n * 1_000_000),
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
    fn the_history_of_a_kind_of_load_is_recommended() {
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        let parameters = Parameters::default();
        let mut analyser =
            Analyser::new(names.clone(), Metric::Bandwidth, parameters, Random::seeded(1)).unwrap();
        let mut scheduler = SchedulerId(0);
        let first = reads(&mut analyser, scheduler, 30e6);
        let mut history = History::new(&names, "none", Better::Higher);
        assert!(history_of(&analyser, &first, &history).is_none(), "the first window of its kind");
        for _ in 0..200 {
            let decision = reads(&mut analyser, scheduler, [30e6, 60e6][scheduler.0]);
            scheduler = decision.scheduler.unwrap_or(scheduler);
        }
        // From here on the scheduler stays, whatever the decider returns.
        let mut advice = Advice { scheduler: "none".to_owned(), ..Advice::default() };
        for _ in 0..5 {
            let decision = reads(&mut analyser, SchedulerId(0), 30e6);
            let of = history_of(&analyser, &decision, &history).expect("a kind with history");
            history.add(&of);
            (advice.analysed, advice.recognised) = (advice.analysed + 1, advice.recognised + 1);
        }
        conclude(&mut advice, &history, &Two(names));
        assert_eq!(advice.better.as_deref(), Some("bfq"));
        let gain = advice.expected_gain.unwrap();
        assert!((0.8..1.2).contains(&gain), "twice the bandwidth: {gain}");
    }
}
