//! The results as tables.

use super::columns::{self, COLUMNS, Value};
use super::layout::{Style, Table, Tone, text_style};
use super::ranking::{Ranking, SortKey};
use super::why::explanations;
use evaluation::report::format::{bytes, printable, time};
use evaluation::runs::Run;

/// The table of all runs, best first, with the physical limit at the top, the meaning of its columns, and why each scheduler has its result.
pub(crate) fn results(ranking: &Ranking<'_>, style: Style) -> String {
    let lines = columns::lines(ranking);
    let cell = |index: usize, at: usize| (COLUMNS[index].of)(&lines[at]);
    let has_value = |index: usize| (0..lines.len()).any(|at| cell(index, at) != Value::Nothing);
    let of_programs = ranking.rows.iter().any(|ranked| ranked.run.outcome.is_some());
    // `compare` has no programs, and its processes are the work.
    let shown = |index: &usize| {
        *index == 0 || has_value(*index) && (COLUMNS[*index].csv != "work_per_s" || of_programs)
    };
    let shown: Vec<usize> = (0..COLUMNS.len()).filter(shown).collect();
    let mut table = Table::new(shown.iter().map(|&index| COLUMNS[index].head));
    for (at, line) in lines.iter().enumerate() {
        let cells = shown.iter().map(|&index| cell(index, at).text()).collect();
        table.row(tone(line, ranking), cells);
    }
    let mut order: Vec<usize> = (1..shown.len()).collect();
    order.sort_by_key(|&at| importance(shown[at], ranking.key));
    let width = match style {
        Style::Text { width, .. } => width,
        Style::Markdown => None,
    };
    let removed = table.fit(width, &order);
    let left_out: Vec<usize> = order.iter().rev().take(removed).map(|&at| shown[at]).collect();
    let kept: Vec<usize> = shown.into_iter().filter(|index| !left_out.contains(index)).collect();
    let mut parts = vec![table.print(style), String::new()];
    parts.extend(legend(&kept, removed, ranking, width));
    let why = explanations(ranking);
    if !why.is_empty() {
        parts.extend([String::new(), "Why:".to_owned()]);
    }
    parts.extend(why.iter().flat_map(|line| item(line, style)));
    parts.join("\n")
}

/// An item of a list, of which all lines but the first are indented.
fn item(text: &str, style: Style) -> Vec<String> {
    match style {
        Style::Markdown => vec![format!("- {text}")],
        Style::Text { width, .. } => {
            let lines = wrapped(text, width.map(|width| width.saturating_sub(4)));
            let indented = |(index, line): (usize, String)| match index {
                0 => format!("  {line}"),
                _ => format!("    {line}"),
            };
            lines.into_iter().enumerate().map(indented).collect()
        }
    }
}

/// The last columns to leave out are those that the ranking is by.
fn importance(index: usize, key: SortKey) -> u8 {
    let sorted_by = match key {
        SortKey::Rate => "mb_per_s",
        SortKey::Time => "elapsed_ns",
        SortKey::Work => "work_per_s",
        SortKey::Mean => "mean_ns",
        SortKey::MeanRead => "read_mean_ns",
        SortKey::P99Read => "read_p99_ns",
        SortKey::MeanWrite => "write_mean_ns",
        SortKey::P99Write => "write_p99_ns",
        SortKey::Fsync => "fsync_p99_ns",
    };
    let column = &COLUMNS[index];
    if column.csv == sorted_by { 0 } else { column.order }
}

fn tone(line: &columns::Line<'_>, ranking: &Ranking<'_>) -> Tone {
    match line.ranked() {
        None => Tone::Dim,
        Some(ranked) if ranked.run.failure.is_some() => Tone::Bad,
        Some(ranked) if ranked.rank == Some(1) && ranking.rows.len() > 1 => Tone::Best,
        Some(_) => Tone::Plain,
    }
}

/// What the table is ranked by, what its columns mean, and how many columns were left out.
fn legend(shown: &[usize], removed: usize, ranking: &Ranking<'_>, width: Option<usize>) -> Vec<String> {
    let mut sentences = vec![ranking.words()];
    let tied = ranking.rows.iter().any(|row| row.is_tied);
    for column in shown.iter().map(|&index| &COLUMNS[index]) {
        if !column.meaning.is_empty() && (column.csv != "rank" || tied) {
            sentences.push(format!("{}: {}.", columns::on_one_line(column.head), column.meaning));
        }
    }
    if removed > 0 {
        sentences.push(format!("{removed} more columns: --wide."));
    }
    wrapped(&sentences.join(" "), width)
}

/// Text in lines of at most `width`.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else { return vec![text.to_owned()] };
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let full = lines
            .last()
            .is_some_and(|line| !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width);
        if full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// Text whose lines are broken at `width`; a further line is indented as the first one, and by two more.
