//! The terminal that standard output or standard error may be.

use std::os::fd::AsFd;

/// How many characters a line of it holds; `None` where it is a file, a pipe, or does not say.
pub(crate) fn width(of: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(of).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}
