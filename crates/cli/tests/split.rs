//! Split-level scheduling in front of a real device: `serve --causes` and `exec`. Skipped where there is no root, FUSE, BPF or ext4.
//!
//! One test after the other: each has a device, a server and a file system.

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

/// As in most containers.
#[test]
fn a_file_of_an_overlay_is_on_the_device_of_the_upper_directory() {
    let _alone = alone();
    let Some(served) = Served::new("overlay", "split-token") else { return };
    let [lower, upper, work, merged] = ["lower", "upper, with a comma", "work", "merged"].map(|name| {
        let path = served.file(name);
        fs::create_dir(&path).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let options = format!("lowerdir={lower},upperdir={},workdir={work}", upper.replace(',', "\\,"));
    if !succeeds(Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options, &merged])) {
        eprintln!("SKIPPED: no overlay");
        return;
    }
    let mut writer = served.writer("merged/file", 64, &NEVER);
    served.await_held();
    assert!(length(&served.file("merged/file")) < 64 << 16);
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    assert!(eventually("the end of the writer", || writer.try_wait().unwrap()).success());
    assert!(succeeds(Command::new("umount").arg(&merged)));
}

/// A program that is under admission cannot start another one; names that a terminal would interpret are rejected.
#[test]
fn wrong_names_and_nested_programs_are_rejected() {
    let _alone = alone();
    let Some(served) = Served::new("wrong", "split-token") else { return };
    let exec = |name: &str, command: &[&str]| {
        let mut exec = dwell();
        exec.arg("exec").arg("--control").arg(served.control()).args(["--account", name, "--"]).args(command);
        let output = exec.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let output = dwell()
        .args(["exec", "--account", "a", "--weight", "3", "--rate", "300k", "--control"])
        .arg(served.control())
        .args(["--", "true"])
        .output()
        .unwrap();
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && note.lines().count() == 1, "{note}");
    assert!(note.contains("--weight has no effect under 'split-token'; 'afq' uses it"), "{note}");
    for name in ["", "  ", "a\nb", "\u{1b}[31m", &"x".repeat(256), "others"] {
        let (succeeded, error) = exec(name, &["true"]);
        assert!(!succeeded && error.contains("account"), "{name:?}: {error}");
    }
    assert_eq!(exec("é 'x'", &["true"]), (true, String::new()));
    let control = served.control();
    let inner = [
        env!("CARGO_BIN_EXE_dwell"),
        "exec",
        "--account",
        "b",
        "--control",
        control.to_str().unwrap(),
        "--",
        "true",
    ];
    let (succeeded, error) = exec("a", &inner);
    assert!(!succeeded && error.contains("intercepted already"), "{error}");
}

