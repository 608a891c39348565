//! `advise`, `tune` and `patterns` from outside, as far as they go without a device.

mod schema;

use std::path::{Path, PathBuf};
use std::process::Command;

use elevator::{Op, Sector, Sectors, Span, Time};
use serde_json::{Value, json};
use tuner::{
    Access, Analyser, Better, ClusterState, Metric, Observed, Parameters, Performance, Random, SchedulerId,
    State, Window,
};
use tuner_live::database::Database;

#[track_caller]
fn fails(arguments: &[&str], code: i32, message: &str) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_dwell")).args(arguments).output().expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(error.contains(message) && output.stdout.is_empty(), "{arguments:?}: {error}");
}

#[test]
fn devices_that_cannot_be_tuned_are_reported() {
    fails(&["tune", "/dev/nosuch", "--dry-run"], 2, "/dev/nosuch");
    fails(&["advise", "/dev/null"], 2, "is no block device");
    fails(&["tune", "/dev/null", "--command", "true", "--metric", "iops"], 2, "cannot be used with");
}

/// Regression: `tune` restored settings from every file next to its database, independent of the file's owner, and wrote to any path in the file.
#[test]
fn a_planted_settings_file_is_not_restored() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("planted-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("made");
    let victim = directory.join("victim");
    std::fs::write(&victim, "untouched").expect("written");
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    for device in devices.filter_map(|entry| entry.file_name().into_string().ok()) {
        let planted = directory.join(format!("{device}.before.json"));
        let before = json!([[victim, "overwritten"]]);
        let record = json!({"pid": 1, "started": 0, "device": device, "before": before});
        std::fs::write(&planted, record.to_string()).expect("written");
        // Without root the file is this user's anyway.
        let _ = std::os::unix::fs::chown(planted, Some(65534), None);
    }
    let database = directory.join("tuner");
    fails(&["tune", "/dev/nosuch", "--database", database.to_str().expect("UTF-8")], 2, "/dev/nosuch");
    assert_eq!(std::fs::read_to_string(&victim).expect("read"), "untouched");
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_missing_or_invalid_database_is_reported() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let absent = directory.join("absent");
    let absent = absent.to_str().expect("UTF-8");
    fails(&["patterns", "--database", absent, "list"], 6, "missing or empty");
    fails(&["patterns", "--database", absent, "forget", "3"], 6, "missing or empty");
    let file = directory.join(format!("file-{}", std::process::id()));
    std::fs::write(&file, "").expect("written");
    fails(&["patterns", "--database", file.to_str().expect("UTF-8"), "list"], 6, "is not a directory");
    std::fs::remove_file(file).expect("removed");
    let bad = directory.join(format!("bad-{}", std::process::id()));
    std::fs::create_dir_all(&bad).expect("made");
    fails(&["patterns", "--database", bad.to_str().expect("UTF-8"), "list"], 6, "missing or empty");
    std::fs::write(bad.join("disk.json"), "no database").expect("written");
    fails(&["patterns", "--database", bad.to_str().expect("UTF-8"), "list"], 6, "is damaged");
    std::fs::remove_dir_all(bad).expect("removed");
}

#[test]
fn show_and_forget_need_a_cluster_or_a_kind() {
    fails(&["patterns", "show"], 2, "<CLUSTER|--kind <N>>");
    fails(&["patterns", "forget"], 2, "<CLUSTER|--kind <N>|--all>");
    fails(&["patterns", "forget", "3", "--all"], 2, "cannot be used with");
}

/// The state after one reader under `none`, and two clusters.
fn learned() -> State {
    let names = ["none", "bfq"].map(str::to_owned).to_vec();
    let parameters = Parameters::default();
    let mut analyser = Analyser::new(names, Metric::Bandwidth, parameters, Random::new(1)).unwrap();
    let (op, size) = (Op::Read, Sectors(8));
    let access = |n: u64| Access { time: Time::from_nanos(n * 1_000_000), position: Sector(n * 8), op, size };
    let window =
        Window { start: Time::ZERO, length: Span::from_secs(5), accesses: (0..500).map(access).collect() };
    let performance = Performance { bandwidth: 30e6, ..Performance::default() };
    let observed = Observed { scheduler: Some(SchedulerId(0)), performance };
    (0..3).for_each(|_| drop(analyser.window(&window, &observed)));
    let cluster = |id, successors: &[_]| ClusterState {
        id,
        requests: 100,
        points: vec![8.0, -8.0],
        hits: 10,
        used: id,
        performance: vec![(vec![1e6, 4e6, 1e6], 1), (Vec::new(), 0)],
        successors: successors.to_vec(),
    };
    let clusters = vec![cluster(0, &[(1, 2)]), cluster(1, &[])];
    State { clusters, next_cluster: 2, ..analyser.state() }
}

