//! Threads that work for one consumer.

use std::thread;

/// How much higher the niceness of a helper is than that of its creator.
#[cfg(target_os = "linux")]
const NICER: i32 = 5;

/// Starts a thread whose results another thread consumes. On Linux the helper is a little nicer than its creator: with more threads than processors the
/// consumer, which all helpers wait for in the end, would otherwise wait for a processor a fifth of its time.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        be_nicer();
        work();
    });
}

#[cfg(target_os = "linux")]
fn be_nicer() {
    let thread = Some(rustix::thread::gettid());
    // An error only costs time.
    let niceness = rustix::process::getpriority_process(thread);
    let _ = niceness.and_then(|now| rustix::process::setpriority_process(thread, now + NICER));
}

#[cfg(not(target_os = "linux"))]
fn be_nicer() {}
