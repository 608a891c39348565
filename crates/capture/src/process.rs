//! Which process a note means, that others find when it may be gone: its number, and when it started, as numbers are used again.

use std::fs;

/// This process, as its notes name it: its number, and when it started.
#[must_use]
pub fn this_process() -> (u32, u64) {
    let pid = std::process::id();
    (pid, start_time(pid).unwrap_or(0))
}

/// Whether the process that began then still lives.
#[must_use]
pub fn is_process(pid: u32, started: u64) -> bool {
    start_time(pid) == Some(started)
}

/// When a process started, in clock ticks since boot: field 22 of its `stat`.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}
