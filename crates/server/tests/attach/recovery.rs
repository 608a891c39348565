//! The attached device outlives its server: a crash, a restart by a service manager.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, kill_process};

use server::control::{Client, process_for};

use crate::Place;
use crate::common::{Served, run, try_run};
use crate::memory::{PATIENCE, ends};

fn kill(pid: u32) {
    let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
}

/// Checks the file system on the device as after an orderly unmount.
fn assert_clean(device: &str) {
    let (clean, text) = try_run("e2fsck", &["-fn", device]);
    assert!(clean, "{text}");
}

/// A regression: after `kill -9` the file system turned read-only, and the next start attached another loop device.
#[test]
fn kills_under_verified_io_cause_no_error_and_the_device_keeps_its_name() {
    let Some(place) = Place::on_disk(&["fio", "mkfs.ext4", "e2fsck"]) else { return };
    let kills: u32 = std::env::var("DWELL_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let disk = place.join("disk");
    let arguments = ["--file", disk.to_str().unwrap(), "--size", "512M", "--supervised"];
    let server = place.serve(&arguments);
    run("mkfs.ext4", &["-q", &server.what]);
    let mounted = place.mount(&server.what);
    let directory = format!("--directory={}", mounted.0.display());
    let stop = place.join("stop");
    let until = stop.clone();
    let fio = std::thread::spawn(move || {
        let jobs = ["--name=v", "--direct=1", "--ioengine=libaio", "--iodepth=16", "--rw=randwrite"];
        let verify = ["--bsrange=4k-64k", "--verify=crc32c", "--do_verify=1", "--size=48M"];
        let mut rounds = 0;
        while !until.exists() {
            run("fio", &[&jobs[..], &verify, &[&directory, "--allow_mounted_write=1"]].concat());
            rounds += 1;
        }
        rounds
    });
    let mut killed = 0;
    while killed < kills && !fio.is_finished() {
        std::thread::sleep(Duration::from_millis(600));
        for worker in server.children() {
            kill(worker);
            killed += 1;
        }
        let attached = fs::read_to_string(format!("/sys/block/{}/loop/backing_file", &server.what[5..]));
        assert!(attached.is_ok(), "{} is detached", server.what);
    }
    fs::write(&stop, "").unwrap();
    let rounds = fio.join().expect("fio found an error");
    eprintln!("{rounds} rounds verified during {killed} kills");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = mounts.lines().find(|line| line.starts_with(&server.what)).unwrap();
    assert!(line.contains(" rw,"), "mounted {line}");
    drop(mounted);
    assert_clean(&server.what);
    place.stop(server);
}

/// A regression: a SIGTERM that arrived while no server ran failed the requests of the device's users.
#[test]
fn a_signal_between_two_servers_ends_the_next_one_when_its_device_is_unused() {
    let Some(place) = Place::on_disk(&["mkfs.ext4", "e2fsck"]) else { return };
    let (disk, control) = (place.join("disk"), place.join("control"));
    let attached = ["--file", disk.to_str().unwrap(), "--size", "64M", "--supervised"];
    let mut server = place.serve(&[&attached[..], &["--control", control.to_str().unwrap()]].concat());
    run("mkfs.ext4", &["-q", &server.what]);
    let mounted = place.mount(&server.what);
    assert_eq!(process_for(&control), Some(server.pid()), "the supervisor, which is older than its server");
    // A stopped supervisor finds both the end of its server and the signal when it continues.
    server.signal("-STOP");
    server.children().into_iter().for_each(kill);
    // `dwell ctl` names the process that restarts the server.
    let refused = ends(|| Client::connect(&control).is_err());
    assert!(refused, "the server is dead");
    assert_eq!(process_for(&control), Some(server.pid()));
    server.signal("-TERM");
    server.signal("-CONT");
    fs::write(mounted.0.join("later"), vec![7; 1 << 20]).unwrap();
    run("sync", &["-f", &mounted.0.join("later").to_string_lossy()]);
    drop(mounted);
    server.wait();
    place.nothing_left();
}

/// A regression: an order to stop was lost when the server was killed while it waited for the device's users.
#[test]
fn an_order_to_stop_outlives_the_server_that_received_it() {
    let Some(place) = Place::on_disk(&["mkfs.ext4", "e2fsck"]) else { return };
    let (disk, control) = (place.join("disk"), place.join("control"));
    let attached = ["--file", disk.to_str().unwrap(), "--size", "64M", "--supervised"];
    let arguments = [&attached[..], &["--control", control.to_str().unwrap()]].concat();
    let (mut server, errors) = Served::start_heard(&place.attaching(&arguments));
    run("mkfs.ext4", &["-q", &server.what]);
    let mounted = place.mount(&server.what);
    Client::connect(&control).unwrap().stop().unwrap();
    let mut errors = BufReader::new(errors).lines().map_while(Result::ok);
    assert!(errors.any(|line| line.contains("still in use")));
    server.children().into_iter().for_each(kill);
    assert!(errors.any(|line| line.contains("continuing after")));
    fs::write(mounted.0.join("later"), vec![7; 1 << 20]).unwrap();
    drop(mounted);
    // Nothing else ends it.
    server.wait();
    place.nothing_left();
}

#[test]
fn a_server_whose_supervisor_is_killed_serves_until_its_device_is_unused() {
    let Some(place) = Place::on_disk(&["mkfs.ext4", "e2fsck"]) else { return };
    let disk = place.join("disk");
    let mut server = place.serve(&["--file", disk.to_str().unwrap(), "--size", "64M", "--supervised"]);
    run("mkfs.ext4", &["-q", &server.what]);
    let mounted = place.mount(&server.what);
    let workers = server.children();
    server.kill();
    fs::write(mounted.0.join("later"), vec![7; 1 << 20]).unwrap();
    run("sync", &["-f", &mounted.0.join("later").to_string_lossy()]);
    drop(mounted);
    let began = Instant::now();
    while workers.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(began.elapsed() < PATIENCE, "the server does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    place.nothing_left();
}

/// Acts like systemd: keeps the descriptors that a server stores, and starts the next one with them.
struct ServiceManager {
    socket: UnixDatagram,
    path: std::path::PathBuf,
    stored: Vec<(String, OwnedFd)>,
}

impl ServiceManager {
    fn new(place: &Place) -> Self {
        let path = place.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, path, stored: Vec::new() }
    }

    fn start(&self, place: &Place, arguments: &[&str]) -> Option<Served> {
        let mut script = "export LISTEN_PID=$$; exec \"$@\"".to_owned();
        let mut command = Command::new("sh");
        command.env("NOTIFY_SOCKET", &self.path).env("FDSTORE", "8");
        if let Some((name, descriptor)) = self.stored.first() {
            command.env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", name);
            script += &format!(" 3<&{}", descriptor.as_raw_fd());
        }
        Served::start_by(command.args(["-c", &script, "sh"]), &place.attaching(arguments))
    }

    /// Takes the messages that have arrived.
    fn receive(&mut self) {
        loop {
            let mut bytes = [0; 4096];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::empty();
            let Ok(received) = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)
            else {
                return;
            };
            let text = String::from_utf8_lossy(&bytes[..received.bytes]).into_owned();
            let Some(name) = text.lines().find_map(|line| line.strip_prefix("FDNAME=")) else { continue };
            if text.contains("FDSTOREREMOVE=1") {
                self.stored.retain(|(stored, _)| stored != name);
            }
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    self.stored.extend(descriptors.map(|descriptor| (name.to_owned(), descriptor)));
                }
            }
        }
    }
}

