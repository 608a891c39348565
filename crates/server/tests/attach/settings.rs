//! Settings of a loop device while it is attached, and afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Place;
use crate::common::{Loop, Served, run, try_run};

/// The queue directory of a server's loop device.
fn queue_of(server: &Served) -> PathBuf {
    PathBuf::from("/sys/block").join(server.what.trim_start_matches("/dev/")).join("queue")
}

fn setting(queue: &Path, name: &str) -> String {
    fs::read_to_string(queue.join(name)).unwrap().trim().to_string()
}

#[test]
fn the_loop_device_has_the_properties_of_the_drive() {
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

/// Linux raises the read-ahead of a rotational disk when another limit is set, and treats a loop device as
/// non-rotational by default.
#[test]
fn read_ahead_is_as_configured_and_writes_are_not_throttled() {
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

/// Linux raises the read-ahead when the driver detects that the device does not support writes of zeroes.
#[test]
fn zeroes_for_a_rotational_disk_do_not_change_its_read_ahead() {
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
    assert!(!discarded, "a discard must fail as on a disk without discards");
    run("blkdiscard", &["-z", "-o", "1M", "-l", "1M", &server.what]);
    assert_eq!(["rotational", "read_ahead_kb"].map(setting), ["1", "128"]);
    run("dd", &[&format!("if={}", server.what), &format!("of={zeroed}"), "bs=1M", "count=3", "iflag=direct"]);
    let expected = [7, 0, 7].map(|byte| vec![byte; 1 << 20]).concat();
    assert!(fs::read(&*zeroed).unwrap() == expected);
    let device = server.what.clone();
    place.stop(server);
    let next = Loop::over(&place.join("next"));
    if next.0 != device {
        return eprintln!("SKIPPED: another process took the loop device");
    }
    assert_ne!(setting("discard_max_bytes"), "0", "the next user may discard");
}

#[test]
fn the_error_for_an_unknown_elevator_lists_the_available_ones() {
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

/// The effect of `blockdev --setro` is not reported, and outlives the attachment.
#[test]
fn a_loop_device_left_read_only_is_made_writable() {
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
        return eprintln!("SKIPPED: another process took the loop device");
    }
    assert_eq!((then, restored), (false, true));
}

/// The previous settings of the loop device are recorded before the first change.
#[test]
fn the_record_of_a_device_has_its_previous_settings() {
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
        return eprintln!("SKIPPED: another process took the loop device");
    }
    killed.kill();
    place.serve(&["--nothing", "64M"]).stop();
    assert_eq!(settings.map(read), changed);
    fs::write(queue.join("scheduler"), before[0].split(['[', ']']).nth(1).unwrap()).unwrap();
    fs::write(queue.join("nr_requests"), before[1].trim()).unwrap();
    fs::write(queue.join("max_sectors_kb"), before[3].trim()).unwrap();
    place.nothing_left();
}

/// Between a detachment and the check for it, another process may attach a file.
#[test]
fn a_loop_device_attached_by_another_process_is_not_waited_for() {
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
        return eprintln!("SKIPPED: another process took the loop device");
    }
    assert!(ours.wait_detached(std::time::Duration::ZERO));
}
