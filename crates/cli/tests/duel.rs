//! A small duel on this kernel, and its cleanup in every case.

mod schema;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Loop devices are the machine's: one test at a time counts them.
static MACHINE: Mutex<()> = Mutex::new(());

/// Exclusive use of the machine for a duel; `None`, with a message, if it cannot run duels.
fn machine() -> Option<MutexGuard<'static, ()>> {
    let nodes = ["/dev/fuse", "/dev/loop-control"].iter().all(|node| Path::new(node).exists());
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t0"));
    if !nodes || !root {
        eprintln!("SKIPPED: a duel needs root, /dev/fuse and /dev/loop-control");
        return None;
    }
    Some(MACHINE.lock().unwrap_or_else(PoisonError::into_inner))
}

fn duel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dwell"));
    command.args(["duel", "--repeat", "1", "--json", "--quiet"]).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Mounts, loop devices and files of that process's duel, none of which may remain after it.
fn left_of(pid: u32) -> Vec<String> {
    let mark = format!("dwell-duel-{pid}");
    let mut left = Vec::new();
    for device in fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if backing.contains(&mark) {
            left.push(format!("{}: {}", device.path().display(), backing.trim()));
        }
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    left.extend(mounts.lines().filter(|line| line.contains(&mark)).map(str::to_owned));
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        if words.starts_with(env!("CARGO_BIN_EXE_dwell")) && words.contains("duel-helper") {
            left.push(format!("process {}", process.file_name().to_string_lossy()));
        }
    }
    for directory in ["/dev/shm", "/tmp"].map(Path::new) {
        let path = directory.join(&mark);
        left.extend(path.exists().then(|| path.display().to_string()));
    }
    left
}

