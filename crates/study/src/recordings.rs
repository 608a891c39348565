//! Recordings in Parquet: conversion, and one file per device of a recording of many.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use evaluation::Error;
use evaluation::input::read_batch;
use evaluation::spool::StepFile;
use traces::write::{Encoders, GroupStore, Written};
use traces::{DeviceId, Record, Recording};
use workloads::replay::Spill;

use crate::behind::Behind;
use crate::unfinished;

/// Writes the rest of a recording to a Parquet file, which appears under its name when it is complete. A pipe or a device (`/dev/null`) is written
/// directly.
///
/// # Errors
/// The recording cannot be read, or the file cannot be written, or Ctrl-C: then there is no file.
pub fn convert(recording: &mut Recording, to: &Path) -> Result<Written, Error> {
    let mut sinks = Sinks::new(recording, Target::File(to));
    let written = write(recording, &mut sinks).and_then(|()| sinks.finish());
    written.inspect_err(|_| sinks.remove())
}

/// Writes each device of a recording to the file `NAME.parquet` of a folder, in one pass. The files appear when all are complete. The recording
/// may be [ordered by device](Recording::ordered_by_device).
///
/// # Errors
/// As [`convert`]; or a file of this name exists. A folder that did not exist before is removed.
pub fn split(recording: &mut Recording, folder: &Path) -> Result<(Written, usize), Error> {
    if folder.metadata().is_ok_and(|found| !found.is_dir()) {
        return Err(Error::Usage(format!("{}: is a file; name an empty folder", folder.display())));
    }
    let created: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    let failed = |error| Error::written(folder.display(), &error);
    fs::create_dir_all(folder).map_err(failed)?;
    let _lock = unfinished::clear(folder, ".parquet").map_err(failed)?;
    let mut sinks = Sinks::new(recording, Target::Folder(folder));
    let written = write(recording, &mut sinks).and_then(|()| sinks.finish());
    written.map(|written| (written, sinks.files.len())).inspect_err(|_| {
        sinks.remove();
        for folder in created {
            // It has files of others, and stays.
            let _ = fs::remove_dir(folder);
        }
    })
}

fn write(recording: &mut Recording, sinks: &mut Sinks<'_>) -> Result<(), Error> {
    let mut records = Vec::new();
    while read_batch(recording, &mut records)? {
        sinks.write(&records, recording)?;
    }
    Ok(())
}

/// Descriptions of row groups: the first in memory, the others in an unlinked file of the temporary directory.
#[derive(Default)]
struct GroupFile {
    first: Mutex<Vec<u8>>,
    others: StepFile,
}

/// Bytes of descriptions in memory: those of 50,000 groups.
const GROUP_BYTES: usize = 8 << 20;

impl GroupFile {
    fn first(&self) -> MutexGuard<'_, Vec<u8>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GroupStore for GroupFile {
    fn append(&self, bytes: &[u8]) -> io::Result<u64> {
        let mut first = self.first();
        let kept = first.len();
        if kept < GROUP_BYTES {
            first.extend_from_slice(bytes);
            return Ok(kept as u64);
        }
        let at = self.others.append(bytes).map_err(|error| {
            let folder = std::env::temp_dir();
            io::Error::new(error.kind(), format!("the index in {}: {error}; set TMPDIR", folder.display()))
        })?;
        Ok(kept as u64 + at)
    }

