//! Writes a Parquet file: row groups of one device each, a device's in the order of time.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, OnceLock};

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type as Node, TypePtr};

use super::encode::{Encoded, Encoders, encode, failed as thread_failed};
use super::groups::{Group, GroupStore, Groups};
use super::index;
use super::rows::Rows;
use crate::binary::PARQUET_MAGIC;
use crate::record::Record;
use crate::write::written::Written;

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 17;
/// Rows in memory, of all devices together: 32 to 44 bytes each.
const ROWS_MAX: usize = 2 << 20;

/// Writes all fields of records.
pub struct ParquetWriter<W: Write + Send> {
    sink: W,
    /// Bytes written.
    at: u64,
    groups: Groups,
    schema: SchemaDescPtr,
    comment: String,
    encoders: Option<Arc<Encoders>>,
    /// Groups that threads encode, in the order of the file.
    encoding: VecDeque<Receiver<Result<Encoded, ParquetError>>>,
    /// By device.
    devices: Vec<Rows>,
    /// Names of processes, and their numbers.
    names: Arc<Vec<ByteArray>>,
    numbers: HashMap<String, u32>,
    last_name: Option<(String, u32)>,
    rows: usize,
    written: Written,
}

/// The columns of [`format::parquet`](crate::format::parquet).
fn schema() -> Result<TypePtr, ParquetError> {
    let column = |name: &str, physical: Physical, is_optional: bool| {
        let repetition = if is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let logical = (physical == Physical::BYTE_ARRAY).then_some(LogicalType::String);
        let node = Node::primitive_type_builder(name, physical).with_repetition(repetition);
        node.with_logical_type(logical).build().map(Arc::new)
    };
    let columns = vec![
        column("device", Physical::BYTE_ARRAY, false)?,
        column("at_ns", Physical::INT64, false)?,
        column("latency_ns", Physical::INT64, true)?,
        column("op", Physical::INT32, false)?,
        column("offset", Physical::INT64, false)?,
        column("bytes", Physical::INT64, false)?,
        column("flags", Physical::INT32, true)?,
        column("priority", Physical::INT32, true)?,
        column("process", Physical::INT64, true)?,
        column("process_name", Physical::BYTE_ARRAY, true)?,
    ];
    Ok(Arc::new(Node::group_type_builder("recording").with_fields(columns).build()?))
}

