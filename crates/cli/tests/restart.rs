//! A server that its supervisor restarts, without access to the files of its configuration.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// A directory, and the supervisor of the server in it. Both are removed when this is dropped.
struct Supervised {
    directory: PathBuf,
    supervisor: Option<Child>,
}

impl Supervised {
    fn new(name: &str) -> Self {
        let directory = format!("restart-{name}-{}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(directory);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("dwell.toml"), "").unwrap();
        Self { directory, supervisor: None }
    }

    fn dwell(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dwell"));
        command.current_dir(&self.directory).env("DWELL_CONFIG", "dwell.toml").args(arguments);
        command
    }

    fn ctl(&self, arguments: &[&str]) -> Output {
        let mut command = self.dwell(&[&["ctl", "control"], arguments].concat());
        command.env("DWELL_CONFIG", "").output().unwrap()
    }

    fn state(&self) -> Option<Value> {
        serde_json::from_slice(&self.ctl(&["show", "--json"]).stdout).ok()
    }

    /// Which members of an array are served.
    fn served(&self) -> Option<Vec<bool>> {
        let state: Value = serde_json::from_slice(&self.ctl(&["array", "--json"]).stdout).ok()?;
        state["members"].as_array()?.iter().map(|member| member["served"].as_bool()).collect()
    }

    /// Starts a server, and returns the first lines of its standard output, the attached devices; none if the kernel cannot continue them.
    fn serve(&mut self, arguments: &[&str], devices: usize) -> Option<Vec<String>> {
        let mut server = self.dwell(arguments);
        let errors = File::create(self.directory.join("errors")).unwrap();
        let mut server = server.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let lines: Vec<String> = lines.take(devices).map_while(Result::ok).collect();
        self.supervisor = Some(server);
        if lines.len() < devices || self.errors().contains("the kernel cannot send requests again") {
            eprintln!("SKIPPED: {}", self.errors());
            return None;
        }
        Some(lines)
    }

    /// Kills the server, and waits until the next one serves these members.
    fn kill(&self, members: &[bool]) {
        let killed = self.server().expect("a server");
        kill_process(killed, Signal::KILL).unwrap();
        until("no server continues", self, || {
            self.server().is_some_and(|server| server != killed)
                && self.served().is_some_and(|served| served == members)
        });
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.directory.join("errors")).unwrap_or_default()
    }

    /// The process that serves.
    fn server(&self) -> Option<Pid> {
        let supervisor = self.supervisor.as_ref()?.id();
        let threads = fs::read_dir(format!("/proc/{supervisor}/task")).ok()?.flatten();
        let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        // In a limited memory cgroup a second server waits. The eldest, which is the first in the list, serves.
        lists.filter_map(|list| list.split(' ').next()?.parse().ok()).find_map(Pid::from_raw)
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let Some(mut supervisor) = self.supervisor.take() else { return };
        // Ends in order, or the second signal gives the device up.
        for _ in 0..2 {
            let _ = kill_process(Pid::from_child(&supervisor), Signal::TERM);
            let began = Instant::now();
            while began.elapsed() < PATIENCE {
                if matches!(supervisor.try_wait(), Ok(Some(_))) {
                    let _ = fs::remove_dir_all(&self.directory);
                    return;
                }
                sleep(Duration::from_millis(20));
            }
        }
        let _ = supervisor.kill();
        let _ = supervisor.wait();
    }
}

fn until(what: &str, supervised: &Supervised, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}: {}", supervised.errors());
        sleep(Duration::from_millis(20));
    }
}

/// A regression: a restarted server read its configuration again, which may be on the device that waits for this server, or have changed.
/// A FIFO without a writer blocks its reader, as such a device does.
#[test]
fn a_restarted_server_opens_no_file_of_its_configuration() {
    let mut supervised = Supervised::new("inputs");
    let directory = supervised.directory.clone();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let copy = |from: &str, to: &str| fs::copy(crates.join(from), directory.join(to)).unwrap();
    fs::write(directory.join("dwell.toml"), "[serve]\ndepth = 7\nscheduler = \"scheduler.toml\"\n").unwrap();
    fs::write(directory.join("scheduler.toml"), "scheduler = \"deadline\"\nread_expire = \"123ms\"\n")
        .unwrap();
    copy("disks/src/builtin/ssd-sata.toml", "drive.toml");
    copy("../fuzz/seeds/profile/two.toml", "profile.toml");
    for file in ["server-cert.pem", "server-key.pem", "ca-cert.pem"] {
        copy(&format!("server/tests/certificates/{file}"), file);
    }
    let inputs = [
        "dwell.toml",
        "scheduler.toml",
        "drive.toml",
        "profile.toml",
        "server-cert.pem",
        "server-key.pem",
        "ca-cert.pem",
    ];
    let model = ["--drive", "drive.toml", "--profile", "profile.toml"];
    let network = ["--nbd", "tcp:127.0.0.1:0", "--tls", ".", "--tls-verify-peer", "--control", "control"];
    let serve = ["serve", "disk", "--size", "8MiB", "--attach"];
    let arguments = [&serve[..], &model, &network].concat();
    let Some(devices) = supervised.serve(&arguments, 1) else { return };
    until("the server does not answer", &supervised, || supervised.state().is_some());
    let before = supervised.state().unwrap();
    assert!(before["tunables"].to_string().contains("123 ms"), "{before}");
    assert_eq!(before["depth"], 7, "{before}");

    for input in inputs {
        let path = directory.join(input);
        fs::remove_file(&path).unwrap();
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    }
    for _ in 0..2 {
        let killed = supervised.server().expect("a server");
        kill_process(killed, Signal::KILL).unwrap();
        until("no server continues", &supervised, || {
            supervised.server().is_some_and(|server| server != killed) && supervised.state().is_some()
        });
        let mut sector = [0; 512];
        File::open(&devices[0]).unwrap().read_exact(&mut sector).unwrap();
        let after = supervised.state().unwrap();
        for field in ["scheduler", "tunables", "depth", "capacity_sectors"] {
            assert_eq!(before[field], after[field], "{field}: {before} {after}");
        }
    }
    let server = supervised.server().expect("a server");
    let name = fs::read_to_string(format!("/proc/{}/comm", server.as_raw_pid())).unwrap();
    assert_eq!(name.trim(), "dwell", "it was started as /proc/self/exe");
}

