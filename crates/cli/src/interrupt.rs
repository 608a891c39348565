//! Ctrl-C: once asks everything to stop early and print what it has, twice ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// From now on, Ctrl-C is noticed instead of fatal.
pub(crate) fn listen() {
    // A second handler cannot be installed; whoever did it first listens for both.
    let _ = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(crate::error::INTERRUPTED.into());
        }
    });
}

/// Whether somebody asked to stop.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
