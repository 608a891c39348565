//! Metrics from outside the block layer: bytes of user programs, and the number that a command prints.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tuner::{Metric, VALUE_MAX};

use crate::error::Error;
use crate::observe::Seen;
use crate::system;

/// How long a command may take: a part of the window, and at most. Meanwhile neither systemd's watchdog (60 s in `packaging/`) nor a
/// signal to end (30 s) is answered.
const COMMAND_SHARE: u32 = 4;
const COMMAND_MOST: Duration = Duration::from_secs(20);

/// Measures such a metric, window after window.
#[derive(Debug, Default)]
pub struct Outside {
    command: Option<String>,
    /// Bytes of user programs until the end of the latest window.
    user_bytes: Option<u64>,
}

impl Outside {
    /// With the command that prints the metric, if it is a command's.
    #[must_use]
    pub const fn new(command: Option<String>) -> Self {
        Self { command, user_bytes: None }
    }

    /// Adds the metric's value to a window that just ended; returns the problem if it has none.
    #[must_use]
    pub fn measure(&mut self, metric: Metric, seen: &mut Seen) -> Option<String> {
        let seconds = seen.window.length.as_secs_f64();
        match metric {
            Metric::UserBandwidth | Metric::UserMinusSystem => {
                let (now, problem) = match user_bytes(Path::new("/proc")) {
                    Ok(now) => (Some(now), None),
                    Err(problem) => (None, Some(problem.to_string())),
                };
                // The bytes of ended programs are no longer counted.
                let between = |(now, before): (u64, u64)| now.saturating_sub(before) as f64 / seconds;
                let before = std::mem::replace(&mut self.user_bytes, now);
                seen.performance.user_bandwidth = now.zip(before).map(between);
                problem
            }
            Metric::External(_) => {
                let command = self.command.as_deref()?;
                let number = number(command, patience(Duration::from_secs_f64(seconds)));
                seen.performance.external = number.as_ref().ok().copied();
                number.err()
            }
            _ => None,
        }
    }

    /// Forgets the last value: the next window does not follow the latest one.
    pub const fn forget(&mut self) {
        self.user_bytes = None;
    }
}

/// Bytes that all programs have read and written by system calls, from each `/proc/PID/io` below `proc`. Includes pipes and sockets; excludes
/// ended programs and unreadable ones.
///
/// # Errors
/// CAP_SYS_PTRACE is missing, or the kernel does not count.
pub fn user_bytes(proc: &Path) -> Result<u64, Error> {
    let mut sum = None;
    for entry in fs::read_dir(proc).map_err(|error| Error::file(proc, error))?.flatten() {
        if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let file = entry.path().join("io");
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !may_ask_all() => {
                let why = "is not readable; counting the bytes of all programs needs CAP_SYS_PTRACE";
                return Err(Error::file(&file, io::Error::new(error.kind(), why)));
            }
            // It has ended or is unreadable.
            Err(_) => continue,
        };
        let field = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            matches!(name, "rchar" | "wchar").then(|| value.trim().parse::<u64>().ok()).flatten()
        };
        *sum.get_or_insert(0) += text.lines().filter_map(field).sum::<u64>();
    }
    let why = "does not count bytes per process (CONFIG_TASK_IO_ACCOUNTING)";
    sum.ok_or_else(|| Error::file(proc, io::Error::new(ErrorKind::Unsupported, why)))
}

/// Whether this thread has CAP_SYS_PTRACE, with which nearly every process is readable.
fn may_ask_all() -> bool {
    const SYS_PTRACE: u32 = 19;
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = capabilities.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    capabilities.is_some_and(|mask| mask >> SYS_PTRACE & 1 == 1)
}

/// How much of a command's output is read, in bytes.
const LOOKED_AT: usize = 64 << 10;

/// How long a command may take if windows are of this length.
#[must_use]
pub fn patience(window: Duration) -> Duration {
    (window / COMMAND_SHARE).min(COMMAND_MOST)
}

/// Runs a command with `sh -c` and returns the first number that it prints. Background processes of it are not waited for. It runs at normal
/// priority: at the tuner's a busy machine might seldom run it.
///
/// # Errors
/// It cannot be run, fails, prints no number, or takes longer than `patience` (then it is killed with its children). The text has the first line
/// that it printed.
pub fn number(command: &str, patience: Duration) -> Result<f64, String> {
    let failed = |error: io::Error| format!("'{command}': {error}");
    let mut shell = Command::new("sh");
    let as_others = || {
        system::normal();
        Ok(())
    };
    // SAFETY: makes system calls only.
    unsafe { shell.pre_exec(as_others) };
    let mut child = shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // In its own process group, so that its children can be killed with it.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    stdout.iter().for_each(system::read_without_waiting);
    stderr.iter().for_each(system::read_without_waiting);
    let (from, mut text, mut errors) = (Instant::now(), Vec::new(), Vec::new());
    let status = loop {
        // Checked before reading: afterwards nothing more is printed.
        let ended = child.try_wait().map_err(failed)?;
        stdout.iter_mut().for_each(|stdout| read_what_is_there(stdout, &mut text));
        stderr.iter_mut().for_each(|stderr| read_what_is_there(stderr, &mut errors));
        match ended {
            Some(status) => break status,
            None if from.elapsed() < patience => std::thread::sleep(Duration::from_millis(10)),
            None => {
                system::end_group(child.id());
                let _ = child.wait();
                return Err(format!(
                    "'{command}' took longer than {patience:.3?}, a quarter of a window (at most {COMMAND_MOST:?})"
                ));
            }
        }
    };
    let (text, errors) = (String::from_utf8_lossy(&text), String::from_utf8_lossy(&errors));
    let first = text.lines().chain(errors.lines()).map(str::trim).find(|line| !line.is_empty());
    let printed = first.map_or_else(|| "printed nothing".to_owned(), |line| format!("printed '{line:.120}'"));
    if !status.success() {
        return Err(format!("'{command}' ended with {status} and {printed}"));
    }
    let found = text.split_whitespace().find_map(|word| word.parse::<f64>().ok());
    found
        .filter(|number| number.abs() <= VALUE_MAX)
        .ok_or_else(|| format!("'{command}' printed no number of at most {VALUE_MAX:e}; it {printed}"))
}

