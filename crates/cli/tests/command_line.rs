//! The program from outside: what it prints, where it writes, and which exit code says what went wrong.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// par-read, small enough to be over in a blink.
const SMALL: &str = "par-read{file_bytes=131072, apart_bytes=10000000}";

fn dwell(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
    program.env_remove("DWELL_DRIVE").args(arguments).output().expect("the program runs")
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// What a run that must succeed prints.
#[track_caller]
fn prints(arguments: &[&str]) -> String {
    let output = dwell(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", words(&output.stderr));
    words(&output.stdout)
}

/// What a run that must succeed prints when `text` comes on its standard input.
#[track_caller]
fn dwell_reads(text: &str, arguments: &[&str]) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
    program.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().expect("the program runs");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{arguments:?}: {}", words(&output.stderr));
    words(&output.stdout)
}

#[track_caller]
fn prints_json(arguments: &[&str]) -> Value {
    let text = prints(arguments);
    assert_eq!(text.lines().count(), 1, "one object on one line");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

/// A run that must end with `code`, nothing on standard output, and one line of error that holds all of `said`.
#[track_caller]
fn fails(arguments: &[&str], code: i32, said: &[&str]) {
    let output = dwell(arguments);
    let error = words(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(output.stdout.is_empty(), "{arguments:?}: results beside an error");
    assert_eq!(error.lines().filter(|line| line.starts_with("dwell: ")).count(), 1, "{error}");
    for part in said {
        assert!(error.contains(part), "{arguments:?}: '{part}' is not in: {error}");
    }
}

/// A directory of a test's own, which goes with it.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory for the test");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).expect("the test's file is written");
        self.path(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn recording(name: &str) -> String {
    format!("{}/../../recordings/{name}.ftrace.gz", env!("CARGO_MANIFEST_DIR"))
}

fn schedulers_of(runs: &Value) -> Vec<&str> {
    runs.as_array().into_iter().flatten().filter_map(|run| run["scheduler"].as_str()).collect()
}

#[test]
fn a_name_that_nothing_has_is_answered_with_the_nearest_one() {
    fails(&["compare", SMALL, "-s", "deadlin"], 2, &["'deadlin'", "did you mean 'deadline'?", "character 1"]);
    fails(&["compare", SMALL, "-s", "DEADLINE"], 2, &["'DEADLINE'", "did you mean 'deadline'?"]);
    fails(&["schedulers", "DEADLINE"], 2, &["did you mean 'deadline'?"]);
    fails(&["compare", SMALL, "-s", "stream(nop)"], 2, &["did you mean 'noop'?", "character 8"]);
    fails(&["compare", SMALL, "-s", "stream(cfq)"], 2, &["cannot be wrapped", "noop"]);
    fails(&["schedulers", "deadlin"], 2, &["did you mean 'deadline"]);
    fails(&["compare", SMALL, "--drive", "wd5000aak"], 2, &["wd5000aaks"]);
    fails(&["drives", "show", "wd5000aak"], 2, &["wd5000aaks"]);
    fails(&["drives", "show", "wd5000aaks{depth=0}"], 6, &["queue: its depth must lie between 1 and 32"]);
    fails(&["compare", "par-reed"], 2, &["did you mean 'par-read'?"]);
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
fn a_file_that_is_not_there_is_bad_input() {
    let directory = Directory::new("missing");
    let missing = directory.path("missing.trace");
    fails(&["trace", "info", &missing], 6, &["missing.trace"]);
    fails(&["trace", "convert", &missing, "-", "--to-format", "fio"], 6, &["missing.trace"]);
    fails(&["drives", "validate", "wd5000aaks", &missing], 6, &["missing.trace"]);
    fails(&["compare", &missing], 2, &["is no file, and no built-in workload"]);
}

#[test]
fn a_broken_recording_is_bad_input_with_its_line() {
    let directory = Directory::new("broken");
    let garbage = directory.file("garbage.trace", "this is\nno recording\nat all\n");
    fails(&["trace", "info", &garbage], 6, &["garbage.trace"]);
    fails(&["compare", &garbage], 6, &["garbage.trace"]);
    fails(
        &["trace", "info", "--format", "disksim", &garbage],
        6,
        &["garbage.trace, line 2", "'no recording'"],
    );
    let broken = directory.file("broken.disksim", "0.0 0 100 8 1\n1.5 0 200 8 1\n2.5 0 nowhere 8 1\n");
    let strictly = ["trace", "info", "--format", "disksim", "--strict", &broken];
    fails(&strictly, 6, &["broken.disksim, line 3, blkno", "nowhere"]);
    let found = prints_json(&["trace", "info", "--format", "disksim", "--json", &broken]);
    assert_eq!(found["info"]["reads"]["requests"], 2, "without --strict the line is left out");
    fails(&["trace", "info", "--format", "xls", &broken], 2, &["'xls'", "disksim"]);
    let beyond = directory.file("beyond.ascii", "0.5 0 99999999999 8 1\n");
    fails(&["compare", &beyond], 6, &["no request that could be replayed: 1 beyond the end of the device"]);
}

#[test]
fn a_job_file_that_asks_for_the_impossible_is_bad_input_with_its_line() {
    let directory = Directory::new("jobs");
    let malformed = directory.file("job.fio", "[global]\nbs=4k\n[reader]\nrw=read\nsize=1m\nbs=nothing\n");
    fails(&["compare", &malformed], 6, &["job.fio:6", "bs=nothing"]);
    let unknown = directory.file("unknown.fio", "[reader]\nrw=read\nsize=1m\nwarp_factor=9\n");
    fails(&["compare", &unknown], 6, &["unknown.fio:4", "warp_factor"]);
}

#[test]
fn a_job_file_runs() {
    let directory = Directory::new("job-runs");
    let job = directory.file("job.fio", "[reader]\nrw=randread\nbs=4k\nsize=64m\nio_size=128k\n");
    let found = prints_json(&["compare", &job, "-s", "noop", "--json", "--quiet"]);
    assert_eq!(found["runs"][0]["bytes"], 128 << 10);
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
    assert!(prints(&["schedulers"]).contains("stream(...)"));
    assert!(prints(&["schedulers", "deadline"]).contains("fifo_batch = "));
}

#[test]
fn drives_are_listed_and_what_is_shown_can_be_used() {
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

/// A drive of three files in a directory: those that it names lie beside it, whatever stands behind its own name.
#[test]
fn what_a_drives_files_say_in_vain_is_said() {
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
        let said = words(&output.stderr);
        assert!(output.status.success() && said.contains(note), "{arguments:?}: {said}");
    }
}

#[test]
fn recordings_are_summed_up() {
    for (name, requests) in [("pgbench", 26_020), ("two-greps-and-a-copy", 11_134)] {
        let file = recording(name);
        let found = prints_json(&["trace", "info", "--json", &file]);
        let info = &found["info"];
        let amount = |what: &str| info[what]["requests"].as_u64().expect("a count");
        let flushes = info["flushes"].as_u64().expect("a count");
        assert_eq!(amount("reads") + amount("writes") + amount("discards") + flushes, requests, "{name}");
        assert!(prints(&["trace", "info", &file]).contains("reads: "));
    }
}

#[test]
fn what_is_converted_reads_as_what_it_was() {
    let directory = Directory::new("converted");
    let original = recording("two-greps-and-a-copy");
    let info = |file: &str| prints_json(&["trace", "info", "--json", file])["info"].take();
    let before = info(&original);
    for format in ["fio", "blkparse", "disksim"] {
        let file = directory.path(&format!("converted.{format}"));
        prints(&["trace", "convert", &original, &file, "--to-format", format]);
        let after = info(&file);
        assert_eq!(after["reads"], before["reads"], "{format}");
        assert_eq!(after["writes"], before["writes"], "{format}");
        assert_eq!(after["end_bytes"], before["end_bytes"], "{format}");
    }
    let to = directory.path("converted.xls");
    fails(&["trace", "convert", &original, &to, "--to-format", "xls"], 2, &["fio, blkparse, disksim"]);
    let lie = directory.path("copy.bz2");
    fails(&["trace", "convert", &original, &lie, "--to-format", "dwell"], 2, &[".bz2 is not written"]);
    assert!(!Path::new(&lie).exists());
}

#[test]
fn a_comparison_is_one_json_object() {
    let arguments =
        ["compare", SMALL, "-s", "noop", "-s", "stream(deadline){stream_time_slice=50ms}", "--json"];
    let found = prints_json(&arguments);
    assert_eq!(found["schema_version"], 1);
    let runs = &found["runs"];
    assert_eq!(schedulers_of(runs), ["noop", "stream(deadline-2.6.32){stream_time_slice=50ms}"]);
    for run in runs.as_array().into_iter().flatten() {
        assert_eq!(run["bytes"], 4 * 131_072, "{run}");
        assert_eq!(run["cut"], false);
        assert!(run["failure"].is_null());
        assert!(found["limit"]["elapsed_ns"].as_u64() <= run["elapsed_ns"].as_u64(), "faster than the limit");
    }
    assert_eq!(found, prints_json(&arguments), "the same comparison, the same figures");
}

#[test]
fn without_names_every_scheduler_runs_that_can() {
    let listed = prints_json(&["schedulers", "--json"]);
    let listed = listed["schedulers"].as_array().expect("schedulers");
    let need = |what: &[Option<&str>]| listed.iter().filter(|s| what.contains(&s["needs"].as_str())).count();
    let runs = |arguments: &[&str]| prints_json(arguments)["runs"].as_array().expect("runs").len();
    assert_eq!(runs(&["compare", SMALL, "--json", "--quiet"]), need(&[None]));
    let array = ["compare", SMALL, "--array", "raid0:2x64k", "--json", "--quiet"];
    assert_eq!(runs(&array), need(&[None, Some("an array")]));
    assert!(need(&[Some("a modelled machine")]) > 0);
}

#[test]
fn an_array_is_compared_as_a_whole_and_by_member() {
    let array = "raid5:4x64k{failed=1, slow=2, slowness=150, link=400}";
    let workload = "ahead-read{file_bytes=4194304, processes=2}";
    let arguments =
        ["compare", workload, "--array", array, "-s", "noop", "-s", "array-stream", "--json", "--quiet"];
    let report = prints_json(&arguments);
    assert!(report["drive"].as_str().expect("a drive").starts_with(array));
    for run in report["runs"].as_array().expect("runs") {
        assert_eq!(run["bytes"], 8 << 20);
        let members = run["members"].as_array().expect("members");
        assert_eq!(members.len(), 4);
        assert_eq!(members[1]["dispatched"], 0, "the failed member is not asked");
    }
    let explained = prints(&[
        "compare",
        workload,
        "--array",
        "raid0:2x64k",
        "-s",
        "array-stream",
        "-q",
        "--explain",
        "-",
    ]);
    assert!(explained.contains("member 0 ") && explained.contains("member 1 "));
}

#[test]
fn arrays_that_cannot_be_are_refused_with_a_word() {
    fails(&["compare", "par-read", "--array", "raid7:5x64k"], 2, &["raid7", "raid0:5x64k"]);
    fails(&["compare", "par-read", "--array", "raid0:5x64k{failed=1}"], 2, &["does not survive"]);
    fails(&["compare", "par-read", "-s", "array-stream(deadline)"], 2, &["--array"]);
}

#[test]
fn split_policies_are_refused_where_there_is_nothing_above_the_queue_or_more_than_one_queue() {
    let array = ["run", "split/isolation-append", "--array", "raid0:2x64k", "-s"];
    for policy in ["afq", "stream(afq)"] {
        fails(
            &[&array[..], &[policy]].concat(),
            2,
            &[policy, "a queue for each member", "leave --array out"],
        );
    }
    fails(&["compare", "par-read", "-s", "afq"], 2, &["'afq'", "modelled machine of 'dwell run'"]);
    let nowhere = "unix:/nonexistent/refused.sock";
    let serve = ["serve", "--memory", "--size", "64MiB", "-s", "split-deadline", "--nbd", nowhere];
    fails(&serve, 2, &["modelled machine of 'dwell run'"]);
}

#[test]
fn a_run_that_is_cut_says_so() {
    let table =
        prints(&["compare", "par-read", "-s", "noop", "--at-most", "100ms", "--quiet", "--processes"]);
    assert!(table.contains("noop (cut)") && table.contains("physical limit"), "{table}");
}

/// Of 300 years.
const ENDLESS: &str =
    "# dwell recording 1\n0 10 8,0 R 0 4096 - 1 a\n9467280000000000000 10 8,0 R 4096 4096 - 1 a\n";

#[test]
fn runs_that_all_failed_are_a_failure() {
    let directory = Directory::new("failed");
    let recording = directory.file("endless.dwell", ENDLESS);
    let output = dwell(&["compare", &recording, "-s", "noop", "-s", "look", "--quiet"]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output.stderr));
    assert!(words(&output.stderr).contains("no run came to its end"), "{}", words(&output.stderr));
    assert!(words(&output.stdout).contains("noop (failed)"), "what there is, is printed");
}

#[test]
fn every_dispatch_is_explained_in_words() {
    let compare = ["compare", SMALL, "-s", "deadline", "--quiet", "--explain", "-"];
    let text = prints(&compare);
    let dispatches: Vec<&str> = text.lines().filter(|line| line.contains(" dispatch #")).collect();
    assert!(!dispatches.is_empty(), "{text}");
    assert!(dispatches.iter().all(|line| line.contains(" -- ")), "a dispatch without its reason");
    assert_eq!(text.lines().filter(|line| line.contains(" complete #")).count(), dispatches.len());
}

/// Whoever counts insertions must find where the others went.
#[test]
fn what_joins_a_queued_request_is_explained() {
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

#[test]
fn a_report_holds_the_table_and_needs_no_network() {
    let directory = Directory::new("report");
    let file = directory.path("report.html");
    prints(&["compare", SMALL, "-s", "noop", "-s", "stream(deadline)", "--quiet", "--report", &file]);
    let page = fs::read_to_string(&file).expect("the report is written");
    for part in ["<table>", "physical limit", "<td>noop</td>", "<td>stream(deadline-2.6.32)</td>"] {
        assert!(page.contains(part), "'{part}' is not in the report");
    }
    assert!(!page.contains("<script src=") && !page.contains("<link "), "it loads something");
    let nowhere = directory.path("nowhere/report.html");
    let output = dwell(&["compare", SMALL, "-s", "noop", "--quiet", "--report", &nowhere]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output.stderr));
}

#[test]
fn a_pipe_that_closes_is_no_error() {
    use std::process::Stdio;
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

/// `dwell tune /dev/sda 2>&1 | head -1`: what is said of a problem is not what the work is for.
#[test]
fn errors_that_nobody_reads_end_nothing() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
    let status = program.args(["advise", "/dev/null"]).stderr(writer).status().expect("the program runs");
    assert_eq!(status.code(), Some(2), "a panic is 101");
}

/// Many requests of one process in flight at once may be served in any order, by a scheduler or by the drive.
#[test]
fn nobody_is_faster_than_the_physical_limit_with_many_requests_in_flight() {
    let directory = Directory::new("in-flight");
    let job = "[reader]\nioengine=libaio\niodepth=64\nrw=randread\nsize=400g\nio_size=2m\n";
    let job = directory.file("job.fio", job);
    let found = prints_json(&["compare", &job, "-s", "noop", "-s", "c-scan", "-s", "sptf", "--json", "-q"]);
    for run in found["runs"].as_array().expect("runs") {
        assert!(found["limit"]["elapsed_ns"].as_u64() <= run["elapsed_ns"].as_u64(), "{run}");
    }
}

/// Reads that a process waits for, and writes that nobody does, run beside each other.
#[test]
fn what_a_process_does_at_the_same_time_is_not_added_up() {
    let directory = Directory::new("beside");
    let mut text = "# dwell recording 1\n".to_owned();
    for second in 0..10_u64 {
        let at = second * 1_000_000_000;
        text += &format!("{at} 5000000 8,0 RS {} 4096 - 1 both\n", second * 4096);
        text += &format!("{} 5000000 8,0 RS {} 4096 - 2 one\n", at + 100_000_000, (1 << 30) + second * 4096);
        text += &format!("{} 5000000 8,0 W {} 4096 - 1 both\n", at + 200_000_000, (2 << 30) + second * 4096);
    }
    let file = directory.file("beside.dwell", &text);
    let found = prints_json(&["compare", &file, "-s", "noop", "--json", "-q"]);
    let run = &found["runs"][0];
    for (process, alone) in run["processes"]
        .as_array()
        .expect("processes")
        .iter()
        .zip(run["limit"]["processes_ns"].as_array().expect("limits"))
    {
        assert!(alone.as_u64() <= process["elapsed_ns"].as_u64(), "{process}: {alone}");
    }
    assert!(run["fairness"].as_f64() > Some(0.99), "{}", run["fairness"]);
}

#[test]
fn a_service_manager_hears_when_a_device_is_served() {
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
    assert!(heard.contains("READY=1\n") && heard.contains("STATUS=serving memory under noop"), "{heard}");
    assert!(reachable, "ready before anybody can reach it");
}

#[test]
fn a_recording_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt;
    let directory = Directory::new("name");
    let name = directory.0.join(std::ffi::OsStr::from_bytes(b"no\xffUTF-8.ascii"));
    fs::write(&name, "0.5 0 1000 8 1\n").expect("the test's file is written");
    let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
    let output = program.args(["trace", "info"]).arg(&name).output().expect("the program runs");
    assert!(output.status.success(), "{}", words(&output.stderr));
}

#[test]
fn a_pipe_is_a_recording_and_a_folder_is_told_to_be_none() {
    let directory = Directory::new("pipe");
    let pipe = directory.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let text = "0.5 0 1000 8 1\n1.5 0 2000 8 0\n";
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, text)
    });
    let found = prints_json(&["compare", &pipe, "-s", "noop", "--json", "--quiet"]);
    writer.join().expect("no panic").expect("it is read");
    assert_eq!(found["runs"][0]["requests"], 2);
    let standard_input = dwell_reads(text, &["compare", "-", "-s", "noop", "--json", "--quiet"]);
    let found: Value = serde_json::from_str(&standard_input).expect("JSON");
    assert_eq!(found["runs"][0]["requests"], 2);
    assert!(dwell_reads(text, &["trace", "info", "-"]).starts_with("-: DiskSim ASCII"));
    let folder = directory.0.to_str().expect("UTF-8");
    fails(&["compare", folder], 6, &["is a folder"]);
    fails(&["trace", "info", folder], 6, &["is a folder"]);
}

