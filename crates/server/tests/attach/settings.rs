//! How a loop device is set while it is ours, and afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Place;
use crate::common::{Loop, Served, run, try_run};

/// Where the settings of its loop device's queue are.
fn queue_of(server: &Served) -> PathBuf {
    PathBuf::from("/sys/block").join(server.what.trim_start_matches("/dev/")).join("queue")
}

fn setting(queue: &Path, name: &str) -> String {
    fs::read_to_string(queue.join(name)).unwrap().trim().to_string()
}

#[test]
fn the_loop_device_is_set_up_as_the_drive_is() {
    let Some(place) = Place::in_memory(&[]) else { return };
    let server = place.serve(&["--nothing", "1G", "--fixed", "100"]);
    let queue = queue_of(&server);
    let attribute = |name: &str| setting(&queue, name);
    assert!(attribute("scheduler").contains("[none]"));
    assert_eq!((attribute("rotational"), attribute("nr_requests")), ("1".into(), "128".into()));
    assert_eq!(run("blockdev", &["--getsize64", &server.what]).trim(), (1u64 << 30).to_string());
    assert_eq!(attribute("dax"), "0");
    let direct = run("losetup", &["-l", "-n", "-O", "DIO", &server.what]);
    assert_eq!(direct.trim(), "1");
    place.stop(server);
}

/// Linux raises the read-ahead of a disk that turns when another limit of it is set, and takes a loop device for a disk that does
/// not.
#[test]
fn read_ahead_is_what_was_asked_for_and_writes_are_not_throttled() {
    let Some(place) = Place::in_memory(&[]) else { return };
    let server = place.serve(&["--nothing", "64M", "--fixed", "100"]);
    let queue = queue_of(&server);
    let settings = ["rotational", "max_sectors_kb", "read_ahead_kb"];
    assert_eq!(settings.map(|name| setting(&queue, name)), ["1", "512", "128"]);
    match fs::read_to_string(queue.join("wbt_lat_usec")) {
        Ok(latency) => assert_eq!(latency.trim(), "0"),
        Err(_) => eprintln!("SKIPPED: this kernel does not throttle writes"),
    }
    place.stop(server);
}

/// Linux raises its read-ahead when the driver learns that it cannot be told zeroes.
#[test]
fn zeroes_for_a_disk_that_turns_are_written_and_leave_its_read_ahead_alone() {
    let Some(place) = Place::in_memory(&["blkdiscard"]) else { return };
    let server = place.serve(&["--memory", "64M", "--fixed", "100"]);
    let queue = queue_of(&server);
    let setting = |name: &str| setting(&queue, name);
    assert_eq!(["rotational", "read_ahead_kb"].map(setting), ["1", "128"]);
    let (sevens, zeroed) = (place.join("sevens"), place.join("zeroed"));
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
    place.stop(server);
    let next = Loop::over(&place.join("next"));
    if next.0 != device {
        return eprintln!("SKIPPED: somebody else took the loop device");
    }
    assert_ne!(setting("discard_max_bytes"), "0", "its next user may discard");
}

#[test]
fn who_asks_for_an_elevator_that_is_not_there_is_told_which_are() {
    use server::{Lifetime, LoopDevice};
    let Some(place) = Place::on_disk(&[]) else { return };
    let file = place.join("disk");
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
    let Some(place) = Place::on_disk(&[]) else { return };
    let file = place.join("disk");
    fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let attach = || LoopDevice::attach(&file, 512, Lifetime::UntilClosed).unwrap();
    let (left, open) = attach();
    run("blockdev", &["--setro", &left.path().to_string_lossy()]);
    drop(open);
    assert!(left.wait_detached(crate::memory::PATIENCE));
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
    let Some(place) = Place::in_memory(&[]) else { return };
    let server = place.serve(&["--nothing", "64M", "--fixed", "100"]);
    let queue = queue_of(&server);
    let read = |name: &str| fs::read_to_string(queue.join(name)).unwrap();
    server.stop();
    let settings = ["scheduler", "nr_requests", "read_ahead_kb", "max_sectors_kb"];
    let before = settings.map(read);
    fs::write(queue.join("scheduler"), "mq-deadline").unwrap();
    fs::write(queue.join("nr_requests"), "77").unwrap();
    fs::write(queue.join("max_sectors_kb"), "640").unwrap();
    let changed = settings.map(read);
    let mut killed = place.serve(&["--nothing", "64M", "--fixed", "100"]);
    if !queue.starts_with(format!("/sys/block/{}", killed.what.trim_start_matches("/dev/"))) {
        return eprintln!("SKIPPED: somebody else took the loop device");
    }
    killed.kill();
    place.serve(&["--nothing", "64M"]).stop();
    assert_eq!(settings.map(read), changed);
    fs::write(queue.join("scheduler"), before[0].split(['[', ']']).nth(1).unwrap()).unwrap();
    fs::write(queue.join("nr_requests"), before[1].trim()).unwrap();
    fs::write(queue.join("max_sectors_kb"), before[3].trim()).unwrap();
    place.nothing_left();
}

/// Between a detachment and the look for it, somebody else may have attached something.
#[test]
fn a_loop_device_that_is_somebody_elses_now_is_not_waited_for() {
    use server::{Lifetime, LoopDevice};
    let Some(place) = Place::on_disk(&[]) else { return };
    let attach = |name: &str| {
        let file = place.join(name);
        fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
        LoopDevice::attach(&file, 512, Lifetime::UntilClosed).unwrap()
    };
    let (ours, open) = attach("ours");
    assert!(!ours.wait_detached(std::time::Duration::ZERO));
    drop(open);
    assert!(ours.wait_detached(crate::memory::PATIENCE));
    let (theirs, _open) = attach("theirs");
    if theirs.path() != ours.path() {
        return eprintln!("SKIPPED: somebody else took the loop device");
    }
    assert!(ours.wait_detached(std::time::Duration::ZERO));
}