/// The present content of a pipe, up to [`LOOKED_AT`] bytes.
fn read_what_is_there(pipe: &mut impl Read, text: &mut Vec<u8>) {
    let mut piece = [0; 4096];
    while let Ok(bytes @ 1..) = pipe.read(&mut piece) {
        text.extend_from_slice(&piece[..bytes.min(LOOKED_AT - text.len())]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_printed_number_counts_and_other_results_are_errors() {
        let patience = Duration::from_secs(10);
        assert_eq!(number("echo tps: 12.5 3", patience), Ok(12.5));
        for none in ["nothing", "nan", "-inf", "1e200"] {
            let message = number(&format!("echo {none}"), patience).unwrap_err();
            assert!(
                message.contains("printed no number") && message.ends_with(&format!("'{none}'")),
                "{message}"
            );
        }
        let message = |command: &str| number(command, patience).unwrap_err();
        assert_eq!(message("exit 3"), "'exit 3' ended with exit status: 3 and printed nothing");
        assert!(
            message("echo '' 1>&2; echo broken 1>&2; false").ends_with("exit status: 1 and printed 'broken'")
        );
        assert!(
            message("/nonexist/x").contains("exit status: 127 and printed '"),
            "{}",
            message("/nonexist/x")
        );
        assert!(number("exec sleep 60", Duration::from_millis(50)).unwrap_err().contains("took longer"));
    }

    #[test]
    fn a_command_does_not_inherit_the_tuners_priority() {
        // SAFETY: takes nothing and returns a number.
        if unsafe { libc::geteuid() } != 0 {
            return eprintln!("SKIPPED: this user may not raise its priority");
        }
        // SAFETY: takes numbers only; 0 is this thread.
        if unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) } != 0 {
            return eprintln!("SKIPPED: the test has another priority than the usual one");
        }
        assert_eq!(system::lower(), Vec::<String>::new());
        let of = |command| number(command, Duration::from_secs(10));
        // The 19th field is the niceness (proc(5)).
        assert_eq!(of("cut -d' ' -f19 /proc/self/stat"), Ok(0.0));
        // SAFETY: takes numbers only.
        let own = || unsafe { libc::syscall(libc::SYS_ioprio_get, 1, 0) };
        assert_eq!(of("test $(ionice | cut -d: -f1) != idle; echo $?"), Ok(0.0));
        let priority = || (unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }, own() >> 13);
        assert_eq!((priority(), system::at_normal_priority(priority)), ((5, 3), (0, 0)));
    }

    #[test]
    fn user_bytes_are_a_sum_over_all_programs() {
        let root = std::env::temp_dir().join(format!("dwell-proc-{}", std::process::id()));
        for (pid, text) in
            [("1", "rchar: 10\nwchar: 5\nread_bytes: 99\n"), ("22", "rchar: 1\n"), ("self", "rchar: 1000\n")]
        {
            fs::create_dir_all(root.join(pid)).unwrap();
            fs::write(root.join(pid).join("io"), text).unwrap();
        }
        assert_eq!(user_bytes(&root).unwrap(), 16);
        fs::remove_file(root.join("22/io")).unwrap();
        assert_eq!(user_bytes(&root).unwrap(), 15, "it has ended");
        fs::remove_file(root.join("1/io")).unwrap();
        assert!(user_bytes(&root).unwrap_err().to_string().contains("CONFIG_TASK_IO_ACCOUNTING"));
        fs::remove_dir_all(&root).unwrap();
        assert!(user_bytes(&root).is_err());
    }

    /// Too small a sum would look like a bad scheduler.
    #[test]
    fn user_bytes_require_access_to_all_programs() {
        // SAFETY: takes and returns numbers only.
        let set_user = |id: libc::c_long| unsafe { libc::syscall(libc::SYS_setresuid, id, id, -1) };
        // SAFETY: as above.
        if unsafe { libc::geteuid() } != 0 {
            return eprintln!("SKIPPED: only root can see what is refused to others");
        }
        let looked = std::thread::spawn(move || {
            // The raw system call concerns this thread alone.
            assert_eq!(set_user(65534), 0);
            user_bytes(Path::new("/proc"))
        });
        let refused = looked.join().unwrap().unwrap_err();
        assert!(refused.is_permission() && refused.to_string().contains("CAP_SYS_PTRACE"), "{refused}");
    }

    #[test]
    fn background_processes_of_a_command_do_not_delay_the_result() {
        let patience = Duration::from_secs(2);
        let from = Instant::now();
        assert_eq!(number("sleep 7 & echo 5", patience), Ok(5.0));
        assert!(number("sleep 8; echo 6", patience).unwrap_err().contains("took longer"));
        assert!(from.elapsed() < Duration::from_secs(6), "{:?}", from.elapsed());
        let goes_on = || {
            let processes = fs::read_dir("/proc").unwrap().flatten();
            let mut lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
            lines.any(|line| line == b"sleep\08\0")
        };
        while goes_on() {
            assert!(from.elapsed() < Duration::from_secs(6), "what was ended goes on");
        }
        let long = number("echo 7; head -c 200000 /dev/zero | tr '\\0' ' '", patience);
        assert_eq!(long, Ok(7.0), "a long output does not block");
    }
}
