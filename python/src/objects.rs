//! The objects that a policy written in Python receives and returns, and lists of drives and schedulers.

use ::schedulers::{Listing, Spec, registry};
use elevator::{PriorityClass, Tunable};
use evaluation::device::Device;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt};

use crate::error::{contained, input};

/// A queued request. Times are nanoseconds of virtual time, lengths are sectors of 512 bytes.
#[pyclass(frozen, eq, hash, module = "dwell")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    /// The number of the request while it is queued; a later request may get it again.
    #[pyo3(get)]
    id: u32,
    /// The order of creation.
    #[pyo3(get)]
    serial: u64,
    /// "read", "write" or "discard".
    #[pyo3(get)]
    op: &'static str,
    /// The first sector.
    #[pyo3(get)]
    start: u64,
    /// The length in sectors.
    #[pyo3(get)]
    sectors: u32,
    /// The sector behind the last one.
    #[pyo3(get)]
    end: u64,
    /// Whether a process waits for it.
    #[pyo3(get)]
    sync: bool,
    /// Read-ahead.
    #[pyo3(get)]
    ahead: bool,
    /// The process, or None if it is unknown.
    #[pyo3(get)]
    process: Option<u32>,
    /// The I/O priority: class ("realtime", "best-effort", "idle") and level (0 is the highest).
    #[pyo3(get)]
    priority: (&'static str, u8),
    /// When it entered the queue.
    #[pyo3(get)]
    arrived: u64,
}

impl From<&elevator::Request> for Request {
    fn from(request: &elevator::Request) -> Self {
        let class = match request.priority.class {
            PriorityClass::RealTime => "realtime",
            PriorityClass::BestEffort => "best-effort",
            PriorityClass::Idle => "idle",
        };
        let op = match request.op {
            elevator::Op::Read => "read",
            elevator::Op::Write => "write",
            elevator::Op::Discard => "discard",
            elevator::Op::Flush => "flush",
        };
        Self {
            id: request.id.0,
            serial: request.serial,
            op,
            start: request.start.0,
            sectors: request.sectors.0,
            end: request.end().0,
            sync: request.is_sync(),
            ahead: request.flags.ahead,
            process: request.process.map(|process| process.task),
            priority: (class, request.priority.level),
            arrived: request.arrived.as_nanos(),
        }
    }
}

#[pymethods]
impl Request {
    fn __repr__(&self) -> String {
        let Self { id, op, start, sectors, .. } = self;
        format!("Request(id={id}, op='{op}', start={start}, sectors={sectors})")
    }
}

/// How a queued request grew.
#[pyclass(frozen, module = "dwell")]
pub(crate) struct Growth {
    /// The former first sector.
    #[pyo3(get)]
    was_start: u64,
    /// The former length in sectors.
    #[pyo3(get)]
    was_sectors: u32,
    /// The id of the queued request that was absorbed and has ended, or None.
    #[pyo3(get)]
    absorbed: Option<u32>,
}

impl From<&elevator::Growth<'_>> for Growth {
    fn from(growth: &elevator::Growth<'_>) -> Self {
        let absorbed = growth.absorbed.map(|request| request.id.0);
        Self { was_start: growth.was_start.0, was_sectors: growth.was_sectors.0, absorbed }
    }
}

/// The device at the time of a decision.
#[pyclass(frozen, module = "dwell")]
pub(crate) struct View {
    /// The number of requests that the device accepts at once.
    #[pyo3(get)]
    depth: u32,
    /// The number of requests that the device has now.
    #[pyo3(get)]
    in_flight: u32,
    /// The sector behind the last dispatched request, or None before the first.
    #[pyo3(get)]
    head: Option<u64>,
}

impl From<&elevator::View<'_>> for View {
    fn from(view: &elevator::View<'_>) -> Self {
        let elevator::Device { depth, in_flight, last_dispatched, .. } = view.device;
        Self { depth, in_flight, head: last_dispatched.map(|last| last.end.0) }
    }
}

/// The decision to send a request (or its id) to the device. `reason` appears in decision logs.
#[pyclass(frozen, module = "dwell")]
pub(crate) struct Dispatch {
    #[pyo3(get)]
    pub(crate) id: u32,
    #[pyo3(get)]
    pub(crate) reason: String,
}

#[pymethods]
impl Dispatch {
    #[new]
    #[pyo3(signature = (request, reason=None), text_signature = "(request, reason='first come')")]
    fn new(request: &Bound<'_, PyAny>, reason: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self { id: request_id(request)?, reason: text("Dispatch", "reason", reason, "first come")? })
    }

    fn __repr__(&self) -> String {
        format!("Dispatch({}, reason='{}')", self.id, self.reason)
    }
}

/// Whether an argument is a whole number; True and False are none.
fn is_number(given: &Bound<'_, PyAny>) -> bool {
    given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>()
}

