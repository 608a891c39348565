//! The checker for policies written in Python.

use elevator::Scheduler;
use pyo3::prelude::*;

use crate::error;
use crate::policy::{PythonPolicy, Verify, catching};

/// Runs policies that `factory` makes through random operations in eight settings of the queue.
#[pyfunction]
pub(crate) fn check_policy(factory: Py<PyAny>, operations: u64, seed: u64) -> PyResult<Vec<(u64, u64)>> {
    catching(factory, Verify::Checker, || {
        let mut make = || Box::new(PythonPolicy::new()) as Box<dyn Scheduler>;
        let reports = elevator::check_policy::check_policy(operations, seed, &mut make);
        let reports = reports.map_err(error::policy)?;
        Ok(reports.iter().map(|report| (report.finished, report.longest_wait.as_nanos())).collect())
    })
}
