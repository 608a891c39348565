//! Writes Parquet files: row groups of one device each, a device's in the order of time.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, OnceLock};

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type as Node, TypePtr};

use elevator::cold_path;

use super::encode::{Answer, Encoded, Encoders, failed as thread_failed};
use super::groups::{Group, GroupStore, Groups};
use super::index;
use super::rows::{Open, PIECE, Row, Rows};
use crate::binary::PARQUET_MAGIC;
use crate::record::{DeviceId, Pid, Record};
use crate::write::written::Written;

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 17;
/// Rows in memory, of all devices together: 16 to 60 bytes each.
const ROWS_MAX: usize = 2 << 20;
/// Rows that are written when the memory is full: a few, so that threads always have groups to encode.
const ROWS_FREED: usize = ROWS_MAX / 16;
/// The same for each device, up to half of the memory: to select the largest devices looks at all of them.
const FREED_BY_DEVICE: usize = 16;
/// Rows that wait for threads or are encoded by them.
const WAITING_ROWS: usize = ROWS_MAX / 4;
/// Rows that a thread encodes at least: to hand it a group takes longer than to encode a small one.
const JOB_ROWS: usize = 1 << 15;
/// Records whose places are in the processor's first cache together.
const NEAR: usize = 64;
/// Processes whose names are kept for a batch.
const NAMES_NEAR: usize = 16;

/// Writes all fields of records, to one file or to a file for each device.
pub struct ParquetWriter<W: Write + Send> {
    /// The only file, or by device.
    files: Vec<Option<File<W>>>,
    is_split: bool,
    store: Option<Arc<dyn GroupStore>>,
    schema: SchemaDescPtr,
    comment: String,
    encoders: Arc<Encoders>,
    /// Groups that no thread encodes yet.
    ready: Ready,
    /// Groups that threads encode, in the order of the file.
    encoding: VecDeque<Encoding>,
    /// Rows of `encoding`.
    waiting: usize,
    /// Memory for pieces.
    pieces: Vec<Vec<Row>>,
    /// By device, the rows behind the full pieces. In a list of their own, because every record changes one of them.
    open: Vec<Open>,
    /// By device, the other rows.
    devices: Vec<Rows>,
    /// Names of processes, and their numbers.
    names: Arc<Vec<ByteArray>>,
    numbers: HashMap<String, u32>,
    last_name: Option<(String, u32)>,
    rows: usize,
    written: Written,
}

/// Groups of rows that wait for a thread.
#[derive(Default)]
struct Ready {
    groups: Vec<Rows>,
    /// The device of each group.
    devices: Vec<usize>,
    /// The number of rows.
    rows: usize,
}

/// Groups of rows that a thread encodes.
struct Encoding {
    /// The device of each group.
    devices: Vec<usize>,
    /// The number of rows.
    rows: usize,
    answer: Receiver<Answer>,
}

struct File<W> {
    sink: W,
    /// Bytes written.
    at: u64,
    groups: Groups,
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
    pub fn new(sink: W, comment: &str) -> io::Result<Self> {
        let mut writer = Self::split(comment)?;
        writer.is_split = false;
        writer.open(DeviceId(0), sink)?;
        Ok(writer)
    }

    /// Writes a file for each device; [`open`](Self::open) is called before a device's first record is written.
    ///
    /// # Errors
    /// None.
    pub fn split(comment: &str) -> io::Result<Self> {
        Ok(Self {
            files: Vec::new(),
            is_split: true,
            store: None,
            schema: shared_schema().map_err(failed)?,
            comment: comment.to_owned(),
            encoders: Arc::new(Encoders::new(0)),
            ready: Ready::default(),
            encoding: VecDeque::new(),
            waiting: 0,
            pieces: Vec::new(),
            open: Vec::new(),
            devices: Vec::new(),
            names: Arc::default(),
            numbers: HashMap::new(),
            last_name: None,
            rows: 0,
            written: Written::default(),
        })
    }

