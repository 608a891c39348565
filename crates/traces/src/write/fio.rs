//! Writer of fio's iolog version 3. See [`format::fio`](crate::format::fio) for the columns.

use std::io::{self, Write};

use elevator::Op;

use super::{Field, Holds, RecordWriter, Sink, Writes, Written};
use crate::devices::DeviceEntry;
use crate::record::{DeviceId, Record};

/// Writes reads, writes, discards (`trim`) and flushes (`sync`), in microseconds, rounded down.
///
/// fio 3.31 or later replays it with `read_iolog` and `replay_time_scale`.
pub(crate) struct FioWriter<'a> {
    sink: Sink<'a>,
    /// A file name for each device, by id.
    files: Vec<String>,
    opened: Vec<bool>,
    written: Written,
    last_micros: u64,
}

impl FioWriter<'_> {
    const HOLDS: Holds = Holds::least(1_000)
        .with(Field::Devices)
        .with(Field::Discards)
        .with(Field::Flushes)
        .with(Field::Bytes);

    pub(crate) const WRITES: Writes = Writes {
        holds: Self::HOLDS,
        open: |mut sink, devices, _comment| {
            writeln!(sink, "fio version 3 iolog")?;
            let (files, opened) = (Vec::new(), Vec::new());
            let mut writer = FioWriter { sink, files, opened, written: Written::default(), last_micros: 0 };
            writer.meet(devices);
            Ok(Box::new(writer))
        },
    };

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
}

impl RecordWriter for FioWriter<'_> {
    /// Devices become files of their names, with blanks replaced by underscores, because fio does not accept blanks in names.
    fn meet(&mut self, devices: &[DeviceEntry]) {
        let new = devices.iter().skip(self.files.len());
        self.files.extend(new.map(|device| file_name(&device.name)));
        self.opened.resize(self.files.len(), false);
    }

    fn write(&mut self, record: &Record, _process_name: Option<&str>) -> io::Result<()> {
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

    /// Closes the files and flushes the sink.
    fn finish(mut self: Box<Self>) -> io::Result<Written> {
        for (file, _) in self.files.iter().zip(&self.opened).filter(|(_, opened)| **opened) {
            writeln!(self.sink, "{} {file} close", self.last_micros)?;
        }
        self.sink.flush().map(|()| self.written)
    }
}

fn file_name(device: &str) -> String {
    device.replace(|c: char| c.is_whitespace() || c.is_control(), "_")
}
