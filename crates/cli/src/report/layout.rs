//! Tables as text: aligned columns without vertical lines, so that many columns fit a terminal.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use evaluation::report::format::printable;

use super::columns::on_one_line;

/// The width of a table that goes to a file or a pipe.
pub(crate) const DEFAULT_WIDTH: usize = 80;

/// Spaces between two columns.
const GAP: usize = 2;

/// Of a longer path at least this much is shown.
const PATH_MIN: usize = 16;

/// Longer names take a line of their own.
const NAME_MAX: usize = 30;

/// How tables are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// Text of at most `width` columns (`None`: as wide as needed), with colours or without.
    Text {
        /// The maximum.
        width: Option<usize>,
        /// Whether to print colours.
        colour: bool,
    },
    /// Markdown.
    Markdown,
}

/// The colour of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Tone {
    /// None.
    #[default]
    Plain,
    /// Green: the best.
    Best,
    /// Red: a failure.
    Bad,
    /// Dim: not a result.
    Dim,
}

impl Tone {
    const fn escape(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Best => Some("\x1b[1;32m"),
            Self::Bad => Some("\x1b[31m"),
            Self::Dim => Some("\x1b[2m"),
        }
    }
}

/// Whether output to a stream is coloured: on a terminal, unless `NO_COLOR` is set or the terminal is `dumb`.
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A table: names in the first column, figures in the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    heads: Vec<String>,
    rows: Vec<(Tone, Vec<String>)>,
}

impl Table {
    /// A table with these headings. A line feed in a heading starts its second line.
    pub(crate) fn new(heads: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { heads: heads.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row. A cell is one line, whatever names it has.
    pub(crate) fn row(&mut self, tone: Tone, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.heads.len());
        self.rows.push((tone, cells.iter().map(|cell| printable(cell).into_owned()).collect()));
    }

    /// The width of a column.
    fn column(&self, index: usize) -> usize {
        let cells = self.rows.iter().map(|(_, cells)| cells[index].as_str());
        let widest = cells.chain(self.heads[index].lines()).map(chars).max().unwrap_or(0);
        if index == 0 { widest.min(NAME_MAX) } else { widest }
    }

    /// Removes columns from the right until the table fits. The last of `order` is removed first; columns that are not in it stay.
    pub(crate) fn fit(&mut self, width: Option<usize>, order: &[usize]) -> usize {
        let shown = self.fitting(width, order);
        let removed = self.heads.len() - shown.len();
        self.keep(&shown);
        removed
    }

    /// The columns that remain if the table is made to fit.
    pub(crate) fn fitting(&self, width: Option<usize>, order: &[usize]) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.heads.len()).collect();
        let total = |shown: &[usize]| {
            shown.iter().map(|&index| self.column(index) + GAP).sum::<usize>().saturating_sub(GAP)
        };
        let mut removable = order.to_vec();
        while width.is_some_and(|width| total(&shown) > width)
            && let Some(last) = removable.pop()
        {
            shown.retain(|&index| index != last);
        }
        shown
    }

    /// Shortens the paths of the last column at their beginnings until the table fits. Where little of them would remain, columns of `order` are
    /// removed first, the last one of it first.
    pub(crate) fn fit_paths(&mut self, width: Option<usize>, order: &[usize]) {
        let (Some(width), Some(paths)) = (width, self.heads.len().checked_sub(1)) else { return };
        let least = self.column(paths).min(PATH_MIN);
        let mut shown: Vec<usize> = (0..paths).collect();
        let before = |shown: &[usize]| shown.iter().map(|&index| self.column(index) + GAP).sum::<usize>();
        let mut removable = order.to_vec();
        while before(&shown) + least > width
            && let Some(last) = removable.pop()
        {
            shown.retain(|&index| index != last);
        }
        let room = width.saturating_sub(before(&shown)).max(chars(&self.heads[paths]));
        for (_, cells) in &mut self.rows {
            let excess = chars(&cells[paths]).saturating_sub(room);
            if excess > 0 {
                cells[paths] = std::iter::once('…').chain(cells[paths].chars().skip(excess + 1)).collect();
            }
        }
        shown.push(paths);
        self.keep(&shown);
    }

    /// Keeps these columns.
    pub(crate) fn keep(&mut self, columns: &[usize]) {
        let kept = |cells: &[String]| columns.iter().map(|&index| cells[index].clone()).collect();
        self.heads = kept(&self.heads);
        self.rows.iter_mut().for_each(|(_, cells)| *cells = kept(cells));
    }

    /// The table as text.
    pub(crate) fn print(&self, style: Style) -> String {
        match style {
            Style::Markdown => self.markdown(),
            Style::Text { colour, .. } => self.text(colour),
        }
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |", cells.join(" | "))
        };
        let heads: Vec<String> = self.heads.iter().map(|head| on_one_line(head)).collect();
        let rule =
            std::iter::once("---").chain(std::iter::repeat_n("---:", self.heads.len().saturating_sub(1)));
        let rule = format!("| {} |", rule.collect::<Vec<_>>().join(" | "));
        let rows = self.rows.iter().map(|(_, cells)| line(cells));
        [line(&heads), rule].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
    }

    fn text(&self, colour: bool) -> String {
        let widths: Vec<usize> = (0..self.heads.len()).map(|index| self.column(index)).collect();
        let mut lines = Vec::new();
        let tall = self.heads.iter().map(|head| head.lines().count()).max().unwrap_or(0);
        for line in 0..tall {
            // Headings stand on the lower line.
            let part = |head: &String| {
                let above = tall - head.lines().count();
                line.checked_sub(above).and_then(|line| head.lines().nth(line)).unwrap_or_default().to_owned()
            };
            let heads: Vec<String> = self.heads.iter().map(part).collect();
            lines.push(painted(aligned(&heads, &widths), Tone::Plain, colour));
        }
        let rule = widths.iter().map(|&width| "─".repeat(width)).collect::<Vec<_>>().join("  ");
        lines.push(painted(rule, Tone::Dim, colour));
        for (tone, cells) in &self.rows {
            let mut cells = cells.clone();
            if cells.first().is_some_and(|name| chars(name) > widths[0]) {
                lines.push(painted(std::mem::take(&mut cells[0]), *tone, colour));
            }
            lines.push(painted(aligned(&cells, &widths), *tone, colour));
        }
        lines.join("\n")
    }
}

