//! Reads a Parquet file batch by batch.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use elevator::Time;
use parquet::basic::{Compression, LogicalType, TimeUnit as TimeUnitOfFile, Type};
use parquet::column::page::PageReader;
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use super::footer::{Footer, Parts, Place};
use super::zstd::Decompressed;
use super::{OPS, flags, priority};
use crate::context::{Context, Source};
use crate::error::{Error, ErrorKind, Position};
use crate::format::dwell::device_key;
use crate::options::{DeviceChoice, TimeUnit};
use crate::record::{DeviceId, Record};
use crate::scan::FieldError;
use crate::skips::Oddity;

/// Rows of a batch, of all open devices together.
const BATCH_ROWS: usize = 1 << 17;
/// Rows of a batch of one device.
const DEVICE_ROWS: std::ops::Range<usize> = 64..16_384;

/// Upper bound for the devices of a row group whose rows are read as those of row groups of a device each.
const RUNS_MAX: usize = 64;
/// Rows of a batch while they are searched.
const RUN_ROWS: usize = 8_192;

/// The columns, in the order of [`Batch::columns`].
const NUMBERS: [&str; 8] = ["at_ns", "latency_ns", "op", "offset", "bytes", "flags", "priority", "process"];
const REQUIRED: [&str; 4] = ["at_ns", "op", "offset", "bytes"];

/// The name of the only device of a file without the column.
const ONLY_DEVICE: &str = "0";

/// A source of the file's records.
pub(crate) fn source<R: ChunkReader + 'static>(
    file: R,
    context: &mut Context,
) -> Result<Box<dyn Source>, Error> {
    context.settle_unit(TimeUnit::Nanoseconds, None);
    context.place = Position::Row(0);
    let (footer, schema, parts) = guarded(context, || Footer::read(&file))?;
    let position = |name: &str| schema.columns().iter().position(|column| column.path().string() == name);
    for name in REQUIRED {
        if position(name).is_none() {
            let problem = format!("the Parquet file has no column '{name}'");
            let advice = "docs/traces.md describes the columns of recordings";
            return Err(context.error(ErrorKind::Format, problem).advice(advice));
        }
    }
    for column in schema.columns() {
        if column.max_rep_level() > 0 {
            let problem = format!("column '{}' has lists", column.path().string());
            return Err(context.error(ErrorKind::Format, problem).advice("recordings have plain columns"));
        }
        if let Some(expected) = expected_type(column) {
            let found = match column.logical_type_ref() {
                Some(logical) => format!("{} ({logical:?})", column.physical_type()),
                None => column.physical_type().to_string(),
            };
            let problem = format!("column '{}' has the type {found}; expected {expected}", column.name());
            let advice = "convert the column; docs/traces.md describes the columns of recordings";
            return Err(context.error(ErrorKind::Format, problem).advice(advice));
        }
    }
    let columns = Columns {
        numbers: NUMBERS.map(&position),
        device: position("device"),
        name: position("process_name"),
    };
    let mut file =
        File { file: Arc::new(file), footer, columns, cursors: Vec::new(), order: BinaryHeap::new() };
    file.plan(parts, context)?;
    Ok(Box::new(file))
}

/// Checks that all columns of a group can be decompressed.
fn check_compression(group: &RowGroupMetaData, context: &Context) -> Result<(), Error> {
    for column in group.columns() {
        let codec = column.compression();
        if !matches!(
            codec,
            Compression::UNCOMPRESSED
                | Compression::SNAPPY
                | Compression::GZIP(_)
                | Compression::LZ4
                | Compression::LZ4_RAW
                | Compression::ZSTD(_)
        ) {
            let named = format!("{codec:?}");
            let named = named.split('(').next().unwrap_or_default();
            let problem = format!(
                "column '{}' is compressed by {named}, which is not read",
                column.column_path().string()
            );
            let advice = "write the file with Zstandard, Snappy, gzip, LZ4 or no compression";
            return Err(context.error(ErrorKind::Format, problem).advice(advice));
        }
    }
    Ok(())
}

