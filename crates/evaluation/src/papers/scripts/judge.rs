//! Verdicts: the published values that hold in an experiment. A scheduler's value counts by its ratio to the published winner; the winner's
//! value holds if the winner also beats here every scheduler that it beats in the paper. [`verdict`](super::super::verdict) has the rules for a ratio.

use serde::Serialize;
use workloads::scenario::{Figure, Paper};

use super::figure::{self, Runs};
use super::published::{self, Published, Role};
use crate::papers::verdict::{self, Bound, Verdict, equal};

/// A figure under one scheduler.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) paper: String,
    pub(super) experiment: String,
    /// The drive's name, if it is not the script's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) on: Option<String>,
    /// The paper's word.
    pub(super) scheduler: String,
    /// Ours.
    pub(super) as_scheduler: String,
    pub(super) figure: String,
    pub(super) unit: &'static str,
    pub(super) published: Option<f64>,
    pub(super) ours: Option<f64>,
    /// `None` where nothing was published, nothing measured, or the value is not judged.
    pub(super) verdict: Option<Verdict>,
    /// The name under which the published value counts; `None` where it does not: another drive, a statement without a number.
    pub(super) counts_as: Option<String>,
    /// The condition, or the reason why it does not hold.
    pub(super) why: String,
}

/// A figure of an experiment over all its schedulers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shape {
    pub(super) paper: String,
    pub(super) experiment: String,
    /// The drive's name, if it is not the script's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) on: Option<String>,
    pub(super) figure: String,
    /// Winner, order and every ratio.
    pub(super) holds: bool,
    /// The conditions that do not hold.
    pub(super) misses: Vec<String>,
}

/// One scheduler's published value, and the measured one.
#[derive(Clone, Copy)]
struct Pair<'a> {
    word: &'a str,
    published: f64,
    ours: f64,
}

/// Judges an experiment.
pub(super) fn judge(paper: &Paper, on: Option<&str>, runs: &Runs) -> (Vec<Row>, Vec<Shape>) {
    let (mut rows, mut shapes) = (Vec::new(), Vec::new());
    for (name, figure) in &paper.figures {
        let mut own = figure_rows(paper, name, figure, runs);
        if let Some(more) = figure::more_is_better(figure) {
            shapes.extend(compare(paper, name, more, &mut own));
        }
        for row in &mut own {
            row.on = on.map(str::to_owned);
            if on.is_some() {
                row.counts_as = None;
            }
        }
        rows.extend(own);
    }
    shapes.iter_mut().for_each(|shape| shape.on = on.map(str::to_owned));
    (rows, shapes)
}

fn figure_rows(paper: &Paper, name: &str, figure: &Figure, runs: &Runs) -> Vec<Row> {
    let row = |(word, ours): (&String, &String)| {
        let published = published::value(&paper.name, &paper.experiment, word, name);
        let value = figure::value(figure, runs, word);
        let mut row = Row {
            paper: paper.name.clone(),
            experiment: paper.experiment.clone(),
            on: None,
            scheduler: word.clone(),
            as_scheduler: ours.clone(),
            figure: name.to_owned(),
            unit: figure::unit(figure),
            published: published.as_ref().map(|published| published.value),
            ours: value,
            verdict: None,
            counts_as: published.as_ref().and_then(Published::counts_as),
            why: String::new(),
        };
        if let Some(published) = published {
            judge_alone(&mut row, figure, &published, paper.deviation);
        }
        if let Some(failure) = runs.get(word).and_then(|run| run.failure.as_ref()) {
            row.verdict = row.published.map(|_| Verdict::Misses);
            row.why.clone_from(failure);
        }
        row
    };
    paper.schedulers.iter().map(row).collect()
}

