//! Regret of each scheduler setting over the cells of a study, and Pareto fronts of throughput against latency.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use elevator::text::counted;
use evaluation::Error;
use evaluation::report::chart::{Chart, Mark, colour};
use evaluation::report::format::{number, percent, printable, time};
use evaluation::report::page::{GENERATOR, Page};

use crate::description::Run;
use crate::store::Store;
use crate::table::Cell;

/// The result of a run, as far as the summary needs it.
#[derive(Clone, Debug)]
struct Result {
    scheduler: String,
    cell: String,
    failure: Option<String>,
    cut: bool,
    by_time: bool,
    elapsed_ns: f64,
    mb_per_s: f64,
    mean_ns: Option<f64>,
    p99_ns: Option<f64>,
    /// Transactions or bytes of a script's programs.
    work: Option<f64>,
}

/// A scheduler with its tunables, over all cells. Control characters of names are escaped.
#[derive(Clone, PartialEq, Debug)]
pub struct Scheduler {
    /// Its name with tunables.
    pub name: String,
    /// Cells with a result.
    pub cells: usize,
    /// Mean regret: the share by which it is worse than the best scheduler of the cell, by the measure of the cell.
    pub mean_regret: f64,
    /// Cells with a regret of at most 3%.
    pub within_3_percent: usize,
    /// Greatest regret.
    pub worst_regret: f64,
    /// Its cell.
    pub worst_cell: String,
    /// Geometric mean of throughput over the best throughput of the cell; at most 1.
    pub throughput: f64,
    /// Geometric mean of the 99th percentile of latency over the least one of the cell; at least 1.
    pub p99: f64,
    /// No other scheduler is better by one of these means without being worse by the other.
    pub on_front: bool,
    /// Cells in which it is on the front.
    pub fronts: usize,
    /// Runs without a result.
    pub failures: usize,
}

/// The Pareto front of a cell: schedulers than which no other one is better in throughput or 99th percentile without being worse in the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Front {
    /// The cell.
    pub cell: String,
    /// Scheduler, throughput in 10^6 bytes per second, 99th percentile of latency in nanoseconds; highest throughput first.
    pub points: Vec<(String, f64, f64)>,
}

/// The summary of a study.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// Schedulers, least mean regret first; those with failures after all others.
    pub schedulers: Vec<Scheduler>,
    /// Fronts, in the order of the cells.
    pub fronts: Vec<Front>,
    /// Why runs were not executed or failed, and why cells have no regret, which the table shows as `-`.
    pub gaps: Vec<String>,
    /// What recordings lack: a line for each with omissions.
    pub omissions: Vec<String>,
}

/// Columns of the summary.
const COLUMNS: [&str; 15] = [
    "run",
    "failure",
    "cut",
    "by_time",
    "elapsed_ns",
    "mb_per_s",
    "mean_ns",
    "p99_ns",
    "transactions",
    "work_bytes",
    "omissions",
    "left_out",
    "workload",
    "drive",
    "machine",
];

/// Most reasons of failures that the summary has, and most of runs that were not executed.
const REASONS_MAX: usize = 10;

/// Each reason once, with the first run and the number of others: a file that cannot be read is the input of many runs.
#[derive(Default)]
struct Reasons(Vec<(String, String, u64)>);

impl Reasons {
    fn add(&mut self, run: &str, reason: &str) {
        match self.0.iter_mut().find(|(known, ..)| known == reason) {
            Some((_, _, further)) => *further += 1,
            None => self.0.push((reason.to_owned(), run.to_owned(), 0)),
        }
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(reason, run, further)| match further {
            0 => printable(&format!("{run}: {reason}")).into_owned(),
            _ => {
                printable(&format!("{run}, and {}: {reason}", counted(*further, "further run"))).into_owned()
            }
        })
    }

    /// The first lines, and the number of others.
    fn first(&self, others: &str) -> impl Iterator<Item = String> {
        let more = self.0.len().saturating_sub(REASONS_MAX) as u64;
        let more = (more > 0).then(|| format!("and {}; {others}", counted(more, "further reason")));
        self.lines().take(REASONS_MAX).chain(more)
    }
}

