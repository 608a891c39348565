//! Where results, decisions and errors go.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Directory, SMALL, dwell, fails, prints, words};

#[test]
fn every_dispatch_is_explained_in_words() {
    let compare = ["compare", SMALL, "-s", "deadline", "--quiet", "--explain", "-"];
    let text = prints(&compare);
    let dispatches: Vec<&str> = text.lines().filter(|line| line.contains(" dispatch #")).collect();
    assert!(!dispatches.is_empty(), "{text}");
    assert!(dispatches.iter().all(|line| line.contains(" -- ")), "a dispatch without its reason");
    assert_eq!(text.lines().filter(|line| line.contains(" complete #")).count(), dispatches.len());
}

/// A reader who counts insertions must find the merged requests as well.
#[test]
fn merges_are_explained() {
    let directory = Directory::new("joined");
    let file = directory.path("two.fio");
    // While the first is in the device the others come, and join.
    let job = "[ahead]\nrw=read\nbs=4k\nsize=16k\niodepth=4\nioengine=libaio\n";
    fs::write(&file, job).expect("a job file");
    let compare = ["compare", &file, "-s", "noop", "--depth", "1", "--quiet", "--explain", "-"];
    let text = prints(&compare);
    let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    let joined = count(" merge    a submission into #");
    assert!(joined > 0 && text.contains(", at its back"), "{text}");
    assert_eq!(count(" insert   #") + joined, 4, "{text}");
    let json = prints(&[&compare[..], &["--explain-format", "jsonl"]].concat());
    assert_eq!(json.matches(r#""side":"back""#).count(), joined);
}

/// `ulimit -f`: the kernel sends SIGXFSZ, which would end the program without a message.
#[test]
fn a_limit_of_file_sizes_is_an_error() {
    let directory = Directory::new("limit");
    let (from, to) = (super::recording("pgbench"), directory.path("out.dwell"));
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 8 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_dwell"), "trace", "convert"]);
    let ended = shell.args([&from, &to, "--to-format", "dwell"]).output().expect("sh starts");
    let printed = words(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{printed}");
    assert!(printed.contains("out.dwell") && printed.contains("ulimit -f"), "{printed}");
    assert!(!std::path::Path::new(&to).exists());
}

#[test]
fn every_dispatch_is_explained_in_json() {
    let directory = Directory::new("explained");
    let file = directory.path("decisions.jsonl");
    prints(&[
        "compare",
        SMALL,
        "-s",
        "noop",
        "-s",
        "deadline",
        "-q",
        "--explain",
        &file,
        "--explain-format",
        "jsonl",
    ]);
    let text = fs::read_to_string(&file).expect("the log is written");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for scheduler in ["noop", "deadline-2.6.32"] {
        let of = |event: &str| {
            let mine = events.iter().filter(|e| e["scheduler"] == scheduler && e["what"]["event"] == event);
            mine.collect::<Vec<_>>()
        };
        let dispatched = of("dispatch");
        assert!(!dispatched.is_empty() && dispatched.len() == of("complete").len(), "{scheduler}");
        assert!(dispatched.iter().all(|event| event["what"]["reason"].is_string()));
    }
}

/// `dwell compare ... --explain - --explain-format jsonl | jq`
#[test]
fn nothing_but_decisions_is_where_they_are_printed() {
    let compare =
        ["compare", SMALL, "-s", "noop", "--processes", "--explain", "-", "--explain-format", "jsonl"];
    let output = dwell(&compare);
    let (log, message) = (words(&output.stdout), words(&output.stderr));
    assert!(log.lines().count() > 0 && log.lines().all(|line| line.starts_with('{')), "{log}");
    assert!(
        message.contains("physical limit") && message.contains("noop: ") && message.contains("process"),
        "{message}"
    );
    let quiet = dwell(&[&compare[..], &["-q"]].concat());
    assert_eq!((words(&quiet.stdout), words(&quiet.stderr)), (log, String::new()));
}

#[test]
fn decisions_are_not_mixed_into_the_one_object_of_json() {
    fails(&["compare", SMALL, "-s", "noop", "--json", "--explain", "-"], 2, &["--json", "--explain"]);
}

#[test]
fn a_report_holds_the_table_and_needs_no_network() {
    let directory = Directory::new("report");
    let file = directory.path("report.html");
    prints(&["compare", SMALL, "-s", "noop", "-s", "stream(deadline)", "--quiet", "--report", &file]);
    let page = fs::read_to_string(&file).expect("the report is written");
    for part in ["<table>", "physical limit", ">noop</td>", ">stream(deadline-2.6.32)</td>"] {
        assert!(page.contains(part), "'{part}' is not in the report");
    }
    assert!(!page.contains("<script src=") && !page.contains("<link "), "it loads something");
    let nowhere = directory.path("nowhere/report.html");
    let output = dwell(&["compare", SMALL, "-s", "noop", "--quiet", "--report", &nowhere]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output.stderr));
}

#[test]
fn an_output_replaces_no_input_and_no_other_output() {
    let directory = Directory::new("inputs");
    let text = "[ahead]\nrw=read\nbs=4k\nsize=16k\n";
    let job = directory.file("job.fio", text);
    let scheduler_text = "scheduler = \"noop\"\n";
    let scheduler = directory.file("mine.toml", scheduler_text);
    for option in ["--report", "--explain"] {
        fails(&["compare", &job, "-s", "noop", option, &job], 2, &[option, "is an input"]);
        fails(&["run", &job, "-s", "noop", option, &job], 2, &[option, "is an input"]);
        fails(&["compare", &job, "-s", &scheduler, option, &scheduler], 2, &[option, "is an input"]);
    }
    fails(&["regret", &job, "--csv", &job], 2, &["--csv", "is an input"]);
    let new = directory.path("new");
    let both = ["compare", &job, "-s", "noop", "--report", &new, "--explain", &new];
    fails(&both, 2, &["--report and --explain name the same file"]);
    assert_eq!(fs::read_to_string(&job).expect("it is there"), text);
    assert_eq!(fs::read_to_string(&scheduler).expect("it is there"), scheduler_text);
    assert!(!fs::exists(&new).expect("readable"));
}

#[test]
fn the_report_of_a_study_replaces_only_a_report() {
    let directory = Directory::new("study-report");
    directory.file("job.fio", "[ahead]\nrw=read\nbs=4k\nsize=16k\n");
    let study = directory.file("study.toml", "workloads = [\"job.fio\"]\nschedulers = [\"noop\"]\n");
    let out = directory.path("results");
    for name in ["mine.html", "mine.md", "mine"] {
        let mine = directory.file(name, "my own notes\n");
        let arguments = ["study", &study, "--out", &out, "--quiet", "--report", &mine];
        fails(&arguments, 2, &[name, "exists and is no report of dwell; name another file, or remove it"]);
        assert_eq!(fs::read_to_string(&mine).expect("it is there"), "my own notes\n");
    }
    fails(&["study", &study, "--out", &out, "--report", &study], 2, &["--report", "is an input"]);
    fails(
        &["study", &study, "--out", &out, "--report", "-"],
        2,
        &["--report -: standard output has the table; name a file"],
    );
    let text = directory.path("report.pdf");
    fails(
        &["study", &study, "--out", &out, "--report", &text],
        2,
        &["report.pdf: a report is HTML or Markdown"],
    );
    for command in [["compare", &study], ["run", &study], ["reproduce", "stream"], ["duel", "--quick"]] {
        let arguments = [&command[..], &["--report", &text]].concat();
        fails(&arguments, 2, &["report.pdf: a report is HTML; use the extension .html"]);
    }
    assert!(!fs::exists(&text).expect("readable"));
    assert!(!fs::exists(&out).expect("readable"), "a run was executed");
    if !cfg!(feature = "studies") {
        return;
    }
    for name in ["report.html", "report.md"] {
        let report = directory.path(name);
        let arguments = ["study", &study, "--out", &out, "--quiet", "--report", &report];
        prints(&arguments);
        let first = fs::read_to_string(&report).expect("it is written");
        prints(&arguments);
        assert_eq!(fs::read_to_string(&report).expect("it is replaced"), first);
    }
    let hidden = directory.path(".md");
    prints(&["study", &study, "--out", &out, "--quiet", "--report", &hidden]);
    assert!(fs::read_to_string(&hidden).expect("it is written").starts_with("# "), "Markdown");
    let lost = directory.file("lost.toml", "workloads = [\"a.csv\"]\nschedulers = [\"noop\"]\n");
    directory.file("a.csv", "no recording\n");
    let output = dwell(&["study", &lost, "--quiet"]);
    let table = words(&output.stdout);
    assert!(table.starts_with("no run has a result") && !table.contains("regret"), "{table}");
}

/// `dwell study --on` where the Python package is not installed: advice, no traceback.
#[test]
fn a_study_on_a_cluster_needs_the_python_package() {
    use std::os::unix::fs::PermissionsExt;
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("SKIPPED: there is no python3");
    }
    let directory = Directory::new("study-on");
    directory.file("job.fio", "[ahead]\nrw=read\nbs=4k\nsize=16k\n");
    let study = directory.file("study.toml", "workloads = [\"job.fio\"]\nschedulers = [\"noop\"]\n");
    let bare = directory.file("bare-python", "#!/bin/sh\nexec python3 -I -S \"$@\"\n");
    fs::set_permissions(&bare, fs::Permissions::from_mode(0o755)).expect("mine");
    let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
    program.args(["study", &study, "--out", &directory.path("out"), "--on", "tcp://127.0.0.1:1"]);
    let output = program.env("DWELL_PYTHON", &bare).output().expect("it runs");
    let message = words(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("the package dwell is not installed") && message.contains("pip install"),
        "{message}"
    );
    assert!(!message.contains("Traceback"), "{message}");
}

/// The kernel, or a user, ends the Python package of `dwell study --on`: that is neither a wrong installation nor an error above.
#[test]
fn a_killed_helper_of_a_study_is_reported_by_its_signal() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("study-killed");
    directory.file("job.fio", "[ahead]\nrw=read\nbs=4k\nsize=16k\n");
    let study = directory.file("study.toml", "workloads = [\"job.fio\"]\nschedulers = [\"noop\"]\n");
    let addressed = directory.file("address.toml", "workloads = [\"file:///x\"]\nschedulers = [\"noop\"]\n");
    let killed = directory.file("killed-python", "#!/bin/sh\nkill -9 $$\n");
    fs::set_permissions(&killed, fs::Permissions::from_mode(0o755)).expect("mine");
    for (file, on, module) in
        [(&study, &["--on", "tcp://127.0.0.1:1"][..], "distributed"), (&addressed, &[], "addresses")]
    {
        let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
        program.args(["study", file, "--out", &directory.path("out")]).args(on);
        let output = program.env("DWELL_PYTHON", &killed).output().expect("it runs");
        let message = words(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        let expected = format!("signal 9 ended {killed} -m dwell.{module}; the same command continues");
        assert!(message.contains(&expected) && !message.contains("pip install"), "{message}");
    }
    let output = dwell(&["study", &study, "--on", ""]);
    let message = words(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("a value is required for '--on <ADDRESS>'"), "{message}");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
    let mut child = program
        .args(["compare", SMALL, "-s", "noop", "--quiet", "--explain", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", words(&output.stderr));
}

/// `dwell compare ... --report FILE | true`: the files were not written.
#[test]
fn files_are_written_even_if_no_one_reads_the_table() {
    let directory = Directory::new("no-reader");
    let job = directory.file("job.fio", "[a]\nrw=randread\nsize=64k\n");
    for command in ["compare", "run"] {
        let [report, log] = ["r.html", "q.jsonl"].map(|name| directory.path(&format!("{command}-{name}")));
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
        program.args([command, &job, "-s", "noop", "-q", "--report", &report, "--explain", &log]);
        let output = program.stdout(writer).output().expect("the program runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", words(&output.stderr));
        for file in [report, log] {
            assert!(fs::metadata(&file).is_ok_and(|found| found.len() > 0), "{file}");
        }
    }
}

/// `dwell tune /dev/sda 2>&1 | head -1`: a message that cannot be written must not end the work.
#[test]
fn a_closed_standard_error_ends_nothing() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
    let status = program.args(["advise", "/dev/null"]).stderr(writer).status().expect("the program runs");
    assert_eq!(status.code(), Some(2), "a panic is 101");
}

#[test]
fn unwritable_files_are_reported_before_a_run() {
    let directory = Directory::new("unwritable");
    let nowhere = directory.path("not/there.html");
    for option in ["--report", "--explain"] {
        fails(&["compare", SMALL, option, &nowhere], 1, &["there.html", "cannot be written"]);
    }
    fails(
        &["reproduce", "stream", "--only", "par-read", "--results", "", "--report", &nowhere],
        1,
        &["there.html"],
    );
    let kept = directory.path("kept.html");
    prints(&["compare", SMALL, "--report", &kept, "-s", "noop", "-q"]);
    let report = fs::read_to_string(&kept).expect("the report");
    fails(&["compare", SMALL, "--report", &kept, "-s", "noop", "--at-most", "soon"], 2, &["--at-most"]);
    assert_eq!(fs::read_to_string(&kept).expect("it is there"), report);
    // The first command of the README works twice, but replaces no file of the user's.
    prints(&["compare", SMALL, "--report", &kept, "-s", "noop", "-q"]);
    let mine = directory.file("mine.html", "<html>mine");
    for option in ["--report", "--explain"] {
        fails(
            &["compare", SMALL, "-s", "noop", option, &mine],
            2,
            &["mine.html: exists and is no ", "of dwell"],
        );
    }
    assert_eq!(fs::read_to_string(mine).expect("it is there"), "<html>mine");
}

#[test]
fn every_command_has_a_manual_page_that_names_only_existing_pages() {
    let trace = prints(&["man", "trace"]);
    let info = prints(&["man", "trace", "info"]);
    assert!(info.contains("DWELL-TRACE-INFO") && info.contains("\\-\\-device"), "{info}");
    assert!(trace.contains("dwell\\-trace\\-info(1)") && !trace.contains("help(1)"), "{trace}");
    fails(
        &["man", "trace", "inof"],
        2,
        &["'inof' is not a command of 'dwell trace'", "did you mean 'info'?"],
    );
    fails(&["man", "compare", "info"], 2, &["'info' is not a command of 'dwell compare'"]);
}
