//! `dwell advise`: watches, tries nothing, and says what would be better.

use std::io::Write;

use keeper::arms::Arms;
use keeper::database::Database;
use keeper::{Seen, in_words, system};
use schedulers::registry::Catalogue;
use serde::Serialize;
use tuner::{Analyser, Better, ClusterId, Observed, SchedulerId, Why};

use super::setup::{self, Target};
use crate::arguments::AdviseArguments;
use crate::error::Error;
use crate::interrupt;

/// Of a difference smaller than this nothing is said.
const WORTH_IT: f64 = 0.03;

/// What came out.
#[derive(Serialize, Default)]
struct Advice {
    schema_version: u32,
    device: String,
    stack: String,
    scheduler: String,
    metric: String,
    windows: u32,
    analysed: u32,
    recognised: u32,
    requests_per_second: f64,
    read_share: f64,
    random_share: f64,
    doubts: Vec<String>,
    /// What would be better, if anything is known to be.
    better: Option<String>,
    expected_gain: Option<f64>,
    confidence: f64,
    why: String,
    set: Option<String>,
    keep: Option<String>,
}

/// What stored clusters know of the arms: a value and the number of measurements behind it, summed over the windows.
struct Known {
    sums: Vec<(f64, usize)>,
    windows: u32,
}

pub(crate) fn run(arguments: &AdviseArguments, catalogue: Catalogue) -> Result<(), Error> {
    let target = Target::find(&arguments.device)?;
    system::idle().iter().for_each(|refused| eprintln!("not granted: {refused}"));
    let mut arms = setup::arms(&target, &arguments.watching, catalogue)?;
    let (length, mut analyser) = setup::analyser(arms.names(), &arguments.watching, 1)?;
    if let Some(mut database) = Database::look(&arguments.watching.database)?
        && let Some(state) = database.load(&target.drive)?
    {
        let file = arguments.watching.database.display();
        analyser.restore(state).map_err(|problem| Error::Usage(format!("{file}: {problem}")))?;
    }
    let mut windows = target.watch(length)?;
    let current = arms.current()?;
    let mut advice = Advice {
        schema_version: 1,
        device: arguments.device.display().to_string(),
        stack: target.stack.describe(),
        scheduler: current.clone(),
        metric: in_words(setup::metric(&arguments.watching)),
        doubts: target.stack.doubts(),
        ..Advice::default()
    };
    let mut known = Known { sums: vec![(0.0, 0); arms.names().len()], windows: 0 };
    let place = arms.names().iter().position(|name| *name == current).map(SchedulerId);
    while advice.windows < arguments.windows {
        let Some(seen) = windows.next(&mut system::now, &mut || !interrupt::requested())? else { break };
        look(&mut advice, &mut known, &mut analyser, seen, place);
    }
    conclude(&mut advice, &known, &*arms, setup::metric(&arguments.watching).better());
    print(&advice, arguments.json)?;
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok(()) }
}

fn look(
    advice: &mut Advice,
    known: &mut Known,
    analyser: &mut Analyser,
    seen: Seen,
    place: Option<SchedulerId>,
) {
    let n = f64::from(advice.windows);
    let mean = |so_far: f64, value: f64| (so_far * n + value) / (n + 1.0);
    let requests = seen.window.requests() as f64 / seen.window.length.as_secs_f64();
    advice.requests_per_second = mean(advice.requests_per_second, requests);
    advice.read_share = mean(advice.read_share, seen.window.read_share());
    advice.random_share = mean(advice.random_share, seen.window.random_share());
    advice.windows += 1;
    let observed = Observed { scheduler: place, performance: seen.performance, drained: None };
    let decision = analyser.window(&seen.window, &observed);
    advice.analysed += u32::from(decision.cluster.is_some());
    if let (Some(id), Why::Best { .. } | Why::Untested { .. }) = (decision.cluster, &decision.why) {
        advice.recognised += 1;
        known.add(analyser, id);
    }
    advice.why = decision.line(analyser.schedulers());
}

impl Known {
    fn add(&mut self, analyser: &Analyser, id: ClusterId) {
        let Some(cluster) = analyser.store().get(id) else { return };
        self.windows += 1;
        for (sum, values) in self.sums.iter_mut().zip(&cluster.performance) {
            if let Some(mean) = values.mean() {
                *sum = (sum.0 + mean, sum.1 + values.count());
            }
        }
    }

    /// Those that were tried.
    fn tried(&self) -> impl Iterator<Item = (usize, f64, usize)> {
        self.sums
            .iter()
            .enumerate()
            .filter(|(_, sum)| sum.1 > 0)
            .map(|(arm, &(sum, count))| (arm, sum, count))
    }
}

