//! Whether a paper's shape holds: the same winner, the same order where the paper's gaps exceed its own deviation, and
//! each ratio between schedulers within a factor of the published one.

use serde::Serialize;
use workloads::scenario::Paper;

use super::figure::{self, Runs};
use super::published::{self, Bound, Published};

/// Ratios may differ from the published ones by this factor.
const FACTOR: f64 = 1.5;
/// The factor for published ratios above [`LARGE`].
const FACTOR_OF_LARGE: f64 = 2.0;
/// Ratios above this are large.
const LARGE: f64 = 10.0;

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
    /// Whether its ratio to the published winner agrees with the paper; `None` without a published or measured value.
    pub(super) holds: Option<bool>,
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
        own.iter_mut().for_each(|row| row.on = on.map(str::to_owned));
        if let Some(more) = figure::more_is_better(figure) {
            shapes.extend(compare(paper, name, more, &mut own));
        }
        rows.extend(own);
    }
    (rows, shapes)
}

fn figure_rows(paper: &Paper, name: &str, figure: &workloads::scenario::Figure, runs: &Runs) -> Vec<Row> {
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
            holds: None,
            why: String::new(),
        };
        if let Some(failure) = runs.get(word).and_then(|run| run.failure.as_ref()) {
            row.why.clone_from(failure);
        }
        if let (Some(published), Some(ours)) = (published, value)
            && (published.bound != Bound::Value
                || matches!(row.unit, "x" | "%")
                || row.figure == "longest_wait")
        {
            (row.holds, row.why) = alone(&published, ours, paper.deviation);
        }
        row
    };
    paper.schedulers.iter().map(row).collect()
}

/// A figure that is a ratio, or a bound, by itself.
fn alone(published: &Published, ours: f64, deviation: f64) -> (Option<bool>, String) {
    let slack = deviation / 100.0;
    let (holds, asked) = match published.bound {
        Bound::AtLeast => (ours >= published.value * (1.0 - slack), format!("at least {}", published.value)),
        Bound::AtMost => (ours <= published.value * (1.0 + slack), format!("at most {}", published.value)),
        Bound::Value => {
            // Gains in percent are ratios as well.
            let as_ratio = |value: f64| if published.unit == "%" { 1.0 + value / 100.0 } else { value };
            let (theirs, ours) = (as_ratio(published.value), as_ratio(ours));
            (near(ours, theirs), format!("within a factor of {}", factor(theirs)))
        }
    };
    (Some(holds), asked)
}

fn factor(ratio: f64) -> f64 {
    if ratio.max(1.0 / ratio) > LARGE { FACTOR_OF_LARGE } else { FACTOR }
}

fn near(ours: f64, published: f64) -> bool {
    let off = ours / published;
    off.max(1.0 / off) <= factor(published)
}

/// Compares schedulers with each other; fills in the verdict of each row.
fn compare(paper: &Paper, name: &str, more: bool, rows: &mut [Row]) -> Option<Shape> {
    let words: Vec<(String, f64, f64)> = rows
        .iter()
        .filter(|row| row.holds.is_none())
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
    let ours_best = *pairs.iter().min_by(|a, b| better(a.ours, b.ours))?;
    let mut misses = Vec::new();
    let differs = |a: f64, b: f64| gap(a, b) > paper.deviation / 100.0;
    if differs(ours_best.published, best.published) && differs(ours_best.ours, best.ours) {
        misses.push(format!("{} wins, not {}", ours_best.word, best.word));
    }
    for (n, a) in pairs.iter().enumerate() {
        for b in &pairs[n + 1..] {
            misses.extend(pair_misses(a, b, paper.deviation));
        }
    }
    for row in rows.iter_mut().filter(|row| row.holds.is_none()) {
        let Some(pair) = pairs.iter().find(|pair| pair.word == row.scheduler) else { continue };
        let own = if pair.word == best.word {
            misses.iter().filter(|miss| miss.contains("wins, not")).cloned().collect()
        } else {
            pair_misses(pair, &best, paper.deviation)
        };
        row.holds = Some(own.is_empty());
        row.why = own.join("; ");
    }
    Some(Shape {
        paper: paper.name.clone(),
        experiment: paper.experiment.clone(),
        on: rows.first().and_then(|row| row.on.clone()),
        figure: name.to_owned(),
        holds: misses.is_empty(),
        misses,
    })
}

/// The difference of two values as a share of the smaller one.
fn gap(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.min(b).max(f64::MIN_POSITIVE)
}

fn pair_misses(a: &Pair<'_>, b: &Pair<'_>, deviation: f64) -> Vec<String> {
    let mut misses = Vec::new();
    let (theirs, ours) = (a.published / b.published, a.ours / b.ours);
    if gap(a.published, b.published) > deviation / 100.0 && (theirs > 1.0) != (ours > 1.0) {
        misses.push(format!("{} and {} in the other order", a.word, b.word));
    }
    if !near(ours, theirs) {
        misses.push(format!("{} over {} is {ours:.2}, published {theirs:.2}", a.word, b.word));
    }
    misses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(word: &str, published: f64, ours: f64) -> Pair<'_> {
        Pair { word, published, ours }
    }

    #[test]
    fn a_ratio_within_half_holds_and_a_large_one_within_two() {
        assert!(near(1.4, 1.0) && !near(1.6, 1.0) && near(0.7, 1.0));
        assert!(near(35.0, 18.7) && !near(40.0, 18.7) && near(1.0 / 35.0, 1.0 / 18.7));
    }

    #[test]
    fn order_counts_only_beyond_the_deviation() {
        assert!(pair_misses(&pair("a", 100.0, 101.0), &pair("b", 103.0, 100.0), 5.0).is_empty());
        let misses = pair_misses(&pair("a", 100.0, 101.0), &pair("b", 120.0, 100.0), 5.0);
        assert_eq!(misses, ["a and b in the other order"]);
    }

    #[test]
    fn gains_in_percent_are_compared_as_ratios() {
        let published = Published {
            paper: "p",
            experiment: "e",
            scheduler: "s",
            figure: "f",
            value: 87.0,
            unit: "%",
            bound: Bound::Value,
        };
        assert_eq!(alone(&published, 40.0, 5.0).0, Some(true));
        assert_eq!(alone(&published, 200.0, 5.0).0, Some(false));
    }
}
