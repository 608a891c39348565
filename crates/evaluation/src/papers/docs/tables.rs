//! The tables of the pages.
//!
//! | block | content |
//! |---|---|
//! | `counts` | verdicts on published values, by paper |
//! | `misses PAPER` | each published value that misses or exceeds |
//! | `paper PAPER/PREFIX` | each figure of the paper's experiments on their own drives: ours (published) per scheduler |
//! | `drives PAPER/PREFIX` | the same on other drives, which do not count |
//! | `suite NAME/PREFIX` | the rows of experiments in code |
//!
//! `/PREFIX` selects experiments by the start of their names and may be left out.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use crate::papers::verdict::{Tally, Verdict};
use crate::report::format::number;

/// The start of a block, before its name.
pub(super) const BEGIN: &str = "<!-- results ";
/// The end of a block.
pub(super) const END: &str = "<!-- end -->";

/// The page with its blocks made anew.
pub(super) fn page(text: &str, results: &Value) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let Some(name) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        if !lines.any(|line| line == END) {
            return Err(format!("the block '{name}' has no '{END}'"));
        }
        out.push('\n');
        out.push_str(&block(name, results)?);
        out.push('\n');
        out.push_str(END);
        out.push('\n');
    }
    Ok(out)
}

fn block(name: &str, results: &Value) -> Result<String, String> {
    let entries = results.as_array().map(Vec::as_slice).unwrap_or_default();
    let (kind, of) = name.split_once(' ').unwrap_or((name, ""));
    Ok(match kind {
        "counts" => counts(entries),
        "misses" => misses(entries, of),
        "paper" => paper(entries, of, false),
        "drives" => paper(entries, of, true),
        "suite" => suite(entries, of),
        _ => return Err(format!("no block is called '{name}'")),
    })
}

/// The entries whose `field` is the name before the slash, and whose experiment starts with what is behind it.
fn selected<'a>(entries: &'a [Value], field: &'a str, of: &'a str) -> impl Iterator<Item = &'a Value> {
    let (name, prefix) = of.split_once('/').unwrap_or((of, ""));
    entries
        .iter()
        .filter(move |entry| text(entry, field) == name && text(entry, "experiment").starts_with(prefix))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn rows(entry: &Value) -> impl Iterator<Item = &Value> {
    entry["rows"].as_array().into_iter().flatten()
}

fn verdict(row: &Value) -> Option<Verdict> {
    serde_json::from_value(row["verdict"].clone()).ok()
}

/// The paper of a row that counts.
fn paper_of(row: &Value) -> Option<&str> {
    row["counts_as"].as_str()?.split('/').next()
}

fn counts(entries: &[Value]) -> String {
    let mut verdicts: BTreeMap<&str, Vec<(&str, Verdict)>> = BTreeMap::new();
    let mut not_judged: BTreeMap<&str, usize> = BTreeMap::new();
    for row in entries.iter().flat_map(rows) {
        if let (Some(paper), Some(verdict)) = (paper_of(row), verdict(row)) {
            verdicts.entry(paper).or_default().push((text(row, "counts_as"), verdict));
        } else if row["published"].is_number() && row["verdict"].is_null() && row.get("on").is_none() {
            *not_judged.entry(text(row, "paper")).or_default() += 1;
        }
    }
    let mut out = String::from(
        "| paper | judged | hold | miss | exceed | tie | calibration | not judged |\n|---|---|---|---|---|---|---|---|\n",
    );
    let mut sums = [0; 7];
    let mut line = |name: &str, cells: [usize; 7]| {
        let cells = cells.map(|cell| cell.to_string()).join(" | ");
        let _ = writeln!(out, "| {name} | {cells} |");
    };
    for (paper, verdicts) in verdicts {
        let [a, b, c, d, e, f] = Tally::of(verdicts).cells();
        let cells = [a, b, c, d, e, f, not_judged.get(paper).copied().unwrap_or_default()];
        sums.iter_mut().zip(cells).for_each(|(sum, cell)| *sum += cell);
        line(paper, cells);
    }
    line("**all**", sums);
    out
}

fn misses(entries: &[Value], of: &str) -> String {
    let mut out = String::from(
        "| experiment | figure | scheduler | published | ours | verdict |\n|---|---|---|---|---|---|\n",
    );
    for entry in entries {
        for row in rows(entry).filter(|row| paper_of(row) == Some(of)) {
            let Some(verdict) = verdict(row).filter(|v| matches!(v, Verdict::Misses | Verdict::Exceeds))
            else {
                continue;
            };
            let word = if verdict == Verdict::Misses { "misses" } else { "exceeds" };
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {word} |",
                text(entry, "experiment"),
                text(row, "figure"),
                text(row, "scheduler"),
                published(row),
                value(row),
            );
        }
    }
    out
}

/// A published value with its unit, or the words of a suite.
fn published(row: &Value) -> String {
    match row["published"].as_f64() {
        Some(published) => format!("{} {}", number(published), text(row, "unit")),
        None => text(row, "published").to_owned(),
    }
}

fn value(row: &Value) -> String {
    let Some(ours) = row["ours"].as_f64() else { return String::from("–") };
    let more = if is_cut(row) { "more than " } else { "" };
    format!("{more}{} {}", number(ours), text(row, "unit")).trim_end().to_owned()
}

/// Whether the value is a time that was cut. Rates and shares of a run that was cut are what they are.
fn is_cut(row: &Value) -> bool {
    row["cut"] == true && text(row, "unit") == "s"
}

