//! Split-level scheduling in front of a real device: `serve --causes` and `exec`. Skipped where there is no root, FUSE, BPF or ext4.
//!
//! One test after the other: each has a device, a server and a file system.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn dwell() -> Command {
    Command::new(env!("CARGO_BIN_EXE_dwell"))
}

fn succeeds(program: &mut Command) -> bool {
    program.output().is_ok_and(|output| output.status.success())
}

/// Waits until a condition holds, at most a minute.
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A served device with a mounted ext4, taken down when this is dropped.
struct Served {
    server: Child,
    directory: PathBuf,
    is_mounted: bool,
}

impl Served {
    fn new(test: &str, scheduler: &str) -> Option<Self> {
        let directory = std::env::temp_dir().join(format!("dwell-split-{test}-{}", std::process::id()));
        fs::create_dir_all(directory.join("files")).unwrap();
        let mut server = dwell()
            .args(["serve", "--memory", "--size", "256MiB", "--scheduler", scheduler, "--attach", "--causes"])
            .arg("--control")
            .arg(directory.join("control"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut node = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut node).unwrap();
        if node.is_empty() {
            let output = server.wait_with_output().unwrap();
            eprintln!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr));
            let _ = fs::remove_dir_all(directory);
            return None;
        }
        let mut served = Self { server, directory, is_mounted: false };
        served.is_mounted = succeeds(Command::new("mkfs.ext4").args(["-q", node.trim()]))
            && succeeds(Command::new("mount").arg(node.trim()).arg(served.directory.join("files")));
        if !served.is_mounted {
            eprintln!("SKIPPED: no ext4 on {}", node.trim());
            return None;
        }
        Some(served)
    }

    fn control(&self) -> PathBuf {
        self.directory.join("control")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join("files").join(name)
    }

    /// Writes blocks of 64 KiB as an account; the end makes nothing durable.
    fn writer(&self, name: &str, blocks: u32, terms: &[&str]) -> Child {
        // By no account, so that the writer needs no metadata: an account in debt would wait for its reads instead of its writes.
        fs::write(self.file(name), "").unwrap();
        let output = format!("of={}", self.file(name).display());
        dwell()
            .args(["exec", "--account", "writer", "--control"])
            .arg(self.control())
            .args(terms)
            .args(["--", "dd", "if=/dev/zero", &output, "bs=64k", &format!("count={blocks}"), "conv=notrunc"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// The account's state from `ctl show`.
    fn account(&self, name: &str) -> Option<Value> {
        let output = dwell().arg("ctl").arg(self.control()).args(["show", "--json"]).output().unwrap();
        let state: Value = serde_json::from_slice(&output.stdout).ok()?;
        assert_eq!(state["scheduler_faults"], 0, "{state}");
        state["accounts"].as_array()?.iter().find(|account| account["name"] == name).cloned()
    }

    /// Waits until a call of the account is held.
    fn await_held(&self) {
        eventually("a held call", || {
            self.account("writer").filter(|account| account["held"].as_u64() > Some(0))
        });
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        let unmount = || succeeds(Command::new("umount").arg(self.directory.join("files")));
        while self.is_mounted && !unmount() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = dwell().arg("ctl").arg(self.control()).arg("stop").output();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// At a byte a second, a debt of 64 KiB is never paid.
const NEVER: [&str; 2] = ["--rate", "1"];

#[test]
fn an_account_in_debt_is_held_until_the_scheduler_has_no_split_level() {
    let _alone = alone();
    let Some(served) = Served::new("switch", "split-token") else { return };
    let mut writer = served.writer("file", 64, &NEVER);
    served.await_held();
    assert!(length(&served.file("file")) < 64 << 16);
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    let status = eventually("the end of the writer", || writer.try_wait().unwrap());
    assert!(status.success());
    assert_eq!(length(&served.file("file")), 64 << 16);
}

#[test]
fn when_the_agent_is_killed_the_program_continues() {
    let _alone = alone();
    let Some(served) = Served::new("agent", "split-token") else { return };
    let mut writer = served.writer("file", 64, &NEVER);
    served.await_held();
    writer.kill().unwrap();
    writer.wait().unwrap();
    eventually("the end of the file", || (length(&served.file("file")) == 64 << 16).then_some(()));
}

#[test]
fn each_policy_lets_writers_finish_and_charges_them() {
    let _alone = alone();
    for scheduler in ["split-token", "split-deadline", "afq"] {
        let Some(served) = Served::new(scheduler, scheduler) else { return };
        let terms = ["--weight", "2", "--fsync-deadline", "100ms", "--rate", "100M"];
        let mut writer = served.writer("file", 64, &terms);
        let status = eventually("the end of the writer", || writer.try_wait().unwrap());
        assert!(status.success(), "{scheduler}");
        assert!(succeeds(Command::new("sync").arg("-f").arg(served.directory.join("files"))), "{scheduler}");
        eventually("a clean account that was charged", || {
            let account = served.account("writer")?;
            let number = |field: &str| account[field].as_u64().unwrap();
            let is_charged = number("calls") >= 64 && number("caused") >= 64 << 16;
            (is_charged && number("dirty") == 0 && number("held") == 0).then_some(())
        });
    }
}

#[test]
fn a_server_without_causes_has_no_accounts() {
    let _alone = alone();
    let directory = std::env::temp_dir().join(format!("dwell-split-none-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let control = directory.join("control");
    let nbd = format!("unix:{}", directory.join("nbd").display());
    let mut server = dwell()
        .args(["serve", "--memory", "--size", "1MiB", "--scheduler", "noop", "--nbd", &nbd, "--control"])
        .arg(&control)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let exec =
        dwell().args(["exec", "--account", "a", "--control"]).arg(&control).args(["--", "true"]).output();
    let error = String::from_utf8(exec.unwrap().stderr).unwrap();
    assert!(error.contains("start it with --causes"), "{error}");
    assert!(succeeds(dwell().arg("ctl").arg(&control).arg("stop")));
    server.wait().unwrap();
    fs::remove_dir_all(directory).unwrap();
}
