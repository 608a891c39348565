//! File systems and verifiers on an attached device.

use std::fs;

use crate::Place;
use crate::common::{run, try_run};

/// A tree of files that exists on every machine with these tests and does not change during them.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn made_filled_checked(kind: &str, make: &[&str], check: &[&str]) {
    let Some(place) = Place::in_memory(&[make[0]]) else { return };
    let server = place.serve(&["--memory", "512M", "--scheduler", "deadline"]);
    let device = server.what.clone();
    run(make[0], &[&make[1..], &[&device]].concat());
    let mounted = place.mount(&device);
    let copy = mounted.0.join("copy");
    let copy = copy.to_string_lossy();
    run("cp", &["-r", SOURCES, &copy]);
    drop(mounted);
    // A second mount reads from the disk, not from the page cache.
    let mounted = place.mount(&device);
    run("diff", &["-r", "--no-dereference", SOURCES, &copy]);
    drop(mounted);
    let (ok, text) = try_run(check[0], &[&check[1..], &[&device]].concat());
    assert!(ok, "{kind}: {text}");
    place.stop(server);
}

#[test]
fn ext4_is_created_filled_and_clean() {
    made_filled_checked("ext4", &["mkfs.ext4", "-q"], &["e2fsck", "-fn"]);
}

#[test]
fn xfs_is_created_filled_and_clean() {
    made_filled_checked("xfs", &["mkfs.xfs", "-q"], &["xfs_repair", "-n"]);
}

#[test]
fn btrfs_is_created_filled_and_clean() {
    made_filled_checked("btrfs", &["mkfs.btrfs", "-q"], &["btrfs", "check"]);
}

/// Creating the file needs requests that only the device itself can serve.
#[test]
fn a_decision_log_may_be_written_to_the_device_itself() {
    let Some(place) = Place::in_memory(&["mkfs.ext4"]) else { return };
    let control = place.join("control");
    let server = place.serve(&["--memory", "256M", "--control", &control.to_string_lossy()]);
    run("mkfs.ext4", &["-q", &server.what]);
    let mounted = place.mount(&server.what);
    let log = mounted.0.join("log");
    let (answered, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut client = server::control::Client::connect(&control).unwrap();
        let begun = client.log(log.clone(), std::time::Duration::from_secs(1));
        let _ = answered.send(begun.map(|()| fs::metadata(&log).is_ok()));
    });
    let begun = waiting.recv_timeout(crate::memory::PATIENCE);
    if begun.is_err() {
        // Without this the log and the mount would not end.
        place.unmount(&server);
    }
    assert!(begun.expect("the device would wait for itself").unwrap());
    run("sync", &["-f", &mounted.0.to_string_lossy()]);
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert!(fs::read_to_string(mounted.0.join("log")).unwrap().contains("dispatch"));
    drop(mounted);
    place.stop(server);
}

#[test]
fn fio_verifies_under_every_scheduler_and_during_switches() {
    let Some(place) = Place::in_memory(&["fio"]) else { return };
    let control = place.join("control");
    let path = control.to_string_lossy().into_owned();
    let server = place.serve(&["--memory", "128M", "--control", &path]);
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
    place.stop(server);
}