fn painted(line: String, tone: Tone, colour: bool) -> String {
    match tone.escape().filter(|_| colour) {
        Some(escape) => format!("{escape}{line}\x1b[0m"),
        None => line,
    }
}

/// One line: the first cell on the left, the others on the right of their column.
fn aligned(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (index, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        let pad = " ".repeat(width.saturating_sub(chars(cell)));
        let (before, after) =
            if index == 0 { (cell.as_str(), pad.as_str()) } else { (pad.as_str(), cell.as_str()) };
        let gap = if index == 0 { "" } else { "  " };
        line += &[gap, before, after].concat();
    }
    line.trim_end().to_owned()
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// A table of texts, whose columns wrap at the width of the terminal, or at 80 columns in a file or a pipe.
pub(crate) fn table_of_texts(heads: &[&str]) -> comfy_table::Table {
    let mut table = wide_table_of_texts(heads);
    let columns = u16::try_from(text_width()).unwrap_or(u16::MAX);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic).set_width(columns);
    table
}

/// A table of texts as wide as its longest texts.
pub(crate) fn wide_table_of_texts(heads: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::UTF8_FULL_CONDENSED).set_header(heads);
    table
}

/// Style of text on standard output.
pub(crate) fn text_style() -> Style {
    let stdout = std::io::stdout();
    Style::Text { width: Some(text_width()), colour: is_coloured(&stdout) }
}

/// The width of text on standard output.
pub(crate) fn text_width() -> usize {
    width(std::io::stdout()).unwrap_or(DEFAULT_WIDTH)
}

