//! What the tests share: the corpus, and reading it.

#![allow(dead_code)]

use std::fmt::Write;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use dwell_traces::{Error, Options, Record, Recording};

/// Every file of the corpus, by path, sorted.
pub(crate) fn corpus() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut files = Vec::new();
    for directory in std::fs::read_dir(&root).expect("the corpus") {
        for file in std::fs::read_dir(directory.expect("a directory").path()).expect("a directory") {
            let path = file.expect("a file").path();
            let name = path.strip_prefix(&root).expect("within").to_string_lossy().into_owned();
            files.push((name, std::fs::read(&path).expect("a file")));
        }
    }
    files.sort();
    files
}

/// Recordings outside the repository, if they are there.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("DWELL_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: {} is not there", path.display());
    None
}

/// Opens bytes.
pub(crate) fn open(name: &str, bytes: &[u8], options: &Options) -> Result<Recording, Error> {
    dwell_traces::open(name, Box::new(Cursor::new(bytes.to_vec())), options)
}

/// Reads bytes to their end.
pub(crate) fn read(name: &str, bytes: &[u8], options: &Options) -> Result<(Vec<Record>, Recording), Error> {
    let mut recording = open(name, bytes, options)?;
    let records = recording.by_ref().collect::<Result<_, _>>()?;
    Ok((records, recording))
}

/// A record as a line.
pub(crate) fn line(record: &Record, recording: &Recording) -> String {
    let mut line = format!("{:?}", record.at);
    let device = &recording.devices()[record.device.0 as usize].name;
    write!(line, " {device} {} {}+{}", record.op, record.offset, record.bytes).expect("memory");
    let flags = record.flags;
    let named = [
        (flags.sync, "sync"),
        (flags.meta, "meta"),
        (flags.ahead, "ahead"),
        (flags.fua, "fua"),
        (flags.preflush, "preflush"),
    ];
    for (_, name) in named.iter().filter(|(set, _)| *set) {
        write!(line, " {name}").expect("memory");
    }
    if let Some(priority) = record.priority {
        write!(line, " {:?},{}", priority.class, priority.level).expect("memory");
    }
    if let Some(pid) = record.process {
        write!(line, " {pid}[{}]", recording.process_name(pid).unwrap_or_default()).expect("memory");
    }
    match record.completed {
        Some(completed) => write!(line, " done {completed:?}").expect("memory"),
        None => line.push_str(" not done"),
    }
    line
}