/// Writes a block to each device and compares what it reads, until it has to stop; counts the rounds. The page cache has no part in it.
fn verify(devices: &[String], stop: &AtomicBool, rounds: &AtomicU64) {
    let open = |device: &String| {
        File::options()
            .read(true)
            .write(true)
            .custom_flags(OFlags::DIRECT.bits() as i32)
            .open(device)
            .unwrap()
    };
    let files: Vec<File> = devices.iter().map(open).collect();
    let mut memory = vec![0_u8; 3 * 4096];
    let aligned = memory.as_ptr().align_offset(4096);
    let (written, read) = memory[aligned..aligned + 2 * 4096].split_at_mut(4096);
    while !stop.load(Ordering::Relaxed) {
        let round = rounds.load(Ordering::Relaxed);
        let at = round % 4096 * 4096;
        written.fill((round as u8).wrapping_add(1));
        for file in &files {
            file.write_all_at(written, at).unwrap();
            file.read_exact_at(read, at).unwrap();
            assert!(written == read, "round {round}: {} instead of {}", read[0], written[0]);
        }
        rounds.store(round + 1, Ordering::Relaxed);
    }
}

/// All members failed at once: md stopped the array.
#[test]
fn a_killed_server_of_an_array_fails_no_member() {
    let mut supervised = Supervised::new("array");
    let directory = supervised.directory.clone();
    fs::write(directory.join("dwell.toml"), "").unwrap();
    for disk in ["disk0", "disk1", "disk2"] {
        File::create(directory.join(disk)).unwrap().set_len(16 << 20).unwrap();
    }
    let members = ["serve", "--member", "disk0", "--member", "disk1", "--array", "raid1", "--attach"];
    let Some(devices) = supervised.serve(&[&members[..], &["--control", "control"]].concat(), 2) else {
        return;
    };
    until("the members are served", &supervised, || supervised.served() == Some(vec![true, true]));
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| verify(&devices, &stop, &rounds));
        for _ in 0..3 {
            let before = rounds.load(Ordering::Relaxed);
            until("I/O goes on", &supervised, || {
                writer.is_finished() || rounds.load(Ordering::Relaxed) > before
            });
            if !writer.is_finished() {
                supervised.kill(&[true, true]);
            }
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("no error and no wrong data");
    });
    let member = |arguments: &[&str]| {
        let answer = supervised.ctl(&[&["member"], arguments].concat());
        assert!(answer.status.success(), "{answer:?}");
    };
    member(&["fail", "1"]);
    until("the member ends", &supervised, || supervised.served() == Some(vec![true, false]));
    supervised.kill(&[true, false]);
    let disk = directory.join("disk2").display().to_string();
    member(&["replace", "1", &disk]);
    supervised.kill(&[true, true]);
    let state = supervised.ctl(&["array"]);
    assert!(String::from_utf8_lossy(&state.stdout).contains("disk2"), "the replaced disk: {state:?}");
}

/// A scheduler that was chosen while the device was served stays after a crash. The next `dwell serve` uses its option.
#[test]
fn a_switch_of_the_scheduler_outlives_the_server() {
    let mut supervised = Supervised::new("switch");
    let arguments =
        ["serve", "disk", "--size", "64M", "--attach", "--control", "control", "--scheduler", "noop"];
    if supervised.serve(&arguments, 1).is_none() {
        return;
    }
    let scheduler = |supervised: &Supervised| supervised.state().map(|state| state["scheduler"].clone());
    for chosen in ["deadline", "stream(deadline)"] {
        assert!(supervised.ctl(&["switch", chosen]).status.success());
        for _ in 0..2 {
            let killed = supervised.server().expect("a server");
            kill_process(killed, Signal::KILL).unwrap();
            until("no server continues", &supervised, || {
                supervised.server().is_some_and(|server| server != killed)
                    && scheduler(&supervised).is_some_and(|scheduler| scheduler == chosen)
            });
        }
        assert!(supervised.errors().contains(&format!("the scheduler is '{chosen}' again")));
    }
}
