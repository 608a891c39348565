//! The order of schedulers in a table.
//!
//! Work of a given amount is ranked by time or by throughput, which then have one order. Work of a given duration takes the same time under every
//! scheduler, and a replay by time stamps has the throughput of its recording: the former is ranked by the work done, the latter by latency.

use clap::ValueEnum;
use evaluation::runs::Run;

use crate::error::Error;

/// Results that differ by less than this share are ties. Virtual time repeats to the digit, but a modelled drive is not that accurate.
pub(crate) const TIE: f64 = 0.01;

/// What schedulers are ranked by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SortKey {
    /// Throughput of the device, highest first
    #[value(name = "MB/s", alias = "mb/s", alias = "throughput")]
    Rate,
    /// Time until the measured processes have ended, shortest first
    Time,
    /// Transactions, or bytes of the measured programs, per second, most first ('run' only)
    Work,
    /// Mean latency of all requests
    #[value(alias = "latency")]
    Mean,
    /// Mean latency of reads
    MeanRead,
    /// 99th percentile of reads
    P99Read,
    /// Mean latency of writes
    MeanWrite,
    /// 99th percentile of writes
    P99Write,
    /// 99th percentile of fsync ('run' only)
    Fsync,
}

impl SortKey {
    /// In words, for the line below the table.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Rate => "throughput",
            Self::Time => "time",
            Self::Work => "work per second",
            Self::Mean => "mean latency",
            Self::MeanRead => "mean latency of reads",
            Self::P99Read => "99th percentile of read latency",
            Self::MeanWrite => "mean latency of writes",
            Self::P99Write => "99th percentile of write latency",
            Self::Fsync => "99th percentile of fsync",
        }
    }

    /// As on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    const fn is_best_when_high(self) -> bool {
        matches!(self, Self::Rate | Self::Work)
    }

    /// The value of a run as a loss: less is better. Infinite without a value.
    pub(crate) fn loss(self, run: &Run) -> f64 {
        let value = self.of(run).filter(|value| run.failure.is_none() && value.is_finite());
        value.map_or(f64::INFINITY, |value| if self.is_best_when_high() { -value } else { value })
    }

    /// The value of a run that did not fail.
    fn of(self, run: &Run) -> Option<f64> {
        let measured = &run.measured;
        let latency = match self {
            Self::Rate => return Some(measured.megabytes_per_second()),
            Self::Time => return Some(measured.elapsed_ns as f64).filter(|_| !run.cut),
            Self::Work => return work(run).map(|(amount, _)| amount),
            Self::Mean | Self::MeanRead if measured.writes.count == 0 => &measured.reads,
            Self::Mean => &measured.latency,
            Self::MeanRead | Self::P99Read => &measured.reads,
            Self::MeanWrite | Self::P99Write => &measured.writes,
            Self::Fsync => &measured.fsyncs,
        };
        let value = match self {
            Self::P99Read | Self::P99Write | Self::Fsync => latency.p99_ns,
            _ => latency.mean_ns,
        };
        (latency.count > 0).then_some(value as f64)
    }
}

/// Transactions per second of the programs that count them, else the measured programs' bytes per second in units of 10^6, with the unit.
pub(crate) fn work(run: &Run) -> Option<(f64, &'static str)> {
    let outcome = run.outcome.as_ref()?;
    let seconds = run.measured.elapsed_ns as f64 / 1e9;
    if seconds <= 0.0 {
        return None;
    }
    let transactions: u64 = outcome.transactions.values().map(|all| all.count).sum();
    if transactions > 0 {
        return Some((transactions as f64 / seconds, "tx/s"));
    }
    Some((run.work_bytes? as f64 / 1e6 / seconds, "MB/s"))
}

/// Runs in order.
pub(crate) struct Ranking<'a> {
    /// What they are ranked by.
    pub(crate) key: SortKey,
    /// The runs, best first, each with its rank. Ties share a rank; failed runs and runs without a value have none and are last.
    pub(crate) rows: Vec<Ranked<'a>>,
    /// Whether jobs ended at their runtime, so that there is no physical limit.
    pub(crate) is_timed: bool,
    best: Option<f64>,
    by_time: bool,
}

/// A run with its rank.
#[derive(Clone, Copy)]
pub(crate) struct Ranked<'a> {
    /// The run.
    pub(crate) run: &'a Run,
    /// Its rank, from 1.
    pub(crate) rank: Option<usize>,
    /// Whether another run has the same rank.
    pub(crate) is_tied: bool,
}

