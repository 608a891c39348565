//! The order of replays, how long they take at most, and which ones are not worth it.

use std::io::IsTerminal;
use std::time::Duration;

use elevator::text::counted;
use evaluation::device_replay::Replayed;
use evaluation::input::Length;
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::Error;
use crate::input::quantity::some_time;

/// Default limits of a replay.
const LEAST: Duration = Duration::from_secs(10);
const MOST: Duration = Duration::from_secs(60);
/// By how much a job may exceed its runtime.
const EXCESS: Duration = Duration::from_secs(10);

/// A replay that takes longer than this many times the slowest one of the best scheduler has less than half of its throughput.
const SLOW: u32 = 2;
/// Shorter replays are not ended as slow ones, because that gains no time.
const SLOW_LEAST: Duration = Duration::from_secs(10);
/// Slow replays after which a scheduler is left out: the first one may be slow by chance.
const SLOW_MOST: usize = 2;

/// The limit of a replay: `given`, or the default for a workload of this length.
pub(super) fn limit(
    options: OptionNames,
    given: Option<&str>,
    length: Option<Length>,
) -> Result<Option<Duration>, Error> {
    Ok(match (given, length) {
        (Some("none"), _) => None,
        (Some(text), _) => Some(some_time(options.at_most, text)?),
        (None, Some(Length::Recorded(span))) => {
            Some(Duration::from_nanos(span.as_nanos()).saturating_mul(2).clamp(LEAST, MOST))
        }
        (None, Some(Length::Given(span))) => {
            Some(Duration::from_nanos(span.as_nanos()).saturating_add(EXCESS))
        }
        (None, None) => Some(MOST),
    })
}

/// The names of the options in messages: `duel` has others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionNames {
    /// The number of measurements of each scheduler.
    pub(crate) rounds: &'static str,
    /// The limit of each of them.
    pub(crate) at_most: &'static str,
}

impl Default for OptionNames {
    fn default() -> Self {
        Self { rounds: "--rounds", at_most: "--at-most" }
    }
}

/// What was replayed and what is left.
pub(super) struct Schedule<'a> {
    names: &'a [String],
    rounds: u32,
    at_most: Option<Duration>,
    options: OptionNames,
    /// The results of each scheduler.
    pub(super) results: Vec<Vec<Replayed>>,
    /// How many replays of each scheduler were ended because they were slow.
    slow: Vec<usize>,
    began: usize,
}

impl<'a> Schedule<'a> {
    pub(super) fn new(
        names: &'a [String],
        rounds: u32,
        at_most: Option<Duration>,
        options: OptionNames,
    ) -> Self {
        let results = names.iter().map(|_| Vec::new()).collect();
        Self { names, rounds, at_most, options, results, slow: vec![0; names.len()], began: 0 }
    }

    fn total(&self) -> u32 {
        (self.names.len() as u32).saturating_mul(self.rounds)
    }

    /// How long all replays take at most, if they have a limit.
    pub(super) fn longest(&self) -> Option<Duration> {
        self.at_most.map(|each| each.saturating_mul(self.total()))
    }

    /// The same for the user.
    pub(super) fn announcement(&self) -> String {
        let schedulers = counted(self.names.len() as u64, "scheduler");
        let of = format!("{schedulers} x {}", counted(u64::from(self.rounds), "round"));
        let OptionNames { rounds, at_most } = self.options;
        match self.at_most.zip(self.longest()) {
            Some((each, all)) => format!(
                "takes at most {}: {of} x {}; {rounds}, {at_most} and -s change that",
                minutes(all),
                minutes(each)
            ),
            None => format!("{of}, each as long as it takes ({at_most} none)"),
        }
    }