#[test]
fn what_only_a_recording_can_be_asked_is_refused_of_anything_else() {
    let directory = Directory::new("no-recording");
    let job = directory.file("job.fio", "[reader]\nrw=randread\nsize=64k\n");
    let options: [&[&str]; 5] =
        [&["--open"], &["--strict"], &["--unit", "ms"], &["--device", "7"], &["--format", "msr"]];
    for option in options {
        for workload in [SMALL, &job] {
            let arguments = [&["compare", workload, "-s", "noop"], option].concat();
            fails(&arguments, 2, &[option[0], "is none"]);
        }
    }
}

#[test]
fn decisions_are_not_mixed_into_the_one_object_of_json() {
    fails(&["compare", SMALL, "-s", "noop", "--json", "--explain", "-"], 2, &["--json", "--explain"]);
}

#[test]
fn a_recording_that_does_not_end_can_be_interrupted() {
    use std::process::Stdio;
    let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
    let mut child = program
        .args(["trace", "info", "--json", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let id = child.id().to_string();
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut interrupted = false;
    // It goes on reading until it is told to stop, and then the pipe is closed from the other end.
    for line in 0_u64.. {
        if stdin.write_all(format!("{line}.5 0 1000 8 1\n").as_bytes()).is_err() {
            break;
        }
        if line >= 200_000 && !interrupted {
            interrupted =
                Command::new("sh").args(["-c", "kill -INT $0", &id]).status().expect("sh").success();
        }
        assert!(line < 50_000_000, "it does not hear");
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", words(&output.stderr));
    let found: Value = serde_json::from_str(&words(&output.stdout)).expect("partial results");
    assert!(found["info"]["reads"]["requests"].as_u64() > Some(0));
}

#[test]
fn a_conversion_that_cannot_be_writes_over_nothing() {
    let directory = Directory::new("kept");
    let text = "0.5 0 1000 8 1\n1.5 0 2000 8 0\n";
    let original = directory.file("original.ascii", text);
    let kept = directory.file("kept", "what was there");
    fails(&["trace", "convert", &original, &kept, "--to-format", "xls"], 2, &["'xls'"]);
    assert_eq!(fs::read_to_string(&kept).expect("it is there"), "what was there");
    let itself = ["trace", "convert", &original, &original, "--to-format", "fio"];
    fails(&itself, 2, &["is the recording itself"]);
    assert_eq!(fs::read_to_string(&original).expect("it is there"), text);
}

/// A device is met when its first request is read, which may be long after the file was begun.
#[test]
fn a_recording_of_several_devices_keeps_their_names_when_it_is_converted() {
    let directory = Directory::new("devices");
    let text = "0.5 2 1000 8 1\n1.5 0 2000 8 0\n2.5 1 3000 8 1\n3.5 0 3008 8 1\n";
    let original = directory.file("several.ascii", text);
    let devices = |file: &str| {
        let found = prints_json(&["trace", "info", "--device", "all", "--json", file]);
        found["info"]["devices"].clone()
    };
    for format in ["dwell", "fio"] {
        let file = directory.path(&format!("converted.{format}"));
        prints(&["trace", "convert", "--device", "all", &original, &file, "--to-format", format]);
        assert_eq!(devices(&file), devices(&original), "{format}");
    }
}

#[test]
fn a_run_that_is_cut_has_a_limit_of_its_own() {
    let runs = ["-s", "noop", "-s", "stream(deadline)"];
    let cut = ["compare", "par-read", "--at-most", "500ms", "--json", "-q"];
    let found = prints_json(&[&cut[..], &runs].concat());
    assert_eq!(found["limit"], found["runs"][1]["limit"], "that of the best, as in the table");
    let limit = |run: usize| found["runs"][run]["limit"]["elapsed_ns"].as_u64().expect("a limit");
    assert!(limit(1) > 10 * limit(0), "stream was asked for far more in the same time");
}

#[test]
fn what_an_error_advises_can_be_done() {
    let directory = Directory::new("advised");
    let whole = directory.file("whole.trace", "0 0 100 8 1\n1 0 108 8 0\n2 0 200 8 1\n");
    let compare = ["compare", &whole, "-s", "noop", "--json"];
    let notes = |arguments: &[&str]| prints_json(arguments)["notes"].to_string();
    assert!(notes(&compare).contains("name the format if not"));
    assert!(notes(&[&compare[..], &["--format", "disksim"]].concat()).contains("DiskSim ASCII (as told)"));
}

#[test]
fn a_jobs_priority_class_is_heard_on_the_modelled_machine_too() {
    let directory = Directory::new("class");
    let text = "[global]\nrw=randread\nsize=64m\nio_size=400k\ndirect=1\n[idle]\nprioclass=3\n[first]\nprioclass=1\n";
    let job = directory.file("job.fio", text);
    for command in ["compare", "run"] {
        let found = prints_json(&[command, &job, "-s", "cfq", "--json", "--quiet"]);
        let processes = found["runs"][0]["processes"].as_array().expect("processes");
        let time = |name: &str| {
            let process = processes.iter().find(|process| process["name"] == name).expect("the job");
            process["elapsed_ns"].as_u64().expect("a time")
        };
        assert!(time("idle") > time("first") * 3 / 2, "{command}: {} {}", time("idle"), time("first"));
    }
}

#[test]
fn several_devices_on_one_are_said_aloud() {
    let directory = Directory::new("several");
    let several = directory.file("several.ascii", "0.5 2 1000 8 1\n1.5 0 2000 8 0\n");
    fails(&["compare", &several, "-s", "noop"], 6, &["several devices", "--device"]);
    let found = prints_json(&["compare", &several, "--device", "all", "-s", "noop", "--json"]);
    assert!(found["notes"].to_string().contains("its 2 devices are replayed on one"), "{}", found["notes"]);
}

#[test]
fn latencies_of_reads_writes_and_processes_have_a_median() {
    let directory = Directory::new("medians");
    let job = directory.file("writer.fio", "[w]\nrw=write\nsize=64k\ndirect=1\n");
    let table = prints(&["compare", &job, "-s", "noop", "--processes", "-q"]);
    assert_eq!(table.matches(" p50 ").count(), 4, "{table}");
    let found = prints_json(&["compare", &job, "-s", "noop", "--json", "-q"]);
    let latency = &found["runs"][0]["writes"];
    assert!(latency["p50_ns"].as_u64() <= latency["p99_ns"].as_u64(), "{latency}");
}

#[test]
fn what_could_not_be_written_is_said_before_anything_runs() {
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
    let kept = directory.file("kept.html", "kept");
    fails(&["compare", SMALL, "--report", &kept, "-s", "noop", "--at-most", "soon"], 2, &["--at-most"]);
    assert_eq!(fs::read_to_string(kept).expect("it is there"), "kept");
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
fn what_cannot_be_served_is_refused_with_a_word_and_leaves_nothing() {
    let directory = Directory::new("unserved");
    let socket = format!("unix:{}", directory.path("socket"));
    let serve = |more: &[&str], code: i32, said: &[&str]| {
        fails(&[&["serve", "--nbd", &socket], more].concat(), code, said);
    };
    serve(&["--memory", "--size", "0"], 2, &["at least one sector"]);
    serve(&["--memory", "--size", "1000000T"], 2, &["does not fit"]);
    serve(&["--memory", "--size", "1M", "-s", "array-stream(deadline)"], 2, &["members of an array"]);
    serve(&["--memory", "--size", "1M", "-s", "afq"], 2, &["999936 bytes are served", "dwell run"]);
    // To require a drive says nothing beside what conflicts with one.
    for option in [&["--speed", "10"][..], &["--discard-data"]] {
        let output = dwell(&[&["serve", "--nbd", &socket, "--memory", "--size", "1M"], option].concat());
        let error = words(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains("cannot be used with"), "{error}");
    }
    serve(&[&directory.path("missing")], 6, &["it does not exist"]);
    serve(&[&directory.path("odd"), "--size", "10M"], 6, &["10000384 are one"]);
    serve(&["--memory", "--size", "1M", "--tls", &directory.path("none")], 6, &["server-key.pem"]);
    assert_eq!(fs::read_dir(&directory.0).expect("it is there").count(), 0);
    fails(&["ctl", &directory.path("socket"), "show"], 1, &["no server listens there"]);
}

#[test]
fn whoever_lacks_a_capability_is_told_which_as_not_permitted() {
    let serve = [env!("CARGO_BIN_EXE_dwell"), "serve", "--memory", "--size", "1MiB", "--attach"];
    let mut program = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        program.args(["--inh-caps=-sys_admin", "--bounding-set=-sys_admin"]);
    }
    let output = program.args(serve).output().expect("util-linux");
    let said = words(&output.stderr);
    assert!(output.status.code() == Some(5) && said.contains("needs CAP_SYS_ADMIN"), "{said}");
}

#[test]
fn a_queue_of_nothing_is_refused_with_the_range() {
    for (option, said) in
        [("--depth", "'--depth <N>': 0 is not in 1..=65536"), ("--nr-requests", "0 is not in 1..")]
    {
        let output = dwell(&["compare", SMALL, option, "0"]);
        let error = words(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(said), "{option}: {error}");
        assert!(output.stdout.is_empty());
    }
    prints(&["compare", SMALL, "--depth", "1", "--nr-requests", "1", "-s", "noop", "--quiet"]);
}

#[test]
fn what_has_no_head_is_not_said_to_have_moved_one() {
    let directory = Directory::new("headless");
    let file = directory.path("report.html");
    let on = |drive: &str| {
        let table = prints(&["compare", SMALL, "-s", "noop", "--drive", drive, "--quiet", "--report", &file]);
        let row = table.lines().find(|line| line.contains("noop")).expect("the run's row").to_owned();
        let cells: Vec<String> = row.split(['│', '┆']).map(|cell| cell.trim().to_owned()).collect();
        (cells[12].clone(), fs::read_to_string(&file).expect("the report"))
    };
    let (travel, report) = on("ssd-sata");
    assert!(travel == "-" && !report.contains("of disk."), "{travel}");
    let (travel, report) = on("wd5000aaks");
    assert!(travel.ends_with('B') && report.contains("of disk."), "{travel}");
}

/// Its benchmarks would be measured over nothing.
#[test]
fn a_duel_of_no_time_is_refused() {
    for option in ["--time", "--patience"] {
        fails(&["duel", option, "0s", "-b", "par-read"], 2, &[option, "longer than nothing"]);
    }
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