impl<'a> Ranking<'a> {
    /// Ranks runs.
    pub(crate) fn new(runs: &'a [Run], key: SortKey) -> Self {
        Self::of(runs, key, false)
    }

    /// Ranks runs, of replays by time stamps if `by_time`. Such a replay that was stopped has no rank: its latency is that of the part that the
    /// scheduler completed, which is the shorter the more it postponed.
    pub(crate) fn of(runs: &'a [Run], key: SortKey, by_time: bool) -> Self {
        let value = |run: &Run| value(run, key, by_time);
        let good = |run: &Run| value(run).map(|value| if key.is_best_when_high() { value } else { -value });
        let mut ordered: Vec<&Run> = runs.iter().collect();
        ordered.sort_by(|a, b| match (good(a), good(b)) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
        ordered.sort_by_key(|run| run.failure.is_some());
        let best = ordered.first().and_then(|run| value(run));
        let mut rows: Vec<Ranked<'a>> = Vec::new();
        let mut leader = None;
        for (index, run) in ordered.into_iter().enumerate() {
            let rank = value(run).map(|value| match leader {
                Some((rank, of)) if ties(of, value) => rank,
                _ => {
                    leader = Some((index + 1, value));
                    index + 1
                }
            });
            rows.push(Ranked { run, rank, is_tied: false });
        }
        let ranks: Vec<Option<usize>> = rows.iter().map(|row| row.rank).collect();
        for row in &mut rows {
            row.is_tied = row.rank.is_some() && ranks.iter().filter(|rank| **rank == row.rank).count() > 1;
        }
        // Within a tie, lower latency first.
        rows.sort_by_key(|row| {
            (row.rank.unwrap_or(usize::MAX), row.run.failure.is_some(), row.run.measured.latency.mean_ns)
        });
        Self { key, rows, is_timed: false, best, by_time }
    }

    /// Whether runs have no rank because they are replays by time stamps that were stopped.
    pub(crate) fn has_cut_replays(&self) -> bool {
        self.by_time && self.rows.iter().any(|row| row.run.cut)
    }

    /// The line that names the key, and the runs without a rank.
    pub(crate) fn words(&self) -> String {
        let cut = "Replays by time stamps that --at-most stopped have no rank and no limit: each completed another part of the recording";
        let missing = self.missing_limit().map_or(String::new(), |why| format!(" {why}"));
        match self.has_cut_replays() {
            true if self.best.is_none() => format!("{cut}."),
            true => format!("Ranked by {}. {cut}.", self.key.words()),
            false if self.best.is_none() => {
                format!("No ranks: no run has a result for {}.{missing}", self.key.words())
            }
            false => format!("Ranked by {}.{missing}", self.key.words()),
        }
    }

    /// Why runs of `compare` have no common physical limit.
    fn missing_limit(&self) -> Option<&'static str> {
        let complete = || self.rows.iter().map(|row| row.run).filter(|run| run.failure.is_none());
        let work = |run: &Run| (run.measured.requests, run.measured.bytes);
        let first = complete().next()?;
        if complete().any(|run| run.outcome.is_some() || run.limit.is_some()) {
            return None;
        }
        if complete().any(|run| run.cut) {
            return Some("No physical limit: runs were stopped, so that each did other work.");
        }
        if self.is_timed {
            return Some("No physical limit: jobs ended at their runtime, whatever their work.");
        }
        let differs = complete().any(|run| work(run) != work(first));
        differs.then_some("No physical limit: the schedulers did different amounts of work.")
    }

