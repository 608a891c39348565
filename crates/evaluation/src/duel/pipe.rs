//! Messages between a helper process and its parent, over standard input and output.

use std::io::{self, Read, Write};

use serde::Serialize;

use crate::duel::DuelError;

/// Ignores Ctrl-C: the process ends when its parent ends.
pub(crate) fn ignore_signals() -> Result<(), DuelError> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let ignored = std::sync::Arc::default();
        signal_hook::flag::register(signal, ignored).map_err(DuelError::io("ignoring signals"))?;
    }
    Ok(())
}

/// Waits until standard input closes, which happens when the parent ends.
pub(crate) fn wait_for_end() {
    let mut input = io::stdin().lock();
    while matches!(input.read(&mut [0; 64]), Ok(1..)) {}
}

/// Waits for one line, the start signal.
pub(crate) fn wait_for_start() -> io::Result<()> {
    io::stdin().read_exact(&mut [0])
}

/// Sends a line to the parent.
pub(crate) fn send<T: Serialize>(what: &Result<T, String>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, what)?;
    out.write_all(b"\n")?;
    out.flush()
}