/// A line for each reason why runs were not executed: `problems` has the [line](Run::line) of each run, and the reason.
pub fn problem_lines(problems: &[(String, String)]) -> Vec<String> {
    reasons(problems).lines().collect()
}

fn reasons(problems: &[(String, String)]) -> Reasons {
    let mut all = Reasons::default();
    problems.iter().for_each(|(run, reason)| all.add(run, reason));
    all
}

impl Summary {
    /// The summary of these runs, as far as the store has them. `problems` has the [line](Run::line) of each run that was not executed, and the reason.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn of(
        runs: &[Run],
        store: &Store,
        problems: &[(String, String)],
    ) -> std::result::Result<Self, Error> {
        let by_id: HashMap<&str, &Run> = runs.iter().map(|run| (run.id.as_str(), run)).collect();
        let mut found: HashMap<&str, Result> = HashMap::new();
        let mut omissions = BTreeSet::new();
        for cells in store.read_runs(&COLUMNS)? {
            let [id, failure, cut, by_time, elapsed, rate, mean, p99, transactions, work, rest @ ..] =
                &cells[..]
            else {
                continue;
            };
            let [lacks, left_out, names @ ..] = rest else { continue };
            let stored = [0, 1, 2].map(|n| names.get(n).and_then(text).map(str::to_owned));
            let Cell::Text(id) = id else { continue };
            let Some(run) = by_id.get(id.as_str()) else { continue };
            if let (Cell::Text(lacks), Cell::Whole(left_out)) = (lacks, left_out) {
                let (requests, device) = (counted(*left_out as u64, "request"), drive_of(run));
                let line = format!("{}{device}: {requests} left out: {lacks}", run.workload.name);
                let line = printable(&line).into_owned();
                omissions.insert((run.workload.name.as_str(), line));
            }
            let result = Result {
                scheduler: run.scheduler.clone(),
                cell: run.cell(),
                failure: text(failure).map(|reason| run.renamed(reason, &stored)),
                cut: *cut == Cell::Flag(true),
                by_time: *by_time == Cell::Flag(true),
                elapsed_ns: value(elapsed).unwrap_or(0.0),
                mb_per_s: value(rate).unwrap_or(0.0),
                mean_ns: value(mean),
                p99_ns: value(p99),
                work: value(transactions).or_else(|| value(work)),
            };
            found.insert(&run.id, result);
        }
        let summary = Self::new(runs.iter().filter_map(|run| found.remove(run.id.as_str())).collect());
        let unexecuted = reasons(problems);
        let unexecuted = unexecuted
            .first("the command prints all on standard error")
            .map(|line| format!("not executed: {line}"));
        Ok(Self {
            gaps: unexecuted.chain(summary.gaps).collect(),
            omissions: omissions.into_iter().map(|(_, line)| line).collect(),
            ..summary
        })
    }

    fn new(results: Vec<Result>) -> Self {
        let (mut order, mut cells): (Vec<String>, HashMap<String, Vec<Result>>) = Default::default();
        let mut failures: BTreeMap<String, usize> = BTreeMap::new();
        let mut reasons = Reasons::default();
        for result in results {
            if let Some(reason) = result.failure {
                reasons.add(&format!("{}: {}", result.cell, result.scheduler), &reason);
                *failures.entry(result.scheduler).or_default() += 1;
                continue;
            }
            let of_cell = cells.entry(result.cell.clone()).or_default();
            if of_cell.is_empty() {
                order.push(result.cell.clone());
            }
            of_cell.push(result);
        }
        let mut schedulers: Vec<Totals> = Vec::new();
        let mut index: HashMap<String, usize> = HashMap::new();
        let mut fronts = Vec::new();
        let (mut cut_replays, mut without_completion) = (0, 0);
        for cell in order {
            let results = &cells[&cell];
            if are_cut_replays(results) {
                cut_replays += 1;
                for result in results {
                    index.entry(result.scheduler.clone()).or_insert_with(|| {
                        schedulers.push(Totals { name: result.scheduler.clone(), ..Totals::default() });
                        schedulers.len() - 1
                    });
                }
                continue;
            }
            let front = front_of(results);
            let measures = measures(results);
            let best = measures.iter().copied().filter(|m| *m > 0.0).fold(f64::INFINITY, f64::min);
            let rate = results.iter().map(|result| result.mb_per_s).fold(0.0, f64::max);
            let least = results.iter().filter_map(|result| result.p99_ns).fold(f64::INFINITY, f64::min);
            let regret =
                |measure: f64| Some(measure / best - 1.0).filter(|_| best.is_finite() && measure.is_finite());
            without_completion += u64::from(measures.iter().any(|measure| regret(*measure).is_none()));
            for (n, (result, measure)) in results.iter().zip(measures).enumerate() {
                let at = *index.entry(result.scheduler.clone()).or_insert_with(|| {
                    schedulers.push(Totals { name: result.scheduler.clone(), ..Totals::default() });
                    schedulers.len() - 1
                });
                let p99 = result.p99_ns.map(|p99| p99.max(1.0) / least.max(1.0));
                schedulers[at].add(
                    &cell,
                    regret(measure),
                    (rate > 0.0).then(|| result.mb_per_s / rate),
                    p99,
                    front.contains(&n),
                );
            }
            let mut points: Vec<_> = front
                .iter()
                .filter_map(|&n| {
                    let name = printable(&results[n].scheduler).into_owned();
                    Some((name, results[n].mb_per_s, results[n].p99_ns?))
                })
                .collect();
            points.sort_by(|a, b| b.1.total_cmp(&a.1));
            fronts.push(Front { cell: printable(&cell).into_owned(), points });
        }
        for name in failures.keys() {
            if !index.contains_key(name) {
                schedulers.push(Totals { name: name.clone(), ..Totals::default() });
            }
        }
        let mut all: Vec<Scheduler> = schedulers
            .into_iter()
            .map(|totals| {
                let failures = failures.get(&totals.name).copied().unwrap_or(0);
                totals.finish(failures)
            })
            .collect();
        let points: Vec<_> = all.iter().map(|one| (one.throughput, one.p99)).collect();
        for (one, point) in all.iter_mut().zip(&points) {
            one.on_front = one.cells > 0 && !points.iter().any(|other| dominates(*other, *point));
        }
        // The mean of a scheduler with failures is over fewer cells, and it may have failed in those that are slow.
        let rank = |one: &Scheduler| (one.cells == 0, one.failures > 0);
        all.sort_by(|a, b| rank(a).cmp(&rank(b)).then(a.mean_regret.total_cmp(&b.mean_regret)));
        let gaps = [
            (
                cut_replays,
                "without regret and Pareto front: at_most stopped replays by time stamps, so that each completed another part of the recording",
            ),
            (
                without_completion,
                "without the regret of some schedulers: no read, write or discard completed under them",
            ),
        ];
        let gaps = gaps.into_iter().filter(|(cells, _)| *cells > 0);
        let gaps = gaps.map(|(cells, reason)| format!("{} {reason}", counted(cells, "cell")));
        let failed = reasons.first("see the column failure");
        Self { schedulers: all, fronts, gaps: failed.chain(gaps).collect(), omissions: Vec::new() }
    }
}

