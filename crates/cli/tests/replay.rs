//! `dwell replay` and `dwell duel` on a loop device of its own, backed by memory. Skipped with a reason where there are no loop devices or no permission.

mod schema;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

const DEVICE_BYTES: u64 = 64 << 20;

fn dwell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dwell")).args(arguments).output().expect("the program runs")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A loop device with its file and a recording; removed on drop, when it gets its scheduler back, which outlives the file.
struct Looped {
    node: String,
    directory: PathBuf,
    before: Option<String>,
}

impl Looped {
    fn new(test: &str) -> Option<Self> {
        let directory = PathBuf::from(format!("/dev/shm/dwell-replay-{test}-{}", std::process::id()));
        if let Err(error) = fs::create_dir_all(&directory) {
            eprintln!("SKIPPED: {}: {error}", directory.display());
            return None;
        }
        let file = directory.join("disk");
        let made = fs::File::create(&file).and_then(|file| file.set_len(DEVICE_BYTES));
        let attached = Command::new("losetup").args(["-f", "--show"]).arg(&file).output();
        match (made, attached) {
            (Ok(()), Ok(output)) if output.status.success() => {
                let node = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                let mut looped = Self { node, directory, before: None };
                looped.before = active(&looped.scheduler());
                Some(looped)
            }
            (made, attached) => {
                eprintln!("SKIPPED: no loop device: {made:?} {attached:?}");
                let _ = fs::remove_dir_all(&directory);
                None
            }
        }
    }

    /// A recording of two processes, which wait for each request. Every fourth request writes.
    fn recording(&self) -> String {
        let mut text = "# dwell recording 1\n".to_owned();
        for n in 0..200_u64 {
            let (at, kind) = (n * 100_000, if n % 4 == 3 { "WS" } else { "RS" });
            let position = (n * 7919 % 1000) * 65_536 / 4096 * 4096;
            text += &format!("{at} 50000 8,0 {kind} {position} 4096 - {} p\n", n % 2);
        }
        let path = self.directory.join("io.dwell");
        fs::write(&path, text).expect("a recording");
        path.to_string_lossy().into_owned()
    }

    fn setting(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/queue/{name}", self.node.trim_start_matches("/dev/")))
    }

    fn value(&self, setting: &str) -> String {
        fs::read_to_string(self.setting(setting)).unwrap_or_default().trim().to_owned()
    }

    fn scheduler(&self) -> String {
        self.value("scheduler")
    }

    fn content(&self) -> Vec<u8> {
        fs::read(self.directory.join("disk")).expect("the file")
    }
}

/// The scheduler in brackets.
fn active(schedulers: &str) -> Option<String> {
    Some(schedulers.split_once('[')?.1.split_once(']')?.0.to_owned())
}

impl Drop for Looped {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = fs::write(self.setting("scheduler"), before);
        }
        let _ = Command::new("losetup").args(["-d", &self.node]).status();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whether the system does not permit the test; then `output` has the reason.
fn is_skipped(output: &Output) -> bool {
    let skipped = matches!(output.status.code(), Some(4 | 5));
    if skipped {
        eprintln!("SKIPPED: {}", error(output));
    }
    skipped
}

#[test]
fn reads_are_replayed_under_each_scheduler_which_is_restored() {
    let Some(looped) = Looped::new("reads") else { return };
    let (before, recording) = (looped.scheduler(), looped.recording());
    fs::write(looped.directory.join("disk"), vec![7; DEVICE_BYTES as usize]).expect("the file");
    let output = dwell(&["replay", &recording, &looped.node, "--here", "--rounds", "2", "--json"]);
    if is_skipped(&output) {
        return;
    }
    assert!(output.status.success(), "{}", error(&output));
    assert!(error(&output).contains("50 requests other than reads left out"), "{}", error(&output));
    let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let schedulers = found["schedulers"].as_array().expect("schedulers");
    assert!(!schedulers.is_empty());
    for scheduler in schedulers {
        let rounds = scheduler["rounds"].as_array().expect("rounds");
        assert_eq!(rounds.len(), 2, "{found}");
        for round in rounds {
            assert_eq!((&round["requests"], &round["bytes"]), (&150.into(), &(150 * 4096).into()), "{found}");
        }
    }
    let without =
        ["replay", &*recording, &*looped.node, "--here", "--no-switch", "--drive", "none", "--json", "-q"];
    let without: Value = serde_json::from_slice(&dwell(&without).stdout).expect("one JSON object");
    schema::check("replay", "Results of 'dwell replay --json'", &[found, without]);
    assert_eq!(looped.scheduler(), before);
    assert!(looped.content().iter().all(|&byte| byte == 7), "nothing was written");
}

