//! The results for people, as a table.

use comfy_table::{CellAlignment, Table, presets};

use super::columns;
use super::run::Run;
use super::why::contrast;
use crate::format::{bytes, time};

/// The table of all runs, best first, the physical limit at the top; below it, why the first and the last are where they are.
pub(crate) fn results(runs: &[&Run]) -> String {
    let table = std::iter::once(table(runs));
    table.chain(contrast(runs)).collect::<Vec<_>>().join("\n")
}

fn table(runs: &[&Run]) -> String {
    let best = columns::best(runs);
    let limit = runs.first().and_then(|run| columns::limit(run, best));
    aligned(
        &columns::HEADS,
        limit.into_iter().chain(runs.iter().map(|run| columns::cells(run, best))).collect(),
    )
}

/// A table of which the first column are names and the others figures.
fn aligned(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(heads);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// What each process saw under one scheduler.
pub(crate) fn processes(run: &Run, most: usize) -> String {
    let (rows, left_out) = columns::processes(run, most);
    let table = aligned(&columns::PROCESS_HEADS, rows);
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
