//! The request to stop early. A command's Ctrl-C handler sets it; runs check it and return what they have measured so far.
//!
//! A program that makes several calls at the same time gives each a flag of its own with [`with`].

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static OWN: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Requests a stop; returns whether a stop had been requested before.
pub fn request() -> bool {
    REQUESTED.swap(true, Ordering::Relaxed)
}

/// Whether a stop was requested, of all calls or of the present one.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
        || OWN.with_borrow(|own| own.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)))
}

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail with EFBIG. Without a handler of SIGXFSZ it ends the program without a message.
pub fn survive_file_limit() {
    // A handler and not SIG_IGN, which programs that this one starts would inherit. If it fails, the program ends as before.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::default());
}

/// Calls `work`; in it, and in the threads that it starts for its runs, a set `flag` is a request to stop.
pub fn with<T>(flag: Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    let before = OWN.replace(Some(flag));
    let result = work();
    OWN.set(before);
    result
}

/// The flag of the present call, for a thread that works for it.
pub(crate) fn own() -> Option<Arc<AtomicBool>> {
    OWN.with_borrow(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::in_parallel;

    #[test]
    fn a_flag_stops_the_threads_of_one_call_only() {
        let flag = Arc::new(AtomicBool::new(true));
        let stopped = with(flag, || in_parallel(8, |_| requested()));
        assert_eq!(stopped, [true; 8]);
        assert_eq!(in_parallel(8, |_| requested()), [false; 8]);
    }
}
