//! The terminal that standard output may be.

/// How many characters a line of it holds; `None` where it is a file, a pipe, or does not say.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}