/// Ours and published, marked by the verdict.
fn cell(row: &Value) -> String {
    let Some(ours) = row["ours"].as_f64() else {
        return if row["published"].is_number() { "did not end".to_owned() } else { String::new() };
    };
    let more = if is_cut(row) { ">" } else { "" };
    let ours = match verdict(row) {
        Some(Verdict::Misses) => format!("**{more}{}**", number(ours)),
        Some(Verdict::Exceeds) => format!("*{more}{}*", number(ours)),
        _ => format!("{more}{}", number(ours)),
    };
    let mark = match verdict(row) {
        Some(Verdict::Tie) => " =",
        Some(Verdict::Calibration) => " c",
        _ => "",
    };
    match row["published"].as_f64() {
        Some(published) => format!("{ours} ({}){mark}", number(published)),
        None => format!("{ours}{mark}"),
    }
}

/// A line per experiment and figure, a column per scheduler; what runs in few experiments shares the last column.
fn paper(entries: &[Value], of: &str, other_drives: bool) -> String {
    let own: Vec<&Value> =
        selected(entries, "paper", of).filter(|entry| text(entry, "on").is_empty() != other_drives).collect();
    let mut uses: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for entry in &own {
        for word in distinct(entry, "scheduler") {
            let (experiments, published) = uses.entry(word).or_default();
            *experiments += 1;
            *published |=
                rows(entry).any(|row| text(row, "scheduler") == word && row["published"].is_number());
        }
    }
    let often = own.len().min(3);
    let (columns, others): (Vec<_>, Vec<_>) =
        uses.into_iter().partition(|(_, (experiments, published))| *published || *experiments >= often);
    let columns: Vec<&str> = columns.into_iter().map(|(word, _)| word).collect();
    let last = if others.is_empty() { "" } else { " others |" };
    let mut out = format!("| experiment | figure | {} |{last}\n|---|---", columns.join(" | "));
    out.push_str(&"|---".repeat(columns.len() + usize::from(!others.is_empty())));
    out.push_str("|\n");
    for entry in own {
        for figure in distinct(entry, "figure") {
            let of = |word: &str| {
                rows(entry).find(|row| text(row, "figure") == figure && text(row, "scheduler") == word)
            };
            let unit = rows(entry).find(|row| text(row, "figure") == figure);
            let unit = match unit.map_or("", |row| text(row, "unit")) {
                "" | "x" => String::new(),
                unit => format!(", {unit}"),
            };
            let cells = columns.iter().map(|word| of(word).map(cell).unwrap_or_default());
            let mut cells: Vec<String> = cells.collect();
            if !others.is_empty() {
                let other =
                    others.iter().filter_map(|(word, _)| Some(format!("{word}: {}", cell(of(word)?))));
                cells.push(other.collect::<Vec<_>>().join("; "));
            }
            let (name, figure) = (title(entry), figure.replace('_', " "));
            let _ = writeln!(out, "| {name} | {figure}{unit} | {} |", cells.join(" | "));
        }
    }
    out
}

/// The values of a field of the rows, in the order of the rows.
fn distinct<'a>(entry: &'a Value, field: &str) -> Vec<&'a str> {
    let mut all = Vec::new();
    for row in rows(entry) {
        if !all.contains(&text(row, field)) {
            all.push(text(row, field));
        }
    }
    all
}

/// The experiment, the drive if it is not the script's, and the scale if it is not the paper's.
fn title(entry: &Value) -> String {
    let mut title = text(entry, "experiment").to_owned();
    if let Some(on) = entry["on"].as_str() {
        let _ = write!(title, ", {on}");
    }
    if let Some(scale) = entry["scale"].as_f64().filter(|scale| *scale < 1.0) {
        let _ = write!(title, ", scale {scale}");
    }
    title
}

fn suite(entries: &[Value], of: &str) -> String {
    let mut out = String::from("| experiment | figure | published | ours | holds |\n|---|---|---|---|---|\n");
    for row in selected(entries, "suite", of).flat_map(rows) {
        let holds = match (verdict(row), row["holds"].as_bool()) {
            (Some(verdict), _) => verdict.cell(),
            (None, Some(true)) => "yes",
            (None, Some(false)) => "**no**",
            (None, None) => "",
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {holds} |",
            text(row, "experiment"),
            text(row, "figure"),
            text(row, "published"),
            value(row),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn results() -> Value {
        let row = |scheduler: &str, ours: f64, verdict: &str| {
            json!({ "paper": "p", "experiment": "e", "scheduler": scheduler, "figure": "time", "unit": "s",
                "published": 3.0, "ours": ours, "verdict": verdict, "counts_as": format!("p/{scheduler}") })
        };
        let rows = vec![row("a", 2.0, "holds"), row("b", 9.0, "misses"), row("c", 3.0, "tie")];
        json!([{ "paper": "p", "experiment": "e", "scale": 1.0, "rows": rows }])
    }

    #[test]
    fn blocks_are_replaced_and_the_rest_stays() {
        let text = "# Head\n\n<!-- results paper p -->\nold\n<!-- end -->\nfoot\n";
        let page = page(text, &results()).expect("a page");
        assert!(page.starts_with("# Head\n\n<!-- results paper p -->\n\n| experiment"), "{page}");
        assert!(page.contains("| e | time, s | 2.00 (3.00) | **9.00** (3.00) | 3.00 (3.00) = |"), "{page}");
        assert!(page.ends_with("\n\n<!-- end -->\nfoot\n") && !page.contains("old"), "{page}");
        assert_eq!(super::page(&page, &results()).expect("a page"), page);
    }

    #[test]
    fn counts_leave_ties_out() {
        assert!(counts(results().as_array().expect("entries")).contains("| p | 2 | 1 | 1 | 0 | 1 | 0 | 0 |"));
    }

    #[test]
    fn a_block_without_an_end_or_with_another_name_is_an_error() {
        assert!(page("<!-- results counts -->\n", &results()).is_err());
        assert!(page("<!-- results other -->\n<!-- end -->\n", &results()).is_err());
    }
}