    /// Sets where the file of a device goes.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn open(&mut self, device: DeviceId, mut sink: W) -> io::Result<()> {
        let index = device.0 as usize;
        if self.files.len() <= index {
            self.files.resize_with(index + 1, || None);
        }
        sink.write_all(PARQUET_MAGIC)?;
        let groups = self.store.clone().map_or_else(Groups::default, Groups::in_store);
        self.files[index] = Some(File { sink, at: PARQUET_MAGIC.len() as u64, groups });
        Ok(())
    }

    /// Encodes row groups on other threads. The file is the same.
    #[must_use]
    pub fn with_encoders(mut self, encoders: Arc<Encoders>) -> Self {
        self.encoders = encoders;
        self
    }

    /// Keeps descriptions of row groups in a store. The file is the same.
    #[must_use]
    pub fn with_group_store(mut self, store: Arc<dyn GroupStore>) -> Self {
        self.files.iter_mut().flatten().for_each(|file| file.groups = Groups::in_store(Arc::clone(&store)));
        self.store = Some(store);
        self
    }

    /// Adds the names of new devices; `devices` are all devices of the recording.
    pub fn meet<N: AsRef<str>>(&mut self, devices: impl IntoIterator<Item = N>) {
        let new = devices.into_iter().skip(self.devices.len());
        new.for_each(|name| self.add(name.as_ref()));
    }

    fn add(&mut self, name: &str) {
        let device = if self.is_split { 0 } else { self.devices.len() as u32 };
        self.devices.push(Rows { name: name.as_bytes().to_vec().into(), device, ..Rows::default() });
        self.open.push(Open::default());
    }

    /// Writes records; `name` returns the name of a process, if known.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn write_batch<N: AsRef<str>>(
        &mut self,
        records: &[Record],
        mut name: impl FnMut(Pid) -> Option<N>,
    ) -> io::Result<()> {
        let mut names = [None; NAMES_NEAR];
        for records in records.chunks(NEAR) {
            // A store into memory that is in no cache blocks those behind it; loads wait for memory at the same time. So the places of all rows are
            // loaded first.
            if self.open.len() > NEAR {
                let place = |record: &Record| self.open.get(record.device.0 as usize).and_then(Open::next);
                // The second loop is so short that the processor begins the loads of nearly all rows before the first one has ended.
                let mut rows = [None; NEAR];
                rows.iter_mut().zip(records).for_each(|(row, record)| *row = place(record));
                black_box(rows.iter().flatten().fold(0, |all, row| all ^ row.op));
            }
            for record in records {
                let open = self.open.get_mut(record.device.0 as usize);
                if self.rows + 1 < ROWS_MAX && open.is_some_and(|open| open.push_usual(record)) {
                    self.rows += 1;
                    self.written.written += 1;
                    continue;
                }
                let number = record.process.and_then(|pid| {
                    let place = &mut names[pid.0 as usize % NAMES_NEAR];
                    if let Some((_, number)) = place.filter(|(known, _)| *known == pid) {
                        return number;
                    }
                    let number = name(pid).map(|name| self.name(name.as_ref()));
                    *place = Some((pid, number));
                    number
                });
                self.write_row(record, number)?;
            }
        }
        Ok(())
    }

    /// Writes a record; `process_name` is the name of its process, if known.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn write(&mut self, record: &Record, process_name: Option<&str>) -> io::Result<()> {
        let number = process_name.map(|name| self.name(name));
        self.write_row(record, number)
    }

    fn write_row(&mut self, record: &Record, name: Option<u32>) -> io::Result<()> {
        let device = record.device.0 as usize;
        while self.open.len() <= device {
            cold_path();
            self.add(&self.devices.len().to_string());
        }
        let latest = self.open[device].latest();
        let Some((row, at, rest)) = Row::new(record, latest, name.is_some()) else {
            self.written.left_out += 1;
            return Ok(());
        };
        if let Some(rest) = rest {
            let rows = &mut self.devices[device];
            rows.times.extend(rest.time);
            rows.offsets.extend(rest.offset);
            rows.lengths.extend(rest.length);
            rows.latencies.extend(rest.latency);
            rows.processes.extend(rest.process);
            rows.names.extend(name);
        }
        let is_full = self.open[device].push(row, at);
        self.rows += 1;
        self.written.written += 1;
        if is_full || self.rows >= ROWS_MAX {
            return self.end_piece(device);
        }
        Ok(())
    }

    /// Begins a new piece; writes groups if one is full, or the memory.
    #[cold]
    fn end_piece(&mut self, device: usize) -> io::Result<()> {
        let open = &mut self.open[device];
        if open.is_full() {
            if self.pieces.is_empty() {
                self.encoders.take_pieces(&mut self.pieces);
            }
            let next = self.pieces.pop().unwrap_or_else(|| vec![Row::default(); PIECE]);
            self.devices[device].pieces.push(open.replace(next));
        }
        if self.rows_of(device) >= GROUP_ROWS {
            self.flush(device)
        } else if self.rows >= ROWS_MAX {
            self.flush_largest()
        } else {
            Ok(())
        }
    }

    fn rows_of(&self, device: usize) -> usize {
        self.devices[device].pieces.len() * PIECE + self.open[device].len()
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

    /// Writes the largest devices until some rows are free.
    fn flush_largest(&mut self) -> io::Result<()> {
        let mut order: Vec<usize> = (0..self.devices.len()).collect();
        let freed = (FREED_BY_DEVICE * order.len()).clamp(ROWS_FREED, ROWS_MAX / 2);
        while self.rows > ROWS_MAX - freed {
            let largest = order.len() / 32;
            order.select_nth_unstable_by_key(largest, |&device| {
                std::cmp::Reverse((self.rows_of(device), device))
            });
            order[..=largest].iter().try_for_each(|&device| self.flush(device))?;
        }
        Ok(())
    }

    /// Writes the rows of a device as a row group.
    fn flush(&mut self, device: usize) -> io::Result<()> {
        let count = self.rows_of(device);
        if count == 0 {
            return Ok(());
        }
        self.rows -= count;
        let rows = &mut self.devices[device];
        let begin = self.open[device].latest();
        let next = Rows { name: rows.name.clone(), device: rows.device, begin, ..Rows::default() };
        let mut rows = std::mem::replace(rows, next);
        rows.pieces.push(self.open[device].replace(Vec::new()));
        self.ready.groups.push(rows);
        self.ready.devices.push(device);
        self.ready.rows += count;
        if self.ready.rows >= JOB_ROWS { self.encode() } else { Ok(()) }
    }

    /// Hands the ready groups to a thread.
    fn encode(&mut self) -> io::Result<()> {
        let Ready { groups, devices, rows } = std::mem::take(&mut self.ready);
        let answer = self.encoders.encode(groups, &self.names).map_err(failed)?;
        self.encoding.push_back(Encoding { devices, rows, answer });
        self.waiting += rows;
        self.append(WAITING_ROWS)
    }

    /// Appends groups that are encoded, and waits until at most so many rows are not.
    fn append(&mut self, waiting: usize) -> io::Result<()> {
        while let Some(Encoding { devices, rows, answer }) = self.encoding.front() {
            let encoded = match answer.try_recv() {
                Err(TryRecvError::Empty) if self.waiting <= waiting => return Ok(()),
                Err(TryRecvError::Empty) => answer.recv().unwrap_or_else(|_| Err(thread_failed())),
                Ok(encoded) => encoded,
                Err(TryRecvError::Disconnected) => Err(thread_failed()),
            };
            for (device, Encoded { bytes, group }) in devices.iter().zip(encoded.map_err(failed)?) {
                let file = self.files.get_mut(if self.is_split { *device } else { 0 });
                let file = file.and_then(Option::as_mut).ok_or(io::ErrorKind::NotFound)?;
                file.sink.write_all(&bytes)?;
                file.groups.push(Group { from: file.at, ..group })?;
                file.at += bytes.len() as u64;
                self.encoders.keep(bytes);
            }
            self.waiting -= rows;
            self.encoding.pop_front();
        }
        Ok(())
    }

    /// Writes what is in memory, and the index of each file.
    ///
    /// # Errors
    /// If a sink fails.
    pub fn finish(mut self) -> io::Result<Written> {
        (0..self.devices.len()).try_for_each(|device| self.flush(device))?;
        self.encode()?;
        self.append(0)?;
        let names: Vec<ByteArray> = self.devices.drain(..).map(|rows| rows.name).collect();
        for (device, file) in self.files.drain(..).enumerate() {
            let Some(mut file) = file else { continue };
            let names = if self.is_split { names.get(device..).unwrap_or_default() } else { &names[..] };
            index::write(&mut file.sink, &self.schema, &self.comment, &file.groups, names).map_err(failed)?;
            file.sink.flush()?;
        }
        Ok(self.written)
    }
}
