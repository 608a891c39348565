//! Regrets, and tables of them.

use std::fmt::Write as _;

use serde::Serialize;

use super::Row;
use super::workload::Measure;
use crate::report::format::time;

/// The regret of a scheduler in a cell.
#[derive(Clone, Debug, Serialize)]
pub struct Regret {
    /// The cell.
    pub cell: String,
    /// The share by which the workload takes longer than under the best scheduler.
    pub regret: f64,
    /// The longest wait of a foreground program.
    pub longest_wait_ns: u64,
    /// The longest wait under the scheduler with the least time.
    pub longest_wait_of_best_ns: u64,
    /// The run was stopped before its foreground programs had ended: the regret is a lower bound.
    pub cut: bool,
    /// The best scheduler of the cell.
    pub best: String,
}

/// A scheduler's regrets.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The scheduler.
    pub scheduler: String,
    /// Mean regret over all cells.
    pub mean: f64,
    /// Cells with a regret of at most 3%.
    pub within_3_percent: usize,
    /// The regrets, worst first.
    pub regrets: Vec<Regret>,
    /// Cells without a result, with the reason.
    pub failures: Vec<String>,
}

/// Fewest nanoseconds of a wait that count in the comparison of waits: below this, no user notices a difference.
const LEAST_WAIT_NS: u64 = 50_000_000;

impl Regret {
    /// The longest wait as a multiple of that under the best scheduler; waits under 50 ms count as 50 ms.
    #[must_use]
    pub fn wait_ratio(&self) -> f64 {
        self.longest_wait_ns.max(LEAST_WAIT_NS) as f64
            / self.longest_wait_of_best_ns.max(LEAST_WAIT_NS) as f64
    }
}

impl Summary {
    fn of(scheduler: &str, index: usize, names: &[String], rows: &[Row<'_>]) -> Self {
        let mut regrets = Vec::new();
        let mut failures = Vec::new();
        for row in rows {
            let Some((best, of_best)) = best(row) else { continue };
            match &row.results[index] {
                Err(reason) => failures.push(format!("{}: {reason}", row.cell.name())),
                Ok(measure) => regrets.push(Regret {
                    cell: row.cell.name(),
                    regret: measure.time / of_best.time - 1.0,
                    longest_wait_ns: measure.longest_wait_ns,
                    longest_wait_of_best_ns: of_best.longest_wait_ns,
                    cut: measure.cut,
                    best: names[best].clone(),
                }),
            }
        }
        regrets.sort_by(|a, b| b.regret.total_cmp(&a.regret));
        Self {
            scheduler: scheduler.to_owned(),
            mean: regrets.iter().map(|regret| regret.regret).sum::<f64>() / regrets.len().max(1) as f64,
            within_3_percent: regrets.iter().filter(|regret| regret.regret <= 0.03).count(),
            regrets,
            failures,
        }
    }

    /// The cell with the longest wait relative to the best scheduler's.
    fn longest_wait(&self) -> Option<&Regret> {
        self.regrets.iter().max_by(|a, b| a.wait_ratio().total_cmp(&b.wait_ratio()))
    }
}

/// The scheduler with the least time, and its result.
fn best<'a>(row: &'a Row<'_>) -> Option<(usize, &'a Measure)> {
    let results = row.results.iter().enumerate().filter_map(|(n, result)| Some((n, result.as_ref().ok()?)));
    results.min_by(|(_, a), (_, b)| a.time.total_cmp(&b.time))
}

