//! The columns of the results, the same in the terminal, in CSV and in the report.

use machine::Latency;

use super::ranking::{Ranked, Ranking, work};
use evaluation::report::format::{bytes, number, percent, time};
use evaluation::runs::Run;

/// What a cell contains.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// Nothing.
    Nothing,
    /// A name.
    Text(String),
    /// Nanoseconds.
    Time(u64),
    /// Bytes.
    Bytes(u64),
    /// A share; 1 is all.
    Share(f64),
    /// A plain number, with its unit in text only.
    Number(f64, &'static str),
    /// An index between 0 and 1.
    Index(f64),
    /// A number of things.
    Count(u64),
}

impl Value {
    /// With a unit and three significant digits.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Text(text) => text.clone(),
            Self::Time(ns) => time(*ns),
            Self::Bytes(of) => bytes(*of),
            // A run that was stopped early can have a share far above 1.
            Self::Share(share) if *share >= 10.0 => format!("{share:.0}x"),
            Self::Share(share) => percent(*share),
            Self::Number(value, "") => number(*value),
            Self::Number(value, unit) => format!("{} {unit}", number(*value)),
            Self::Index(value) => format!("{value:.2}"),
            Self::Count(count) => count.to_string(),
        }
    }

    /// With all digits and no unit, for CSV.
    pub(crate) fn exact(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Text(text) if text == "-" => String::new(),
            Self::Text(text) => text.clone(),
            Self::Time(of) | Self::Bytes(of) | Self::Count(of) => of.to_string(),
            Self::Share(of) | Self::Number(of, _) | Self::Index(of) => of.to_string(),
        }
    }
}

/// A line of results: a run, or the physical limit.
pub(crate) struct Line<'a> {
    name: String,
    rank: Option<Ranked<'a>>,
    run: Option<&'a Run>,
    rate: f64,
    elapsed_ns: u64,
    share: Option<f64>,
    of_limit: Option<f64>,
    regret: Option<f64>,
    on_front: Option<bool>,
}

impl<'a> Line<'a> {
    /// The line of a run.
    pub(crate) fn of(ranked: &Ranked<'a>, ranking: &Ranking<'a>) -> Self {
        let run = ranked.run;
        Self {
            name: name(run),
            rank: Some(*ranked),
            run: Some(run),
            rate: run.measured.megabytes_per_second(),
            elapsed_ns: run.measured.elapsed_ns,
            share: ranking.share(run),
            of_limit: run.of_limit(),
            regret: ranking.regret(run),
            on_front: ranking.is_on_front(run),
        }
    }

    /// The line of the physical limit, which all runs that did not fail share, if it is known.
    pub(crate) fn limit(ranking: &Ranking<'a>) -> Option<Self> {
        let run = ranking.rows.first()?.run;
        let elapsed_ns = run.limit.as_ref()?.elapsed_ns;
        let rate = if elapsed_ns == 0 { 0.0 } else { run.measured.bytes as f64 * 1e3 / elapsed_ns as f64 };
        let name = "physical limit".to_owned();
        let share = ranking.share_of_limit(rate, elapsed_ns);
        let of_limit = Some(1.0);
        let (rank, run, regret, on_front) = (None, None, None, None);
        Some(Self { name, rank, run, rate, elapsed_ns, share, of_limit, regret, on_front })
    }

    /// The run with its rank; `None` for the limit.
    pub(crate) const fn ranked(&self) -> Option<Ranked<'a>> {
        self.rank
    }

    fn latency(&self, of: impl Fn(&Run) -> Latency, part: impl Fn(&Latency) -> u64) -> Value {
        let latency = self.run.map(of).filter(|latency| latency.count > 0);
        latency.map_or(Value::Nothing, |latency| Value::Time(part(&latency)))
    }

    fn measured(&self, of: impl Fn(&Run) -> Value) -> Value {
        self.run.map_or(Value::Nothing, of)
    }
}