pub(crate) fn fitted(text: &str, width: Option<usize>) -> String {
    let broken = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let rest = indent + 2;
        // The first line may be longer than the others, by these two.
        let mut parts = wrapped(line.trim_start(), width.map(|width| width.saturating_sub(rest))).into_iter();
        let first = parts.next().map(|part| format!("{}{part}", " ".repeat(indent)));
        first.into_iter().chain(parts.map(|part| format!("{}{part}", " ".repeat(rest)))).collect::<Vec<_>>()
    };
    let is_long = |line: &str| width.is_some_and(|width| line.chars().count() > width);
    let lines =
        text.lines().flat_map(|line| if is_long(line) { broken(line) } else { vec![line.to_owned()] });
    lines.collect::<Vec<_>>().join("\n")
}

/// The results of each process under one scheduler.
pub(crate) fn processes(run: &Run, most: usize, style: Style) -> String {
    let (rows, left_out) = columns::processes(run, most);
    let mut table = Table::new(columns::PROCESS_HEADS.map(|(head, _)| head));
    let is_used = |index: usize| rows.iter().any(|row| row[index] != Value::Nothing);
    let used: Vec<usize> = (0..columns::PROCESS_HEADS.len()).filter(|&index| is_used(index)).collect();
    let order: Vec<usize> =
        columns::PROCESS_ORDER.iter().filter_map(|index| used.iter().position(|of| of == index)).collect();
    rows.iter().for_each(|row| table.row(Tone::Plain, row.iter().map(Value::text).collect()));
    table.keep(&used);
    if let Style::Text { width, .. } = style {
        table.fit(width, &order);
    }
    let note = if left_out > 0 { format!("\n(and {left_out} more)") } else { String::new() };
    titled(&run.scheduler, &format!("{}{note}", table.print(style)), style)
}

/// A table below its title.
pub(crate) fn titled(title: &str, table: &str, style: Style) -> String {
    let title = printable(title);
    match style {
        Style::Markdown => format!("**{title}**\n\n{table}"),
        Style::Text { .. } => format!("{title}\n{table}"),
    }
}

/// A table of names in the first column and numbers in the others.
pub(crate) fn aligned(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new(heads.iter().copied());
    rows.into_iter().for_each(|row| table.row(Tone::Plain, row));
    table.print(text_style())
}

/// What each member of an array did under one scheduler.
pub(crate) fn members(run: &Run, style: Style) -> String {
    let mut table = Table::new(["member", "requests", "bytes", "busy", "waited", "seeks", "head\ntravel"]);
    for (index, member) in run.measured.members.iter().enumerate() {
        let cells = vec![
            index.to_string(),
            member.dispatched.to_string(),
            bytes(member.bytes),
            time(member.busy_ns),
            time(member.waits.total_ns),
            if run.has_head { member.seeks.to_string() } else { "-".to_owned() },
            run.travel(member.head_travel_sectors),
        ];
        table.row(Tone::Plain, cells);
    }
    titled(&run.scheduler, &table.print(style), style)
}

#[cfg(test)]
mod tests {
    use super::super::why::tests::run;
    use super::*;

    fn plain(width: Option<usize>) -> Style {
        Style::Text { width, colour: false }
    }

    #[test]
    fn long_lines_are_broken_and_indented() {
        let text = "a short one\n  some words that need more than twenty columns\n  more";
        let lines =
            ["a short one", "  some words that", "    need more than", "    twenty columns", "  more"];
        assert_eq!(fitted(text, Some(20)).lines().collect::<Vec<_>>(), lines);
        assert_eq!(fitted(text, None), text);
    }

    #[test]
    fn tables_fit_the_terminal() {
        let mut runs = [run("noop", 20, 10), run("stream(deadline-2.6.32)", 10, 10), run("late", 30, 10)];
        runs[2].cut = true;
        for of in &mut runs {
            of.measured.reads = machine::Latency { count: 1, mean_ns: 5, p50_ns: 5, p99_ns: 6, max_ns: 7 };
            of.measured.writes = of.measured.reads;
        }
        let ranking = Ranking::new(&runs, SortKey::Rate);
        let all = results(&ranking, plain(None));
        assert!(!all.contains("--wide") && all.contains("waited"), "{all}");
        for width in [60, 80, 100] {
            let text = results(&ranking, plain(Some(width)));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert!(text.contains("late (cut)") && text.contains("MB/s"), "{text}");
        }
        assert!(results(&ranking, plain(Some(60))).contains("more columns: --wide."));
    }

    #[test]
    fn a_ranking_by_latency_shows_it() {
        let mut runs = [run("slow", 10, 10), run("quick", 10, 10)];
        for (of, ns) in runs.iter_mut().zip([9_000_000, 1_000_000]) {
            of.measured.reads =
                machine::Latency { count: 1, mean_ns: ns, p50_ns: ns, p99_ns: ns, max_ns: ns };
        }
        let text = results(&Ranking::new(&runs, SortKey::MeanRead), plain(Some(50)));
        assert!(text.contains("Ranked by mean latency of reads.") && text.contains("9.00 ms"), "{text}");
        assert!(text.find("quick") < text.find("slow"), "{text}");
    }
}
