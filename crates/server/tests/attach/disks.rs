//! Block devices, and what is full, as what is served.

use std::fs;

use crate::common::{Loop, Served, client, run, try_run};
use crate::{Mounted, Place};

#[test]
fn a_block_device_is_served_unless_it_is_mounted() {
    let Some(place) = Place::on_disk(&["mkfs.ext4"]) else { return };
    let disk = Loop::over(&place.join("disk"));
    run("mkfs.ext4", &["-q", &disk.0]);
    let socket = place.join("sock");
    let address = format!("unix:{}", socket.display());
    let mounted = place.mount(&disk.0);
    assert!(Served::try_start(&["--file", &disk.0, "--nbd", &address]).is_none(), "it is mounted");
    drop(mounted);
    let backing = place.join("disk").to_string_lossy().into_owned();
    assert!(Served::try_start(&["--file", &backing, "--nbd", &address]).is_none(), "a loop device is on it");
    assert!(
        Served::try_start(&["--file", &disk.0, "--size", "65M", "--nbd", &address]).is_none(),
        "too small"
    );
    let server = Served::start(&["--file", &disk.0, "--nbd", &address]);
    let mut client = client::Nbd::connect(&socket);
    assert_eq!(client.read(1024, 512).unwrap()[56..58], [0x53, 0xef], "ext4's magic number");
    assert_eq!(client.write(32 << 20, &[9; 4096]), 0);
    assert_eq!(client.command(0, client::WRITE_ZEROES, 32 << 20, 4096), 0);
    assert_eq!(client.read(32 << 20, 4096).unwrap(), [0; 4096]);
    assert_eq!(client.command(0, client::TRIM, 0, 1 << 20), 0);
    assert_eq!(client.command(0, client::FLUSH, 0, 0), 0);
    server.stop();
}

#[test]
fn a_device_that_is_read_only_is_shown_as_that() {
    const EPERM: u32 = 1;
    let Some(place) = Place::on_disk(&["nbdinfo"]) else { return };
    let file = place.join("disk");
    fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
    // Its next user does not find it so; what `blockdev --setro` set, it would.
    let disk = Loop(run("losetup", &["-r", "-f", "--show", &file.to_string_lossy()]).trim().to_string());
    let socket = place.join("sock");
    let address = format!("unix:{}", socket.display());
    let server = place.serve(&["--file", &disk.0, "--nbd", &address]);
    let mut client = client::Nbd::connect(&socket);
    assert_eq!(client.read(0, 4096).unwrap(), [0; 4096]);
    assert_eq!(client.write(0, &[9; 4096]), EPERM);
    assert_eq!(client.command(0, client::WRITE_ZEROES, 0, 4096), EPERM);
    drop(client);
    assert!(
        try_run("nbdinfo", &["--is", "read-only", &format!("nbd+unix:///?socket={}", socket.display())]).0
    );
    let attached = server.what.clone();
    let read_only = || run("blockdev", &["--getro", &attached]).trim() == "1";
    let then = read_only();
    place.stop(server);
    assert_eq!((then, read_only()), (true, false), "its next user may write");
}

/// The device's thread would wait for it, and never give it more than one request at once.
#[test]
fn a_disk_is_waited_for_by_others_than_the_devices_thread() {
    let Some(place) = Place::on_disk(&[]) else { return };
    let disk = Loop::over(&place.join("disk"));
    let (address, control) = (format!("unix:{}", place.join("sock").display()), place.join("control"));
    let arguments = ["--file", &disk.0, "--nbd", &address, "--control", &control.to_string_lossy()];
    let server = Served::start(&arguments);
    let backend = server::control::Client::connect(&control).unwrap().show().unwrap().backend;
    server.stop();
    assert!(backend.contains("io_uring") || backend.contains("threads"), "{backend}");
}

