//! `--report`: one HTML file that opens offline, with the table, the latency distributions and the picture of the head.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ::machine::Timeline;
use plotly::common::{Line, Marker, Mode, Title};
use plotly::layout::{Axis, AxisType, Layout, Shape, ShapeLayer, ShapeType};
use plotly::{Plot, Scatter};

use super::Comparison;
use super::columns;
use super::machine;
use super::run::Run;
use crate::format::time;
use crate::page::{Page, escape};

/// Colours that stay apart for most people with a colour vision deficiency (Okabe and Ito), for the first processes.
const COLOURS: &[&str] =
    &["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#999999"];

/// A process's or a scheduler's colour: nobody else's in its plot. Beyond the chosen ones, hues a golden angle apart, which differ longest.
fn colour(place: usize) -> String {
    let drawn = || format!("hsl({}, 65%, {}%)", place * 137 % 360, 30 + place % 3 * 12);
    COLOURS.get(place).map_or_else(drawn, |chosen| (*chosen).to_owned())
}

/// The whole report.
pub(crate) fn html(comparison: &Comparison, runs: &[&Run]) -> String {
    let mut page = Page::new(&format!("{} on {}", comparison.workload, comparison.drive));
    comparison.notes().iter().for_each(|note| page.note(note));
    results(&mut page, runs);
    page.write(format_args!(
        "<h2>Latency</h2><p>The share of requests that were done within a time. Click a name to hide it.</p>"
    ));
    for (index, what) in ["reads", "writes"].into_iter().enumerate() {
        if runs.iter().any(|run| !run.distributions[index].is_empty()) {
            page.plot(420, &distribution(runs, index, what));
        }
    }
    page.write(format_args!("{PICTURE}{}", chooser(runs)));
    for run in runs {
        page.write(format_args!("<section class=choice><h3>{}</h3>{}", escape(&run.scheduler), summary(run)));
        page.plot(560, &picture(&run.timeline, &comparison.names));
        if let Some(outcome) = &run.outcome {
            machine::sections(&mut page, outcome);
        }
        page.write(format_args!("</section>"));
    }
    page.end("; every figure is of the modelled machine.")
}

/// Waits that a picture shades.
const BANDS: usize = 1500;

const PICTURE: &str = "<h2>Where the head was</h2><p>Each mark is a request when the device was done with it, at its place \
    on the disk, in its process's colour; grey bands are deliberate waits of an idle device. Drag to zoom, double-click to zoom out.</p>";

fn results(page: &mut Page, runs: &[&Run]) {
    let best = columns::best(runs);
    let limit = runs.first().and_then(|run| columns::limit(run, best)).map(|cells| ("limit", cells.to_vec()));
    let class = |index: usize| if index == 0 { "best" } else { "" };
    let rows = runs.iter().enumerate().map(|(index, run)| (class(index), columns::cells(run, best).to_vec()));
    page.table(&columns::HEADS.map(str::to_owned), limit.into_iter().chain(rows));
}

fn distribution(runs: &[&Run], index: usize, what: &str) -> Plot {
    let mut plot = Plot::new();
    let runs = runs.iter().enumerate().filter(|(_, run)| !run.distributions[index].is_empty());
    for (place, run) in runs {
        let (ms, share): (Vec<f64>, Vec<f64>) =
            run.distributions[index].iter().map(|&(ns, share)| (ns as f64 / 1e6, share * 100.0)).unzip();
        let line = Line::new().color(colour(place));
        plot.add_trace(Scatter::new(ms, share).name(run.scheduler.as_str()).mode(Mode::Lines).line(line));
    }
    plot.set_layout(
        Layout::new()
            .x_axis(
                Axis::new().type_(AxisType::Log).title(Title::with_text(format!("latency of {what}, ms"))),
            )
            .y_axis(Axis::new().title(Title::with_text("requests done, %"))),
    );
    plot
}

fn chooser(runs: &[&Run]) -> String {
    let mut html = String::from("<label>Scheduler <select id=pick>");
    for (index, run) in runs.iter().enumerate() {
        let _ = write!(html, "<option value={index}>{}</option>", escape(&run.scheduler));
    }
    html.push_str("</select></label>");
    html
}

