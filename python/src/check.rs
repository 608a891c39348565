//! The checker for policies written in Python.

use elevator::check_policy::PolicyFailure;
use elevator::queue::Plugging;
use elevator::{Scheduler, Span};
use pyo3::prelude::*;

use crate::error;
use crate::policy::{PythonPolicy, Verify, catching};

/// Runs policies that `factory` makes through random operations in eight settings of the queue.
#[pyfunction]
pub(crate) fn check_policy(factory: Py<PyAny>, operations: u64, seed: u64) -> PyResult<Vec<(u64, u64)>> {
    catching(factory, Verify::Checker, || {
        let mut make = || Box::new(PythonPolicy::new()) as Box<dyn Scheduler>;
        let reports = elevator::check_policy::check_policy(operations, seed, &mut make);
        let reports = reports.map_err(|failure| error::policy(text(&failure)))?;
        Ok(reports.iter().map(|report| (report.finished, report.longest_wait.as_nanos())).collect())
    })
}

/// The violations; and what the model adds to the bound that the policy states.
fn text(failure: &PolicyFailure) -> String {
    let text = failure.to_string();
    if !text.contains("longer than the policy's bound") {
        return text;
    }
    let plug = match failure.config.options.plugging {
        Plugging::Queue { delay, .. } => delay,
        _ => Span::ZERO,
    };
    let service = failure.config.service;
    format!(
        "{text}\n  The bound is longest_wait() plus {service} for a flush in the device and {plug} for the queue's plug."
    )
}
