//! Served block devices, and served files on a full file system.

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
    assert!(Served::try_start(&["--file", &disk.0, "--nbd", &address]).is_none(), "the device is mounted");
    drop(mounted);
    let backing = place.join("disk").to_string_lossy().into_owned();
    assert!(
        Served::try_start(&["--file", &backing, "--nbd", &address]).is_none(),
        "a loop device is attached to the file"
    );
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
fn a_read_only_device_is_presented_as_read_only() {
    const EPERM: u32 = 1;
    let Some(place) = Place::on_disk(&["nbdinfo"]) else { return };
    let file = place.join("disk");
    fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
    // The loop device is not read-only for its next user, in contrast to the effect of `blockdev --setro`.
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
    assert_eq!((then, read_only()), (true, false), "the next user may write");
}

/// If the device's thread waited for the disk, it would never submit more than one request.
#[test]
fn the_devices_thread_does_not_wait_for_a_disk() {
    let Some(place) = Place::on_disk(&[]) else { return };
    let disk = Loop::over(&place.join("disk"));
    let (address, control) = (format!("unix:{}", place.join("sock").display()), place.join("control"));
    let arguments = ["--file", &disk.0, "--nbd", &address, "--control", &control.to_string_lossy()];
    let server = Served::start(&arguments);
    let backend = server::control::Client::connect(&control).unwrap().show().unwrap().backend;
    server.stop();
    assert!(backend.contains("io_uring") || backend.contains("threads"), "{backend}");
}

/// Data of a killed process survives in the page cache; only a crash of the machine would show whether it was written through.
#[test]
fn durable_writes_reach_the_disk_with_a_flush() {
    use client::{FLUSH, FUA, WRITE_ZEROES};
    let Some(place) = Place::on_disk(&[]) else { return };
    let disk = Loop::over(&place.join("disk"));
    let socket = place.join("sock");
    let address = format!("unix:{}", socket.display());
    let stat = format!("/sys/block/{}/stat", disk.0.trim_start_matches("/dev/"));
    // The sixteenth field: completed flushes.
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

/// A server would write below the file system that is mounted from the loop device.
#[test]
fn a_file_with_a_loop_device_is_not_served_by_another_name() {
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
    // One name is removed; the loop device still has the file.
    fs::remove_file(&disk).unwrap();
    assert!(serve(&other).is_none(), "{} still has the file", attached.0);
    drop(attached);
    serve(&other).expect("no other user has the file").stop();
}

/// Neither the disk nor its partition is mounted, held or claimed otherwise.
#[test]
fn a_disk_with_a_loop_device_on_its_partition_is_not_served() {
    let Some(place) = Place::on_disk(&["addpart"]) else { return };
    let disk = Loop::over(&place.join("disk"));
    run("addpart", &[&disk.0, "1", "2048", "32768"]);
    let part = format!("{}p1", disk.0);
    let upper = Loop(run("losetup", &["-f", "--show", &part]).trim().to_string());
    let address = format!("unix:{}", place.join("sock").display());
    let served = Served::try_start(&["--file", &disk.0, "--nbd", &address]);
    assert!(served.is_none(), "{} is attached to its partition", upper.0);
    drop(upper);
    let whole = Loop(run("losetup", &["-f", "--show", &disk.0]).trim().to_string());
    assert!(
        Served::try_start(&["--file", &part, "--nbd", &address]).is_none(),
        "{} is attached to its disk",
        whole.0
    );
    drop(whole);
    Served::start(&["--file", &disk.0, "--nbd", &address]).stop();
    run("delpart", &[&disk.0, "1"]);
}

#[test]
fn without_direct_io_no_file_is_left_behind() {
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
    assert!(!disk.exists(), "the created file is removed");
    Served::start(&[&all[..], &["--buffered"]].concat()).stop();
    drop(mounted);
}

#[test]
fn on_a_full_file_system_only_writes_without_room_fail() {
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
    assert_eq!(client.write(0, &[3; 65536]), 0, "allocated sectors can be overwritten");
    drop(client);
    server.stop();
    drop(mounted);
}
