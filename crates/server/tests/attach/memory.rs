//! The server and a program that writes to its device in one memory cgroup.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Place;
use crate::common::{Served, run};

/// How long the writer may take. Each run takes 0.2 to 5 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// A memory cgroup, removed at the end.
struct Group(PathBuf);

impl Group {
    /// Below `parent`, with a limit in its file of that name.
    fn new(parent: &Path, file: &str, mib: u64) -> Self {
        let path = parent.join(format!("dwell-test-{}-{mib}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::write(path.join(file), (mib << 20).to_string()).unwrap();
        Self(path)
    }

    fn procs(&self) -> String {
        self.0.join("cgroup.procs").to_string_lossy().into_owned()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes that were killed leave it a moment later.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A program in a cgroup.
fn within(group: &Group, program: &str, arguments: &[&str]) -> Child {
    let script = "echo 0 > \"$0\" && exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, &group.procs(), program]).args(arguments);
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// Writes three times the limit through the page cache. The kernel's writeback needs the server, and reclaim needs writeback.
fn write_beyond_the_limit(place: &Place, group: &Group, mib: u64) {
    let disk = place.join("disk");
    let attached = ["--file", disk.to_str().unwrap(), "--size", "1G"];
    let mut server = Served::start_within(&group.procs(), &place.attaching(&attached));
    let (to, count) = (format!("of={}", server.what), format!("count={}", 3 * mib));
    let mut writer = within(group, "dd", &["if=/dev/zero", &to, "bs=1M", &count, "conv=fsync"]);
    let began = Instant::now();
    let ended = loop {
        match writer.try_wait().unwrap() {
            Some(status) => break status.success(),
            None if began.elapsed() > PATIENCE => {
                // Everything that waits for the server ends with an error.
                place.unmount(&server);
                server.kill();
                writer.wait().unwrap();
                break false;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(ended, "with {mib} MiB the writer was blocked for {} s", began.elapsed().as_secs());
    place.stop(server);
    fs::remove_file(disk).unwrap();
}

fn runs(place: &Place, parent: &Path, file: &str) {
    for mib in [64, 128, 256] {
        for _ in 0..3 {
            let group = Group::new(parent, file, mib);
            write_beyond_the_limit(place, &group, mib);
        }
    }
}

/// A regression: the device's thread waited for writeback that only it could finish, and survived `kill -9`.
#[test]
fn a_writer_in_the_servers_memory_cgroup_does_not_block_it() {
    let Some(place) = Place::on_disk(&["dd"]) else { return };
    let mounts = run("cat", &["/proc/self/mounts"]);
    let mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let (mut v1, mut v2) = (None, None);
    for mount in mounts {
        let at = PathBuf::from(mount[1]);
        if mount[2] == "cgroup" && mount[3].split(',').any(|option| option == "memory") {
            v1 = Some(at);
        } else if mount[2] == "cgroup2" {
            let controllers = fs::read_to_string(at.join("cgroup.subtree_control")).unwrap_or_default();
            v2 = controllers.split_whitespace().any(|controller| controller == "memory").then_some(at);
        }
    }
    match v1 {
        Some(at) => runs(&place, &at, "memory.limit_in_bytes"),
        None => eprintln!("SKIPPED: no memory controller of cgroup version 1"),
    }
    match v2 {
        Some(at) => runs(&place, &at, "memory.max"),
        None => eprintln!("SKIPPED: no memory controller of cgroup version 2"),
    }
}
