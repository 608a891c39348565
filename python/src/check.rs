//! The checker for policies written in Python.

use elevator::Scheduler;
use elevator::check_policy::PolicyFailure;
use elevator::model::Config;
use elevator::queue::Plugging;
use elevator::text::counted;
use pyo3::prelude::*;

use crate::error;
use crate::policy::{PythonPolicy, Verify, catching, name_of};

/// Most violations in a message.
const SHOWN: usize = 10;

/// Runs policies that `factory` makes through random operations in eight settings of the queue.
#[pyfunction]
pub(crate) fn check_policy(
    py: Python<'_>,
    factory: Py<PyAny>,
    operations: u64,
    seed: u64,
) -> PyResult<Vec<(u64, u64)>> {
    let name = name_of(factory.bind(py))?;
    catching(factory, Verify::Checker, || {
        let mut make = || Box::new(PythonPolicy::new()) as Box<dyn Scheduler>;
        let reports = elevator::check_policy::check_policy(operations, seed, &mut make);
        let reports = reports.map_err(|failure| error::policy(text(&name, &failure)))?;
        Ok(reports.iter().map(|report| (report.finished, report.longest_wait.as_nanos())).collect())
    })
}

/// The first violations, and in which setting.
fn text(name: &str, PolicyFailure { config, failure }: &PolicyFailure) -> String {
    let mut lines = vec![format!("policy {name}: {}", counted(failure.violations, "violation"))];
    lines.extend(failure.first.iter().take(SHOWN).cloned());
    let Config { operations, options, most, faults, switches, directs, service, .. } = &**config;
    let (plug, delay) = match options.plugging {
        Plugging::None => ("none".to_owned(), None),
        Plugging::Queue { delay, .. } => (format!("of the queue, up to {delay}"), Some(delay)),
        _ => ("of a process".to_owned(), None),
    };
    let also =
        [(*faults, "failing requests"), (*switches, "switches of the scheduler"), (*directs, "directives")];
    let also: Vec<&str> = also.into_iter().filter_map(|(is_on, name)| is_on.then_some(name)).collect();
    lines.push(format!(
        "in the setting: depth {}, at most {most} requests at once and {} queued, processes {}, plug {plug}, barriers {}, also {}; {operations} \
         operations, seed {}",
        options.depth,
        options.limits.nr_requests,
        format!("{:?}", options.identity).to_lowercase(),
        format!("{:?}", options.barriers).to_lowercase(),
        if also.is_empty() { "nothing".to_owned() } else { also.join(", ") },
        failure.seed,
    ));
    if failure.first.iter().any(|line| line.contains("longer than the policy's bound")) {
        let plug = delay.map_or_else(String::new, |delay| format!(", and {delay} for the queue's plug"));
        lines.push(format!("the bound is longest_wait() plus {service} for a flush in the device{plug}"));
    }
    lines.join("\n  ")
}
