//! `--report`: one HTML file that opens offline, with the table, the latency distributions and the picture of the head.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use ::machine::{Point, Timeline};
use plotly::common::{Line, Marker, MarkerSymbol, Mode, Title};
use plotly::layout::{Axis, AxisType, Layout, Shape, ShapeLayer, ShapeType};
use plotly::{Plot, Scatter};

use super::Comparison;
use super::columns;
use super::machine;
use super::run::Run;
use super::why::why;
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
    page.note(columns::MEANING);
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
        page.plot(560, &picture(&run.timeline, &run.names));
        match &run.outcome {
            Some(outcome) => machine::sections(&mut page, outcome),
            None => processes(&mut page, run),
        }
        page.write(format_args!("</section>"));
    }
    page.end("; every figure is of the modelled machine.")
}

/// Processes that are told one by one.
const TOLD: usize = 200;

/// What each process saw.
fn processes(page: &mut Page, run: &Run) {
    let (rows, left_out) = columns::processes(run, TOLD);
    page.write(format_args!("<h3>What processes saw</h3>"));
    page.table(&columns::PROCESS_HEADS.map(str::to_owned), rows.into_iter().map(|row| ("", row)));
    if left_out > 0 {
        page.note(&format!("and {left_out} more"));
    }
}

/// Processes that a picture tells apart. A legend of more is none, and no browser draws thousands of plots in one.
const NAMES: usize = 64;
/// The colour of all the others.
const OTHERS: &str = "#bbbbbb";

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

/// What the scheduler did, and how much of it the picture shows.
fn summary(run: &Run) -> String {
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
    format!("<p>{}{kept}</p>", why(run))
}

/// Where requests lay when they were done: time in seconds, place in 10^9 bytes.
#[derive(Default)]
struct Marks {
    at: Vec<f64>,
    gigabytes: Vec<f64>,
}

impl Marks {
    fn add(&mut self, point: &Point) {
        self.at.push((point.to_ns / 1000) as f64 / 1e6);
        self.gigabytes.push((point.sector * 512 / 10_000) as f64 / 1e5);
    }

    fn draw(self, name: String, write: bool, colour: &str) -> Box<Scatter<f64, f64>> {
        let symbol = if write { MarkerSymbol::CrossThin } else { MarkerSymbol::Circle };
        let line = Line::new().color(colour.to_owned()).width(1.0);
        let marker = Marker::new().color(colour.to_owned()).size(4).symbol(symbol).line(line);
        Scatter::new(self.at, self.gigabytes).web_gl_mode(true).name(name).mode(Mode::Markers).marker(marker)
    }
}

/// The marks of each name, reads and writes; `names` are those of tasks.
fn marks(timeline: &Timeline, names: &BTreeMap<u32, String>) -> BTreeMap<String, [Marks; 2]> {
    let unnamed = |task| if task == 0 { "unknown".to_owned() } else { format!("task {task}") };
    let mut marks: BTreeMap<String, [Marks; 2]> = BTreeMap::new();
    for point in &timeline.points {
        let name = names.get(&point.task).cloned().unwrap_or_else(|| unnamed(point.task));
        marks.entry(name).or_default()[usize::from(point.write)].add(point);
    }
    marks
}

/// The marks of the busiest, each with a place of its own among all names, and of all the others together.
fn picture(timeline: &Timeline, names: &BTreeMap<u32, String>) -> Plot {
    let mut marks: Vec<(String, [Marks; 2])> = marks(timeline, names).into_iter().collect();
    marks.sort_by_key(|(_, [reads, writes])| Reverse(reads.at.len() + writes.at.len()));
    let others = marks.split_off(marks.len().min(NAMES));
    marks.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut known: Vec<&String> = names.values().collect();
    known.sort_unstable();
    known.dedup();
    let mut plot = Plot::new();
    let mut draw = |name: &str, colour: &str, marks: [Marks; 2]| {
        for (marks, write) in marks.into_iter().zip([false, true]).filter(|(marks, _)| !marks.at.is_empty()) {
            let name = if write { format!("{name} (writes)") } else { name.to_owned() };
            plot.add_trace(marks.draw(name, write, colour));
        }
    };
    for (name, marks) in marks {
        // The same in every scheduler's picture.
        let place = known.binary_search(&&name).unwrap_or_else(|place| known.len() + place);
        draw(&name, &colour(place), marks);
    }
    let count = others.len();
    let together = others.into_iter().fold(<[Marks; 2]>::default(), |mut all, (_, marks)| {
        for (all, marks) in all.iter_mut().zip(marks) {
            all.at.extend(marks.at);
            all.gigabytes.extend(marks.gigabytes);
        }
        all
    });
    draw(&format!("{count} others"), OTHERS, together);
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
    waits.sort_by_key(|wait| Reverse(wait.to_ns - wait.from_ns));
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

    /// A request each of so many tasks, of which those with an even number are one process's.
    fn drawn(tasks: u32) -> Vec<(String, usize)> {
        let point = |task| Point { from_ns: 0, to_ns: 1, sector: 8, sectors: 8, write: false, task };
        let points = (1..=tasks).map(point).collect();
        let name = |task: u32| if task.is_multiple_of(2) { "make".to_owned() } else { format!("cc-{task}") };
        let names = (1..=tasks).map(|task| (task, name(task))).collect();
        let plot = picture(&Timeline { points, ..Timeline::default() }, &names).to_json();
        let plot: serde_json::Value = serde_json::from_str(&plot).expect("JSON");
        let traces = plot["data"].as_array().expect("traces").iter();
        let length = |trace: &serde_json::Value| trace["x"].as_array().map_or(0, Vec::len);
        traces.map(|trace| (trace["name"].as_str().expect("a name").to_owned(), length(trace))).collect()
    }

    #[test]
    fn a_picture_of_many_processes_is_of_the_busiest_and_the_others_together() {
        let few = drawn(7);
        assert_eq!(few.len(), 5, "{few:?}");
        assert!(few.contains(&("make".to_owned(), 3)), "{few:?}");
        let many = drawn(2000);
        assert_eq!(many.len(), NAMES + 1);
        assert!(many.contains(&("make".to_owned(), 1000)));
        assert_eq!(many.last(), Some(&("937 others".to_owned(), 1000 + 1 - NAMES)));
    }
}
