//! Commands that look at a live kernel's devices, on ones made for it. Loudly skipped where that is not possible.

mod schema;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::fs::OFlags;
use serde_json::Value;

/// A server of a memory device, attached; ended when this is dropped.
struct Served {
    server: Child,
    node: PathBuf,
    directory: PathBuf,
}

fn dwell(arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
    program.args(arguments);
    program
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

impl Served {
    fn new(test: &str, more: &[&str]) -> Option<Self> {
        let directory =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("live-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let control = directory.join("control");
        let arguments =
            ["serve", "--memory", "--size", "64MiB", "--scheduler", "noop", "--attach", "--control"];
        let mut server = dwell(&arguments);
        server.arg(&control).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = server.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            eprintln!("SKIPPED: {}", words(&server.wait_with_output().unwrap()));
            let _ = fs::remove_dir_all(directory);
            return None;
        }
        Some(Self { server, node: PathBuf::from(line.trim()), directory })
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    /// Reads this many pages with direct I/O.
    fn read(&self, pages: u64) {
        read(&self.node, pages);
    }

    /// Bytes read by process, as `dwell ctl` has them.
    fn accounts(&self) -> Value {
        let output = dwell(&["ctl", &self.file("control"), "show", "--json"]).output().unwrap();
        let state: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(state["schema_version"], 1);
        state["processes"].clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = dwell(&["ctl", &self.file("control"), "stop"]).output();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn processes_are_identified_only_with_identify() {
    let own = std::process::id().to_string();
    let Some(hidden) = Served::new("hidden", &[]) else { return };
    hidden.read(100);
    assert_eq!(hidden.accounts(), serde_json::json!({}));
    let Some(shown) = Served::new("shown", &["--identify", "bpf"]) else { return };
    shown.read(100);
    let accounts = shown.accounts();
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

/// Independent of their databases and status files: each of two tuners would take the other's switches for those of another program, likewise those of a
/// profile; and a tuner would overwrite manual changes of its state.
#[test]
fn a_running_tuner_excludes_tune_profile_and_patterns() {
    let Some(served) = Served::new("beside", &[]) else { return };
    let node = served.node.to_str().unwrap();
    let tuner = |place: &str, time: &str| {
        let (database, runtime) = (served.file(&format!("{place}/learned")), served.file(place));
        let options =
            ["--dry-run", "--window", "100ms", "--for", time, "--runtime", &runtime, "--database", &database];
        let mut tuner = dwell(&["tune", node]);
        tuner.args(options).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let forget = || {
        let database = served.file("one/learned");
        dwell(&["patterns", "forget", "--all", "--database", &database]).output().unwrap()
    };
    let profile = || {
        let file = served.file("profile.toml");
        dwell(&["profile", node, "--here", "--each", "1ms", "--even-if-unsteady", "-o", &file])
            .output()
            .unwrap()
    };
    let status = Path::new(&served.file("one"))
        .join(format!("tune-{}.json", served.node.file_name().unwrap().display()));
    let begun = |mut tuner: Child| loop {
        std::thread::sleep(std::time::Duration::from_millis(20));
        if status.exists() {
            return Some(tuner);
        }
        if tuner.try_wait().unwrap().is_some() {
            eprintln!("SKIPPED: {}", words(&tuner.wait_with_output().unwrap()));
            return None;
        }
    };
    let Some(mut first) = begun(tuner("one", "4s")) else { return };
    while first.try_wait().unwrap().is_none() {
        served.read(100);
    }
    let mut first = begun(tuner("one", "10min")).unwrap();
    let runtime = served.file("one");
    let advise = |runtime: &str| {
        let database = served.file("one/learned");
        dwell(&["advise", node, "--json", "--database", &database, "--runtime", runtime]).output().unwrap()
    };
    let advice = advise(&runtime);
    assert!(advice.status.success(), "{}", words(&advice));
    let advice: Value = serde_json::from_slice(&advice.stdout).unwrap();
    assert!(advice["tuner"]["pid"] == first.id() && advice["tuner"]["dry_run"] == true, "{advice}");
    assert!(advice["windows"] == 0 && advice["service_times"].is_null(), "nothing was measured: {advice}");
    let schema = fs::read(schema::file("advise")).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    assert_eq!(schema::problems(&schema, &advice, "advise"), [""; 0]);
    // Without its status, it is another process that uses the device.
    let elsewhere = advise(&served.file("nowhere"));
    for output in [tuner("other", "1s").wait_with_output().unwrap(), forget(), profile(), elsewhere] {
        let message = words(&output);
        assert!(
            output.status.code() == Some(7)
                && message.contains(&format!("process {} ('dwell tune {node} ", first.id()))
                && message.contains("') tunes or measures it and ends by itself within "),
            "{message}"
        );
    }
    let show = || dwell(&["tune", node, "--status", "--json", "--runtime", &runtime]).output().unwrap();
    let shown: Value = serde_json::from_slice(&show().stdout).unwrap();
    assert!(shown["schema_version"] == 1 && shown["pid"] == first.id(), "{shown}");
    schema::check("tune-status", "The status of a tuner, from 'dwell tune --status --json'", &[shown]);
    first.kill().unwrap();
    first.wait().unwrap();
    fs::write(&status, "no status").unwrap();
    let message = words(&show());
    assert!(message.contains(status.to_str().unwrap()), "the file that is wrong is named: {message}");
    let forgotten = forget();
    assert!(forgotten.status.success(), "{}", words(&forgotten));
}

/// Reads pages that are not in a sequence, past the page cache.
fn read(node: &Path, pages: u64) {
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let mut page = Page([0; 4096]);
    let file: File =
        OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(node).unwrap();
    (0..pages).for_each(|at| file.read_exact_at(&mut page.0, at * 8192).unwrap());
}

/// Kills a tuner of the device once it uses `trial`, and expects the scheduler `before` with its settings. Another test's `profile` may restore
/// first: with the same result.
fn expect_restored_after_a_kill(served: &Served, node: &Path, options: &[&str], before: &str, trial: &str) {
    let queue = Path::new("/sys/block").join(node.file_name().unwrap()).join("queue");
    let value = |name: &str| fs::read_to_string(queue.join(name)).unwrap();
    let is_in_use = |scheduler: &str| value("scheduler").contains(&format!("[{scheduler}]"));
    let offered = value("scheduler").replace(['[', ']'], "");
    if ![before, trial].iter().all(|name| offered.split_whitespace().any(|of| of == *name)) {
        return eprintln!("SKIPPED: the kernel has no {before} or {trial}");
    }
    fs::write(queue.join("scheduler"), before).unwrap();
    fs::write(queue.join("nr_requests"), "77").unwrap();
    let (database, runtime) = (served.file("learned"), served.file("runtime"));
    let node_text = node.to_str().unwrap();
    let mut tuner =
        dwell(&["tune", node_text, "--window", "1s", "--database", &database, "--runtime", &runtime]);
    let mut tuner = tuner.args(options).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while is_in_use(before) {
        read(node, 100);
        if tuner.try_wait().unwrap().is_some() {
            return eprintln!("SKIPPED: {}", words(&tuner.wait_with_output().unwrap()));
        }
    }
    tuner.kill().unwrap();
    // Its keeper holds standard error open until everything is restored.
    let printed = words(&tuner.wait_with_output().unwrap());
    assert!(is_in_use(before), "{printed}");
    assert_eq!(value("nr_requests").trim(), "77", "{printed}");
}

#[test]
fn the_settings_of_a_killed_tuner_are_restored_at_once() {
    let Some(served) = Served::new("killed", &[]) else { return };
    let arms = ["--arm", "mq-deadline", "--arm", "kyber"];
    expect_restored_after_a_kill(&served, &served.node, &arms, "none", "mq-deadline");
}

/// Regression: without a scheduler of its own, the queue below the loop device counted as the one to restore.
#[test]
fn the_settings_of_a_loop_device_are_restored_during_a_trial_of_none() {
    let Some(served) = Served::new("above", &[]) else { return };
    let losetup = |arguments: &[&str]| Command::new("losetup").args(arguments).output().unwrap();
    let attached = losetup(&["--find", "--show", served.node.to_str().unwrap()]);
    if !attached.status.success() {
        return eprintln!("SKIPPED: {}", words(&attached));
    }
    let above = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
    let options = ["--here", "--arm", "none", "--arm", "mq-deadline"];
    let tested = std::panic::catch_unwind(|| {
        expect_restored_after_a_kill(&served, Path::new(&above), &options, "mq-deadline", "none");
    });
    losetup(&["--detach", &above]);
    tested.unwrap();
}

/// The reads of `advise` would count as the load of a tuner, and the tuner's switches would end `advise`.
#[test]
fn a_running_advise_excludes_tune() {
    let Some(served) = Served::new("advising", &[]) else { return };
    let node = served.node.to_str().unwrap();
    let database = served.file("none");
    let mut advise = dwell(&["advise", node, "--windows", "1", "--window", "10min", "--database", &database]);
    let mut advise = advise.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(advise.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut seen = Vec::new();
    let begun = lines.inspect(|line| seen.push(line.clone())).any(|line| line.starts_with("watching "));
    if !begun {
        eprintln!("SKIPPED: {}", seen.join("; "));
        advise.wait().unwrap();
        return;
    }
    let tune = ["tune", node, "--dry-run", "--for", "1s", "--database", &database, "--runtime", &database];
    let refused = dwell(&tune).output().unwrap();
    let pid = advise.id();
    advise.kill().unwrap();
    advise.wait().unwrap();
    let message = words(&refused);
    assert_eq!(refused.status.code(), Some(7), "{message}");
    assert!(message.contains(&format!("process {pid} ('dwell advise {node} ")), "{message}");
    assert!(message.contains("ends by itself within "), "{message}");
}

/// `dwell serve ... | head -1`: the reader exits after the line with the device's name.
#[test]
fn a_tuner_of_a_served_device_needs_two_arms() {
    let Some(served) = Served::new("one-arm", &[]) else { return };
    let (node, control, database) =
        (served.node.to_str().unwrap(), served.file("control"), served.file("database"));
    let tune = ["tune", node, "--control", &control, "--arm", "noop", "--for", "1s", "--database", &database];
    let output = dwell(&tune).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", words(&output));
    assert!(words(&output).contains("only one scheduler to choose from: noop; "), "{}", words(&output));
}

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

/// The output of a command that must end by itself, while the device is read. `None`, with a message, if the kernel does not allow it.
fn printed_while_read(served: &Served, arguments: &[&str]) -> Option<Value> {
    let mut program = dwell(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while program.try_wait().unwrap().is_none() {
        served.read(50);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let output = program.wait_with_output().unwrap();
    if [Some(4), Some(5)].contains(&output.status.code()) {
        eprintln!("SKIPPED: {}", words(&output));
        return None;
    }
    assert!(output.status.success(), "{arguments:?}: {}", words(&output));
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}")))
}

/// A sample with other values in some fields, for a schema that permits both.
fn but(sample: &Value, fields: &[(&str, Value)]) -> Value {
    let mut other = sample.clone();
    fields.iter().for_each(|(name, value)| other[*name] = value.clone());
    other
}

#[test]
fn advice_without_history_has_the_device_the_load_a_replay_and_configuration() {
    let Some(served) = Served::new("advised", &[]) else { return };
    let node = served.node.to_str().unwrap();
    let database = served.file("none");
    let common = ["advise", node, "--windows", "1", "--window", "1s", "--database", &database, "--json"];
    let Some(advice) = printed_while_read(&served, &common) else { return };
    assert!(advice["stack"].as_str().unwrap().starts_with("loop"), "{advice}");
    assert!(advice["windows"] == 1 && advice["analysed"] == 1 && advice["recognised"] == 0, "{advice}");
    assert!(advice["requests_per_second"].as_f64() > Some(1.0), "{advice}");
    assert!(!advice["service_times"]["points"].as_array().unwrap().is_empty(), "{advice}");
    let offered = advice["schedulers"].as_array().unwrap();
    assert_eq!(advice["replay"]["results"].as_array().unwrap().len(), offered.len(), "{advice}");
    assert!(advice["load"].is_string() && advice["confidence"].as_f64() > Some(0.0), "{advice}");
    let configuration = &advice["configuration"];
    assert!(configuration["udev_rule"].is_null(), "loop devices have no stable property: {advice}");
    assert!(configuration["remark"].as_str().unwrap().contains("no udev rule"), "{advice}");
    let unmeasured = printed_while_read(&served, &[&common[..], &["--no-probe"]].concat()).unwrap();
    assert!(unmeasured["service_times"].is_null() && unmeasured["replay"].is_null(), "{unmeasured}");
    let nothing = but(
        &advice,
        &[
            ("load", Value::Null),
            ("better", Value::Null),
            ("expected_gain", Value::Null),
            ("configuration", Value::Null),
            ("service_times", Value::Null),
            ("replay", Value::Null),
            ("doubts", serde_json::json!(["text"])),
        ],
    );
    let mut full = but(
        &advice,
        &[("better", "bfq".into()), ("expected_gain", 0.5.into()), ("doubts", serde_json::json!(["text"]))],
    );
    full["facts"]["device_depth"] = 32.into();
    full["facts"]["file_systems"] = serde_json::json!(["/srv (ext4)"]);
    full["tuner"] = serde_json::json!({
        "pid": 7, "unit": "text", "since": "text", "metric": "text", "dry_run": true, "before": "text", "windows": 1, "switches": 1,
        "latest_decision": "text",
    });
    full["killed_tuner"] = serde_json::json!({
        "pid": 7, "in_use": "text", "before": "text", "arm": "text", "remedy": "text",
    });
    let of_configuration = [
        "set",
        "udev_rule",
        "udev_file",
        "tuned_profile",
        "tuned_revert",
        "unit",
        "unit_revert",
        "unit_remark",
    ];
    for name in of_configuration {
        full["configuration"][name] = "text".into();
    }
    full["configuration"]["remark"] = Value::Null;
    full["configuration"]["revert"] = serde_json::json!(["text"]);
    full["replay"]["results"][0]["gain"] = Value::Null;
    let mut tuned = full.clone();
    tuned["tuner"]["unit"] = Value::Null;
    tuned["tuner"]["since"] = Value::Null;
    let samples = [advice, unmeasured, nothing, full, tuned];
    schema::check("advise", "The recommendation of 'dwell advise --json'", &samples);
}

/// A mounted file system; unmounted when this is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(served: &Served) -> Option<Self> {
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().map_err(|error| error.to_string());
            let failed = |output: Output| if output.status.success() { Ok(()) } else { Err(words(&output)) };
            let done = output.and_then(failed);
            done.inspect_err(|error| eprintln!("SKIPPED: {program}: {error}")).ok()
        };
        let (node, place) = (served.node.to_str().unwrap(), served.directory.join("mounted"));
        fs::create_dir_all(&place).unwrap();
        run("mkfs.ext4", &["-q", "-F", node])?;
        run("mount", &[node, place.to_str().unwrap()])?;
        Some(Self(place))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn a_directory_and_a_file_stand_for_their_device() {
    let Some(served) = Served::new("placed", &[]) else { return };
    let Some(mounted) = Mounted::new(&served) else { return };
    let file = mounted.0.join("database");
    fs::write(&file, "rows").unwrap();
    for path in [&mounted.0, &file] {
        let output = dwell(&["doctor", "--json"]).arg(path).output().unwrap();
        assert!(output.status.success(), "{}", words(&output));
        let examined: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = examined["examined"][0]["path"].as_str().unwrap();
        let name = served.node.file_name().unwrap().to_str().unwrap();
        assert!(found.contains(mounted.0.to_str().unwrap()) && found.contains(name), "{found}");
        let database = served.file("none");
        let path = path.to_str().unwrap();
        let options = ["--windows", "1", "--window", "1s", "--no-probe", "--database", &database, "--json"];
        let advise = [&["advise", path], &options[..]].concat();
        let Some(advice) = printed_while_read(&served, &advise) else { return };
        assert!(advice["stack"].as_str().unwrap().starts_with(name), "{advice}");
        assert_eq!(advice["device"], path);
    }
    for command in ["advise", "doctor"] {
        let output = dwell(&[command, "/proc/self"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", words(&output));
        assert!(
            words(&output).contains("is on proc (/proc), which has no block device"),
            "{}",
            words(&output)
        );
    }
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
            ("kernel_threads", serde_json::json!([thread])),
            ("delegated", serde_json::json!([{"submitter": "jbd2", "bytes": 1, "causes": [["dd", 1]]}])),
        ],
    );
    schema::check("causes", "The report of 'dwell causes --json'", &[causes, full]);
}

/// Makes and mounts a mirror of btrfs; false, with the reason, where this machine cannot.
fn mount_btrfs(devices: [&str; 2], place: &str) -> bool {
    fs::create_dir_all(place).unwrap();
    let made =
        Command::new("mkfs.btrfs").args(["-q", "-f", "-d", "raid1", "-m", "raid1"]).args(devices).output();
    let mount = || Command::new("mount").args(["-t", "btrfs", devices[0], place]).output();
    let has = made.is_ok_and(|made| made.status.success());
    let mounted = has && mount().is_ok_and(|mounted| mounted.status.success());
    if !mounted {
        eprintln!("SKIPPED: the part with btrfs, which this machine cannot make or mount");
    }
    mounted
}

/// A loop device of the kernel over a new file.
fn loop_over(file: &str, bytes: u64) -> Option<String> {
    File::create(file).unwrap().set_len(bytes).unwrap();
    let output = Command::new("losetup").args(["--find", "--show", file]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The queues of attached members are in front of their servers' schedulers.
#[test]
fn tuning_attached_members_names_the_sockets() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("live-array-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    for member in ["m0", "m1"] {
        File::create(path(member)).unwrap().set_len(200 << 20).unwrap();
    }
    let (control, one) = (path("control"), path("control.0"));
    let arguments = ["serve", "--member", &path("m0"), "--member", &path("m1"), "--array", "RAID1"];
    let mut server = dwell(&[&arguments[..], &["--attach", "--control", &control]].concat());
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (Some(line), Some(other)) = (lines.next(), lines.next()) else {
        eprintln!("SKIPPED: {}", words(&server.wait_with_output().unwrap()));
        let _ = fs::remove_dir_all(directory);
        return;
    };
    let tuned_of = |device: &str, more: &[&str]| {
        let own = [
            "--dry-run",
            "--for",
            "5s",
            "--window",
            "3s",
            "--database",
            &path("db"),
            "--runtime",
            &path("run"),
        ];
        words(&dwell(&[&["tune", device], &own[..], more].concat()).output().unwrap())
    };
    let tuned = |more: &[&str]| tuned_of(&line, more);
    let (unnamed, member, whole) = (tuned(&[]), tuned(&["--control", &one]), tuned(&["--control", &control]));
    let mounted = mount_btrfs([&line, &other], &path("mnt"));
    let by_place = mounted.then(|| tuned_of(&path("mnt"), &["--control", &control]));
    let without = mounted.then(|| tuned_of(&path("mnt"), &[]));
    let by_member = mounted.then(|| tuned_of(&path("mnt"), &["--control", &one]));
    let wrong = tuned_of(&other, &["--control", &one]);
    let unrelated = loop_over(&path("unrelated"), 400 << 20).map(|unrelated| {
        let refused = tuned_of(&unrelated, &["--control", &control]);
        let _ = Command::new("losetup").args(["--detach", &unrelated]).output();
        refused
    });
    let _ = Command::new("umount").arg(path("mnt")).output();
    let _ = Command::new("btrfs").args(["device", "scan", "--forget", &line, &other]).output();
    let _ = dwell(&["ctl", &control, "stop"]).output();
    let ended = server.wait().unwrap();
    let _ = fs::remove_dir_all(&directory);
    let one_device =
        |text: &str| text.contains("+loop") && text.contains("raid1 of 2 members, 819200 sectors");
    assert!(by_place.as_deref().is_none_or(one_device), "by its mount point: {by_place:?}");
    let names = format!("and its socket: {line} --control {control}");
    assert!(unnamed.contains(&names), "no md is on it: {unnamed}");
    let names = format!("name its socket: {} --control {control}", path("mnt"));
    assert!(without.as_deref().is_none_or(|refused| refused.contains(&names)), "{without:?}");
    let names = format!("is on 2 members; the socket of the whole array is {control}");
    assert!(by_member.as_deref().is_none_or(|refused| refused.contains(&names)), "{by_member:?}");
    let names =
        format!("is the socket of member 0, {line}, and {other} is member 1, whose socket is {control}.1");
    assert!(wrong.contains(&names), "{wrong}");
    assert!(
        unrelated.as_deref().is_none_or(|refused| refused.contains("is on none of them")),
        "of the same size: {unrelated:?}"
    );
    assert!(member.contains("socket of member 0 of an array alone"), "{member}");
    assert!(one_device(&whole), "one device: {whole}");
    assert!(whole.contains("ended after 1 window"), "{whole}");
    assert!(ended.success());
}