/// A sentence that says what the picture shows.
fn summary(run: &Run) -> String {
    let measured = &run.measured;
    let waits = if measured.waits.count == 0 {
        "It never let the device wait on purpose.".to_owned()
    } else {
        let reasons: Vec<String> =
            measured.waits.by_reason.iter().map(|(reason, ns)| format!("{} {reason}", time(*ns))).collect();
        format!(
            "It let the device wait {} times, {} in all: {}.",
            measured.waits.count,
            time(measured.waits.total_ns),
            reasons.join("; ")
        )
    };
    let mut kept = if run.timeline.truncated {
        format!(" The picture shows the first {} requests.", run.timeline.points.len())
    } else {
        String::new()
    };
    if run.timeline.waits.len() > BANDS {
        let _ = write!(
            kept,
            " Of its {} waits meanwhile, the {BANDS} longest are shaded.",
            run.timeline.waits.len()
        );
    }
    let head = if run.has_head {
        format!(
            "; its head went {} times to a place away from the last one, over {} of disk",
            measured.seeks,
            run.travel(measured.head_travel_sectors)
        )
    } else {
        String::new()
    };
    format!("<p>{} requests went to the device{head}. {waits}{kept}</p>", measured.dispatched)
}

fn picture(timeline: &Timeline, names: &BTreeMap<u32, String>) -> Plot {
    let mut by_task: BTreeMap<(u32, bool), (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for point in &timeline.points {
        let (at, gigabytes) = by_task.entry((point.task, point.write)).or_default();
        at.push((point.to_ns / 1000) as f64 / 1e6);
        gigabytes.push((point.sector * 512 / 10_000) as f64 / 1e5);
    }
    let tasks: Vec<u32> = by_task
        .keys()
        .map(|(task, _)| *task)
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut plot = Plot::new();
    for ((task, write), (at, gigabytes)) in by_task {
        let colour = colour(tasks.binary_search(&task).unwrap_or_default());
        let name = names
            .get(&task)
            .cloned()
            .unwrap_or_else(|| if task == 0 { "unknown".to_owned() } else { format!("task {task}") });
        let name = if write { format!("{name} (writes)") } else { name };
        let symbol = if write {
            plotly::common::MarkerSymbol::CrossThin
        } else {
            plotly::common::MarkerSymbol::Circle
        };
        let marker = Marker::new()
            .color(colour.clone())
            .size(4)
            .symbol(symbol)
            .line(Line::new().color(colour).width(1.0));
        let trace =
            Scatter::new(at, gigabytes).web_gl_mode(true).name(name).mode(Mode::Markers).marker(marker);
        plot.add_trace(trace);
    }
    let mut layout = Layout::new()
        .x_axis(Axis::new().title(Title::with_text("time, s")))
        .y_axis(Axis::new().title(Title::with_text("place, 10^9 bytes")));
    layout = layout.shapes(bands(timeline));
    plot.set_layout(layout);
    plot
}

/// Deliberate waits as grey bands; the longest ones, as a page cannot hold tens of thousands.
fn bands(timeline: &Timeline) -> Vec<Shape> {
    let mut waits: Vec<_> = timeline.waits.iter().collect();
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.to_ns - wait.from_ns));
    waits
        .into_iter()
        .take(BANDS)
        .map(|wait| {
            Shape::new()
                .shape_type(ShapeType::Rect)
                .x0(wait.from_ns as f64 / 1e9)
                .x1(wait.to_ns as f64 / 1e9)
                .y_ref("paper")
                .y0(0.0)
                .y1(1.0)
                .fill_color("rgba(120,120,120,0.25)")
                .line(plotly::layout::ShapeLine::new().width(0.0))
                .layer(ShapeLayer::Below)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_and_scheduler_has_a_colour_of_its_own() {
        let colours: std::collections::BTreeSet<String> = (0..300).map(colour).collect();
        assert_eq!(colours.len(), 300);
    }
}
