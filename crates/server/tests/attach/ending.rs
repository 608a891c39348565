//! How a server ends, in order or not, and who cleans up.

use std::fs;

use crate::Place;
use crate::common::{Served, run, try_run};

#[test]
fn what_a_killed_server_left_is_cleaned_up_by_the_next_one() {
    let Some(place) = Place::in_memory(&[]) else { return };
    let mut killed = place.serve(&["--memory", "64M"]);
    let left = killed.what.clone();
    killed.kill();
    let loops = run("losetup", &["-l", "-n", "-O", "NAME"]);
    assert!(loops.contains(&left), "the kernel keeps it: {loops}");
    let server = place.serve(&["--memory", "64M"]);
    run("dd", &["if=/dev/zero", &format!("of={}", server.what), "bs=1M", "count=8", "oflag=direct"]);
    place.stop(server);
}

#[test]
fn a_server_that_answers_nobody_holds_up_no_other() {
    let Some(place) = Place::in_memory(&[]) else { return };
    let silent = place.serve(&["--memory", "64M"]);
    // What is known of its file for ever is forgotten.
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
    silent.signal("-STOP");
    let (started, waiting) = std::sync::mpsc::channel();
    let up = std::thread::scope(|scope| {
        scope.spawn(|| {
            let server = place.serve(&["--memory", "64M"]);
            let _ = started.send(());
            server.stop();
        });
        let up = waiting.recv_timeout(crate::memory::PATIENCE);
        silent.signal("-CONT");
        up
    });
    place.stop(silent);
    up.expect("it waited for the other one");
}

/// A kill between attaching a loop device and noting that leaves one that no record names.
#[test]
fn what_a_killed_server_had_no_time_to_note_is_cleaned_up_as_well() {
    let Some(place) = Place::in_memory(&[]) else { return };
    let mut killed = place.serve(&["--memory", "64M"]);
    let left = killed.what.trim_start_matches("/dev/").to_owned();
    killed.kill();
    let mut records = fs::read_dir(place.private()).unwrap().flatten().map(|entry| entry.path());
    let record = records.find(|path| path.extension().is_some_and(|e| e == "json")).unwrap();
    let mut noted: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    noted["device"] = serde_json::Value::Null;
    fs::write(&record, noted.to_string()).unwrap();
    let server = place.serve(&["--memory", "64M"]);
    place.stop(server);
    // Unmounted while it was attached, its file would be shown as the root of nothing.
    let attached = fs::read_to_string(format!("/sys/block/{left}/loop/backing_file"));
    assert_ne!(attached.ok().as_deref(), Some("/\n"));
}

/// Its mount goes with it, and of the file on it nothing is left but the root of nothing.
#[test]
fn what_a_killed_server_with_mounts_of_its_own_left_is_cleaned_up_as_well() {
    let Some(place) = Place::in_memory(&["unshare"]) else { return };
    let mut killed = Served::start_secluded(&place.attaching(&["--memory", "64M"]));
    let left = killed.what.clone();
    killed.kill();
    let server = place.serve(&["--memory", "64M"]);
    assert_eq!(server.what, left, "it was free again");
    place.stop(server);
}

#[test]
fn a_device_in_use_is_served_until_it_is_let_go() {
    let Some(place) = Place::in_memory(&["mkfs.ext4"]) else { return };
    let mut server = place.serve(&["--memory", "256M"]);
    run("mkfs.ext4", &["-q", &server.what]);
    let mounted = place.mount(&server.what);
    server.signal("-TERM");
    std::thread::sleep(std::time::Duration::from_millis(800));
    fs::write(mounted.0.join("late"), vec![7; 1 << 20]).unwrap();
    run("sync", &["-f", &mounted.0.join("late").to_string_lossy()]);
    drop(mounted);
    server.wait();
    place.nothing_left();
}

/// As when the terminal or the pipe that it was started from is gone.
#[test]
fn a_server_that_nobody_reads_is_taken_down_like_any_other() {
    let Some(place) = Place::in_memory(&["mkfs.ext4"]) else { return };
    let (mut server, words) = Served::start_heard(&place.attaching(&["--memory", "256M"]));
    drop(words);
    run("mkfs.ext4", &["-q", &server.what]);
    let mounted = place.mount(&server.what);
    server.signal("-TERM");
    // It says who uses the device.
    std::thread::sleep(std::time::Duration::from_millis(800));
    drop(mounted);
    server.wait();
    place.nothing_left();
}

#[test]
fn a_server_says_when_its_mount_is_taken_from_it_and_still_takes_down_what_is_left() {
    let Some(place) = Place::in_memory(&[]) else { return };
    let (server, mut words) = Served::start_heard(&place.attaching(&["--memory", "64M"]));
    // In use by the loop device, it stays where it is, but nobody is asked any more.
    place.unmount(&server);
    assert!(!try_run("dd", &[&format!("if={}", server.what), "of=/dev/null", "count=1", "iflag=direct"]).0);
    server.stop();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut words, &mut said).unwrap();
    assert!(said.contains("its users get errors"), "{said}");
    place.nothing_left();
}

/// A terminal that is closed takes what was started in it along; what was started to outlive it (nohup) stays.
#[test]
fn the_end_of_its_terminal_is_a_servers_orderly_end_unless_it_shall_outlive_it() {
    let Some(place) = Place::in_memory(&[]) else { return };
    let attached = place.attaching(&["--memory", "64M"]);
    let mut server = Served::start_on_a_terminal(&attached);
    server.signal("-HUP");
    server.wait();
    place.nothing_left();
    let outliving = Served::start_outliving(&attached);
    outliving.signal("-HUP");
    run("dd", &["if=/dev/zero", &format!("of={}", outliving.what), "bs=1M", "count=1", "oflag=direct"]);
    place.stop(outliving);
}
