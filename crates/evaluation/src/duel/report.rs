//! `--report`: one HTML file that opens offline, with a table and a chart for each comparison.

use crate::duel::comparison::{Comparison, Entry};
use crate::duel::table;
use crate::report::chart::{Bar, bars};
use crate::report::format::escape;
use crate::report::page::Page;

/// The whole report.
pub fn html(drive: &str, kernel: &str, comparisons: &[Comparison]) -> String {
    let mut page = Page::new(&format!("The kernel's schedulers and Dwell's on {drive}"));
    page.note(&format!(
        "{kernel}; real programs and system calls on a drive that is emulated in real time. Values are medians; the longest wait is the longest of all runs."
    ));
    for comparison in comparisons {
        page.write(format_args!("<h2>{}</h2>", escape(&comparison.title())));
        let best = table::best(comparison);
        let rows = comparison.ranked().into_iter().map(|entry| ("", table::cells(comparison, entry, best)));
        page.table(&table::heads(comparison), rows);
        page.svg(&chart(comparison));
    }
    page.end("")
}

/// Bars of the median with the range from minimum to maximum, and a dot at the prediction.
fn chart(comparison: &Comparison) -> String {
    let bar = |entry: &&Entry| {
        let score = comparison.score(entry);
        Bar {
            name: table::name(comparison, entry),
            value: score.median,
            range: (score.least, score.greatest),
            mark: comparison.predicted_score(entry),
        }
    };
    let all: Vec<Bar> = comparison.ranked().iter().map(bar).collect();
    bars(comparison.unit(), "model", &all)
}
