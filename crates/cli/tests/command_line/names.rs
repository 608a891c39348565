//! Schedulers, tunables and drives by name, and their descriptions.

use std::fs;
use std::io::Write;

use super::{Directory, SMALL, dwell, fails, prints, prints_json, schedulers_of, words};

#[test]
fn a_name_that_nothing_has_is_answered_with_the_nearest_one() {
    fails(&["compare", SMALL, "-s", "deadlin"], 2, &["'deadlin'", "did you mean 'deadline'?", "character 1"]);
    fails(&["compare", SMALL, "-s", "DEADLINE"], 2, &["'DEADLINE'", "did you mean 'deadline'?"]);
    fails(&["schedulers", "DEADLINE"], 2, &["did you mean 'deadline'?"]);
    fails(&["compare", SMALL, "-s", "stream(nop)"], 2, &["did you mean 'noop'?", "character 8"]);
    fails(&["compare", SMALL, "-s", "stream(cfq)"], 2, &["cannot be wrapped", "noop"]);
    fails(&["schedulers", "cas"], 2, &["known are noop, "]);
    fails(&["compare", "par-read{proceses=2}"], 2, &["did you mean 'processes'?"]);
    fails(&["schedulers", "deadlin"], 2, &["did you mean 'deadline"]);
    fails(&["compare", SMALL, "--drive", "wd5000aak"], 2, &["wd5000aaks"]);
    fails(&["drives", "show", "wd5000aak"], 2, &["wd5000aaks"]);
    fails(&["drives", "show", "wd5000aaks{depth=0}"], 2, &["depth must lie between 1 and 1024, not 0"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/two-phases.toml");
    fails(
        &["run", script, "--machine", "pc-2033"],
        2,
        &["built-in machines: pc-2003, ", "did you mean 'pc-2003'?"],
    );
    fails(&["compare", script], 2, &["'dwell run' runs scripts"]);
    fails(&["trace", "info", script, "--format", "ftrac"], 2, &["did you mean 'ftrace'?"]);
    fails(&["compare", "par-reed"], 2, &["did you mean 'par-read'?"]);
    fails(&["compare", SMALL, "-s", "none"], 2, &["the kernel's none is 'noop'"]);
    fails(&["run", "grep-2"], 2, &["did you mean 'stream/grep-2'?"]);
    fails(&["run", "nosuch"], 2, &["name a paper to list its experiments: benchmarks-2003, cooperative,"]);
    fails(
        &["run", "cooperative"],
        2,
        &["experiments of this paper are cooperative/stream-write+stream-read, "],
    );
    fails(&["run", "isolation"], 2, &["similar are split/isolation-", "more"]);
}

#[test]
fn a_study_has_a_thread() {
    let output = dwell(&["study", "study.toml", "--jobs", "0"]);
    let error = words(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("invalid value '0' for '--jobs <N>': 0 is not in 1..=65536"), "{error}");
}

#[test]
fn a_wrong_name_is_reported_before_a_recording_is_read() {
    let directory = Directory::new("names-first");
    let unreadable = directory.file("empty.trace", "");
    fails(&["compare", &unreadable, "-s", "deadlin"], 2, &["did you mean 'deadline'?"]);
    fails(&["compare", &unreadable, "--at-most", "soon"], 2, &["--at-most"]);
    fails(&["compare", SMALL, "--at-most", "-1s"], 2, &["--at-most: '-1s' is negative"]);
    fails(&["compare", &unreadable], 6, &["is empty"]);
}

#[test]
fn a_tunable_that_does_not_exist_or_fit_is_named() {
    fails(
        &["compare", SMALL, "-s", "deadline{fifo_bach=8}"],
        2,
        &["no tunable 'fifo_bach'", "did you mean 'fifo_batch'?"],
    );
    fails(&["compare", SMALL, "-s", "deadline{fifo_batch=many}"], 2, &["'fifo_batch'"]);
    fails(&["compare", SMALL, "-s", "deadline{fifo_batch=0}"], 2, &["fifo_batch"]);
    fails(
        &["compare", SMALL, "-s", "deadline{fifo_batch=99999999999999999999}"],
        2,
        &["fifo_batch", "must be from 1 to", "not 99999999999999999999"],
    );
    fails(&["compare", SMALL, "-s", "noop{depth=1}"], 2, &["no tunable 'depth'", "it has none"]);
    fails(&["compare", "par-read{processes=none}"], 2, &["processes"]);
    fails(&["compare", SMALL, "--at-most", "5"], 2, &["--at-most"]);
    prints(&["compare", SMALL, "--at-most", "1h", "-s", "noop", "--quiet"]);
}

#[test]
fn schedulers_are_listed_with_their_tunables() {
    let found = prints_json(&["schedulers", "--json"]);
    assert_eq!(found["schema_version"], 1);
    let all = found["schedulers"].as_array().expect("a list");
    for name in ["noop", "deadline", "cfq", "stream", "bfq"] {
        assert!(all.iter().any(|one| one["plain"] == name), "{name} is not listed");
    }
    let one = prints_json(&["schedulers", "deadline", "--json"]);
    let tunables = one["schedulers"][0]["tunables"].as_array().expect("tunables");
    assert!(tunables.iter().any(|tunable| tunable["name"] == "fifo_batch"), "{one}");
    for list in ["schedulers", "drives"] {
        let (narrow, wide) = (prints(&[list]), prints(&[list, "--wide"]));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(wide.lines().any(|line| line.chars().count() > 80), "{wide}");
    }
    assert!(prints(&["schedulers"]).contains("stream(...)"));
    for name in ["bfq", "split-token"] {
        let page = prints(&["schedulers", name]);
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    }
    assert!(prints(&["schedulers", "deadline"]).contains("fifo_batch = "));
}

#[test]
fn a_schedulers_name_in_full_and_its_page_of_toml_are_names_like_any_other() {
    let both = prints(&["schedulers", "stream(deadline-2.6.32)"]);
    assert!(both.contains("stream_time_slice = ") && both.contains("fifo_batch = "), "{both}");
    let set = prints(&["schedulers", "stream(deadline{fifo_batch=8})"]);
    assert!(set.contains("fifo_batch = 8  (default 16, from 1 to 1000000)"), "{set}");
    fails(&["schedulers", "stream(dedline)"], 2, &["did you mean 'deadline'?"]);
    let directory = Directory::new("page");
    let page = directory.file("slow.toml", "scheduler = \"stream(deadline)\"\nfifo_batch = 8\n");
    let found = prints_json(&["compare", SMALL, "-s", &page, "--json", "-q"]);
    assert_eq!(schedulers_of(&found["runs"]), ["stream(deadline-2.6.32{fifo_batch=8})"]);
    let wrong = directory.file("wrong.toml", "scheduler = \"deadline\"\nfifo_bach = 8\n");
    fails(&["compare", SMALL, "-s", &wrong], 6, &["wrong.toml:2: ", "did you mean 'fifo_batch'?"]);
}

#[test]
fn drives_have_json_output() {
    let list = prints_json(&["drives", "list", "--json"]);
    assert_eq!(list["schema_version"], 1);
    let drives = list["drives"].as_array().expect("a list");
    let text = prints(&["drives", "list"]);
    assert!(drives.iter().all(|drive| text.contains(drive["name"].as_str().expect("a name"))), "{text}");
    let found = drives.iter().find(|drive| drive["name"] == "wd5000aaks").expect("it is built in");
    assert!(found["bytes"] == 500_107_862_016u64 && found["depth"].is_u64(), "{found}");
    for name in ["wd5000aaks", "ssd-nvme"] {
        let as_toml: toml::Table = prints(&["drives", "show", name]).parse().expect("TOML");
        let mut expected = serde_json::to_value(as_toml).expect("plain data");
        expected["schema_version"] = 1.into();
        assert_eq!(prints_json(&["drives", "show", name, "--json"]), expected);
    }
}

#[test]
fn drives_are_listed_and_a_shown_description_can_be_used() {
    assert!(prints(&["drives", "list"]).contains("wd5000aaks"));
    assert_eq!(prints(&["drives"]), prints(&["drives", "list"]));
    let directory = Directory::new("drives");
    let file = directory.file("drive.toml", &prints(&["drives", "show", "wd5000aaks"]));
    let run =
        |drive: &str| prints_json(&["compare", SMALL, "--drive", drive, "-s", "noop", "--json", "--quiet"]);
    assert_eq!(run(&file)["runs"], run("wd5000aaks")["runs"]);
}

#[test]
fn a_measured_trace_may_be_compressed() {
    let directory = Directory::new("measured");
    let text = "R Miss 1000 8 5000.5 100\nW Miss 2000 8 7000 0\n";
    let mut packed = traces::write::Compressed::new("measured.gz", Vec::new());
    packed.write_all(text.as_bytes()).unwrap();
    let path = directory.path("measured.gz");
    fs::write(&path, packed.finish().unwrap()).unwrap();
    let plain = directory.file("measured", text);
    let validate = |trace: &str| prints(&["drives", "validate", "wd5000aaks", trace]);
    assert_eq!(validate(&path), validate(&plain));
}

/// A drive of three files in a directory: the files that it names are in its own directory, even if overrides follow its name.
#[test]
fn parameters_of_a_drive_without_effect_are_reported() {
    let directory = Directory::new("diskspecs");
    let text = |name: &str| {
        let testdata = concat!(env!("CARGO_MANIFEST_DIR"), "/../disks/src/disksim/testdata");
        fs::read_to_string(format!("{testdata}/{name}")).expect("a file of the tests")
    };
    directory.file("plain.model", &text("plain.model"));
    directory.file("plain.seek", "1, 1.5\n9, 4.25\n");
    let drive = directory.file("plain.diskspecs", &text("plain.diskspecs"));
    let trace = directory.file("plain.trace", "R Hit 0 8 1000 0\n");
    let note = "plain.model:29: 'HPL seek equation values' has no effect";
    let spaced = format!("{drive} {{depth=1}}");
    for arguments in [
        &["drives", "show", &drive][..],
        &["drives", "show", &spaced],
        &["drives", "validate", &drive, &trace],
        &["compare", "par-read{file_bytes=4096, apart_bytes=8192}", "-s", "noop", "--drive", &drive],
    ] {
        let output = dwell(arguments);
        let message = words(&output.stderr);
        assert!(output.status.success() && message.contains(note), "{arguments:?}: {message}");
    }
}

#[test]
fn elevators_of_the_kernel_module_are_listed_with_their_tunables() {
    let found = prints_json(&["schedulers", "--kernel", "--json"]);
    let elevators = found["elevators"].as_array().expect("a list");
    let stream = elevators.iter().find(|one| one["name"] == "dwell-stream").expect("it is listed");
    assert_eq!(stream["policy"], "stream(deadline-2.6.32)");
    let names = |layer: usize| {
        let tunables = stream["layers"][layer]["tunables"].as_array().expect("tunables").iter();
        tunables.map(|tunable| tunable["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert!(
        names(0).contains(&"stream_time_slice".to_owned()) && names(1).contains(&"fifo_batch".to_owned())
    );
    assert!(prints(&["schedulers", "--kernel"]).contains("also: dwell-anticipatory"));
    assert!(
        prints(&["schedulers", "--kernel", "dwell-cooperative"])
            .starts_with("dwell-coop, dwell-cooperative: ")
    );
    fails(&["schedulers", "--kernel", "dwell-steam"], 2, &["did you mean 'dwell-stream'?"]);
}

/// A wrong configuration must not prevent the reader from looking up how to correct it.
#[test]
fn help_version_completions_and_manual_pages_work_with_a_wrong_configuration() {
    let directory = Directory::new("wrong-configuration");
    let file = directory.file("dwell.toml", "[compare\n");
    let run = |arguments: &[&str]| {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_dwell"));
        program.env("DWELL_CONFIG", &file).args(arguments).output().expect("the program runs")
    };
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["help", "compare"],
        &["compare", "-h"],
        &["ctl", "--help"],
        &["completions", "bash"],
        &["man"],
        &["man", "ctl"],
    ] {
        let output = run(arguments);
        assert!(
            output.status.success() && !output.stdout.is_empty(),
            "{arguments:?}: {}",
            words(&output.stderr)
        );
    }
    let output = run(&["drives"]);
    assert_eq!(output.status.code(), Some(6), "{}", words(&output.stderr));
}