    /// The runs in order.
    pub(crate) fn runs(&self) -> Vec<&'a Run> {
        self.rows.iter().map(|row| row.run).collect()
    }

    /// What a run reaches of the best one: 1 for the best, less for all others.
    pub(crate) fn share(&self, run: &Run) -> Option<f64> {
        value(run, self.key, self.by_time).and_then(|value| self.share_of(value))
    }

    /// How much worse a run is than the best one, as a share of the best: 0 for the best, 1 for twice its time or half its throughput.
    pub(crate) fn regret(&self, run: &Run) -> Option<f64> {
        self.share(run).filter(|share| *share > 0.0).map(|share| 1.0 / share - 1.0)
    }

    /// Whether no other run is better in throughput or 99th percentile of latency without being worse in the other; `None` unless several settings of
    /// a scheduler are compared, and of replays by time stamps that were stopped.
    pub(crate) fn is_on_front(&self, run: &Run) -> Option<bool> {
        let base = |run: &Run| run.scheduler.split('{').next().unwrap_or_default().to_owned();
        let mut names: Vec<String> = self.rows.iter().map(|row| base(row.run)).collect();
        names.sort();
        let is_swept = names.windows(2).any(|pair| pair[0] == pair[1]);
        let point = |run: &Run| {
            let measured = &run.measured;
            let is_whole = run.failure.is_none() && !(self.by_time && run.cut);
            let has_point = is_whole && measured.latency.count > 0;
            has_point.then(|| (measured.megabytes_per_second(), measured.latency.p99_ns as f64))
        };
        let own = point(run).filter(|_| is_swept)?;
        Some(!self.rows.iter().filter_map(|row| point(row.run)).any(|other| study::dominates(other, own)))
    }

    /// The same of a throughput in MB/s and a time in nanoseconds, if the ranking is by one of them.
    pub(crate) fn share_of_limit(&self, rate: f64, elapsed_ns: u64) -> Option<f64> {
        match self.key {
            SortKey::Rate => self.share_of(rate),
            SortKey::Time => self.share_of(elapsed_ns as f64),
            _ => None,
        }
    }

    fn share_of(&self, value: f64) -> Option<f64> {
        let best = self.best?;
        let (above, below) = if self.key.is_best_when_high() { (value, best) } else { (best, value) };
        Some(if below > 0.0 { above / below } else { f64::from(above == below) })
    }
}

/// The value by which a run is ranked, if it has one.
fn value(run: &Run, key: SortKey, by_time: bool) -> Option<f64> {
    key.of(run).filter(|value| run.failure.is_none() && value.is_finite() && !(by_time && run.cut))
}

/// Rejects time as the key of work that takes the same time under every scheduler, for the reason `why`.
pub(crate) fn can_rank(option: &str, key: Option<SortKey>, why: &str) -> Result<(), Error> {
    match key {
        Some(SortKey::Time) => {
            Err(Error::Usage(format!("{option} time: {why}; use another key, or omit the option")))
        }
        _ => Ok(()),
    }
}

/// Rejects a key that was asked for with `--sort` and that no complete run has.
pub(crate) fn has_key(runs: &[Run], key: Option<SortKey>) -> Result<(), Error> {
    let done = || runs.iter().filter(|run| run.failure.is_none());
    let Some(key) = key.filter(|_| done().next().is_some() && done().all(|run| !run.cut)) else {
        return Ok(());
    };
    if done().any(|run| key.of(run).is_some()) {
        return Ok(());
    }
    let (name, words) = (key.name(), key.words());
    Err(Error::Usage(format!("--sort {name}: no run has a result for it ({words}); sort by another result")))
}

/// Whether two results differ by less than [`TIE`].
pub(crate) fn ties(leader: f64, value: f64) -> bool {
    (leader - value).abs() <= TIE * leader.abs().max(value.abs())
}

#[cfg(test)]
mod tests {
    use super::super::why::tests::run;
    use super::*;

    fn ranks(runs: &[Run], key: SortKey) -> Vec<(String, Option<usize>)> {
        Ranking::new(runs, key).rows.iter().map(|row| (row.run.scheduler.clone(), row.rank)).collect()
    }

    fn named(ranks: &[(&str, Option<usize>)]) -> Vec<(String, Option<usize>)> {
        ranks.iter().map(|(name, rank)| ((*name).to_owned(), *rank)).collect()
    }

    #[test]
    fn results_within_noise_share_a_rank() {
        let runs = [run("slow", 200, 100), run("a", 1000, 1000), run("b", 1005, 1000)];
        assert_eq!(ranks(&runs, SortKey::Rate), named(&[("a", Some(1)), ("b", Some(1)), ("slow", Some(3))]));
        let ranking = Ranking::new(&runs, SortKey::Rate);
        assert!(ranking.rows[0].is_tied && !ranking.rows[2].is_tied);
        assert_eq!(ranking.share(&runs[0]), Some(0.5));
    }

