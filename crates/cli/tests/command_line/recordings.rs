//! Reading of recordings, job files and standard input, and conversion to other formats.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Directory, SMALL, dwell, dwell_reads, fails, prints, prints_json, recording, words};

#[test]
fn a_file_that_is_not_there_is_bad_input() {
    let directory = Directory::new("missing");
    let missing = directory.path("missing.trace");
    fails(&["trace", "info", &missing], 6, &["missing.trace"]);
    fails(&["trace", "convert", &missing, "-", "--to-format", "fio"], 6, &["missing.trace"]);
    fails(&["drives", "validate", "wd5000aaks", &missing], 6, &["missing.trace"]);
    fails(&["compare", &missing], 2, &["is neither a file nor a built-in workload"]);
}

#[test]
fn a_broken_recording_is_bad_input_with_its_line() {
    let directory = Directory::new("broken");
    let garbage = directory.file("garbage.trace", "this is\nno recording\nat all\n");
    fails(&["trace", "info", &garbage], 6, &["garbage.trace"]);
    fails(&["compare", &garbage], 6, &["garbage.trace"]);
    fails(&["trace", "info", "--format", "disksim", &garbage], 6, &["garbage.trace:2", "'no recording'"]);
    let broken = directory.file("broken.disksim", "0.0 0 100 8 1\n1.5 0 200 8 1\n2.5 0 nowhere 8 1\n");
    let strictly = ["trace", "info", "--format", "disksim", "--strict", &broken];
    fails(&strictly, 6, &["broken.disksim:3: blkno", "nowhere"]);
    let found = prints_json(&["trace", "info", "--format", "disksim", "--json", &broken]);
    assert_eq!(found["info"]["reads"]["requests"], 2, "without --strict the line is left out");
    fails(&["trace", "info", "--format", "xls", &broken], 2, &["'xls'", "disksim"]);
    let beyond = directory.file("beyond.ascii", "0.5 0 99999999999 8 1\n");
    fails(&["compare", &beyond], 6, &["no request that can be replayed: 1 beyond the end of the device"]);
}

