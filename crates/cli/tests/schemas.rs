//! The output of `--json` matches the committed schemas (packaging/schemas), and the dashboard has metrics that exist.
//!
//! `DWELL_BLESS=1 cargo test -p dwell-cli --test schemas` writes the schemas anew.

mod schema;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::control::protocol::{ClientState, ItemState, ProcessAccount, SwitchState};

const RECORDING: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../recordings/two-greps-and-a-copy.ftrace.gz");
const SMALL: &str = "par-read{file_bytes=131072, apart_bytes=10000000}";

/// blkparse's text of two devices, with latencies and processes.
const TWO_DEVICES: &str = "  8,0    0        1     0.000000000  100  Q   R 1000 + 8 [a]
  8,0    0        2     0.000001000  100  D   R 1000 + 8 [a]
  8,16   0        3     0.000002000  101  Q   W 2000 + 8 [b]
  8,16   0        4     0.000003000  101  D   W 2000 + 8 [b]
  8,0    0        5     0.005000000  100  C   R 1000 + 8 [0]
  8,16   0        6     0.006000000  101  C   W 2000 + 8 [0]
";

fn prints(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_dwell"))
        .args(arguments)
        .env_remove("DWELL_DRIVE")
        .env("DWELL_CONFIG", "")
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dwell-schemas-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file");
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn compare() {
    let folder = Folder::new("compare");
    // Three years, in which every run fails.
    let endless = "# dwell recording 1\n0 10 8,0 R 0 4096 - 1 a\n";
    let alone = folder.file("one.dwell", endless);
    let samples = [
        prints(&["compare", SMALL, "-s", "noop", "-s", "stream(deadline)", "--json", "-q"]),
        prints(&["compare", SMALL, "-s", "array-stream", "--array", "raid0:2x64k", "--json", "-q"]),
        prints(&["compare", "par-read", "-s", "cfq", "--at-most", "100ms", "--json", "-q"]),
        prints(&["compare", RECORDING, "-s", "noop", "--json", "-q"]),
        prints(&["compare", RECORDING, "-s", "noop", "--open", "--at-most", "100ms", "--json", "-q"]),
        prints(&["compare", &alone, "-s", "noop", "--json", "-q"]),
    ];
    let failed = schema::with(&samples[0], &[("/runs/0/failure", json!("text"))]);
    let samples = [&samples[..], &[failed]].concat();
    schema::check("compare", "Results of 'dwell compare --json'", &samples);
}

#[test]
fn run() {
    let folder = Folder::new("run");
    let job = folder.file("job.fio", "[w]\nrw=write\nbs=64k\nsize=4m\nend_fsync=1\n");
    let readers = "[global]\nrw=read\nbs=4k\nsize=1m\ndirect=1\n[a]\n[b]\noffset=64g\n";
    let readers = folder.file("readers.fio", readers);
    let samples = [
        prints(&["run", &job, "-s", "noop", "--json", "-q"]),
        prints(&["run", "split/sqlite-300", "--scale", "0.02", "--json", "-q"]),
        // Several machines, whose processes make no system calls.
        prints(&["run", "split/hdfs-8-16m", "--scale", "0.02", "-s", "noop", "--json", "-q"]),
        // Deliberate waits.
        prints(&["run", &readers, "-s", "cfq", "--json", "-q"]),
    ];
    let waits = &samples[3]["runs"][0]["waits"]["by_reason"];
    assert!(waits.as_object().is_some_and(|by| !by.is_empty()), "{waits}");
    let mut failed = samples[0].clone();
    failed["runs"][0]["failure"] = json!("text");
    failed["runs"][0]["outcome"]["failure"] = json!("text");
    failed["runs"][0]["fairness"] = json!(0.5);
    let samples = [&samples[..], &[failed]].concat();
    schema::check("run", "Results of 'dwell run --json'", &samples);
}

#[test]
fn schedulers_and_drives() {
    let lists = [prints(&["schedulers", "--json"])];
    schema::check("schedulers", "The list of 'dwell schedulers --json'", &lists);
    let elevators = ["", "dwell-custom"].map(|name| {
        let arguments = ["schedulers", "--kernel", "--json", name];
        prints(&arguments[..if name.is_empty() { 3 } else { 4 }])
    });
    let needs = schema::with(&elevators[0], &[("/elevators/0/layers/0/needs", json!("text"))]);
    let elevators = [&elevators[..], &[needs]].concat();
    schema::check("schedulers-kernel", "The list of 'dwell schedulers --kernel --json'", &elevators);
    let drives = [prints(&["drives", "list", "--json"])];
    schema::check("drives-list", "The list of 'dwell drives list --json'", &drives);
    let shown =
        ["wd5000aaks", "ssd-sata", "ide-2003"].map(|drive| prints(&["drives", "show", drive, "--json"]));
    schema::check("drives-show", "A drive's description, from 'dwell drives show --json'", &shown);
}

#[test]
fn drives_validate() {
    let folder = Folder::new("validate");
    let trace =
        folder.file("measured.trace", "R 0 1000 8 9000 2000\nW 0 900000 8 12000 2000\nR 0 2000 8 7000 0\n");
    let results =
        ["ssd-sata", "wd5000aaks"].map(|drive| prints(&["drives", "validate", drive, &trace, "--json"]));
    assert!(results[1]["host_bus"].is_string(), "{}", results[1]);
    let about = "A drive's model compared with a measured trace, from 'dwell drives validate --json'";
    schema::check("drives-validate", about, &results);
}

#[test]
fn trace() {
    let folder = Folder::new("trace");
    let several = folder.file("several.ascii", "0.5 2 1000 8 1\n1.5 0 2000 8 0\n2.5 1 3000 8 1\n");
    let with_times = "# dwell recording 1\n0 10 8,0 R 0 4096 - 1 a\n5000 10 8,0 WS 8192 4096 - - -\n";
    let own = folder.file("own.dwell", with_times);
    let blkparse = folder.file("two.blk", TWO_DEVICES);
    let mut infos = vec![
        prints(&["trace", "info", "--json", RECORDING]),
        prints(&["trace", "info", "--json", &several]),
        prints(&["trace", "info", "--json", "--device", "all", &several]),
        prints(&["trace", "info", "--json", &own]),
        prints(&["trace", "info", "--json", &blkparse]),
    ];
    let skips =
        json!([{"what": "text", "count": 1, "first": "text"}, {"what": "text", "count": 1, "first": null}]);
    let latency = infos[0]["info"]["latency"].clone();
    assert!(latency.is_object(), "{}", infos[0]);
    infos.push(schema::with(&infos[0], &[("/info/skips", skips.clone())]));
    let of_devices = [
        ("/devices/0/skips", skips),
        ("/devices/0/flush_latency", latency.clone()),
        ("/devices/0/preflush_latency", latency),
        ("/devices/0/interpretation/wrappings", json!(["gzip"])),
        ("/devices/0/interpretation/notes", json!(["text"])),
    ];
    let several = infos.iter().find(|info| info["devices"].is_array()).expect("several devices");
    infos.push(schema::with(several, &of_devices));
    schema::check(
        "trace-info",
        "'dwell trace info --json': 'info', or 'devices' for a recording of several",
        &infos,
    );
    let patterns = [prints(&["trace", "patterns", "--window", "500ms", "--json", RECORDING])];
    schema::check(
        "trace-patterns",
        "Kinds of load in a recording, from 'dwell trace patterns --json'",
        &patterns,
    );
}

#[test]
fn doctor() {
    // Reads only. A system without a disk has nothing to examine.
    let output =
        Command::new(env!("CARGO_BIN_EXE_dwell")).args(["doctor", "--json"]).output().expect("it runs");
    let finding = json!({"level": "note", "link": "ionice", "what": "text", "fix": "text"});
    let examined = json!([{"path": "sda (bfq)", "settings": "sda: iostats=1", "findings": [finding]}]);
    let mut samples = vec![json!({"schema_version": 1, "examined": examined})];
    match output.status.success() {
        true => samples.push(serde_json::from_slice(&output.stdout).expect("JSON")),
        false => eprintln!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr)),
    }
    schema::check("doctor", "The findings of 'dwell doctor --json'", &samples);
}

