//! The results as tables.

use comfy_table::{CellAlignment, Table, presets};

use super::columns;
use super::why::contrast;
use evaluation::report::format::{bytes, time};
use evaluation::runs::Run;

/// The table of all runs, best first, with the physical limit at the top, and an explanation of the first and last rows.
/// `width` is that of the terminal.
pub(crate) fn results(runs: &[&Run], width: Option<usize>) -> String {
    let best = columns::best(runs);
    let limit = runs.first().and_then(|run| columns::limit(run, best));
    let rows: Vec<Vec<String>> =
        limit.into_iter().chain(runs.iter().map(|run| columns::cells(run, best))).collect();
    let tables = fitting(&columns::HEADS, &rows, &columns::PARTS, width);
    tables.into_iter().chain(contrast(runs)).collect::<Vec<_>>().join("\n")
}

/// The results of each process under one scheduler.
pub(crate) fn processes(run: &Run, most: usize, width: Option<usize>) -> String {
    let (rows, left_out) = columns::processes(run, most);
    let tables = fitting(&columns::PROCESS_HEADS, &rows, &columns::PROCESS_PARTS, width);
    let note = if left_out > 0 { format!("\n(and {left_out} more)") } else { String::new() };
    format!("{}\n{}{note}", run.scheduler, tables.join("\n"))
}

/// One table if it fits `width`, else one table per part with the rows that have a value in it.
fn fitting(heads: &[&str], rows: &[Vec<String>], parts: &[&[usize]], width: Option<usize>) -> Vec<String> {
    let whole = aligned(heads, rows.to_vec());
    let wide = whole.lines().next().map_or(0, |line| line.chars().count());
    if width.is_none_or(|width| wide <= width) {
        return vec![whole];
    }
    let of = |part: &&[usize]| {
        let heads: Vec<&str> = part.iter().map(|&at| heads[at]).collect();
        let told = rows.iter().filter(|row| part[1..].iter().any(|&at| !row[at].is_empty()));
        let cells: Vec<Vec<String>> =
            told.map(|row| part.iter().map(|&at| row[at].clone()).collect()).collect();
        (!cells.is_empty()).then(|| aligned(&heads, cells) + "\n")
    };
    parts.iter().filter_map(of).collect()
}

/// A table of names in the first column and numbers in the others.
pub(crate) fn aligned(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(heads);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_the_terminal() {
        let heads = ["scheduler", "MB/s", "read mean", "write mean"];
        let rows =
            [["limit", "3.00", "", ""], ["noop", "1.00", "2.00 ms", ""], ["deadline", "2.00", "1.00 ms", ""]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let tables = |width| fitting(&heads, &rows, &[&[0, 1], &[0, 2], &[0, 3]], width);
        let whole = tables(None);
        assert_eq!(whole.len(), 1);
        let wide = whole[0].lines().next().map_or(0, |line| line.chars().count());
        assert_eq!(tables(Some(wide)), whole);
        let parts: [String; 2] = tables(Some(wide - 1)).try_into().expect("nothing was written");
        for (part, figure) in parts.iter().zip(["1.00 ", "2.00 ms"]) {
            assert!(part.contains("noop") && part.contains(figure), "{part}");
            assert!(part.lines().all(|line| line.chars().count() < wide), "{part}");
        }
        assert_eq!(
            parts.map(|part| part.contains("limit")),
            [true, false],
            "the limit has no value for reads"
        );
    }
}
