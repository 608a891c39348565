//! Tables of the HTML report.

use evaluation::report::page::Page;

use super::columns::{self, Value};

/// Writes a table that is saved with all digits, below headings with their names in CSV.
pub(super) fn exact(page: &mut Page, heads: &[(&str, &str)], rows: impl IntoIterator<Item = Vec<Value>>) {
    let heads: Vec<(String, &str)> =
        heads.iter().map(|(head, csv)| (columns::on_one_line(head), *csv)).collect();
    let cells = |row: Vec<Value>| row.iter().map(|value| (value.text(), value.exact())).collect();
    page.exact_table(&heads, rows.into_iter().map(|row| ("", cells(row))));
}

/// Writes how many rows a table leaves out, if any.
pub(super) fn more(page: &mut Page, left_out: usize) {
    if left_out > 0 {
        page.note(&format!("and {left_out} more"));
    }
}