/// Each server admits the calls on its own device.
#[test]
fn a_program_uses_two_served_devices() {
    let _alone = alone();
    let Some(one) = Served::new("two-1", "split-token") else { return };
    let Some(other) = Served::new("two-2", "split-token") else { return };
    let files = [&one, &other].map(|served| served.file("file"));
    files.iter().for_each(|file| fs::write(file, "").unwrap());
    let writes = files
        .each_ref()
        .map(|file| format!("dd if=/dev/zero of={} bs=64k count=64 conv=notrunc", file.display()));
    let exec = |controls: [&Served; 2]| {
        let mut exec = dwell();
        exec.args(["exec", "--account", "writer", "--rate", "1"]);
        controls.iter().for_each(|served| _ = exec.arg("--control").arg(served.control()));
        exec.args(["--", "sh", "-c", &format!("{} & {}; wait", writes[0], writes[1])]);
        exec.stderr(Stdio::piped());
        exec
    };
    let twice = exec([&one, &one]).output().unwrap();
    let error = String::from_utf8(twice.stderr).unwrap();
    assert!(!twice.status.success() && error.contains("the same device"), "{error}");
    let mut program = exec([&one, &other]).spawn().unwrap();
    one.await_held();
    other.await_held();
    assert!(succeeds(dwell().arg("ctl").arg(one.control()).args(["switch", "noop"])));
    eventually("the first device's file", || (length(&files[0]) == 64 << 16).then_some(()));
    assert!(length(&files[1]) < 64 << 16);
    other.await_held();
    assert!(succeeds(dwell().arg("ctl").arg(other.control()).args(["switch", "noop"])));
    let status = eventually("the end of the program", || program.try_wait().unwrap());
    assert!(status.success());
    assert_eq!(length(&files[1]), 64 << 16);
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

/// A supervisor that ends `dwell exec` ends the program with it.
#[test]
fn a_program_gets_the_sigterm_of_its_agent() {
    let _alone = alone();
    let Some(served) = Served::new("term", "split-token") else { return };
    let trapped = served.directory.join("trapped");
    let script = format!(
        "trap 'echo >{0}.done; exit 7' TERM; echo >{0}; while :; do sleep 0.02; done",
        trapped.display()
    );
    let mut exec = dwell();
    exec.args(["exec", "--account", "writer", "--control"]).arg(served.control());
    let mut program = exec.args(["--", "sh", "-c", &script]).spawn().unwrap();
    eventually("the program", || trapped.exists().then_some(()));
    assert!(succeeds(Command::new("kill").args(["-TERM", &program.id().to_string()])));
    let status = eventually("the end of the program", || program.try_wait().unwrap());
    assert_eq!(status.code(), Some(7));
}

/// A process whose call an agent holds does not stop, so that it cannot be joined.
#[test]
fn a_held_process_cannot_be_joined() {
    let _alone = alone();
    let Some(served) = Served::new("held", "split-token") else { return };
    let mut writer = served.writer("file", 64, &NEVER);
    served.await_held();
    let held = eventually("the program", || {
        let is_dd = |process: &u32| {
            fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.trim() == "dd")
        };
        children(writer.id()).into_iter().find(is_dd)
    });
    let mut exec = dwell();
    exec.args(["exec", "--account", "other", "--control"]).arg(served.control());
    let output = exec.args(["--join", &held.to_string()]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("intercepted already"), "{error}");
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    assert!(eventually("the end of the writer", || writer.try_wait().unwrap()).success());
    assert_eq!(length(&served.file("file")), 64 << 16);
}

/// Programs whose agent has ended are limited no longer. What they write would be five minutes of debt for those that are limited.
#[test]
fn programs_that_are_no_longer_limited_are_not_charged_to_their_account() {
    let _alone = alone();
    let Some(served) = Served::new("freed", "split-token") else { return };
    let go = |name: &str| fs::write(served.directory.join(format!("{name}.go")), "").unwrap();
    let done = |name: &str| {
        let file = served.directory.join(format!("{name}.done"));
        eventually(name, || file.exists().then_some(()));
    };
    let agents = || served.account("pair").and_then(|account| account["agents"].as_u64());
    let mut limited = waiting(&served, "limited", &blocks(&served, "limited", 3));
    let mut killed = waiting(&served, "killed", &blocks(&served, "killed", 512));
    let left = blocks(&served, "left", 512);
    let wait = format!("while [ ! -e {} ]; do sleep 0.02; done", served.directory.join("later").display());
    let later = served.directory.join("left.later").display().to_string();
    let mut parent =
        waiting(&served, "left", &format!("{{ setsid sh -c 'echo; {wait}; {left}; echo >{later}' & }}"));
    eventually("three programs", || (agents() == Some(3)).then_some(()));
    go("left");
    assert!(eventually("the end of the parent", || parent.try_wait().unwrap()).success());
    killed.kill().unwrap();
    killed.wait().unwrap();
    eventually("one program", || (agents() == Some(1)).then_some(()));
    go("killed");
    done("killed");
    fs::write(served.directory.join("later"), "").unwrap();
    eventually("the descendant", || Path::new(&later).exists().then_some(()));
    go("limited");
    done("limited");
    assert!(eventually("the end", || limited.try_wait().unwrap()).success());
}