/// A column.
pub(crate) struct Column {
    /// Its heading, of up to two lines.
    pub(crate) head: &'static str,
    /// Its name in CSV, with the unit.
    pub(crate) csv: &'static str,
    /// What it means; empty if the heading suffices.
    pub(crate) meaning: &'static str,
    /// Columns with a higher number are left out first if a table is too wide.
    pub(crate) order: u8,
    /// Its value in a line.
    pub(crate) of: fn(&Line<'_>) -> Value,
}

macro_rules! columns {
    ($($head:literal, $csv:literal, $order:literal, $of:expr, $meaning:literal;)*) => {
        &[$(Column { head: $head, csv: $csv, meaning: $meaning, order: $order, of: $of }),*]
    };
}

/// All columns, in their order in a table.
pub(crate) const COLUMNS: &[Column] = columns! {
    "scheduler", "scheduler", 0, |line| Value::Text(line.name.clone()), "";
    "rank", "rank", 0, rank, "= marks results within 1% of each other, which share a rank";
    "MB/s", "mb_per_s", 1, |line| Value::Number(line.rate, ""), "10^6 bytes per second moved by the device";
    "time", "elapsed_ns", 7, |line| Value::Time(line.elapsed_ns), "";
    "work", "work_per_s", 2, |line| line.run.and_then(work).map_or(Value::Nothing, |(amount, unit)| Value::Number(amount, unit)),
        "transactions, or bytes that the measured programs read and wrote, per second";
    "of\nbest", "of_best", 6, |line| line.share.map_or(Value::Nothing, Value::Share), "the result relative to the best one";
    "mean\nlatency", "mean_ns", 16, |line| line.latency(|run| run.measured.latency, |of| of.mean_ns), "";
    "read\nmean", "read_mean_ns", 3, |line| line.latency(|run| run.measured.reads, |of| of.mean_ns), "";
    "read\np50", "read_p50_ns", 14, |line| line.latency(|run| run.measured.reads, |of| of.p50_ns), "";
    "read\np99", "read_p99_ns", 3, |line| line.latency(|run| run.measured.reads, |of| of.p99_ns), "";
    "read\nmax", "read_max_ns", 10, |line| line.latency(|run| run.measured.reads, |of| of.max_ns), "";
    "write\nmean", "write_mean_ns", 9, |line| line.latency(|run| run.measured.writes, |of| of.mean_ns), "";
    "write\np50", "write_p50_ns", 15, |line| line.latency(|run| run.measured.writes, |of| of.p50_ns), "";
    "write\np99", "write_p99_ns", 5, |line| line.latency(|run| run.measured.writes, |of| of.p99_ns), "";
    "write\nmax", "write_max_ns", 13, |line| line.latency(|run| run.measured.writes, |of| of.max_ns), "";
    "fsync\np50", "fsync_p50_ns", 8, |line| line.latency(|run| run.measured.fsyncs, |of| of.p50_ns), "";
    "fsync\np99", "fsync_p99_ns", 2, |line| line.latency(|run| run.measured.fsyncs, |of| of.p99_ns), "";
    "fsync\nmax", "fsync_max_ns", 6, |line| line.latency(|run| run.measured.fsyncs, |of| of.max_ns), "";
    "head\ntravel", "head_travel_bytes", 12, |line| line.measured(|run| match run.has_head {
        true => Value::Bytes(run.measured.head_travel_sectors.saturating_mul(512)),
        false => Value::Text("-".to_owned()),
    }), "distance of the head's movements over the disk";
    "waited", "waited_ns", 11, |line| line.measured(|run| Value::Time(run.measured.waits.total_ns)),
        "time in which the scheduler kept the device idle although requests were queued";
    "fair-\nness", "fairness", 12, |line| line.run.and_then(|run| run.fairness).map_or(Value::Nothing, Value::Index),
        "Jain's index over the slowdown of each process relative to running alone; 1 means equal slowdown";
    "of\nlimit", "of_limit", 2, |line| line.of_limit.map_or(Value::Nothing, Value::Share),
        "relative to the physical limit, which no order of requests beats: one sweep over the data, or the pauses, transfers and necessary moves of the slowest process";
    "regret", "regret", 17, |line| line.regret.map_or(Value::Nothing, Value::Share), "by how much the result is worse than the best one, as a share of the best";
    "Pareto\nfront", "pareto_front", 4, |line| line.on_front.map_or(Value::Nothing, |on| Value::Text(if on { "yes" } else { "-" }.to_owned())),
        "of the compared settings, no other one is better in throughput or 99th percentile of latency without being worse in the other";
};

/// A heading on one line.
pub(crate) fn on_one_line(head: &str) -> String {
    head.replace("-\n", "").replace('\n', " ").trim().to_owned()
}

/// The meaning of the columns that a report has.
pub(crate) fn meaning(shown: &[&Column]) -> String {
    let described = shown.iter().filter(|column| !column.meaning.is_empty());
    let sentence = |column: &&Column| format!("{}: {}.", on_one_line(column.head), column.meaning);
    described.map(sentence).collect::<Vec<_>>().join(" ")
}

/// All lines: the physical limit if it is known, then the runs in order.
pub(crate) fn lines<'a>(ranking: &Ranking<'a>) -> Vec<Line<'a>> {
    let runs = ranking.rows.iter().map(|ranked| Line::of(ranked, ranking));
    Line::limit(ranking).into_iter().chain(runs).collect()
}

/// A cell of a CSV file, in quotes if it needs them.
pub(crate) fn quoted(cell: String) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

