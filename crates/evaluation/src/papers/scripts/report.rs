//! The rows as one HTML file, with the device's throughput over time under each scheduler.

use super::Done;
use super::print::{HEADS, cells};
use crate::papers::{Row, SuiteExperiment, print};
use crate::report::chart::{Chart, Mark, colour};
use crate::report::format::escape;
use crate::report::page::Page;
use crate::run_setup::Vmstat;

/// The whole report.
pub(in crate::papers) fn html(done: &[Done], wholes: &[(SuiteExperiment, Vec<Row>)]) -> String {
    let mut page = Page::new("The papers' experiments, run again");
    done.iter().for_each(|done| section(&mut page, done));
    print::suites(wholes).for_each(|kind| whole(&mut page, kind));
    page.end("; our results are those of the modelled machine.")
}

fn whole(page: &mut Page, kind: &[(SuiteExperiment, Vec<Row>)]) {
    if let Some((whole, _)) = kind.first() {
        page.write(format_args!("<h2>{}</h2>", escape(whole.suite)));
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
        page.chart(&series(done, what, bins));
    }
    if done.paper.figures.contains_key("longest_wait") {
        page.chart(&scatter(done));
    }
}

fn read(vmstat: &Vmstat) -> &[u64] {
    &vmstat.read
}

fn written(vmstat: &Vmstat) -> &[u64] {
    &vmstat.written
}

/// Maximum number of points of a line.
const POINTS: usize = 300;

/// Throughput over time under each scheduler, as `vmstat` prints it (bi and bo).
fn series(done: &Done, what: &str, bins: fn(&Vmstat) -> &[u64]) -> Chart {
    let mut chart = Chart::new("time, s", &format!("{what}, MB/s"), 240);
    for (n, (word, run)) in done.runs.iter().enumerate() {
        let bytes = bins(&run.vmstat);
        let step = bytes.len().div_ceil(POINTS).max(10);
        let width = run.vmstat.bin_ns as f64 / 1e9 * step as f64;
        let rates = bytes.chunks(step).map(|chunk| chunk.iter().sum::<u64>() as f64 / 1e6 / width);
        let points = rates.enumerate().map(|(n, rate)| (n as f64 * width, rate)).collect();
        chart.add(word, colour(n), Mark::Line, points);
    }
    chart
}

/// Wait and service of each request of the first seconds (the stream paper's figures 7b and 7c).
fn scatter(done: &Done) -> Chart {
    let mut chart = Chart::new("completed, s", "ms", 420);
    let names = done.runs.iter().flat_map(|(word, run)| [(word, run, "wait", 1), (word, run, "service", 2)]);
    for (n, (word, run, what, index)) in names.enumerate() {
        let points = run.vmstat.scatter.iter();
        let points = points.map(|point| (point[0] as f64 / 1e9, point[index] as f64 / 1e6)).collect();
        chart.add(&format!("{word}: {what}"), colour(n), Mark::Dots, points);
    }
    chart
}
