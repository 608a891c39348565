//! Draws the snapshot. Does not access the terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table};
use server::control::protocol::{AccountState, ItemState, State};

use super::rates::History;
use crate::commands::ctl::{device, fact_in_words, name_of, scheduler, waits_in, without_unit};
use evaluation::report::format::{bytes, number, time};

/// Rows of the strip, one for each sample.
const STRIP: u16 = 6;

/// Limit of displayed streams or groups.
const ITEMS: usize = 12;

const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);

pub(super) fn draw(history: &History, frame: &mut Frame<'_>) {
    let processes = history.processes();
    let accounts = history.accounts();
    let high = |rows: usize| if rows == 0 { 0 } else { rows.min(ITEMS) as u16 + 3 };
    let rows = [5, STRIP + 2, 7, high(processes.len()), high(accounts.len())];
    let [summary, strip, operations, by_process, by_account, items] = Layout::vertical([
        Constraint::Length(rows[0]),
        Constraint::Length(rows[1]),
        Constraint::Length(rows[2]),
        Constraint::Length(rows[3]),
        Constraint::Length(rows[4]),
        Constraint::Fill(1),
    ])
    .areas(frame.area());
    frame.render_widget(summary_of(history), summary);
    draw_strip(history, frame, strip);
    frame.render_widget(operations_of(history), operations);
    if !processes.is_empty() {
        let row = |(process, rate): &(u32, super::rates::Rate)| {
            [process.to_string(), number(rate.operations), number(rate.read), number(rate.written)]
        };
        let heads = ["process", "operations/s", "read MB/s", "written MB/s"];
        let title = format!("processes: {}", processes.len());
        frame.render_widget(table(&title, &heads, processes.iter().map(row)), by_process);
    }
    if !accounts.is_empty() {
        let rate = |rate: f64| format!("{}/s", bytes(rate as u64));
        let row = |(account, of): &(&AccountState, super::rates::Caused)| {
            [
                account.name.clone(),
                waits_in(account),
                format!("{:.2}", of.held),
                bytes(account.dirty),
                rate(of.read),
                rate(of.data),
                rate(of.metadata),
            ]
        };
        let heads = ["account", "waits in", "held calls", "dirty", "read", "data", "metadata"];
        let rows = accounts.iter().take(ITEMS).map(row);
        let title = format!("accounts: {}; what they caused", accounts.len());
        frame.render_widget(table(&title, &heads, rows), by_account);
    }
    draw_items(history.state(), frame, items);
}

fn summary_of(history: &History) -> Paragraph<'static> {
    let state = history.state();
    let lateness = &state.lateness;
    let late =
        || format!("completions late by {} (median), {} (p99)", time(lateness.p50_ns), time(lateness.p99_ns));
    Paragraph::new(vec![
        Line::styled(scheduler(state), HEAD),
        Line::from(device(state)),
        Line::from(format!(
            "{} queued, {} of {} in the device, {} unfinished",
            state.queued, state.in_flight, state.depth, state.unfinished,
        )),
        Line::from(format!(
            "{} dispatched/s, {} deliberate waits/s",
            number(history.dispatched()),
            number(history.holds())
        )),
        // Only an emulated drive has due times.
        Line::from(if lateness.count > 0 { late() } else { String::new() }),
    ])
}

/// Draws the head positions: the first sector on the left, the last on the right, the newest row at the bottom.
fn draw_strip(history: &History, frame: &mut Frame<'_>, area: Rect) {
    let block = Block::bordered().title("head, newest below");
    let inside = block.inner(area);
    frame.render_widget(block, area);
    if inside.is_empty() {
        return;
    }
    let last = history.state().capacity_sectors.max(1) - 1;
    let column = |sector: u64| {
        let share = sector.min(last) as f64 / last.max(1) as f64;
        inside.x + (share * f64::from(inside.width - 1)).round() as u16
    };
    let newest = history.positions().rev().take(usize::from(inside.height));
    for (age, position) in newest.enumerate() {
        let mark = if age == 0 { "█" } else { "▒" };
        let y = inside.bottom() - 1 - age as u16;
        frame.buffer_mut().set_string(column(position), y, mark, Style::new());
    }
}

fn operations_of(history: &History) -> Table<'static> {
    let row = |name: &String| {
        let operation = &history.state().operations[name];
        let (rate, megabytes) = history.operation(name);
        let (latency, wait) = (&operation.latency, &operation.wait);
        [
            name.clone(),
            number(rate),
            number(megabytes),
            operation.failed.to_string(),
            time(latency.p50_ns),
            time(latency.p99_ns),
            time(latency.max_ns),
            time(wait.p50_ns),
            time(wait.p99_ns),
        ]
    };
    let heads = ["", "per s", "MB/s", "failed", "latency p50", "p99", "longest", "wait p50", "p99"];
    table(
        "operations; failures and latencies since the start",
        &heads,
        history.state().operations.keys().map(row),
    )
}

/// Draws the scheduler's items (streams, groups) of the first item's kind.
fn draw_items(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let items = &state.items;
    let Some(first) = items.first().filter(|_| area.height > 3) else { return };
    let of: Vec<&ItemState> = items.iter().filter(|item| item.kind == first.kind).collect();
    let fullest = of.iter().max_by_key(|item| item.facts.len()).unwrap_or(&of[0]);
    let names: Vec<&String> = fullest.facts.keys().collect();
    let heads: Vec<String> = std::iter::once(String::new())
        .chain(names.iter().map(|name| without_unit(name).replace('_', " ")))
        .collect();
    let row = |item: &&ItemState| -> Vec<String> {
        let facts = names.iter().map(|name| item.facts.get(*name).map(|fact| fact_in_words(name, fact)));
        std::iter::once(name_of(item, &state.accounts)).chain(facts.map(Option::unwrap_or_default)).collect()
    };
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let title = format!("{}s: {}", first.kind, of.len());
    frame.render_widget(table(&title, &heads, of.iter().take(ITEMS).map(row)), area);
}

fn table<R>(title: &str, heads: &[&str], rows: impl Iterator<Item = R>) -> Table<'static>
where
    R: IntoIterator<Item = String>,
{
    let rows: Vec<Vec<String>> = rows.map(|row| row.into_iter().collect()).collect();
    let widest = |(column, head): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        Constraint::Min(cells.chain([head.chars().count()]).max().unwrap_or(0) as u16)
    };
    let widths: Vec<Constraint> = heads.iter().enumerate().map(widest).collect();
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    Table::new(rows.into_iter().map(Row::new), widths)
        .header(Row::new(heads).style(HEAD))
        .block(Block::bordered().title(title.to_owned()))
}
