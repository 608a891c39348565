//! Servers by their control sockets: whether one is being restarted, and which has a device as a member.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::Client;
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

/// Whether a server listens on this socket although its file has been removed.
pub fn is_removed(socket: &Path) -> bool {
    let Ok(socket) = std::path::absolute(socket) else { return false };
    let bound = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    !socket.exists()
        && process_for(&socket).is_some_and(|pid| listens(&bound, &given_socket(pid).unwrap_or_default()))
}

/// Whether the kernel's list of sockets has one that listens at a path.
fn listens(list: &str, path: &Path) -> bool {
    const ACCEPTS: u32 = 1 << 16; // __SO_ACCEPTCON
    let end = format!(" {}", path.display());
    list.lines().filter(|line| line.ends_with(&end)).any(|line| {
        let flags = line.split_ascii_whitespace().nth(3);
        flags.and_then(|flags| u32::from_str_radix(flags, 16).ok()).is_some_and(|flags| flags & ACCEPTS != 0)
    })
}

/// The control socket of the array that has this attached device as a member.
pub fn array_of(device: &Path) -> Option<PathBuf> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut sockets: Vec<PathBuf> =
        pids.filter(|&pid| serves_array(pid)).filter_map(control_socket).collect();
    // A supervisor and its server have the same arguments.
    sockets.sort_unstable();
    sockets.dedup();
    sockets.into_iter().find(|socket| {
        let array = Client::connect(socket).and_then(|mut client| client.array());
        array.is_ok_and(|array| array.members.iter().any(|member| member.device.as_deref() == Some(device)))
    })
}

/// Whether a process is `dwell serve --member …`.
fn serves_array(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut arguments = line.split(|&byte| byte == 0).skip(1);
    arguments.next() == Some(b"serve") && arguments.any(|argument| argument.starts_with(b"--member"))
}

/// The control socket among a process's arguments, as given.
fn given_socket(pid: u32) -> Option<PathBuf> {
    argument(&fs::read(format!("/proc/{pid}/cmdline")).ok()?).map(Path::to_path_buf)
}

/// Likewise, as an absolute path.
fn control_socket(pid: u32) -> Option<PathBuf> {
    let given = given_socket(pid)?;
    if given.is_absolute() {
        return Some(given);
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
    fn only_a_socket_that_listens_counts() {
        let list = "Num RefCount Protocol Flags Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 42616 /run/a b.ctl\n\
            0000: 00000003 00000000 00000000 0001 03 42617 /run/c.ctl\n";
        let listens = |path: &str| listens(list, Path::new(path));
        assert!(listens("/run/a b.ctl") && !listens("/run/c.ctl") && !listens("/run/d.ctl"));
    }

    #[test]
    fn an_unused_path_has_no_process() {
        assert_eq!(process_for(Path::new("/nonexistent/dwell-control")), None);
        assert!(!is_removed(Path::new("/nonexistent/dwell-control")));
    }
}