#[test]
fn a_restarted_service_continues_a_mounted_device_and_requests_wait_meanwhile() {
    let Some(place) = Place::on_disk(&["mkfs.ext4", "e2fsck"]) else { return };
    let (disk, other) = (place.join("disk"), place.join("other"));
    File::create(&other).unwrap().set_len(64 << 20).unwrap();
    let arguments = ["--file", disk.to_str().unwrap(), "--size", "64M"];
    let mut manager = ServiceManager::new(&place);
    let mut server = manager.start(&place, &arguments).unwrap();
    let device = server.what.clone();
    run("mkfs.ext4", &["-q", &device]);
    let mounted = place.mount(&device);
    fs::write(mounted.0.join("before"), vec![7; 1 << 20]).unwrap();
    server.signal("-TERM");
    server.wait();
    manager.receive();
    assert_eq!(manager.stored.len(), 1);
    // A write to the device waits for the next server, and a server of another file neither takes the device down nor over.
    let file = mounted.0.join("meanwhile");
    let write = std::thread::spawn(move || {
        fs::write(&file, vec![9; 1 << 20]).unwrap();
        File::open(&file).unwrap().sync_all().unwrap();
    });
    let stranger = place.serve(&["--memory", "1M"]);
    assert_ne!(stranger.what, device);
    stranger.stop();
    assert!(manager.start(&place, &["--file", other.to_str().unwrap(), "--size", "64M"]).is_none());
    assert!(manager.start(&place, &["--file", disk.to_str().unwrap(), "--size", "32M"]).is_none());
    manager.receive();
    assert_eq!(manager.stored.len(), 1, "a start that does not fit leaves the device to the next one");
    assert!(!write.is_finished(), "there is no server");
    let mut server = manager.start(&place, &arguments).unwrap();
    assert_eq!(server.what, device);
    write.join().unwrap();
    // Now a crash, after which systemd starts the next server.
    server.kill();
    let server = manager.start(&place, &arguments).unwrap();
    assert_eq!(server.what, device);
    assert_eq!(fs::read(mounted.0.join("meanwhile")).unwrap(), vec![9; 1 << 20]);
    drop(mounted);
    assert_clean(&device);
    server.stop();
    manager.receive();
    assert!(manager.stored.is_empty(), "an unused device is not kept");
    place.nothing_left();
}

#[test]
fn nothing_is_left_when_supervisor_and_server_are_killed_together() {
    let Some(place) = Place::on_disk(&["mkfs.ext4", "e2fsck"]) else { return };
    let disk = place.join("disk");
    let mut server = place.serve(&["--file", disk.to_str().unwrap(), "--size", "64M", "--supervised"]);
    run("mkfs.ext4", &["-q", &server.what]);
    let mounted = place.mount(&server.what);
    fs::write(mounted.0.join("dirty"), vec![7; 1 << 20]).unwrap();
    // A stopped supervisor starts no other server.
    server.signal("-STOP");
    let workers = server.children();
    assert_eq!(workers.len(), 1, "the watcher is no child of the supervisor: {workers:?}");
    workers.into_iter().for_each(kill);
    server.kill();
    assert!(ends(|| fs::read_dir(place.private()).unwrap().next().is_none()), "files are left");
    drop(mounted);
    assert!(ends(|| !run("losetup", &["-l", "-n", "-O", "NAME"]).lines().any(|name| name == server.what)));
    place.nothing_left();
}
