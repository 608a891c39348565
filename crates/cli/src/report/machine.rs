//! Results of a machine with a kernel: each process's system calls, and the kernel over time.

use super::columns::Value;
use super::html_table::{exact, more};
use super::layout::{Style, Table, Tone};
use super::table::{fitted, titled};
use evaluation::report::chart::{Chart, Mark, colour};
use evaluation::report::format::escape;
use evaluation::report::format::time;
use evaluation::report::page::Page;
use evaluation::run_setup::{Moment, Outcome};
use evaluation::runs::Run;

/// Headings, and their names in CSV.
const HEADS: [(&str, &str); 9] = [
    ("process", "process"),
    ("from", "from_ns"),
    ("time", "elapsed_ns"),
    ("read", "read_bytes"),
    ("written", "written_bytes"),
    ("read\ncalls", "read_calls"),
    ("worst\nread", "read_max_ns"),
    ("worst\nwrite", "write_max_ns"),
    ("worst\nfsync", "fsync_max_ns"),
];

fn rows(outcome: &Outcome) -> Vec<Vec<Value>> {
    let worst = |ns: u64| if ns == 0 { Value::Nothing } else { Value::Time(ns) };
    let row = |(name, seen): (&String, &workloads::programs::diary::Seen)| {
        vec![
            Value::Text(name.clone()),
            Value::Time(seen.from_ns),
            match seen.ended {
                0 => Value::Text("not finished".to_owned()),
                _ => Value::Time(seen.to_ns - seen.from_ns),
            },
            Value::Bytes(seen.read_bytes),
            Value::Bytes(seen.written_bytes),
            Value::Count(seen.reads),
            worst(seen.worst_read_ns),
            worst(seen.worst_write_ns),
            worst(seen.worst_sync_ns),
        ]
    };
    outcome.seen.iter().map(row).collect()
}

/// Each process's results, one table for each run with an outcome. All tables have the same columns.
pub(crate) fn processes(runs: &[&Run], style: Style) -> Vec<String> {
    let width = if let Style::Text { width, .. } = style { width } else { None };
    let of = |run: &&Run| {
        let mut table = Table::new(HEADS.map(|(head, _)| head));
        for row in rows(run.outcome.as_ref()?) {
            table.row(Tone::Plain, row.iter().map(Value::text).collect());
        }
        Some(table)
    };
    let mut tables: Vec<Option<Table>> = runs.iter().map(of).collect();
    let fitting = |table: &Table| table.fitting(width, &[2, 3, 4, 6, 8, 7, 5, 1]);
    let fewest = tables.iter().flatten().map(fitting).min_by_key(Vec::len).unwrap_or_default();
    tables.iter_mut().flatten().for_each(|table| table.keep(&fewest));
    let text = |(run, table): (&&Run, Option<Table>)| {
        let Some((table, outcome)) = table.zip(run.outcome.as_ref()) else { return String::new() };
        let transactions = transactions(outcome).map(|line| format!("\n{}", fitted(&line, width)));
        let transactions: String = transactions.collect();
        titled(&run.scheduler, &format!("{}{transactions}", table.print(style)), style)
    };
    runs.iter().zip(tables).map(text).collect()
}

/// Transaction latency, one line for each process with transactions.
fn transactions(outcome: &Outcome) -> impl Iterator<Item = String> {
    outcome.transactions.iter().map(|(name, all)| {
        format!(
            "{name}: {} transactions, median {}, 99% {}, 99.9% {}, longest {}",
            all.count,
            time(all.p50_ns),
            time(all.p99_ns),
            time(all.p999_ns),
            time(all.max_ns)
        )
    })
}

/// Adds the same of at most `most` processes, and the kernel over time, to the report.
pub(super) fn sections(page: &mut Page, outcome: &Outcome, most: usize) {
    page.write(format_args!("<h4>Processes</h4>"));
    exact(page, &HEADS, rows(outcome).into_iter().take(most));
    more(page, outcome.seen.len().saturating_sub(most));
    transactions(outcome).take(most).for_each(|line| page.write(format_args!("<p>{}</p>", escape(&line))));
    more(page, outcome.transactions.len().saturating_sub(most));
    page.write(format_args!("<h4>The machine over time</h4>"));
    if let Some(failure) = &outcome.failure {
        page.write(format_args!("<p>{}</p>", escape(failure)));
    }
    page.chart(&device(outcome));
    page.chart(&kernel(outcome));
}

