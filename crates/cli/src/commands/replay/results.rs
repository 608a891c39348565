//! The results of `dwell replay`.

use std::io::Write;

use capture::topology::Scheduling;
use elevator::text::counted;
use evaluation::device_replay::Replayed;
use evaluation::report::format::{number, object, time};
use evaluation::runs::Run;
use serde_json::{Value, json};

use super::{ReplayArguments, Timing};
use crate::error::Error;
use crate::report::{Style, Table, Tone, text_style, ties, wrapped};
use evaluation::input::Opened;

/// Measurements and predictions, by scheduler.
pub(super) struct Results<'a> {
    pub(super) names: &'a [String],
    pub(super) rounds: &'a [Vec<Replayed>],
    pub(super) models: &'a [Option<Run>],
    /// Whether the recording determines the throughput, so that latency ranks.
    pub(super) by_time: bool,
    /// Whether replays were ended because they were clearly slower.
    pub(super) slow: bool,
}

/// The rounds of a scheduler: the median with the range.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (upper, lower) = (values.len() / 2, values.len().saturating_sub(1) / 2);
        let median = (values.get(lower)? + values.get(upper)?) / 2.0;
        Some(Self { median, least: *values.first()?, most: *values.last()? })
    }

    /// Whether the difference of two results is not significant: their ranges overlap, or their medians [tie](ties).
    fn ties(self, other: Self) -> bool {
        let overlap = self.least <= other.most && other.least <= self.most;
        overlap || ties(self.median, other.median)
    }
}

/// The places at which a rank begins. A row that [ties](Spread::ties) with the first of a rank extends that rank, with all rows between.
fn first_places(rows: &[(usize, Spread)]) -> Vec<usize> {
    let mut firsts: Vec<usize> = Vec::new();
    for (place, (_, spread)) in rows.iter().enumerate() {
        match firsts.iter().position(|&first| rows[first].1.ties(*spread)) {
            Some(at) => firsts.truncate(at + 1),
            None => firsts.push(place),
        }
    }
    firsts
}