/// The table of half a recording looks like any other.
#[test]
fn lost_requests_of_a_recording_are_reported_even_with_quiet() {
    let directory = Directory::new("half");
    let half = directory.file("half.ascii", "0.5 0 100 8 1\n0.6 0 99999999999 8 1\n0.7 0 200 8 1\n");
    let output = dwell(&["compare", &half, "-s", "noop", "-q"]);
    let message = words(&output.stderr);
    assert!(output.status.success() && message.lines().count() == 1, "{message}");
    assert!(message.contains("1 beyond the end of the device, left out"), "{message}");
    let report = prints_json(&["compare", &half, "-s", "noop", "-q", "--json"]);
    assert!(report["notes"].to_string().contains("beyond the end"), "{report}");
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
fn an_option_that_is_mistyped_is_answered_with_the_nearest() {
    let directory = Directory::new("mistyped");
    let job = directory.file("job.fio", "[reader]\nrw=read\nsize=1m\nioddepth=3\n");
    fails(&["compare", &job], 6, &["job.fio:4", "ioddepth=3", "did you mean 'iodepth'?"]);
}

#[test]
fn a_job_file_is_detected_by_its_content() {
    let directory = Directory::new("job-name");
    let job = directory.file("readers.job", "; mine\n[global]\ndirect=1\nsize=64k\n[a]\nrw=read\n");
    // On the machine the file system's own blocks are read as well.
    for (command, blocks) in [("compare", 0), ("run", 2)] {
        let found = prints_json(&[command, &job, "-s", "noop", "--json", "--quiet"]);
        assert_eq!(found["runs"][0]["bytes"], (64 << 10) + blocks * 4096, "{command}");
    }
    let log = directory.path("log.fio");
    prints(&["trace", "convert", &recording("pgbench"), &log, "--to-format", "fio"]);
    let found = prints_json(&["compare", &log, "-s", "noop", "--json", "--quiet"]);
    assert_eq!(found["runs"][0]["requests"], 26_020);
}

#[test]
fn a_recording_in_place_of_a_script_is_reported() {
    let directory = Directory::new("no-script");
    let text = directory.file("io.ascii", "0.5 0 1000 8 1\n1.5 0 2000 8 0\n");
    let message = "is a recording (DiskSim ASCII), not a script; replay it with 'dwell compare'";
    fails(&["run", &text], 6, &[message]);
    fails(&["run", &recording("pgbench")], 6, &["is a recording (ftrace text)"]);
    let neither = directory.file("script.toml", "about 3\n");
    fails(&["run", &neither], 6, &["script.toml:1: "]);
}

#[test]
fn a_job_file_runs() {
    let directory = Directory::new("job-runs");
    let job = directory.file("job.fio", "[reader]\nrw=randread\nbs=4k\nsize=64m\nio_size=128k\n");
    let found = prints_json(&["compare", &job, "-s", "noop", "--json", "--quiet"]);
    assert_eq!(found["runs"][0]["bytes"], 128 << 10);
}

#[test]
fn one_request_is_one_request() {
    let words = dwell_reads("0.5 0 1000 8 1\n1.5 0 2000 8 1\n2.5 0 1000 8 0\n", &["trace", "info", "-"]);
    assert!(words.contains("reads: 2 requests, ") && words.contains("writes: 1 request, "), "{words}");
}

#[test]
fn a_conversion_replaces_a_file_only_if_it_may() {
    let directory = Directory::new("converted-over");
    let from = directory.file("io.ascii", "0.5 0 1000 8 1\n1.5 0 2000 8 0\n");
    let to = directory.path("io.dwell");
    let convert = ["trace", "convert", &from, &to, "--to-format", "dwell"];
    prints(&convert);
    fs::write(&to, "mine").expect("it can be written");
    fails(&convert, 2, &["io.dwell: exists", "--overwrite"]);
    assert_eq!(fs::read_to_string(&to).expect("it is there"), "mine");
    prints(&[&convert[..], &["--overwrite"]].concat());
    assert!(fs::read_to_string(&to).expect("it is there").starts_with("# dwell recording"));
}

/// The figures of a device among several are those of the device alone.
#[test]
fn each_device_of_a_recording_has_its_own_figures() {
    let directory = Directory::new("devices");
    let line = |n: u64| {
        let (at, device) = (n * 1_000_000, ["8,0", "8,16", "8,0", "8,32"][n as usize % 4]);
        format!("{at} 400000 {device} {} {} 4096 - {} a\n", ["R", "W"][n as usize % 2], n * 4096, n % 3)
    };
    let recording = format!("# dwell recording 1\n{}", (0..400).map(line).collect::<String>());
    let file = directory.file("three.dwell", &recording);
    let all = prints_json(&["trace", "info", &file, "--json"]);
    let devices = all["devices"].as_array().expect("devices");
    assert_eq!(devices.len(), 3);
    for device in devices {
        let name = device["device"].as_str().expect("a name");
        let alone = prints_json(&["trace", "info", &file, "--json", "--device", name]);
        for (key, value) in alone["info"].as_object().expect("an object") {
            assert_eq!(&device[key], value, "{name}, {key}");
        }
    }
    // The same as a table: a line for each device.
    let columns = |text: &str| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
    };
    let csv = columns(&prints(&["trace", "info", &file, "--csv"]).replace('"', ""));
    assert!(csv.len() == 4 && csv[0][0] == "device" && csv[0][1] == "reads", "{csv:?}");
    for (line, device) in csv[1..].iter().zip(devices) {
        // A device's name contains a comma.
        assert_eq!(format!("{},{}", line[0], line[1]), device["device"].as_str().expect("a name"));
        let value =
            |name: &str| line[csv[0].iter().position(|head| head == name).expect("a column") + 1].clone();
        assert_eq!(value("reads"), device["reads"]["requests"].to_string());
        let p99 = device["read_latency"]["p99_ns"].as_u64().map(|ns| ns.to_string());
        assert_eq!(value("read_p99_ns"), p99.unwrap_or_default());
        assert_eq!(value("sequential").parse::<f64>().ok(), device["sequential"].as_f64());
    }
    let alone = columns(&prints(&["trace", "info", &file, "--csv", "--device", "8,16"]));
    assert_eq!(alone.len(), 2);
    let markdown = prints(&["trace", "info", &file, "--markdown"]);
    assert!(markdown.contains("\n| device | reads |") && markdown.contains("\n| 8,32 | "), "{markdown}");
    let markdown = prints(&["trace", "info", &file, "--markdown", "--device", "8,16"]);
    assert!(
        markdown.contains("\n\n- reads: 0 requests") && markdown.contains("\n| latency | requests |"),
        "{markdown}"
    );
    assert!(!markdown.contains("\n  "), "{markdown}");
    for both in [["--csv", "--json"], ["--wide", "--markdown"]] {
        let arguments = [&["trace", "info", &file][..], &both].concat();
        assert_eq!(dwell(&arguments).status.code(), Some(2), "{both:?}");
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
fn trace_patterns_prints_the_kinds_of_load() {
    let file = recording("two-greps-and-a-copy");
    let found = prints_json(&["trace", "patterns", "--window", "500ms", "--json", &file]);
    let number = |value: &Value| value.as_u64().expect("a number");
    let kinds = found["kinds"].as_array().expect("kinds");
    let of_kinds: u64 = kinds.iter().map(|kind| number(&kind["windows"])).sum();
    assert!(number(&found["windows"]) > 2 && of_kinds == number(&found["windows"]), "{found}");
    assert!(kinds.iter().all(|kind| !kind["asked"].as_array().expect("words").is_empty()), "{found}");
    let hits = found["clusters"]["hit_ratio"].as_f64().expect("a ratio");
    let missed = number(&found["windows"]) as f64 * (1.0 - hits);
    assert!(
        (missed - number(&found["clusters"]["count"]) as f64).abs() < 1e-6,
        "each miss makes one: {found}"
    );
    assert!(prints(&["trace", "patterns", &file]).contains("reads of up to"));
    fails(&["trace", "patterns", "--window", "0s", &file], 2, &["--window"]);
}

#[test]
fn a_converted_recording_has_the_same_requests() {
    let directory = Directory::new("converted");
    let original = recording("two-greps-and-a-copy");
    let info = |file: &str| prints_json(&["trace", "info", "--json", file])["info"].take();
    let before = info(&original);
    for format in
        ["fio", "blkparse", "disksim", "ftrace", "blktrace", "msr", "alibaba", "spc", "vscsi", "srt", "mqsim"]
    {
        let file = directory.path(&format!("converted.{format}"));
        prints(&["trace", "convert", &original, &file, "--to-format", format]);
        let after = info(&file);
        assert_eq!(after["reads"], before["reads"], "{format}");
        assert_eq!(after["writes"], before["writes"], "{format}");
        assert_eq!(after["end_bytes"], before["end_bytes"], "{format}");
    }
    let to = directory.path("converted.xls");
    fails(
        &["trace", "convert", &original, &to, "--to-format", "xls"],
        2,
        &["does not write 'xls'", "blkparse", "tencent"],
    );
    let lie = directory.path("copy.bz2");
    fails(&["trace", "convert", &original, &lie, "--to-format", "dwell"], 2, &["does not write .bz2"]);
    assert!(!Path::new(&lie).exists());
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
fn a_pipe_is_a_recording_and_a_folder_is_an_error() {
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
fn options_of_recordings_are_rejected_for_other_workloads() {
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
fn a_recording_that_does_not_end_can_be_interrupted() {
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
    // It reads until a signal requests its end, or until the other end of the pipe is closed.
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

/// A part of a recording would look like a recording.
#[test]
fn an_interrupted_conversion_keeps_the_former_file() {
    let directory = Directory::new("interrupted");
    let kept = directory.file("kept.dwell", "what was there");
    let mut child = Command::new(env!("CARGO_BIN_EXE_dwell"))
        .args(["trace", "convert", "/dev/stdin", &kept, "--to-format", "dwell", "--overwrite"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let id = child.id().to_string();
    let mut stdin = child.stdin.take().expect("a pipe");
    for line in 0..200_000 {
        stdin.write_all(format!("{line}.5 0 1000 8 1\n").as_bytes()).expect("it reads");
    }
    assert!(Command::new("sh").args(["-c", "kill -INT $0", &id]).status().expect("sh").success());
    // It may have ended.
    let _ = (200_000..1_200_000).try_for_each(|line| writeln!(stdin, "{line}.5 0 1000 8 1"));
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", words(&output.stderr));
    assert_eq!(fs::read_to_string(&kept).expect("it is there"), "what was there");
    assert_eq!(fs::read_dir(directory.path("")).expect("a directory").count(), 1, "no other file");
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
fn the_advice_of_an_error_works() {
    let directory = Directory::new("advised");
    let whole = directory.file("whole.trace", "0 0 100 8 1\n1 0 108 8 0\n2 0 200 8 1\n");
    let compare = ["compare", &whole, "-s", "noop", "--json"];
    let notes = |arguments: &[&str]| prints_json(arguments)["notes"].to_string();
    assert!(notes(&compare).contains("name the format if not"));
    assert!(
        notes(&[&compare[..], &["--format", "disksim"]].concat()).contains("DiskSim ASCII (as specified)")
    );
}

#[test]
fn merged_devices_are_reported() {
    let directory = Directory::new("several");
    let several = directory.file("several.ascii", "0.5 2 1000 8 1\n1.5 0 2000 8 0\n");
    fails(&["compare", &several, "-s", "noop"], 6, &["several devices", "--device"]);
    let found = prints_json(&["compare", &several, "--device", "all", "-s", "noop", "--json"]);
    assert!(found["notes"].to_string().contains("its 2 devices are replayed on one"), "{}", found["notes"]);
}

#[test]
fn latency_percentiles_and_the_parts_of_a_request_are_printed() {
    let file = recording("pgbench");
    let text = prints(&["trace", "info", &file]);
    for part in ["p99.9", "device (D2C)", "queue (Q2D): mean", "requests in flight on average"] {
        assert!(text.contains(part), "'{part}': {text}");
    }
    // A name is not broken.
    let is_narrow = |line: &str| line.chars().count() <= 80 || !line.trim().contains(' ');
    assert!(text.lines().all(is_narrow), "{text}");
    let found = prints_json(&["trace", "info", "--json", &file]);
    let mean = |of: &Value| of["mean_ns"].as_f64().expect("a mean");
    let (all, device) = (mean(&found["info"]["latency"]), mean(&found["parts"]["d2c"]));
    let queue = found["parts"]["q2d_mean_ns"].as_f64().expect("a mean");
    assert!(queue > 0.0 && (all - device - queue).abs() < 1e-3 * all, "{}", found["parts"]);
}

#[test]
fn the_devices_of_a_recording_of_several_are_listed() {
    let directory = Directory::new("listed");
    let text = "0.5 2 1000 8 1\n1.5 0 2000 8 0\n2.5 1 3000 8 1\n3.5 0 3008 8 1\n";
    let file = directory.file("several.ascii", text);
    let words = prints(&["trace", "info", &file]);
    assert!(words.contains("3 devices") && words.contains("--device NAME"), "{words}");
    let found = prints_json(&["trace", "info", "--json", &file]);
    let devices = found["devices"].as_array().expect("devices");
    let names: Vec<&str> = devices.iter().filter_map(|device| device["device"].as_str()).collect();
    assert_eq!(names, ["2", "0", "1"]);
    assert_eq!(devices[1]["reads"]["requests"], 1);
    assert_eq!(devices[1]["writes"]["requests"], 1);
    assert_eq!(
        prints_json(&["trace", "info", "--device", "1", "--json", &file])["info"]["reads"]["requests"],
        1
    );
}

/// Regression: the columns of D2C were empty in the list of devices, where '--device' filled them.
#[test]
fn the_parts_of_a_request_are_the_same_in_the_list_of_devices_and_for_one() {
    // The devices' first requests are created and issued in different orders.
    let mut text = "# tracer: nop\n".to_owned();
    for n in 0..20 {
        let (at, sector) = (100 + n, 4096 * (n + 1));
        for (time, event, device) in [
            ("001000", "block_rq_insert", "8,16"),
            ("001200", "block_rq_insert", "8,0"),
            ("001300", "block_rq_issue", "8,0"),
            ("001500", "block_rq_issue", "8,16"),
            ("002100", "block_rq_complete", "8,16"),
            ("004300", "block_rq_complete", "8,0"),
        ] {
            let bytes = if event == "block_rq_complete" { "" } else { "4096 " };
            text += &format!(
                "  prog-100  [000] .... {at}.{time}: {event}: {device} R {bytes}() {sector} + 8 none,0,0 [prog]\n"
            );
        }
    }
    let directory = Directory::new("parts");
    let file = directory.file("multi.ftrace", &text);
    let all = prints_json(&["trace", "info", "--json", &file]);
    let csv = prints(&["trace", "info", "--csv", &file]);
    let devices = all["devices"].as_array().expect("devices");
    assert_eq!(devices.len(), 2, "{all}");
    for device in devices {
        let name = device["device"].as_str().expect("a name");
        let one = prints_json(&["trace", "info", "--json", "--device", name, &file]);
        assert!(one["parts"]["d2c"].is_object() && device["parts"] == one["parts"], "{device}\n{one}");
        let d2c = |text: &str| {
            let columns = text.lines().next().expect("heads").split(',');
            let first = columns.rev().position(|head| head == "d2c_mean_ns").expect("a column");
            let line =
                text.lines().find(|line| line.starts_with(&format!("\"{name}\""))).expect("the device");
            let cells: Vec<String> = line.split(',').map(str::to_owned).collect();
            cells[cells.len() - 1 - first..].to_vec()
        };
        let alone = d2c(&prints(&["trace", "info", "--csv", "--device", name, &file]));
        assert_eq!((d2c(&csv), alone.iter().all(|cell| !cell.is_empty())), (alone, true), "{csv}");
    }
    let text = prints(&["trace", "info", "--wide", &file]);
    assert!(text.contains("D2C") && text.contains("3.00 ms"), "{text}");
}

/// Regression: an empty file remained, which prevented the next try, and a blktrace that hung was awaited for ever.
#[test]
fn a_recipe_whose_tool_fails_leaves_no_file() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("recipe");
    let recipe = directory.file("blktrace.sh", &prints(&["trace", "recipe", "blktrace"]));
    let bpftrace = directory.file("bpftrace.sh", &prints(&["trace", "recipe", "bpftrace"]));
    let output = directory.path("io.blktrace");
    // Of the kernel's directory, so that the script does not depend on this machine's mounts.
    let kernel = directory.path("debug");
    fs::create_dir_all(format!("{kernel}/block")).expect("a directory");
    let text = fs::read_to_string(&recipe).expect("the recipe");
    directory.file("blktrace.sh", &text.replace("/sys/kernel/debug", &kernel));
    let run = |script: &str, tool: &str, body: &str| {
        let program = directory.file(tool, &format!("#!/bin/sh\n{body}\n"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the mode");
        let path = format!("{}:{}", directory.path(""), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args([script, "/dev/null", "0", &output]).env("PATH", path);
        let ended = shell.output().expect("a shell");
        (ended.status.code(), words(&ended.stderr), Path::new(&output).exists())
    };
    let (code, error, exists) = run(&recipe, "blktrace", "echo part; exit 3");
    assert!(code == Some(1) && !exists && error.contains("was removed"), "{error}");
    let begun = std::time::Instant::now();
    let (code, error, exists) = run(&recipe, "blktrace", "exec sleep 100");
    assert!(code == Some(1) && !exists && error.contains("did not end within 5 s"), "{error}");
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    let (code, _, exists) = run(&recipe, "blktrace", "case $* in *-k*) ;; *) echo events ;; esac");
    assert_eq!((code, exists), (Some(0), true));
    fs::remove_file(&output).expect("the output");
    fs::remove_dir_all(&kernel).expect("the directory");
    let (code, error, exists) = run(&recipe, "blktrace", "echo events");
    assert!(code == Some(4) && !exists && error.contains("mount -t debugfs"), "{error}");
    fs::create_dir_all(directory.path("null")).expect("a directory");
    directory.file("null/dev", "1:3");
    let text = fs::read_to_string(&bpftrace).expect("the recipe");
    directory.file("bpftrace.sh", &text.replace("/sys/class/block", &directory.path("")));
    let (code, error, exists) = run(&bpftrace, "bpftrace", "echo part >$2; exit 3");
    assert!(code == Some(1) && !exists && error.contains("was removed"), "{error}");
}

/// Regression: the tools were in another process group than the shell, which Ctrl-C did not reach, and a part of a file remained.
#[test]
fn a_recipe_ends_with_its_tool_at_ctrl_c() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    let directory = Directory::new("recipe-ctrl-c");
    let tool = |name: &str, body: &str| {
        let program = directory.file(name, &format!("#!/bin/sh\n{body}\n"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the mode");
    };
    let started = directory.path("started");
    let endless = format!("echo part; echo $$ >{started}.new; mv {started}.new {started}; exec sleep 50");
    tool("blktrace", &format!("case $* in *-k*) ;; *) {endless} ;; esac"));
    tool("cat", &format!("case $1 in */trace_pipe) {endless} ;; *) exec /bin/cat \"$@\" ;; esac"));
    // The kernel's directories disappear with their files.
    tool("rmdir", "exec rm -r \"$@\"");
    for below in ["debug/block", "tracing/instances", "null"] {
        fs::create_dir_all(directory.path(below)).expect("a directory");
    }
    directory.file("null/dev", "1:3");
    for name in ["blktrace", "ftrace"] {
        let _ = fs::remove_file(&started);
        let text = prints(&["trace", "recipe", name])
            .replace("/sys/kernel/debug", &directory.path("debug"))
            .replace("/sys/kernel/tracing", &directory.path("tracing"))
            .replace("/sys/class/block", &directory.path(""));
        let recipe = directory.file(&format!("{name}.sh"), &text);
        let output = directory.path(&format!("io.{name}"));
        let path = format!("{}:{}", directory.path(""), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("env");
        // A caller in the background may ignore SIGINT.
        shell.args(["--default-signal=INT", "sh", &recipe, "/dev/null", "40", &output]).env("PATH", path);
        let mut shell = shell.process_group(0).spawn().expect("a shell");
        let begun = std::time::Instant::now();
        while !Path::new(&started).exists() && begun.elapsed().as_secs() < 30 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let pid = fs::read_to_string(&started).expect("the tool started");
        let group = format!("-{}", shell.id());
        assert!(Command::new("kill").args(["-INT", "--", &group]).status().expect("kill").success());
        let status = shell.wait().expect("the shell");
        assert!(begun.elapsed().as_secs() < 35, "{name}: {:?}", begun.elapsed());
        assert_eq!(status.code(), Some(130), "{name}: {status} {:?}", status.signal());
        assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "{name}: the tool runs");
        // Lines of the tracer are complete, and an end of blktrace's binary events may not be.
        assert_eq!(Path::new(&output).exists(), name == "ftrace", "{name}");
    }
    assert_eq!(fs::read_dir(directory.path("tracing/instances")).expect("a directory").count(), 0);
}

#[test]
fn flushes_have_latencies() {
    let directory = Directory::new("flushes");
    let text = "# dwell recording 1\n0 1000000 8,0 WS 0 4096 - 1 db\n2000000 5000000 8,0 F 0 0 - 1 db\n";
    let file = directory.file("flushes.dwell", text);
    let info = prints_json(&["trace", "info", &file, "--json"]);
    assert_eq!(info["info"]["flush_latency"]["max_ns"], 5_000_000, "{info}");
    let table = prints(&["trace", "info", &file]);
    let row = table.lines().find(|line| line.trim_start().starts_with("flushes  ")).unwrap_or_default();
    assert!(row.ends_with("5.00 ms"), "{table}");
    // Regression: the fsyncs of a journal are writes with a preflush, whose latency was that of all writes only.
    let commit = format!("{text}8000000 20000000 8,0 FWSM 8192 4096 - 1 jbd2\n");
    let file = directory.file("commits.dwell", &commit);
    let info = prints_json(&["trace", "info", &file, "--json"]);
    assert_eq!(info["info"]["preflush_latency"]["max_ns"], 20_000_000, "{info}");
    let table = prints(&["trace", "info", &file]);
    let row = table.lines().find(|line| line.trim_start().starts_with("with preflush  ")).unwrap_or_default();
    assert!(row.ends_with("20.0 ms"), "{table}");
    assert!(prints(&["trace", "info", &file, "--csv"]).contains("preflush_p99_ns"));
}

/// Regression: a line break in a name was printed as one.
#[test]
fn an_error_is_one_line_whatever_its_names() {
    for command in
        [&["trace", "info", "a\nb"][..], &["advise", "/dev/a\nb"], &["doctor", "a\nb"], &["top", "a\nb"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_dwell")).args(command).output().expect("dwell");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains("a\\nb"), "{command:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{command:?}: {message}");
    }
}