#[test]
fn writes_need_permission_and_a_device_that_nothing_uses() {
    let Some(looped) = Looped::new("writes") else { return };
    let recording = looped.recording();
    fs::write(looped.directory.join("disk"), vec![7; DEVICE_BYTES as usize]).expect("the file");
    let job = looped.directory.join("job.fio");
    fs::write(&job, "[w]\nrw=write\nbs=4k\nsize=64k\ndirect=1\n").expect("a job");
    let job = job.to_string_lossy().into_owned();
    let replay = |more: &[&str]| {
        let all = [&["replay", &*job, &*looped.node, "--here", "--rounds", "1", "--no-switch", "-q"], more]
            .concat();
        dwell(&all)
    };
    let refused = replay(&[]);
    if is_skipped(&refused) {
        return;
    }
    assert_eq!(refused.status.code(), Some(2), "{}", error(&refused));
    assert!(error(&refused).contains("[w] writes; --allow-writes permits that"), "{}", error(&refused));
    assert!(looped.content().iter().all(|&byte| byte == 7), "nothing was written");
    let holder = {
        use std::os::unix::fs::OpenOptionsExt;
        let excl = rustix::fs::OFlags::EXCL.bits() as i32;
        fs::OpenOptions::new().read(true).custom_flags(excl).open(&looped.node).expect("a claim")
    };
    let held = replay(&["--allow-writes"]);
    assert!(!held.status.success() && error(&held).contains("mounted or held"), "{}", error(&held));
    assert!(
        !error(&held).contains("switching") && error(&held).contains("omit --allow-writes"),
        "{}",
        error(&held)
    );
    let stamps = dwell(&["replay", "par-read", &looped.node, "--here", "--timing", "stamps", "-q"]);
    assert!(error(&stamps).contains("--timing stamps applies to recordings only"), "{}", error(&stamps));
    drop(holder);
    let read_only = |is: &str| {
        let set = Command::new("blockdev").args([is, &looped.node]).status();
        set.is_ok_and(|status| status.success())
    };
    if read_only("--setro") {
        let refused = replay(&["--allow-writes"]);
        assert_eq!(refused.status.code(), Some(2), "{}", error(&refused));
        assert!(error(&refused).contains("is read-only"), "{}", error(&refused));
        assert!(read_only("--setrw"));
    }
    // Regression: a table of 0 MB/s.
    let discards = looped.directory.join("discards");
    for text in [
        "[a]\nrw=trim\nbs=4k\nsize=64k\ndirect=1\n",
        "# dwell recording 1\n0 50000 8,0 D 0 4096 - 1 p\n9 50000 8,0 D 8192 4096 - 1 p\n",
    ] {
        fs::write(&discards, text).expect("discards");
        let name = discards.to_string_lossy();
        let none = dwell(&["replay", &name, &looped.node, "--here", "--allow-writes", "-q"]);
        assert_eq!(none.status.code(), Some(6), "{}", error(&none));
        assert!(error(&none).contains("has no request that can be replayed"), "{}", error(&none));
        assert!(none.stdout.is_empty());
    }
    let written = replay(&["--allow-writes"]);
    assert!(written.status.success(), "{}", error(&written));
    assert!(looped.content()[..65_536].iter().all(|&byte| byte == 0), "the job was executed");
    // The recording's writes are replayed as well.
    let output = dwell(&[
        "replay",
        &recording,
        &looped.node,
        "--here",
        "--rounds",
        "1",
        "--no-switch",
        "--allow-writes",
        "--json",
        "--timing",
        "stamps",
        "-q",
    ]);
    assert!(output.status.success(), "{}", error(&output));
    let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let round = &found["schedulers"][0]["rounds"][0];
    assert_eq!((&round["reads"]["count"], &round["writes"]["count"]), (&150.into(), &50.into()), "{found}");
    assert_eq!(found["ranked_by"], "mean latency");
}

