//! Helpers of long tests: their length, and parallel execution.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number from the environment.
pub fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs `work`; its error, or its panic, is prefixed with `what`.
pub fn about<T>(what: impl Display, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let found = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("it panicked".to_owned()));
    found.map_err(|found| format!("{what}: {found}"))
}

/// Runs `work` for each of `items`, in parallel on all processors; panics with the errors.
pub fn each<T: Sync>(items: &[T], work: impl Fn(&T) -> Result<(), String> + Sync) {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(found) = work(item) {
                failures.lock().unwrap().push(found);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), items.len(), failures.join("\n"));
}