/// The drive, for a line about requests that may be beyond its end.
fn drive_of(run: &Run) -> String {
    run.drive.as_ref().map_or_else(String::new, |drive| format!(" on {}", drive.name))
}

fn text(cell: &Cell) -> Option<&str> {
    if let Cell::Text(text) = cell { Some(text) } else { None }
}

/// The names of a workload, drive and machine.
pub type Names = [Option<String>; 3];

impl Run {
    /// The names of its inputs in this study, in place of those at the time of the run. A run without a drive keeps that of the default, or of the script.
    pub fn names(&self, stored: Names) -> Names {
        let inputs = [Some(&self.workload), self.drive.as_ref(), self.machine.as_ref()];
        let mut names = stored;
        for (name, input) in names.iter_mut().zip(inputs) {
            *name = input.map(|input| input.name.clone()).or_else(|| name.take());
        }
        names
    }

    /// A reason with the present names of the inputs.
    pub fn renamed(&self, reason: &str, stored: &Names) -> String {
        let inputs = [Some(&self.workload), self.drive.as_ref(), self.machine.as_ref()];
        let names = stored.iter().zip(inputs);
        let names = names.filter_map(|(stored, input)| Some((stored.as_deref()?, input?.name.as_str())));
        renamed(reason, &names.filter(|(stored, present)| stored != present).collect::<Vec<_>>())
    }
}