    #[test]
    fn failed_and_cut_runs_have_no_rank_by_time() {
        let mut failed = run("failed", 1, 1);
        failed.failure = Some("full".to_owned());
        let mut cut = run("cut", 5, 1);
        cut.cut = true;
        let runs = [failed, cut, run("slow", 20, 9), run("quick", 10, 1)];
        let expected = named(&[("quick", Some(1)), ("slow", Some(2)), ("cut", None), ("failed", None)]);
        assert_eq!(ranks(&runs, SortKey::Time), expected);
        assert!(Ranking::new(&runs, SortKey::Time).words().starts_with("Ranked by time."));
        let words = Ranking::new(&runs[1..2], SortKey::Time).words();
        assert!(words.starts_with("No ranks: no run has a result for time. No physical limit"), "{words}");
    }

    #[test]
    fn latencies_rank_the_shortest_first_and_runs_without_any_last() {
        let mut quick = run("quick", 10, 1);
        quick.measured.fsyncs.count = 1;
        quick.measured.fsyncs.p99_ns = 5;
        let mut slow = quick_like(&quick, "slow", 50);
        slow.measured.bytes = 1000;
        let runs = [run("none", 1, 1), slow, quick];
        assert_eq!(
            ranks(&runs, SortKey::Fsync),
            named(&[("quick", Some(1)), ("slow", Some(2)), ("none", None)])
        );
        assert_eq!(Ranking::new(&runs, SortKey::Fsync).share(&runs[1]), Some(0.1));
        assert_eq!(Ranking::new(&runs, SortKey::Fsync).share_of_limit(1.0, 1), None);
    }

    #[test]
    fn stopped_replays_by_time_stamps_have_no_rank() {
        let mut runs = [run("cut", 5, 1), run("complete", 20, 9)];
        runs.iter_mut().for_each(|run| run.measured.latency.count = 1);
        runs.iter_mut().for_each(|run| run.measured.writes.count = 1);
        runs[0].cut = true;
        let ranking = Ranking::of(&runs, SortKey::Mean, true);
        let ranks: Vec<_> = ranking.rows.iter().map(|row| (&*row.run.scheduler, row.rank)).collect();
        assert_eq!(ranks, [("complete", Some(1)), ("cut", None)]);
        assert!(ranking.words().starts_with("Ranked by mean latency. Replays"), "{}", ranking.words());
        assert_eq!((ranking.share(&runs[0]), ranking.share(&runs[1])), (None, Some(1.0)));
        let none = Ranking::of(&runs[..1], SortKey::Mean, true);
        assert!(none.words().starts_with("Replays by time stamps"), "{}", none.words());
        assert_eq!(Ranking::of(&runs[..1], SortKey::Mean, false).rows[0].rank, Some(1));
    }

    #[test]
    fn settings_of_one_scheduler_have_a_pareto_front() {
        let point = |name: &str, bytes: u64, p99_ns: u64| {
            let mut run = run(name, 10, bytes);
            (run.measured.latency.count, run.measured.latency.p99_ns) = (1, p99_ns);
            run
        };
        let runs = [point("a{x=1}", 9, 50), point("a{x=2}", 9, 60), point("a{x=3}", 5, 40)];
        let ranking = Ranking::new(&runs, SortKey::Rate);
        let front: Vec<_> = runs.iter().map(|run| ranking.is_on_front(run)).collect();
        assert_eq!(front, [Some(true), Some(false), Some(true)]);
        assert_eq!(Ranking::new(&runs[..1], SortKey::Rate).is_on_front(&runs[0]), None);
    }

    #[test]
    fn a_key_that_no_run_has_is_an_error() {
        let mut runs = [run("a", 5, 1), run("b", 20, 9)];
        assert!(has_key(&runs, None).is_ok() && has_key(&runs, Some(SortKey::Time)).is_ok());
        let error = has_key(&runs, Some(SortKey::P99Write)).unwrap_err().to_string();
        assert!(error.contains("--sort p99-write: no run has a result"), "{error}");
        runs[0].cut = true;
        assert!(has_key(&runs, Some(SortKey::P99Write)).is_ok(), "the table names the cut");
    }

    fn quick_like(of: &Run, name: &str, p99_ns: u64) -> Run {
        let mut run = run(name, of.measured.elapsed_ns, of.measured.bytes);
        run.measured.fsyncs.count = 1;
        run.measured.fsyncs.p99_ns = p99_ns;
        run
    }
}
