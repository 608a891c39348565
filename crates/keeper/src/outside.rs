//! Numbers from outside the block layer: what users read and wrote, and what a command of theirs prints.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes that all programs read and wrote so far through system calls, from `/proc/PID/io` of each (a tree like `/proc`). Pipes and
/// sockets are in it, and what ended programs did since the last look is not. `None` if no program's could be read.
#[must_use]
pub fn user_bytes(proc: &Path) -> Option<u64> {
    let mut sum = None;
    for entry in fs::read_dir(proc).ok()?.flatten() {
        if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let Ok(text) = fs::read_to_string(entry.path().join("io")) else { continue };
        let field = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            matches!(name, "rchar" | "wchar").then(|| value.trim().parse::<u64>().ok()).flatten()
        };
        *sum.get_or_insert(0) += text.lines().filter_map(field).sum::<u64>();
    }
    sum
}

/// Runs a user's command with `sh -c` and takes the first number that it prints.
///
/// # Errors
/// It cannot be run, fails, takes longer than `patience` (and is ended), or prints no number.
pub fn number(command: &str, patience: Duration) -> Result<f64, String> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{command}: {error}"))?;
    let from = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| format!("{command}: {error}"))? {
            Some(status) => break status,
            None if from.elapsed() < patience => std::thread::sleep(Duration::from_millis(10)),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{command}: took longer than {patience:?}"));
            }
        }
    };
    let mut text = Vec::new();
    if let Some(stdout) = child.stdout {
        // A pipe holds what matters; whoever prints more than that waits until the patience is over.
        let _ = stdout.take(64 << 10).read_to_end(&mut text);
    }
    if !status.success() {
        return Err(format!("{command}: {status}"));
    }
    let text = String::from_utf8_lossy(&text);
    let found = text.split_whitespace().find_map(|word| word.parse::<f64>().ok()).filter(|n| n.is_finite());
    found.ok_or_else(|| format!("{command}: printed no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_counts_and_everything_else_is_said() {
        let patience = Duration::from_secs(10);
        assert_eq!(number("echo tps: 12.5 3", patience), Ok(12.5));
        assert!(number("echo nothing", patience).unwrap_err().contains("printed no number"));
        assert!(number("exit 3", patience).unwrap_err().contains('3'));
        assert!(number("exec sleep 60", Duration::from_millis(50)).unwrap_err().contains("took longer"));
    }

    #[test]
    fn user_bytes_are_of_all_programs() {
        let root = std::env::temp_dir().join(format!("dwell-proc-{}", std::process::id()));
        for (pid, text) in
            [("1", "rchar: 10\nwchar: 5\nread_bytes: 99\n"), ("22", "rchar: 1\n"), ("self", "rchar: 1000\n")]
        {
            fs::create_dir_all(root.join(pid)).unwrap();
            fs::write(root.join(pid).join("io"), text).unwrap();
        }
        assert_eq!(user_bytes(&root), Some(16));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(user_bytes(&root), None);
    }
}
