//! `dwell run` as a program: invalid scripts, and the output of a run.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn dwell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dwell")).args(arguments).output().expect("the program runs")
}

/// A script in a file of its own.
fn script(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("dwell-run-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).expect("the directory for temporary files can be written to");
    path
}

/// The error for a rejected script.
fn refusal(name: &str, text: &str) -> String {
    let path = script(name, text);
    let output = dwell(&["run", &path.to_string_lossy(), "-s", "noop"]);
    let _ = std::fs::remove_file(&path);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "bad input is exit code 6: {message}");
    message
}

#[test]
fn the_script_of_the_documentation_runs() {
    let lines = include_str!("../../../docs/run.md").lines();
    let page = lines
        .skip_while(|line| !line.starts_with("    about"))
        .take_while(|line| line.is_empty() || line.starts_with("    "));
    let path = script("documentation", &page.map(|line| format!("{line}\n")).collect::<String>());
    let output = dwell(&["run", &path.to_string_lossy(), "-s", "noop"]);
    let _ = std::fs::remove_file(&path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_missing_file_is_reported_with_its_line() {
    let message = refusal(
        "nobody",
        "about = \"x\"\n[[process]]\nname = \"cat\"\nsteps = [{ read = { file = \"/none\" } }]\n",
    );
    assert!(message.contains(":4: process 'cat': '/none' is not on the disk"), "{message}");
}

#[test]
fn a_depth_that_the_drive_does_not_have_is_noted() {
    let text = "about = \"x\"\ndrive = \"wd5000aaks{depth=4}\"\nchange.depth = DEPTH\n[[process]]\nname = \"p\"\nsteps = [{ think = \"1ms\" }]\n";
    let notes = |depth: &str| {
        let path = script(&format!("depth-{depth}"), &text.replace("DEPTH", depth));
        let output = dwell(&["run", &path.to_string_lossy(), "-s", "noop"]);
        let _ = std::fs::remove_file(&path);
        let notes = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{notes}");
        notes
    };
    assert!(!notes("4").contains("depth 4: "), "{}", notes("4"));
    let deep = notes("64");
    assert!(deep.contains("depth 64: wd5000aaks") && deep.contains("the depth is 4"), "{deep}");
}

#[test]
fn a_step_or_a_field_that_is_misspelt_is_answered_with_the_nearest() {
    let message = |step: &str| {
        refusal("misspelt", &format!("about = \"x\"\n[[process]]\nname = \"p\"\nsteps = [{step}]\n"))
    };
    let field = message("{ read = { file = \"/f\", chunck = \"4 KiB\" } }");
    assert!(field.contains(":4: script: unknown field 'chunck'") && field.contains("did you mean 'chunk'?"));
    assert!(message("{ reed = { file = \"/f\" } }").contains("did you mean 'read'?"));
}

#[test]
fn an_incomplete_barrier_is_reported_with_its_line() {
    let message = refusal(
        "barrier",
        "about = \"x\"\n[[process]]\nname = \"p\"\nsteps = [{ meet = { at = 1, members = 2 } }]\n",
    );
    assert!(message.contains(":4: process 'p': barrier 1 has 2 members but only 1"), "{message}");
}

#[test]
fn a_file_system_too_small_for_its_files_is_refused() {
    let text = "about = \"x\"\ndrive = \"maxtor-20gb\"\n[[on-disk]]\nfile = \"/big\"\nbytes = \"30 GB\"\n\
        [[process]]\nname = \"cat\"\nsteps = [{ read = { file = \"/big\" } }]\n";
    let message = refusal("small", text);
    assert!(message.contains(":3: image: /big: no space left"), "{message}");
}

/// The error of a run that cannot continue.
fn failure(name: &str, text: &str) -> String {
    let path = script(name, text);
    let output = dwell(&["run", &path.to_string_lossy(), "-s", "noop"]);
    let _ = std::fs::remove_file(&path);
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_full_file_system_is_reported_with_its_line() {
    let text = "about = \"x\"\nmachine = \"pc-2003\"\ndrive = \"maxtor-20gb\"\n[[on-disk]]\nfile = \"/big\"\nbytes = \"19 GB\"\n\
        [[process]]\nname = \"dd\"\nsteps = [\n    { think = \"1 ms\" },\n    { write = { file = \"/out\", bytes = \"2 GB\" } },\n]\n";
    let message = failure("full", text);
    assert!(message.contains(":11: process dd: write(0"), "{message}");
    assert!(message.contains("no space left on the device"), "{message}");
}

#[test]
fn a_deadlock_of_barriers_is_reported_with_a_line() {
    let meet = |at: u32| format!("{{ meet = {{ at = {at}, members = 2 }} }}");
    let process = |name: &str, first, then| {
        format!("[[process]]\nname = \"{name}\"\nsteps = [\n    {},\n    {},\n]\n", meet(first), meet(then))
    };
    let message = failure("crossed", &format!("about = \"x\"\n{}{}", process("a", 1, 2), process("b", 2, 1)));
    assert!(message.contains("waiting for each other"), "{message}");
    assert!(message.contains(": a (line 5), b (line 11)"), "{message}");
}

/// A process that reads forever does not hide the deadlock.
#[test]
fn a_deadlock_is_detected_while_another_process_is_busy() {
    let meet = |at: u32| format!("{{ meet = {{ at = {at}, members = 2 }} }}");
    let process =
        |name: &str, steps: String| format!("[[process]]\nname = \"{name}\"\nsteps = [\n    {steps},\n]\n");
    let busy =
        "[[process]]\nname = \"busy\"\nbeside = true\nsteps = [{ forever = [{ think = \"1 ms\" }] }]\n";
    let child = format!("{{ fork = [{}] }}, {{ wait = {{}} }}, {}", meet(2), meet(1));
    let crossed = process("a", format!("{}, {}", meet(1), meet(2))) + &process("b", child);
    let message = failure("beside", &format!("about = \"x\"\n{busy}{crossed}"));
    assert!(message.contains("waiting for each other"), "{message}");
    assert!(
        message.contains("a (line") && message.contains("b (line") && !message.contains("busy"),
        "{message}"
    );
}

#[test]
fn memory_below_the_kernels_minimum_is_rejected() {
    let text = "about = \"x\"\nmachine = \"pc-2003\"\n[change]\nmemory = \"16 MiB\"\n[[process]]\nname = \"p\"\nsteps = [{ think = \"1 s\" }]\n";
    let message = refusal("memory", text);
    assert!(message.contains(":4: machine 'pc-2003': memory.taken-mib: at least 4 MiB"), "{message}");
}

const TWO_READERS: &str = r#"
about = "two readers and a writer"
machine = "pc-2003"
drive = "ide-2003"

[[on-disk]]
file = "/files/{n}"
bytes = "16 MiB"
copies = 2

[[process]]
name = "reader-{n}"
copies = 2
steps = [{ read = { file = "/files/{n}" } }]

[[process]]
name = "writer"
steps = [{ write = { file = "/out", bytes = "8 MiB", fsync = true } }]
"#;

#[test]
fn a_run_prints_each_process_and_writes_a_report() {
    let path = script("readers", TWO_READERS);
    let page = path.with_extension("html");
    let output = dwell(&[
        "run",
        &path.to_string_lossy(),
        "-s",
        "deadline",
        "--json",
        "--report",
        &page.to_string_lossy(),
    ]);
    let _ = std::fs::remove_file(&path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let seen = &report["runs"][0]["outcome"]["seen"];
    assert_eq!(seen["reader-1"]["read_bytes"], 16 << 20);
    assert_eq!(seen["writer"]["written_bytes"], 8 << 20);
    assert!(seen["writer"]["worst_sync_ns"].as_u64() > Some(0), "the fsync took time: {seen}");
    let html = std::fs::read_to_string(&page).expect("the report");
    let _ = std::fs::remove_file(&page);
    assert!(html.contains("The machine over time") && html.contains("reader-2"));
}

#[test]
fn a_buffered_job_file_runs_through_the_page_cache() {
    let path = std::env::temp_dir().join(format!("dwell-run-{}.fio", std::process::id()));
    std::fs::write(&path, "[again]\nrw=randread\nbs=4k\nsize=4m\nio_size=64m\n").expect("a file");
    let output = dwell(&["run", &path.to_string_lossy(), "-s", "noop", "--json"]);
    let _ = std::fs::remove_file(&path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let run = &report["runs"][0];
    assert_eq!(run["outcome"]["seen"]["again"]["read_bytes"], 64 << 20);
    let moved: u64 =
        run["outcome"]["vmstat"]["read"].as_array().into_iter().flatten().filter_map(Value::as_u64).sum();
    assert!(moved < 8 << 20, "64 MiB were read, but 4 MiB are all there is: {moved} bytes from the device");
}

#[test]
fn a_job_file_runs_on_a_current_kernel_whose_threads_have_names() {
    let path = std::env::temp_dir().join(format!("dwell-names-{}.fio", std::process::id()));
    let page = path.with_extension("html");
    std::fs::write(&path, "[w]\nrw=write\nbs=64k\nsize=4m\nend_fsync=1\n").expect("a file");
    let output = dwell(&["run", &path.to_string_lossy(), "-s", "noop", "--report", &page.to_string_lossy()]);
    let html = std::fs::read_to_string(&page);
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_file(&page);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = html.expect("a report");
    assert!(html.contains("machine: linux-6") && html.contains("[journal]"));
    assert!(!html.contains("task 4294967"), "a kernel thread without a name");
}

#[test]
fn kernel_threads_have_names_in_the_decision_log() {
    let path = std::env::temp_dir().join(format!("dwell-log-{}.fio", std::process::id()));
    std::fs::write(&path, "[w]\nrw=write\nbs=64k\nsize=4m\nend_fsync=1\n").expect("a file");
    let run = ["run", &path.to_string_lossy(), "-s", "noop", "-q", "--explain", "-"];
    let text = dwell(&run);
    let json = dwell(&[&run[..], &["--explain-format", "jsonl"]].concat());
    let _ = std::fs::remove_file(&path);
    let [text, json] = [text, json].map(|output| String::from_utf8(output.stdout).expect("text"));
    assert!(text.contains(" by [journal]") && !text.contains("by 42949"), "{text}");
    let named = |line: &str| line.contains("\"task\":42949") == line.contains("\"thread\":\"[");
    assert!(json.contains("\"thread\":\"[journal]\"") && json.lines().all(named), "{json}");
}

#[test]
fn a_job_that_syncs_at_its_end_waits_for_the_disk() {
    let written = |end: &str| {
        let path = std::env::temp_dir().join(format!("dwell-end-{}-{}.fio", end.len(), std::process::id()));
        std::fs::write(&path, format!("[w]\nrw=write\nbs=64k\nsize=64m\n{end}")).expect("a file");
        let output = dwell(&["run", &path.to_string_lossy(), "-s", "noop", "--json"]);
        let _ = std::fs::remove_file(&path);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        let seen = &report["runs"][0]["outcome"]["seen"]["w"];
        seen["to_ns"].as_u64().unwrap_or_default() - seen["from_ns"].as_u64().unwrap_or_default()
    };
    let (memory, disk) = (written(""), written("end_fsync=1\n"));
    assert!(disk > 2 * memory && disk > 400_000_000, "64 MiB into memory {memory} ns, to the disk {disk} ns");
}

#[test]
fn a_job_behind_a_stonewall_waits_for_those_before_it() {
    let path = std::env::temp_dir().join(format!("dwell-wall-{}.fio", std::process::id()));
    let text = "[global]\nbs=64k\nsize=4m\n[a]\n[b]\n[c]\nstonewall\n";
    std::fs::write(&path, text).expect("a file");
    let output = dwell(&["run", &path.to_string_lossy(), "-s", "noop", "--json"]);
    let _ = std::fs::remove_file(&path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let at = |job: &str, what: &str| report["runs"][0]["outcome"]["seen"][job][what].as_u64().unwrap();
    let ended = at("a", "to_ns").max(at("b", "to_ns"));
    assert!(ended > 0 && at("c", "from_ns") >= ended, "{report:#}");
}

#[test]
fn a_script_runs_on_an_array_and_reads_two_stripes_ahead() {
    let text = "about = \"x\"\n[[on-disk]]\nfile = \"/a\"\nbytes = \"4 MiB\"\n[[process]]\nname = \"cat\"\nsteps = [{ read = { file = \"/a\" } }]\n";
    let path = script("array", text);
    let file = path.to_string_lossy();
    let on = |array: &str, more: &[&str]| {
        let all = ["run", &*file, "-s", "array-stream(deadline)", "-q", "--array", array];
        dwell(&[&all[..], more].concat())
    };
    let output = on("raid5:4x64k", &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let run = &report["runs"][0];
    assert_eq!(run["members"].as_array().map(Vec::len), Some(4), "{run:#}");
    assert_eq!(run["outcome"]["seen"]["cat"]["read_bytes"], 4 << 20);
    let told = |more: &[&str]| String::from_utf8_lossy(&on("raid0:2x64k", more).stdout).into_owned();
    let (members, explained) = (told(&["--members"]), told(&["--explain", "-"]));
    assert!(members.contains("seeks") && explained.contains("member 1 "), "{members}{explained}");
    assert!(!explained.contains("seeks"), "{explained}");
    let refused = on("raid7:5x64k", &[]);
    let _ = std::fs::remove_file(&path);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("raid7"));
}

#[test]
fn coordination_without_an_array_is_refused() {
    let output = dwell(&["run", "stream/informed", "-s", "array-stream(deadline)", "--scale", "0.01"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--array"));
}

/// SQLite's way, one row at a time on a file system of its own, as on Linux 6.18 in front of the same emulated drive, which did 60 in
/// 2.16 s: a journal, its name and its header are made durable, and then the table.
#[test]
fn rows_with_a_rollback_journal_take_as_long_as_on_linux() {
    let text = "about = \"x\"\nmachine = \"linux-6\"\n[change]\ndepth = 31\npartition = { at = \"1 GiB\", bytes = \"2 GiB\" }\n\
        [[process]]\nname = \"db\"\nsteps = [{ rollback = { table = \"/rows\", lasts = \"3 s\" } }, { stat = \"/rows\" }]\n";
    let path = script("rollback", text);
    let output = dwell(&["run", &path.to_string_lossy(), "-s", "mq-deadline", "--json"]);
    let _ = std::fs::remove_file(&path);
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let transactions = told["runs"][0]["outcome"]["transactions"]["db"]["count"].as_f64();
    let rate = transactions.unwrap_or_else(|| panic!("{told}")) / 3.0;
    assert!((24.0..32.0).contains(&rate), "{rate} a second, 27.8 on Linux");
}

/// Every scheduler takes the same time for work of a given duration.
#[test]
fn work_of_a_given_duration_is_ranked_by_the_work_done() {
    let path = std::env::temp_dir().join(format!("dwell-lasts-{}.fio", std::process::id()));
    let job = "[w]\nrw=randwrite\nbs=4k\nsize=64m\nruntime=5\ntime_based=1\nfsync=1\ndirect=1\n";
    std::fs::write(&path, job).expect("a file");
    let run = ["run", &*path.to_string_lossy(), "-s", "noop", "-s", "kyber", "-q"];
    let text = dwell(&run);
    let csv = dwell(&[&run[..], &["--csv"]].concat());
    let by_fsync = dwell(&[&run[..], &["--sort", "fsync"]].concat());
    let by_time = dwell(&[&run[..], &["--sort", "time"]].concat());
    let _ = std::fs::remove_file(&path);
    let message = String::from_utf8_lossy(&by_time.stderr).into_owned();
    assert!(by_time.status.code() == Some(2) && message.contains("run for a given time"), "{message}");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("Ranked by work per second.") && text.contains("fsync"), "{text}");
    let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
    let heads: Vec<&str> = csv.lines().next().unwrap_or_default().split(',').collect();
    for column in ["work_per_s", "fsync_p50_ns", "fsync_p99_ns", "fsync_max_ns"] {
        let at = heads.iter().position(|head| *head == column).unwrap_or_else(|| panic!("{column}: {csv}"));
        for line in csv.lines().skip(1) {
            let value: f64 = line.split(',').nth(at).and_then(|cell| cell.parse().ok()).expect("a figure");
            assert!(value > 0.0, "{column}: {csv}");
        }
    }
    assert!(String::from_utf8_lossy(&by_fsync.stdout).contains("Ranked by 99th percentile of fsync."));
}

/// Regression: jobs whose runtime never took effect counted as work of a given duration, unlike in `compare`.
#[test]
fn a_runtime_counts_only_if_it_ended_a_job() {
    let path = std::env::temp_dir().join(format!("dwell-runtime-{}.fio", std::process::id()));
    let by_time = |of_a: &str| {
        let job = format!(
            "[global]\nrw=randread\nbs=4k\nsize=1m\ndirect=1\n[a]\n{of_a}\n[b]\nstonewall\nstartdelay=100ms\nruntime=1\n"
        );
        std::fs::write(&path, job).expect("a file");
        let run = ["run", &*path.to_string_lossy(), "-s", "noop", "-s", "kyber", "-q", "--sort", "time"];
        let output = dwell(&run);
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let never = by_time("runtime=1000\nio_size=40k");
    let ended = by_time("runtime=100ms");
    let _ = std::fs::remove_file(&path);
    assert!(never.0 == Some(0) && never.1.contains("Ranked by time."), "{never:?}");
    assert!(ended.0 == Some(2) && ended.1.contains("run for a given time"), "{ended:?}");
}
