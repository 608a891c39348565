//! Exceptions. The classes are Python's (`dwell._errors`), so that they can have several bases.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;

fn exception(class: &str, text: String) -> PyErr {
    Python::attach(|py| {
        let made = py.import("dwell._errors").and_then(|module| module.getattr(class)?.call1((text,)));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

/// `dwell.InputError`: an argument or file is wrong. The text names what, where and what to do.
pub(crate) fn input(text: impl ToString) -> PyErr {
    exception("InputError", text.to_string())
}

/// `dwell.PolicyError`: a policy written in Python violated the contract.
pub(crate) fn policy(text: impl ToString) -> PyErr {
    exception("PolicyError", text.to_string())
}

/// `dwell.InternalError`: a defect of this library.
pub(crate) fn internal(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    exception(
        "InternalError",
        format!("dwell has a defect: {text}; please report it with the call that led to it"),
    )
}

/// Calls `work`; a panic in it becomes an exception.
pub(crate) fn contained<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(internal(&*panic)))
}
