//! A disk that stops answering. It is the attached device of another server, which a signal stops.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use server::control::Client;

use crate::Place;
use crate::common::client::{self, Nbd};
use crate::common::{Served, have};
use crate::memory::{PATIENCE, ends};

const EIO: u32 = 5;

/// A server that a signal has stopped, and that continues when this is dropped: whatever waits for it can then end.
struct Stopped<'a>(&'a Served);

impl<'a> Stopped<'a> {
    fn new(server: &'a Served) -> Self {
        server.signal("-STOP");
        // The kernel stops each thread when it next enters the kernel: until then it may still answer.
        assert!(ends(|| all_threads_stopped(server.pid())), "the server does not stop");
        Self(server)
    }
}

fn all_threads_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name in parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.signal("-CONT");
    }
}

/// The control socket answered only between two rounds of the device's thread: not at all while that was blocked.
#[test]
fn the_control_socket_answers_while_the_devices_thread_is_blocked_and_the_watchdog_is_not_fed() {
    let Some(place) = Place::in_memory(&[]) else { return };
    let disk = place.serve(&["--memory", "64M"]);
    let (socket, control, notify) = (place.join("sock"), place.join("control"), place.join("notify"));
    let manager = UnixDatagram::bind(&notify).unwrap();
    manager.set_nonblocking(true).unwrap();
    let signs = || {
        let mut bytes = [0; 4096];
        let mut signs = 0;
        while let Ok(length) = manager.recv(&mut bytes) {
            signs += usize::from(bytes[..length].starts_with(b"WATCHDOG=1"));
        }
        signs
    };
    let address = format!("unix:{}", socket.display());
    let path = control.to_string_lossy().into_owned();
    let mut command = Command::new("env");
    command.arg(format!("NOTIFY_SOCKET={}", notify.display())).arg("WATCHDOG_USEC=600000");
    let arguments = ["--file", &disk.what, "--engine", "inline", "--nbd", &address, "--control", &path];
    let server = Served::start_by(&mut command, &arguments).expect("the server starts");
    let mut given = 0;
    let gives_signs = ends(|| {
        given += signs();
        given >= 2
    });
    assert!(gives_signs, "an idle server gives signs of life");
    let mut nbd = Nbd::connect(&socket);
    {
        let stopped = Stopped::new(&disk);
        nbd.send_write(0, 1, 0, &[7; 4096]).unwrap();
        // The write may arrive after the first requests to the control socket.
        let refused = (0..100).find_map(|_| {
            let began = Instant::now();
            let refused = Client::connect(&control).unwrap().show().err();
            assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
            std::thread::sleep(Duration::from_millis(20));
            refused
        });
        let refused = refused.expect("the device's thread is blocked").to_string();
        assert!(refused.contains("has not answered for 3 s (state D"), "{refused}");
        signs();
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(signs(), 0, "a blocked server gives none");
        drop(stopped);
    }
    assert_eq!(nbd.reply().unwrap(), (1, 0));
    Client::connect(&control).unwrap().show().unwrap();
    drop(nbd);
    server.stop();
    place.stop(disk);
}

#[test]
fn a_client_of_a_stopped_server_names_the_process_and_its_state() {
    let Some(place) = Place::in_memory(&[]) else { return };
    let control = place.join("control");
    let server = Served::start(&["--memory", "1M", "--control", &control.to_string_lossy()]);
    let mut client = Client::connect(&control).unwrap();
    client.show().unwrap();
    {
        let _stopped = Stopped::new(&server);
        let refused = client.show().unwrap_err().to_string();
        let named = format!("from process {} (serve), whose state is T (stopped)", server.pid());
        assert!(refused.contains(&named), "{refused}");
    }
    client.show().unwrap();
    server.stop();
}