#[test]
fn schedulers_that_the_device_lacks_are_rejected() {
    let Some(looped) = Looped::new("refused") else { return };
    let recording = looped.recording();
    let output = dwell(&["replay", &recording, &looped.node, "--here", "-s", "no-such", "-q"]);
    assert_eq!(output.status.code(), Some(2), "{}", error(&output));
    assert!(error(&output).contains("no-such"), "{}", error(&output));
    let output = dwell(&["replay", "par-read", &looped.node, "--here", "-q"]);
    assert_eq!(output.status.code(), Some(2), "{}", error(&output));
    assert!(error(&output).contains("reaches to sector"), "{}", error(&output));
}

/// `mq-deadline` with and without a setting, by the same name; its own settings are restored, too.
#[test]
fn schedulers_have_settings() {
    let Some(looped) = Looped::new("settings") else { return };
    let recording = looped.recording();
    let (own, prepared) = ("iosched/fifo_batch", [("scheduler", "mq-deadline"), ("iosched/fifo_batch", "7")]);
    if let Some(error) =
        prepared.iter().find_map(|(name, value)| fs::write(looped.setting(name), value).err())
    {
        return eprintln!("SKIPPED: no mq-deadline: {error}");
    }
    let replay = |arms: &[&str]| {
        let all = ["replay", &*recording, &*looped.node, "--here", "--rounds", "2", "--json"];
        let arms = arms.iter().flat_map(|arm| ["-s", *arm]);
        dwell(&all.into_iter().chain(arms).collect::<Vec<_>>())
    };
    let output = replay(&["mq-deadline", "mq-deadline{fifo_batch=1, read_ahead_kb=64}"]);
    if is_skipped(&output) {
        return;
    }
    assert!(output.status.success(), "{}", error(&output));
    let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let names: Vec<_> =
        found["schedulers"].as_array().expect("schedulers").iter().map(|of| &of["scheduler"]).collect();
    assert!(names.contains(&&Value::from("mq-deadline{fifo_batch=1, read_ahead_kb=64}")), "{found}");
    for (arm, code, why) in [
        ("mq-deadline{fifo_batsch=1}", 2, "mq-deadline has no setting 'fifo_batsch'; it has "),
        ("mq-deadline{fifo_batch=x}", 2, "fifo_batch must be a number from 0 to 2147483647"),
        ("mq-deadline{fifo_batch=-1}", 2, "fifo_batch must be a number from 0 to 2147483647"),
        ("mq-deadline{fifo_batch", 2, "is not a valid scheduler"),
        ("mq-deadline{../../x=1}", 2, "is not a valid scheduler"),
    ] {
        let output = replay(&[arm]);
        assert_eq!(output.status.code(), Some(code), "{}", error(&output));
        assert!(error(&output).contains(why), "{}", error(&output));
        assert_eq!(looped.value(own), "7", "{arm}");
    }
    assert!(looped.scheduler().contains("[mq-deadline]"), "{}", looped.scheduler());
}

