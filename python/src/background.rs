//! Work without the GIL: on a thread of its own, while the caller's thread handles signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use evaluation::interrupt;
use pyo3::prelude::*;

use crate::error::internal;
use crate::exit;

/// Upper bound for the time from Ctrl-C to the exception, besides one event of each run.
const POLL: Duration = Duration::from_millis(50);

/// Calls `work` without the GIL. Ctrl-C sets the flag that [`interrupt::requested`] reads in `work` and in the threads that it starts;
/// other calls at the same time are unaffected.
pub(crate) fn in_background<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> PyResult<T> + Send,
) -> PyResult<T> {
    in_background_until(py, None, work)
}

/// The same; a true result of `stopped`, which is called several times a second, is a request to stop, too.
pub(crate) fn in_background_until<T: Send>(
    py: Python<'_>,
    stopped: Option<&Py<PyAny>>,
    work: impl FnOnce() -> PyResult<T> + Send,
) -> PyResult<T> {
    exit::check()?;
    let _call = exit::Call::begin();
    let stop = Arc::new(AtomicBool::new(false));
    let (result, interrupted) = py.detach(|| {
        thread::scope(|scope| {
            let (done, ended) = mpsc::channel::<()>();
            let flag = Arc::clone(&stop);
            let worker = scope.spawn(move || {
                let _done = done; // Dropped at the end, also by a panic.
                interrupt::with(flag, work)
            });
            let mut interrupted = None;
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(POLL) {
                match Python::attach(|py| is_asked(py, stopped)) {
                    Ok(false) => {}
                    Ok(true) => stop.store(true, Ordering::Relaxed),
                    Err(error) => {
                        stop.store(true, Ordering::Relaxed);
                        interrupted = Some(error);
                    }
                }
            }
            (worker.join(), interrupted)
        })
    });
    match interrupted {
        Some(signal) => Err(signal),
        None => result.unwrap_or_else(|panic| Err(internal(&*panic))),
    }
}

fn is_asked(py: Python<'_>, stopped: Option<&Py<PyAny>>) -> PyResult<bool> {
    exit::check()?;
    py.check_signals()?;
    stopped.map_or(Ok(false), |stopped| stopped.bind(py).call0()?.is_truthy())
}
