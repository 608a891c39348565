//! The device as the kernel sees it: FUSE and a loop device, put up and taken down.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use common::{Directory, Loop, Served, can_attach, have, run, try_run};

/// Loop devices are the machine's: one test at a time looks for those left behind.
static MACHINE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A mount that is undone whatever happens.
struct Mounted(PathBuf);

impl Mounted {
    fn new(device: &str, directory: &Directory) -> Self {
        let at = directory.join("mnt");
        let _ = fs::create_dir(&at);
        run("mount", &[device, &at.to_string_lossy()]);
        Self(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = try_run("umount", &[&self.0.to_string_lossy()]);
    }
}

/// Nothing of a server whose runtime directory this was is left on the machine.
fn nothing_left(runtime: &Path) {
    let runtime = runtime.to_string_lossy().into_owned();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&runtime), "mounts are left: {mounts}");
    let loops = run("losetup", &["-l", "-n", "-O", "NAME,BACK-FILE"]);
    assert!(!loops.contains(&runtime), "loop devices are left: {loops}");
    let files: Vec<_> = fs::read_dir(&runtime).unwrap().flatten().collect();
    assert!(files.is_empty(), "files are left: {files:?}");
}

fn serve(directory: &Directory, arguments: &[&str]) -> (Served, PathBuf) {
    let runtime = directory.join("run");
    let path = runtime.to_string_lossy().into_owned();
    let all = [&["--attach", "--runtime", &path], arguments].concat();
    (Served::start(&all), runtime)
}

/// A tree of files that is there wherever these tests are, and that nobody installs into meanwhile.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Where the settings of its loop device's queue are.
fn queue_of(server: &Served) -> PathBuf {
    PathBuf::from("/sys/block").join(server.what.trim_start_matches("/dev/")).join("queue")
}

fn setting(queue: &Path, name: &str) -> String {
    fs::read_to_string(queue.join(name)).unwrap().trim().to_string()
}

fn made_filled_checked(kind: &str, make: &[&str], check: &[&str]) {
    if !can_attach() || !have(make[0]) {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let (server, runtime) = serve(&directory, &["--memory", "512M", "--scheduler", "deadline"]);
    let device = server.what.clone();
    run(make[0], &[&make[1..], &[&device]].concat());
    let mounted = Mounted::new(&device, &directory);
    let copy = mounted.0.join("copy");
    let copy = copy.to_string_lossy();
    run("cp", &["-r", SOURCES, &copy]);
    drop(mounted);
    // A second mount sees what is on the disk, not what the page cache remembers.
    let mounted = Mounted::new(&device, &directory);
    run("diff", &["-r", SOURCES, &copy]);
    drop(mounted);
    let (ok, text) = try_run(check[0], &[&check[1..], &[&device]].concat());
    assert!(ok, "{kind}: {text}");
    server.stop();
    nothing_left(&runtime);
}

#[test]
fn ext4_is_made_filled_and_found_clean() {
    made_filled_checked("ext4", &["mkfs.ext4", "-q"], &["e2fsck", "-fn"]);
}

#[test]
fn xfs_is_made_filled_and_found_clean() {
    made_filled_checked("xfs", &["mkfs.xfs", "-q"], &["xfs_repair", "-n"]);
}

#[test]
fn btrfs_is_made_filled_and_found_clean() {
    made_filled_checked("btrfs", &["mkfs.btrfs", "-q"], &["btrfs", "check"]);
}

#[test]
fn the_loop_device_is_set_up_as_the_drive_is() {
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let (server, runtime) = serve(&directory, &["--nothing", "1G", "--fixed", "100"]);
    let queue = queue_of(&server);
    let attribute = |name: &str| setting(&queue, name);
    assert!(attribute("scheduler").contains("[none]"));
    assert_eq!((attribute("rotational"), attribute("nr_requests")), ("1".into(), "128".into()));
    assert_eq!(run("blockdev", &["--getsize64", &server.what]).trim(), (1u64 << 30).to_string());
    assert_eq!(attribute("dax"), "0");
    let direct = run("losetup", &["-l", "-n", "-O", "DIO", &server.what]);
    assert_eq!(direct.trim(), "1");
    server.stop();
    nothing_left(&runtime);
}

#[test]
fn what_a_killed_server_left_is_cleaned_up_by_the_next_one() {
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let (mut killed, runtime) = serve(&directory, &["--memory", "64M"]);
    let left = killed.what.clone();
    killed.kill();
    let loops = run("losetup", &["-l", "-n", "-O", "NAME"]);
    assert!(loops.contains(&left), "the kernel keeps it: {loops}");
    let (server, _) = serve(&directory, &["--memory", "64M"]);
    run("dd", &["if=/dev/zero", &format!("of={}", server.what), "bs=1M", "count=8", "oflag=direct"]);
    server.stop();
    nothing_left(&runtime);
}

#[test]
fn a_server_that_answers_nobody_holds_up_no_other() {
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let (silent, runtime) = serve(&directory, &["--memory", "64M"]);
    let signal = |name: &str| silent.signal(name);
    // What is known of its file for ever is forgotten.
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
    signal("-STOP");
    let (started, waiting) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        let (server, _) = serve(&directory, &["--memory", "64M"]);
        let _ = started.send(());
        (server, directory)
    });
    let up = waiting.recv_timeout(std::time::Duration::from_secs(10));
    signal("-CONT");
    let (server, _directory) = other.join().unwrap();
    server.stop();
    silent.stop();
    nothing_left(&runtime);
    up.expect("it waited for the other one");
}

