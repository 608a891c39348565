//! `--report`: one HTML file that opens offline, with a table and a picture for each comparison.

use std::fmt::Write as _;

use plotly::common::{ErrorData, ErrorType, Marker, Mode, Title};
use plotly::layout::{Axis, Layout};
use plotly::{Bar, Plot, Scatter};

use super::comparison::Comparison;
use super::table;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1c1c1c;background:#fff}\
    h1{font-size:1.35rem}h2{font-size:1.05rem;margin-top:2.4rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%;font-size:.85rem}\
    th,td{padding:.22rem .5rem;text-align:right;border-bottom:1px solid #8884}th:first-child,td:first-child{text-align:left}\
    .note,footer{color:#666}.scroll{overflow-x:auto}footer{margin-top:3rem;font-size:.8rem}";

/// The whole report.
pub(crate) fn html(drive: &str, kernel: &str, comparisons: &[Comparison]) -> String {
    let mut page = String::new();
    let title = format!("The kernel's schedulers and Dwell's on {drive}");
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style>{1}</head><body><h1>{0}</h1>",
        escape(&title),
        Plot::offline_js_sources()
    );
    let _ = write!(
        page,
        "<p class=note>{}; real programs, real system calls, an emulated drive in real time. Medians; the longest wait is that of all runs.</p>",
        escape(kernel)
    );
    for (n, comparison) in comparisons.iter().enumerate() {
        let _ = write!(page, "<h2>{}</h2>{}", escape(&comparison.title()), results(comparison));
        page.push_str(&picture(comparison).to_inline_html(Some(&format!("comparison-{n}"))));
    }
    let _ = write!(page, "<footer>dwell {}</footer></body></html>", env!("CARGO_PKG_VERSION"));
    page
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn results(comparison: &Comparison) -> String {
    let row = |cell: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|text| format!("<{cell}>{}</{cell}>", escape(text))).collect();
        format!("<tr>{cells}</tr>")
    };
    let best = table::best(comparison);
    let rows: String = comparison
        .ranked()
        .into_iter()
        .map(|entry| row("td", &table::cells(comparison, entry, best)))
        .collect();
    format!("<div class=scroll><table>{}{rows}</table></div>", row("th", &table::heads(comparison)))
}

/// Bars from the least to the greatest with the median on top, and a mark where the model says it should be.
fn picture(comparison: &Comparison) -> Plot {
    let ranked = comparison.ranked();
    let names: Vec<String> = ranked.iter().map(|entry| entry.scheduler.to_string()).collect();
    let scores: Vec<_> = ranked.iter().map(|entry| comparison.score(entry)).collect();
    let spread = ErrorData::new(ErrorType::Data)
        .array(scores.iter().map(|score| score.greatest - score.median).collect())
        .array_minus(scores.iter().map(|score| score.median - score.least).collect());
    let bars = Bar::new(names.clone(), scores.iter().map(|score| score.median).collect())
        .name("measured")
        .marker(Marker::new().color("#0072b2"))
        .error_y(spread);
    let (at, model): (Vec<String>, Vec<f64>) = ranked
        .iter()
        .zip(names)
        .filter_map(|(entry, name)| Some((name, comparison.predicted_score(entry)?)))
        .unzip();
    let mut plot = Plot::new();
    plot.add_trace(bars);
    plot.add_trace(
        Scatter::new(at, model)
            .name("model")
            .mode(Mode::Markers)
            .marker(Marker::new().color("#d55e00").size(11)),
    );
    plot.set_layout(Layout::new().height(360).y_axis(Axis::new().title(Title::with_text(comparison.unit()))));
    plot
}
