//! Charts of the reports, as SVG.

use evaluation::report::chart::{Bar, Chart, Mark, bars as bar_chart, colour};
use pyo3::prelude::*;

use crate::error::contained;

/// Lines: `series` has a name and points each.
#[pyfunction]
#[pyo3(signature = (x_label, y_label, series, *, log_x=false, dots=false, height=380))]
pub(crate) fn lines(
    x_label: &str,
    y_label: &str,
    series: Vec<(String, Vec<(f64, f64)>)>,
    log_x: bool,
    dots: bool,
    height: u32,
) -> PyResult<String> {
    contained(|| {
        let chart = Chart::new(x_label, y_label, height);
        let mut chart = if log_x { chart.log_x() } else { chart };
        let mark = if dots { Mark::Dots } else { Mark::Line };
        for (n, (name, points)) in series.into_iter().enumerate() {
            let points = points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite());
            chart.add(&name, colour(n), mark, points.collect());
        }
        Ok(chart.svg())
    })
}

/// Horizontal bars: a name, a value, and the name and value of a further mark.
#[pyfunction]
#[pyo3(signature = (label, values, *, mark_name="", marks=None))]
pub(crate) fn bars(
    label: &str,
    values: Vec<(String, f64)>,
    mark_name: &str,
    marks: Option<Vec<Option<f64>>>,
) -> PyResult<String> {
    contained(|| {
        let marks = marks.unwrap_or_default();
        let bar = |(n, (name, value))| Bar {
            name,
            value,
            range: (value, value),
            mark: marks.get(n).copied().flatten(),
        };
        Ok(bar_chart(label, mark_name, &values.into_iter().enumerate().map(bar).collect::<Vec<_>>()))
    })
}
