//! The end of the interpreter while daemon threads execute this library.
//!
//! Python before 3.14 ends such a thread with `pthread_exit` when the thread next takes the GIL. That unwinds through the frames of Rust, whose
//! `catch_unwind` aborts the process. So the interpreter requests the end of these calls before it finalises itself, and waits for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;

/// Limit of the wait. Calls end within 50 ms, unless a method of a policy does not return.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The thread that ends the interpreter. Its own calls, in later functions of `atexit`, are not ended.
static ENDING: OnceLock<ThreadId> = OnceLock::new();
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// A call that releases the GIL, or executes Python code, between frames of Rust. Dropped by the thread that has the GIL.
pub(crate) struct Call(());

impl Call {
    pub(crate) fn begin() -> Self {
        CALLS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// # Errors
/// Another thread ends the interpreter. `threading` prints nothing about this exception.
pub(crate) fn check() -> PyResult<()> {
    match ENDING.get() {
        Some(thread) if *thread != thread::current().id() => {
            Err(PySystemExit::new_err("the interpreter ends"))
        }
        _ => Ok(()),
    }
}

/// Ends the calls of other threads.
#[pyfunction]
fn end_calls(py: Python<'_>) {
    ENDING.get_or_init(|| thread::current().id());
    py.detach(|| {
        let begin = Instant::now();
        while CALLS.load(Ordering::SeqCst) > 0 && begin.elapsed() < WAIT_MAX {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Has [`end_calls`] called before the interpreter ends.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let at_exit = module.py().import("atexit")?;
    at_exit.call_method1("register", (wrap_pyfunction!(end_calls, module)?,)).map(drop)
}