    /// A bar over all replays, on a terminal.
    pub(super) fn bar(&self, quiet: bool) -> ProgressBar {
        let shown = !quiet && std::io::stderr().is_terminal();
        let bar = if shown { ProgressBar::new(u64::from(self.total())) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        bar
    }

    /// The schedulers of a round in order.
    pub(super) fn order(&self, round: u32) -> Vec<usize> {
        let mut order: Vec<usize> =
            (0..self.names.len()).filter(|&index| self.slow[index] < SLOW_MOST).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        order
    }

    /// The line before a replay.
    pub(super) fn progress(&mut self, round: u32, index: usize) -> String {
        self.began += 1;
        let left = self.left().map_or(String::new(), |left| format!("; about {} left", minutes(left)));
        let (at, total, name) = (self.began, self.total(), &self.names[index]);
        format!("replay {at} of {total}: {name}, round {} of {}{left}", round + 1, self.rounds)
    }

    /// How long the remaining replays take, if they take as long as the complete ones.
    fn left(&self) -> Option<Duration> {
        let done: Vec<Duration> = self.results.iter().flatten().map(elapsed).collect();
        let remaining = self.total().saturating_sub(self.began.saturating_sub(1) as u32);
        let mean = done.iter().sum::<Duration>().checked_div(done.len() as u32)?;
        Some(mean.saturating_mul(remaining))
    }

    /// The time after which a replay is stopped.
    pub(super) fn end(&self) -> Option<Duration> {
        self.slow_after().into_iter().chain(self.at_most).min()
    }

    /// The time after which a replay is slow: its work is that of the complete ones, so that its throughput is less than half of theirs.
    fn slow_after(&self) -> Option<Duration> {
        let complete = |results: &&Vec<Replayed>| !results.is_empty() && results.iter().all(|of| !of.cut);
        let slowest = |results: &Vec<Replayed>| results.iter().map(elapsed).max();
        self.results
            .iter()
            .filter(complete)
            .filter_map(slowest)
            .min()
            .map(|best| best.saturating_mul(SLOW).max(SLOW_LEAST))
    }

    /// Adds a result, which took so long.
    pub(super) fn add(&mut self, index: usize, replayed: Replayed, took: Duration) {
        if replayed.cut && self.slow_after().is_some_and(|slow| took >= slow) {
            self.slow[index] += 1;
        }
        self.results[index].push(replayed);
    }

    /// Which schedulers were slow.
    pub(super) fn dropped(&self) -> Vec<String> {
        let slow = self.names.iter().zip(&self.slow).filter(|(_, slow)| **slow > 0);
        slow.map(|(name, slow)| {
            let replays = counted(*slow as u64, "replay");
            format!("{name}: ended {replays} after twice the time of the best scheduler: less than half of its throughput")
        })
        .collect()
    }
}

fn elapsed(replayed: &Replayed) -> Duration {
    Duration::from_nanos(replayed.elapsed_ns)
}

/// `45 s`, `4 min 30 s`, `2 h 5 min`.
fn minutes(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds.round() as u64 {
        0..=9 => format!("{seconds:.1} s"),
        whole @ 10..=119 => format!("{whole} s"),
        whole @ 120..=7199 if whole % 60 == 0 => format!("{} min", whole / 60),
        whole @ 120..=7199 => format!("{} min {} s", whole / 60, whole % 60),
        whole => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use elevator::Span;

    use super::*;

    fn add(schedule: &mut Schedule<'_>, index: usize, seconds: u64, cut: bool) {
        let replayed = Replayed { elapsed_ns: seconds * 1_000_000_000, cut, ..Replayed::default() };
        schedule.add(index, replayed, Duration::from_secs(seconds));
    }

    const OPTIONS: OptionNames = OptionNames { rounds: "--repeat", at_most: "--patience" };

    #[test]
    fn the_default_limit_depends_on_the_recording() {
        let recorded =
            |seconds| limit(OPTIONS, None, Some(Length::Recorded(Span::from_secs(seconds)))).unwrap();
        assert_eq!([1, 8, 600].map(recorded), [10, 16, 60].map(|s| Some(Duration::from_secs(s))));
        let job = limit(OPTIONS, None, Some(Length::Given(Span::from_secs(300)))).unwrap();
        assert_eq!(job, Some(Duration::from_secs(310)));
        assert_eq!(limit(OPTIONS, None, None).unwrap(), Some(MOST));
        assert_eq!(limit(OPTIONS, Some("none"), None).unwrap(), None);
        assert_eq!(limit(OPTIONS, Some("3s"), None).unwrap(), Some(Duration::from_secs(3)));
        assert!(["0s", "soon", ""].iter().all(|text| limit(OPTIONS, Some(text), None).is_err()));
    }

    #[test]
    fn the_announcement_has_the_product() {
        let names = ["none".to_owned(), "bfq".to_owned()];
        let text = Schedule::new(&names, 3, Some(Duration::from_secs(20)), OPTIONS).announcement();
        let options = "--repeat, --patience and -s change that";
        assert_eq!(text, format!("takes at most 2 min: 2 schedulers x 3 rounds x 20 s; {options}"));
        let text = Schedule::new(&names[..1], 1, None, OPTIONS).announcement();
        assert_eq!(text, "1 scheduler x 1 round, each as long as it takes (--patience none)");
    }

    #[test]
    fn a_scheduler_that_is_slow_twice_is_left_out() {
        let names = ["quick".to_owned(), "slow".to_owned()];
        let mut schedule = Schedule::new(&names, 4, Some(Duration::from_secs(60)), OPTIONS);
        assert_eq!(schedule.end(), Some(Duration::from_secs(60)));
        add(&mut schedule, 0, 10, false);
        assert_eq!(schedule.end(), Some(Duration::from_secs(20)));
        add(&mut schedule, 1, 20, true);
        assert_eq!(schedule.order(1), [1, 0]);
        add(&mut schedule, 1, 20, true);
        assert_eq!(schedule.order(1), [0]);
        let dropped = schedule.dropped();
        assert!(dropped.len() == 1 && dropped[0].starts_with("slow: ended 2 replays"), "{dropped:?}");
        // The slowest replay of the best scheduler counts.
        add(&mut schedule, 0, 12, false);
        assert_eq!(schedule.end(), Some(Duration::from_secs(24)));
        assert!(schedule.progress(2, 0).ends_with("quick, round 3 of 4; about 2 min 4 s left"));
    }

    #[test]
    fn replays_that_the_limit_stopped_are_not_slow() {
        let names = ["a".to_owned(), "b".to_owned()];
        let mut schedule = Schedule::new(&names, 3, Some(Duration::from_secs(15)), OPTIONS);
        add(&mut schedule, 0, 15, true);
        add(&mut schedule, 1, 15, true);
        assert_eq!(schedule.end(), Some(Duration::from_secs(15)));
        add(&mut schedule, 1, 12, false);
        add(&mut schedule, 0, 15, true);
        assert_eq!(schedule.order(0), [0, 1]);
    }

    #[test]
    fn times_in_words() {
        let words = [3, 45, 270, 7500].map(|seconds| minutes(Duration::from_secs(seconds)));
        assert_eq!(words, ["3.0 s", "45 s", "4 min 30 s", "2 h 5 min"]);
    }
}
