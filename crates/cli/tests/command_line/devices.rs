//! Served devices, and errors before anything is changed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Directory, dwell, fails, words};

#[test]
fn the_service_manager_is_notified_when_a_device_is_served() {
    let directory = Directory::new("notify");
    let (listens, nbd) = (directory.path("notify"), format!("unix:{}", directory.path("nbd")));
    let listener = UnixDatagram::bind(&listens).expect("a socket");
    listener.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
    let mut server = Command::new(env!("CARGO_BIN_EXE_dwell"))
        .args(["serve", "--memory", "--size", "64MiB", "--scheduler", "noop", "--nbd", &nbd])
        .env("NOTIFY_SOCKET", &listens)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut heard = [0; 4096];
    // To be stopped and continued ends a wait with a time limit (signal(7)).
    let heard = loop {
        match listener.recv(&mut heard) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            heard_of => break heard_of.map(|length| words(&heard[..length])),
        }
    };
    let reachable = Path::new(&directory.path("nbd")).exists();
    server.kill().and_then(|()| server.wait()).expect("it ends");
    let heard = heard.expect("a word within a minute");
    assert!(
        heard.contains("READY=1\n")
            && heard.contains("STATUS=serving memory under noop, at most 31 requests at once"),
        "{heard}"
    );
    assert!(reachable, "ready before anybody can reach it");
}

#[test]
fn a_rejected_device_leaves_nothing_behind() {
    let directory = Directory::new("unserved");
    let socket = format!("unix:{}", directory.path("socket"));
    let serve = |more: &[&str], code: i32, message: &[&str]| {
        fails(&[&["serve", "--nbd", &socket], more].concat(), code, message);
    };
    serve(&["--memory", "--size", "0"], 2, &["at least one sector"]);
    serve(&["--memory", "--size", "1000000T"], 2, &["does not fit"]);
    serve(&["--memory", "--size", "1M", "-s", "array-stream(deadline)"], 2, &["members of an array"]);
    serve(&["--memory", "--size", "1M", "-s", "afq"], 2, &["--causes"]);
    let refused = dwell(&["serve", "--nbd", &socket, "--memory", "--size", "1M", "-s", "afq"]);
    assert!(!words(&refused.stderr).contains("serving"), "a rejected device is not served");
    // The conflict with --memory is reported although --drive, which the option requires, is missing.
    for option in [&["--speed", "10"][..], &["--discard-data"]] {
        let output = dwell(&[&["serve", "--nbd", &socket, "--memory", "--size", "1M"], option].concat());
        let error = words(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains("cannot be used with"), "{error}");
    }
    // Options without effect here. Without the option, the scheduler is rejected.
    for (option, message) in [
        (&["--memory", "--size", "1M", "--attach", "--connections", "3", "-s", "afq"][..], "--nbd"),
        (&["--nbd", &socket, "--drive", "wd5000aaks", "--poll", "1ms", "-s", "afq"], "cannot be used with"),
    ] {
        let output = dwell(&[&["serve"], option].concat());
        let error = words(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(message), "{error}");
    }
    serve(&[&directory.path("missing")], 6, &["it does not exist"]);
    serve(&[&directory.path("missing/disk"), "--size", "1MiB"], 6, &["does not exist"]);
    serve(&[&directory.path("odd"), "--size", "10M"], 6, &["10000384 are one"]);
    serve(&[&directory.path("large"), "--size", "8000000T"], 6, &["more than a file there can have"]);
    let tls = ["--memory", "--size", "1M", "--tls", &directory.path("none")];
    serve(&tls, 2, &["TLS needs a TCP address"]);
    let (path, nbd) = (directory.path("one"), format!("unix:{}", directory.path("one")));
    serve(&["--memory", "--size", "1M", "--nbd", &nbd, "--control", &path], 2, &["name the same socket"]);
    serve(&[&tls[..], &["--nbd", "tcp:127.0.0.1:0"]].concat(), 6, &["server-key.pem"]);
    let recording = ["record", "/dev/null", "-o", &directory.path("recording"), "--for", "0s"];
    fails(&recording, 2, &["must be greater than 0"]);
    assert_eq!(fs::read_dir(&directory.0).expect("it is there").count(), 0);
    fails(&["ctl", &directory.path("socket"), "show"], 1, &["no server listens there"]);
}

#[test]
fn a_server_says_which_port_it_was_given() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_dwell"))
        .args(["serve", "--memory", "--size", "1MiB", "-s", "noop", "--nbd", "tcp:127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let read = BufReader::new(server.stdout.take().expect("it is piped")).read_line(&mut line);
    let reached = line.trim().strip_prefix("tcp:").map(std::net::TcpStream::connect);
    server.kill().and_then(|()| server.wait()).expect("it ends");
    read.expect("it says where");
    assert!(reached.is_some_and(|reached| reached.is_ok()), "{line}");
}

#[test]
fn a_missing_capability_is_named_and_exits_with_5() {
    let directory = Directory::new("no-capability");
    // A file is served below a supervisor.
    let file = directory.path("disk");
    for what in ["--memory", &file] {
        let serve = [env!("CARGO_BIN_EXE_dwell"), "serve", what, "--size", "1MiB", "--attach"];
        let mut program = Command::new("setpriv");
        if rustix::process::geteuid().is_root() {
            program.args(["--inh-caps=-sys_admin", "--bounding-set=-sys_admin"]);
        }
        let output = program.args(serve).output().expect("util-linux");
        let message = words(&output.stderr);
        assert!(output.status.code() == Some(5) && message.contains("needs CAP_SYS_ADMIN"), "{message}");
        assert!(!message.contains("writing output"), "{message}");
    }
    assert!(!Path::new(&file).exists(), "a server that may not attach creates nothing");
}

/// As sysfs, `lsblk` and everybody calls it, where its node is wanted.
#[test]
fn a_devices_bare_name_is_answered_with_its_node() {
    let mut there = fs::read_dir("/dev").expect("/dev").flatten();
    let Some(found) = there.find(|entry| entry.file_type().is_ok_and(|kind| kind.is_block_device())) else {
        eprintln!("SKIPPED: /dev has no block device");
        return;
    };
    let name = found.file_name().into_string().expect("UTF-8");
    let hint = format!("did you mean '/dev/{name}'?");
    let fails = |arguments: &[&str], code| fails(arguments, code, &[&format!("{name}: "), &hint]);
    fails(&["tune", &name, "--dry-run"], 2);
    fails(&["advise", &name], 2);
    fails(&["record", &name, "-o", "x.trace"], 2);
    fails(&["profile", &name, "-o", "x.toml"], 2);
    let directory = Directory::new("bare-name");
    fails(&["serve", &name, "--nbd", &format!("unix:{}", directory.path("socket"))], 6);
    let output = dwell(&["advise", "null"]);
    assert!(!words(&output.stderr).contains("did you mean"), "/dev/null is no block device either");
}

#[test]
fn durations_of_zero_are_rejected() {
    let nothing = "must be greater than 0";
    fails(&["record", "/dev/nosuch", "-o", "x.trace", "--for", "0s"], 2, &["--for: ", nothing]);
    fails(&["profile", "/dev/nosuch", "-o", "x.toml", "--each", "0s"], 2, &["--each: ", nothing]);
}

/// Its benchmarks would be measured over nothing.
#[test]
fn a_duel_of_no_time_is_refused() {
    for option in ["--for", "--patience"] {
        fails(&["duel", option, "0s", "-b", "par-read"], 2, &[option, "must be greater than 0"]);
    }
}
