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
/// The confidence of a recommendation that rests on the class of the load alone.
const EXPECTED: f64 = 0.3;

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
    /// Requests in all windows that were only counted.
    not_reported: u64,
    read_share: f64,
    random_share: f64,
    doubts: Vec<String>,
    /// The class of the load, which decides what is expected without history.
    load: Option<&'static str>,
    /// How to return to the present scheduler.
    revert: Option<String>,
    /// A better scheduler, if one is known.
    better: Option<String>,
    expected_gain: Option<f64>,
    confidence: f64,
    why: String,
    set: Option<String>,
    keep: Option<String>,
}

/// What was known about the arms before, summed over the windows in which the arm in use is known. In a window where an arm is unknown it counts as
/// equal.
struct Known {
    /// The arm in use, if it is one.
    now: Option<usize>,
    better: Better,
    /// The value of the arm in use, summed over the windows.
    base: f64,
    arms: Vec<Beside>,
    /// The arm that the device's profile prefers, and why, while nothing is known.
    profiled: Option<(usize, String)>,
}

/// An arm compared with the one in use.
#[derive(Clone, Copy, Default)]
struct Beside {
    /// Its gain, summed over the windows in which it is known.
    gained: f64,
    /// The part of the gain that chance does not explain.
    surely: f64,
    windows: u32,
    /// Measurements behind it.
    measured: usize,
}

/// What is known about an arm for a window.
#[derive(Clone, Copy)]
struct Of {
    value: f64,
    /// Measurements behind it.
    measured: usize,
    /// By how much it exceeds the arm in use beyond chance, as a part of the greater value.
    surely: f64,
}

pub(crate) fn run(arguments: &AdviseArguments, catalogue: Catalogue) -> Result<(), Error> {
    let target = Target::find(&arguments.device, arguments.watching.reached.reach())?;
    let metric = setup::metric(&arguments.watching);
    setup::measurable(metric)?;
    let mut outside = Outside::new(arguments.watching.command.clone());
    // Not idle priority, which gets no window in a minute on a busy machine: advise ends after a few.
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
        "watching {} for {} of {:.0} s; nothing is changed",
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
    let mut known = Known::new(arms.names(), &current, metric.better());
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
        look(&mut advice, &mut known, &mut analyser, seen);
    }
    if let Some(profile) = &profile {
        known.keep_significant(profile, &current, arms.names(), &advice);
    }
    conclude(&mut advice, &known, &*arms);
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

fn look(advice: &mut Advice, known: &mut Known, analyser: &mut Analyser, seen: Seen) {
    let n = f64::from(advice.windows);
    let mean = |so_far: f64, value: f64| (so_far * n + value) / (n + 1.0);
    let requests = (seen.window.requests() + seen.missed) as f64 / seen.window.length.as_secs_f64();
    advice.requests_per_second = mean(advice.requests_per_second, requests);
    advice.request_bytes = mean(advice.request_bytes, seen.window.mean_size());
    advice.not_reported += seen.missed;
    advice.read_share = mean(advice.read_share, seen.window.read_share());
    advice.random_share = mean(advice.random_share, seen.window.random_share());
    advice.windows += 1;
    let scheduler = known.now.map(SchedulerId);
    let observed = Observed { scheduler, performance: seen.performance };
    let decision = analyser.window(&seen.window, &observed);
    advice.analysed += u32::from(decision.is_analysed());
    if let Some(of) = known_before(analyser, &decision, known) {
        advice.recognised += 1;
        known.add(&of);
    }
    known.ask_profile(&decision, analyser.schedulers());
    advice.why = match &decision.why {
        // The next step of the decider, perhaps a trial, is no reason.
        Why::Kind(KindDecision { kind, windows, .. }) => {
            format!("loads of kind {kind}, known by {}", counted(*windows, "window"))
        }
        _ => decision.line(analyser.schedulers()),
    };
}

