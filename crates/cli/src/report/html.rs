//! `--report`: one HTML file that opens offline, with the table, the latency distributions, and for two schedulers side by side the
//! head's position, throughput, commands in the drive, latency and seeks over time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ::machine::{Point, Timeline};
use evaluation::report::chart::{Chart, Mark, colour, share_axes};
use evaluation::report::format::escape;
use evaluation::report::page::Page;
use evaluation::runs::Run;

use super::columns::{self, COLUMNS, Column, Value};
use super::comparison::Comparison;
use super::html_table::{exact, more};
use super::machine;
use super::ranking::Ranking;
use super::why::why;

/// The whole report.
pub(crate) fn html(comparison: &Comparison, ranking: &Ranking<'_>) -> String {
    let runs = &ranking.runs()[..];
    let mut page = Page::new(&format!("{} on {}", comparison.workload, comparison.drive));
    comparison.notes().iter().for_each(|note| page.note(note));
    let shown = results(&mut page, ranking);
    page.note(&format!("{} {}", ranking.words(), columns::meaning(&shown)));
    page.write(format_args!(
        "<h2>Latency</h2><p>Share of requests that completed within a time. Click a name to hide its line.</p>"
    ));
    for (index, what) in ["reads", "writes"].into_iter().enumerate() {
        if runs.iter().any(|run| !run.distributions[index].is_empty()) {
            page.chart(&distribution(runs, index, what));
        }
    }
    if let Some(run) = runs.iter().find(|run| !run.timeline.points.is_empty()) {
        page.write(format_args!("<h2>Request sizes</h2>"));
        page.chart(&sizes(&run.timeline));
    }
    page.write(format_args!("<h2>Two schedulers side by side</h2>"));
    let requests: usize = runs.iter().map(|run| run.timeline.points.len()).sum();
    let step = requests.div_ceil(MARKS).max(1);
    page.note(HEAD);
    if step > 1 {
        page.note(&format!(
            "With this many schedulers, the first chart shows one in {step} requests of each process; the other charts count all requests."
        ));
    }
    let names: Vec<&str> = runs.iter().map(|run| run.scheduler.as_str()).collect();
    let most = PROCESSES.min(ROWS / runs.len().max(1));
    page.choices(&names);
    for (run, charts) in runs.iter().zip(side_by_side(runs, step)) {
        page.choice(&run.scheduler);
        page.write(format_args!("{}", summary(run)));
        charts.iter().for_each(|chart| page.chart(chart));
        match &run.outcome {
            Some(outcome) => machine::sections(&mut page, outcome, most),
            None => processes(&mut page, run, most),
        }
        page.end_choice();
    }
    page.end_choices();
    page.end("; all results are those of the modelled machine.")
}

/// The charts over time of each run. Charts of the same kind have the same axes.
fn side_by_side(runs: &[&Run], step: usize) -> Vec<Vec<Chart>> {
    let charts = |run: &&Run| {
        let head = head(&run.timeline, &run.names, step);
        std::iter::once(head).chain(over_time(&run.timeline)).collect()
    };
    let mut all: Vec<Vec<Chart>> = runs.iter().map(charts).collect();
    for kind in 0..all.first().map_or(0, Vec::len) {
        share_axes(all.iter_mut().map(|charts| &mut charts[kind]));
    }
    all
}

/// Rows of a table of processes.
const PROCESSES: usize = 200;
/// Rows of all tables of processes, which bound the size of the report.
const ROWS: usize = 1200;
/// Marks in the charts of the head of all schedulers, which bound the size of the report.
const MARKS: usize = 120_000;

fn processes(page: &mut Page, run: &Run, most: usize) {
    let (rows, left_out) = columns::processes(run, most);
    page.write(format_args!("<h4>Processes</h4>"));
    exact(page, &columns::PROCESS_HEADS, rows);
    more(page, left_out);
}

/// Processes with a colour of their own.
const NAMES: usize = 32;
/// The colour of all other processes.
const OTHERS: &str = "#bbbbbb";

const HEAD: &str = "In the first chart, each mark is a request at its position on the disk when the device completed it, in the colour of \
    its process; in a grey band the scheduler deliberately left the device idle for at least a quarter of the time.";

