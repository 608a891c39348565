//! The server and a program that writes to its device in one memory cgroup.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::Place;
use crate::common::{Directory, Served, run};

/// Limit of each wait of these tests. A run takes 0.2 to 5 s.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Removes the cgroup `$0` once its standard input ends, and what is left there and below the mount points `$1`: only if this process
/// died, or a test failed, as it ends all that it starts. A process that waits for the device goes on when the mount is gone. The loop
/// device holds the mount until its users are gone, so each step may have to be repeated.
const CLEANER: &str = r#"trap '' HUP INT TERM; cat >/dev/null
loops() { losetup -l -n -O NAME,BACK-FILE | grep -F "$1/" | while read -r device _; do echo "$device"; done; }
i=0; while [ $i -lt 300 ]; do
  rmdir "$0"
  if ! [ -d "$0" ] && ! grep -qF " $1/" /proc/self/mounts && [ -z "$(loops "$1")" ]; then break; fi
  umount -f "$1"/*
  for device in $(loops "$1"); do losetup -d "$device"; done
  [ -d "$0" ] && kill -9 $(cat "$0/cgroup.procs")
  i=$((i+1)); sleep 0.1
done
rm -f "$1"/*"#;

/// A memory cgroup. Another process removes it, also if this one is killed.
struct Group {
    path: PathBuf,
    cleaner: Child,
}

impl Group {
    /// Below `parent`, with a limit in its file of that name.
    fn new(place: &Place, parent: &Path, file: &str, mib: u64) -> Self {
        let path = parent.join(format!("dwell-test-{}-{mib}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::write(path.join(file), (mib << 20).to_string()).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", CLEANER]).arg(&path).arg(place.private());
        let cleaner = command.stdin(Stdio::piped()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
        Self { path, cleaner }
    }

    fn procs(&self) -> String {
        self.path.join("cgroup.procs").to_string_lossy().into_owned()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Closes its standard input first.
        let _ = self.cleaner.wait();
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

/// Writes through the page cache without an end, until it is killed or an error ends it.
fn endless_writer(group: &Group, device: &str, part: usize) -> Child {
    let script = r#"while dd if=/dev/zero of="$0" bs=1M count=100 seek="$1" conv=notrunc,fsync; do :; done"#;
    let script = format!("echo 0 > \"$2\" && {script}");
    let arguments = ["-c", &script, device, &(100 * part).to_string(), &group.procs()];
    let mut command = Command::new("sh");
    // A process group of its own, to kill the shell and what it runs.
    command.args(arguments).stderr(Stdio::null()).process_group(0).spawn().unwrap()
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number as i32).unwrap()
}

/// When a process started, in clock ticks since boot.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn kill_group(mut leader: Child) {
    let _ = kill_process_group(pid(leader.id()), Signal::KILL);
    leader.wait().unwrap();
}

/// Waits until something is over; false if it takes too long.
pub fn ends(has_ended: impl FnMut() -> bool) -> bool {
    ends_within(PATIENCE, has_ended)
}

fn ends_within(patience: Duration, mut has_ended: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < patience {
        if has_ended() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// Sectors written to a block device.
fn written(device: &str) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{}/stat", &device[5..])).unwrap();
    stat.split_whitespace().nth(6).unwrap().parse().unwrap()
}

/// Whether the second server has locked its memory.
fn has_standby(server: &Served) -> bool {
    let mut servers = server.children();
    servers.sort_by_key(|&pid| start_time(pid));
    servers.get(1).is_some_and(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
        locked.is_some_and(|locked| !locked.trim().starts_with("0 "))
    })
}

/// Kills servers whose memory cgroup is full of dirty pages of their own device, with or without a second server that waits. Each time
/// the next server continues, or the second signal ends everything. Returns how often it continued.
fn kill_with_writers_in_the_cgroup(
    place: &Place,
    (parent, file): (&Path, &str),
    writers: usize,
    standby: bool,
) -> u32 {
    let kills: u32 = std::env::var("DWELL_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let group = Group::new(place, parent, file, 128);
    let disk = place.join("disk");
    let attached = ["--file", disk.to_str().unwrap(), "--size", "1G", "--supervised"];
    let mut server = Served::start_within(&group.procs(), &place.attaching(&attached));
    let writers: Vec<Child> = (0..writers).map(|part| endless_writer(&group, &server.what, part)).collect();
    let goes_on = |patience| {
        let before = written(&server.what);
        ends_within(patience, || written(&server.what) > before + (16 << 10))
    };
    assert!(goes_on(PATIENCE), "the writers do not write");
    let mut continued = 0;
    while continued < kills {
        if standby {
            let _ = ends(|| has_standby(&server));
        }
        // The one that serves is the eldest. There may be none for a moment: the kernel ends servers of a full cgroup, too.
        let mut active = None;
        ends(|| {
            active = server.children().into_iter().min_by_key(|&pid| start_time(pid));
            active.is_some()
        });
        let Some(active) = active else { break };
        let _ = kill_process(pid(active), Signal::KILL);
        if !goes_on(PATIENCE / if standby { 3 } else { 6 }) {
            break;
        }
        continued += 1;
    }
    writers.into_iter().for_each(kill_group);
    // The first signal waits until the device is unused, the second one does not.
    server.signal("-TERM");
    if continued < kills || !ends(|| server.has_ended()) {
        // Signals that arrive at once count once, so one follows another. A killed server may be unable to end: after the second signal
        // the supervisor waits 40 s for it.
        let ended = ends_within(2 * PATIENCE, || {
            server.signal("-TERM");
            std::thread::sleep(Duration::from_secs(1));
            server.has_ended()
        });
        assert!(ended, "the supervisor does not end");
    }
    place.nothing_left();
    fs::remove_file(disk).unwrap();
    continued
}

fn runs(place: &Place, parent: &Path, file: &str) {
    for mib in [64, 128, 256] {
        let group = Group::new(place, parent, file, mib);
        write_beyond_the_limit(place, &group, mib);
    }
}

/// Where the memory controllers of version 1 and 2 are mounted, and the names of their limits. Prints SKIPPED for what is missing.
fn controllers() -> Vec<(PathBuf, &'static str)> {
    let mounts = run("cat", &["/proc/self/mounts"]);
    let mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let (mut v1, mut v2) = (None, None);
    for mount in mounts {
        let at = PathBuf::from(mount[1]);
        if mount[2] == "cgroup" && mount[3].split(',').any(|option| option == "memory") {
            v1 = Some((at, "memory.limit_in_bytes"));
        } else if mount[2] == "cgroup2" {
            let controllers = fs::read_to_string(at.join("cgroup.subtree_control")).unwrap_or_default();
            let has_memory = controllers.split_whitespace().any(|controller| controller == "memory");
            v2 = has_memory.then_some((at, "memory.max"));
        }
    }
    for (found, version) in [(&v1, 1), (&v2, 2)] {
        if found.is_none() {
            eprintln!("SKIPPED: no memory controller of cgroup version {version}");
        }
    }
    v1.into_iter().chain(v2).collect()
}

/// A regression: the cgroup was empty at once after the server's death, and its mount stayed.
#[test]
fn a_test_that_fails_leaves_no_mount() {
    let Some(place) = Place::on_disk(&["losetup"]) else { return };
    for (parent, file) in controllers() {
        let group = Group::new(&place, &parent, file, 128);
        let disk = place.join("disk");
        let attached = ["--file", disk.to_str().unwrap(), "--size", "64M"];
        let mut server = Served::start_within(&group.procs(), &place.attaching(&attached));
        server.kill();
        drop(group);
        place.nothing_left();
        fs::remove_file(disk).unwrap();
    }
}

/// A regression: the device's thread waited for writeback that only it could finish, and survived `kill -9`.
#[test]
fn a_writer_in_the_servers_memory_cgroup_does_not_block_it() {
    let Some(place) = Place::on_disk(&["dd"]) else { return };
    for (parent, file) in controllers() {
        runs(&place, &parent, file);
    }
}

/// A regression: a server that was restarted in the cgroup of a writer waited for writeback that only it could finish, and so did its
/// supervisor.
#[test]
fn after_a_kill_in_a_full_memory_cgroup_the_next_server_continues_or_the_device_is_given_up() {
    let Some(place) = Place::on_disk(&["dd"]) else { return };
    for (parent, file) in controllers() {
        for (writers, standby) in [(1, true), (4, true), (4, false)] {
            let continued = kill_with_writers_in_the_cgroup(&place, (&parent, file), writers, standby);
            eprintln!("{file}, writers: {writers}, standby: {standby}: continued after {continued} kills");
            // Beside one writer, the second server always took over.
            assert!(continued > 0 || !standby || writers > 1, "no second server took over");
        }
    }
}

/// A regression: with a back end that allocates, the device's thread waited for writeback that only it could finish.
#[test]
fn in_a_small_memory_cgroup_a_back_end_that_allocates_is_refused() {
    let Some(on_disk) = Place::on_disk(&["sh"]) else { return };
    let in_memory = Directory::in_memory();
    for (parent, file) in controllers() {
        let group = Group::new(&on_disk, &parent, file, 128);
        let (disk, quick) = (on_disk.join("disk"), in_memory.join("disk"));
        let (disk, quick) = (disk.to_str().unwrap(), quick.to_str().unwrap());
        for back_end in [
            &["--memory", "64M"][..],
            &["--file", disk, "--size", "64M", "--buffered"],
            &["--file", quick, "--size", "64M"],
        ] {
            let script = "echo 0 > \"$0\" && exec \"$@\"";
            let mut command = Command::new("sh");
            command.args(["-c", script, &group.procs()]);
            let server = Served::start_by(&mut command, &on_disk.attaching(back_end));
            assert!(server.is_none(), "{back_end:?} was served");
            on_disk.nothing_left();
        }
        for made in [disk, quick] {
            fs::remove_file(made).unwrap();
        }
    }
}