/// The device's throughput, as `vmstat` prints it (bi and bo).
fn device(outcome: &Outcome) -> Chart {
    let vmstat = &outcome.vmstat;
    let mut chart = Chart::new("time, s", "device, MB/s", 260);
    for (n, (name, bins)) in [("read", &vmstat.read), ("written", &vmstat.written)].into_iter().enumerate() {
        let step = bins.len().div_ceil(600).max(5);
        let width = vmstat.bin_ns as f64 / 1e9 * step as f64;
        let rates = bins.chunks(step).map(|chunk| chunk.iter().sum::<u64>() as f64 / 1e6 / width);
        let points = rates.enumerate().map(|(n, rate)| (n as f64 * width, rate)).collect();
        chart.add(name, colour(n), Mark::Line, points);
    }
    chart
}

/// A line of the kernel's chart: its name, and its value at a moment.
type Line = (&'static str, fn(&Moment) -> f64);

const PAGE_MB: f64 = 4096.0 / 1e6;

/// Dirty memory, read-ahead, transactions and throttled writers.
fn kernel(outcome: &Outcome) -> Chart {
    let lines: [Line; 6] = [
        ("dirty, MB", |at| at.dirty_pages as f64 * PAGE_MB),
        ("in writeback, MB", |at| at.writeback_pages as f64 * PAGE_MB),
        ("throttled writers", |at| at.throttled as f64),
        ("read-ahead hits, MB/s", |at| at.read_ahead_hits as f64 * PAGE_MB),
        ("misses, MB/s", |at| at.misses as f64 * PAGE_MB),
        ("transactions committed", |at| at.commits as f64),
    ];
    let mut chart = Chart::new("time, s", "kernel", 260);
    for (n, (name, value)) in lines.into_iter().enumerate() {
        let points = outcome.kernel.iter().map(|moment| (moment.at_ns as f64 / 1e9, value(moment))).collect();
        chart.add(name, colour(n), Mark::Line, points);
    }
    chart
}

#[cfg(test)]
mod tests {
    use workloads::programs::diary::Seen;

    use super::super::why::tests::run;
    use super::*;

    /// Regression: the tables of 300 processes under 19 schedulers made a report larger than 2 MB.
    #[test]
    fn the_report_has_a_bounded_number_of_processes() {
        let name = |n: u32| format!("job.{n:03}");
        let outcome = Outcome {
            seen: (0..300).map(|n| (name(n), Seen::default())).collect(),
            transactions: (0..300).map(|n| (name(n), Default::default())).collect(),
            ..Outcome::default()
        };
        let page = |most| {
            let mut page = Page::new("");
            sections(&mut page, &outcome, most);
            page.end("")
        };
        let bounded = page(63);
        assert_eq!(bounded.matches("<td>job.").count(), 63);
        assert_eq!(bounded.matches("<p>job.").count(), 63);
        assert_eq!(bounded.matches("and 237 more").count(), 2);
        assert!(!page(300).contains(" more<"));
    }

    /// Regression: a column was missing only under the scheduler with the longest figures.
    #[test]
    fn tables_of_all_schedulers_have_the_same_columns() {
        let with = |name: &str, ns: u64| {
            let seen =
                Seen { from_ns: ns, to_ns: 2 * ns, ended: 1, reads: ns, read_bytes: ns, ..Seen::default() };
            let outcome = Outcome { seen: [("reader".to_owned(), seen)].into(), ..Outcome::default() };
            Run { outcome: Some(outcome), ..run(name, ns, 1) }
        };
        let runs = [with("noop", 7), with("bfq", 123_456_789_012)];
        let heads = |run: &Run, text: &str| {
            let line = text.lines().find(|line| line.contains("process")).unwrap_or_default();
            (run.scheduler.clone(), line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let both: Vec<&Run> = runs.iter().collect();
        let style = |width| Style::Text { width: Some(width), colour: false };
        let heads = |width| {
            let texts = processes(&both, style(width));
            runs.iter().zip(&texts).map(|(run, text)| heads(run, text).1).collect::<Vec<_>>()
        };
        assert!(heads(200)[0].contains(&"from".to_owned()));
        for width in 40..90 {
            let found = heads(width);
            assert_eq!(found[0], found[1], "{width} columns");
        }
    }
}
