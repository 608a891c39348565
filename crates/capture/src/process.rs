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

/// When a living process started, in clock ticks since boot: field 22 of its `stat`. One that was killed and that nobody has
/// asked about yet (a zombie, field 3) lives no more.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    fields.next().filter(|&state| !matches!(state, "Z" | "X"))?;
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_process_is_dead_before_its_parent_has_asked_about_it() {
        let (own, started) = this_process();
        assert!(is_process(own, started) && !is_process(own, started + 1));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (pid, started) = (child.id(), start_time(child.id()).unwrap());
        child.kill().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while is_process(pid, started) && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!is_process(pid, started));
        child.wait().unwrap();
    }
}
