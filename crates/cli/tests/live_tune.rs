//! `tune` and `advise` on devices of a live kernel, made for these tests. Loudly skipped where that is not possible.

mod schema;
mod served;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use served::{Served, but, dwell, printed_while_read, read, words};

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

/// Regression: `advise` called the setting `bfq`, and recommended it again.
#[test]
fn a_scheduler_is_set_once_and_advice_calls_it_by_its_settings() {
    let Some(served) = Served::new("once", &[]) else { return };
    let node = served.node.to_str().unwrap();
    let queue = Path::new("/sys/block").join(served.node.file_name().unwrap()).join("queue");
    let value = |setting: &str| fs::read_to_string(queue.join(setting)).unwrap_or_default();
    const ARM: &str = "bfq{low_latency=0, strict_guarantees=1}";
    if !value("scheduler").contains("bfq") {
        return eprintln!("SKIPPED: this kernel has no bfq");
    }
    let switch = |more: &[&str]| dwell(&[&["tune", node, "--switch-to"], more].concat()).output().unwrap();
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let dry = text(&switch(&[ARM, "--dry-run"]));
    assert!(dry.contains(&format!("would switch from none to {ARM}\n")), "{dry}");
    assert!(value("scheduler").contains("[none]"), "{dry}");
    let wrong = switch(&["bfq{low_latency=2}"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", words(&wrong));
    let done = switch(&[ARM]);
    let printed = text(&done);
    if !done.status.success() {
        return eprintln!("SKIPPED: {}", words(&done));
    }
    assert!(
        printed.contains(&format!(": none -> {ARM}, in ")) && printed.contains("/s after\n"),
        "{printed}"
    );
    let set = || ["scheduler", "iosched/low_latency", "iosched/strict_guarantees"].map(value);
    assert!(set()[0].contains("[bfq]") && set()[1..] == ["0\n", "1\n"], "{:?}", set());
    let database = served.file("none");
    let watch = [
        "advise",
        node,
        "--windows",
        "1",
        "--window",
        "1s",
        "--no-probe",
        "--arm",
        "none",
        "--arm",
        ARM,
        "--database",
        &database,
    ];
    let Some(advice) = printed_while_read(&served, &[&watch[..], &["--json"]].concat()) else { return };
    assert_eq!(advice["scheduler"], ARM, "{advice}");
    // The first line has it, too. The schedulers of a device that does not rotate do not differ in strict_guarantees.
    let stack = advice["stack"].as_str().unwrap_or_default();
    assert!(stack.contains(" (bfq{low_latency=0"), "{advice}");
    let back = text(&switch(&["none"]));
    assert!(back.contains(": bfq{low_latency=0") && back.contains("} -> none, in "), "{back}");
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
        "set_by_hand",
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
