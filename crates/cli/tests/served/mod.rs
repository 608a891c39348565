//! A block device of `dwell serve` for the tests of commands that look at a live kernel's devices.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::fs::OFlags;
use serde_json::Value;

/// A server of a memory device, attached; ended when this is dropped.
pub struct Served {
    pub server: Child,
    pub node: PathBuf,
    pub directory: PathBuf,
}

pub fn dwell(arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_dwell"));
    program.args(arguments);
    program
}

pub fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

impl Served {
    pub fn new(test: &str, more: &[&str]) -> Option<Self> {
        let directory =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("live-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let control = directory.join("control");
        let arguments =
            ["serve", "--memory", "--size", "64MiB", "--scheduler", "noop", "--attach", "--control"];
        let mut server = dwell(&arguments);
        server.arg(&control).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = server.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            eprintln!("SKIPPED: {}", words(&server.wait_with_output().unwrap()));
            let _ = fs::remove_dir_all(directory);
            return None;
        }
        Some(Self { server, node: PathBuf::from(line.trim()), directory })
    }

    pub fn file(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    /// Reads this many pages with direct I/O.
    pub fn read(&self, pages: u64) {
        read(&self.node, pages);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = dwell(&["ctl", &self.file("control"), "stop"]).output();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Reads pages that are not in a sequence, past the page cache.
pub fn read(node: &Path, pages: u64) {
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let mut page = Page([0; 4096]);
    let file: File =
        OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(node).unwrap();
    (0..pages).for_each(|at| file.read_exact_at(&mut page.0, at * 8192).unwrap());
}

/// The output of a command that must end by itself, while the device is read. `None`, with a message, if the kernel does not allow it.
pub fn printed_while_read(served: &Served, arguments: &[&str]) -> Option<Value> {
    let mut program = dwell(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while program.try_wait().unwrap().is_none() {
        served.read(50);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let output = program.wait_with_output().unwrap();
    if [Some(4), Some(5)].contains(&output.status.code()) {
        eprintln!("SKIPPED: {}", words(&output));
        return None;
    }
    assert!(output.status.success(), "{arguments:?}: {}", words(&output));
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}")))
}

/// A sample with other values in some fields, for a schema that permits both.
pub fn but(sample: &Value, fields: &[(&str, Value)]) -> Value {
    let mut other = sample.clone();
    fields.iter().for_each(|(name, value)| other[*name] = value.clone());
    other
}