/// Columns of the terminal; of a file or a pipe those of the environment (`COLUMNS`), as `ps` does, or `None`.
pub(crate) fn width(of: impl AsFd) -> Option<usize> {
    let of_terminal = rustix::termios::tcgetwinsize(of).ok().map(|size| usize::from(size.ws_col));
    let given = || std::env::var("COLUMNS").ok()?.parse().ok();
    of_terminal.or_else(given).filter(|&columns| columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["scheduler", "MB/s", "read\nmean", "write\nmean"]);
        for cells in [["noop", "1.00", "2.00 ms", ""], ["deadline|x", "20.0", "1.00 ms", "3.00 ms"]] {
            table.row(Tone::Plain, cells.map(str::to_owned).to_vec());
        }
        table
    }

    #[test]
    fn columns_are_aligned_and_headings_have_two_lines() {
        let text = "                  read    write\n\
                    scheduler   MB/s     mean     mean\n\
                    ──────────  ────  ───────  ───────\n\
                    noop        1.00  2.00 ms\n\
                    deadline|x  20.0  1.00 ms  3.00 ms";
        let printed = table().print(Style::Text { width: None, colour: false });
        let squeezed = |text: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(squeezed(&printed), squeezed(text));
        let widths: Vec<usize> = printed.lines().map(chars).collect();
        assert_eq!(widths, [34, 34, 34, 25, 34]);
    }

    #[test]
    fn the_least_important_columns_are_left_out_until_the_table_fits() {
        let mut narrow = table();
        assert_eq!(narrow.fit(Some(30), &[1, 3, 2]), 1);
        let text = narrow.print(Style::Text { width: Some(30), colour: false });
        assert!(text.contains("write") && !text.contains("read"), "{text}");
        assert!(text.lines().all(|line| chars(line) <= 30), "{text}");
        assert_eq!(table().fit(None, &[1, 3, 2]), 0);
    }

    #[test]
    fn paths_are_shortened_at_their_beginnings() {
        let printed = |width| {
            let mut table = Table::new(["name", "a", "b", "path"]);
            table.row(
                Tone::Plain,
                ["x", "1234567", "2", "/kubepods.slice/pod-1.slice"].map(str::to_owned).to_vec(),
            );
            table.fit_paths(width, &[2, 1]);
            table.print(Style::Text { width: None, colour: false }).lines().last().unwrap().to_owned()
        };
        assert_eq!(printed(None), "x     1234567  2  /kubepods.slice/pod-1.slice");
        assert_eq!(printed(Some(40)), "x     1234567  2  …ods.slice/pod-1.slice");
        assert_eq!(printed(Some(30)), "x     2  …ds.slice/pod-1.slice", "with a column less");
        for width in 8..50 {
            assert!(chars(&printed(Some(width))) <= width.max(20), "{width}");
        }
    }

    #[test]
    fn long_names_have_a_line_of_their_own() {
        let mut table = table();
        let long = "stream(deadline-2.6.32{fifo_batch=8}){stream_time_slice=50ms}";
        table.row(Tone::Best, vec![long.to_owned(), "3.00".to_owned(), String::new(), String::new()]);
        let text = table.print(Style::Text { width: None, colour: true });
        let lines: Vec<&str> = text.lines().rev().take(2).collect();
        assert!(lines[1].contains(long) && lines[0].ends_with("3.00\x1b[0m"), "{text}");
    }

    #[test]
    fn names_with_control_characters_stay_on_their_line() {
        let mut table = table();
        let name = "new\nline\u{1b}[2J.gz".to_owned();
        table.row(Tone::Plain, vec![name, "3.00".to_owned(), String::new(), String::new()]);
        for style in [Style::Markdown, Style::Text { width: None, colour: false }] {
            let text = table.print(style);
            assert!(text.contains("new\\nline\\u{1b}[2J.gz"), "{text}");
            let rows: Vec<&str> = text.lines().filter(|line| line.contains("new")).collect();
            assert!(rows.len() == 1 && !text.contains('\u{1b}'), "{text}");
        }
    }

    #[test]
    fn markdown_has_one_line_for_each_row() {
        let text = table().print(Style::Markdown);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "| scheduler | MB/s | read mean | write mean |");
        assert_eq!(lines[1], "| --- | ---: | ---: | ---: |");
        assert_eq!(lines[3], "| deadline\\|x | 20.0 | 1.00 ms | 3.00 ms |");
    }
}