/// What was dirtied while another scheduler was in use would be five minutes of debt.
#[test]
fn a_switch_back_to_a_limit_charges_nothing_of_the_time_before() {
    let _alone = alone();
    let Some(served) = Served::new("switch-back", "split-token") else { return };
    let switch = |scheduler: &str| {
        assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", scheduler])));
    };
    let mut free = waiting(&served, "free", &blocks(&served, "free", 512));
    let mut limited = waiting(&served, "limited", &blocks(&served, "limited", 3));
    eventually("two programs", || served.account("pair").filter(|account| account["agents"] == 2));
    switch("afq");
    fs::write(served.directory.join("free.go"), "").unwrap();
    assert!(eventually("the free program", || free.try_wait().unwrap()).success());
    switch("split-token");
    fs::write(served.directory.join("limited.go"), "").unwrap();
    assert!(eventually("the limited program", || limited.try_wait().unwrap()).success());
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

impl Drop for Store {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn nothing_hangs_when_agent_program_or_server_is_killed() {
    let _alone = alone();
    let store = Store(PathBuf::from(format!("/dev/shm/dwell-split-kills-{}", std::process::id())));
    fs::File::create(&store.0).unwrap().set_len(64 << 20).unwrap();
    let Some(served) = Served::over("kills", "split-token", &[store.0.to_str().unwrap()]) else { return };
    let pid_file = served.directory.join("pid");
    for round in 0..12 {
        let (file, blocks) = (served.file(&format!("file-{round}")), 64);
        fs::write(&file, "").unwrap();
        let _ = fs::remove_file(&pid_file);
        let script = format!(
            "echo $$ >{}; exec dd if=/dev/zero of={} bs=64k count={blocks} conv=notrunc",
            pid_file.display(),
            file.display()
        );
        // 16 writes a second: the program is in a held call at nearly all times.
        let mut agent = dwell()
            .args(["exec", "--account", "writer", "--rate", "1M", "--control"])
            .arg(served.control())
            .args(["--", "sh", "-c", &script])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Each victim before its first write, and after one, two and four.
        let written = [0, 1, 2, 4][round / 3] << 16;
        let program: u32 =
            eventually("the program's start", || fs::read_to_string(&pid_file).ok()?.trim().parse().ok());
        eventually("the program's writes", || (length(&file) >= written).then_some(()));
        match round % 3 {
            0 => kill(agent.id()),
            1 => kill(program),
            _ => children(served.server.id()).into_iter().for_each(kill),
        }
        let status = eventually("the end of the agent", || agent.try_wait().unwrap());
        match round % 3 {
            0 => eventually("the end of the file", || (length(&file) == blocks << 16).then_some(())),
            1 => assert_eq!(status.code(), Some(128 + 9)),
            _ => {
                assert!(status.success(), "the program's calls and writes wait for the next server");
                eventually("the next server", || served.account("others").map(drop));
            }
        }
        eventually("the program's end", || (!Path::new(&format!("/proc/{program}")).exists()).then_some(()));
    }
}

/// A program that writes 4 KiB to each of these files in turn while `run` exists, under admission at a byte a second. Lines of its agent are in
/// `errors`.
fn endless_writer(devices: &[&Served], run: &Path, errors: &Path) -> Child {
    fs::write(run, "").unwrap();
    let write = |served: &&Served| {
        let file = served.file("endless");
        fs::write(&file, "").unwrap();
        format!("dd if=/dev/zero of={} bs=4k count=1 seek=$i conv=notrunc 2>/dev/null", file.display())
    };
    // One process for each device, as a held call on one device must not delay those on another.
    let loops = devices.iter().map(write).map(|write| {
        format!("(i=0; while [ -e {} ]; do {write}; i=$((i+1)); sleep 0.02; done) &", run.display())
    });
    let script = loops.chain(["wait".to_owned()]).collect::<Vec<_>>().join("\n");
    let mut exec = dwell();
    exec.args(["exec", "--account", "writer"]).args(NEVER);
    devices.iter().for_each(|served| _ = exec.arg("--control").arg(served.control()));
    exec.args(["--", "sh", "-c", &script]).stderr(fs::File::create(errors).unwrap()).spawn().unwrap()
}

/// A process that continues when this is dropped.
struct Stopped(u32);

impl Stopped {
    fn signal(&self, name: &str) {
        assert!(succeeds(Command::new("kill").args([name, &self.0.to_string()])));
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

/// A program that starts while no server listens waits for the next one, and has its limits from its first call on.
#[test]
fn a_program_that_starts_during_a_restart_is_limited() {
    let _alone = alone();
    let store = Store(PathBuf::from(format!("/dev/shm/dwell-split-start-{}", std::process::id())));
    fs::File::create(&store.0).unwrap().set_len(64 << 20).unwrap();
    let Some(served) = Served::over("start", "split-token", &[store.0.to_str().unwrap()]) else { return };
    let supervisor = Stopped(served.server.id());
    fs::write(served.file("file"), "").unwrap();
    let output = format!("of={}", served.file("file").display());
    let errors = served.directory.join("errors");
    supervisor.signal("-STOP");
    children(served.server.id()).into_iter().for_each(kill);
    eventually("the end of the server", || served.account("others").is_none().then_some(()));
    let mut exec = dwell();
    exec.args(["exec", "--account", "writer"]).args(NEVER).arg("--control").arg(served.control());
    exec.args(["--", "dd", "if=/dev/zero", &output, "bs=64k", "count=64", "conv=notrunc"]);
    let mut writer = exec.stderr(fs::File::create(&errors).unwrap()).spawn().unwrap();
    eventually("the line about the restart", || {
        fs::read_to_string(&errors)
            .unwrap()
            .contains("is restarting its server; waiting for it")
            .then_some(())
    });
    drop(supervisor);
    served.await_held();
    assert!(length(&served.file("file")) < 64 << 16);
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    assert!(eventually("the end of the writer", || writer.try_wait().unwrap()).success());
}

/// Also with several devices, and more than once.
#[test]
fn programs_are_limited_again_when_a_server_is_back() {
    let _alone = alone();
    let store = |name: &str| {
        let store = Store(PathBuf::from(format!("/dev/shm/dwell-split-{name}-{}", std::process::id())));
        fs::File::create(&store.0).unwrap().set_len(64 << 20).unwrap();
        store
    };
    let stores = [store("back-1"), store("back-2")];
    let [path, other_path] = stores.each_ref().map(|store| store.0.to_str().unwrap());
    let Some(served) = Served::over("back-1", "split-token", &[path]) else { return };
    let Some(other) = Served::over("back-2", "split-token", &[other_path]) else { return };
    let (run, errors) = (served.directory.join("run"), served.directory.join("errors"));
    let mut program = endless_writer(&[&served, &other], &run, &errors);
    let lines = |of: &str| {
        let text = fs::read_to_string(&errors).unwrap();
        text.lines().filter(|line| line.contains(of)).count()
    };
    served.await_held();
    other.await_held();
    for round in 1..=2 {
        children(served.server.id()).into_iter().for_each(kill);
        eventually("the line that the server ended", || {
            (lines("its server has ended") == round).then_some(())
        });
        eventually("the line that limits hold", || (lines("has its limits again") == round).then_some(()));
        let account = eventually("the account", || served.account("writer"));
        assert_eq!((&account["agents"], &account["terms"]["rate"]), (&1.into(), &1.into()), "{account}");
        served.await_held();
        assert_eq!(other.account("writer").unwrap()["agents"], 1);
    }
    assert_eq!(lines(other.control().to_str().unwrap()), 0, "the other server runs");
    fs::remove_file(run).unwrap();
    for served in [&served, &other] {
        assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    }
    let status = eventually("the end of the program", || program.try_wait().unwrap());
    assert!(status.success());
}

/// Options that a second program omits stay, those that it has replace the first one's, also after a restart of the server.
#[test]
fn a_second_program_of_an_account_keeps_the_limits_of_the_first() {
    let _alone = alone();
    let store = Store(PathBuf::from(format!("/dev/shm/dwell-split-second-{}", std::process::id())));
    fs::File::create(&store.0).unwrap().set_len(64 << 20).unwrap();
    let Some(served) = Served::over("second", "split-token", &[store.0.to_str().unwrap()]) else { return };
    let (run, errors) = (served.directory.join("run"), served.directory.join("errors"));
    let mut program = endless_writer(&[&served], &run, &errors);
    served.await_held();
    let second = |terms: &[&str]| {
        let mut exec = dwell();
        exec.args(["exec", "--account", "writer", "--control"]).arg(served.control()).args(terms);
        assert!(succeeds(exec.args(["--", "true"])));
        eventually("the end of the second program", || {
            served.account("writer").filter(|account| account["agents"] == 1)
        })
    };
    let account = second(&[]);
    assert_eq!(account["terms"]["rate"], 1, "{account}");
    served.await_held();
    let account = second(&["--weight", "3"]);
    assert_eq!((&account["terms"]["rate"], &account["terms"]["weight"]), (&1.into(), &3.into()), "{account}");
    served.await_held();
    children(served.server.id()).into_iter().for_each(kill);
    let account = eventually("the account at the next server", || served.account("writer"));
    assert_eq!((&account["terms"]["rate"], &account["terms"]["weight"]), (&1.into(), &3.into()), "{account}");
    served.await_held();
    let account = second(&["--rate", "100M"]);
    assert_eq!(account["terms"]["rate"], 100_000_000, "{account}");
    fs::remove_file(run).unwrap();
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    let status = eventually("the end of the program", || program.try_wait().unwrap());
    assert!(status.success());
}

/// The shares are those of accounts whose programs run.
#[test]
fn ended_accounts_have_no_share_and_disappear() {
    let _alone = alone();
    let Some(served) = Served::new("ended", "afq") else { return };
    let exec = |name: &str| {
        let mut exec = dwell();
        exec.args(["exec", "--account", name, "--control"]).arg(served.control());
        exec
    };
    let mut running = exec("running").args(["--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    for number in 0..9 {
        assert!(succeeds(exec(&format!("ended-{number}")).args(["--weight", "8", "--", "true"])));
    }
    let state = || -> Value {
        let output = dwell().arg("ctl").arg(served.control()).args(["show", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let shares = || -> Vec<u64> {
        let state = state();
        let items = state["items"].as_array().unwrap().iter();
        items.filter_map(|item| item["facts"]["share_percent"].as_u64()).collect()
    };
    eventually("shares of `others` and the running account", || (shares() == [50, 50]).then_some(()));
    eventually("the end of the other accounts", || {
        let state = state();
        let accounts = state["accounts"].as_array().unwrap();
        let names: Vec<_> = accounts.iter().filter_map(|account| account["name"].as_str()).collect();
        (names == ["others", "running"]).then_some(())
    });
    assert!(succeeds(exec("again").args(["--", "true"])), "numbers are used again");
    assert!(served.account("again").is_some());
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
}

/// Joins a program that runs, and shows what the account does.
#[test]
fn a_running_program_is_joined() {
    let _alone = alone();
    let Some(served) = Served::new("join", "split-token") else { return };
    let file = served.file("file");
    fs::write(&file, "").unwrap();
    let script =
        format!("read line; exec dd if=/dev/zero of={} bs=64k count=64 conv=notrunc", file.display());
    let mut program =
        Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut agent = dwell()
        .args(["exec", "--account", "writer", "--rate", "1", "--control"])
        .arg(served.control())
        .args(["--join", &program.id().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let is_filtered = || {
        let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap_or_default();
        status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]))
    };
    let ended = eventually("the join", || match agent.try_wait().unwrap() {
        Some(_) => Some(true),
        None => is_filtered().then_some(false),
    });
    if ended {
        let output = agent.wait_with_output().unwrap();
        eprintln!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr));
        let _ = program.kill();
        program.wait().unwrap();
        return;
    }
    program.stdin.take().unwrap().write_all(b"go\n").unwrap();
    served.await_held();
    let shown = dwell().arg("ctl").arg(served.control()).arg("show").output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("write 1") && shown.contains("debt"), "{shown}");
    agent.kill().unwrap();
    agent.wait().unwrap();
    let status = eventually("the end of the program", || program.try_wait().unwrap());
    assert!(status.success());
    assert_eq!(length(&file), 64 << 16);
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

/// A dead agent's calls go on, and no longer count as held, neither for the account nor for the scheduler, while another program of the account is held.
#[test]
fn calls_of_a_killed_agent_are_not_held() {
    let _alone = alone();
    let Some(served) = Served::new("killed", "split-token") else { return };
    let mut writers = ["a", "b"].map(|name| served.writer(name, 64, &NEVER));
    let held = |number: u64| {
        eventually("held calls", || {
            let output = dwell().arg("ctl").arg(served.control()).args(["show", "--json"]).output().unwrap();
            let state: Value = serde_json::from_slice(&output.stdout).ok()?;
            let account = state["accounts"].as_array()?.iter().find(|account| account["name"] == "writer")?;
            let items = state["items"].as_array()?;
            let item = items.iter().find(|item| item["number"] == account["number"])?;
            let counts = [&account["held"], &account["waits"]["write"]["held"], &item["facts"]["held"]];
            counts.map(Value::as_u64).iter().all(|&count| count == Some(number)).then_some(())
        });
    };
    held(2);
    writers[0].kill().unwrap();
    writers[0].wait().unwrap();
    held(1);
    eventually("the first writer's end", || (length(&served.file("a")) == 64 << 16).then_some(()));
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    assert!(eventually("the end of the other writer", || writers[1].try_wait().unwrap()).success());
}

/// Pages of direct I/O are in no cache, so no process was seen to dirty them.
#[test]
fn direct_writes_are_data() {
    let _alone = alone();
    let Some(served) = Served::new("direct", "split-token") else { return };
    let file = served.file("file");
    fs::write(&file, vec![1; 4 << 20]).unwrap();
    assert!(succeeds(Command::new("sync").arg(&file)));
    let output = format!("of={}", file.display());
    let mut writer = dwell();
    writer.args(["exec", "--account", "writer", "--rate", "100M", "--control"]).arg(served.control());
    writer.args(["--", "dd", "if=/dev/zero", &output, "bs=1M", "count=4", "conv=notrunc", "oflag=direct"]);
    assert!(succeeds(&mut writer));
    let account = eventually("the account", || {
        served.account("writer").filter(|account| account["caused"].as_u64() >= Some(4 << 20))
    });
    assert_eq!(account["data"], 4 << 20, "{account}");
    assert!(account["metadata"].as_u64() < Some(1 << 20), "{account}");
}

/// What a program dirtied before it joined is not charged to the account when it is written.
#[test]
fn data_that_was_dirty_before_the_join_is_not_the_accounts() {
    let _alone = alone();
    let Some(served) = Served::new("before", "split-token") else { return };
    let (file, done) = (served.file("file"), served.directory.join("done"));
    let script = "import os, sys\n\
        file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n\
        os.pwrite(file, bytes(8 << 20), 0)\n\
        open(sys.argv[2], 'w')\n\
        sys.stdin.readline()\n\
        os.pwrite(file, b'x', 16 << 20)\n\
        os.remove(sys.argv[2])\n\
        sys.stdin.readline()\n";
    let mut program = Command::new("python3");
    program.args(["-c", script]).arg(&file).arg(&done).stdin(Stdio::piped());
    let Ok(mut program) = program.spawn() else { return eprintln!("SKIPPED: no python3") };
    eventually("the first write", || done.exists().then_some(()));
    let mut join = dwell();
    join.args(["exec", "--account", "writer", "--rate", "100M", "--control"]).arg(served.control());
    let mut agent = join.args(["--join", &program.id().to_string()]).spawn().unwrap();
    eventually("the account", || {
        assert!(agent.try_wait().unwrap().is_none(), "not joined");
        served.account("writer")
    });
    std::thread::sleep(Duration::from_secs(1));
    program.stdin.as_mut().unwrap().write_all(b"again\n").unwrap();
    eventually("the second write", || (!done.exists()).then_some(()));
    assert!(succeeds(Command::new("sync").arg("-f").arg(&file)));
    let account = served.account("writer").unwrap();
    assert!(account["caused"].as_u64() < Some(1 << 20) && account["calls"] != 0, "{account}");
    program.stdin.as_mut().unwrap().write_all(b"end\n").unwrap();
    assert!(program.wait().unwrap().success() && agent.wait().unwrap().success());
}

/// A restarted server does not charge again what its predecessor charged when it became dirty.
#[test]
fn pages_that_were_dirty_before_a_restart_are_charged_once() {
    let _alone = alone();
    let store = Store(PathBuf::from(format!("/dev/shm/dwell-split-once-{}", std::process::id())));
    fs::File::create(&store.0).unwrap().set_len(64 << 20).unwrap();
    let Some(served) = Served::over("once", "split-token", &[store.0.to_str().unwrap()]) else { return };
    let (file, done) = (served.file("file"), served.directory.join("done"));
    fs::write(&file, vec![1; 8 << 20]).unwrap();
    assert!(succeeds(Command::new("sync").arg(&file)));
    let script = format!(
        "dd if=/dev/zero of={0} bs=64k count=128 conv=notrunc; touch {1}; read line; printf x | dd of={0} conv=notrunc; rm {1}; cat",
        file.display(),
        done.display()
    );
    let mut program = dwell();
    program.args(["exec", "--account", "writer", "--rate", "100M", "--control"]).arg(served.control());
    let mut program = program
        .args(["--", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the written file", || done.exists().then_some(()));
    children(served.server.id()).into_iter().for_each(kill);
    eventually("the account at the next server", || served.account("writer"));
    program.stdin.as_mut().unwrap().write_all(b"again\n").unwrap();
    eventually("the end of the second write", || (!done.exists()).then_some(()));
    assert!(succeeds(Command::new("sync").arg("-f").arg(&file)));
    let account = served.account("writer").unwrap();
    assert!(account["caused"].as_u64() < Some(1 << 20), "{account}");
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}

/// Directories have no data: what is dirty after a commit is metadata in the buffer cache.
#[test]
fn metadata_is_dirty_for_its_account_until_it_is_written() {
    let _alone = alone();
    let Some(served) = Served::new("metadata", "split-token") else { return };
    let mut round = 0;
    eventually("dirty metadata of the account", || {
        // Again, as the kernel may have written it already.
        round += 1;
        let directory = served.file(&format!("directory-{round}"));
        let script = format!("mkdir {0} {0}/1 {0}/2 {0}/3 && sync {0}", directory.display());
        let made = dwell()
            .args(["exec", "--account", "writer", "--rate", "100M", "--control"])
            .arg(served.control())
            .args(["--", "sh", "-c", &script])
            .status();
        assert!(made.unwrap().success());
        served.account("writer").filter(|account| account["dirty"].as_u64() > Some(0))
    });
    assert!(succeeds(Command::new("sync").arg("-f").arg(served.directory.join("files"))));
    eventually("written metadata of the account", || {
        let account = served.account("writer")?;
        (account["dirty"] == 0 && account["metadata"].as_u64() > Some(0) && account["data"] == 0)
            .then_some(())
    });
}

/// A listener needs no server until a container comes.
#[test]
fn a_listener_removes_its_socket_when_it_is_ended() {
    let socket = std::env::temp_dir().join(format!("dwell-split-listen-{}", std::process::id()));
    for signal in ["-TERM", "-INT"] {
        let mut listener = dwell()
            .args(["exec", "--control", "/none", "--listen"])
            .arg(&socket)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: Vec<_> = BufReader::new(listener.stderr.take().unwrap()).lines().take(2).collect();
        let note = lines[1].as_ref().unwrap();
        assert!(note.contains("/none: no server listens there") && note.contains("without limits"), "{note}");
        assert!(socket.exists());
        assert!(succeeds(Command::new("kill").args([signal, &listener.id().to_string()])));
        let status = eventually("the end of the listener", || listener.try_wait().unwrap());
        assert!(status.success() && !socket.exists(), "{status}");
    }
}

#[test]
fn wrong_options_are_named_with_the_reason() {
    let missing = std::env::temp_dir().join("dwell-none/none/socket");
    let missing = missing.to_str().unwrap();
    for (arguments, part) in [
        (&["--account", "a", "--join-cgroup", "/etc"][..], "/etc: no cgroup"),
        (&["--account", "a", "--fsync-deadline", "-5ms", "--", "true"], "--fsync-deadline: "),
        (&["--account", "a", "--rate", "-5", "--", "true"], "'-5' is not a size"),
        (&["--listen", missing], "create it first"),
    ] {
        let output = dwell().args(["exec", "--control", "/none"]).args(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(part), "{arguments:?}: {error}");
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
