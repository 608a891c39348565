//! Split-level scheduling in front of a real device: `serve --causes` and `exec`. Skipped where there is no root, FUSE, BPF or ext4.
//!
//! One test after the other: each has a device, a server and a file system.

mod admission;
mod charges;
mod ends;

use std::fs;
use std::io::{BufRead, BufReader, Write};
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
        Self::over(test, scheduler, &["--memory", "--size", "256MiB"])
    }

    fn over(test: &str, scheduler: &str, source: &[&str]) -> Option<Self> {
        let directory = std::env::temp_dir().join(format!("dwell-split-{test}-{}", std::process::id()));
        fs::create_dir_all(directory.join("files")).unwrap();
        let mut server = dwell()
            .arg("serve")
            .args(source)
            .args(["--scheduler", scheduler, "--attach", "--causes"])
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
        // By no account, so that the writer needs no metadata: an account in debt would wait for its reads instead of its writes. What the file system
        // allocates here leaves the bitmaps in memory.
        let mut file = fs::File::create(self.file(name)).unwrap();
        file.write_all(&[1; 1 << 16]).unwrap();
        file.sync_all().unwrap();
        file.set_len(0).unwrap();
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
        // It serves the device as long as that is used, by what a failed test left.
        while self.server.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() >= until {
                succeeds(Command::new("umount").arg("-l").arg(self.directory.join("files")));
                children(self.server.id()).into_iter().for_each(kill);
                let _ = self.server.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// At a byte a second, a debt of 64 KiB is never paid.
const NEVER: [&str; 2] = ["--rate", "1"];

/// A program of the account `pair`, at 100 kB a second: it executes a shell script in the served file system once the file `NAME.go` exists, and
/// makes `NAME.done` afterwards.
fn waiting(served: &Served, name: &str, script: &str) -> Child {
    let [go, done] = ["go", "done"].map(|end| served.directory.join(format!("{name}.{end}")));
    let (go, done) = (go.display(), done.display());
    // The first builtin that writes reports the shell as a process of the account.
    let script = format!("echo; while [ ! -e {go} ]; do sleep 0.02; done; {script} && echo >{done}");
    dwell()
        .args(["exec", "--account", "pair", "--rate", "100k", "--control"])
        .arg(served.control())
        .args(["--", "sh", "-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Writes blocks of 64 KiB to a file, which is made by no account.
fn blocks(served: &Served, name: &str, count: u32) -> String {
    fs::write(served.file(name), "").unwrap();
    format!("dd if=/dev/zero of={} bs=64k count={count} conv=notrunc", served.file(name).display())
}

fn kill(process: u32) {
    let _ = Command::new("kill").args(["-KILL", &process.to_string()]).stderr(Stdio::null()).status();
}

/// The processes that a process has started and that run.
fn children(process: u32) -> Vec<u32> {
    let parent = |child: u32| -> Option<u32> {
        let text = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&child| parent(child) == Some(process)).collect()
}

/// A file in memory, removed when this is dropped.
struct Store(PathBuf);

impl Store {
    /// With 64 MiB.
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/dev/shm/dwell-split-{name}-{}", std::process::id()));
        fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
        Self(path)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
