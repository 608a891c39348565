//! Writer of Dwell's own format. See [`format::dwell`](crate::format::dwell) for the columns.

use std::io::{self, Write};

use super::{RecordWriter, Written};
use crate::devices::DeviceEntry;
use crate::format::dwell::{CLASSES, PROCESS, TITLE, VERSION};
use crate::record::{Pid, Record};
use crate::rwbs::Rwbs;

/// Writes all fields of records.
pub struct DwellWriter<W> {
    sink: W,
    /// Names of the devices, by id, without blanks.
    devices: Vec<String>,
    written: Written,
}

impl<W: Write> DwellWriter<W> {
    /// Writes to `sink`, which should be buffered. `devices` are the devices' names, by [`DeviceId`](crate::DeviceId); `comment` is a
    /// description for people.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn new<N: AsRef<str>>(
        mut sink: W,
        devices: impl IntoIterator<Item = N>,
        comment: &str,
    ) -> io::Result<Self> {
        writeln!(sink, "{TITLE}{VERSION}")?;
        comment.lines().try_for_each(|line| writeln!(sink, "# {line}"))?;
        writeln!(sink, "# at_ns response_ns device rwbs offset length priority pid name")?;
        let mut writer = Self { sink, devices: Vec::new(), written: Written::default() };
        writer.meet(devices);
        Ok(writer)
    }

    /// Adds the names of new devices; `devices` are all devices of the recording. A device without a name is written as the number of its
    /// id, which may be the name of another device.
    pub fn meet<N: AsRef<str>>(&mut self, devices: impl IntoIterator<Item = N>) {
        let new = devices.into_iter().skip(self.devices.len());
        self.devices.extend(new.map(|name| name.as_ref().replace(char::is_whitespace, "_")));
    }

    /// Writes a record, which is not earlier than the one before; `process_name` is the name of its process, if known.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn write(&mut self, record: &Record, process_name: Option<&str>) -> io::Result<()> {
        self.written.written += 1;
        write!(self.sink, "{} ", record.at.as_nanos())?;
        match record.latency() {
            Some(latency) => write!(self.sink, "{} ", latency.as_nanos())?,
            None => write!(self.sink, "- ")?,
        }
        match self.devices.get(record.device.0 as usize) {
            Some(name) => write!(self.sink, "{name} ")?,
            None => write!(self.sink, "{} ", record.device.0)?,
        }
        let letters = Rwbs::letters(record.op, record.flags);
        write!(self.sink, "{letters} {} {} ", record.offset, record.bytes)?;
        match record.priority {
            Some(priority) => {
                let class = CLASSES.iter().find(|(class, _)| *class == priority.class);
                write!(self.sink, "{}{} ", class.map_or("be", |(_, name)| name), priority.level)?;
            }
            None => write!(self.sink, "- ")?,
        }
        match record.process {
            Some(pid) => {
                // Processes choose their names, which may contain line breaks.
                let name = process_name.unwrap_or_default().replace(char::is_control, "?");
                writeln!(self.sink, "{pid} {}", name.trim())
            }
            None => writeln!(self.sink, "-"),
        }
    }

    /// Writes what is known about a process at the end of a recording; readers use it as the process's name.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn process(&mut self, process: Pid, text: &str) -> io::Result<()> {
        let text = text.replace(char::is_control, "?");
        writeln!(self.sink, "{PROCESS}{process} {}", text.trim())
    }

    /// Writes a comment.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn comment(&mut self, text: &str) -> io::Result<()> {
        text.lines().try_for_each(|line| writeln!(self.sink, "# {line}"))
    }

    /// Flushes the sink.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn finish(mut self) -> io::Result<Written> {
        self.sink.flush().map(|()| self.written)
    }
}

impl<W: Write> RecordWriter for DwellWriter<W> {
    fn meet(&mut self, devices: &[DeviceEntry]) {
        Self::meet(self, devices.iter().map(|device| &device.name));
    }

    fn write(&mut self, record: &Record, process_name: Option<&str>) -> io::Result<()> {
        Self::write(self, record, process_name)
    }

    fn finish(self: Box<Self>) -> io::Result<Written> {
        Self::finish(*self)
    }
}