/// Judges what needs no other scheduler's value: calibration, bounds, figures that are ratios.
fn judge_alone(row: &mut Row, figure: &Figure, published: &Published, deviation: f64) {
    match published.role {
        Role::Calibration => {
            row.verdict = Some(Verdict::Calibration);
            "used to set up the drive, the machine or the workload".clone_into(&mut row.why);
            return;
        }
        Role::NotJudged => {
            "not judged: this scheduler is an approximation".clone_into(&mut row.why);
            return;
        }
        Role::Value | Role::Statement | Role::Once(_) => {}
    }
    let Some(ours) = row.ours else { return };
    // Gains in percent are ratios as well.
    let gain = published.unit == "%" && !matches!(figure, Figure::Deviation(_));
    let as_ratio = |value: f64| if gain { 1.0 + value / 100.0 } else { value };
    let (theirs, ours) = (as_ratio(published.value), as_ratio(ours));
    let judged = match published.bound {
        Bound::Same => verdict::same(ours, deviation),
        Bound::AtLeast | Bound::AtMost => verdict::bound(published.bound, theirs, ours, deviation),
        Bound::Value if matches!(figure, Figure::Deviation(_) | Figure::LongestRequest) => {
            verdict::magnitude(theirs, ours)
        }
        Bound::Value if figure::more_is_better(figure).is_none() => verdict::ratio(theirs, ours, deviation),
        Bound::Value => return,
    };
    (row.verdict, row.why) = (Some(judged.0), judged.1);
}

/// Compares schedulers with each other; fills in the verdict of each row that has none.
fn compare(paper: &Paper, name: &str, more: bool, rows: &mut [Row]) -> Option<Shape> {
    let judged = |row: &&Row| match published::value(&row.paper, &row.experiment, &row.scheduler, name) {
        // A value that set up the machine still stands for its scheduler when others are compared with it.
        Some(of) if of.role == Role::Calibration => of.bound == Bound::Value,
        Some(of) => of.role != Role::NotJudged && row.verdict.is_none(),
        None => false,
    };
    let words: Vec<(String, f64, f64)> = rows
        .iter()
        .filter(judged)
        .filter_map(|row| Some((row.scheduler.clone(), row.published?, row.ours.filter(|ours| *ours > 0.0)?)))
        .collect();
    let pairs: Vec<Pair<'_>> = words
        .iter()
        .map(|(word, published, ours)| Pair { word, published: *published, ours: *ours })
        .collect();
    if pairs.len() < 2 {
        return None;
    }
    let better = |a: f64, b: f64| if more { a.total_cmp(&b).reverse() } else { a.total_cmp(&b) };
    let best = *pairs.iter().min_by(|a, b| better(a.published, b.published))?;
    let mut misses = Vec::new();
    for (n, a) in pairs.iter().enumerate() {
        for b in &pairs[n + 1..] {
            misses.extend(against(a, b, paper.deviation).1);
        }
    }
    let tied = |value: fn(&Pair<'_>) -> f64| {
        pairs.iter().all(|pair| equal(value(pair), value(&best), paper.deviation))
    };
    let tied = tied(|pair| pair.published) || tied(|pair| pair.ours);
    for row in rows.iter_mut().filter(|row| row.verdict.is_none()) {
        let Some(pair) = pairs.iter().find(|pair| pair.word == row.scheduler) else { continue };
        let (verdict, why) = if pair.word == best.word {
            wins(&best, &pairs, paper.deviation)
        } else {
            let (verdict, miss) = against(pair, &best, paper.deviation);
            (verdict, miss.unwrap_or_default())
        };
        row.verdict = Some(if tied && verdict == Verdict::Holds { Verdict::Tie } else { verdict });
        row.why = why;
    }
    Some(Shape {
        paper: paper.name.clone(),
        experiment: paper.experiment.clone(),
        on: None,
        figure: name.to_owned(),
        holds: misses.is_empty(),
        misses,
    })
}

