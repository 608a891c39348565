//! The results for people, as a table.

use comfy_table::{CellAlignment, Table, presets};
use machine::{Latency, Limit};

use super::run::Run;
use crate::format::{bytes, number, percent, time};

/// The table of all runs, best first, the physical limit at the top.
pub(crate) fn table(runs: &[&Run]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "scheduler",
        "MB/s",
        "time",
        "read mean",
        "p50",
        "p99",
        "longest",
        "write mean",
        "p99",
        "longest",
        "head travel",
        "waited",
        "fairness",
        "of best",
        "of limit",
    ]);
    let best = runs.iter().map(|run| run.measured.megabytes_per_second()).fold(0.0, f64::max);
    if let Some(run) = runs.first() {
        table.add_row(limit_row(&run.limit, run, best));
    }
    for run in runs {
        table.add_row(row(run, best));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn limit_row(limit: &Limit, run: &Run, best: f64) -> Vec<String> {
    let rate =
        if limit.elapsed_ns == 0 { 0.0 } else { run.measured.bytes as f64 * 1e3 / limit.elapsed_ns as f64 };
    let share = if best > 0.0 { rate / best } else { 0.0 };
    let mut cells = vec!["physical limit".to_owned(), number(rate), time(limit.elapsed_ns)];
    cells.extend(std::iter::repeat_n(String::new(), 10));
    cells.extend([percent(share), percent(1.0)]);
    cells
}

fn row(run: &Run, best: f64) -> Vec<String> {
    let measured = &run.measured;
    let rate = measured.megabytes_per_second();
    let mut cells = vec![name(run), number(rate), time(measured.elapsed_ns)];
    let Latency { p50_ns, .. } = measured.reads;
    cells.extend(if measured.reads.count == 0 {
        vec![String::new(); 4]
    } else {
        vec![
            time(measured.reads.mean_ns),
            time(p50_ns),
            time(measured.reads.p99_ns),
            time(measured.reads.max_ns),
        ]
    });
    cells.extend(if measured.writes.count == 0 {
        vec![String::new(); 3]
    } else {
        vec![time(measured.writes.mean_ns), time(measured.writes.p99_ns), time(measured.writes.max_ns)]
    });
    cells.extend([
        bytes(measured.head_travel_sectors.saturating_mul(512)),
        time(measured.waits.total_ns),
        format!("{:.2}", run.fairness),
        percent(if best > 0.0 { rate / best } else { 0.0 }),
        percent(run.of_limit()),
    ]);
    cells
}

fn name(run: &Run) -> String {
    match (&run.failure, run.cut) {
        (Some(_), _) => format!("{} (failed)", run.scheduler),
        (None, true) => format!("{} (cut)", run.scheduler),
        (None, false) => run.scheduler.clone(),
    }
}

/// What each process saw under one scheduler.
pub(crate) fn processes(run: &Run, most: usize) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "process",
        "bytes",
        "time",
        "of its limit",
        "requests",
        "read mean",
        "p99",
        "longest",
        "write mean",
        "p99",
        "longest",
    ]);
    for (process, alone) in run.measured.processes.iter().zip(&run.limit.processes_ns).take(most) {
        let share = if process.elapsed_ns == 0 { 0.0 } else { *alone as f64 / process.elapsed_ns as f64 };
        let mut cells = vec![
            process.name.clone(),
            bytes(process.bytes),
            time(process.elapsed_ns),
            percent(share),
            process.latency.count.to_string(),
        ];
        for latency in [&process.reads, &process.writes] {
            cells.extend(if latency.count == 0 {
                vec![String::new(); 3]
            } else {
                vec![time(latency.mean_ns), time(latency.p99_ns), time(latency.max_ns)]
            });
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let left_out = run.measured.processes.len().saturating_sub(most);
    let note = if left_out > 0 { format!("\n(and {left_out} more)") } else { String::new() };
    format!("{}\n{table}{note}", run.scheduler)
}