    fn read(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        let first = self.first();
        match from.checked_sub(first.len() as u64) {
            Some(at) => self.others.read(at, into),
            None => {
                let kept = first.get(from as usize..from as usize + into.len());
                into.copy_from_slice(kept.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// Where records go.
#[derive(Clone, Copy)]
enum Target<'a> {
    File(&'a Path),
    Folder(&'a Path),
}

/// The files of a target.
struct Sinks<'a> {
    target: Target<'a>,
    comment: String,
    /// From the first record on.
    writer: Option<Writer>,
    /// By device, whether it has a file.
    opened: Vec<bool>,
    /// Final names, with the temporary names until the end.
    files: HashMap<PathBuf, Option<Arc<Path>>>,
    /// By name, how often it was the name of another device.
    repeated: HashMap<String, u32>,
}

type Sink = Box<dyn Write + Send>;
type Writer = traces::write::ParquetWriter<Sink>;

/// A file that is open only while bytes are appended: a fleet has more volumes than a process may open files.
struct Appended {
    path: Arc<Path>,
    /// The next bytes, of which there are few.
    kept: Vec<u8>,
    /// Whether the file exists: the first bytes create it.
    is_created: bool,
}

/// Upper bound for [`Appended::kept`]. Tens of thousands of volumes each have them.
const KEPT: usize = 256;

impl Appended {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let is_first = !std::mem::replace(&mut self.is_created, true);
        let mut file = OpenOptions::new().append(true).create_new(is_first).open(&self.path)?;
        file.write_all(&std::mem::take(&mut self.kept))?;
        file.write_all(bytes)
    }
}

impl Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.kept.len() + bytes.len() > KEPT {
            self.append(bytes)?;
        } else {
            self.kept.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.kept.is_empty() { Ok(()) } else { self.append(&[]) }
    }
}

/// Letters of a device's name in that of its file. File systems permit 255 bytes, of which `-65536.parquet.4194304-65536.tmp` needs 32.
const NAME: usize = 200;

fn on_threads(writer: Writer) -> Writer {
    let encoders = Encoders::new(available_parallelism().map_or(1, usize::from));
    writer.with_encoders(Arc::new(encoders)).with_group_store(Arc::<GroupFile>::default())
}

fn exists(path: &Path) -> Error {
    Error::Usage(format!("{}: exists; name an empty folder", path.display()))
}

/// Whether a path names something that a file must not replace, such as `/dev/null` or a pipe.
fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

impl<'a> Sinks<'a> {
    fn new(recording: &Recording, target: Target<'a>) -> Self {
        let comment = format!("converted from {}", recording.interpretation().format);
        Self {
            target,
            comment,
            writer: None,
            opened: Vec::new(),
            files: HashMap::new(),
            repeated: HashMap::new(),
        }
    }

    fn write(&mut self, records: &[Record], recording: &Recording) -> Result<(), Error> {
        let devices = recording.devices();
        let is_split = matches!(self.target, Target::Folder(_));
        let has_new = devices.len() > self.opened.len();
        self.opened.resize(devices.len(), false);
        for record in records.iter().filter(|_| is_split) {
            let index = record.device.0 as usize;
            if !std::mem::replace(&mut self.opened[index], true) {
                self.open(record.device, &devices[index].name)?;
            }
        }
        if self.writer.is_none() {
            self.open(DeviceId(0), "")?;
        }
        let name = self.name();
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if has_new {
            writer.meet(devices.iter().map(|device| &device.name));
        }
        let written = writer.write_batch(records, |pid| recording.process_name(pid));
        written.map_err(|error| Error::written(&name, &error))
    }

    fn name(&self) -> std::path::Display<'a> {
        match self.target {
            Target::File(path) | Target::Folder(path) => path.display(),
        }
    }

    /// Opens the file of a device, or the only one.
    fn open(&mut self, device: DeviceId, name: &str) -> Result<(), Error> {
        let path = match self.target {
            Target::File(path) => path.to_owned(),
            Target::Folder(folder) => self.file_of(folder, name),
        };
        let written = |error: io::Error| Error::written(path.display(), &error);
        let (sink, temporary) = self.sink(&path)?;
        // Removed from now on, if an error follows.
        self.files.insert(path.clone(), temporary);
        match (&mut self.writer, self.target) {
            (Some(writer), _) => writer.open(device, sink).map_err(written)?,
            (None, Target::File(_)) => {
                self.writer = Some(Writer::new(sink, &self.comment).map(on_threads).map_err(written)?);
            }
            (None, Target::Folder(_)) => {
                let mut writer = Writer::split(&self.comment).map(on_threads).map_err(written)?;
                writer.open(device, sink).map_err(written)?;
                self.writer = Some(writer);
            }
        }
        Ok(())
    }

    /// The file of a device. The names of several devices may have one form in letters and a length that every file system has: the second is
    /// numbered.
    fn file_of(&mut self, folder: &Path, device: &str) -> PathBuf {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_,+".contains(c);
        let mut name: String = device.chars().map(|c| if is_plain(c) { c } else { '_' }).take(NAME).collect();
        if name.is_empty() {
            name.push('_'); // The file would be hidden.
        }
        let mut path = folder.join(format!("{name}.parquet"));
        while self.files.contains_key(&path) {
            let number = self.repeated.entry(name.clone()).or_insert(1);
            *number += 1;
            path = folder.join(format!("{name}-{number}.parquet"));
        }
        path
    }

    /// Where the bytes of a new file go, and its temporary name.
    fn sink(&self, path: &Path) -> Result<(Sink, Option<Arc<Path>>), Error> {
        let written = |error: io::Error| Error::written(path.display(), &error);
        match self.target {
            Target::Folder(_) if path.exists() => Err(exists(path)),
            Target::Folder(_) => {
                let path: Arc<Path> = unfinished::name(path).into();
                let file = Appended { path: Arc::clone(&path), kept: Vec::new(), is_created: false };
                Ok((Box::new(file), Some(path)))
            }
            Target::File(_) if is_special(path) => {
                let file = OpenOptions::new().write(true).open(path).map_err(written)?;
                Ok((Box::new(Behind::new(file)), None))
            }
            Target::File(_) => {
                let (file, temporary) = unfinished::create(path).map_err(written)?;
                Ok((Box::new(Behind::new(file)), Some(temporary.into())))
            }
        }
    }

    fn finish(&mut self) -> Result<Written, Error> {
        if let (Target::File(_), None) = (self.target, &self.writer) {
            self.open(DeviceId(0), "")?;
        }
        let written = self.writer.take().map_or(Ok(Written::default()), Writer::finish);
        let written = written.map_err(|error| Error::written(self.name(), &error))?;
        // Another split may have written files since the start: no file then.
        if let (Target::Folder(_), Some(path)) = (self.target, self.files.keys().find(|path| path.exists())) {
            return Err(exists(path));
        }
        for (path, temporary) in &mut self.files {
            if let Some(temporary) = temporary {
                let renamed = match self.target {
                    Target::File(_) => fs::rename(&**temporary, path),
                    Target::Folder(_) => unfinished::rename_to_new(temporary, path),
                };
                renamed.map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => exists(path),
                    _ => Error::written(path.display(), &error),
                })?;
            }
            *temporary = None;
        }
        Ok(written)
    }

    /// Removes incomplete files.
    fn remove(&mut self) {
        self.writer = None;
        for temporary in self.files.values().flatten() {
            let _ = fs::remove_file(temporary);
        }
    }
}
