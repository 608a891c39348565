//! Writers of all formats: [`Writer`], and `ParquetWriter` with the feature `parquet`.
//!
//! Most formats cannot hold all fields of a [`Record`]. [`Format::holds`] has what a format holds; writers return as [`Written`] what they left
//! out, rounded or lost.
//!
//! A format of one line, or one record of fixed size, for each request implements `Rows` in its own module; a format of events implements `Events`.

mod compressed;
mod dwell;
mod events;
mod fio;
mod holds;
mod rows;
pub(crate) mod written;

use std::io::{self, Write};

pub use compressed::{Compressed, not_written};
pub use dwell::DwellWriter;
pub(crate) use events::{Event, Events};
pub(crate) use fio::FioWriter;
pub use holds::{Field, Fields, Holds};
pub(crate) use rows::{Device, Rows, letter};
pub use written::Written;

#[cfg(feature = "parquet")]
pub use crate::parquet::{encode::Encoders, groups::GroupStore, writer::ParquetWriter};

use crate::devices::DeviceEntry;
use crate::format::list::Format;
use crate::record::Record;

/// Where a writer writes to.
pub(crate) type Sink<'a> = Box<dyn Write + 'a>;

/// The writer of one format.
pub(crate) trait RecordWriter {
    /// Adds the names of new devices; `devices` are all devices of the recording.
    fn meet(&mut self, devices: &[DeviceEntry]);

    /// Writes a record, which is not earlier than the one before; `process_name` is the name of its process, if known.
    fn write(&mut self, record: &Record, process_name: Option<&str>) -> io::Result<()>;

    /// Writes the rest and flushes the sink.
    fn finish(self: Box<Self>) -> io::Result<Written>;
}

/// Makes a writer for these devices, with a comment for people if the format has comments.
type Open = for<'a> fn(Sink<'a>, &[DeviceEntry], &str) -> io::Result<Box<dyn RecordWriter + 'a>>;

/// How a format is written.
pub(crate) struct Writes {
    pub(crate) holds: Holds,
    pub(crate) open: Open,
}

impl Writes {
    pub(crate) const fn rows<R: Rows + Default + 'static>() -> Self {
        Self { holds: R::HOLDS, open: rows::open::<R> }
    }

    pub(crate) const fn events<E: Events + Default + 'static>() -> Self {
        Self { holds: E::HOLDS, open: events::open::<E> }
    }

    pub(crate) const DWELL: Self = Self {
        holds: Holds::all(1),
        open: |sink, devices, comment| {
            let devices = devices.iter().map(|device| &device.name);
            Ok(Box::new(DwellWriter::new(sink, devices, comment)?))
        },
    };
}

/// Writes a recording in any format but Parquet.
pub struct Writer<'a> {
    inner: Box<dyn RecordWriter + 'a>,
    holds: Holds,
    seen: Fields,
    /// The device of the first record.
    first: Option<crate::DeviceId>,
}

impl<'a> Writer<'a> {
    /// Writes to `sink`, which should be buffered. `devices` are those of the recording, and `comment` is a description for people.
    ///
    /// # Errors
    /// If the sink fails, or if the format is Parquet, which `ParquetWriter` writes.
    pub fn new(
        format: Format,
        sink: impl Write + 'a,
        devices: &[DeviceEntry],
        comment: &str,
    ) -> io::Result<Self> {
        let Some(Writes { holds, open }) = format.writes() else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("{format} is not written to a stream"),
            ));
        };
        let inner = open(Box::new(sink), devices, comment)?;
        Ok(Self { inner, holds: *holds, seen: Fields::default(), first: None })
    }

    /// Adds the names of new devices; `devices` are all devices of the recording.
    pub fn meet(&mut self, devices: &[DeviceEntry]) {
        self.inner.meet(devices);
    }

    /// Writes a record, which is not earlier than the one before; `process_name` is the name of its process, if known.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn write(&mut self, record: &Record, process_name: Option<&str>) -> io::Result<()> {
        self.seen.see(record, process_name.is_some());
        if *self.first.get_or_insert(record.device) != record.device {
            self.seen.insert(Field::Devices);
        }
        self.inner.write(record, process_name)
    }

    /// Writes the rest and flushes the sink.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn finish(self) -> io::Result<Written> {
        let written = self.inner.finish()?;
        Ok(Written { lost: self.seen.without(self.holds.fields), ..written })
    }
}