/// Whether the published winner is ahead of all that it was ahead of.
fn wins(best: &Pair<'_>, pairs: &[Pair<'_>], deviation: f64) -> (Verdict, String) {
    let ahead = |other: &&Pair<'_>| {
        let (theirs, ours) = (other.published / best.published, other.ours / best.ours);
        !equal(theirs, 1.0, deviation) && (theirs > 1.0) != (ours > 1.0)
    };
    let before: Vec<&str> = pairs.iter().filter(ahead).map(|pair| pair.word).collect();
    match before.is_empty() {
        true => (Verdict::Holds, String::new()),
        false => (Verdict::Misses, format!("{} before {}", before.join(", "), best.word)),
    }
}

/// One scheduler over another, and what does not hold of it.
fn against(a: &Pair<'_>, b: &Pair<'_>, deviation: f64) -> (Verdict, Option<String>) {
    let (theirs, ours) = (a.published / b.published, a.ours / b.ours);
    let (verdict, _) = verdict::ratio(theirs, ours, deviation);
    let miss = format!("{} over {} is {ours:.2}, published {theirs:.2}", a.word, b.word);
    (verdict, (verdict != Verdict::Holds).then_some(miss))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn pair(word: &str, published: f64, ours: f64) -> Pair<'_> {
        Pair { word, published, ours }
    }

    fn paper() -> Paper {
        Paper {
            name: "cooperative".to_owned(),
            experiment: "chunk-read-2".to_owned(),
            schedulers: BTreeMap::new(),
            figures: BTreeMap::new(),
            deviation: 5.0,
            scale: 1.0,
            on: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// Rows of `chunk-read-2`, whose published throughput is 4.0, 4.0 and 11.6 MB/s.
    fn rows(ours: [f64; 3]) -> Vec<Row> {
        let row = |(word, ours): (&str, f64)| Row {
            paper: "cooperative".to_owned(),
            experiment: "chunk-read-2".to_owned(),
            on: None,
            scheduler: word.to_owned(),
            as_scheduler: String::new(),
            figure: "throughput".to_owned(),
            unit: "MB/s",
            published: published::value("cooperative", "chunk-read-2", word, "throughput").map(|of| of.value),
            ours: Some(ours),
            verdict: None,
            counts_as: None,
            why: String::new(),
        };
        ["deadline", "las", "cas"].into_iter().zip(ours).map(row).collect()
    }

    fn verdicts(ours: [f64; 3]) -> Vec<Verdict> {
        let mut rows = rows(ours);
        for row in &mut rows {
            // Whatever is calibrated in the table: this tests the comparison.
            row.verdict = None;
        }
        let mut paper = paper();
        paper.deviation = 5.0;
        compare(&paper, "throughput", true, &mut rows).expect("three values");
        rows.into_iter().map(|row| row.verdict.expect("judged")).collect()
    }

    #[test]
    fn order_counts_only_beyond_the_deviation() {
        assert_eq!(against(&pair("a", 100.0, 101.0), &pair("b", 103.0, 100.0), 5.0).0, Verdict::Holds);
        let (verdict, why) = against(&pair("a", 100.0, 101.0), &pair("b", 120.0, 100.0), 5.0);
        assert_eq!(verdict, Verdict::Misses);
        assert_eq!(why.as_deref(), Some("a over b is 1.01, published 0.83"));
    }

    #[test]
    fn rows_count_by_their_ratio_to_the_published_winner() {
        use Verdict::{Holds, Misses};
        assert_eq!(verdicts([4.0, 4.0, 11.6]), [Holds, Holds, Holds]);
        assert_eq!(verdicts([4.0, 10.0, 9.0]), [Holds, Misses, Misses], "LAS before CAS");
        assert_eq!(verdicts([1.0, 4.0, 11.6]), [Verdict::Exceeds, Holds, Holds]);
    }

    #[test]
    fn schedulers_that_are_all_equal_do_not_hold() {
        assert_eq!(verdicts([11.5, 11.6, 11.7]), [Verdict::Misses, Verdict::Misses, Verdict::Tie]);
    }
}
