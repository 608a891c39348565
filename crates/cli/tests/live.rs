//! `serve`, and the commands that measure or watch a live kernel's devices, on ones made for these tests. Loudly skipped where that is not
//! possible.

mod schema;
mod served;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use served::{Served, but, dwell, printed_while_read, words};

/// Bytes read by process, as `dwell ctl` has them.
fn accounts(served: &Served) -> Value {
    let output = dwell(&["ctl", &served.file("control"), "show", "--json"]).output().unwrap();
    let state: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(state["schema_version"], 1);
    state["processes"].clone()
}

#[test]
fn processes_are_identified_only_with_identify() {
    let own = std::process::id().to_string();
    let Some(hidden) = Served::new("hidden", &[]) else { return };
    hidden.read(100);
    assert_eq!(accounts(&hidden), serde_json::json!({}));
    let Some(shown) = Served::new("shown", &["--identify", "bpf"]) else { return };
    shown.read(100);
    let accounts = accounts(&shown);
    assert!(accounts[&own].is_object(), "{accounts}");
    assert!(accounts[&own].to_string().contains(&(100 * 4096).to_string()), "{accounts}");
}

/// Under an emulated drive as well as by itself.
#[test]
fn a_device_in_use_is_served_if_the_option_is_given_twice() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("live-used-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (file, socket) = (directory.join("disk"), format!("unix:{}", directory.join("sock").display()));
    File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let looped = Command::new("losetup").args(["-f", "--show"]).arg(&file).output().unwrap();
    if !looped.status.success() {
        return eprintln!("SKIPPED: {}", words(&looped));
    }
    let node = String::from_utf8(looped.stdout).unwrap();
    let file = file.to_str().unwrap();
    let served = |more: &[&str]| {
        let serve = ["serve", file, "--nbd", &socket];
        let mut server = dwell(&[&serve, more].concat()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let _ = server.kill();
        server.wait().unwrap();
        line.trim() == socket
    };
    let twice = ["--even-if-used", "--even-if-used"];
    let drive = ["--drive", "wd5000aaks", "--size", "1MiB"];
    let all = [served(&twice[..1]), served(&twice), served(&drive), served(&[&drive[..], &twice].concat())];
    let _ = Command::new("losetup").args(["-d", node.trim()]).status();
    let _ = fs::remove_dir_all(directory);
    assert_eq!(all, [false, true, false, true]);
}

#[test]
fn a_second_signal_gives_up_on_users_and_takes_the_device_down() {
    let Some(mut served) = Served::new("signals", &[]) else { return };
    let user = File::open(&served.node).unwrap();
    let pid = rustix::process::Pid::from_child(&served.server);
    let signal = || rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    signal();
    let mut errors = BufReader::new(served.server.stderr.take().unwrap()).lines().map_while(Result::ok);
    let by = format!("still in use by process {} (", std::process::id());
    assert!(errors.any(|line| line.contains(&by)), "its users are named");
    // Signals within a second are one request.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    signal();
    assert!(served.server.wait().unwrap().success(), "{:?}", errors.collect::<Vec<_>>());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = format!("/{}-0 ", served.server.id());
    assert!(!mounts.contains(&mount), "{mounts}");
    drop(user);
}

/// `dwell serve ... | head -1`: the reader exits after the line with the device's name.
#[test]
fn a_server_with_closed_outputs_continues() {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("live-unread-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let control = directory.join("control");
    let address = format!("unix:{}", directory.join("nbd").display());
    let mut server =
        dwell(&["serve", "--memory", "--size", "1MiB", "--json", "--nbd", &address, "--control"]);
    let server = server.arg(&control).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = server.spawn().unwrap();
    drop(server.stdout.take());
    let ctl = |order: &str| dwell(&["ctl", control.to_str().unwrap(), order]).output().unwrap();
    // The server listens before it prints its address.
    let asked = (0..100).map(|_| ctl("show")).find(|output| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        output.status.success()
    });
    assert!(asked.is_some(), "it never served");
    assert!(ctl("show").status.success(), "it does so no more");
    assert!(ctl("stop").status.success());
    let output = server.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn compare_reads_a_recording_of_record() {
    let Some(served) = Served::new("recorded", &[]) else { return };
    let recording = served.file("io.trace.gz");
    let node = served.node.to_str().unwrap();
    let mut recorder = dwell(&["record", node, "--here", "-o", &recording, "--for", "3s"]);
    let mut recorder = recorder.stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(recorder.stderr.take().unwrap()).lines();
    let first = errors.find_map(|line| {
        line.ok().filter(|line| line.starts_with("recording ") || line.starts_with("dwell:"))
    });
    let first = first.unwrap_or_default();
    if first.starts_with("dwell:") {
        eprintln!("SKIPPED: {first}");
        recorder.wait().unwrap();
        return;
    }
    served.read(200);
    assert!(recorder.wait().unwrap().success());
    let output = dwell(&["trace", "info", &recording, "--json"]).output().unwrap();
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    let own = info["info"]["processes"].as_array().unwrap().iter();
    let own = own.filter(|row| row["total"]["requests"] == 200 && row["total"]["bytes"] == 200 * 4096);
    assert_eq!(own.count(), 1, "{info}");
    assert!(info["info"]["latency"]["requests"].as_u64().unwrap() >= 200, "{info}");
    let output = dwell(&["compare", &recording, "--scheduler", "noop", "--json", "-q"]).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
}

#[test]
fn a_recording_may_go_into_a_pipe() {
    let Some(served) = Served::new("piped", &[]) else { return };
    let node = served.node.to_str().unwrap();
    let output = dwell(&["record", node, "--here", "-o", "-", "--for", "300ms"]).output().unwrap();
    if output.status.code() == Some(5) || output.status.code() == Some(4) {
        eprintln!("SKIPPED: {}", words(&output));
        return;
    }
    assert!(output.status.success() && output.stdout.starts_with(b"# dwell recording"), "{}", words(&output));
    let text = words(&output);
    assert_eq!(
        text.contains(": 0 requests in "),
        text.contains("had no request: the load did not run"),
        "{text}"
    );
}

#[test]
fn a_profile_may_go_into_a_pipe() {
    let Some(served) = Served::new("profile-piped", &[]) else { return };
    let node = served.node.to_str().unwrap();
    let profile = ["profile", node, "--here", "--no-switch", "--each", "1ms", "-o", "-"];
    let output = dwell(&profile).current_dir(&served.directory).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    assert!(!Path::new(&served.file("-")).exists());
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let profile = capture::profile::Profile::from_toml(&text);
    assert!(profile.is_ok(), "a profile and nothing else: {text}");
    assert!(words(&output).contains("service time: "), "{}", words(&output));
}

/// Regression: an empty profile was written.
#[test]
fn a_device_that_is_too_small_has_no_profile() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("live-small-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (file, profile) = (directory.join("disk"), directory.join("profile.toml"));
    File::create(&file).unwrap().set_len(4096).unwrap();
    let looped = Command::new("losetup").args(["-f", "--show"]).arg(&file).output().unwrap();
    let node = String::from_utf8(looped.stdout.clone()).unwrap();
    if looped.status.success() {
        let profile = profile.to_str().unwrap();
        let output =
            dwell(&["profile", node.trim(), "--here", "--no-switch", "-o", profile]).output().unwrap();
        let _ = Command::new("losetup").args(["-d", node.trim()]).status();
        let error = words(&output);
        assert_eq!((output.status.code(), Path::new(profile).exists()), (Some(2), false), "{error}");
        assert!(error.ends_with("has 4096 bytes, too few for a profile; it needs 4 MiB\n"), "{error}");
    } else {
        eprintln!("SKIPPED: {}", words(&looped));
    }
    let _ = fs::remove_dir_all(directory);
}

/// Regression: a part of the schedulers and sizes was written like a complete profile.
#[test]
fn an_interrupted_profile_is_not_written() {
    let Some(served) = Served::new("profile-interrupted", &[]) else { return };
    let (node, file) = (served.node.to_str().unwrap(), served.file("profile.toml"));
    let mut profile = dwell(&["profile", node, "--here", "--no-switch", "--each", "10min", "-o", &file]);
    let mut profile = profile.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(profile.stderr.take().unwrap()).lines().map_while(Result::ok);
    let begun = lines.by_ref().any(|line| line.contains("measuring"));
    assert!(begun, "{:?}", profile.wait());
    let pid = rustix::process::Pid::from_child(&profile);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(profile.wait().unwrap().code(), Some(130));
    let printed: Vec<String> = lines.collect();
    assert!(printed.iter().any(|line| line.contains("profile.toml: not written, because")), "{printed:?}");
    assert!(!Path::new(&file).exists());
}

#[test]
fn a_profile_is_written_and_given_to_schedulers() {
    let Some(served) = Served::new("profiled", &[]) else { return };
    let scheduler = Path::new("/sys/block").join(served.node.file_name().unwrap()).join("queue/scheduler");
    let before = fs::read_to_string(&scheduler).unwrap();
    let profile = served.file("profile.toml");
    let node = served.node.to_str().unwrap();
    let output = dwell(&["profile", node, "-o", &profile, "--each", "10ms", "--here", "--even-if-unsteady"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", words(&output));
    assert_eq!(fs::read_to_string(&scheduler).unwrap(), before, "the scheduler is put back");
    let text = fs::read_to_string(&profile).unwrap();
    let schedulers = before.split_whitespace().count();
    assert_eq!(text.matches("\nscheduler = ").count(), schedulers, "{text}");
    let compare =
        ["compare", "par-read{file_bytes=131072}", "--scheduler", "stream(deadline)", "-q", "--profile"];
    let output = dwell(&compare).arg(&profile).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    // `advise` refuses a device that was unsteady, before it watches anything.
    let mark = "\nunsteady = \"none gave 1 to 2 MB/s\"\n\n[service_time]";
    let is_marked = text.contains("\nunsteady = ");
    let marked = if is_marked { text } else { text.replacen("\n\n[service_time]", mark, 1) };
    fs::write(&profile, marked).unwrap();
    let output = dwell(&["advise", node, "--here", "--profile", &profile]).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", words(&output));
    assert!(words(&output).contains("cannot compare schedulers"), "{}", words(&output));
    fs::write(&profile, "version = 9").unwrap();
    let output = dwell(&compare).arg(&profile).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", words(&output));
}

/// A switch would disturb the users of the loop device above, so the device below counts as in use.
#[test]
fn a_device_below_a_loop_device_is_in_use() {
    let Some(served) = Served::new("held", &[]) else { return };
    let node = served.node.to_str().unwrap();
    let losetup = |arguments: &[&str]| Command::new("losetup").args(arguments).output().unwrap();
    let attached = losetup(&["--find", "--show", node]);
    let above = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
    if !attached.status.success() {
        eprintln!("SKIPPED: {}", words(&attached));
        return;
    }
    let profile = served.file("profile.toml");
    let measure = || {
        dwell(&["profile", node, "-o", &profile, "--each", "1ms", "--here", "--even-if-unsteady"])
            .output()
            .unwrap()
    };
    let refused = measure();
    losetup(&["--detach", &above]);
    assert_eq!(refused.status.code(), Some(2), "{}", words(&refused));
    assert!(words(&refused).contains("is mounted or held"), "{}", words(&refused));
    // Programs that probe new devices may hold it for a moment.
    let again = (0..40).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        measure().status.success()
    });
    assert!(again, "{}", words(&measure()));
}

#[test]
fn top_needs_a_device_or_a_socket() {
    for (path, code, why) in [
        ("/dev/nosuch", 2, "neither a block device nor the control socket"),
        ("nosuch", 2, "neither a block device nor the control socket"),
        ("/dev/null", 2, "neither a block device nor the control socket"),
        ("/proc", 2, "/proc: is no block device"),
        ("/run/dwell-no-such.ctl", 1, "no server listens there"),
    ] {
        let output = dwell(&["top", path, "--once"]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{path}: {}", words(&output));
        assert!(words(&output).contains(why), "{path}: {}", words(&output));
    }
}

#[test]
fn the_processes_of_any_device_are_shown() {
    let Some(served) = Served::new("watched", &[]) else { return };
    let node = served.node.to_str().unwrap();
    let Some(shown) = printed_while_read(&served, &["top", node, "--json", "--every", "2s"]) else { return };
    let submitters = shown["submitters"].as_array().unwrap();
    assert!(submitters.iter().any(|of| of["reads_per_second"].as_f64() > Some(0.0)), "{shown}");
    assert!(shown["reads"]["p99_ns"].as_u64() >= shown["reads"]["p50_ns"].as_u64(), "{shown}");
    assert!(shown["seeks_per_second"].as_f64() > Some(0.0), "every other page is read: {shown}");
    let mut full = but(
        &shown,
        &[
            ("notes", serde_json::json!(["text"])),
            (
                "causes",
                serde_json::json!([{
                    "name": "dd", "id": 7, "cgroup": "/", "dirtied_bytes_per_second": 0.5, "data_bytes_per_second": 0.5,
                    "metadata_bytes_per_second": 0.5, "journal_bytes_per_second": 0.5,
                }]),
            ),
            (
                "delegated",
                serde_json::json!([{"submitter": "jbd2", "bytes_per_second": 0.5, "causes": [["dd", 0.5]]}]),
            ),
        ],
    );
    let mut kernel = full["causes"][0].clone();
    kernel["id"] = Value::Null;
    full["causes"].as_array_mut().unwrap().push(kernel);
    let mut unknown = full["submitters"][0].clone();
    unknown["id"] = Value::Null;
    full["submitters"].as_array_mut().unwrap().push(unknown);
    schema::check("top", "The state of a device, from 'dwell top --json'", &[shown, full]);
    let Some(causes) = printed_while_read(&served, &["causes", node, "--for", "1s", "--json"]) else {
        return;
    };
    let amount = serde_json::json!({"bytes": 1, "requests": 1});
    let caused = serde_json::json!({
        "name": "dd", "id": 7, "dirtied": 1, "data": amount, "metadata": amount, "journal": amount, "read": amount,
    });
    let thread = but(&caused, &[("id", Value::Null)]);
    let full = but(
        &causes,
        &[
            ("accounts", serde_json::json!([caused])),
            ("kernel_threads", serde_json::json!([thread, caused])),
            ("delegated", serde_json::json!([{"submitter": "jbd2", "bytes": 1, "causes": [["dd", 1]]}])),
        ],
    );
    schema::check("causes", "The report of 'dwell causes --json'", &[causes, full]);
}
