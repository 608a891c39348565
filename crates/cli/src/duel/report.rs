//! `--report`: one HTML file that opens offline, with a table and a picture for each comparison.

use plotly::common::{ErrorData, ErrorType, Marker, Mode, Title};
use plotly::layout::{Axis, Layout};
use plotly::{Bar, Plot, Scatter};

use super::comparison::Comparison;
use super::table;
use crate::page::{Page, escape};

/// The whole report.
pub(crate) fn html(drive: &str, kernel: &str, comparisons: &[Comparison]) -> String {
    let mut page = Page::new(&format!("The kernel's schedulers and Dwell's on {drive}"));
    page.note(&format!(
        "{kernel}; real programs, real system calls, an emulated drive in real time. Medians; the longest wait is that of all runs."
    ));
    for comparison in comparisons {
        page.write(format_args!("<h2>{}</h2>", escape(&comparison.title())));
        let best = table::best(comparison);
        let rows = comparison.ranked().into_iter().map(|entry| ("", table::cells(comparison, entry, best)));
        page.table(&table::heads(comparison), rows);
        page.plot(360, &picture(comparison));
    }
    page.end("")
}

/// Bars from the least to the greatest with the median on top, and a mark where the model says it should be.
fn picture(comparison: &Comparison) -> Plot {
    let ranked = comparison.ranked();
    let names: Vec<String> = ranked.iter().map(|entry| table::name(comparison, entry)).collect();
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
    plot.set_layout(Layout::new().y_axis(Axis::new().title(Title::with_text(comparison.unit()))));
    plot
}