/// What a killed process wrote is there anyway; only the machine's end would tell whether it was written through.
#[test]
fn what_shall_be_durable_reaches_the_disk_with_a_flush() {
    use client::{FLUSH, FUA, WRITE_ZEROES};
    let Some(place) = Place::on_disk(&[]) else { return };
    let disk = Loop::over(&place.join("disk"));
    let socket = place.join("sock");
    let address = format!("unix:{}", socket.display());
    let stat = format!("/sys/block/{}/stat", disk.0.trim_start_matches("/dev/"));
    // The sixteenth field: flushes done.
    let flushes =
        || -> u64 { fs::read_to_string(&stat).unwrap().split_whitespace().nth(15).unwrap().parse().unwrap() };
    for engine in ["uring", "threads"] {
        let server = Served::start(&["--file", &disk.0, "--engine", engine, "--nbd", &address]);
        let mut client = client::Nbd::connect(&socket);
        let mut after = |flags, kind, length: u32| {
            let before = flushes();
            match kind {
                client::WRITE => {
                    client.send_write(flags, 1, 4096, &vec![1; length as usize]).unwrap();
                    assert_eq!(client.reply().unwrap().1, 0);
                }
                _ => assert_eq!(client.command(flags, kind, 0, length), 0),
            }
            flushes() - before
        };
        assert_eq!(after(0, client::WRITE, 4096), 0, "{engine}");
        assert!(after(FUA, client::WRITE, 4096) > 0, "{engine}: a write");
        assert!(after(FUA, WRITE_ZEROES, 4096) > 0, "{engine}: zeroes");
        assert!(after(0, FLUSH, 0) > 0, "{engine}: a flush");
        drop(client);
        server.stop();
    }
}

/// Whoever serves it would write beneath the file system that is mounted from it.
#[test]
fn a_file_is_not_served_by_another_name_while_a_loop_device_is_attached_to_it() {
    let Some(place) = Place::on_disk(&[]) else { return };
    let (disk, other) = (place.join("disk"), place.join("other"));
    let attached = Loop::over(&disk);
    fs::hard_link(&disk, &other).unwrap();
    let at = place.join("bound");
    fs::create_dir(&at).unwrap();
    run("mount", &["--bind", &place.directory.0.to_string_lossy(), &at.to_string_lossy()]);
    let bound = Mounted(at.clone());
    let address = format!("unix:{}", place.join("sock").display());
    let serve =
        |name: &std::path::Path| Served::try_start(&["--file", &name.to_string_lossy(), "--nbd", &address]);
    for name in [&other, &at.join("disk"), &at.join("other")] {
        assert!(serve(name).is_none(), "{} is {}", name.display(), attached.0);
    }
    drop(bound);
    // A name is gone, and what the loop device has is not.
    fs::remove_file(&disk).unwrap();
    assert!(serve(&other).is_none(), "{} has it all the same", attached.0);
    drop(attached);
    serve(&other).expect("nobody else has it").stop();
}

/// Of which nothing is mounted or held, and nobody else has claimed anything.
#[test]
fn a_disk_is_not_served_while_a_loop_device_is_on_a_part_of_it() {
    let Some(place) = Place::on_disk(&["addpart"]) else { return };
    let disk = Loop::over(&place.join("disk"));
    run("addpart", &[&disk.0, "1", "2048", "32768"]);
    let part = format!("{}p1", disk.0);
    let upper = Loop(run("losetup", &["-f", "--show", &part]).trim().to_string());
    let address = format!("unix:{}", place.join("sock").display());
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
    let Some(place) = Place::on_disk(&[]) else { return };
    let at = place.join("mnt");
    fs::create_dir(&at).unwrap();
    run("mount", &["-t", "ramfs", "none", &at.to_string_lossy()]);
    let mounted = Mounted(at.clone());
    let disk = at.join("disk");
    let file = disk.to_string_lossy();
    let address = format!("unix:{}", place.join("sock").display());
    let all = ["--file", &file, "--size", "1M", "--nbd", &address];
    assert!(Served::try_start(&all).is_none());
    assert!(!disk.exists(), "it was made and not taken away");
    Served::start(&[&all[..], &["--buffered"]].concat()).stop();
    drop(mounted);
}

#[test]
fn a_full_backing_store_fails_the_write_that_did_not_fit_and_no_other() {
    let Some(place) = Place::on_disk(&[]) else { return };
    let small = place.join("mnt");
    fs::create_dir(&small).unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=1M", "none", &small.to_string_lossy()]);
    let mounted = Mounted(small.clone());
    let (file, socket) = (small.join("disk").to_string_lossy().into_owned(), place.join("sock"));
    let address = format!("unix:{}", socket.display());
    let server = Served::start(&["--file", &file, "--buffered", "--size", "64M", "--nbd", &address]);
    let mut client = client::Nbd::connect(&socket);
    assert_eq!(client.write(0, &[1; 65536]), 0);
    assert_eq!(client.write(8 << 20, &vec![2; 4 << 20]), 28, "ENOSPC");
    assert_eq!(client.read(0, 65536).unwrap(), [1; 65536]);
    assert_eq!(client.write(0, &[3; 65536]), 0, "what has its room can be written again");
    drop(client);
    server.stop();
    drop(mounted);
}