/// One load after thirty windows: `bfq` is tried, and gives twice as much as `none`.
fn compared() -> State {
    let names = ["none", "bfq"].map(str::to_owned).to_vec();
    let mut analyser =
        Analyser::new(names, Metric::Bandwidth, Parameters::default(), Random::new(1)).unwrap();
    let (op, size) = (Op::Read, Sectors(8));
    let access =
        |n: u64| Access { time: Time::from_nanos(n * 10_000_000), position: Sector(n * 8), op, size };
    let window =
        Window { start: Time::ZERO, length: Span::from_secs(5), accesses: (0..500).map(access).collect() };
    let mut scheduler = SchedulerId(0);
    for _ in 0..30 {
        let bandwidth = if scheduler == SchedulerId(1) { 60e6 } else { 30e6 };
        let performance = Performance { bandwidth, ..Performance::default() };
        let decision = analyser.window(&window, &Observed { scheduler: Some(scheduler), performance });
        scheduler = decision.scheduler.unwrap_or(scheduler);
    }
    analyser.state()
}

/// A folder with the database of a host, `old`, and what it exports as the hosts `one` and `two`.
struct Hosts(PathBuf);

impl Hosts {
    fn new(name: &str) -> Self {
        let folder = format!("shared-{name}-{}", std::process::id());
        let hosts = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder));
        std::fs::create_dir_all(&hosts.0).unwrap();
        Database::open(&hosts.0.join("old")).unwrap().save("a disk", &compared(), 0).unwrap();
        for host in ["one", "two"] {
            let (old, file) = (hosts.path("old"), hosts.path(host));
            let printed = hosts.run(&["--database", &old, "export", &file, "--host", host]);
            assert!(printed.ends_with("1 load of 1 device type on 1 host\n"), "{printed}");
        }
        hosts
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// Runs `dwell patterns`, which succeeds; returns what it prints.
    fn run(&self, arguments: &[&str]) -> String {
        let output = patterns(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Merges files that hold the exports of both hosts.
    fn merge(&self, into: &str, files: [&str; 3]) {
        let [into, first, second, third] = [into, files[0], files[1], files[2]].map(|name| self.path(name));
        let printed = self.run(&["merge", &into, &first, &second, &third]);
        assert!(printed.ends_with("2 loads of 1 device type on 2 hosts\n"), "{printed}");
    }

    /// The first exported load of a host.
    fn load(&self, host: &str) -> Value {
        serde_json::from_str(self.read(host).lines().next().unwrap()).unwrap()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn patterns(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_dwell")).arg("patterns").args(arguments).output().unwrap()
}

#[test]
fn hosts_import_what_others_have_learned() {
    let hosts = Hosts::new("import");
    hosts.merge("all", ["one", "two", "one"]);
    let (new, all) = (hosts.path("new"), hosts.path("all"));
    let import = ["--database", &new, "import", &all];
    assert_eq!(hosts.run(&import), "a disk, by bandwidth: 1 kind of load added, of 2 hosts\n");
    let again = "a disk, by bandwidth: 0 kinds of load added, of 2 hosts; 1 in the database before\n";
    assert_eq!(hosts.run(&import), again);
    // Only the hosts that measured a kind export it.
    let exported = hosts.path("exported");
    let export = ["patterns", "--database", &new, "export", &exported, "--host", "three"];
    fails(&export, 6, "imported ratings are not exported; run the tuner first");
    assert!(!Path::new(&exported).exists());
    let listed = hosts.run(&["--database", &new, "list"]);
    assert!(listed.contains("bfq (by ratings of"), "{listed}");
    let shown = hosts.run(&["--database", &new, "show", "--kind", "0"]);
    assert!(shown.contains("ratings of other hosts") && shown.contains("the best"), "{shown}");
    let shown = hosts.run(&["--database", &new, "show", "--kind", "0", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let of_bfq = shown["schedulers"].as_array().unwrap().iter().find(|of| of["scheduler"] == "bfq");
    assert_eq!(of_bfq.unwrap()["other_hosts"], 0.0, "{shown}");
    let state = Database::open(Path::new(&new)).unwrap().load("a disk", Metric::Bandwidth).unwrap();
    let names = ["none", "bfq"].map(str::to_owned).to_vec();
    let mut analyser =
        Analyser::new(names, Metric::Bandwidth, Parameters::default(), Random::new(1)).unwrap();
    analyser.restore(state.expect("saved")).expect("the tuner accepts it");
    fails(&["patterns", "--database", &new, "--drive", "b disk", "import", &all], 2, "no load in");
    // Such as an export that was cut.
    let empty = hosts.write("empty", "");
    for command in [&["merge", &hosts.path("new"), &all, &empty][..], &["import", &all, &empty]] {
        fails(&[&["patterns"], command].concat(), 6, "empty: no load; export it again");
    }
}

#[test]
fn a_table_of_ratings_has_everything_that_the_text_has() {
    let hosts = Hosts::new("table");
    hosts.merge("all", ["one", "two", "one"]);
    if !study::HAS_PARQUET {
        let merge = ["patterns", "merge", &hosts.path("x.parquet"), &hosts.path("all")];
        return fails(&merge, 2, "without Parquet");
    }
    hosts.merge("all.parquet", ["all", "two", "one"]);
    hosts.merge("again", ["all.parquet", "one", "two"]);
    assert_eq!(hosts.read("again"), hosts.read("all"));
    let metrics = study::read_table(Path::new(&hosts.path("all.parquet")), &["metric"]).unwrap();
    assert!(metrics.iter().all(|row| row[0] == study::Cell::Text("bandwidth".to_owned())), "{metrics:?}");
    fails(&["patterns", "import", &hosts.write("bad.parquet", "PAR1")], 6, "no valid Parquet file");
    let path = hosts.path("all.parquet");
    let mut changed = std::fs::read(&path).unwrap();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    std::fs::write(&path, changed).unwrap();
    fails(&["patterns", "merge", &hosts.path("copy"), &path], 6, "all.parquet: no valid Parquet file");
    fails(&["patterns", "import", &path], 6, "all.parquet: no valid Parquet file");
}

#[test]
fn two_machines_of_one_name_are_noted() {
    let hosts = Hosts::new("clone");
    let clone = hosts.write("clone", hosts.read("one").replacen("\"pairs\":", "\"pairs\":1", 1));
    let output = patterns(&["merge", &hosts.path("x"), &hosts.path("one"), &clone]);
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "host 'one': two different entries for 1 load;";
    assert!(output.status.success() && note.contains(expected), "{note}");
}

#[test]
fn exports_and_merges_replace_no_file_of_the_user() {
    let hosts = Hosts::new("kept");
    let (one, two, old) = (hosts.path("one"), hosts.path("two"), hosts.path("old"));
    let before = hosts.read("one");
    // The name of the result was forgotten.
    fails(&["patterns", "merge", &one, &two], 2, "exists, and is none of the files to merge");
    assert_eq!(hosts.read("one"), before);
    hosts.run(&["merge", &one, &one, &one]);
    assert_eq!(hosts.read("one"), before);
    let notes = hosts.write("notes", "mine\n");
    let export = ["patterns", "--database", &old, "export", &notes, "--host", "one"];
    fails(&export, 2, "exists and is no file of 'dwell patterns export'");
    assert_eq!(hosts.read("notes"), "mine\n");
    hosts.run(&["--database", &old, "export", &one, "--host", "one"]);
    fails(&["patterns", "--database", &old, "export", "-", "--host", ""], 2, "the name is empty");
}

#[test]
fn an_export_replaces_only_loads_of_its_host() {
    let hosts = Hosts::new("own");
    hosts.merge("all", ["one", "two", "one"]);
    let (all, one, old) = (hosts.path("all"), hosts.path("one"), hosts.path("old"));
    let empty = hosts.path("empty");
    let names = ["none", "bfq"].map(str::to_owned).to_vec();
    let new = Analyser::new(names, Metric::Bandwidth, Parameters::default(), Random::new(1)).unwrap();
    Database::open(Path::new(&empty)).unwrap().save("a disk", &new.state(), 0).unwrap();
    for (database, file, host, expected) in [
        (
            &old,
            &all,
            "one",
            "all: has loads of host 'two', and this export has only those of 'one'; export to a new file",
        ),
        (&old, &all, "me", "has loads of host 'one', and this export has only those of 'me'"),
        (&old, &one, "two", "one: has loads of host 'one', and this export has only those of 'two'"),
    ] {
        let before = std::fs::read(file).unwrap();
        fails(&["patterns", "--database", database, "export", file, "--host", host], 2, expected);
        assert_eq!(std::fs::read(file).unwrap(), before, "{file}");
    }
    let before = hosts.read("one");
    let export = ["patterns", "--database", &empty, "export", &one, "--host", "one"];
    fails(&export, 6, "no kind of load in which this host has compared schedulers itself");
    assert_eq!(hosts.read("one"), before);
}

#[test]
fn files_without_a_usable_load_are_rejected() {
    let hosts = Hosts::new("rejected");
    fails(
        &["patterns", "import", &hosts.write("empty", "\n")],
        6,
        "no load; export it again from a host whose tuner has run",
    );
    fails(&["patterns", "import", &hosts.write("binary", [0xff, 0])], 6, "is no text; expected a file of");
    let mut load = hosts.load("one");
    load["host"] = json!("\u{1b}[31m");
    let unsound = hosts.write("unsound", format!("{load}\n"));
    let problem = "unsound:1: host: \"\\u{1b}[31m\" has control characters";
    fails(&["patterns", "import", &unsound], 6, problem);
    for part in ["0.0", "-7.0", "1.5"] {
        let mut load = hosts.load("one");
        load["shape"] = json!(format!("[{}{part}{}]", "0.0,".repeat(7), ",0.0".repeat(40)));
        hosts.write("unsound", format!("\n{load}\n"));
        let problem = "unsound:2: shape: expected 48 shares";
        fails(&["patterns", "merge", &hosts.path("y"), &unsound], 6, problem);
        fails(&["patterns", "--database", &hosts.path("unused"), "import", &unsound], 6, problem);
    }
    assert!(!Path::new(&hosts.path("unused")).exists());
    fails(&["patterns", "merge", &hosts.path("x"), "7"], 2, "two numbers, or the file");
    let bad = hosts.write("bad", "{}\n");
    fails(&["patterns", "merge", &hosts.path("y"), &bad], 6, "bad:1: host: there is no value");
    fails(&["patterns", "import", &hosts.path("none")], 6, "there is no such file");
    fails(&["patterns", "--database", &hosts.path("none"), "export", "-"], 6, "missing or empty");
}

#[test]
fn a_device_whose_schedulers_have_no_rating_is_named() {
    let hosts = Hosts::new("unrated");
    let mut load = hosts.load("one");
    for field in ["scheduler", "rating", "pairs", "windows"] {
        load[field] = Value::Null;
    }
    load["device"] = json!("another disk");
    let unrated = hosts.write("unrated", format!("{load}\n{}", hosts.read("one")));
    let printed = hosts.run(&["--database", &hosts.path("third"), "import", &unrated]);
    let lines = "a disk, by bandwidth: 1 kind of load added, of 1 host\n\
                 another disk, by bandwidth: no scheduler has a rating\n";
    assert_eq!(printed, lines);
    let alone = hosts.write("alone", hosts.read("one").lines().next().unwrap());
    let printed = hosts.run(&["--database", &hosts.path("fourth"), "import", &alone]);
    let reason = "1 with ratings of fewer than two schedulers of the database";
    assert_eq!(printed, format!("a disk, by bandwidth: 0 kinds of load added, of 1 host; {reason}\n"));
}

#[test]
fn patterns_have_json_output() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = directory.join(format!("shown-{}", std::process::id()));
    Database::open(&file).unwrap().save("disk", &learned(), 0).unwrap();
    let show = |of: &[&str]| -> Value {
        let line = ["patterns", "--database", file.to_str().expect("UTF-8"), "show", "--json"];
        let output = Command::new(env!("CARGO_BIN_EXE_dwell")).args(line).args(of).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one object")
    };
    let cluster = json!({
        "schema_version": 1, "drive": "disk", "metric": "bandwidth", "cluster": 0, "windows": 10, "requests": 100,
        "jumps": [8.0, -8.0],
        "schedulers": [
            {"scheduler": "none", "measured": 3, "mean": 2e6, "least": 1e6, "greatest": 4e6},
            {"scheduler": "bfq", "measured": 0, "mean": null, "least": null, "greatest": null},
        ],
        "followed_by": [{"cluster": 1, "windows": 2}],
    });
    assert_eq!(show(&["0"]), cluster);
    let kind = show(&["--kind", "0"]);
    let list = || -> Value {
        let line = ["patterns", "--database", file.to_str().expect("UTF-8"), "list", "--json"];
        let output = Command::new(env!("CARGO_BIN_EXE_dwell")).args(line).output().unwrap();
        serde_json::from_slice(&output.stdout).expect("one object")
    };
    let unmeasured = list();
    Database::open(&file).unwrap().save("disk", &compared(), 0).unwrap();
    let (listed, measured) = (list(), show(&["--kind", "0"]));
    let best = |of: &Value| of["kinds"][0]["best"].clone();
    assert!(best(&unmeasured).is_null() && best(&listed) == "bfq", "{unmeasured} {listed}");
    Database::open(&file).unwrap().save("other disk", &learned(), 0).unwrap();
    let samples = [unmeasured, listed, list()];
    schema::check("patterns-list", "'dwell patterns list --json': one drive, or 'drives'", &samples);
    let shown = [cluster.clone(), kind.clone(), measured.clone()];
    schema::check("patterns-show", "'dwell patterns show --json' of a cluster or a kind", &shown);
    std::fs::remove_dir_all(&file).expect("removed");
    assert_eq!(
        (&kind["schema_version"], &kind["drive"], &kind["kind"]),
        (&json!(1), &json!("disk"), &json!(0))
    );
    assert!(kind["windows"] == 3 && kind["metric"] == "bandwidth", "{kind}");
    assert!(kind["asked"][0].as_str().is_some_and(|asked| asked.starts_with("100% ")), "{kind}");
    // The load ends in each of its windows, so none counts.
    let nothing = |scheduler: &str| json!({"scheduler": scheduler, "measured": 0, "mean": null, "least": null, "greatest": null});
    assert_eq!(kind["schedulers"], json!([nothing("none"), nothing("bfq")]));
    let means = [0, 1].map(|n| measured["schedulers"][n]["mean"].as_f64());
    assert_eq!(means, [Some(30e6), Some(60e6)], "{measured}");
}

#[test]
fn a_database_with_several_metrics_needs_metric() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = directory.join(format!("metrics-{}", std::process::id()));
    let path = file.to_str().expect("UTF-8");
    let database = Database::open(&file).unwrap();
    for metric in [Metric::Bandwidth, Metric::UserBandwidth, Metric::External(Better::Lower)] {
        database.save("disk", &State { metric, ..learned() }, 0).unwrap();
    }
    drop(database);
    let patterns = |of: &[&str]| {
        let line = ["patterns", "--database", path];
        Command::new(env!("CARGO_BIN_EXE_dwell")).args(line).args(of).output().expect("the program runs")
    };
    let json = |of: &[&str]| -> Value { serde_json::from_slice(&patterns(of).stdout).expect("one object") };
    let known = || -> Vec<Value> {
        let drives = json(&["list", "--json"])["drives"].take();
        drives.as_array().expect("several").iter().map(|drive| drive["metric"].clone()).collect()
    };
    assert_eq!(known(), ["bandwidth", "command, less is better", "user-bandwidth"]);
    for of in [&["show", "0"][..], &["merge", "0", "1"], &["forget", "0"]] {
        let several = "choose one with --metric: bandwidth; command, less is better; user-bandwidth";
        fails(&[&["patterns", "--database", path][..], of].concat(), 2, several);
    }
    fails(
        &["patterns", "--database", path, "list", "--metric", "iops"],
        2,
        "the database has no metric 'iops'; it has bandwidth; ",
    );
    for (name, metric) in [("bandwidth", "bandwidth"), ("command", "command, less is better")] {
        assert_eq!(json(&["show", "--kind", "0", "--json", "--metric", name])["metric"], metric);
    }
    assert!(patterns(&["forget", "0", "--metric", "bandwidth"]).status.success());
    let clusters =
        |metric| json(&["list", "--json", "--metric", metric])["clusters"].as_array().map(Vec::len);
    assert_eq!((clusters("bandwidth"), clusters("user-bandwidth")), (Some(1), Some(2)));
    assert!(patterns(&["forget", "--all", "--metric", "command"]).status.success());
    assert_eq!(known(), ["bandwidth", "user-bandwidth"]);
    assert!(patterns(&["forget", "--all"]).status.success());
    fails(&["patterns", "--database", path, "list"], 6, "missing or empty");
    std::fs::remove_dir_all(&file).expect("removed");
}

#[test]
fn an_unknown_experiment_is_reported_with_the_known_ones() {
    fails(&["reproduce", "ioanalyzer", "--only", "nosuch"], 2, "2 LKR + 2 HD");
}
