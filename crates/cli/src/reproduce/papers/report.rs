//! The rows as one HTML file that opens offline, with what the device did over time under each scheduler.

use plotly::common::{Mode, Title};
use plotly::layout::{Axis, Layout};
use plotly::{Plot, Scatter};

use super::Done;
use super::print::{HEADS, cells};
use crate::page::{Page, escape};
use crate::reproduce::{Row, Whole, print};
use crate::scene::Vmstat;

/// The whole report.
pub(in crate::reproduce) fn html(done: &[Done], wholes: &[(Whole, Vec<Row>)]) -> String {
    let mut page = Page::new("The papers' experiments, run again");
    done.iter().for_each(|done| section(&mut page, done));
    print::kinds(wholes).for_each(|kind| whole(&mut page, kind));
    page.end("; every figure of ours is of the modelled machine.")
}

fn whole(page: &mut Page, kind: &[(Whole, Vec<Row>)]) {
    if let Some((whole, _)) = kind.first() {
        page.write(format_args!("<h2>{}</h2>", escape(whole.kind)));
        page.note(&format!("scale {}", whole.scale));
    }
    let rows = kind.iter().flat_map(|(_, rows)| rows);
    page.table(&print::HEADS.map(str::to_owned), rows.map(|row| ("", print::cells(row).to_vec())));
    print::notes(kind).into_iter().for_each(|note| page.note(note));
}

fn section(page: &mut Page, done: &Done) {
    let title = format!("{}: {}", done.paper.name, done.title());
    page.write(format_args!("<h2>{}</h2><p>{}</p>", escape(&title), escape(&done.about)));
    let scaled = if done.scale < 1.0 {
        format!("; scale {0}: data, operations and memory are {0} of the papers'", done.scale)
    } else {
        String::new()
    };
    page.note(&format!("on {}, {}{scaled}", done.machine, done.drive));
    page.table(&HEADS.map(str::to_owned), done.rows.iter().map(|row| ("", cells(done, row).to_vec())));
    for shape in done.shapes.iter().filter(|shape| !shape.holds) {
        let misses = shape.misses.join("; ");
        page.write(format_args!("<p>{}: {}</p>", escape(&shape.figure), escape(&misses)));
    }
    done.paper.notes.iter().for_each(|note| page.note(note));
    for (what, bins) in [("read", read as fn(&Vmstat) -> &[u64]), ("written", written)] {
        page.plot(260, &series(done, what, bins));
    }
    if done.paper.figures.contains_key("longest_wait") {
        page.plot(420, &scatter(done));
    }
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
            .x_axis(Axis::new().title(Title::with_text("completed, s")))
            .y_axis(Axis::new().title(Title::with_text("ms"))),
    );
    plot
}
