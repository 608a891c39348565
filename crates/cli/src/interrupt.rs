//! Ctrl-C: once asks everything to stop early and print what it has, twice ends the program, unless it has something of the
//! machine to put back.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// From now on, Ctrl-C is noticed instead of fatal; a second one is fatal where that leaves nothing behind (`twice_ends`).
pub(crate) fn listen(twice_ends: bool) {
    // A second handler cannot be installed; whoever did it first listens for both.
    let _ = ctrlc::set_handler(move || {
        if REQUESTED.swap(true, Ordering::Relaxed) && twice_ends {
            std::process::exit(crate::error::INTERRUPTED.into());
        }
    });
}

/// Whether somebody asked to stop.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
