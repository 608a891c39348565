//! Charts as SVG, drawn by the program: no script, no library. A chart stands on its own as a file; inside a page, the page's style
//! replaces its colours (dark mode), enlarges its text (small screens) and replaces its legend by one that wraps.
//!
//! Points are rounded to the pixels of the viewBox (dots: two units) and a pixel holds one point per series, so that the size of a chart depends on its
//! area and not on the number of requests.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::format::escape;
use super::format::number;

/// Width of the viewBox.
const WIDTH: u32 = 900;
const LEFT: u32 = 64;
const RIGHT: u32 = 12;
const TOP: u32 = 8;
const BOTTOM: u32 = 44;
/// Height of a line of the legend.
const LEGEND_LINE: u32 = 18;

/// Colours that people with colour vision deficiency can tell apart (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b8a800", "#888888"];

/// The colour of series `index`, different for each index. Beyond the fixed colours: hues a golden angle apart.
pub fn colour(index: usize) -> String {
    let generated = || format!("hsl({}, 65%, {}%)", index * 137 % 360, 35 + index % 3 * 12);
    COLOURS.get(index).map_or_else(generated, |fixed| (*fixed).to_owned())
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// A line through the points.
    Line,
    /// A dot at each point.
    Dots,
    /// A short horizontal bar at each point.
    Dashes,
}

/// A named series.
#[derive(Clone, Debug)]
struct Series {
    name: String,
    colour: String,
    mark: Mark,
    points: Vec<(f64, f64)>,
}

/// A chart with numbers on both axes.
#[derive(Clone, Debug)]
pub struct Chart {
    x_label: String,
    y_label: String,
    height: u32,
    log_x: bool,
    series: Vec<Series>,
    bands: Vec<(f64, f64)>,
    /// Corners that the axes cover, besides the points.
    covered: Vec<(f64, f64)>,
}

/// Gives charts that are compared the same axes.
pub fn share_axes<'a>(charts: impl Iterator<Item = &'a mut Chart>) {
    let mut charts: Vec<&mut Chart> = charts.collect();
    let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    let points = charts.iter().flat_map(|chart| chart.series.iter().flat_map(|series| &series.points));
    let corners = points.copied().filter(finite).fold(None, |corners, (x, y)| {
        let (low, high) = corners.unwrap_or(((x, y), (x, y)));
        Some(((f64::min(low.0, x), f64::min(low.1, y)), (f64::max(high.0, x), f64::max(high.1, y))))
    });
    for chart in &mut charts {
        chart.covered = corners.iter().flat_map(|&(low, high)| [low, high]).collect();
    }
}

impl Chart {
    /// An empty chart, `height` units high at a width of 900.
    pub fn new(x_label: &str, y_label: &str, height: u32) -> Self {
        let (x_label, y_label) = (x_label.to_owned(), y_label.to_owned());
        let (series, bands, covered) = Default::default();
        Self { x_label, y_label, height, log_x: false, series, bands, covered }
    }

    /// Uses a logarithmic x axis. Points at or below 0 are left out.
    #[must_use]
    pub fn log_x(self) -> Self {
        Self { log_x: true, ..self }
    }

    /// Adds a series.
    pub fn add(&mut self, name: &str, colour: String, mark: Mark, points: Vec<(f64, f64)>) {
        self.series.push(Series { name: name.to_owned(), colour, mark, points });
    }

    /// Shades ranges of x.
    pub fn shade(&mut self, bands: Vec<(f64, f64)>) {
        self.bands = bands;
    }

    /// Names of the series with the number of points, in the order of the legend.
    pub fn contents(&self) -> Vec<(&str, usize)> {
        self.series.iter().map(|series| (series.name.as_str(), series.points.len())).collect()
    }

    /// The chart as an SVG element.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points).chain(&self.covered);
        let usable = || points().filter(|point| !self.log_x || point.0 > 0.0);
        let x = Axis::of(usable().map(|point| point.0), self.log_x);
        let y = Axis::of(points().map(|point| point.1).chain([0.0]), false);
        let legend =
            Legend::of(self.series.iter().map(|series| (series.name.as_str(), series.colour.as_str())));
        let mut frame = Frame::new(self.height, legend.height());
        frame.x_axis(&x, &self.x_label);
        frame.y_axis(&y, &self.y_label);
        frame.bands(&x, &self.bands);
        for series in &self.series {
            frame.series(series, &x, &y);
        }
        legend.draw(&mut frame);
        frame.end()
    }
}

/// A bar with a range, and a mark beside it.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Name below the bar.
    pub name: String,
    /// Height of the bar.
    pub value: f64,
    /// Range around the value.
    pub range: (f64, f64),
    /// A further value, drawn as a dot.
    pub mark: Option<f64>,
}