/// The type that a column must have, if it has another one.
fn expected_type(column: &ColumnDescriptor) -> Option<&'static str> {
    let (physical, logical) = (column.physical_type(), column.logical_type_ref());
    if NUMBERS.contains(&column.name()) {
        let is_whole = matches!(physical, Type::INT32 | Type::INT64);
        let unit = match logical {
            Some(LogicalType::Timestamp(time) | LogicalType::Time(time)) => Some(&time.unit),
            Some(LogicalType::Date | LogicalType::Decimal(_)) => return Some("a whole number"),
            _ => None,
        };
        let is_in_nanoseconds = unit.is_none_or(|unit| matches!(unit, TimeUnitOfFile::NANOS));
        return match (is_whole, is_in_nanoseconds) {
            (true, true) => None,
            (true, false) => Some("a whole number of nanoseconds"),
            (false, _) => Some("a whole number, INT32 or INT64"),
        };
    }
    (["device", "process_name"].contains(&column.name()) && physical != Type::BYTE_ARRAY)
        .then_some("text, BYTE_ARRAY")
}

fn damaged(context: &Context, error: &ParquetError) -> Error {
    let problem = format!("the Parquet file is damaged: {error}");
    context.error(ErrorKind::Format, problem).at(context.place).advice("check that it was written to its end")
}