/// A text with other names where it has these, but not where they are part of a longer name.
fn renamed(text: &str, names: &[(&str, &str)]) -> String {
    let in_name = |letter: char| letter.is_alphanumeric() || "_/-".contains(letter);
    let (mut all, mut from) = (String::new(), 0);
    while let Some(letter) = text[from..].chars().next() {
        let before = text[..from].chars().next_back().is_some_and(|letter| in_name(letter) || letter == '.');
        let is_here = |(name, _): &&(&str, &str)| {
            text[from..]
                .strip_prefix(*name)
                .is_some_and(|rest| !before && !name.is_empty() && !rest.starts_with(in_name))
        };
        match names.iter().filter(is_here).max_by_key(|(name, _)| name.len()) {
            Some((name, other)) => {
                all += other;
                from += name.len();
            }
            None => {
                all.push(letter);
                from += letter.len_utf8();
            }
        }
    }
    all
}

fn value(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Whole(n) => Some(*n as f64),
        Cell::Number(n) => Some(*n),
        _ => None,
    }
}

/// Whether replays by time stamps were stopped. Their results are those of the part that each completed: the more requests a scheduler postponed, the
/// shorter its latency.
fn are_cut_replays(results: &[Result]) -> bool {
    let is_cut = |result: &Result| result.by_time && result.cut;
    results.iter().any(is_cut) && results.iter().all(|result| result.work.is_none())
}

/// The measure by which the runs of a cell are compared; less is better. Mean latency if the requests arrive at given times; time per work of
/// programs that run for a given time; time per byte if a run was stopped early; otherwise time.
fn measures(results: &[Result]) -> Vec<f64> {
    let by_time = results.iter().any(|result| result.by_time);
    let has_work = results.iter().all(|result| result.work.is_some_and(|work| work > 0.0));
    let cut = results.iter().any(|result| result.cut);
    let one = |result: &Result| match () {
        () if has_work && (by_time || cut) => result.elapsed_ns / result.work.unwrap_or(1.0),
        () if by_time => result.mean_ns.unwrap_or(f64::INFINITY),
        () if cut => 1.0 / result.mb_per_s,
        () => result.elapsed_ns,
    };
    results.iter().map(one).collect()
}

/// Whether the first point has at least the throughput and at most the latency of the second, and is better in one of them.
#[must_use]
pub fn dominates(a: (f64, f64), b: (f64, f64)) -> bool {
    a.0 >= b.0 && a.1 <= b.1 && (a.0 > b.0 || a.1 < b.1)
}

/// Indices of the results on the front.
fn front_of(results: &[Result]) -> Vec<usize> {
    let point = |result: &Result| Some((result.mb_per_s, result.p99_ns?));
    let points: Vec<_> = results.iter().map(point).collect();
    let is_on = |of: &(f64, f64)| !points.iter().flatten().any(|other| dominates(*other, *of));
    (0..results.len()).filter(|&n| points[n].as_ref().is_some_and(is_on)).collect()
}

#[derive(Default)]
struct Totals {
    name: String,
    cells: usize,
    regrets: f64,
    within: usize,
    worst: f64,
    worst_cell: String,
    throughput: (f64, usize),
    p99: (f64, usize),
    fronts: usize,
}

impl Totals {
    fn add(
        &mut self,
        cell: &str,
        regret: Option<f64>,
        throughput: Option<f64>,
        p99: Option<f64>,
        on_front: bool,
    ) {
        let log = |sum: &mut (f64, usize), ratio: Option<f64>| {
            if let Some(ratio) = ratio.filter(|ratio| *ratio > 0.0) {
                *sum = (sum.0 + ratio.ln(), sum.1 + 1);
            }
        };
        log(&mut self.throughput, throughput);
        log(&mut self.p99, p99);
        self.fronts += usize::from(on_front);
        let Some(regret) = regret else { return };
        self.cells += 1;
        self.regrets += regret;
        self.within += usize::from(regret <= 0.03);
        if self.worst_cell.is_empty() || regret > self.worst {
            (self.worst, self.worst_cell) = (regret, cell.to_owned());
        }
    }