/// One for all writers, of which a fleet has thousands.
fn shared_schema() -> Result<SchemaDescPtr, ParquetError> {
    static SHARED: OnceLock<SchemaDescPtr> = OnceLock::new();
    match SHARED.get() {
        Some(schema) => Ok(Arc::clone(schema)),
        None => {
            let schema = Arc::new(SchemaDescriptor::new(schema()?));
            Ok(Arc::clone(SHARED.get_or_init(|| schema)))
        }
    }
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Writes to `sink`, which should be buffered; `comment` is a description for people.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn new(mut sink: W, comment: &str) -> io::Result<Self> {
        let schema = shared_schema().map_err(failed)?;
        sink.write_all(PARQUET_MAGIC)?;
        Ok(Self {
            sink,
            at: PARQUET_MAGIC.len() as u64,
            groups: Groups::default(),
            schema,
            comment: comment.to_owned(),
            encoders: None,
            encoding: VecDeque::new(),
            devices: Vec::new(),
            names: Arc::default(),
            numbers: HashMap::new(),
            last_name: None,
            rows: 0,
            written: Written::default(),
        })
    }

    /// Encodes row groups on other threads. The file is the same.
    #[must_use]
    pub fn with_encoders(mut self, encoders: Arc<Encoders>) -> Self {
        self.encoders = Some(encoders);
        self
    }

    /// Keeps descriptions of row groups in a store. The file is the same.
    #[must_use]
    pub fn with_group_store(mut self, store: Arc<dyn GroupStore>) -> Self {
        self.groups = Groups::in_store(store);
        self
    }

    /// Adds the names of new devices; `devices` are all devices of the recording.
    pub fn meet<N: AsRef<str>>(&mut self, devices: impl IntoIterator<Item = N>) {
        let new = devices.into_iter().skip(self.devices.len());
        for name in new {
            self.devices.push(Rows::new(name.as_ref().as_bytes(), self.devices.len()));
        }
    }

    /// Writes a record; `process_name` is the name of its process, if known.
    ///
    /// # Errors
    /// If the sink fails.
    #[inline]
    pub fn write(&mut self, record: &Record, process_name: Option<&str>) -> io::Result<()> {
        let device = record.device.0 as usize;
        while self.devices.len() <= device {
            let number = self.devices.len();
            self.devices.push(Rows::new(number.to_string().as_bytes(), number));
        }
        let name = process_name.map(|name| self.name(name));
        let rows = &mut self.devices[device];
        let is_written = rows.push(record, name);
        if !is_written {
            self.written.left_out += 1;
            return Ok(());
        }
        let is_full = rows.rows.len() >= GROUP_ROWS;
        self.rows += 1;
        self.written.written += 1;
        if is_full {
            self.flush(device)?;
        } else if self.rows >= ROWS_MAX {
            self.flush_largest()?;
        }
        Ok(())
    }

    /// The number of a process's name.
    fn name(&mut self, name: &str) -> u32 {
        if let Some((last, number)) = &self.last_name
            && last == name
        {
            return *number;
        }
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                let number = self.names.len() as u32;
                Arc::make_mut(&mut self.names).push(ByteArray::from(name.as_bytes().to_vec()));
                self.numbers.insert(name.to_owned(), number);
                number
            }
        };
        self.last_name = Some((name.to_owned(), number));
        number
    }

    /// Rows that are in no group yet.
    #[must_use]
    pub const fn pending(&self) -> usize {
        self.rows
    }

    /// Writes all rows, one group for each device.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn flush_all(&mut self) -> io::Result<()> {
        (0..self.devices.len()).try_for_each(|device| self.flush(device))
    }

    /// Writes the largest devices until half of the memory is free.
    fn flush_largest(&mut self) -> io::Result<()> {
        let mut order: Vec<usize> = (0..self.devices.len()).collect();
        order.sort_by_key(|&device| std::cmp::Reverse(self.devices[device].rows.len()));
        for device in order {
            if self.rows <= ROWS_MAX / 2 {
                break;
            }
            self.flush(device)?;
        }
        Ok(())
    }

    /// Writes the rows of a device as a row group.
    fn flush(&mut self, device: usize) -> io::Result<()> {
        let rows = &mut self.devices[device];
        let count = rows.rows.len();
        if count == 0 {
            return Ok(());
        }
        self.rows -= count;
        // Small groups are of many devices, whose buffers would together exceed the limit of memory.
        let encoders = self.encoders.as_ref().filter(|_| count >= GROUP_ROWS);
        let mut next = encoders.map(|encoders| encoders.spare()).unwrap_or_default();
        (next.name, next.device) = (rows.name.clone(), rows.device);
        let rows = std::mem::replace(rows, next);
        match &self.encoders {
            Some(encoders) => {
                self.encoding.push_back(encoders.encode(rows, &self.names).map_err(failed)?);
                self.append(false)
            }
            None => self.append_group(encode(rows, &self.names)),
        }
    }

    /// Appends groups that are encoded, or all.
    fn append(&mut self, all: bool) -> io::Result<()> {
        while let Some(first) = self.encoding.front() {
            let encoded = match first.try_recv() {
                Err(TryRecvError::Empty) if !all => return Ok(()),
                Err(TryRecvError::Empty) => first.recv().unwrap_or_else(|_| Err(thread_failed())),
                Ok(encoded) => encoded,
                Err(TryRecvError::Disconnected) => Err(thread_failed()),
            };
            self.encoding.pop_front();
            self.append_group(encoded)?;
        }
        Ok(())
    }

    fn append_group(&mut self, encoded: Result<Encoded, ParquetError>) -> io::Result<()> {
        let Encoded { bytes, group, spare } = encoded.map_err(failed)?;
        self.sink.write_all(&bytes)?;
        self.groups.push(Group { from: self.at, ..group })?;
        self.at += bytes.len() as u64;
        if let Some(encoders) = self.encoders.as_ref().filter(|_| spare.rows.capacity() >= GROUP_ROWS) {
            encoders.keep(spare);
        }
        Ok(())
    }

    /// Writes what is in memory, and the index.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn finish(mut self) -> io::Result<Written> {
        self.flush_all()?;
        self.append(true)?;
        let devices: Vec<ByteArray> = self.devices.drain(..).map(|rows| rows.name).collect();
        index::write(&mut self.sink, &self.schema, &self.comment, &self.groups, &devices).map_err(failed)?;
        self.sink.flush()?;
        Ok(self.written)
    }
}
