//! Helper processes: this program again, started with its role as an argument.
//!
//! The process that serves the drive must never wait for that drive: after a kill it could not end before a reply of the drive, which
//! would never come. All accesses to the device are therefore in other processes.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use server::control::mounts::Mount;

use crate::duel::DuelError;
use crate::duel::devices::{self, DeviceSetup};
use crate::duel::pipe::{ignore_signals, send, wait_for_end};
use crate::duel::programs::{self, Process};

/// The role of a helper process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// Sets up loop devices, elevators and mounts, and removes them.
    Devices(Box<DeviceSetup>),
    /// Runs a program and measures it.
    Program(Box<Process>),
    /// Removes files after the end of all other processes.
    Cleanup(PathBuf),
}

/// Executes a `role` that [`HelperCommand`] has written; returns the exit code of the process.
pub fn run_helper(role: &str) -> u8 {
    let role = match serde_json::from_str::<Role>(role) {
        Ok(role) => role,
        Err(error) => {
            say!("invalid role of a helper: {error}");
            return 2;
        }
    };
    let result = match role {
        Role::Devices(setup) => devices::hold(*setup),
        Role::Program(process) => {
            // A program must end with its parent, because its result would not be read. Helpers that hold devices or files must outlive it.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            programs::run(*process)
        }
        Role::Cleanup(directory) => clean_up(&directory),
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            let _ = send(&Err::<(), _>(error.to_string()));
            1
        }
    }
}

/// Time limit for other processes to release the files that are to be removed.
const RELEASE_LIMIT: Duration = Duration::from_secs(30);

/// Removes the duel's files in every case, because the duel itself removes none.
fn clean_up(directory: &Path) -> Result<(), DuelError> {
    ignore_signals()?;
    send(&Ok(())).map_err(DuelError::io("reporting"))?;
    wait_for_end();
    let began = Instant::now();
    loop {
        unmount_below(directory);
        match std::fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound && began.elapsed() < RELEASE_LIMIT => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(DuelError::io(format!("removing {}", directory.display()))(error));
            }
            _ => return Ok(()),
        }
    }
}

/// A killed server's file is still mounted in our namespace.
fn unmount_below(directory: &Path) {
    for mount in Mount::seen_by("self").iter().filter(|mount| mount.place.starts_with(directory)) {
        let _ = rustix::mount::unmount(&mount.place, rustix::mount::UnmountFlags::DETACH);
    }
}

/// The command that starts helper processes: a program and its arguments; the role is appended.
#[derive(Clone, Debug)]
pub struct HelperCommand {
    /// The program: usually this one.
    pub program: PathBuf,
    /// The arguments before the role.
    pub arguments: Vec<String>,
}

impl HelperCommand {
    pub(crate) fn start(&self, role: &Role) -> Result<Helper, DuelError> {
        let failed = |error: io::Error| DuelError::Io {
            doing: format!("starting {} as a helper of the duel", self.program.display()),
            source: error,
        };
        let role = serde_json::to_string(role).map_err(|error| failed(error.into()))?;
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .arg(role)
            // Ctrl-C in a terminal is for the duel itself, which ends its helpers in the right order.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(BufReader::new);
        Ok(Helper { child, stdin, stdout, killed: false })
    }
}

/// A helper process. Dropping it closes its standard input, at which it ends, and waits for it unless it was killed.
pub(crate) struct Helper {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    killed: bool,
}

impl Helper {
    /// The start signal.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(b"\n"))
    }

    /// The next line that it sends.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> Result<T, DuelError> {
        let mut line = String::new();
        if let Some(stdout) = &mut self.stdout {
            stdout.read_line(&mut line).map_err(DuelError::io("reading from a helper of the duel"))?;
        }
        match serde_json::from_str::<Result<T, String>>(&line) {
            Ok(reply) => reply.map_err(DuelError::Helper),
            Err(_) => Err(DuelError::Helper(format!(
                "a helper of the duel ended before its work was done ({})",
                if line.is_empty() { "without a message" } else { line.trim() }
            ))),
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it and its child processes without waiting: a process that waits for a device may end only with that device.
    pub(crate) fn kill(&mut self) {
        if self.has_ended() {
            return;
        }
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            // Not SIGKILL, with which PostgreSQL would leave its shared memory behind.
            let _ = kill_process_group(group, Signal::TERM);
        }
        let _ = self.child.kill();
        self.killed = true;
    }

    /// Requests its orderly end and waits for it, at most for `at_most`.
    pub(crate) fn end(&mut self, at_most: Duration) -> Result<(), DuelError> {
        self.stdin = None;
        if self.ends_within(at_most) {
            return Ok(());
        }
        self.kill();
        Err(DuelError::Helper(format!("a helper of the duel did not end within {at_most:?}")))
    }

    /// Waits until it has ended, at most for `at_most`; returns whether it has.
    pub(crate) fn ends_within(&mut self, at_most: Duration) -> bool {
        const LOOK: Duration = Duration::from_millis(5);
        let mut waited = Duration::ZERO;
        while !self.has_ended() {
            if waited >= at_most {
                return false;
            }
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
        true
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.stdin = None;
        if !self.killed {
            let _ = self.child.wait();
        }
    }
}