/// All results as CSV, with all digits. The first line names the columns.
pub(crate) fn csv(ranking: &Ranking<'_>) -> String {
    let mut text = COLUMNS.iter().map(|column| column.csv).collect::<Vec<_>>().join(",");
    for line in lines(ranking) {
        let cells = COLUMNS.iter().map(|column| quoted((column.of)(&line).exact()));
        text += "\n";
        text += &cells.collect::<Vec<_>>().join(",");
    }
    text
}

/// Column headings of the table of processes, and their names in CSV.
pub(crate) const PROCESS_HEADS: [(&str, &str); 13] = [
    ("process", "process"),
    ("bytes", "bytes"),
    ("time", "elapsed_ns"),
    ("of its\nlimit", "of_limit"),
    ("requests", "requests"),
    ("read\nmean", "read_mean_ns"),
    ("read\np50", "read_p50_ns"),
    ("read\np99", "read_p99_ns"),
    ("read\nmax", "read_max_ns"),
    ("write\nmean", "write_mean_ns"),
    ("write\np50", "write_p50_ns"),
    ("write\np99", "write_p99_ns"),
    ("write\nmax", "write_max_ns"),
];

/// Columns of the table of processes in the order of importance, from the second.
pub(crate) const PROCESS_ORDER: [usize; 12] = [1, 2, 5, 7, 9, 11, 3, 4, 8, 12, 6, 10];

/// The results of the first `most` processes with requests under one scheduler, and the number of further processes. A process without any only
/// started others.
pub(crate) fn processes(run: &Run, most: usize) -> (Vec<Vec<Value>>, usize) {
    let least = run.limit.iter().flat_map(|limit| &limit.processes_ns).copied().map(Some);
    let row = |(process, least): (&machine::ProcessMeasured, Option<u64>)| {
        let share = |least: u64| Value::Share(least as f64 / process.elapsed_ns as f64);
        let mut cells = vec![
            Value::Text(process.name.clone()),
            Value::Bytes(process.bytes),
            Value::Time(process.elapsed_ns),
            least.filter(|&least| process.elapsed_ns > 0 && least > 0).map_or(Value::Nothing, share),
            Value::Count(process.latency.count),
        ];
        cells.extend(latency(&process.reads));
        cells.extend(latency(&process.writes));
        cells
    };
    let all = run.measured.processes.iter().zip(least.chain(std::iter::repeat(None)));
    let with_requests: Vec<_> = all.filter(|(process, _)| process.latency.count > 0).collect();
    let left_out = with_requests.len().saturating_sub(most);
    (with_requests.into_iter().take(most).map(row).collect(), left_out)
}

/// The cells of a latency (mean, median, 99th percentile, maximum); empty without requests.
fn latency(latency: &Latency) -> [Value; 4] {
    let numbers = [latency.mean_ns, latency.p50_ns, latency.p99_ns, latency.max_ns];
    numbers.map(|ns| if latency.count == 0 { Value::Nothing } else { Value::Time(ns) })
}

fn rank(line: &Line<'_>) -> Value {
    let ranked = line.rank.and_then(|ranked| Some((ranked.rank?, ranked.is_tied)));
    ranked.map_or(Value::Nothing, |(rank, is_tied)| {
        Value::Text(if is_tied { format!("={rank}") } else { rank.to_string() })
    })
}

fn name(run: &Run) -> String {
    match (&run.failure, run.cut) {
        (Some(_), _) => format!("{} (failed)", run.scheduler),
        (None, true) => format!("{} (cut)", run.scheduler),
        (None, false) => run.scheduler.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ranking::SortKey;
    use super::super::why::tests::run;
    use super::*;

    #[test]
    fn columns_have_different_names() {
        let names: std::collections::BTreeSet<&str> = COLUMNS.iter().map(|column| column.csv).collect();
        assert_eq!(names.len(), COLUMNS.len());
    }

    #[test]
    fn the_documentation_has_every_column() {
        let page = include_str!("../../../../docs/compare.md");
        for column in COLUMNS {
            let name = on_one_line(column.head);
            let has = |line: &str| line.starts_with("| `") && line.contains(&format!("`{name}`"));
            assert!(page.lines().any(has), "docs/compare.md has no column {name}");
        }
    }

    #[test]
    fn csv_has_all_digits_and_a_line_for_each_run() {
        let runs = [run("a{x=1, y=2}", 3_000_000_000, 1_000_000), run("b", 1_000_000_000, 1_000_000)];
        let csv = csv(&Ranking::new(&runs, SortKey::Rate));
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[0].starts_with("scheduler,rank,mb_per_s,elapsed_ns,"), "{csv}");
        assert!(lines[1].starts_with("b,1,1,1000000000,,1,"), "{csv}");
        assert!(lines[2].starts_with("\"a{x=1, y=2}\",2,0.3333333333333333,3000000000,"), "{csv}");
    }

    #[test]
    fn shares_far_above_the_best_are_factors() {
        assert_eq!([0.5, 238.4].map(|share| Value::Share(share).text()), ["50%", "238x"]);
    }
}