#[test]
fn reproduce_and_regret() {
    let experiments = [
        ["stream", "--only", "par-read"].as_slice(),
        &["stream", "--single-disk", "--only", "chunk reads"],
        &["cooperative", "--only", "chunk-read"],
    ]
    .map(|some| prints(&[&["reproduce", "--scale", "0.02", "--results", "", "--json"], some].concat()));
    schema::check("reproduce", "Results of 'dwell reproduce --json'", &experiments);
    let cells = [prints(&[
        "regret", "--sample", "1", "--only", "par-read", "-s", "noop", "-s", "deadline", "--json",
    ])];
    let failed = schema::with(&cells[0], &[("/schedulers/0/failures", json!(["text"]))]);
    let cells = [&cells[..], &[failed]].concat();
    schema::check("regret", "Results of 'dwell regret --json'", &cells);
}

/// A server of memory, without root.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with these arguments, and its control socket.
fn served(folder: &Folder, arguments: &[&str]) -> (Server, String) {
    let (control, socket) = (folder.0.join("control"), folder.0.join("nbd"));
    let server = Command::new(env!("CARGO_BIN_EXE_dwell"))
        .arg("serve")
        .args(arguments)
        .arg("--nbd")
        .arg(format!("unix:{}", socket.display()))
        .arg("--control")
        .arg(&control)
        .env_remove("DWELL_DRIVE")
        .env("DWELL_CONFIG", "")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    let server = Server(server);
    let began = Instant::now();
    while std::os::unix::net::UnixStream::connect(&control).is_err()
        && began.elapsed() < Duration::from_secs(60)
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    (server, control.to_string_lossy().into_owned())
}

