//! The corpus and other recordings, and functions that read them.

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

/// A file of this repository, by its path from the root.
pub(crate) fn repository(path: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A recording whose licence keeps it out of the repository, from the folder `DWELL_SHARED`.
pub(crate) fn external(path: &str) -> Vec<u8> {
    let root =
        std::env::var_os("DWELL_SHARED").expect("DWELL_SHARED names the folder of external recordings");
    let path = PathBuf::from(root).join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
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
