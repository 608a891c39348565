//! One workload under many schedulers. The results go to Python as JSON.

use elevator::Span;
use elevator::queue::{Identity, Limits, Options};
use evaluation::device::Device;
use evaluation::input::Opened;
use evaluation::runs::{Plan, Run, one, run, share_limit};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use schedulers::Spec;
use serde_json::{Value, json};

use crate::background::in_background;
use crate::error::{contained, input};
use crate::objects::open_device;
use crate::policy::{self, Verify, catching};
use crate::trace::Trace;

/// Runs `trace` under each scheduler (a name, or a callable that makes a policy) and returns JSON.
#[pyfunction]
#[pyo3(signature = (trace, schedulers, drive, *, array, depth, nr_requests, identity, open, at_most_ns))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn compare(
    py: Python<'_>,
    trace: &Bound<'_, Trace>,
    schedulers: Vec<Bound<'_, PyAny>>,
    drive: &str,
    array: Option<&str>,
    depth: Option<u32>,
    nr_requests: u32,
    identity: &str,
    open: bool,
    at_most_ns: Option<u64>,
) -> PyResult<String> {
    let entries = schedulers.iter().map(Entry::of).collect::<PyResult<Vec<_>>>()?;
    let device = contained(|| open_device(drive, array))?;
    let specs = entries.iter().map(|entry| entry.spec(&device)).collect::<PyResult<Vec<_>>>()?;
    let options = options(&device, depth, nr_requests, identity)?;
    let trace = trace.get();
    let opened = in_background(py, || trace.open(device.capacity(), open))?;
    let plan = |schedulers| Plan {
        workload: &*opened.workload,
        device: &device,
        schedulers,
        options,
        before: Span::ZERO,
        at_most: at_most_ns.map(Span::from_nanos),
        chart_requests: 0,
        explain: None,
    };
    let is_native = |entry: &Entry| entry.factory.is_none();
    let native: Vec<Spec> = entries
        .iter()
        .zip(&specs)
        .filter(|(entry, _)| is_native(entry))
        .map(|(_, spec)| spec.clone())
        .collect();
    let mut native = match native.is_empty() {
        true => Vec::new(),
        false => in_background(py, || run(&plan(&native), &|_| ()).map_err(input))?,
    }
    .into_iter();
    let mut runs = Vec::new();
    for (entry, spec) in entries.iter().zip(&specs) {
        runs.extend(match &entry.factory {
            None => native.next(),
            Some(factory) => {
                let made = || one(&plan(std::slice::from_ref(spec)), spec, &mut |_| None).map_err(input);
                let run = catching(factory.clone_ref(py), Verify::Here, made)?;
                py.check_signals()?;
                if let Some(fault) =
                    run.failure.as_ref().filter(|failure| failure.starts_with("the scheduler "))
                {
                    let name = &entry.name;
                    return Err(crate::error::policy(format!(
                        "policy {name}: {}",
                        fault.replacen("the scheduler", "it", 1)
                    )));
                }
                Some(Run { scheduler: entry.name.clone(), ..run })
            }
        });
    }
    share_limit(&mut runs);
    tell_apart(&mut runs);
    Ok(results(&device, &options, &opened, &runs).to_string())
}

/// Numbers the runs of schedulers with one name: policies may have any.
fn tell_apart(runs: &mut [Run]) {
    for last in (1..runs.len()).rev() {
        let before = runs[..last].iter().filter(|run| run.scheduler == runs[last].scheduler).count();
        if before > 0 {
            runs[last].scheduler += &format!(" ({})", before + 1);
        }
    }
}

/// A scheduler of the comparison.
struct Entry {
    name: String,
    factory: Option<Py<PyAny>>,
}

impl Entry {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(name) = object.extract::<String>() {
            return Ok(Self { name, factory: None });
        }
        if object.is_callable() {
            return Ok(Self { name: policy::name_of(object)?, factory: Some(object.clone().unbind()) });
        }
        let kind = object.get_type().name()?;
        Err(PyTypeError::new_err(format!(
            "schedulers: {kind} is no scheduler; use a name, a dwell.Scheduler, or a class derived from dwell.Policy"
        )))
    }

    fn spec(&self, device: &Device) -> PyResult<Spec> {
        if self.factory.is_some() {
            return Ok(Spec::of(&policy::LISTING));
        }
        let spec = Spec::parse(&self.name).map_err(input)?;
        let spec =
            spec.at_the_block().map_err(|error| input(format!("{}; 'dwell run' has them", error.kind)))?;
        if spec.listing().needs_array() && device.array().is_none() {
            return Err(input(format!(
                "{spec} coordinates the members of an array; give the drive an array, or use stream(...)"
            )));
        }
        Ok(spec)
    }
}

fn options(device: &Device, depth: Option<u32>, nr_requests: u32, identity: &str) -> PyResult<Options> {
    let identity = match identity {
        "shown" => Identity::Shown,
        "hidden" => Identity::Hidden,
        "same" => Identity::Same,
        other => return Err(input(format!("identity '{other}' is none of shown, hidden, same"))),
    };
    if depth == Some(0) || nr_requests == 0 {
        return Err(input("depth and nr_requests must be at least 1"));
    }
    if let Some(note) = depth.and_then(|depth| device.depth_note(depth)) {
        return Err(input(format!("{note}, the default")));
    }
    let depth = depth.unwrap_or_else(|| device.depth());
    let limits = Limits { nr_requests, ..Limits::default() };
    Ok(Options { depth, identity, limits, ..Options::default() })
}

fn results(device: &Device, options: &Options, opened: &Opened, runs: &[Run]) -> Value {
    let described = |run: &Run| {
        let mut value = json!(run);
        value["mb_per_s"] = json!(run.measured.megabytes_per_second());
        value["of_limit"] = json!(run.of_limit());
        value["has_head"] = json!(run.has_head);
        value["distributions"] = json!(run.distributions);
        value
    };
    let notes: Vec<&String> = opened.notes.iter().chain(&opened.missing).chain(device.notes()).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "workload": opened.workload.describe(),
        "drive": device.describe(),
        "depth": options.depth,
        "by_time": opened.by_time,
        "notes": notes,
        "runs": runs.iter().map(described).collect::<Vec<_>>(),
    })
}