/// Switches the scheduler.
fn switches(control: &str) {
    let command =
        Command::new(env!("CARGO_BIN_EXE_dwell")).args(["ctl", control, "switch", "mq-deadline"]).output();
    let output = command.expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The state with everything that an idle server without faults lacks.
fn busy(state: &Value) -> Value {
    let client = |process| ClientState { process, from: "127.0.0.1:9".to_owned(), in_flight: 1, bytes: 4096 };
    let facts = json!({"count": 1, "flag": true, "word": "text"});
    let facts = facts.as_object().expect("a map").clone();
    let item = ItemState { kind: "queue".to_owned(), number: 1, facts };
    let process = ProcessAccount { operations: 1, read_bytes: 4096, written_bytes: 0 };
    let switch = SwitchState { draining: false, moved: 1, in_flight: 1, drained_for_ns: 1 };
    let values = [
        ("/items", json!([item])),
        ("/processes", json!({"7": process})),
        ("/clients", json!([client(None), client(Some(7))])),
        ("/last_switch", json!(switch)),
        ("/draining_ns", json!(1)),
        ("/log_lost", json!(1)),
        ("/last_scheduler_fault", json!("text")),
    ];
    schema::with(state, &values)
}

#[test]
fn ctl_show() {
    let folder = Folder::new("ctl");
    let (_server, path) = served(&folder, &["--memory", "--size", "16MiB", "--scheduler", "deadline"]);
    let show = || prints(&["ctl", &path, "show", "--json"]);
    let before = show();
    switches(&path);
    let after = show();
    assert!(before["last_switch"].is_null() && after["last_switch"].is_object(), "{before} {after}");
    let busy = busy(&after);
    schema::check(
        "ctl-show",
        "The state of a served device, from 'dwell ctl show --json'",
        &[before, after, busy],
    );
}

#[test]
fn ctl_array() {
    let folder = Folder::new("ctl-array");
    let [first, second] = ["m0", "m1"].map(|name| folder.file(name, ""));
    let arguments = ["--member", &first, "--member", &second, "--array", "raid0:64k"];
    let drive = ["--drive", "wd5000aaks", "--discard-data"];
    let (_server, path) = served(&folder, &[&arguments[..], &drive].concat());
    let state = prints(&["ctl", &path, "array", "--json"]);
    assert_eq!(state["members"].as_array().map(Vec::len), Some(2), "{state}");
    // Before md has written its superblock, and with attached members, which need root.
    let mut other = state.clone();
    other["layout"] = Value::Null;
    for member in other["members"].as_array_mut().expect("members") {
        member["device"] = json!("/dev/loop0");
        member["control"] = Value::Null;
    }
    schema::check("ctl-array", "The state of a served array, from 'dwell ctl array --json'", &[state, other]);
}

/// The report that a server prints at its end.
fn report(mut server: Server) -> Value {
    let pid = server.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    let mut text = String::new();
    server.0.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
    // Nothing else may be on standard output.
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn serve() {
    let folder = Folder::new("serve");
    let one = ["--memory", "--size", "16MiB", "--scheduler", "deadline", "--json"];
    let one = report(served(&folder, &one).0);
    // Regression: the schema demanded a switch.
    assert!(one["state"]["last_switch"].is_null(), "{one}");
    let [first, second] = ["m0", "m1"].map(|name| folder.file(name, ""));
    let members = ["--member", &first, "--member", &second, "--array", "raid0:64k", "--json"];
    let drive = ["--drive", "wd5000aaks", "--discard-data"];
    let array = report(served(&folder, &[&members[..], &drive].concat()).0);
    assert_eq!(array["members"].as_array().map(Vec::len), Some(2), "{array}");
    let used = schema::with(&one, &[("/state", busy(&one["state"])), ("/refused", json!(["text"]))]);
    let of_members = [
        ("/members/0/state", busy(&array["members"][0]["state"])),
        ("/members/0/refused", json!(["text"])),
        ("/members/1", Value::Null),
    ];
    let failed = schema::with(&array, &of_members);
    let about = "The final report of 'dwell serve --json': of a device, or 'members' of an array";
    schema::check("serve", about, &[one, used, array, failed]);
}

/// Also of those that only a test with root derives.
#[test]
fn every_part_of_every_schema_has_a_type() {
    let directory = schema::file("serve").parent().expect("a folder").to_owned();
    let mut seen = 0;
    for entry in fs::read_dir(directory).expect("the schemas") {
        let path = entry.expect("a schema").path();
        let text = fs::read_to_string(&path).expect("the schema");
        let schema: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(schema::untyped(&schema, ""), [""; 0], "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 24, "{seen}");
}

#[test]
fn parts_without_a_type_are_found() {
    let untyped = |samples: &[Value]| schema::untyped(&schema::derived("x", "x", samples), "x");
    let empty = json!({"a": null, "b": [], "files": {}, "c": [{"d": null}], "e": {}});
    let found = untyped(std::slice::from_ref(&empty));
    let expected = [
        "x.a: no type but null",
        "x.b: an array without the type of its elements",
        "x.c[].d: no type but null",
        "x.e: an object without fields",
        "x.files: an object without fields",
    ];
    let mut sorted = found.clone();
    sorted.sort();
    assert_eq!(sorted, expected);
    let full = json!({"a": 1, "b": ["x"], "files": {"f": 1}, "c": [{"d": 1.5}], "e": {"g": true}});
    assert_eq!(untyped(&[empty, full]), [""; 0]);
    assert_eq!(
        schema::untyped(&json!({"type": "object", "properties": {"a": {}}}), "x"),
        ["x.a: no type but null"]
    );
}

#[test]
fn a_schema_rejects_undescribed_fields() {
    let of =
        schema::derived("x", "x", &[json!({"a": 1, "b": [1.5, null]}), json!({"a": 2, "b": [], "c": "x"})]);
    let problems = |value: Value| schema::problems(&of, &value, "x");
    assert_eq!(problems(json!({"a": 3, "b": [2, null]})), Vec::<String>::new());
    assert_eq!(problems(json!({"b": []})), ["x: lacks 'a'"]);
    assert_eq!(problems(json!({"a": 1, "b": ["x"]})).len(), 1);
    assert_eq!(problems(json!({"a": 1, "b": [], "d": 0})), ["x: has 'd', which the schema lacks"]);
}

#[test]
fn every_metric_of_the_dashboard_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read =
        |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let dashboard: Value = serde_json::from_str(&read("packaging/grafana/dwell.json")).expect("JSON");
    let sources = read("crates/server/src/control/metrics.rs") + &read("crates/tuner-live/src/status.rs");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let mut metrics = 0;
    for expression in targets.filter_map(|target| target["expr"].as_str()) {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for metric in words.filter_map(|word| word.strip_prefix("dwell_")) {
            metrics += 1;
            let name = metric.trim_start_matches("tuner_").trim_end_matches("_bucket");
            let known =
                sources.contains(&format!("\"{name}\"")) || sources.contains(&format!("dwell_{metric} "));
            assert!(known, "there is no metric dwell_{metric}: {expression}");
        }
    }
    assert!(metrics > 15, "{metrics}");
}