/// Calls the decoder, which panics on some damaged files: for example if a page refers to a dictionary that is missing.
fn guarded<T>(context: &Context, work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, Error> {
    let decoded = catch_unwind(AssertUnwindSafe(work));
    let decoded = decoded.unwrap_or_else(|_| Err(ParquetError::General("a page is invalid".to_owned())));
    decoded.map_err(|error| damaged(context, &error))
}

/// Positions of the columns in the file.
struct Columns {
    numbers: [Option<usize>; 8],
    device: Option<usize>,
    name: Option<usize>,
}

struct File<R: ChunkReader> {
    file: Arc<R>,
    footer: Footer,
    columns: Columns,
    cursors: Vec<Cursor>,
    /// Cursors with a row, by its time.
    order: BinaryHeap<Reverse<(u64, usize)>>,
}

/// The row groups of a device, or groups of several devices.
struct Cursor {
    /// Row groups to come.
    groups: VecDeque<Group>,
    open: Option<Open>,
    batch: Batch,
    rows: usize,
}

/// A row group to come, or its rows of one device: a file may have a million.
#[derive(Clone, Copy)]
struct Group {
    place: Place,
    /// If the group has only one.
    device: Option<DeviceId>,
    /// Rows before it in the file.
    passed: u64,
    /// Its rows before these, and the number of these; `None`: all.
    part: Option<(u32, u32)>,
}

/// The name of a device, its part of a row group as in [`Group::part`], and its rows.
type Run = (Vec<u8>, Option<(u32, u32)>, u64);

/// A row group in progress.
struct Open {
    numbers: [Option<ColumnReader>; 8],
    device: Result<DeviceId, ColumnReader>,
    name: Option<ColumnReader>,
    left: usize,
    passed: u64,
}

/// Decoded rows.
#[derive(Default)]
struct Batch {
    columns: [Values<i64>; 8],
    devices: Values<ByteArray>,
    names: Values<ByteArray>,
    device: Option<DeviceId>,
    at: usize,
    rows: usize,
    /// Rows of the file before the batch.
    passed: u64,
}

/// Values of a column; `None` where the file has a null.
#[derive(Default)]
struct Values<T> {
    values: Vec<Option<T>>,
}

impl<T: Clone> Values<T> {
    fn get(&self, at: usize) -> Option<T> {
        self.values.get(at).cloned().flatten()
    }
}

impl<R: ChunkReader + 'static> File<R> {
    /// Sorts the row groups by device.
    fn plan(&mut self, mut parts: Parts<R::T>, context: &mut Context) -> Result<(), Error> {
        let mut by_device: Vec<VecDeque<Group>> = Vec::new();
        let mut mixed = VecDeque::new();
        let mut passed = 0;
        while let Some((places, part)) = guarded(context, || self.footer.part(&mut parts))? {
            for (&place, metadata) in places.iter().zip(part.row_groups()) {
                check_compression(metadata, context)?;
                let rows = u64::try_from(metadata.num_rows()).unwrap_or(0);
                let group = |device, part: Option<(u32, u32)>| {
                    let before = part.map_or(0, |(before, _)| u64::from(before));
                    Group { place, device, passed: passed + before, part }
                };
                let parts = match self.device_of(metadata) {
                    Some(name) => vec![(name, None, rows)],
                    None => match guarded(context, || self.runs(metadata))? {
                        Some(runs) => runs,
                        None => {
                            mixed.push_back(group(None, None));
                            Vec::new()
                        }
                    },
                };
                for (name, part, rows) in parts {
                    let id = device(context, &name)?;
                    let index = id.0 as usize;
                    if by_device.len() <= index {
                        by_device.resize_with(index + 1, VecDeque::new);
                    }
                    if self.is_wanted(context, id) {
                        by_device[index].push_back(group(Some(id), part));
                    } else {
                        context.devices.count_many(id, rows);
                    }
                }
                passed += rows;
            }
        }
        let all: Vec<_> = by_device.into_iter().chain([mixed]).filter(|groups| !groups.is_empty()).collect();
        let rows = (BATCH_ROWS / all.len().max(1)).clamp(DEVICE_ROWS.start, DEVICE_ROWS.end);
        let cursor = |groups| Cursor { groups, open: None, batch: Batch::default(), rows };
        self.cursors = all.into_iter().map(cursor).collect();
        for index in 0..self.cursors.len() {
            self.queue(index, context)?;
        }
        Ok(())
    }

    fn is_wanted(&self, context: &Context, id: DeviceId) -> bool {
        let entry = context.devices.entries().get(id.0 as usize);
        !matches!(context.options.device, DeviceChoice::Named(_)) || entry.is_some_and(|entry| entry.chosen)
    }

    /// The device of a row group, if its statistics state that it has one only.
    fn device_of(&self, group: &RowGroupMetaData) -> Option<Vec<u8>> {
        let Some(column) = self.columns.device else { return Some(ONLY_DEVICE.as_bytes().to_vec()) };
        let Some(Statistics::ByteArray(statistics)) = group.column(column).statistics() else { return None };
        let (least, most) = (statistics.min_opt()?, statistics.max_opt()?);
        let is_exact = statistics.min_is_exact() && statistics.max_is_exact();
        (is_exact && least == most && statistics.null_count_opt() == Some(0)).then(|| least.data().to_vec())
    }

    /// The rows of each device in a row group of another program, if they are contiguous: then the file may be sorted by device. `None` if the devices
    /// alternate.
    fn runs(&self, group: &RowGroupMetaData) -> Result<Option<Vec<Run>>, ParquetError> {
        let Some(column) = self.columns.device else { return Ok(None) };
        let Ok(rows) = u32::try_from(group.num_rows()) else { return Ok(None) };
        let mut reader = self.column(group, column)?;
        let (mut names, mut runs) = (Vec::new(), Vec::<(ByteArray, u32)>::new());
        let mut passed = 0;
        while passed < rows {
            names.clear();
            let count = RUN_ROWS.min((rows - passed) as usize);
            if !texts(&mut reader, count, &mut names)? {
                return Err(ParquetError::General("a column ends before its row group".to_owned()));
            }
            for name in names.drain(..) {
                let Some(name) = name else { return Ok(None) };
                if let Some((_, count)) = runs.last_mut().filter(|(last, _)| *last == name) {
                    *count += 1;
                } else if runs.len() == RUNS_MAX || runs.iter().any(|run| run.0 == name) {
                    return Ok(None);
                } else {
                    runs.push((name, 1));
                }
            }
            passed += count as u32;
        }
        let mut before = 0;
        let run = |(name, count): (ByteArray, u32)| {
            let part = Some((before, count));
            before += count;
            (name.data().to_vec(), part, u64::from(count))
        };
        Ok(Some(runs.into_iter().map(run).collect()))
    }

    /// The reader of a column of a row group.
    fn column(&self, group: &RowGroupMetaData, at: usize) -> Result<ColumnReader, ParquetError> {
        let (file, column) = (Arc::clone(&self.file), group.column(at));
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let pages: Box<dyn PageReader> = if let Compression::ZSTD(_) = column.compression() {
            let plain = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
            Box::new(Decompressed(SerializedPageReader::new(file, &plain, rows, None)?))
        } else {
            Box::new(SerializedPageReader::new(file, column, rows, None)?)
        };
        Ok(get_column_reader(column.column_descr_ptr(), pages))
    }

    /// Puts a cursor into the order of its next row.
    fn queue(&mut self, index: usize, context: &Context) -> Result<(), Error> {
        if !guarded(context, || self.fill(index))? {
            return Ok(());
        }
        let batch = &self.cursors[index].batch;
        let at = batch.columns[0].get(batch.at).and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
        self.order.push(Reverse((at, index)));
        Ok(())
    }

    /// Makes sure that a cursor's batch has a row; false at the end.
    fn fill(&mut self, index: usize) -> Result<bool, ParquetError> {
        loop {
            let cursor = &mut self.cursors[index];
            if cursor.batch.at < cursor.batch.rows {
                return Ok(true);
            }
            if let Some(open) = cursor.open.as_mut().filter(|open| open.left > 0) {
                if !open.read(cursor.rows, &mut cursor.batch)? {
                    return Err(ParquetError::General("a column ends before its row group".to_owned()));
                }
                continue;
            }
            let Some(next) = cursor.groups.pop_front() else { return Ok(false) };
            let Group { place, device, passed, part } = next;
            let group = &self.footer.group(&*self.file, place)?;
            let column = |at: Option<usize>| match at {
                Some(at) if !is_all_null(group, at) => self.column(group, at).map(Some),
                _ => Ok(None),
            };
            let mut numbers = [const { None }; 8];
            for (reader, at) in numbers.iter_mut().zip(self.columns.numbers) {
                *reader = column(at)?;
            }
            let device = match (device, self.columns.device) {
                (Some(device), _) => Ok(device),
                (None, Some(at)) => Err(self.column(group, at)?),
                (None, None) => Ok(DeviceId(0)),
            };
            let name = column(self.columns.name)?;
            let left = usize::try_from(group.num_rows()).unwrap_or(0);
            let mut open = Open { numbers, device, name, left, passed };
            if let Some((before, rows)) = part {
                open.skip(before as usize)?;
                open.left = rows as usize;
            }
            self.cursors[index].open = Some(open);
        }
    }
}

