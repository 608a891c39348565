//! Work without the GIL: on a thread of its own, while the caller's thread handles signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use evaluation::interrupt;
use pyo3::prelude::*;

use crate::error::internal;

/// Upper bound for the time from Ctrl-C to the exception, besides one event of each run.
const POLL: Duration = Duration::from_millis(50);

/// Calls `work` without the GIL. Ctrl-C sets the flag that [`interrupt::requested`] reads in `work` and in the threads that it starts;
/// other calls at the same time are unaffected.
pub(crate) fn in_background<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> PyResult<T> + Send,
) -> PyResult<T> {
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
                if let Err(signal) = Python::attach(|py| py.check_signals()) {
                    stop.store(true, Ordering::Relaxed);
                    interrupted = Some(signal);
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