/// The schedulers, least mean regret first.
#[must_use]
pub fn summaries(names: &[String], rows: &[Row<'_>]) -> Vec<Summary> {
    let mut all: Vec<Summary> =
        names.iter().enumerate().map(|(n, name)| Summary::of(name, n, names, rows)).collect();
    all.sort_by(|a, b| a.mean.total_cmp(&b.mean));
    all
}

fn percent(share: f64) -> String {
    if share < 10.0 { format!("{:.1}%", share * 100.0) } else { format!("x{:.0}", share + 1.0) }
}

/// A table with one line per scheduler, in Markdown.
#[must_use]
pub fn text(summaries: &[Summary]) -> String {
    let mut text = String::from(
        "| scheduler | mean regret | within 3% | worst regret | in | longest wait / best's | in |\n|---|---|---|---|---|---|---|\n",
    );
    for summary in summaries {
        let (worst, wait) = (summary.regrets.first(), summary.longest_wait());
        let _ = writeln!(
            text,
            "| `{}` | {} | {} of {} | {} | {} | {} | {} |",
            summary.scheduler,
            percent(summary.mean),
            summary.within_3_percent,
            summary.regrets.len(),
            worst.map_or_else(String::new, |worst| percent(worst.regret)),
            worst.map_or("", |worst| &worst.cell),
            wait.map_or_else(String::new, |wait| format!(
                "{} / {}",
                time(wait.longest_wait_ns),
                time(wait.longest_wait_of_best_ns)
            )),
            wait.map_or("", |wait| &wait.cell),
        );
    }
    for failure in
        summaries.iter().flat_map(|summary| summary.failures.iter().map(move |f| (&summary.scheduler, f)))
    {
        let _ = writeln!(text, "\nno result: {} in {}", failure.0, failure.1);
    }
    text
}

/// A scheduler's worst cells, in Markdown.
#[must_use]
pub fn worst(summary: &Summary, count: usize) -> String {
    let mut text = format!(
        "`{}`, cells with the highest regret:\n\n| regret | cell | best | longest wait | best's |\n|---|---|---|---|---|\n",
        summary.scheduler
    );
    for regret in summary.regrets.iter().take(count) {
        let _ = writeln!(
            text,
            "| {}{} | {} | `{}` | {} | {} |",
            if regret.cut { "over " } else { "" },
            percent(regret.regret),
            regret.cell,
            regret.best,
            time(regret.longest_wait_ns),
            time(regret.longest_wait_of_best_ns),
        );
    }
    text
}

/// Less time than this share of the best other scheduler's is a gain, and more is a loss.
const MARGIN: f64 = 0.03;

/// A drive and depth with the mean regret of each scheduler, and the gains and losses of the first one against the best of the others.
#[derive(Default)]
struct Line<'a> {
    regrets: Vec<(f64, usize)>,
    gains: usize,
    losses: usize,
    worst: Option<(f64, &'a str)>,
    cells: usize,
}

/// A table with one line per drive and depth, in Markdown: the mean regret of each scheduler, and where the first one gains and loses
/// more than 3% against the best of the others.
#[must_use]
pub fn by_drive(names: &[String], rows: &[Row<'_>]) -> String {
    let mut lines: Vec<((&str, u32), Line<'_>)> = Vec::new();
    for row in rows {
        let Some((_, of_best)) = best(row) else { continue };
        let key = (row.cell.drive.as_str(), row.cell.depth);
        let at = lines.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
            lines.push((key, Line { regrets: vec![(0.0, 0); names.len()], ..Line::default() }));
            lines.len() - 1
        });
        let line = &mut lines[at].1;
        let times: Vec<Option<f64>> =
            row.results.iter().map(|result| result.as_ref().ok().map(|measure| measure.time)).collect();
        for ((sum, count), time) in line.regrets.iter_mut().zip(&times) {
            if let Some(time) = time {
                *sum += time / of_best.time - 1.0;
                *count += 1;
            }
        }
        let others = times.iter().skip(1).flatten().copied().min_by(f64::total_cmp);
        if let (Some(own), Some(other)) = (times[0], others) {
            let behind = own / other - 1.0;
            line.cells += 1;
            line.gains += usize::from(behind < -MARGIN);
            line.losses += usize::from(behind > MARGIN);
            if line.worst.is_none_or(|(worst, _)| behind > worst) {
                line.worst = Some((behind, &row.cell.workload));
            }
        }
    }
    let first = names.first().map_or("", String::as_str);
    let mut text = String::from("| drive | depth |");
    for name in names {
        let _ = write!(text, " mean regret of `{name}` |");
    }
    let _ = writeln!(
        text,
        " gains of `{first}` | losses | worst | in |\n|---|---|{}---|---|---|---|",
        "---|".repeat(names.len())
    );
    for ((drive, depth), line) in &lines {
        let _ = write!(text, "| {drive} | {depth} |");
        for &(sum, count) in &line.regrets {
            let _ =
                write!(text, " {} |", if count == 0 { "".to_owned() } else { percent(sum / count as f64) });
        }
        let (worst, cell) = line.worst.unwrap_or((0.0, ""));
        let _ = writeln!(
            text,
            " {} of {} | {} | {} | {cell} |",
            line.gains,
            line.cells,
            line.losses,
            percent(worst.max(0.0))
        );
    }
    text
}

/// Every cell and scheduler as comma-separated values.
#[must_use]
pub fn csv(names: &[String], rows: &[Row<'_>]) -> String {
    let mut text = String::from("workload,drive,depth,identity,scheduler,time,regret,longest_wait_ns,cut\n");
    for row in rows {
        let Some((_, of_best)) = best(row) else { continue };
        let identity = row.cell.identity.name();
        for (name, measure) in names.iter().zip(&row.results).filter_map(|(n, r)| Some((n, r.as_ref().ok()?)))
        {
            let _ = writeln!(
                text,
                "\"{}\",\"{}\",{},{identity},\"{name}\",{},{:.6},{},{}",
                row.cell.workload,
                row.cell.drive,
                row.cell.depth,
                measure.time,
                measure.time / of_best.time - 1.0,
                measure.longest_wait_ns,
                measure.cut
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regret::cells::{Selection, Set, cells};

    #[test]
    fn regret_is_relative_to_the_best_of_a_cell() {
        let only = ["fio-randread-1 on wd5000aaks depth 1".to_owned()];
        let selection = Selection {
            set: Set::Tuning,
            drives: &[],
            depths: &[],
            files: Vec::new(),
            only: &only,
            sample: None,
            seed: 1,
        };
        let cells = cells(&selection).unwrap();
        let measure = |time, longest_wait_ns| Ok(Measure { time, longest_wait_ns, cut: false });
        let results = vec![measure(3.0, 400_000_000), measure(2.0, 1), Err("none".to_owned())];
        let rows = [Row { cell: &cells[0], results }];
        let names = ["slow", "fast", "broken"].map(str::to_owned);
        let all = summaries(&names, &rows);
        let of = |name: &str| all.iter().find(|summary| summary.scheduler == name).unwrap();
        assert_eq!((of("slow").mean, of("fast").mean), (0.5, 0.0));
        assert_eq!((of("slow").within_3_percent, of("fast").within_3_percent), (0, 1));
        assert!((of("slow").regrets[0].wait_ratio() - 8.0).abs() < 1e-9);
        assert_eq!(of("broken").failures.len(), 1);
        let drives = by_drive(&names, &rows);
        let line = drives.lines().nth(2).unwrap();
        assert!(line.contains("| 50.0% | 0.0% |  | 0 of 1 | 1 | 50.0% | fio-randread-1 |"), "{drives}");
        assert_eq!(csv(&names, &rows).lines().count(), 3);
    }
}