/// Horizontal bars, one line each, so that long names fit on small screens.
pub fn bars(label: &str, mark_name: &str, bars: &[Bar]) -> String {
    const LINE: u32 = 40;
    let values = bars.iter().flat_map(|bar| [bar.value, bar.range.1, bar.mark.unwrap_or(0.0)]);
    let x = Axis::of(values.chain([0.0]), false);
    let legend = Legend::of([("measured", COLOURS[0]), (mark_name, COLOURS[1])].into_iter());
    let height = TOP + BOTTOM + LINE * bars.len() as u32;
    let mut frame = Frame::new(height, legend.height());
    frame.x_axis(&x, label);
    for (n, bar) in bars.iter().enumerate() {
        let top = TOP + LINE * n as u32;
        let (from, to) = (frame.x(&x, 0.0), frame.x(&x, bar.value));
        let (low, high) = (frame.x(&x, bar.range.0), frame.x(&x, bar.range.1));
        let (name, middle) = (escape(&bar.name), top + 26);
        frame.push(format_args!(
            "<text x=\"{LEFT}\" y=\"{}\">{name}: {}</text><path d=\"M{from} {}h{}v12h-{}z\" fill=\"{}\"/>\
             <path d=\"M{low} {middle}H{high}\" stroke=\"currentColor\" stroke-width=\"2\"/>",
            top + 14,
            number(bar.value),
            top + 20,
            to - from,
            to - from,
            COLOURS[0],
        ));
        if let Some(mark) = bar.mark {
            let at = frame.x(&x, mark);
            frame.push(format_args!("<circle cx=\"{at}\" cy=\"{middle}\" r=\"5\" fill=\"{}\"/>", COLOURS[1]));
        }
    }
    legend.draw(&mut frame);
    frame.end()
}

/// The range of an axis with its ticks.
struct Axis {
    from: f64,
    to: f64,
    log: bool,
    ticks: Vec<f64>,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>, log: bool) -> Self {
        let finite = values.filter(|value| value.is_finite());
        let (low, high) =
            finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            return Self { from: 0.0, to: 1.0, log: false, ticks: vec![0.0, 1.0] };
        }
        if log {
            let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
            let last = last.max(first + 1);
            let ticks = (first..=last).map(|power| 10f64.powi(power)).collect();
            return Self { from: 10f64.powi(first), to: 10f64.powi(last), log, ticks };
        }
        let high = if high > low { high } else { low + 1.0 };
        let step = step((high - low) / 5.0);
        let (from, to) = ((low / step).floor() * step, (high / step).ceil() * step);
        let count = ((to - from) / step).round() as u32;
        Self { from, to, log, ticks: (0..=count).map(|n| from + f64::from(n) * step).collect() }
    }

    /// Position of a value, 0 at the start of the axis and 1 at the end.
    fn position(&self, value: f64) -> f64 {
        let share = match self.log {
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        share.clamp(0.0, 1.0)
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below `least`.
fn step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|of| of * power).into_iter().find(|&step| step >= least).unwrap_or(least)
}

