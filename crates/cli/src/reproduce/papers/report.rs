//! The rows as one HTML file that opens offline, with what the device did over time under each scheduler.

use std::fmt::Write as _;

use plotly::common::{Mode, Title};
use plotly::layout::{Axis, Layout};
use plotly::{Plot, Scatter};

use super::Done;
use super::print::{HEADS, cells};
use crate::compare::{STYLE, escape, table_row};
use crate::scene::Vmstat;

/// The whole report.
pub(super) fn html(scale: f64, done: &[Done]) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>The papers' experiments, run again</title>\
         <style>{STYLE}td.no{{font-weight:600}}</style>{}</head><body><h1>The papers' experiments, run again</h1>",
        Plot::offline_js_sources()
    );
    if scale < 1.0 {
        let _ = write!(
            page,
            "<p class=note>scale {scale}: data, operations and memory are {scale} of the papers'</p>"
        );
    }
    for (index, done) in done.iter().enumerate() {
        page.push_str(&section(index, done));
    }
    let _ = write!(
        page,
        "<footer>dwell {}; every figure of ours is of the modelled machine.</footer></body></html>",
        env!("CARGO_PKG_VERSION")
    );
    page
}

fn section(index: usize, done: &Done) -> String {
    let title = format!("{}: {}", done.paper.name, done.paper.experiment);
    let mut html = format!("<h2>{}</h2><p>{}</p>", escape(&title), escape(&done.about));
    let on = format!("on {}, {}", done.machine, done.drive);
    let _ = write!(html, "<p class=note>{}</p><div class=scroll><table>", escape(&on));
    html.push_str(&table_row("", "th", &HEADS.map(str::to_owned)));
    for row in &done.rows {
        html.push_str(&table_row("", "td", &cells(done, row)));
    }
    html.push_str("</table></div>");
    for shape in done.shapes.iter().filter(|shape| !shape.holds) {
        let _ = write!(html, "<p>{}: {}</p>", escape(&shape.figure), escape(&shape.misses.join("; ")));
    }
    for note in &done.paper.notes {
        let _ = write!(html, "<p class=note>{}</p>", escape(note));
    }
    for (what, bins) in [("read", read as fn(&Vmstat) -> &[u64]), ("written", written)] {
        html.push_str(&series(done, what, bins).to_inline_html(Some(&format!("series-{index}-{what}"))));
    }
    if done.paper.figures.contains_key("longest_wait") {
        html.push_str(&scatter(done).to_inline_html(Some(&format!("scatter-{index}"))));
    }
    html
}

fn read(vmstat: &Vmstat) -> &[u64] {
    &vmstat.read
}

fn written(vmstat: &Vmstat) -> &[u64] {
    &vmstat.written
}

/// What `vmstat` printed as bi and bo: at most so many points a line.
const POINTS: usize = 300;

fn series(done: &Done, what: &str, bins: fn(&Vmstat) -> &[u64]) -> Plot {
    let mut plot = Plot::new();
    for (word, run) in &done.runs {
        let bytes = bins(&run.vmstat);
        let step = bytes.len().div_ceil(POINTS).max(10);
        let width = run.vmstat.bin_ns as f64 / 1e9 * step as f64;
        let rates = bytes.chunks(step).map(|chunk| chunk.iter().sum::<u64>() as f64 / 1e6 / width);
        let (at, rate): (Vec<f64>, Vec<f64>) =
            rates.enumerate().map(|(n, rate)| (n as f64 * width, rate)).unzip();
        plot.add_trace(Scatter::new(at, rate).name(word.as_str()).mode(Mode::Lines));
    }
    plot.set_layout(
        Layout::new()
            .height(260)
            .x_axis(Axis::new().title(Title::with_text("time, s")))
            .y_axis(Axis::new().title(Title::with_text(format!("{what}, MB/s")))),
    );
    plot
}

/// Wait and service of each request of the first seconds (the stream paper's figures 7b and 7c).
fn scatter(done: &Done) -> Plot {
    let mut plot = Plot::new();
    for (word, run) in &done.runs {
        for (what, index) in [("wait", 1), ("service", 2)] {
            let (at, ms): (Vec<f64>, Vec<f64>) = run
                .vmstat
                .scatter
                .iter()
                .map(|point| (point[0] as f64 / 1e9, point[index] as f64 / 1e6))
                .unzip();
            plot.add_trace(Scatter::new(at, ms).name(format!("{word}: {what}")).mode(Mode::Markers));
        }
    }
    plot.set_layout(
        Layout::new()
            .height(420)
            .x_axis(Axis::new().title(Title::with_text("completed, s")))
            .y_axis(Axis::new().title(Title::with_text("ms"))),
    );
    plot
}