impl Results<'_> {
    fn value(&self, replayed: &Replayed) -> f64 {
        if self.by_time { replayed.latency.mean_ns as f64 } else { replayed.megabytes_per_second() }
    }

    /// (scheduler, rank, result), best first.
    fn ranked(&self) -> Vec<(usize, usize, Spread)> {
        let spread =
            |index: usize| Spread::of(self.rounds[index].iter().map(|replayed| self.value(replayed)));
        let mut rows: Vec<(usize, Spread)> =
            (0..self.names.len()).filter_map(|index| Some((index, spread(index)?))).collect();
        rows.sort_by(|(_, a), (_, b)| match self.by_time {
            true => a.median.total_cmp(&b.median),
            false => b.median.total_cmp(&a.median),
        });
        let firsts = first_places(&rows);
        let rank = |place: usize| firsts.iter().rfind(|&&first| first <= place).map_or(1, |first| first + 1);
        let row = |(place, (index, spread)): (usize, (usize, Spread))| (index, rank(place), spread);
        rows.into_iter().enumerate().map(row).collect()
    }

    pub(super) fn print(
        &self,
        arguments: &ReplayArguments,
        scheduling: &Scheduling,
        opened: &Opened,
    ) -> Result<(), Error> {
        let mut out = std::io::stdout().lock();
        let ranked = self.ranked();
        if arguments.json {
            let schedulers: Vec<Value> = ranked
                .iter()
                .map(|&(index, rank, _)| {
                    let model = self.models[index].as_ref().map(|run| {
                        json!({"mb_per_s": run.measured.megabytes_per_second(), "latency": run.measured.latency})
                    });
                    json!({"scheduler": self.names[index], "rank": rank, "rounds": self.rounds[index], "model": model})
                })
                .collect();
            let of = json!({
                "dwell": env!("CARGO_PKG_VERSION"), "workload": opened.workload.describe(),
                "device": scheduling.above.name, "timing": if self.by_time { "stamps" } else { "closed" },
                "ranked_by": if self.by_time { "mean latency" } else { "throughput" }, "schedulers": schedulers,
            });
            writeln!(out, "{}", object(&of)?)?;
            return Ok(());
        }
        let style = if arguments.markdown { Style::Markdown } else { text_style() };
        writeln!(out, "{}", self.table(&ranked, style))?;
        let width = if let Style::Text { width, .. } = style { width } else { None };
        let legend = self.legend(&ranked, arguments);
        let lines = legend.iter().flat_map(|line| wrapped(line, width));
        writeln!(out, "\n{}", lines.collect::<Vec<_>>().join("\n"))?;
        Ok(())
    }

    fn table(&self, ranked: &[(usize, usize, Spread)], style: Style) -> String {
        let mut heads = vec!["scheduler", "rank", "MB/s", "least to\nmost", "mean\nlatency", "p99", "max"];
        let is_predicted = self.models.iter().any(Option::is_some);
        if is_predicted {
            heads.extend(["model\nMB/s", "model\nmean"]);
        }
        let has_flushes = self.has_flushes();
        let flush_column = heads.len();
        if has_flushes {
            heads.push("mean\nflush");
        }
        let mut table = Table::new(heads);
        for &(index, rank, _) in ranked {
            let rounds = &self.rounds[index];
            let median = |of: fn(&Replayed) -> f64| Spread::of(rounds.iter().map(of));
            let ns = |of: fn(&Replayed) -> f64| median(of).map_or(String::new(), |of| time(of.median as u64));
            let rate = median(Replayed::megabytes_per_second);
            let is_tied = ranked.iter().filter(|(_, other, _)| *other == rank).count() > 1;
            let model = self.models[index].as_ref().map(|run| &run.measured);
            let mut cells = vec![
                self.names[index].clone(),
                if is_tied { format!("={rank}") } else { rank.to_string() },
                rate.map_or(String::new(), |of| number(of.median)),
                rate.map_or(String::new(), |of| format!("{}-{}", number(of.least), number(of.most))),
                ns(|of| of.latency.mean_ns as f64),
                ns(|of| of.latency.p99_ns as f64),
                ns(|of| of.latency.max_ns as f64),
            ];
            if is_predicted {
                cells.push(model.map_or(String::new(), |of| number(of.megabytes_per_second())));
                cells.push(model.map_or(String::new(), |of| time(of.latency.mean_ns)));
            }
            if has_flushes {
                cells.push(ns(|of| of.flushes.mean_ns as f64));
            }
            let tone = if rank == 1 && ranked.len() > 1 { Tone::Best } else { Tone::Plain };
            table.row(tone, cells);
        }
        if let Style::Text { width, .. } = style {
            // The numbers of columns in the order of their importance.
            let mut shown = vec![1, 2, 4];
            shown.extend(has_flushes.then_some(flush_column));
            shown.extend([7, 8].iter().filter(|_| is_predicted));
            shown.extend([5, 3, 6]);
            table.fit(width, &shown);
        }
        table.print(style)
    }

    fn has_flushes(&self) -> bool {
        self.rounds.iter().flatten().any(|replayed| replayed.flushes.count > 0)
    }

    fn legend(&self, ranked: &[(usize, usize, Spread)], arguments: &ReplayArguments) -> Vec<String> {
        let by = if self.by_time { "mean latency" } else { "throughput" };
        let rounds = counted(u64::from(arguments.rounds), "round");
        let options = arguments.names;
        let mut lines = vec![format!(
            "Ranked by {by}, the median of {rounds}; results whose rounds overlap those of a rank's first share that rank."
        )];
        if arguments.rounds == 1 && ranked.len() > 1 {
            lines.push(format!(
                "One round does not show how far results differ by chance: use {} 3 or more before you rely on the ranks.",
                options.rounds
            ));
        }
        let firsts = ranked.iter().filter(|(_, rank, _)| *rank == 1).count();
        if firsts == ranked.len() && firsts > 1 {
            lines.push(format!(
                "The rounds show no difference between the schedulers: use a higher {}, or keep the present scheduler.",
                options.rounds
            ));
        }
        if self.has_flushes() {
            lines.push(
                "mean flush: of flushes, also those before the data of a write, which its latency includes."
                    .to_owned(),
            );
        }
        lines.push(self.lateness());
        if self.rounds.iter().flatten().any(|replayed| replayed.cut) {
            let or_slow = if self.slow { ", or as clearly slower ones" } else { "" };
            lines.push(format!("Replays were stopped by {}{or_slow}.", options.at_most));
        }
        if arguments.timing == Timing::Closed && self.by_time {
            lines.push("The recording has no completions, so it was replayed by its time stamps.".to_owned());
        }
        lines
    }
}