/// A tick's label.
fn label(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        _ if magnitude == 0.0 => "0".to_owned(),
        _ if magnitude >= 1e6 => format!("{:.0e}", value),
        // Long numbers would not fit beside the axis on a small screen.
        _ if magnitude >= 1e4 => format!("{}k", value / 1e3),
        _ if magnitude >= 10.0 => format!("{value:.0}"),
        _ => format!("{:.4}", value).trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

/// An SVG element under construction, with its plotting area.
struct Frame {
    text: String,
    /// Height of the chart without the legend.
    height: u32,
}

impl Frame {
    fn new(height: u32, legend: u32) -> Self {
        let text = format!(
            "<svg class=chart xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" font-family=\"system-ui,sans-serif\" \
             font-size=\"13\" fill=\"currentColor\" color=\"#222\" role=\"img\">",
            height + legend
        );
        Self { text: text.replace("class=chart", "class=\"chart\""), height }
    }

    fn push(&mut self, markup: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.text.write_fmt(markup);
    }

    fn x(&self, axis: &Axis, value: f64) -> u32 {
        LEFT + (axis.position(value) * f64::from(WIDTH - LEFT - RIGHT)).round() as u32
    }

    fn y(&self, axis: &Axis, value: f64) -> u32 {
        self.height - BOTTOM - (axis.position(value) * f64::from(self.height - TOP - BOTTOM)).round() as u32
    }

    fn x_axis(&mut self, axis: &Axis, name: &str) {
        let bottom = self.height - BOTTOM;
        for &tick in &axis.ticks {
            let x = self.x(axis, tick);
            // Half of the label at the right end would be outside.
            let is_last = x + 2 * RIGHT > WIDTH;
            let (at, anchor) = if is_last { (WIDTH - 1, "end") } else { (x, "middle") };
            self.push(format_args!(
                "<path class=\"grid\" d=\"M{x} {TOP}V{bottom}\" stroke=\"#8884\"/><text class=\"tx\" x=\"{at}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
                bottom + 17,
                label(tick)
            ));
        }
        self.push(format_args!(
            "<text class=\"nx\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            (WIDTH + LEFT - RIGHT) / 2,
            bottom + 36,
            escape(name)
        ));
    }

    fn y_axis(&mut self, axis: &Axis, name: &str) {
        for &tick in &axis.ticks {
            let y = self.y(axis, tick);
            self.push(format_args!(
                "<path class=\"grid\" d=\"M{LEFT} {y}H{}\" stroke=\"#8884\"/><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6,
                y + 4,
                label(tick)
            ));
        }
        let middle = (self.height - BOTTOM + TOP) / 2;
        self.push(format_args!(
            "<text class=\"ny\" transform=\"rotate(-90 14 {middle})\" x=\"14\" y=\"{middle}\" text-anchor=\"middle\">{}</text>",
            escape(name)
        ));
    }

    /// Shades the columns that the ranges cover for at least a quarter: thousands of short ranges would otherwise look like one long one.
    fn bands(&mut self, axis: &Axis, bands: &[(f64, f64)]) {
        const COVERED: f64 = 0.25;
        let width = WIDTH - LEFT - RIGHT;
        let mut covered = vec![0.0; width as usize];
        for &(from, to) in bands {
            let (from, to) = (axis.position(from) * f64::from(width), axis.position(to) * f64::from(width));
            for column in from as u32..=(to as u32).min(width - 1) {
                let part = to.min(f64::from(column) + 1.0) - from.max(f64::from(column));
                covered[column as usize] += part.max(0.0);
            }
        }
        let depth = self.height - BOTTOM - TOP;
        let (mut path, mut at) = (String::new(), LEFT);
        for run in covered.chunk_by(|a, b| (*a >= COVERED) == (*b >= COVERED)) {
            let length = run.len() as u32;
            if run[0] >= COVERED {
                let _ = write!(path, "M{at} {TOP}h{length}v{depth}H{at}z");
            }
            at += length;
        }
        if !path.is_empty() {
            self.push(format_args!("<path class=\"band\" d=\"{path}\" fill=\"#7f7f7f40\"/>"));
        }
    }

    fn series(&mut self, series: &Series, x: &Axis, y: &Axis) {
        let usable = series.points.iter().filter(|point| (!x.log || point.0 > 0.0) && point.1.is_finite());
        let pixels = usable.map(|point| (self.x(x, point.0), self.y(y, point.1)));
        let path = match series.mark {
            Mark::Line => line(pixels),
            Mark::Dots | Mark::Dashes => dots(pixels, if series.mark == Mark::Dots { 0 } else { 4 }),
        };
        let width = if series.mark == Mark::Dots { 3 } else { 2 };
        let (cap, colour) = (if series.mark == Mark::Dots { "round" } else { "butt" }, &series.colour);
        self.push(format_args!(
            "<path class=\"series\" data-name=\"{}\" d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linecap=\"{cap}\"/>",
            escape(&series.name)
        ));
    }

    fn end(mut self) -> String {
        self.text.push_str("</svg>");
        self.text
    }
}

/// A line. Points on a straight horizontal or vertical run are left out.
fn line(pixels: impl Iterator<Item = (u32, u32)>) -> String {
    let mut kept: Vec<(u32, u32)> = Vec::new();
    for point in pixels {
        if let [.., before, last] = kept[..]
            && ((before.1 == last.1 && last.1 == point.1) || (before.0 == last.0 && last.0 == point.0))
        {
            kept.pop();
        }
        if kept.last() != Some(&point) {
            kept.push(point);
        }
    }
    let mut path = String::new();
    for (n, (x, y)) in kept.into_iter().enumerate() {
        let _ = write!(path, "{}{x} {y}", if n == 0 { "M" } else { "L" });
    }
    path
}

/// A mark `length` units long at each pixel of a grid of two units, one per pixel. Sorting and relative moves keep the text short.
fn dots(pixels: impl Iterator<Item = (u32, u32)>, length: u32) -> String {
    let pixels: BTreeSet<(u32, u32)> = pixels.map(|(x, y)| (x & !1, y & !1)).collect();
    let (mut path, mut at) = (String::new(), None);
    for (x, y) in pixels {
        let _ = match at {
            None => write!(path, "M{x} {y}h{length}"),
            Some((from, before)) => {
                let (dx, dy) = (i64::from(x) - i64::from(from), i64::from(y) - i64::from(before));
                let space = if dy < 0 { "" } else { " " };
                write!(path, "m{dx}{space}{dy}h{length}")
            }
        };
        at = Some((x + length, y));
    }
    path
}

/// Names and colours below a chart.
struct Legend {
    /// Line, position, name and colour of each entry.
    entries: Vec<(u32, u32, String, String)>,
    lines: u32,
}

impl Legend {
    fn of<'a>(names: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let (mut entries, mut line, mut x) = (Vec::new(), 0, LEFT);
        for (name, colour) in names {
            // About 7 units for a character of 13 units' height.
            let width = 26 + 7 * name.chars().count() as u32;
            if x > LEFT && x + width > WIDTH - RIGHT {
                (line, x) = (line + 1, LEFT);
            }
            entries.push((line, x, name.to_owned(), colour.to_owned()));
            x += width;
        }
        Self { lines: if entries.is_empty() { 0 } else { line + 1 }, entries }
    }

    fn height(&self) -> u32 {
        self.lines * LEGEND_LINE
    }

    fn draw(&self, frame: &mut Frame) {
        for (line, x, name, colour) in &self.entries {
            let y = frame.height + line * LEGEND_LINE + 12;
            let name = escape(name);
            frame.push(format_args!(
                "<g class=\"key\" data-name=\"{name}\"><path d=\"M{x} {}h14\" stroke=\"{colour}\" stroke-width=\"5\"/><text x=\"{}\" y=\"{y}\">{name}</text></g>",
                y - 4,
                x + 18
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_have_different_colours() {
        let colours: BTreeSet<String> = (0..300).map(colour).collect();
        assert_eq!(colours.len(), 300);
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let axis = Axis::of([3.0, 47.0, 0.0].into_iter(), false);
        assert_eq!(axis.ticks, [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        let axis = Axis::of([0.3, 47.0].into_iter(), true);
        assert_eq!((axis.from, axis.to), (0.1, 100.0));
        assert!((axis.position(1.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!([0.1, 2.5, 1000.0, 0.0, 25e3].map(label), ["0.1", "2.5", "1000", "0", "25k"]);
    }

    #[test]
    fn a_chart_without_values_is_drawn() {
        let mut chart = Chart::new("time, s", "MB/s", 300).log_x();
        chart.add("nothing", colour(0), Mark::Line, Vec::new());
        chart.add("zero", colour(1), Mark::Dots, vec![(0.0, 0.0), (1.0, f64::NAN)]);
        assert!(chart.svg().ends_with("</svg>"));
        assert!(Chart::new("x", "y", 300).svg().contains("viewBox"));
    }

    #[test]
    fn a_pixel_holds_one_point_of_a_series() {
        assert_eq!(dots([(5, 9), (5, 9), (7, 3), (5, 9)].into_iter(), 0), "M4 8h0m2-6h0");
        assert_eq!(line([(0, 1), (1, 1), (2, 1), (2, 5)].into_iter()), "M0 1L2 1L2 5");
    }

    #[test]
    fn the_size_depends_on_the_area() {
        let mut chart = Chart::new("x", "y", 300);
        let points =
            (0..1_000_000).map(|n| (f64::from(n), f64::from((i64::from(n) * 7919 % 1000) as i32))).collect();
        chart.add("many", colour(0), Mark::Dots, points);
        assert!(chart.svg().len() < 1 << 20, "{}", chart.svg().len());
    }

    #[test]
    fn shared_axes_cover_the_points_of_all_charts() {
        let mut charts = [Chart::new("x", "y", 300), Chart::new("x", "y", 300), Chart::new("x", "y", 300)];
        charts[0].add("short", colour(0), Mark::Line, vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN)]);
        charts[1].add("long", colour(0), Mark::Line, vec![(0.0, 100.0), (50.0, 1.0)]);
        assert!(charts[0].svg().contains(">2</text>") && !charts[0].svg().contains(">100</text>"));
        share_axes(charts.iter_mut());
        for chart in charts {
            let svg = chart.svg();
            assert!(svg.contains(">50</text>") && svg.contains(">100</text>"), "{svg}");
        }
    }

    #[test]
    fn bands_are_joined_and_short_ones_are_left_out() {
        let mut chart = Chart::new("x", "y", 300);
        chart.add("line", colour(0), Mark::Line, vec![(0.0, 1.0), (100.0, 2.0)]);
        chart.shade(vec![(0.0, 10.0), (10.0, 20.0), (50.0, 60.0), (80.0, 80.01)]);
        let svg = chart.svg();
        let band = svg.split("class=\"band\" d=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert_eq!(band.matches('M').count(), 2, "{band}");
    }

    #[test]
    fn names_are_escaped() {
        let mut chart = Chart::new("<x>", "y", 300);
        chart.add("a<b", colour(0), Mark::Line, vec![(0.0, 1.0)]);
        assert!(!chart.svg().contains("a<b") && chart.svg().contains("&lt;x&gt;"));
    }
}