fn conclude(advice: &mut Advice, known: &Known, arms: &dyn Arms, better: Better) {
    let now = arms.names().iter().position(|name| *name == advice.scheduler);
    let best = known.tried().max_by(|a, b| better.oriented(a.1).total_cmp(&better.oriented(b.1)));
    let (Some((best, value, count)), Some((_, mine, _))) =
        (best, known.tried().find(|(arm, ..)| Some(*arm) == now))
    else {
        return;
    };
    let gain = if mine == 0.0 { 0.0 } else { better.oriented(value - mine) / mine.abs() };
    let recognised = f64::from(advice.recognised) / f64::from(advice.analysed.max(1));
    advice.confidence = recognised * count as f64 / (count + 1) as f64;
    advice.expected_gain = Some(gain);
    if Some(best) != now && gain >= WORTH_IT {
        let name = arms.names()[best].clone();
        let (line, rule) = arms.by_hand(&name);
        (advice.better, advice.set, advice.keep) = (Some(name), Some(line), rule);
    }
}

fn print(advice: &Advice, json: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if json {
        let text = serde_json::to_string(advice).map_err(|e| Error::Failed(e.to_string()))?;
        return Ok(writeln!(out, "{text}")?);
    }
    let Advice { stack, scheduler, windows, analysed, recognised, .. } = advice;
    writeln!(out, "{}: {stack}", advice.device)?;
    writeln!(
        out,
        "{windows} windows: {:.0} requests a second, {:.0}% of the bytes read, {:.0}% not in sequence; {recognised} of {analysed} recognised",
        advice.requests_per_second,
        advice.read_share * 100.0,
        advice.random_share * 100.0
    )?;
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
        (None, Some(_)) => {
            writeln!(
                out,
                "{scheduler} is as good as any that was tried here (confidence {:.2})",
                advice.confidence
            )?;
        }
        _ if *analysed == 0 => {
            writeln!(out, "too little happened to say anything: no more than a request a second")?
        }
        _ => writeln!(
            out,
            "nothing is known of this pattern on this drive; 'dwell tune' tries schedulers out and puts them back"
        )?,
    }
    if let Some(line) = &advice.set {
        writeln!(out, "set it:  {line}")?;
    }
    if let Some(rule) = &advice.keep {
        writeln!(out, "keep it: {rule}    (a udev rule)")?;
    }
    advice.doubts.iter().try_for_each(|doubt| writeln!(out, "but: {doubt}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Two(Vec<String>);

    impl Arms for Two {
        fn names(&self) -> &[String] {
            &self.0
        }

        fn add(&mut self, _: &str) -> Result<(), keeper::Error> {
            panic!("advise searches nothing")
        }

        fn rename(&mut self, _: usize, _: &str) -> Result<(), keeper::Error> {
            panic!("advise searches nothing")
        }

        fn current(&mut self) -> Result<String, keeper::Error> {
            Ok(self.0[0].clone())
        }

        fn switch(&mut self, _: usize) -> Result<Duration, keeper::Error> {
            panic!("advise changes nothing")
        }

        fn by_hand(&self, arm: &str) -> (String, Option<String>) {
            (format!("set {arm}"), None)
        }
    }

    fn advice(sums: [(f64, usize); 2], better: Better) -> Advice {
        let mut advice =
            Advice { scheduler: "none".to_owned(), analysed: 4, recognised: 3, ..Advice::default() };
        let arms = Two(["none", "bfq"].map(str::to_owned).to_vec());
        conclude(&mut advice, &Known { sums: sums.to_vec(), windows: 3 }, &arms, better);
        advice
    }

    #[test]
    fn a_better_one_is_named_with_the_line_that_sets_it() {
        let found = advice([(30.0, 3), (60.0, 9)], Better::Higher);
        assert_eq!((found.better.as_deref(), found.set.as_deref()), (Some("bfq"), Some("set bfq")));
        assert_eq!((found.expected_gain, found.confidence), (Some(1.0), 0.75 * 0.9));
    }

    #[test]
    fn what_is_no_better_or_not_known_is_not_recommended() {
        assert!(advice([(60.0, 3), (61.0, 9)], Better::Higher).better.is_none(), "too little");
        assert!(advice([(30.0, 3), (60.0, 9)], Better::Lower).better.is_none(), "less is better");
        assert!(
            advice([(0.0, 0), (60.0, 9)], Better::Higher).expected_gain.is_none(),
            "nothing to compare with"
        );
    }
}
