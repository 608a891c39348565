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
use crate::format::{bytes, time};

/// Colours that stay apart for most people with a colour vision deficiency (Okabe and Ito), one a process.
const COLOURS: &[&str] =
    &["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#999999"];

/// The whole report.
pub(crate) fn html(comparison: &Comparison, runs: &[&Run]) -> String {
    let mut page = String::new();
    let title = format!("{} on {}", comparison.workload, comparison.drive);
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>",
        escape(&title)
    );
    let _ = write!(page, "<style>{STYLE}</style>{}</head><body>", Plot::offline_js_sources());
    let _ = write!(page, "<h1>{}</h1>", escape(&title));
    for note in comparison.notes() {
        let _ = write!(page, "<p class=note>{}</p>", escape(&note));
    }
    page.push_str(&results(runs));
    page.push_str(
        "<h2>Latency</h2><p>The share of requests that were done within a time. Click a name to hide it.</p>",
    );
    for (index, what) in ["reads", "writes"].into_iter().enumerate() {
        if runs.iter().any(|run| !run.distributions[index].is_empty()) {
            page.push_str(&distribution(runs, index, what).to_inline_html(Some(&format!("latency-{what}"))));
        }
    }
    page.push_str(PICTURE);
    page.push_str(&chooser(runs));
    for (index, run) in runs.iter().enumerate() {
        let _ =
            write!(page, "<section class=picture id=\"picture-{index}\"><h3>{}</h3>", escape(&run.scheduler));
        page.push_str(&summary(run));
        page.push_str(
            &picture(&run.timeline, &comparison.names).to_inline_html(Some(&format!("head-{index}"))),
        );
        if let Some(outcome) = &run.outcome {
            page.push_str(&machine::sections(index, outcome));
        }
        page.push_str("</section>");
    }
    let _ = write!(
        page,
        "<footer>dwell {}; every figure is of the modelled machine.</footer><script>{SCRIPT}</script></body></html>",
        env!("CARGO_PKG_VERSION")
    );
    page
}

const PICTURE: &str = "<h2>Where the head was</h2><p>Each mark is a request when the device was done with it, at its place \
    on the disk, in its process's colour; grey bands are deliberate waits of an idle device. Drag to zoom, double-click to zoom out.</p>";

/// How a report looks.
pub(crate) const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:#1c1c1c;background:#fff}\
    h1{font-size:1.35rem}h2{font-size:1.1rem;margin-top:2.2rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%;font-size:.85rem}\
    th,td{padding:.22rem .5rem;text-align:right;border-bottom:1px solid #8884}th:first-child,td:first-child{text-align:left}\
    tr.limit{font-style:italic}tr.best td{font-weight:600}.note,footer{color:#666}.scroll{overflow-x:auto}\
    footer{margin-top:3rem;font-size:.8rem}select{font:inherit;padding:.2rem}";

/// Shows one picture at a time, and lets the library measure it when it comes into sight.
const SCRIPT: &str = "const pick=document.getElementById('pick');function show(){document.querySelectorAll('section.picture').forEach((s,i)=>{\
    s.hidden=i!=pick.value;if(!s.hidden){const d=s.querySelector('.js-plotly-plot');if(d)Plotly.Plots.resize(d)}})}\
    if(pick){pick.addEventListener('change',show);window.addEventListener('load',show)}";

/// Text that is no markup.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn results(runs: &[&Run]) -> String {
    let best = columns::best(runs);
    let mut html = format!("<div class=scroll><table>{}", row("", "th", &columns::HEADS.map(str::to_owned)));
    if let Some(limit) = runs.first().and_then(|run| columns::limit(run, best)) {
        html.push_str(&row(" class=limit", "td", &limit));
    }
    for (index, run) in runs.iter().enumerate() {
        let class = if index == 0 { " class=best" } else { "" };
        html.push_str(&row(class, "td", &columns::cells(run, best)));
    }
    html.push_str("</table></div>");
    html
}

/// A row of a table.
pub(crate) fn row(class: &str, cell: &str, cells: &[String]) -> String {
    let cells: String = cells.iter().map(|text| format!("<{cell}>{}</{cell}>", escape(text))).collect();
    format!("<tr{class}>{cells}</tr>")
}

fn distribution(runs: &[&Run], index: usize, what: &str) -> Plot {
    let mut plot = Plot::new();
    for run in runs.iter().filter(|run| !run.distributions[index].is_empty()) {
        let (ms, share): (Vec<f64>, Vec<f64>) =
            run.distributions[index].iter().map(|&(ns, share)| (ns as f64 / 1e6, share * 100.0)).unzip();
        plot.add_trace(Scatter::new(ms, share).name(run.scheduler.as_str()).mode(Mode::Lines));
    }
    plot.set_layout(
        Layout::new()
            .height(420)
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
    let kept = if run.timeline.truncated {
        format!(" The picture shows the first {} requests.", run.timeline.points.len())
    } else {
        String::new()
    };
    format!(
        "<p>{} requests went to the device, {} of them to a place away from the last one, over {} of disk. {waits}{kept}</p>",
        measured.dispatched,
        measured.seeks,
        bytes(measured.head_travel_sectors.saturating_mul(512))
    )
}

fn picture(timeline: &Timeline, names: &BTreeMap<u32, String>) -> Plot {
    let mut by_task: BTreeMap<(u32, bool), (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for point in &timeline.points {
        let (at, gigabytes) = by_task.entry((point.task, point.write)).or_default();
        at.push(point.to_ns as f64 / 1e9);
        gigabytes.push(point.sector as f64 * 512.0 / 1e9);
    }
    let tasks: Vec<u32> = by_task
        .keys()
        .map(|(task, _)| *task)
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut plot = Plot::new();
    for ((task, write), (at, gigabytes)) in by_task {
        let colour = COLOURS[tasks.binary_search(&task).unwrap_or_default() % COLOURS.len()];
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
        let marker =
            Marker::new().color(colour).size(4).symbol(symbol).line(Line::new().color(colour).width(1.0));
        let trace =
            Scatter::new(at, gigabytes).web_gl_mode(true).name(name).mode(Mode::Markers).marker(marker);
        plot.add_trace(trace);
    }
    let mut layout = Layout::new()
        .height(560)
        .x_axis(Axis::new().title(Title::with_text("time, s")))
        .y_axis(Axis::new().title(Title::with_text("place, 10^9 bytes")));
    layout = layout.shapes(bands(timeline));
    plot.set_layout(layout);
    plot
}

/// Deliberate waits as grey bands; the longest ones, as a page cannot hold tens of thousands.
fn bands(timeline: &Timeline) -> Vec<Shape> {
    const MOST: usize = 1500;
    let mut waits: Vec<_> = timeline.waits.iter().collect();
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.to_ns - wait.from_ns));
    waits
        .into_iter()
        .take(MOST)
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