/// A kill between attaching a loop device and noting that leaves one that no record names.
#[test]
fn what_a_killed_server_had_no_time_to_note_is_cleaned_up_as_well() {
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let (mut killed, runtime) = serve(&directory, &["--memory", "64M"]);
    let left = killed.what.trim_start_matches("/dev/").to_owned();
    killed.kill();
    let mut records = fs::read_dir(&runtime).unwrap().flatten().map(|entry| entry.path());
    let record = records.find(|path| path.extension().is_some_and(|e| e == "json")).unwrap();
    let mut noted: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    noted["device"] = serde_json::Value::Null;
    fs::write(&record, noted.to_string()).unwrap();
    let (server, _) = serve(&directory, &["--memory", "64M"]);
    server.stop();
    nothing_left(&runtime);
    // Unmounted while it was attached, its file would be shown as the root of nothing.
    let attached = fs::read_to_string(format!("/sys/block/{left}/loop/backing_file"));
    assert_ne!(attached.ok().as_deref(), Some("/\n"));
}

/// Its mount goes with it, and of the file on it nothing is left but the root of nothing.
#[test]
fn what_a_killed_server_with_mounts_of_its_own_left_is_cleaned_up_as_well() {
    if !can_attach() || !have("unshare") {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let runtime = directory.join("run");
    let path = runtime.to_string_lossy().into_owned();
    let mut killed = Served::start_secluded(&["--attach", "--runtime", &path, "--memory", "64M"]);
    let left = killed.what.clone();
    killed.kill();
    let (server, _) = serve(&directory, &["--memory", "64M"]);
    assert_eq!(server.what, left, "it was free again");
    server.stop();
    nothing_left(&runtime);
}

/// Between a detachment and the look for it, somebody else may have attached something.
#[test]
fn a_loop_device_that_is_somebody_elses_now_is_not_waited_for() {
    use server::{Lifetime, LoopDevice};
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::on_disk();
    let attach = |name: &str| {
        let file = directory.join(name);
        fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
        LoopDevice::attach(&file, 512, Lifetime::UntilClosed).unwrap()
    };
    let (ours, open) = attach("ours");
    assert!(!ours.wait_detached(std::time::Duration::ZERO));
    drop(open);
    assert!(ours.wait_detached(std::time::Duration::from_secs(5)));
    let (theirs, _open) = attach("theirs");
    if theirs.path() != ours.path() {
        return eprintln!("SKIPPED: somebody else took the loop device");
    }
    assert!(ours.wait_detached(std::time::Duration::ZERO));
}

/// Linux raises the read-ahead of a disk that turns when another limit of it is set, and takes a loop device for a disk that does
/// not.
#[test]
fn read_ahead_is_what_was_asked_for_and_writes_are_not_throttled() {
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let (server, runtime) = serve(&directory, &["--nothing", "64M", "--fixed", "100"]);
    let queue = queue_of(&server);
    let settings = ["rotational", "max_sectors_kb", "read_ahead_kb"];
    assert_eq!(settings.map(|name| setting(&queue, name)), ["1", "512", "128"]);
    match fs::read_to_string(queue.join("wbt_lat_usec")) {
        Ok(latency) => assert_eq!(latency.trim(), "0"),
        Err(_) => eprintln!("SKIPPED: this kernel does not throttle writes"),
    }
    server.stop();
    nothing_left(&runtime);
}

/// Linux raises its read-ahead when the driver learns that it cannot be told zeroes.
#[test]
fn zeroes_for_a_disk_that_turns_are_written_and_leave_its_read_ahead_alone() {
    if !can_attach() || !have("blkdiscard") {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let (server, runtime) = serve(&directory, &["--memory", "64M", "--fixed", "100"]);
    let queue = queue_of(&server);
    let setting = |name: &str| setting(&queue, name);
    assert_eq!(["rotational", "read_ahead_kb"].map(setting), ["1", "128"]);
    let (sevens, zeroed) = (directory.join("sevens"), directory.join("zeroed"));
    fs::write(&sevens, vec![7; 3 << 20]).unwrap();
    let (sevens, zeroed) = (sevens.to_string_lossy(), zeroed.to_string_lossy());
    run("dd", &[&format!("if={sevens}"), &format!("of={}", server.what), "bs=1M", "oflag=direct"]);
    let (discarded, _) = try_run("blkdiscard", &["-o", "0", "-l", "1M", &server.what]);
    assert!(!discarded, "as a disk without: nobody may take it for done");
    run("blkdiscard", &["-z", "-o", "1M", "-l", "1M", &server.what]);
    assert_eq!(["rotational", "read_ahead_kb"].map(setting), ["1", "128"]);
    run("dd", &[&format!("if={}", server.what), &format!("of={zeroed}"), "bs=1M", "count=3", "iflag=direct"]);
    let expected = [7, 0, 7].map(|byte| vec![byte; 1 << 20]).concat();
    assert!(fs::read(&*zeroed).unwrap() == expected);
    let device = server.what.clone();
    server.stop();
    nothing_left(&runtime);
    let next = Loop::over(&directory.join("next"));
    if next.0 != device {
        return eprintln!("SKIPPED: somebody else took the loop device");
    }
    assert_ne!(setting("discard_max_bytes"), "0", "its next user may discard");
}

#[test]
fn who_asks_for_an_elevator_that_is_not_there_is_told_which_are() {
    use server::{Lifetime, LoopDevice};
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::on_disk();
    let file = directory.join("disk");
    fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let (device, _open) = LoopDevice::attach(&file, 512, Lifetime::UntilClosed).unwrap();
    let refused = device.set_elevator("nonsense", &[]).unwrap_err().to_string();
    assert!(refused.contains("'nonsense'; it has none"), "{refused}");
    let refused = device.set_elevator("none", &[("nonsense".into(), "1".into())]).unwrap_err().to_string();
    assert!(refused.contains("none's nonsense = 1"), "{refused}");
}

/// Of `blockdev --setro` nobody is told, and it outlives what it was meant for.
#[test]
fn a_loop_device_that_somebody_left_read_only_is_written_to() {
    use server::{Lifetime, LoopDevice};
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::on_disk();
    let file = directory.join("disk");
    fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let attach = || LoopDevice::attach(&file, 512, Lifetime::UntilClosed).unwrap();
    let (left, open) = attach();
    run("blockdev", &["--setro", &left.path().to_string_lossy()]);
    drop(open);
    assert!(left.wait_detached(std::time::Duration::from_secs(5)));
    let (device, _open) = attach();
    let read_only = || run("blockdev", &["--getro", &device.path().to_string_lossy()]).trim() == "1";
    let then = read_only();
    device.restore();
    let restored = read_only();
    run("blockdev", &["--setrw", &left.path().to_string_lossy()]);
    if device.path() != left.path() {
        return eprintln!("SKIPPED: somebody else took the loop device");
    }
    assert_eq!((then, restored), (false, true));
}

/// What was set of the loop device before it was changed is noted before it is.
#[test]
fn the_record_of_a_device_says_how_it_was() {
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let (server, runtime) = serve(&directory, &["--nothing", "64M", "--fixed", "100"]);
    let queue = queue_of(&server);
    let read = |name: &str| fs::read_to_string(queue.join(name)).unwrap();
    server.stop();
    let settings = ["scheduler", "nr_requests", "read_ahead_kb", "max_sectors_kb"];
    let before = settings.map(read);
    fs::write(queue.join("scheduler"), "mq-deadline").unwrap();
    fs::write(queue.join("nr_requests"), "77").unwrap();
    fs::write(queue.join("max_sectors_kb"), "640").unwrap();
    let changed = settings.map(read);
    let (mut killed, _) = serve(&directory, &["--nothing", "64M", "--fixed", "100"]);
    if !queue.starts_with(format!("/sys/block/{}", killed.what.trim_start_matches("/dev/"))) {
        return eprintln!("SKIPPED: somebody else took the loop device");
    }
    killed.kill();
    serve(&directory, &["--nothing", "64M"]).0.stop();
    assert_eq!(settings.map(read), changed);
    fs::write(queue.join("scheduler"), before[0].split(['[', ']']).nth(1).unwrap()).unwrap();
    fs::write(queue.join("nr_requests"), before[1].trim()).unwrap();
    fs::write(queue.join("max_sectors_kb"), before[3].trim()).unwrap();
    nothing_left(&runtime);
}

#[test]
fn a_device_in_use_is_served_until_it_is_let_go() {
    if !can_attach() || !have("mkfs.ext4") {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let (mut server, runtime) = serve(&directory, &["--memory", "256M"]);
    run("mkfs.ext4", &["-q", &server.what]);
    let mounted = Mounted::new(&server.what, &directory);
    server.signal("-TERM");
    std::thread::sleep(std::time::Duration::from_millis(800));
    fs::write(mounted.0.join("late"), vec![7; 1 << 20]).unwrap();
    run("sync", &["-f", &mounted.0.join("late").to_string_lossy()]);
    drop(mounted);
    server.wait();
    nothing_left(&runtime);
}

/// As when the terminal or the pipe that it was started from is gone.
#[test]
fn a_server_that_nobody_reads_is_taken_down_like_any_other() {
    if !can_attach() || !have("mkfs.ext4") {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let runtime = directory.join("run");
    let path = runtime.to_string_lossy().into_owned();
    let (mut server, words) = Served::start_heard(&["--attach", "--runtime", &path, "--memory", "256M"]);
    drop(words);
    run("mkfs.ext4", &["-q", &server.what]);
    let mounted = Mounted::new(&server.what, &directory);
    server.signal("-TERM");
    // It says who uses the device.
    std::thread::sleep(std::time::Duration::from_millis(800));
    drop(mounted);
    server.wait();
    nothing_left(&runtime);
}

#[test]
fn a_server_says_when_its_mount_is_taken_from_it_and_still_takes_down_what_is_left() {
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let runtime = directory.join("run");
    let path = runtime.to_string_lossy().into_owned();
    let (server, mut words) = Served::start_heard(&["--attach", "--runtime", &path, "--memory", "64M"]);
    // In use by the loop device, it stays where it is, but nobody is asked any more.
    let _ = try_run("umount", &["-f", &runtime.join(format!("{}-0", server.pid())).to_string_lossy()]);
    assert!(!try_run("dd", &[&format!("if={}", server.what), "of=/dev/null", "count=1", "iflag=direct"]).0);
    server.stop();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut words, &mut said).unwrap();
    assert!(said.contains("its users get errors"), "{said}");
    nothing_left(&runtime);
}

/// A terminal that is closed takes what was started in it along; what was started to outlive it (nohup) stays.
#[test]
fn the_end_of_its_terminal_is_a_servers_orderly_end_unless_it_shall_outlive_it() {
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let runtime = directory.join("run");
    let path = runtime.to_string_lossy().into_owned();
    let attached = ["--attach", "--runtime", &path, "--memory", "64M"];
    let mut server = Served::start_on_a_terminal(&attached);
    server.signal("-HUP");
    server.wait();
    nothing_left(&runtime);
    let outliving = Served::start_outliving(&attached);
    outliving.signal("-HUP");
    run("dd", &["if=/dev/zero", &format!("of={}", outliving.what), "bs=1M", "count=1", "oflag=direct"]);
    outliving.stop();
    nothing_left(&runtime);
}

/// To make a file there takes requests that only the device itself can serve.
#[test]
fn a_decision_log_may_be_written_to_the_device_itself() {
    if !can_attach() || !have("mkfs.ext4") {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let control = directory.join("control");
    let (server, runtime) = serve(&directory, &["--memory", "256M", "--control", &control.to_string_lossy()]);
    run("mkfs.ext4", &["-q", &server.what]);
    let mounted = Mounted::new(&server.what, &directory);
    let log = mounted.0.join("log");
    let (answered, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut client = server::control::Client::connect(&control).unwrap();
        let begun = client.log(log.clone(), std::time::Duration::from_secs(1));
        let _ = answered.send(begun.map(|()| fs::metadata(&log).is_ok()));
    });
    let begun = waiting.recv_timeout(std::time::Duration::from_secs(10));
    if begun.is_err() {
        // Nothing else ends it.
        let _ = try_run("umount", &["-f", &runtime.join(format!("{}-0", server.pid())).to_string_lossy()]);
    }
    assert!(begun.expect("the device waits for itself").unwrap());
    run("sync", &["-f", &mounted.0.to_string_lossy()]);
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert!(fs::read_to_string(mounted.0.join("log")).unwrap().contains("dispatch"));
    drop(mounted);
    server.stop();
    nothing_left(&runtime);
}

#[test]
fn fio_verifies_under_every_scheduler_and_during_switches() {
    if !can_attach() || !have("fio") {
        return;
    }
    let _alone = alone();
    let directory = Directory::in_memory();
    let control = directory.join("control");
    let path = control.to_string_lossy().into_owned();
    let (server, runtime) = serve(&directory, &["--memory", "128M", "--control", &path]);
    let filename = format!("--filename={}", server.what);
    let fio = std::thread::spawn(move || {
        let jobs = ["--name=v", "--direct=1", "--ioengine=libaio", "--iodepth=16", "--rw=randwrite"];
        let verify = ["--bsrange=4k-64k", "--verify=crc32c", "--do_verify=1", "--size=96M", "--loops=2"];
        run("fio", &[&jobs[..], &verify, &[&filename]].concat())
    });
    let mut client = server::control::Client::connect(&control).unwrap();
    let names = ["noop", "deadline", "stream(deadline)", "bfq", "kyber", "mq-deadline", "look"];
    let mut switches = 0;
    while !fio.is_finished() {
        client.switch(names[switches % names.len()], switches % 5 == 4).unwrap();
        switches += 1;
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    fio.join().unwrap();
    eprintln!("verified during {switches} switches");
    server.stop();
    nothing_left(&runtime);
}

#[test]
fn a_block_device_is_served_unless_it_is_mounted() {
    if !can_attach() || !have("mkfs.ext4") {
        return;
    }
    let _alone = alone();
    let directory = Directory::on_disk();
    let disk = Loop::over(&directory.join("disk"));
    run("mkfs.ext4", &["-q", &disk.0]);
    let socket = directory.join("sock");
    let address = format!("unix:{}", socket.display());
    let mounted = Mounted::new(&disk.0, &directory);
    assert!(Served::try_start(&["--file", &disk.0, "--nbd", &address]).is_none(), "it is mounted");
    drop(mounted);
    let backing = directory.join("disk").to_string_lossy().into_owned();
    assert!(Served::try_start(&["--file", &backing, "--nbd", &address]).is_none(), "a loop device is on it");
    assert!(
        Served::try_start(&["--file", &disk.0, "--size", "65M", "--nbd", &address]).is_none(),
        "too small"
    );
    let server = Served::start(&["--file", &disk.0, "--nbd", &address]);
    let mut client = common::client::Nbd::connect(&socket);
    assert_eq!(client.read(1024, 512).unwrap()[56..58], [0x53, 0xef], "ext4's magic number");
    assert_eq!(client.write(32 << 20, &[9; 4096]), 0);
    assert_eq!(client.command(0, common::client::WRITE_ZEROES, 32 << 20, 4096), 0);
    assert_eq!(client.read(32 << 20, 4096).unwrap(), [0; 4096]);
    assert_eq!(client.command(0, common::client::TRIM, 0, 1 << 20), 0);
    assert_eq!(client.command(0, common::client::FLUSH, 0, 0), 0);
    server.stop();
}

#[test]
fn a_device_that_is_read_only_is_shown_as_that() {
    const EPERM: u32 = 1;
    if !can_attach() || !have("nbdinfo") {
        return;
    }
    let _alone = alone();
    let directory = Directory::on_disk();
    let file = directory.join("disk");
    fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
    // Its next user does not find it so; what `blockdev --setro` set, it would.
    let disk = Loop(run("losetup", &["-r", "-f", "--show", &file.to_string_lossy()]).trim().to_string());
    let socket = directory.join("sock");
    let address = format!("unix:{}", socket.display());
    let (server, runtime) = serve(&directory, &["--file", &disk.0, "--nbd", &address]);
    let mut client = common::client::Nbd::connect(&socket);
    assert_eq!(client.read(0, 4096).unwrap(), [0; 4096]);
    assert_eq!(client.write(0, &[9; 4096]), EPERM);
    assert_eq!(client.command(0, common::client::WRITE_ZEROES, 0, 4096), EPERM);
    drop(client);
    assert!(
        try_run("nbdinfo", &["--is", "read-only", &format!("nbd+unix:///?socket={}", socket.display())]).0
    );
    let attached = server.what.clone();
    let read_only = || run("blockdev", &["--getro", &attached]).trim() == "1";
    let then = read_only();
    server.stop();
    nothing_left(&runtime);
    assert_eq!((then, read_only()), (true, false), "its next user may write");
}

/// The device's thread would wait for it, and never give it more than one request at once.
#[test]
fn a_disk_is_waited_for_by_others_than_the_devices_thread() {
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::on_disk();
    let disk = Loop::over(&directory.join("disk"));
    let (address, control) =
        (format!("unix:{}", directory.join("sock").display()), directory.join("control"));
    let arguments = ["--file", &disk.0, "--nbd", &address, "--control", &control.to_string_lossy()];
    let server = Served::start(&arguments);
    let backend = server::control::Client::connect(&control).unwrap().show().unwrap().backend;
    server.stop();
    assert!(backend.contains("io_uring") || backend.contains("threads"), "{backend}");
}

/// What a killed process wrote is there anyway; only the machine's end would tell whether it was written through.
#[test]
fn what_shall_be_durable_reaches_the_disk_with_a_flush() {
    use common::client::{FLUSH, FUA, WRITE_ZEROES};
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::on_disk();
    let disk = Loop::over(&directory.join("disk"));
    let socket = directory.join("sock");
    let address = format!("unix:{}", socket.display());
    let stat = format!("/sys/block/{}/stat", disk.0.trim_start_matches("/dev/"));
    // The sixteenth field: flushes done.
    let flushes =
        || -> u64 { fs::read_to_string(&stat).unwrap().split_whitespace().nth(15).unwrap().parse().unwrap() };
    for engine in ["uring", "threads"] {
        let server = Served::start(&["--file", &disk.0, "--engine", engine, "--nbd", &address]);
        let mut client = common::client::Nbd::connect(&socket);
        let mut after = |flags, kind, length: u32| {
            let before = flushes();
            match kind {
                common::client::WRITE => {
                    client.send_write(flags, 1, 4096, &vec![1; length as usize]).unwrap();
                    assert_eq!(client.reply().unwrap().1, 0);
                }
                _ => assert_eq!(client.command(flags, kind, 0, length), 0),
            }
            flushes() - before
        };
        assert_eq!(after(0, common::client::WRITE, 4096), 0, "{engine}");
        assert!(after(FUA, common::client::WRITE, 4096) > 0, "{engine}: a write");
        assert!(after(FUA, WRITE_ZEROES, 4096) > 0, "{engine}: zeroes");
        assert!(after(0, FLUSH, 0) > 0, "{engine}: a flush");
        drop(client);
        server.stop();
    }
}

/// Of which nothing is mounted or held, and nobody else has claimed anything.
#[test]
fn a_disk_is_not_served_while_a_loop_device_is_on_a_part_of_it() {
    if !can_attach() || !have("addpart") {
        return;
    }
    let _alone = alone();
    let directory = Directory::on_disk();
    let disk = Loop::over(&directory.join("disk"));
    run("addpart", &[&disk.0, "1", "2048", "32768"]);
    let part = format!("{}p1", disk.0);
    let upper = Loop(run("losetup", &["-f", "--show", &part]).trim().to_string());
    let address = format!("unix:{}", directory.join("sock").display());
    let served = Served::try_start(&["--file", &disk.0, "--nbd", &address]);
    assert!(served.is_none(), "{} is on it", upper.0);
    drop(upper);
    let whole = Loop(run("losetup", &["-f", "--show", &disk.0]).trim().to_string());
    assert!(Served::try_start(&["--file", &part, "--nbd", &address]).is_none(), "{} is on its disk", whole.0);
    drop(whole);
    Served::start(&["--file", &disk.0, "--nbd", &address]).stop();
    run("delpart", &[&disk.0, "1"]);
}

#[test]
fn a_file_system_without_direct_io_keeps_nothing_of_what_it_cannot_hold() {
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::on_disk();
    let at = directory.join("mnt");
    fs::create_dir(&at).unwrap();
    run("mount", &["-t", "ramfs", "none", &at.to_string_lossy()]);
    let mounted = Mounted(at.clone());
    let disk = at.join("disk");
    let file = disk.to_string_lossy();
    let address = format!("unix:{}", directory.join("sock").display());
    let all = ["--file", &file, "--size", "1M", "--nbd", &address];
    assert!(Served::try_start(&all).is_none());
    assert!(!disk.exists(), "it was made and not taken away");
    Served::start(&[&all[..], &["--buffered"]].concat()).stop();
    drop(mounted);
}

#[test]
fn a_full_backing_store_fails_the_write_that_did_not_fit_and_no_other() {
    if !can_attach() {
        return;
    }
    let _alone = alone();
    let directory = Directory::on_disk();
    let small = directory.join("mnt");
    fs::create_dir(&small).unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=1M", "none", &small.to_string_lossy()]);
    let mounted = Mounted(small.clone());
    let (file, socket) = (small.join("disk").to_string_lossy().into_owned(), directory.join("sock"));
    let address = format!("unix:{}", socket.display());
    let server = Served::start(&["--file", &file, "--buffered", "--size", "64M", "--nbd", &address]);
    let mut client = common::client::Nbd::connect(&socket);
    assert_eq!(client.write(0, &[1; 65536]), 0);
    assert_eq!(client.write(8 << 20, &vec![2; 4 << 20]), 28, "ENOSPC");
    assert_eq!(client.read(0, 65536).unwrap(), [1; 65536]);
    assert_eq!(client.write(0, &[3; 65536]), 0, "what has its room can be written again");
    drop(client);
    server.stop();
    drop(mounted);
}
