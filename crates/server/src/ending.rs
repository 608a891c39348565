//! Signals that request the end, as the server and its supervisor count them.

use std::time::{Duration, Instant};

/// The signals that request the end. One that arrives within a second of the first is part of the same request, and not the second one that gives up
/// on the users of the device: timeout(1) signals its child, and then its process group with the child in it.
#[derive(Default)]
pub(crate) struct Requests(Option<Instant>);

impl Requests {
    const ONE: Duration = Duration::from_secs(1);

    /// A signal arrived; `None` if it is part of the first request, otherwise whether it is a second one.
    pub(crate) fn add(&mut self) -> Option<bool> {
        let is_second = self.0.is_some();
        let first = *self.0.get_or_insert_with(Instant::now);
        (!is_second || first.elapsed() >= Self::ONE).then_some(is_second)
    }
}

/// Whether this process was started with the signal ignored, as `nohup` does.
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeroes are a valid action, of which a pointer is good for the call.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is changed; the present action is written to `action`.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}