    fn finish(self, failures: usize) -> Scheduler {
        let mean =
            |(sum, count): (f64, usize)| if count == 0 { f64::NAN } else { (sum / count as f64).exp() };
        Scheduler {
            cells: self.cells,
            mean_regret: if self.cells == 0 { f64::NAN } else { self.regrets / self.cells as f64 },
            within_3_percent: self.within,
            worst_regret: self.worst,
            worst_cell: printable(&self.worst_cell).into_owned(),
            throughput: mean(self.throughput),
            p99: mean(self.p99),
            on_front: false,
            fronts: self.fronts,
            failures,
            name: printable(&self.name).into_owned(),
        }
    }
}

/// Headings of the table of schedulers.
const HEADS: [&str; 9] = [
    "scheduler",
    "mean regret",
    "within 3%",
    "worst regret",
    "throughput",
    "p99",
    "Pareto front",
    "failures",
    "worst cell",
];

/// The meaning of the headings.
const LEGEND: &str = "regret: the share by which a scheduler is worse than the best one of the cell, in time; in mean latency if requests arrive at given \
     times; in time per work of programs and jobs that run for a given time; in time per byte if a run was stopped early. throughput, p99: geometric means \
     over the cells, relative to the best of each. Pareto front: cells in which no other scheduler is better in throughput or 99th percentile without being worse \
     in the other; * marks the schedulers on the Pareto front of the means.";

impl Summary {
    /// The rows of the table of schedulers.
    fn rows(&self) -> Vec<[String; 9]> {
        let share = |share: f64| if share.is_finite() { percent(share) } else { "-".to_owned() };
        let row = |one: &Scheduler| {
            [
                one.name.clone(),
                share(one.mean_regret),
                format!("{} of {}", one.within_3_percent, one.cells),
                if one.cells == 0 { "-".to_owned() } else { share(one.worst_regret) },
                share(one.throughput),
                if one.p99.is_finite() { format!("x{}", number(one.p99)) } else { "-".to_owned() },
                format!("{}{}", one.fronts, if one.on_front { "*" } else { "" }),
                one.failures.to_string(),
                one.worst_cell.clone(),
            ]
        };
        self.schedulers.iter().map(row).collect()
    }

    /// Headings and rows, for a table in text.
    #[must_use]
    pub fn table(&self) -> (Vec<&'static str>, Vec<Vec<String>>) {
        (HEADS.to_vec(), self.rows().into_iter().map(Vec::from).collect())
    }