/// SIGKILL cannot be handled; a process of its own restores the scheduler and its settings.
fn a_killed_command_leaves_the_previous_scheduler(test: &str, arguments: fn(&Looped) -> Vec<String>) {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    use std::time::{Duration, Instant};
    let Some(looped) = Looped::new(test) else { return };
    let (before, ahead) = (looped.scheduler(), looped.value("read_ahead_kb"));
    let other = before.split_whitespace().find(|name| !name.starts_with('[')).map(str::to_owned);
    let Some(other) = other else {
        return eprintln!("SKIPPED: the kernel offers one scheduler: {before}");
    };
    let mut child = Command::new(env!("CARGO_BIN_EXE_dwell"))
        .args(arguments(&looped))
        .args(["--here", "-s", &format!("{other}{{read_ahead_kb=52}}"), "--drive", "none"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let began = lines.any(|line| line.contains("round 1 of"));
    let switched_to = format!("[{other}]");
    let deadline = Instant::now() + Duration::from_secs(60);
    let is = |wanted: &dyn Fn(&str, &str) -> bool| {
        let reads = || wanted(&looped.scheduler(), &looped.value("read_ahead_kb"));
        while !reads() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        reads()
    };
    let switched = began && is(&|now, ahead| now.contains(&switched_to) && ahead == "52");
    let _ = child.kill();
    let status = child.wait().expect("it ends");
    if !began && matches!(status.code(), Some(4 | 5)) {
        return eprintln!("SKIPPED: not permitted");
    }
    assert!(switched, "{}", looped.scheduler());
    assert!(is(&|now, reads| now == before && reads == ahead), "{} is not {before}", looped.scheduler());
}

#[test]
fn a_killed_replay_leaves_the_previous_scheduler() {
    a_killed_command_leaves_the_previous_scheduler("killed", |looped| {
        let job = looped.directory.join("long.fio");
        fs::write(&job, "[r]\nrw=randread\nbs=4k\nsize=1m\ntime_based=1\nruntime=600\n").expect("a job");
        vec!["replay".to_owned(), job.to_string_lossy().into_owned(), looped.node.clone()]
    });
}

#[test]
fn a_killed_duel_on_a_device_leaves_the_previous_scheduler() {
    a_killed_command_leaves_the_previous_scheduler("killed-duel", |looped| {
        ["duel", &looped.node, "--for", "600s"].map(str::to_owned).to_vec()
    });
}

#[test]
fn a_duel_on_a_device_reads_only_and_alternates_the_schedulers() {
    let Some(looped) = Looped::new("duel") else { return };
    let before = looped.scheduler();
    fs::write(looped.directory.join("disk"), vec![7; DEVICE_BYTES as usize]).expect("the file");
    let duel = |more: &[&str]| {
        let all = ["duel", &*looped.node, "--here", "--for", "100ms", "--repeat", "2", "--json", "-q"];
        dwell(&[&all[..], more].concat())
    };
    let output = duel(&[]);
    if is_skipped(&output) {
        return;
    }
    assert!(output.status.success(), "{}", error(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    let found: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let names = ["par-read", "random-reads", "reads-beside-stream"];
    assert_eq!(found.len(), names.len(), "{text}");
    for (of, name) in found.iter().zip(names) {
        assert!(of["workload"].as_str().is_some_and(|workload| workload.contains(name)), "{of}");
        let schedulers = of["schedulers"].as_array().expect("schedulers");
        assert!(
            schedulers.iter().all(|of| of["rounds"].as_array().is_some_and(|all| all.len() == 2)),
            "{of}"
        );
    }
    let about = "A line of 'dwell duel DEVICE --json', one for each benchmark";
    // A prediction may be absent here.
    let latency = &found[0]["schedulers"][0]["rounds"][0]["latency"];
    let model = serde_json::json!({"mb_per_s": 0.5, "latency": latency});
    let predicted = schema::with(&found[0], &[("/schedulers/0/model", model)]);
    let found = [&found[..], &[predicted]].concat();
    schema::check("duel-device", about, &found);
    assert_eq!(looped.scheduler(), before);
    for (refused, why) in [
        (&["-b", "write-beside-reads"][..], "--allow-writes"),
        (&["-b", "greps"], "not a benchmark for a device"),
        (&["--depth", "4"], "applies to an emulated drive"),
    ] {
        let output = duel(refused);
        assert_eq!(output.status.code(), Some(2), "{}", error(&output));
        assert!(error(&output).contains(why), "{}", error(&output));
    }
    assert!(looped.content().iter().all(|&byte| byte == 7), "nothing was written");
    let all = ["duel", &*looped.node, "--here", "--for", "2s", "--repeat", "1", "-s", "none", "-q"];
    let output = dwell(&[&all[..], &["-b", "write-beside-reads", "--allow-writes"]].concat());
    assert!(output.status.success(), "{}", error(&output));
    assert!(looped.content().contains(&0), "the stream writes zeros");
}
