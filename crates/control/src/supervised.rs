//! Whether the server of a control socket is being restarted.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::process::Stat;

/// The process that was started to serve with this control socket (`--control`), if there is one. A supervisor has the arguments of
/// its servers, so while nothing listens on the socket this is a supervisor that is about to start the next one.
pub fn process_for(socket: &Path) -> Option<u32> {
    let socket = std::path::absolute(socket).ok()?;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A supervisor is older than its servers.
    pids.filter(|&pid| control_socket(pid).is_some_and(|found| found == socket))
        .min_by_key(|&pid| Stat::of(pid)?.started())
}

/// The control socket among a process's arguments.
fn control_socket(pid: u32) -> Option<PathBuf> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let given = argument(&line)?;
    if given.is_absolute() {
        return Some(given.to_path_buf());
    }
    Some(fs::read_link(format!("/proc/{pid}/cwd")).ok()?.join(given))
}

fn argument(line: &[u8]) -> Option<&Path> {
    let mut arguments = line.split(|&byte| byte == 0);
    let found = arguments.find_map(|argument| match argument.strip_prefix(b"--control") {
        Some([]) => Some(None),
        Some([b'=', path @ ..]) => Some(Some(path)),
        _ => None,
    })?;
    let path = found.or_else(|| arguments.next())?;
    (!path.is_empty()).then(|| Path::new(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_found_in_both_forms_of_the_option() {
        let found = |line: &[u8]| argument(line).map(Path::to_path_buf);
        assert_eq!(found(b"dwell\0serve\0--control\0/run/a\0--attach\0"), Some("/run/a".into()));
        assert_eq!(found(b"dwell\0serve\0--control=b\0"), Some("b".into()));
        for none in [&b""[..], b"dwell\0ctl\0/run/a\0", b"dwell\0--control\0", b"dwell\0--controls\0/run/a\0"]
        {
            assert_eq!(found(none), None);
        }
    }

    #[test]
    fn an_unused_path_has_no_process() {
        assert_eq!(process_for(Path::new("/nonexistent/dwell-control")), None);
    }
}
