//! Writer of fio's iolog version 3. See [`format::fio`](crate::format::fio) for the columns.

use std::io::{self, Write};

use elevator::Op;

use super::Written;
use crate::devices::DeviceEntry;
use crate::record::{DeviceId, Record};

/// Writes reads, writes, discards (`trim`) and flushes (`sync`), in microseconds, rounded down.
///
/// fio 3.31 or later replays it with `read_iolog` and `replay_time_scale`. Completions, processes and flags are not written.
pub struct FioWriter<W> {
    sink: W,
    /// A file name for each device, by id.
    files: Vec<String>,
    opened: Vec<bool>,
    written: Written,
    last_micros: u64,
}

impl<W: Write> FioWriter<W> {
    /// Writes to `sink`, which should be buffered. Devices become files of their names, with blanks replaced by underscores, because fio
    /// does not accept blanks in names.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn new(mut sink: W, devices: &[DeviceEntry]) -> io::Result<Self> {
        writeln!(sink, "fio version 3 iolog")?;
        let (files, opened) = (Vec::new(), Vec::new());
        let mut writer = Self { sink, files, opened, written: Written::default(), last_micros: 0 };
        writer.meet(devices);
        Ok(writer)
    }

    /// Adds the names of new devices; `devices` are all devices of the recording. A device without a name is written as the number of its
    /// id, which may be the name of another device.
    pub fn meet(&mut self, devices: &[DeviceEntry]) {
        let new = devices.iter().skip(self.files.len());
        self.files.extend(new.map(|device| file_name(&device.name)));
        self.opened.resize(self.files.len(), false);
    }

    /// Writes a record.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let at = record.at.as_nanos();
        let micros = at / 1_000;
        self.open(record.device, micros)?;
        let file = &self.files[record.device.0 as usize];
        self.written.written += 1;
        self.written.rounded += u64::from(!at.is_multiple_of(1_000));
        self.last_micros = micros;
        let action = match record.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "trim",
            Op::Flush => "sync",
        };
        writeln!(self.sink, "{micros} {file} {action} {} {}", record.offset, record.bytes)
    }

    /// fio requires that a file is added and opened before its first use.
    fn open(&mut self, device: DeviceId, micros: u64) -> io::Result<()> {
        let index = device.0 as usize;
        while self.files.len() <= index {
            self.files.push(self.files.len().to_string());
            self.opened.push(false);
        }
        if !self.opened[index] {
            self.opened[index] = true;
            let file = &self.files[index];
            writeln!(self.sink, "{micros} {file} add\n{micros} {file} open")?;
        }
        Ok(())
    }

    /// Closes the files and flushes the sink.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn finish(mut self) -> io::Result<Written> {
        for (file, _) in self.files.iter().zip(&self.opened).filter(|(_, opened)| **opened) {
            writeln!(self.sink, "{} {file} close", self.last_micros)?;
        }
        self.sink.flush().map(|()| self.written)
    }
}

fn file_name(device: &str) -> String {
    device.replace(|c: char| c.is_whitespace() || c.is_control(), "_")
}