/// What the window's cluster or kind of load already knew about each arm. `None` for the first window of its kind.
fn known_before(analyser: &Analyser, decision: &Decision, known: &Known) -> Option<Vec<Option<Of>>> {
    match decision.why {
        Why::Kind(KindDecision { kind, windows, .. }) if windows > 1 => {
            let expected = analyser.kinds().expected(kind, known.better)?;
            let surely = |arm| {
                let now = SchedulerId(known.now?);
                Some(analyser.kinds().surely_ahead(kind, SchedulerId(arm), now, known.better))
            };
            let of = |(arm, of): (usize, Option<(f64, u64)>)| {
                let (value, windows) = of?;
                Some(Of { value, measured: windows as usize, surely: surely(arm).unwrap_or(0.0) })
            };
            Some(expected.into_iter().enumerate().map(of).collect())
        }
        Why::Best { .. } | Why::Untested { .. } => {
            let cluster = analyser.store().get(decision.cluster?)?;
            // The paper compares means only.
            let of =
                |values: &Values| Some(Of { value: values.mean()?, measured: values.count(), surely: 1.0 });
            Some(cluster.performance.iter().map(of).collect())
        }
        _ => None,
    }
}

impl Known {
    fn new(arms: &[String], current: &str, better: Better) -> Self {
        let now = arms.iter().position(|name| name == current);
        Self { now, better, base: 0.0, arms: vec![Beside::default(); arms.len()], profiled: None }
    }

    fn add(&mut self, of: &[Option<Of>]) {
        let Some(Of { value: base, .. }) = self.now.and_then(|now| of[now]) else { return };
        self.base += base;
        for (arm, of) in self.arms.iter_mut().zip(of) {
            if let Some(Of { value, measured, surely }) = *of {
                arm.gained += self.better.oriented(value - base);
                arm.surely += surely;
                arm.windows += 1;
                arm.measured += measured;
            }
        }
    }

    fn ask_profile(&mut self, decision: &Decision, names: &[String]) {
        if let (Why::APriori { .. }, Some(best), true) = (&decision.why, decision.scheduler, decision.change)
        {
            self.profiled = Some((best.0, decision.line(names)));
        }
    }

    /// Forgets the profile's preference unless the confidence intervals of the two schedulers are apart for this load.
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