/// Writes the table of results, and returns its columns.
fn results(page: &mut Page, ranking: &Ranking<'_>) -> Vec<&'static Column> {
    let lines = columns::lines(ranking);
    let has_value = |column: &&Column| lines.iter().any(|line| (column.of)(line) != Value::Nothing);
    let of_programs = ranking.rows.iter().any(|ranked| ranked.run.outcome.is_some());
    let has_value = |column: &&Column| has_value(column) && (column.csv != "work_per_s" || of_programs);
    let shown: Vec<&Column> = COLUMNS.iter().filter(has_value).collect();
    let rows = lines.iter().map(|line| {
        let class = match line.ranked() {
            None => "limit",
            Some(ranked) if ranked.rank == Some(1) => "best",
            Some(_) => "",
        };
        let cell = |column: &&Column| {
            let value = (column.of)(line);
            (value.text(), value.exact())
        };
        (class, shown.iter().map(cell).collect())
    });
    let heads: Vec<(String, &str)> =
        shown.iter().map(|column| (columns::on_one_line(column.head), column.csv)).collect();
    page.exact_table(&heads, rows);
    shown
}

fn distribution(runs: &[&Run], index: usize, what: &str) -> Chart {
    let mut chart = Chart::new(&format!("latency of {what}, ms"), "requests done, %", 380).log_x();
    for (n, run) in runs.iter().enumerate().filter(|(_, run)| !run.distributions[index].is_empty()) {
        chart.add(&run.scheduler, colour(n), Mark::Line, steps(&run.distributions[index]));
    }
    chart
}

/// A distribution in milliseconds and percent, as steps: between two latencies that are apart in the chart the share stays.
fn steps(distribution: &[(u64, f64)]) -> Vec<(f64, f64)> {
    /// The ratio of two latencies, about 2 of 800 pixels for four powers of ten, from which on they are apart.
    const APART: f64 = 1.02;
    let (mut points, mut last) = (Vec::new(), (0.0, 0.0));
    for &(ns, share) in distribution {
        let point = (ns as f64 / 1e6, share * 100.0);
        if point.0 > last.0 * APART {
            points.push((point.0, last.1));
        }
        points.push(point);
        last = point;
    }
    points
}

/// Requests by size, in powers of two: of each the reads on the left and the writes on the right, if there are both.
fn sizes(timeline: &Timeline) -> Chart {
    let mut chart = Chart::new("request size, KiB", "requests", 220).log_x();
    let has_both = timeline.sizes.iter().all(|sizes| !sizes.is_empty());
    for (n, name) in ["reads", "writes"].into_iter().enumerate() {
        let steps = timeline.sizes[n].iter().flat_map(|(&sectors, &count)| {
            let (kib, count) = (f64::from(sectors) / 2.0, count as f64);
            let middle = kib * std::f64::consts::FRAC_1_SQRT_2;
            let (from, to) = match (has_both, n) {
                (false, _) => (kib / 2.0, kib),
                (true, 0) => (kib / 2.0, middle),
                (true, _) => (middle, kib),
            };
            [(from, 0.0), (from, count), (to, count), (to, 0.0)]
        });
        let steps: Vec<_> = steps.collect();
        if !steps.is_empty() {
            chart.add(name, colour(n), Mark::Line, steps);
        }
    }
    chart
}

/// What the scheduler did, and which part of it the charts show.
fn summary(run: &Run) -> String {
    let kept = if run.timeline.truncated {
        format!(" The charts show the first {} requests.", run.timeline.points.len())
    } else {
        String::new()
    };
    format!("<p>{}{kept}</p>", escape(&why(run)))
}

/// Completed requests: time in seconds, position in 10^9 bytes.
type Marks = Vec<(f64, f64)>;

fn mark(point: &Point) -> (f64, f64) {
    (point.to_ns as f64 / 1e9, (point.sector * 512) as f64 / 1e9)
}

/// The marks of each process, reads and writes. `names` are those of tasks.
fn marks(timeline: &Timeline, names: &BTreeMap<u32, String>) -> BTreeMap<String, [Marks; 2]> {
    let unnamed = |task| if task == 0 { "unknown".to_owned() } else { format!("task {task}") };
    let mut marks: BTreeMap<String, [Marks; 2]> = BTreeMap::new();
    for point in &timeline.points {
        let name = names.get(&point.task).cloned().unwrap_or_else(|| unnamed(point.task));
        marks.entry(name).or_default()[usize::from(point.write)].push(mark(point));
    }
    marks
}

/// Position of the head over time: the busiest processes in colours of their own, the same in every scheduler's chart, and all
/// others together; of the requests of each process one in `step`.
fn head(timeline: &Timeline, names: &BTreeMap<u32, String>, step: usize) -> Chart {
    let mut chart = Chart::new("time, s", "position, 10^9 bytes", 460);
    let waits = timeline.waits.iter().map(|wait| (wait.from_ns as f64 / 1e9, wait.to_ns as f64 / 1e9));
    chart.shade(waits.collect());
    let mut marks: Vec<(String, [Marks; 2])> = marks(timeline, names).into_iter().collect();
    marks.sort_by_key(|(_, [reads, writes])| Reverse(reads.len() + writes.len()));
    let others = marks.split_off(marks.len().min(NAMES));
    marks.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut known: Vec<&String> = names.values().collect();
    known.sort_unstable();
    known.dedup();
    let mut draw = |name: &str, colour: &str, [reads, writes]: [Marks; 2]| {
        let writes = (format!("{name} (writes)"), Mark::Dashes, writes);
        for (name, kind, points) in [(name.to_owned(), Mark::Dots, reads), writes] {
            if !points.is_empty() {
                chart.add(&name, colour.to_owned(), kind, points.into_iter().step_by(step).collect());
            }
        }
    };
    for (name, marks) in marks {
        let index = known.binary_search(&&name).unwrap_or_else(|index| known.len() + index);
        draw(&name, &colour(index), marks);
    }
    let count = others.len();
    let together = others.into_iter().fold(<[Marks; 2]>::default(), |mut all, (_, marks)| {
        all.iter_mut().zip(marks).for_each(|(all, marks)| all.extend(marks));
        all
    });
    draw(&format!("{count} others"), OTHERS, together);
    chart
}

/// Parts of the time in the charts below the head's.
const BINS: usize = 200;

/// The requests that completed in one part of the time.
#[derive(Clone, Default)]
struct Bin {
    bytes: u64,
    seeks: u32,
    /// Sum of the times in the drive: divided by the length of the bin, the mean number of commands in the drive.
    busy_ns: u64,
    latencies_ns: Vec<u64>,
}

/// A line over time: its name, and its value in a bin.
type Line<'a> = (&'a str, &'a dyn Fn(&Bin) -> Option<f64>);

/// Throughput, commands in the drive, latency percentiles and seeks over time.
fn over_time(timeline: &Timeline) -> [Chart; 4] {
    let end_ns = timeline.points.iter().map(|point| point.to_ns).max().unwrap_or(0).max(1);
    let width_ns = end_ns.div_ceil(BINS as u64);
    let mut bins = vec![Bin::default(); BINS];
    let mut next = None;
    for point in &timeline.points {
        let bin = &mut bins[((point.to_ns / width_ns) as usize).min(BINS - 1)];
        bin.bytes += u64::from(point.sectors) * 512;
        bin.seeks += u32::from(next.is_some_and(|next| next != point.sector));
        bin.busy_ns += point.to_ns - point.from_ns;
        bin.latencies_ns.push(point.to_ns - point.arrived_ns);
        next = Some(point.sector + u64::from(point.sectors));
    }
    bins.iter_mut().for_each(|bin| bin.latencies_ns.sort_unstable());
    let seconds = width_ns as f64 / 1e9;
    let percentile = |bin: &Bin, percent: usize| {
        let last = bin.latencies_ns.len().checked_sub(1)?;
        Some(bin.latencies_ns[last * percent / 100] as f64 / 1e6)
    };
    let chart = |unit: &str, lines: &[Line<'_>]| {
        let mut chart = Chart::new("time, s", unit, 170);
        for (n, (name, value)) in lines.iter().enumerate() {
            let points = bins.iter().enumerate();
            let points = points.filter_map(|(n, bin)| Some((n as f64 * seconds, value(bin)?))).collect();
            chart.add(name, colour(n), Mark::Line, points);
        }
        chart
    };
    [
        chart("MB/s", &[("throughput", &|bin| Some(bin.bytes as f64 / 1e6 / seconds))]),
        chart("commands", &[("commands in the drive", &|bin| Some(bin.busy_ns as f64 / width_ns as f64))]),
        chart(
            "ms",
            &[
                ("median latency", &|bin| percentile(bin, 50)),
                ("99th percentile", &|bin| percentile(bin, 99)),
            ],
        ),
        chart("seeks/s", &[("seeks", &|bin| Some(f64::from(bin.seeks) / seconds))]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One request of each of `tasks` tasks. Tasks with an even number belong to one process.
    fn drawn(tasks: u32, step: usize) -> Vec<(String, usize)> {
        let point =
            |task| Point { arrived_ns: 0, from_ns: 0, to_ns: 1, sector: 8, sectors: 8, write: false, task };
        let points = (1..=tasks).map(point).collect();
        let name = |task: u32| if task.is_multiple_of(2) { "make".to_owned() } else { format!("cc-{task}") };
        let names = (1..=tasks).map(|task| (task, name(task))).collect();
        let chart = head(&Timeline { points, ..Timeline::default() }, &names, step);
        chart.contents().into_iter().map(|(name, points)| (name.to_owned(), points)).collect()
    }

    /// Regression: a curve began with a slope from the fastest request to the next latency, between which there are none.
    #[test]
    fn a_distribution_stays_between_latencies_that_are_apart() {
        let points = steps(&[(110_000, 0.0002), (520_000, 0.47), (521_000, 0.5)]);
        let expected = [(0.11, 0.0), (0.11, 0.02), (0.52, 0.02), (0.52, 47.0), (0.521, 50.0)];
        assert_eq!(points.len(), expected.len(), "{points:?}");
        for (point, expected) in points.iter().zip(expected) {
            assert!((point.0 - expected.0).abs() < 1e-9 && (point.1 - expected.1).abs() < 1e-9, "{points:?}");
        }
    }

    /// Regression: as many reads as writes of a size were one line, in the colour of the writes.
    #[test]
    fn reads_and_writes_of_one_size_are_apart() {
        let sizes_of = |reads: u64, writes: u64| {
            let of = |count: u64| (count > 0).then_some((8, count)).into_iter().collect();
            let svg = sizes(&Timeline { sizes: [of(reads), of(writes)], ..Timeline::default() }).svg();
            let paths = svg.split("class=\"series\"").skip(1);
            let path = |text: &str| {
                text.split("d=\"").nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned)
            };
            paths.filter_map(path).collect::<Vec<_>>()
        };
        let both = sizes_of(3000, 3000);
        assert!(both.len() == 2 && both[0] != both[1], "{both:?}");
        assert_eq!(sizes_of(3000, 0).len(), 1);
    }

    #[test]
    fn the_chart_of_many_processes_names_the_busiest() {
        let few = drawn(7, 1);
        assert_eq!(few.len(), 5, "{few:?}");
        assert!(few.contains(&("make".to_owned(), 3)), "{few:?}");
        let many = drawn(2000, 1);
        assert_eq!(many.len(), NAMES + 1);
        assert!(many.contains(&("make".to_owned(), 1000)));
        assert_eq!(many.last(), Some(&("969 others".to_owned(), 1000 + 1 - NAMES)));
        let fewer = drawn(2000, 2);
        assert!(
            fewer.len() == NAMES + 1 && fewer.contains(&("make".to_owned(), 500)),
            "each process has marks"
        );
    }

    #[test]
    fn charts_over_time_cover_all_requests() {
        let point = |n: u64| Point {
            arrived_ns: n * 1_000_000,
            from_ns: n * 1_000_000 + 500_000,
            to_ns: (n + 1) * 1_000_000,
            sector: n * 8 + n / 100,
            sectors: 8,
            write: false,
            task: 1,
        };
        let timeline = Timeline { points: (0..1000).map(point).collect(), ..Timeline::default() };
        let charts = over_time(&timeline);
        assert!(charts.iter().all(|chart| chart.contents().iter().all(|(_, points)| *points == BINS)));
    }
}
