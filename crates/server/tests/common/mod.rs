//! A server in a process of its own, and its environment.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod client;
pub mod tls;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// A directory that is removed with everything in it.
pub struct Directory(pub PathBuf);

impl Directory {
    /// In `/dev/shm`, if it exists.
    pub fn in_memory() -> Self {
        let shm = Path::new("/dev/shm");
        Self::under(if shm.is_dir() { shm } else { Path::new("/tmp") })
    }

    pub fn on_disk() -> Self {
        Self::under(&std::env::temp_dir())
    }

    fn under(parent: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("dwell-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running server. Killed if it is dropped without [`stop`](Self::stop).
pub struct Served {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    /// The block device, if one was attached, as the server prints it.
    pub what: String,
    ended: bool,
}

impl Served {
    /// Starts a server with the contract's checker and waits until it serves.
    pub fn start(arguments: &[&str]) -> Self {
        Self::try_start(arguments).expect("the server starts")
    }

    /// As [`start`](Self::start); `None` if the server does not start.
    pub fn try_start(arguments: &[&str]) -> Option<Self> {
        Self::spawn(Command::new(program()).args(arguments))
    }

    /// As [`start`](Self::start), with the pipe of the server's standard error.
    pub fn start_heard(arguments: &[&str]) -> (Self, ChildStderr) {
        let served = Self::spawn(Command::new(program()).args(arguments).stderr(Stdio::piped()));
        let mut served = served.expect("the server starts");
        let words = served.child.stderr.take().unwrap();
        (served, words)
    }

    /// A server in a mount namespace of its own, as a service manager starts it.
    pub fn start_secluded(arguments: &[&str]) -> Self {
        let unshare = ["--mount", "--propagation", "private"];
        Self::spawn(Command::new("unshare").args(unshare).arg(program()).args(arguments))
            .expect("the server starts")
    }

    /// A server in the cgroup of this `cgroup.procs`.
    pub fn start_within(procs: &str, arguments: &[&str]) -> Self {
        let script = "echo 0 > \"$0\" && exec \"$@\"";
        Self::spawn(Command::new("sh").args(["-c", script, procs]).arg(program()).args(arguments))
            .expect("the server starts")
    }

    /// A server that receives SIGHUP at the end of its terminal, also if these tests were started with `nohup`.
    pub fn start_on_a_terminal(arguments: &[&str]) -> Self {
        Self::spawn(Command::new("env").arg("--default-signal=HUP").arg(program()).args(arguments))
            .expect("the server starts")
    }

    /// A server that ignores SIGHUP, as started by `nohup`.
    pub fn start_outliving(arguments: &[&str]) -> Self {
        let script = "trap '' HUP; exec \"$0\" \"$@\"";
        Self::spawn(Command::new("sh").args(["-c", script]).arg(program()).args(arguments))
            .expect("the server starts")
    }

    /// A server started by this command, which receives the server's program and arguments as its last arguments.
    pub fn start_by(command: &mut Command, arguments: &[&str]) -> Option<Self> {
        Self::spawn(command.arg(program()).args(arguments))
    }

    /// Its running child processes.
    pub fn children(&self) -> Vec<u32> {
        let stats = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, fs::read_to_string(entry.path().join("stat")).ok()?))
        });
        let parent = |stat: &str| -> Option<u32> {
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
            fields.next().filter(|&state| state != "Z")?;
            fields.next()?.parse().ok()
        };
        stats.filter(|(_, stat)| parent(stat) == Some(self.pid())).map(|(pid, _)| pid).collect()
    }

    fn spawn(command: &mut Command) -> Option<Self> {
        let mut child = command.arg("--check").stdout(Stdio::piped()).spawn().expect("the example runs");
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let served = line.trim().strip_prefix("serving ").map(str::to_string);
        let Some(what) = served else {
            let _ = child.wait();
            return None;
        };
        Some(Self { child, output, what, ended: false })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: &str) {
        // The built-in command of the shell: a minimal system has no program `kill`.
        run("sh", &["-c", "kill $0 $1", signal, &self.pid().to_string()]);
    }

    /// Ends the server with SIGTERM; its report. Panics if the checker found a violation.
    pub fn stop(mut self) -> serde_json::Value {
        self.signal("-TERM");
        self.wait()
    }

    /// Whether it has ended, of a server that may fail to end in order.
    pub fn has_ended(&mut self) -> bool {
        self.ended |= self.child.try_wait().unwrap().is_some();
        self.ended
    }

    /// Waits for a server that may end with a failure; returns its exit status.
    pub fn wait_for_status(&mut self) -> std::process::ExitStatus {
        let status = self.child.wait().unwrap();
        self.ended = true;
        status
    }

    pub fn wait(&mut self) -> serde_json::Value {
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        self.ended = true;
        assert!(status.success(), "the server ended with {status}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Ends the server with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.ended = true;
    }

    /// Resident memory of the server in bytes.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // A server that still handles signals removes its mounts and loop devices. The second signal gives up the device's users.
        for _ in 0..2 {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            for _ in 0..500 {
                if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The example `serve`, which `cargo test` builds with the tests of the whole package.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples/serve");
    assert!(
        program.exists(),
        "{} is missing: cargo build -p dwell-server --example serve",
        program.display()
    );
    program
}

/// Whether a program is installed; prints SKIPPED if not.
pub fn have(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

/// Whether FUSE and loop devices can be used; prints SKIPPED if not.
pub fn can_attach() -> bool {
    let root = rustix::process::geteuid().is_root();
    let devices = Path::new("/dev/fuse").exists() && Path::new("/dev/loop-control").exists();
    if !root || !devices {
        eprintln!("SKIPPED: attaching needs root, /dev/fuse and /dev/loop-control");
    }
    root && devices
}

/// A loop device over a new file, as a block device to be served.
pub struct Loop(pub String);

impl Loop {
    pub fn over(file: &Path) -> Self {
        fs::File::create(file).unwrap().set_len(64 << 20).unwrap();
        Self(run("losetup", &["-P", "-f", "--show", &file.to_string_lossy()]).trim().to_string())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = try_run("losetup", &["-d", &self.0]);
    }
}

/// Runs a program that must succeed; its output.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let (ok, text) = try_run(program, arguments);
    assert!(ok, "{program} {arguments:?} failed: {text}");
    text
}

/// Runs a program; whether it succeeded, and its output.
pub fn try_run(program: &str, arguments: &[&str]) -> (bool, String) {
    // The system's directories first: its programs expect the system's interpreters.
    let path = format!("/usr/sbin:/usr/bin:/sbin:/bin:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("timeout")
        .env("PATH", path)
        .arg("120")
        .arg(program)
        .args(arguments)
        .output()
        .expect(program);
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// A pseudo-random generator (xorshift): a seed repeats a test.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }
}