    /// The best arm, if another one than the arm in use was tried.
    fn best(&self) -> Option<(usize, Beside)> {
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

fn conclude(advice: &mut Advice, known: &Known, arms: &dyn Arms) {
    let Some((best, of)) = known.best() else { return by_profile(advice, known, arms) };
    let gain = if known.base == 0.0 { 0.0 } else { of.gained / known.base.abs() };
    let recognised = f64::from(of.windows) / f64::from(advice.analysed.max(1));
    advice.confidence = recognised * of.measured as f64 / (of.measured + 1) as f64;
    advice.expected_gain = Some(gain);
    if Some(best) != known.now && gain >= WORTH_IT && of.surely > 0.0 {
        recommend(advice, &arms.names()[best], arms);
    }
}

/// The profile decides while nothing is known. It does not say how much this load gains.
fn by_profile(advice: &mut Advice, known: &Known, arms: &dyn Arms) {
    if let Some((best, why)) = &known.profiled {
        advice.why.clone_from(why);
        recommend(advice, &arms.names()[*best], arms);
    }
}

/// The expectation for the class of the load decides if neither history nor a profile does. It was not measured on this device.
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
        advice.confidence = EXPECTED;
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
            "keep {scheduler}: no other scheduler is expected to be better for this load ({}); nothing was measured on this drive yet, and \
             'dwell tune' tries schedulers and restores the present one at its end",
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

    /// So much, measured so often, beyond chance.
    fn of(value: f64, measured: usize) -> Option<Of> {
        Some(Of { value, measured, surely: 0.1 })
    }

    /// Of `none`, which is in use, and `bfq`, in each window.
    fn advice(windows: &[[Option<Of>; 2]], better: Better) -> Advice {
        let mut advice = Advice { scheduler: "none".to_owned(), analysed: 4, ..Advice::default() };
        let arms = Two(["none", "bfq"].map(str::to_owned).to_vec());
        let mut known = Known::new(arms.names(), "none", better);
        windows.iter().for_each(|of| known.add(of));
        conclude(&mut advice, &known, &arms);
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
    fn a_better_one_is_named_with_the_line_that_sets_it() {
        let found = advice(&[[of(10.0, 1), of(20.0, 3)]; 3], Better::Higher);
        assert_eq!((found.better.as_deref(), found.set.as_deref()), (Some("bfq"), Some("set bfq")));
        assert_eq!((found.expected_gain, found.confidence), (Some(1.0), 0.75 * 0.9));
    }

    #[test]
    fn what_is_no_better_or_not_known_is_not_recommended() {
        let found = |bfq: f64, better| advice(&[[of(30.0, 3), of(bfq, 9)]], better);
        assert!(found(30.5, Better::Higher).better.is_none(), "too little");
        assert!(found(60.0, Better::Lower).better.is_none(), "less is better");
        let by_chance = of(60.0, 9).map(|of| Of { surely: 0.0, ..of });
        assert!(advice(&[[of(30.0, 3), by_chance]], Better::Higher).better.is_none(), "it may be chance");
        let unknown = advice(&[[None, of(60.0, 9)]], Better::Higher);
        assert!(unknown.expected_gain.is_none(), "nothing to compare with");
        let alone = advice(&[[of(30.0, 3), None]], Better::Higher);
        assert!(alone.expected_gain.is_none(), "as good as any is no word for the only one that was tried");
    }

    #[test]
    fn while_nothing_is_known_the_profile_decides() {
        use tuner::selector::{Curve, Kind, Table};
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        let curve = |rate| Curve { kind: Kind { reads: None, random: None }, points: vec![(4096.0, rate)] };
        let by = |rates: [f64; 2]| {
            let table = Table { curves: rates.map(|rate| vec![curve(rate)]).to_vec() };
            let (parameters, random) = (Parameters::default(), Random::seeded(1));
            let analyser = Analyser::new(names.clone(), Metric::Bandwidth, parameters, random).unwrap();
            let mut analyser = analyser.with_a_priori(table);
            let mut known = Known::new(&names, "none", Better::Higher);
            let mut advice = Advice { scheduler: "none".to_owned(), ..Advice::default() };
            for _ in 0..3 {
                let decision = reads(&mut analyser, SchedulerId(0), 30e6);
                known.ask_profile(&decision, &names);
            }
            conclude(&mut advice, &known, &Two(names.clone()));
            advice
        };
        let better = by([1e6, 2e6]);
        assert_eq!((better.better.as_deref(), better.expected_gain), (Some("bfq"), None));
        assert!(better.why.contains("the device's table has 2.0 MB/s"), "{}", better.why);
        assert!(by([2e6, 1e6]).better.is_none(), "it is in use");
    }

    /// Sums over different windows cannot be compared: of latencies, whoever is known in fewer would always be better.
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
    fn what_is_known_by_kinds_of_load_is_recommended() {
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        let parameters = Parameters::default();
        let mut analyser =
            Analyser::new(names.clone(), Metric::Bandwidth, parameters, Random::seeded(1)).unwrap();
        let mut scheduler = SchedulerId(0);
        let first = reads(&mut analyser, scheduler, 30e6);
        let mut known = Known::new(&names, "none", Better::Higher);
        assert!(known_before(&analyser, &first, &known).is_none(), "the first of its like");
        for _ in 0..200 {
            let decision = reads(&mut analyser, scheduler, [30e6, 60e6][scheduler.0]);
            scheduler = decision.scheduler.unwrap_or(scheduler);
        }
        // From here on nothing is changed, whatever is decided.
        let mut advice = Advice { scheduler: "none".to_owned(), ..Advice::default() };
        for _ in 0..5 {
            let decision = reads(&mut analyser, SchedulerId(0), 30e6);
            let of = known_before(&analyser, &decision, &known).expect("a kind that is known");
            known.add(&of);
            (advice.analysed, advice.recognised) = (advice.analysed + 1, advice.recognised + 1);
        }
        conclude(&mut advice, &known, &Two(names));
        assert_eq!(advice.better.as_deref(), Some("bfq"));
        let gain = advice.expected_gain.unwrap();
        assert!((0.8..1.2).contains(&gain), "twice as much: {gain}");
    }
}