    /// The meaning of the columns.
    #[must_use]
    pub const fn legend() -> &'static str {
        LEGEND
    }

    /// The report in Markdown.
    #[must_use]
    pub fn markdown(&self, title: &str) -> String {
        // The mark of a generated file, which a later report may replace.
        let mut text = format!(
            "# {title}\n\n{GENERATOR}\n\n| {} |\n|{}\n",
            HEADS.join(" | "),
            "---|".repeat(HEADS.len())
        );
        for row in self.rows() {
            let _ = writeln!(text, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
        let _ = write!(text, "\n{LEGEND}\n");
        for line in self.gaps.iter().chain(&self.omissions) {
            let _ = write!(text, "\n{line}\n");
        }
        for front in &self.fronts {
            let _ = write!(
                text,
                "\n## Pareto front: {}\n\n| scheduler | MB/s | p99 |\n|---|---|---|\n",
                front.cell
            );
            for (name, rate, p99) in &front.points {
                let _ = writeln!(text, "| {name} | {} | {} |", number(*rate), time(*p99 as u64));
            }
        }
        text
    }

    /// The report as a HTML page that works offline.
    #[must_use]
    pub fn html(&self, title: &str) -> String {
        let mut page = Page::new(title);
        let heads: Vec<String> = HEADS.iter().map(ToString::to_string).collect();
        page.table(&heads, self.rows().into_iter().map(|row| ("", row.to_vec())));
        page.note(LEGEND);
        self.gaps.iter().chain(&self.omissions).for_each(|line| page.note(line));
        let mut chart =
            Chart::new("p99 over the least of the cell (geometric mean)", "throughput, % of the best", 360)
                .log_x();
        for (n, one) in self.schedulers.iter().enumerate().filter(|(_, one)| one.p99.is_finite()) {
            let mark = if one.on_front { " (Pareto front)" } else { "" };
            chart.add(
                &format!("{}{mark}", one.name),
                colour(n),
                Mark::Dots,
                vec![(one.p99, one.throughput * 100.0)],
            );
        }
        page.chart(&chart);
        for front in self.fronts.iter().filter(|front| !front.points.is_empty()) {
            page.write(format_args!(
                "<h2>Pareto front: {}</h2>",
                evaluation::report::format::escape(&front.cell)
            ));
            let heads = ["scheduler", "MB/s", "p99"].map(str::to_owned);
            let rows = front
                .points
                .iter()
                .map(|(name, rate, p99)| ("", vec![name.clone(), number(*rate), time(*p99 as u64)]));
            page.table(&heads, rows);
        }
        page.end("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(scheduler: &str, cell: &str, elapsed_ns: f64, mb_per_s: f64, p99_ns: f64) -> Result {
        Result {
            scheduler: scheduler.to_owned(),
            cell: cell.to_owned(),
            failure: None,
            cut: false,
            by_time: false,
            elapsed_ns,
            mb_per_s,
            mean_ns: Some(p99_ns / 2.0),
            p99_ns: Some(p99_ns),
            work: None,
        }
    }

    #[test]
    fn regret_is_relative_to_the_best_of_each_cell() {
        let summary = Summary::new(vec![
            result("a", "x", 100.0, 10.0, 5.0),
            result("b", "x", 150.0, 6.0, 1.0),
            result("a", "y", 300.0, 10.0, 5.0),
            result("b", "y", 200.0, 15.0, 4.0),
        ]);
        let [a, b] = &summary.schedulers[..] else { panic!("{summary:?}") };
        assert_eq!((a.name.as_str(), b.name.as_str()), ("a", "b"));
        assert!((a.mean_regret - 0.25).abs() < 1e-9 && (b.mean_regret - 0.25).abs() < 1e-9);
        assert_eq!((a.worst_cell.as_str(), b.worst_cell.as_str()), ("y", "x"));
        assert_eq!((a.fronts, b.fronts, a.within_3_percent), (1, 2, 1));
        let names =
            |n: usize| summary.fronts[n].points.iter().map(|point| point.0.as_str()).collect::<Vec<_>>();
        assert_eq!((names(0), names(1)), (vec!["a", "b"], vec!["b"]));
    }

    #[test]
    fn a_replay_by_time_stamps_is_judged_by_latency_and_a_cut_run_by_throughput() {
        let by_time = |of: Result| Result { by_time: true, ..of };
        let mut summary = Summary::new(vec![
            by_time(result("a", "x", 100.0, 10.0, 5.0)),
            by_time(result("b", "x", 99.0, 10.0, 10.0)),
        ]);
        assert_eq!(summary.schedulers[0].name, "a");
        assert!((summary.schedulers[1].mean_regret - 1.0).abs() < 1e-9);
        let cut = Result { cut: true, ..result("a", "x", 100.0, 20.0, 5.0) };
        summary = Summary::new(vec![cut, result("b", "x", 99.0, 10.0, 10.0)]);
        assert_eq!(summary.schedulers[0].name, "a");
    }

    #[test]
    fn stopped_replays_by_time_stamps_have_neither_regret_nor_front() {
        let replay = |name: &str, cut| Result { by_time: true, cut, ..result(name, "x", 100.0, 10.0, 5.0) };
        let others = [result("a", "y", 100.0, 10.0, 5.0), result("b", "y", 200.0, 5.0, 9.0)];
        let summary = Summary::new([vec![replay("a", true), replay("b", false)], others.to_vec()].concat());
        let of = |n: usize| (summary.schedulers[n].cells, summary.schedulers[n].fronts);
        assert_eq!((of(0), of(1), summary.fronts.len()), ((1, 1), (1, 0), 1));
        let reason = "1 cell without regret and Pareto front: at_most stopped replays by time stamps";
        assert!(summary.gaps[0].starts_with(reason) && summary.gaps.len() == 1, "{:?}", summary.gaps);
        assert!(summary.markdown("t").contains(reason) && summary.html("t").contains(reason));
        // Programs that run for a given time are not replays.
        let script = |name: &str| Result { work: Some(7.0), ..replay(name, true) };
        assert!(Summary::new(vec![script("a"), script("b")]).gaps.is_empty());
    }

    #[test]
    fn a_cell_in_which_nothing_completed_has_the_reason() {
        let none = Result { by_time: true, mean_ns: None, p99_ns: None, ..result("a", "x", 100.0, 0.0, 0.0) };
        let summary = Summary::new(vec![none.clone(), Result { scheduler: "b".to_owned(), ..none }]);
        assert_eq!(summary.table().1[0][1..4], ["-", "0 of 0", "-"]);
        let reason =
            "1 cell without the regret of some schedulers: no read, write or discard completed under them";
        assert_eq!(summary.gaps, [reason]);
    }

    #[test]
    fn names_with_control_characters_stay_on_their_line() {
        let of = |scheduler| result(scheduler, "r/new\nline.gz on ssd", 1.0, 1.0, 1.0);
        let summary = Summary::new(vec![of("a"), of("mine\r.toml")]);
        let (_, rows) = summary.table();
        assert!(rows.iter().flatten().all(|cell| !cell.contains(char::is_control)), "{rows:?}");
        let text = summary.markdown("t");
        assert!(text.contains("## Pareto front: r/new\\nline.gz on ssd\n"), "{text}");
        assert_eq!(text.matches("| mine\\r.toml | ").count(), 2, "{text}");
    }

    #[test]
    fn a_result_that_is_as_good_in_one_and_worse_in_the_other_is_not_on_the_front() {
        let summary = Summary::new(vec![result("a", "x", 1.0, 10.0, 5.0), result("b", "x", 1.0, 9.0, 5.0)]);
        assert_eq!(summary.fronts[0].points.len(), 1);
    }

    #[test]
    fn failed_runs_are_counted() {
        let failed = |cell: &str, reason: &str| Result {
            failure: Some(reason.to_owned()),
            ..result("b", cell, 0.0, 0.0, 0.0)
        };
        let summary = Summary::new(vec![result("a", "x", 1.0, 1.0, 1.0), failed("x", "too large")]);
        assert_eq!(summary.schedulers[1].failures, 1);
        assert_eq!(summary.gaps, ["x: b: too large"]);
        let same =
            Summary::new(vec![failed("x", "too large"), failed("y", "too large"), failed("z", "none")]);
        assert_eq!(same.gaps, ["x: b, and 1 further run: too large", "z: b: none"]);
        let many = Summary::new((0..12).map(|n| failed("x", &n.to_string())).collect());
        assert_eq!(
            (many.gaps.len(), many.gaps[10].as_str()),
            (11, "and 2 further reasons; see the column failure")
        );
        assert!(summary.markdown("t").contains("| b | - | 0 of 0 | - |"), "{}", summary.markdown("t"));
        assert!(summary.html("t").contains("</html>"));
    }

    #[test]
    fn a_reason_has_the_present_name_of_a_file() {
        let text = "a: a.b, b, x/a, a-b and ab";
        assert_eq!(renamed(text, &[("a", "c")]), "c: c.b, b, x/a, a-b and ab");
        assert_eq!(renamed(text, &[("a", "b"), ("b", "a")]), "b: b.b, a, x/a, a-b and ab");
        let run = Run { workload: crate::Input::built_in("new.fio"), ..crate::description::tests::run() };
        let stored = [Some("old.fio".to_owned()), Some("wd5000aaks".to_owned()), None];
        let reason = run.renamed("old.fio is larger than wd5000aaks", &stored);
        assert_eq!(reason, "new.fio is larger than wd5000aaks");
        assert_eq!(run.names(stored), [Some("new.fio".to_owned()), Some("wd5000aaks".to_owned()), None]);
    }

    #[test]
    fn a_scheduler_with_failures_follows_those_without() {
        let failed = Result { failure: Some(String::new()), ..result("a", "y", 0.0, 0.0, 0.0) };
        let of = [result("a", "x", 1.0, 1.0, 1.0), failed, result("b", "x", 2.0, 1.0, 1.0)];
        let summary = Summary::new(of.into_iter().chain([result("b", "y", 2.0, 1.0, 1.0)]).collect());
        let names: Vec<&str> = summary.schedulers.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["b", "a"]);
    }
}
