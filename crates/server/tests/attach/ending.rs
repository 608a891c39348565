//! The end of a server, orderly or by a kill, and the cleanup.

use std::fs;

use crate::Place;
use crate::common::{Served, run, try_run};

#[test]
fn the_next_server_cleans_up_after_a_killed_one() {
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
fn a_server_that_does_not_respond_delays_no_other() {
    let Some(place) = Place::in_memory(&[]) else { return };
    let silent = place.serve(&["--memory", "64M"]);
    // Drops the cached attributes of its file, which never expire.
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
    up.expect("the start does not wait for the other server");
}

/// A kill between attaching a loop device and recording it leaves a loop device without a record.
#[test]
fn an_unrecorded_loop_device_of_a_killed_server_is_cleaned_up_too() {
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
    // If the file were unmounted while attached, the kernel would show it as `/`.
    let attached = fs::read_to_string(format!("/sys/block/{left}/loop/backing_file"));
    assert_ne!(attached.ok().as_deref(), Some("/\n"));
}

/// The mount ends with the namespace, and the kernel shows the loop device's file as `/`.
#[test]
fn a_killed_server_with_a_mount_namespace_is_cleaned_up_too() {
    let Some(place) = Place::in_memory(&["unshare"]) else { return };
    let mut killed = Served::start_secluded(&place.attaching(&["--memory", "64M"]));
    let left = killed.what.clone();
    killed.kill();
    let server = place.serve(&["--memory", "64M"]);
    assert_eq!(server.what, left, "the loop device was free again");
    place.stop(server);
}

#[test]
fn a_device_in_use_is_served_until_it_is_unused() {
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

/// timeout(1) signals its child and then its process group with the child in it. A regression: that was a second signal, and users got errors.
#[test]
fn signals_within_a_second_are_one_request_to_end() {
    let Some(place) = Place::in_memory(&["mkfs.ext4"]) else { return };
    for supervised in [true, false] {
        let options =
            if supervised { &["--memory", "256M", "--supervised"][..] } else { &["--memory", "256M"] };
        let mut server = place.serve(options);
        run("mkfs.ext4", &["-q", &server.what]);
        let mounted = place.mount(&server.what);
        for signal in ["-INT", "-INT", "-TERM"] {
            server.signal(signal);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        std::thread::sleep(std::time::Duration::from_millis(1500));
        fs::write(mounted.0.join("late"), vec![7; 1 << 20]).unwrap();
        run("sync", &["-f", &mounted.0.join("late").to_string_lossy()]);
        server.signal("-INT");
        // Its user gets errors.
        server.wait_for_status();
        drop(mounted);
        place.nothing_left();
    }
}

/// As after the end of the terminal or the pipe to which it writes.
#[test]
fn a_server_with_closed_outputs_ends_in_order() {
    let Some(place) = Place::in_memory(&["mkfs.ext4"]) else { return };
    let (mut server, words) = Served::start_heard(&place.attaching(&["--memory", "256M"]));
    drop(words);
    run("mkfs.ext4", &["-q", &server.what]);
    let mounted = place.mount(&server.what);
    server.signal("-TERM");
    // It prints the user of the device.
    std::thread::sleep(std::time::Duration::from_millis(800));
    drop(mounted);
    server.wait();
    place.nothing_left();
}

#[test]
fn a_server_reports_a_removed_mount_and_takes_the_rest_down() {
    let Some(place) = Place::in_memory(&[]) else { return };
    let (server, mut words) = Served::start_heard(&place.attaching(&["--memory", "64M"]));
    // The loop device still uses the file, but its requests no longer reach the server.
    place.unmount(&server);
    assert!(!try_run("dd", &[&format!("if={}", server.what), "of=/dev/null", "count=1", "iflag=direct"]).0);
    server.stop();
    let mut output = String::new();
    std::io::Read::read_to_string(&mut words, &mut output).unwrap();
    assert!(output.contains("its users get errors"), "{output}");
    place.nothing_left();
}

/// Closing a terminal ends programs started in it, except those started with `nohup`.
#[test]
fn the_end_of_its_terminal_ends_a_server_unless_started_with_nohup() {
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
