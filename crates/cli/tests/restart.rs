//! A server that its supervisor restarts, without access to the files of its configuration.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// A directory, and the supervisor of the server in it. Both are removed when this is dropped.
struct Supervised {
    directory: PathBuf,
    supervisor: Option<Child>,
}

impl Supervised {
    fn new() -> Self {
        let directory = format!("restart-{}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(directory);
        fs::create_dir_all(&directory).unwrap();
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
    let mut supervised = Supervised::new();
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
    let mut server = supervised.dwell(&[&serve[..], &model, &network].concat());
    server.stdout(Stdio::piped()).stderr(File::create(directory.join("errors")).unwrap());
    let mut server = server.spawn().unwrap();
    let mut device = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut device).unwrap();
    supervised.supervisor = Some(server);
    if device.is_empty() || supervised.errors().contains("the kernel cannot send requests again") {
        return eprintln!("SKIPPED: {}", supervised.errors());
    }
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
        File::open(device.trim()).unwrap().read_exact(&mut sector).unwrap();
        let after = supervised.state().unwrap();
        for field in ["scheduler", "tunables", "depth", "capacity_sectors"] {
            assert_eq!(before[field], after[field], "{field}: {before} {after}");
        }
    }
    let server = supervised.server().expect("a server");
    let name = fs::read_to_string(format!("/proc/{}/comm", server.as_raw_pid())).unwrap();
    assert_eq!(name.trim(), "dwell", "it was started as /proc/self/exe");
}
