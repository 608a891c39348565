//! Recordings in Parquet: conversion, and one file per device of a recording of many.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

use evaluation::Error;
use evaluation::input::read_batch;
use traces::write::{Encoders, Written};
use traces::{DeviceId, Record, Recording};

/// Writes the rest of a recording to a Parquet file, which appears under its name when it is complete.
///
/// # Errors
/// The recording cannot be read, or the file cannot be written, or Ctrl-C: then there is no file.
pub fn convert(recording: &mut Recording, to: &Path) -> Result<Written, Error> {
    let mut sinks = Sinks::new(recording, Target::File(to));
    let written = write(recording, &mut sinks).and_then(|()| sinks.finish());
    written.inspect_err(|_| sinks.remove())
}

/// Writes each device of a recording to the file `NAME.parquet` of a folder, in one pass. The files appear when all are complete.
///
/// # Errors
/// As [`convert`]; a file of this name exists; or more devices than open files.
pub fn split(recording: &mut Recording, folder: &Path) -> Result<(Written, usize), Error> {
    fs::create_dir_all(folder).map_err(|error| Error::written(folder.display(), &error))?;
    let mut sinks = Sinks::new(recording, Target::Folder(folder));
    let written = write(recording, &mut sinks).and_then(|()| sinks.finish());
    written.map(|written| (written, sinks.files.len())).inspect_err(|_| sinks.remove())
}

fn write(recording: &mut Recording, sinks: &mut Sinks<'_>) -> Result<(), Error> {
    let mut records = Vec::new();
    while read_batch(recording, &mut records)? {
        for record in &mut records {
            sinks.write(record, recording)?;
        }
    }
    Ok(())
}

/// Rows in memory, of all files together: 32 to 44 bytes each.
const ROWS_MAX: usize = 1 << 20;

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
    /// By device, or the only one.
    writers: Vec<Option<Writer>>,
    /// Final names; the files have the extension `tmp` until the end.
    files: Vec<PathBuf>,
    /// Rows in memory.
    pending: usize,
    encoders: Arc<Encoders>,
    /// Devices that the only file's writer has.
    devices: usize,
}

type Writer = traces::write::ParquetWriter<BufWriter<File>>;

impl<'a> Sinks<'a> {
    fn new(recording: &Recording, target: Target<'a>) -> Self {
        let comment = format!("converted from {}", recording.interpretation().format);
        let encoders = Arc::new(Encoders::new(available_parallelism().map_or(1, usize::from)));
        Self { target, comment, writers: Vec::new(), files: Vec::new(), pending: 0, encoders, devices: 0 }
    }

    fn write(&mut self, record: &mut Record, recording: &Recording) -> Result<(), Error> {
        let index = match self.target {
            Target::File(_) => 0,
            Target::Folder(_) => record.device.0 as usize,
        };
        if self.writers.len() <= index {
            self.writers.resize_with(index + 1, || None);
        }
        let devices = recording.devices();
        if self.writers[index].is_none() {
            self.open(index, devices.get(index).map_or("", |device| &device.name))?;
        }
        let Some(writer) = &mut self.writers[index] else { return Ok(()) };
        match self.target {
            Target::File(_) if devices.len() > self.devices => {
                self.devices = devices.len();
                writer.meet(devices.iter().map(|device| &device.name));
            }
            Target::File(_) => {}
            // The file has this device only.
            Target::Folder(_) => record.device = DeviceId(0),
        }
        let name = record.process.and_then(|pid| recording.process_name(pid));
        let before = writer.pending();
        let mut written = writer.write(record, name.as_deref());
        self.pending = (self.pending + writer.pending()).saturating_sub(before);
        // A single file's writer has a limit of its own.
        if self.pending > ROWS_MAX && matches!(self.target, Target::Folder(_)) {
            written = written.and_then(|()| self.flush_largest());
        }
        written.map_err(|error| Error::written(self.name(), &error))
    }

    fn name(&self) -> std::path::Display<'a> {
        match self.target {
            Target::File(path) | Target::Folder(path) => path.display(),
        }
    }

    /// Writes the largest row groups until half of the memory is free.
    fn flush_largest(&mut self) -> std::io::Result<()> {
        let mut order: Vec<&mut Writer> = self.writers.iter_mut().flatten().collect();
        order.sort_by_key(|writer| std::cmp::Reverse(writer.pending()));
        for writer in order {
            if self.pending <= ROWS_MAX / 2 {
                break;
            }
            self.pending -= writer.pending();
            writer.flush_all()?;
        }
        Ok(())
    }

    fn open(&mut self, index: usize, device: &str) -> Result<(), Error> {
        let path = match self.target {
            Target::File(path) => path.to_owned(),
            Target::Folder(folder) => {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_,+".contains(c);
                let name: String = device.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
                let path = folder.join(format!("{name}.parquet"));
                if path.exists() || self.files.contains(&path) {
                    let problem = "exists; name an empty folder";
                    return Err(Error::Usage(format!("{}: {problem}", path.display())));
                }
                path
            }
        };
        let temporary = path.with_extension("tmp");
        let failed = |error: &std::io::Error| match error.raw_os_error() {
            // EMFILE
            Some(24) => Error::Failed(format!(
                "{}: {} files are open, and the recording has more devices; raise the limit with 'ulimit -n 70000'",
                path.display(),
                self.files.len()
            )),
            _ => Error::written(path.display(), error),
        };
        let file = File::create(&temporary).map_err(|error| failed(&error))?;
        let writer = Writer::new(BufWriter::new(file), &self.comment).map_err(|error| failed(&error))?;
        let mut writer = writer.with_encoders(Arc::clone(&self.encoders));
        if let Target::Folder(_) = self.target {
            writer.meet([device]);
        }
        self.files.push(path);
        self.writers[index] = Some(writer);
        Ok(())
    }

    fn finish(&mut self) -> Result<Written, Error> {
        let mut all = Written::default();
        if let (Target::File(_), true) = (self.target, self.files.is_empty()) {
            self.writers.resize_with(1, || None);
            self.open(0, "")?;
        }
        let name = self.name();
        for writer in self.writers.drain(..).flatten() {
            let written = writer.finish().map_err(|error| Error::written(&name, &error))?;
            all.written += written.written;
            all.left_out += written.left_out;
            all.rounded += written.rounded;
        }
        for path in &self.files {
            fs::rename(path.with_extension("tmp"), path)
                .map_err(|error| Error::written(path.display(), &error))?;
        }
        Ok(all)
    }

    /// Removes incomplete files.
    fn remove(&mut self) {
        self.writers.clear();
        for path in &self.files {
            let _ = fs::remove_file(path.with_extension("tmp"));
        }
    }
}
