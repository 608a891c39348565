//! Tests of the program: its output, its files and its exit codes.

mod comparison;
mod devices;
mod names;
mod output;
mod paths;
mod recordings;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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

/// The standard output of a run that must succeed.
#[track_caller]
fn prints(arguments: &[&str]) -> String {
    let output = dwell(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", words(&output.stderr));
    words(&output.stdout)
}

/// The standard output of a run that must succeed with `text` on its standard input.
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

/// A run that must end with `code`, nothing on standard output, and one line of error that contains all `parts`.
#[track_caller]
fn fails(arguments: &[&str], code: i32, parts: &[&str]) {
    let output = dwell(arguments);
    let error = words(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(output.stdout.is_empty(), "{arguments:?}: results beside an error");
    assert_eq!(error.lines().filter(|line| line.starts_with("dwell: ")).count(), 1, "{error}");
    for part in parts {
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
