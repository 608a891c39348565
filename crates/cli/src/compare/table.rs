//! The results for people, as a table.

use comfy_table::{CellAlignment, Table, presets};

use super::columns;
use super::run::Run;
use super::why::contrast;
use crate::format::{bytes, percent, time};

/// The table of all runs, best first, the physical limit at the top; below it, why the first and the last are where they are.
pub(crate) fn results(runs: &[&Run]) -> String {
    let table = std::iter::once(table(runs));
    table.chain(contrast(runs)).collect::<Vec<_>>().join("\n")
}

fn table(runs: &[&Run]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(columns::HEADS);
    let best = columns::best(runs);
    table.add_rows(runs.first().and_then(|run| columns::limit(run, best)));
    table.add_rows(runs.iter().map(|run| columns::cells(run, best)));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
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
        "p50",
        "p99",
        "longest",
        "write mean",
        "p50",
        "p99",
        "longest",
    ]);
    let alone = run.limit.iter().flat_map(|limit| &limit.processes_ns).copied().chain(std::iter::repeat(0));
    for (process, alone) in run.measured.processes.iter().zip(alone).take(most) {
        let share = if process.elapsed_ns == 0 { 0.0 } else { alone as f64 / process.elapsed_ns as f64 };
        let mut cells = vec![
            process.name.clone(),
            bytes(process.bytes),
            time(process.elapsed_ns),
            percent(share),
            process.latency.count.to_string(),
        ];
        cells.extend(columns::latency(&process.reads));
        cells.extend(columns::latency(&process.writes));
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let left_out = run.measured.processes.len().saturating_sub(most);
    let note = if left_out > 0 { format!("\n(and {left_out} more)") } else { String::new() };
    format!("{}\n{table}{note}", run.scheduler)
}

/// What each member of an array did under one scheduler.
pub(crate) fn members(run: &Run) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "member",
        "requests",
        "bytes",
        "busy",
        "waited",
        "seeks",
        "head travel",
    ]);
    for (index, member) in run.measured.members.iter().enumerate() {
        table.add_row([
            index.to_string(),
            member.dispatched.to_string(),
            bytes(member.bytes),
            time(member.busy_ns),
            time(member.waits.total_ns),
            if run.has_head { member.seeks.to_string() } else { "-".to_owned() },
            run.travel(member.head_travel_sectors),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{}\n{table}", run.scheduler)
}