/// The id of a request, or an id itself.
pub(crate) fn request_id(request: &Bound<'_, PyAny>) -> PyResult<u32> {
    if let Ok(request) = request.cast::<Request>() {
        return Ok(request.get().id);
    }
    let id = if is_number(request) { request.extract().ok() } else { None };
    id.ok_or_else(|| match request.get_type().name() {
        _ if is_number(request) => {
            input(format!("Dispatch: request={request} is no id; ids are from 0 to 2^32 - 1"))
        }
        Ok(kind) => PyTypeError::new_err(format!("Dispatch: request is {kind}; give a Request or its id")),
        Err(error) => error,
    })
}

/// An argument that is text, or its default.
fn text(of: &str, name: &str, given: Option<&Bound<'_, PyAny>>, default: &str) -> PyResult<String> {
    let Some(given) = given else { return Ok(default.to_owned()) };
    let Ok(text) = given.extract() else {
        let kind = given.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{of}: {name} is {kind}; give text")));
    };
    Ok(text)
}

/// The decision to leave the device idle although requests are queued. It ends at `until` (nanoseconds of virtual time), and at every
/// event. `until=None` waits for a completion, and needs a request in flight.
#[pyclass(frozen, module = "dwell")]
pub(crate) struct Hold {
    #[pyo3(get)]
    pub(crate) until: Option<u64>,
    #[pyo3(get)]
    pub(crate) reason: String,
}

#[pymethods]
impl Hold {
    #[new]
    #[pyo3(signature = (until, reason=None), text_signature = "(until, reason='waits')")]
    fn new(until: Option<&Bound<'_, PyAny>>, reason: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let until = until.map(|until| match until.extract::<u64>() {
            Ok(number) if !until.is_instance_of::<PyBool>() => Ok(number),
            Err(_) if is_number(until) => {
                Err(input(format!("Hold: until={until} is no time; virtual time is from 0 to 2^64 - 1 ns")))
            }
            _ => {
                let kind = until.get_type().name()?;
                Err(PyTypeError::new_err(format!(
                    "Hold: until is {kind}; give nanoseconds of virtual time as a whole number, or None"
                )))
            }
        });
        Ok(Self { until: until.transpose()?, reason: text("Hold", "reason", reason, "waits")? })
    }

    fn __repr__(&self) -> String {
        let until = self.until.map_or_else(|| "None".to_owned(), |until| until.to_string());
        format!("Hold({until}, reason='{}')", self.reason)
    }
}

/// The built-in drives: name and summary.
#[pyfunction]
pub(crate) fn drives() -> Vec<(String, String)> {
    let named = |drive: disks::DriveDescription| (drive.name().to_owned(), drive.summary.clone());
    disks::catalogue::built_in().map(named).collect()
}

/// Facts about the drive that a name or file describes.
#[pyfunction]
pub(crate) fn drive<'py>(py: Python<'py>, name: &str, array: Option<&str>) -> PyResult<Bound<'py, PyDict>> {
    let device = contained(|| open_device(name, array))?;
    let facts = PyDict::new(py);
    facts.set_item("description", device.describe())?;
    facts.set_item("capacity", device.capacity().bytes())?;
    facts.set_item("depth", device.depth())?;
    facts.set_item("rotational", device.rotational())?;
    facts.set_item("notes", device.notes().to_vec())?;
    Ok(facts)
}

pub(crate) fn open_device(name: &str, array: Option<&str>) -> PyResult<Device> {
    let device = Device::open(name).map_err(input)?;
    match array {
        Some(array) => device.in_array(array).map_err(input),
        None => Ok(device),
    }
}

/// A tunable: name, default, least, greatest, documentation.
type TunableFacts = (&'static str, String, String, String, String);

/// Every scheduler: full name, one line about it, what it needs beside a drive ("array", "script", or None), and its tunables.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub(crate) fn schedulers() -> Vec<(String, &'static str, Option<&'static str>, Vec<TunableFacts>)> {
    let needs = |listing: &Listing| match (listing.needs_array(), listing.split) {
        (true, _) => Some("array"),
        (_, true) => Some("script"),
        _ => None,
    };
    let tunable = |t: &Tunable| {
        (t.name, t.default.to_string(), t.min.to_string(), t.max.to_string(), t.doc.trim().to_owned())
    };
    let one = |listing: &'static Listing| {
        let tunables = listing.tunables.iter().map(tunable).collect();
        (listing.full_name(), listing.about, needs(listing), tunables)
    };
    registry::all().map(one).collect()
}

/// The full name of a scheduler with settings.
#[pyfunction]
pub(crate) fn scheduler(text: &str, settings: Vec<(String, String)>) -> PyResult<String> {
    contained(|| {
        let mut spec = Spec::parse(text).map_err(input)?;
        for (name, value) in settings {
            if spec.sets(&name) {
                return Err(input(format!("'{name}' is set in '{text}' and as an argument; leave one out")));
            }
            spec = spec.with_tunable(&name, &value).map_err(input)?;
        }
        Ok(spec.to_string())
    })
}