#[test]
fn a_request_that_the_disk_does_not_answer_fails_and_its_sectors_stay_untouched_until_it_does() {
    let Some(place) = Place::in_memory(&[]) else { return };
    for engine in ["uring", "threads"] {
        let disk = place.serve(&["--memory", "64M"]);
        let (socket, control) = (place.join("sock"), place.join("control"));
        let address = format!("unix:{}", socket.display());
        let path = control.to_string_lossy().into_owned();
        let options = ["--engine", engine, "--depth", "2", "--request-timeout-ms", "400"];
        let arguments = ["--file", &disk.what, "--nbd", &address, "--control", &path];
        let server = Served::start(&[&arguments[..], &options].concat());
        let mut nbd = Nbd::connect(&socket);
        // On a busy machine the disk itself may be late.
        assert!(ends(|| nbd.write(0, &[1; 65536]) == 0), "{engine}");
        let show = || Client::connect(&control).unwrap().show().unwrap();
        let late = show().timed_out;
        {
            let _stopped = Stopped::new(&disk);
            assert_eq!(nbd.write(0, &[2; 4096]), EIO, "{engine}");
            assert_eq!(nbd.write(0, &[3; 4096]), EIO, "the first write may yet be carried out");
            assert!(nbd.read(8192, 4096).is_err(), "{engine}");
            assert!((0..20).all(|n| nbd.read(16384 + n * 4096, 4096).is_err()), "no slot is left");
            // Only two requests went to the disk and waited for it.
            let state = show();
            assert_eq!((state.timed_out - late, state.in_flight), (2, 0), "{engine}");
        }
        assert!(ends(|| nbd.write(0, &[4; 4096]) == 0), "{engine}: the disk answers again");
        assert_eq!(nbd.read(0, 8192).unwrap(), [[4; 4096], [1; 4096]].concat());
        assert_eq!(nbd.command(0, client::FLUSH, 0, 0), 0);
        drop(nbd);
        server.stop();
        place.stop(disk);
    }
}

/// A regression: after SIGTERM, a server whose disk did not answer waited for ever, and so did the users of its device.
#[test]
fn a_server_whose_disk_does_not_answer_is_taken_down_within_the_limit() {
    let Some(place) = Place::in_memory(&[]) else { return };
    if !have("dd") {
        return;
    }
    let disk = place.serve(&["--memory", "64M"]);
    let mut server = place.serve(&["--file", &disk.what, "--engine", "uring", "--teardown-ms", "700"]);
    let mut writer = {
        let _stopped = Stopped::new(&disk);
        let to = format!("of={}", server.what);
        let mut command = Command::new("dd");
        command.args(["if=/dev/zero", &to, "bs=64k", "count=16", "oflag=direct"]).stderr(Stdio::null());
        let mut writer = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        server.signal("-TERM");
        let until = Instant::now() + PATIENCE;
        while writer.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "the writer waits for ever");
            std::thread::sleep(Duration::from_millis(20));
        }
        // The device's thread is waited for as long again.
        std::thread::sleep(Duration::from_millis(1500));
        writer
    };
    assert!(!writer.wait().unwrap().success(), "its writes failed");
    assert!(!server.wait_for_status().success(), "the server reports what it could not do");
    place.stop(disk);
    assert!(fs::read_dir(place.private()).unwrap().next().is_none());
}

/// A regression: the thread that restored the scheduler of the server's own loop device waited, in the kernel, for a request to that device. A signal
/// that killed the server did not end that wait, so the connection stayed open, and the request failed as little as it was served.
#[test]
fn a_server_that_is_killed_while_it_detaches_its_device_ends() {
    let Some(place) = Place::in_memory(&[]) else { return };
    if !have("dd") {
        return;
    }
    let disk = place.serve(&["--memory", "64M"]);
    let mut server = place.serve(&["--file", &disk.what]);
    let mut reader = {
        let _stopped = Stopped::new(&disk);
        let from = format!("if={}", server.what);
        let mut command = Command::new("dd");
        command.args([&*from, "of=/dev/null", "bs=4k", "count=1", "iflag=direct"]).stderr(Stdio::null());
        let reader = command.spawn().unwrap();
        let inflight = format!("/sys/block/{}/inflight", server.what.trim_start_matches("/dev/"));
        assert!(ends(|| fs::read_to_string(&inflight).unwrap().split_whitespace().any(|count| count != "0")));
        server.signal("-TERM");
        let detaches = |thread: &fs::DirEntry| {
            fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name == "detach\n")
        };
        let threads = format!("/proc/{}/task", server.pid());
        assert!(ends(|| fs::read_dir(&threads).unwrap().flatten().any(|thread| detaches(&thread))));
        std::thread::sleep(Duration::from_millis(300));
        server.signal("-KILL");
        reader
    };
    let has_ended = ends(|| server.has_ended());
    if !has_ended {
        // So that the test leaves nothing.
        place.unmount(&server);
    }
    assert!(has_ended, "the killed server cannot end");
    assert!(!reader.wait().unwrap().success(), "its read failed");
    // Cleans up.
    place.serve(&["--memory", "1M"]).stop();
    place.stop(disk);
}
