//! The tables of a device: with at most [`ROWS`] rows each, unless all are wanted.

use std::collections::BTreeSet;

use evaluation::report::format::{bytes, number, time};

use super::{Cause, Delegation, Snapshot, Submitter};
use crate::report::{Style, Table, Tone};

/// Rows of each table, without --wide.
const ROWS: usize = 12;
/// Of these, rows that are kept for the greatest of each further measure.
const KEPT: usize = 3;

/// The rows of a table: of more than [`ROWS`], the first ones and the [`KEPT`] greatest by each measure, in their order; and the others.
fn divided<'a, T>(all: &[&'a T], limited: bool, measures: &[fn(&T) -> f64]) -> (Vec<&'a T>, Vec<&'a T>) {
    if !limited || all.len() <= ROWS {
        return (all.to_vec(), Vec::new());
    }
    let mut shown: BTreeSet<usize> = BTreeSet::new();
    for measure in measures {
        let mut order: Vec<usize> = (0..all.len()).filter(|&n| measure(all[n]) > 0.0).collect();
        order.sort_by(|&a, &b| measure(all[b]).total_cmp(&measure(all[a])));
        shown.extend(order.into_iter().take(KEPT));
    }
    let first = (0..all.len()).filter(|n| !shown.contains(n)).take(ROWS.saturating_sub(shown.len()));
    shown.extend(first.collect::<Vec<_>>());
    let (shown, others): (Vec<_>, Vec<_>) = all.iter().enumerate().partition(|(n, _)| shown.contains(n));
    let rows = |of: Vec<(usize, &&'a T)>| of.into_iter().map(|(_, row)| *row).collect();
    (rows(shown), rows(others))
}

/// The rows of a table with their identifiers. The last one is the sum of those that are left out, if there are any.
fn rows<T: Clone>(
    all: &[&T],
    limited: bool,
    measures: &[fn(&T) -> f64],
    id: impl Fn(&T) -> String,
    sum: fn(&[&T]) -> T,
) -> Vec<(T, String)> {
    let (shown, others) = divided(all, limited, measures);
    let mut rows: Vec<(T, String)> = shown.into_iter().map(|of| (of.clone(), id(of))).collect();
    if !others.is_empty() {
        rows.push((sum(&others), String::new()));
    }
    rows
}

fn others(count: usize) -> String {
    format!("and {count} others")
}

impl Submitter {
    /// Several as one row, with the mean latency of all their requests.
    fn sum(of: &[&Self]) -> Self {
        let total = |rate: fn(&Self) -> f64| of.iter().map(|of| rate(of)).sum::<f64>();
        let requests = total(Self::requests);
        let waited = total(|of| of.mean_ns as f64 * of.requests());
        Self {
            name: others(of.len()),
            reads_per_second: total(|of| of.reads_per_second),
            read_bytes_per_second: total(|of| of.read_bytes_per_second),
            writes_per_second: total(|of| of.writes_per_second),
            written_bytes_per_second: total(|of| of.written_bytes_per_second),
            flushes_per_second: total(|of| of.flushes_per_second),
            mean_ns: if requests > 0.0 { (waited / requests) as u64 } else { 0 },
            ..Self::default()
        }
    }
}

impl Cause {
    fn sum(of: &[&Self]) -> Self {
        let total = |rate: fn(&Self) -> f64| of.iter().map(|of| rate(of)).sum();
        Self {
            name: others(of.len()),
            dirtied_bytes_per_second: total(|of| of.dirtied_bytes_per_second),
            data_bytes_per_second: total(|of| of.data_bytes_per_second),
            metadata_bytes_per_second: total(|of| of.metadata_bytes_per_second),
            journal_bytes_per_second: total(|of| of.journal_bytes_per_second),
            ..Self::default()
        }
    }
}

/// The device in words and tables, which are at most `width` columns wide.
pub(super) fn text(snapshot: &Snapshot, width: Option<usize>) -> String {
    let Snapshot { device, stack, in_flight, depth, seeks_per_second, sequential, .. } = snapshot;
    let mut text = format!(
        "{device}: {stack}\n{in_flight} in flight, {} on average; {} seeks/s, {:.0}% sequential\n\n",
        number(*depth),
        number(*seeks_per_second),
        sequential * 100.0,
    );
    if snapshot.not_reported_per_second > 0.0 {
        text.pop();
        text += &format!(
            "{} requests/s have no process: the capture reports a part of a high rate. Rates of reads and writes are the kernel's counters\n\n",
            number(snapshot.not_reported_per_second)
        );
    }
    let rate = |value: f64| format!("{}/s", bytes(value as u64));
    let or_dash = |ns: u64| if ns == 0 { "-".to_owned() } else { time(ns) };
    let mut latencies = Table::new(["", "per s", "bytes", "p50", "p90", "p99", "max"]);
    let flushes = ("flush (fsync)", &snapshot.flushes);
    for (name, of) in [("read", &snapshot.reads), ("write", &snapshot.writes), flushes] {
        let quantiles = [of.p50_ns, of.p90_ns, of.p99_ns, of.max_ns].map(or_dash);
        let cells = [name.to_owned(), number(of.requests_per_second), rate(of.bytes_per_second)];
        latencies.row(Tone::Plain, cells.into_iter().chain(quantiles).collect());
    }
    let plain = Style::Text { width, colour: false };
    text += &latencies.print(plain);
    text += "\n\n";
    let id = |id: Option<u64>| id.map_or_else(|| "kernel".to_owned(), |id| id.to_string());
    let limited = width.is_some();
    let mut submitters = Table::new([
        "submitted by",
        "id",
        "reads\nper s",
        "read\nper s",
        "writes\nper s",
        "written\nper s",
        "flushes\nper s",
        "mean",
        "cgroup",
    ]);
    let all: Vec<&Submitter> = snapshot.submitters.iter().collect();
    let measures: [fn(&Submitter) -> f64; 2] = [|of| of.flushes_per_second, |of| of.mean_ns as f64];
    for (of, id) in rows(&all, limited, &measures, |of| id(of.id.map(u64::from)), Submitter::sum) {
        submitters.row(
            Tone::Plain,
            vec![
                of.name,
                id,
                number(of.reads_per_second),
                bytes(of.read_bytes_per_second as u64),
                number(of.writes_per_second),
                bytes(of.written_bytes_per_second as u64),
                number(of.flushes_per_second),
                or_dash(of.mean_ns),
                of.cgroup,
            ],
        );
    }
    // By default the latency goes before the flushes.
    submitters.fit_paths(width, &[6, 7]);
    text += &submitters.print(plain);
    text += "\n";
    if !snapshot.causes.is_empty() {
        let heads = ["caused by", "id", "dirtied", "data", "metadata", "journal", "cgroup"];
        let mut causes = Table::new(heads);
        let (known, unknown): (Vec<_>, Vec<_>) = snapshot.causes.iter().partition(|of| of.id.is_some());
        let measures: [fn(&Cause) -> f64; 2] =
            [|of| of.journal_bytes_per_second, |of| of.dirtied_bytes_per_second];
        for (of, id) in rows(&known, limited, &measures, |of| id(of.id), Cause::sum) {
            causes.row(
                Tone::Plain,
                vec![
                    of.name,
                    id,
                    rate(of.dirtied_bytes_per_second),
                    rate(of.data_bytes_per_second),
                    rate(of.metadata_bytes_per_second),
                    rate(of.journal_bytes_per_second),
                    of.cgroup,
                ],
            );
        }
        causes.fit_paths(width, &[]);
        let by: Vec<_> = unknown.iter().map(|of| of.name.as_str()).collect();
        let by = if by.is_empty() { String::new() } else { format!(", written by {}", by.join(", ")) };
        let unattributed = unknown.iter().map(|of| of.written()).sum();
        if !known.is_empty() {
            text += &format!("\n{}", causes.print(plain));
        }
        text += &format!("\n{} unattributed{by}\n", rate(unattributed));
    }
    for Delegation { submitter, bytes_per_second, causes } in &snapshot.delegated {
        let parts = causes.iter().take(5).map(|(name, share)| format!("{name} {:.0}%", share * 100.0));
        let parts = parts.collect::<Vec<_>>().join(", ");
        text += &format!("{submitter} wrote {} for others: {parts}\n", rate(*bytes_per_second));
    }
    if snapshot.missed > 0 {
        text += &format!("{} requests not reported since the start\n", snapshot.missed);
    }
    snapshot.notes.iter().for_each(|note| text += &format!("{note}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a program with many flushes and little data was missing, without a message.
    #[test]
    fn rows_that_are_left_out_are_summed_and_programs_that_wait_are_kept() {
        let reader = |n: u32| Submitter {
            name: format!("reader-{n}"),
            id: Some(n),
            reads_per_second: 10.0,
            read_bytes_per_second: 1e6,
            mean_ns: 100_000,
            ..Submitter::default()
        };
        let database = Submitter {
            name: "database".to_owned(),
            id: Some(900),
            writes_per_second: 200.0,
            written_bytes_per_second: 2000.0,
            flushes_per_second: 200.0,
            mean_ns: 50_000,
            ..Submitter::default()
        };
        let slow = Submitter { name: "slow".to_owned(), id: Some(901), mean_ns: 9_000_000, ..reader(0) };
        let slow = Submitter { read_bytes_per_second: 1.0, ..slow };
        let copy = |n: u64| Cause {
            name: format!("copy-{n}"),
            id: Some(n),
            data_bytes_per_second: 1e6,
            ..Cause::default()
        };
        let journal =
            Cause { name: "database".to_owned(), id: Some(900), journal_bytes_per_second: 9.0, ..copy(0) };
        let journal = Cause { data_bytes_per_second: 1.0, ..journal };
        let snapshot = Snapshot {
            submitters: (0..20).map(reader).chain([database, slow]).collect(),
            causes: (0..20).map(copy).chain([journal]).collect(),
            ..Snapshot::default()
        };
        let lines = |width| {
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            text(&snapshot, width).lines().map(words).collect::<Vec<_>>()
        };
        let (narrow, wide) = (lines(Some(100)), lines(None));
        let rows = |of: &[String], start: &str| of.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!((rows(&narrow, "database 900"), rows(&narrow, "slow 901")), (2, 1), "{narrow:?}");
        assert_eq!((rows(&narrow, "reader-"), rows(&narrow, "copy-")), (10, 11), "{narrow:?}");
        assert!(narrow.contains(&"and 10 others 100 10.0 MB 0.00 0 B 0.00 100 us".to_owned()), "{narrow:?}");
        assert!(narrow.contains(&"and 9 others 0 B/s 9.00 MB/s 0 B/s 0 B/s".to_owned()), "{narrow:?}");
        assert_eq!((rows(&wide, "reader-"), rows(&wide, "copy-"), rows(&wide, "and ")), (20, 20, 0));
    }
}