fn is_all_null(group: &RowGroupMetaData, at: usize) -> bool {
    let nulls = group.column(at).statistics().and_then(Statistics::null_count_opt);
    nulls.is_some() && nulls == u64::try_from(group.num_rows()).ok()
}

impl Open {
    /// Passes the first rows.
    fn skip(&mut self, rows: usize) -> Result<(), ParquetError> {
        let device = self.device.as_mut().err();
        for reader in self.numbers.iter_mut().flatten().chain(device).chain(&mut self.name) {
            let skipped = match reader {
                ColumnReader::Int64ColumnReader(reader) => reader.skip_records(rows)?,
                ColumnReader::Int32ColumnReader(reader) => reader.skip_records(rows)?,
                ColumnReader::ByteArrayColumnReader(reader) => reader.skip_records(rows)?,
                _ => rows,
            };
            if skipped < rows {
                return Err(ParquetError::General("a column ends before its row group".to_owned()));
            }
        }
        Ok(())
    }

    /// Reads the next rows; false if a column has fewer than the group.
    fn read(&mut self, rows: usize, batch: &mut Batch) -> Result<bool, ParquetError> {
        let rows = rows.min(self.left);
        let mut is_whole = true;
        for (reader, values) in self.numbers.iter_mut().zip(&mut batch.columns) {
            values.values.clear();
            if let Some(reader) = reader {
                is_whole &= integers(reader, rows, &mut values.values)?;
            }
        }
        batch.devices.values.clear();
        match &mut self.device {
            Ok(device) => batch.device = Some(*device),
            Err(reader) => {
                batch.device = None;
                is_whole &= texts(reader, rows, &mut batch.devices.values)?;
            }
        }
        batch.names.values.clear();
        if let Some(reader) = &mut self.name {
            is_whole &= texts(reader, rows, &mut batch.names.values)?;
        }
        (batch.at, batch.rows, batch.passed) = (0, rows, self.passed);
        self.left -= rows;
        self.passed += rows as u64;
        Ok(is_whole)
    }
}