/// Results are of the machine and not of the device from this mean lateness on, as a part of the mean latency.
const LATE: f64 = 0.5;

impl Results<'_> {
    /// How late requests were submitted, with a warning where that is not small compared with their latency.
    fn lateness(&self) -> String {
        let rounds = || self.rounds.iter().flatten();
        let late = rounds().map(|replayed| replayed.late_mean_ns).max().unwrap_or(0);
        let is_busy =
            |of: &Replayed| of.late_mean_ns as f64 >= LATE * of.latency.mean_ns as f64 && of.late_mean_ns > 0;
        let busy = rounds().find(|of| is_busy(of)).map(|of| {
            format!(
                " Warning: in one round {} beside a mean latency of {}: this machine is too busy for so many programs, and the results say little about the schedulers.",
                time(of.late_mean_ns),
                time(of.latency.mean_ns)
            )
        });
        format!("Requests were submitted at most {} late on average.{}", time(late), busy.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: 151 ms late beside a latency of 6 ms had no warning.
    #[test]
    fn requests_that_are_late_have_a_warning() {
        let words = |late_mean_ns, mean_ns| {
            let rounds = [vec![Replayed { late_mean_ns, ..replayed(10, mean_ns) }]];
            let names = [String::new()];
            Results { names: &names, rounds: &rounds, models: &[None], by_time: false, slow: false }
                .lateness()
        };
        assert_eq!(words(766_000, 5_000_000), "Requests were submitted at most 766 us late on average.");
        let late = words(151_000_000, 5_760_000);
        assert!(late.contains(" Warning: in one round 151 ms beside a mean latency of 5.76 ms: "), "{late}");
    }

    fn replayed(bytes: u64, mean_ns: u64) -> Replayed {
        let mut of = Replayed { elapsed_ns: 1000, bytes, ..Replayed::default() };
        of.latency.mean_ns = mean_ns;
        of
    }

    fn ranks(rounds: &[Vec<Replayed>], by_time: bool) -> Vec<(usize, usize)> {
        let names: Vec<String> = (0..rounds.len()).map(|n| n.to_string()).collect();
        let models: Vec<Option<Run>> = rounds.iter().map(|_| None).collect();
        let results = Results { names: &names, rounds, models: &models, by_time, slow: false };
        results.ranked().into_iter().map(|(index, rank, _)| (index, rank)).collect()
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_ones() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0].into_iter());
        assert_eq!(spread, Some(Spread { median: 2.5, least: 1.0, most: 4.0 }));
        assert_eq!(Spread::of([].into_iter()), None);
    }

    #[test]
    fn schedulers_whose_rounds_overlap_share_a_rank() {
        let rounds = [
            vec![replayed(10, 9), replayed(30, 9)],
            vec![replayed(20, 9), replayed(25, 9)],
            vec![replayed(5, 9)],
        ];
        assert_eq!(ranks(&rounds, false), [(1, 1), (0, 1), (2, 3)]);
    }

    #[test]
    fn a_scheduler_that_overlaps_the_best_is_not_ranked_behind_one_that_does_not() {
        let rounds = [
            vec![replayed(80, 9), replayed(100, 9), replayed(101, 9)],
            vec![replayed(70, 9), replayed(72, 9), replayed(73, 9)],
            vec![replayed(20, 9), replayed(60, 9), replayed(90, 9)],
            vec![replayed(5, 9)],
        ];
        assert_eq!(ranks(&rounds, false), [(0, 1), (1, 1), (2, 1), (3, 4)]);
    }

    #[test]
    fn replays_by_time_stamps_are_ranked_by_latency() {
        let rounds = [vec![replayed(10, 9000)], vec![replayed(10, 5000)], Vec::new()];
        assert_eq!(ranks(&rounds, true), [(1, 1), (0, 2)]);
    }
}