/// Waits until nothing is left, which may take a moment when others had to notice first.
fn nothing_left(pid: u32) {
    let began = Instant::now();
    loop {
        let left = left_of(pid);
        if left.is_empty() {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "left behind: {left:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn finish(child: Child) -> (u32, Output) {
    let pid = child.id();
    (pid, child.wait_with_output().unwrap())
}

/// In the middle of tearing down, that would leave the rest standing.
#[test]
fn a_helper_with_closed_outputs_continues() {
    let (unread, errors) = std::os::unix::net::UnixStream::pair().unwrap();
    drop(unread);
    let mut helper = Command::new(env!("CARGO_BIN_EXE_dwell"));
    helper.args(["duel-helper", "no role"]).stderr(Stdio::from(std::os::fd::OwnedFd::from(errors)));
    assert_eq!(helper.status().unwrap().code(), Some(2), "its answer, not a panic's");
}

#[test]
fn schedulers_are_compared_and_nothing_is_left() {
    let Some(_machine) = machine() else { return };
    let arguments = ["-b", "par-read", "--for", "1s", "-s", "kernel:mq-deadline", "-s", "stream(deadline)"];
    let (pid, output) = finish(duel(&arguments).spawn().unwrap());
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::check("duel", "Results of 'dwell duel --json'", std::slice::from_ref(&report));
    let comparisons = report["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 2, "programs shown and hidden");
    for comparison in comparisons {
        for entry in comparison["entries"].as_array().unwrap() {
            let tasks = entry["runs"][0]["tasks"].as_array().unwrap();
            let alone = entry["alone"] == true;
            assert_eq!(tasks.len(), if alone { 1 } else { 4 }, "{entry}");
            assert!(
                tasks.iter().all(|task| task["bytes"].as_u64() > Some(0)),
                "somebody got nothing: {entry}"
            );
            assert!(entry["model"]["megabytes_per_second"].as_f64() > Some(0.0), "{entry}");
        }
        let rate = |name| {
            let entries = comparison["entries"].as_array().unwrap();
            let entry = entries.iter().find(|entry| entry["scheduler"] == name && entry["alone"] == false);
            let entry = entry.unwrap();
            entry["megabytes_per_second"]["median"].as_f64().unwrap()
        };
        // About fifty times on a quiet machine; with other load, waits vary too much for an assertion.
        assert!(rate("stream(deadline)") > 1.5 * rate("kernel:mq-deadline"), "{comparison}");
    }
    nothing_left(pid);
}

#[test]
fn one_request_at_a_time_is_made_by_parking() {
    let Some(_machine) = machine() else { return };
    let arguments = ["-b", "par-read", "--for", "200ms", "--depth", "1", "--programs", "shown"];
    let elevators = ["-s", "kernel:none", "-s", "kernel:bfq"];
    let (pid, output) = finish(duel(&[&arguments[..], &elevators].concat()).spawn().unwrap());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    nothing_left(pid);
}

#[test]
fn programs_on_file_systems_run_too() {
    let Some(_machine) = machine() else { return };
    let small =
        ["-b", "greps", "-b", "postmark", "--tree-files", "40", "--transactions", "20", "--for", "100ms"];
    let who = ["--programs", "hidden", "-s", "kernel:mq-deadline", "-s", "noop"];
    let (pid, output) = finish(duel(&[&small[..], &who].concat()).spawn().unwrap());
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for comparison in report["comparisons"].as_array().unwrap() {
        for entry in comparison["entries"].as_array().unwrap() {
            let tasks = entry["runs"][0]["tasks"].as_array().unwrap();
            let operations = if comparison["benchmark"] == "greps" { 40 } else { 20 };
            assert!(tasks.iter().all(|task| task["operations"] == operations), "{entry}");
        }
    }
    nothing_left(pid);
}

#[test]
fn a_killed_duel_leaves_nothing() {
    let Some(_machine) = machine() else { return };
    for (after, who) in [(1500, "kernel:bfq"), (2500, "stream(deadline)")] {
        let mut child = duel(&["-b", "par-read-buffered", "--for", "60s", "--programs", "hidden", "-s", who])
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(after));
        assert!(!left_of(child.id()).is_empty(), "it should be at work by now");
        child.kill().unwrap();
        child.wait().unwrap();
        nothing_left(child.id());
    }
}

/// fio's jobs are in sessions of their own, which no signal to its group reaches, and may have begun just when it is ended.
#[test]
fn a_job_of_fio_ends_when_the_duel_is_interrupted() {
    let Some(_machine) = machine() else { return };
    if Command::new("fio").arg("--version").output().is_err() {
        return eprintln!("SKIPPED: fio is not installed");
    }
    let job = std::env::temp_dir().join(format!("dwell-duel-test-{}.fio", std::process::id()));
    fs::write(&job, "[a]\nrw=randread\nsize=1g\ndirect=1\ntime_based\nruntime=60\n").unwrap();
    let arguments = ["--job", job.to_str().unwrap(), "--programs", "shown", "-s", "stream(deadline)"];
    let child = duel(&arguments).spawn().unwrap();
    thread::sleep(Duration::from_millis(2500));
    let began = Instant::now();
    Command::new("sh").args(["-c", "kill -INT $0", &child.id().to_string()]).status().unwrap();
    let (pid, output) = finish(child);
    assert!(began.elapsed() < Duration::from_secs(15), "it took {:?}", began.elapsed());
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    nothing_left(pid);
    fs::remove_file(job).unwrap();
}

#[test]
fn a_missing_job_file_is_reported_before_a_run() {
    let (_, output) = finish(duel(&["-b", "par-read", "--job", "/nonexistent.fio"]).spawn().unwrap());
    assert_eq!(output.status.code(), Some(6));
    assert!(output.stdout.is_empty() && String::from_utf8_lossy(&output.stderr).contains("/nonexistent.fio"));
}

#[test]
fn a_contestant_that_does_not_exist_is_refused_before_anything_is_run() {
    let Some(_machine) = machine() else { return };
    for (contestant, wrong) in [("kernel:cfq", "cfq"), ("kernel:mq-deadline{nonsense=1}", "nonsense")] {
        let (pid, output) =
            finish(duel(&["-b", "par-read", "-s", "noop", "-s", contestant]).spawn().unwrap());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(output.stdout.is_empty() && message.contains(wrong), "{message}");
        nothing_left(pid);
    }
}
