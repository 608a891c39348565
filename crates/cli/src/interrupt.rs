//! Ctrl-C: the first stops runs early, and the command prints the results so far; the second ends the program, unless the command must
//! restore settings of the machine.

pub(crate) use evaluation::interrupt::{requested, survive_file_limit};

/// Installs the handler. `twice_ends`: a second Ctrl-C ends the program at once.
pub(crate) fn listen(twice_ends: bool) {
    // Fails only if a handler is installed already, which then does the same.
    let _ = ctrlc::set_handler(move || {
        if evaluation::interrupt::request() && twice_ends {
            std::process::exit(crate::error::INTERRUPTED.into());
        }
    });
}