macro_rules! read {
    ($reader:expr, $rows:expr, $to:expr, $value:expr) => {{
        let (mut present, mut values) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < $rows {
            let (records, _, _) =
                $reader.read_records($rows - done, Some(&mut present), None, &mut values)?;
            if records == 0 {
                return Ok(false);
            }
            done += records;
        }
        if present.is_empty() {
            $to.extend(values.into_iter().map(|value| Some($value(value))));
        } else {
            let mut values = values.into_iter();
            $to.extend(
                present.into_iter().map(|present| if present > 0 { values.next().map($value) } else { None }),
            );
        }
        Ok($to.len() == $rows)
    }};
}

fn integers(reader: &mut ColumnReader, rows: usize, to: &mut Vec<Option<i64>>) -> Result<bool, ParquetError> {
    match reader {
        ColumnReader::Int64ColumnReader(reader) => read!(reader, rows, to, |value: i64| value),
        ColumnReader::Int32ColumnReader(reader) => read!(reader, rows, to, i64::from),
        _ => {
            Err(ParquetError::General("a column of numbers has another type than INT32 or INT64".to_owned()))
        }
    }
}

fn texts(
    reader: &mut ColumnReader,
    rows: usize,
    to: &mut Vec<Option<ByteArray>>,
) -> Result<bool, ParquetError> {
    match reader {
        ColumnReader::ByteArrayColumnReader(reader) => read!(reader, rows, to, |value: ByteArray| value),
        _ => Err(ParquetError::General("a column of names has another type than BYTE_ARRAY".to_owned())),
    }
}

fn device(context: &mut Context, name: &[u8]) -> Result<DeviceId, Error> {
    let id = context.device(device_key(name));
    id.map_err(|bad| context.error(ErrorKind::Limit, format!("more devices than {}", bad.expected)))
}

impl<R: ChunkReader + 'static> Source for File<R> {
    fn next(&mut self, context: &mut Context) -> Result<Option<Record>, Error> {
        while let Some(Reverse((_, index))) = self.order.pop() {
            let batch = &mut self.cursors[index].batch;
            let at = batch.at;
            batch.at += 1;
            context.place = Position::Row(batch.passed + at as u64 + 1);
            let record = match batch.record(at, context) {
                Ok(record) => Some(record),
                Err(bad) => {
                    let found = batch.shown(at, bad.field);
                    context.malformed(bad, found.as_bytes())?;
                    None
                }
            };
            self.queue(index, context)?;
            if record.is_some() {
                context.good();
                return Ok(record);
            }
        }
        Ok(None)
    }
}

impl Batch {
    /// A value for a message.
    fn shown(&self, at: usize, field: &str) -> String {
        let column = NUMBERS.iter().position(|name| *name == field);
        let value = column.and_then(|column| self.columns[column].get(at));
        value.map_or_else(|| "no value".to_owned(), |value| value.to_string())
    }

    fn record(&self, at: usize, context: &mut Context) -> Result<Record, FieldError> {
        let bad = |field, expected| FieldError { field, expected, at: 0 };
        let number = |column: usize| self.columns[column].get(at);
        let positive = |column: usize| {
            let value = number(column).and_then(|value| u64::try_from(value).ok());
            value.ok_or_else(|| bad(NUMBERS[column], "a number from 0"))
        };
        let device = match (self.device, self.devices.get(at)) {
            (Some(device), _) => device,
            (None, Some(name)) => context.device(device_key(name.data()))?,
            (None, None) => return Err(bad("device", "a name")),
        };
        let issued = positive(0)?;
        let op = number(2).and_then(|op| usize::try_from(op).ok()).and_then(|op| OPS.get(op));
        let op = *op.ok_or_else(|| bad("op", "a number from 0 to 3"))?;
        let mut record = Record::new(Time::from_nanos(issued), device, op, positive(3)?, positive(4)?);
        if number(1).is_some() {
            record.completed = issued.checked_add(positive(1)?).map(Time::from_nanos);
        }
        record.flags = number(5).map(flags).unwrap_or_default();
        record.priority = number(6).and_then(priority);
        if let Some(pid) = number(7) {
            let pid = u32::try_from(pid).map_err(|_| bad("process", "a number below 2^32"))?;
            let name = self.names.get(at);
            record.process = context.process(pid, name.as_ref().map_or(b"".as_slice(), ByteArray::data));
        }
        if record.completed.is_none() && number(1).is_some() {
            context.skips.add(Oddity::CompletedEarly, 1, context.place);
        }
        Ok(record)
    }
}
