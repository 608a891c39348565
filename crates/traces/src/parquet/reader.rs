//! Reads a Parquet file batch by batch.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use elevator::{Op, Time};
use parquet::basic::{Compression, LogicalType, TimeUnit as TimeUnitOfFile, Type};
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::ChunkReader;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use super::footer::{Footer, Parts, Place};
use super::zstd::column_reader;
use super::{OPS, flags, priority};
use crate::context::{Context, FEWER_DEVICES, Source};
use crate::devices::DEVICES_MAX;
use crate::error::{Error, ErrorKind, Position};
use crate::format::dwell::device_key;
use crate::options::{DeviceChoice, TimeUnit};
use crate::record::{DeviceId, Record};
use crate::scan::{Expected, FieldError};
use crate::skips::Oddity;

/// Rows of the batches of all devices together: 32 MB, if they have the four required columns.
const BATCH_ROWS: usize = 1 << 20;
/// Rows of a batch of one device: more would not stay in the processor's cache.
const DEVICE_ROWS_MAX: usize = 16_384;
/// Devices whose row groups stay open between two batches. An open group has decoders of 15 KiB and a page of each column, which other programs
/// make a megabyte long. Those of more devices are opened again for each batch.
const OPEN_MAX: usize = 16;

/// Upper bound for the devices of a row group whose rows are read as those of row groups of a device each.
const RUNS_MAX: usize = 64;
/// Rows of a batch while they are searched.
const RUN_ROWS: usize = 8_192;

/// The columns, in the order of [`Batch::columns`].
const NUMBERS: [&str; 8] = ["at_ns", "latency_ns", "op", "offset", "bytes", "flags", "priority", "process"];
const REQUIRED: [&str; 4] = ["at_ns", "op", "offset", "bytes"];
const TEXTS: [&str; 2] = ["device", "process_name"];

/// Whether the column at this path belongs to recordings. The path of a column inside a list or a structure begins with the outer column's name.
fn is_known(path: &str) -> bool {
    NUMBERS.contains(&path) || TEXTS.contains(&path)
}

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
            let inside = format!("{name}.");
            let is_outer = schema.columns().iter().any(|column| column.path().string().starts_with(&inside));
            let problem = match is_outer {
                true => format!("column '{name}' has lists or structures; expected a whole number"),
                false => format!("the Parquet file has no column '{name}'"),
            };
            let advice = "docs/traces.md describes the columns of recordings";
            return Err(context.error(ErrorKind::Format, problem).advice(advice));
        }
    }
    for (at, column) in schema.columns().iter().enumerate() {
        let path = column.path().string();
        // Other columns are not read, whatever they contain.
        if !is_known(&path) {
            continue;
        }
        if position(&path) != Some(at) {
            let problem = format!("the Parquet file has two columns '{path}'");
            return Err(context.error(ErrorKind::Format, problem).advice("rename or remove one of them"));
        }
        if column.max_rep_level() > 0 {
            let problem = format!("column '{}' has lists", column.name());
            return Err(context.error(ErrorKind::Format, problem).advice("recordings have plain columns"));
        }
        if let Some(expected) = expected_type(column) {
            let found = type_name(column);
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
    let mut file = File {
        file: Arc::new(file),
        footer,
        columns,
        batch_rows: 0,
        cursors: Vec::new(),
        order: BinaryHeap::new(),
    };
    file.plan(parts, context)?;
    Ok(Box::new(file))
}

/// Checks that the columns of a group can be decompressed.
fn check_compression(group: &RowGroupMetaData, context: &Context) -> Result<(), Error> {
    for column in group.columns().iter().filter(|column| is_known(&column.column_path().string())) {
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

/// The type of a column in words.
fn type_name(column: &ColumnDescriptor) -> String {
    let physical = column.physical_type();
    let Some(logical) = column.logical_type_ref() else { return physical.to_string() };
    let unit = |unit: &TimeUnitOfFile| match unit {
        TimeUnitOfFile::MILLIS => "milliseconds",
        TimeUnitOfFile::MICROS => "microseconds",
        TimeUnitOfFile::NANOS => "nanoseconds",
    };
    let logical = match logical {
        LogicalType::Timestamp(of) => format!("a time stamp in {}", unit(&of.unit)),
        LogicalType::Time(of) => format!("a time of day in {}", unit(&of.unit)),
        LogicalType::Date => "a date in days".to_owned(),
        LogicalType::Decimal(of) => format!("a decimal number with {} digits behind the point", of.scale),
        LogicalType::String => "text".to_owned(),
        LogicalType::Integer(of) => {
            format!(
                "{} integer of {} bits",
                if of.is_signed { "a signed" } else { "an unsigned" },
                of.bit_width
            )
        }
        _ => return physical.to_string(),
    };
    format!("{physical}, {logical}")
}

/// The type that a column of recordings must have, if it has another one.
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
    (physical != Type::BYTE_ARRAY).then_some("text, BYTE_ARRAY")
}

fn damaged(context: &Context, error: &ParquetError) -> Error {
    let problem = format!("the Parquet file is damaged: {error}");
    let error = context.error(ErrorKind::Format, problem).advice("check that it was written to its end");
    match context.place {
        // No row is read yet.
        Position::Row(0) => error,
        place => error.at(place),
    }
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
    /// Rows of a cursor's batch.
    batch_rows: usize,
    cursors: Vec<Cursor>,
    /// Cursors with a row, by its time.
    order: BinaryHeap<Reverse<(u64, usize)>>,
}

/// The row groups of a device, or groups of several devices.
struct Cursor {
    /// Rows to come, those of the open group without readers too.
    groups: VecDeque<Rows>,
    /// The readers of the first group; four kilobytes, which most cursors of a fleet do not have.
    open: Option<Box<Open>>,
    /// If all groups have only one.
    device: Option<DeviceId>,
    batch: Batch,
}

/// Contiguous rows of a row group. A file may have a million groups.
#[derive(Clone, Copy)]
struct Rows {
    place: Place,
    /// Its rows before these.
    before: u32,
    count: u32,
    /// Rows before these in the file.
    passed: u64,
}

/// The name of a device, and the number of its rows that follow on each other.
type Run = (Vec<u8>, u32);

/// The columns of a row group in progress.
struct Open {
    numbers: [Option<ColumnReader>; 8],
    devices: Option<ColumnReader>,
    names: Option<ColumnReader>,
}

/// Decoded rows.
#[derive(Default)]
struct Batch {
    columns: [Values; 8],
    devices: Texts,
    names: Texts,
    at: usize,
    rows: usize,
    /// Rows of the file before the batch.
    passed: u64,
}

/// Values of a column.
#[derive(Default)]
struct Values {
    /// Any number where the file has a null; empty if the column is.
    values: Vec<i64>,
    /// Empty if there are no nulls.
    present: Vec<bool>,
}

impl Values {
    fn clear(&mut self) {
        self.values.clear();
        self.present.clear();
    }

    fn get(&self, at: usize) -> Option<i64> {
        let value = self.values.get(at)?;
        self.present.get(at).is_none_or(|&present| present).then_some(*value)
    }

    /// Appends values, of which a null has none.
    fn extend(&mut self, values: impl ExactSizeIterator<Item = i64>, present: &[i16]) {
        if values.len() == present.len() || present.is_empty() {
            self.values.reserve_exact(values.len());
            self.values.extend(values);
            return;
        }
        self.values.reserve_exact(present.len());
        self.present.reserve_exact(present.len());
        let mut values = values;
        for &level in present {
            self.present.push(level > 0);
            self.values.push(if level > 0 { values.next().unwrap_or_default() } else { 0 });
        }
    }
}

/// Values of a column of texts, of which many are equal: copies, because a slice of a page keeps the page.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    runs: Vec<TextRun>,
}

/// Equal texts that follow on each other.
struct TextRun {
    /// In [`Texts::bytes`]; `None`: null.
    text: Option<Range<usize>>,
    /// Rows up to its last one.
    rows: usize,
}

impl Texts {
    fn clear(&mut self) {
        self.bytes.clear();
        self.runs.clear();
    }

    fn push(&mut self, text: Option<&[u8]>) {
        let rows = self.runs.last().map_or(0, |run| run.rows) + 1;
        if let Some(run) = self.runs.last_mut()
            && run.text.clone().map(|text| &self.bytes[text]) == text
        {
            run.rows = rows;
            return;
        }
        let from = self.bytes.len();
        self.bytes.extend_from_slice(text.unwrap_or_default());
        self.runs.push(TextRun { text: text.map(|_| from..self.bytes.len()), rows });
    }

    fn get(&self, at: usize) -> Option<&[u8]> {
        let run = self.runs.get(self.runs.partition_point(|run| run.rows <= at))?;
        run.text.clone().map(|text| &self.bytes[text])
    }

    /// The texts, and how often each follows on itself.
    fn runs(&self) -> impl Iterator<Item = (Option<&[u8]>, usize)> {
        let mut before = 0;
        self.runs.iter().map(move |run| {
            let count = run.rows - before;
            before = run.rows;
            (run.text.clone().map(|text| &self.bytes[text]), count)
        })
    }
}

impl<R: ChunkReader + 'static> File<R> {
    /// Sorts the row groups by device.
    fn plan(&mut self, mut parts: Parts<R::T>, context: &mut Context) -> Result<(), Error> {
        let mut by_device: Vec<VecDeque<Rows>> = Vec::new();
        let mut mixed = VecDeque::new();
        let mut passed = 0;
        while let Some((places, part)) = guarded(context, || self.footer.part(&mut parts))? {
            for (&place, metadata) in places.iter().zip(part.row_groups()) {
                check_compression(metadata, context)?;
                let count = guarded(context, || row_count(metadata))?;
                let runs = match self.device_of(metadata) {
                    Some(name) => Some(vec![(name, count)]),
                    None => guarded(context, || self.runs(metadata))?,
                };
                let mut rows = Rows { place, before: 0, count, passed };
                passed += u64::from(count);
                let Some(runs) = runs else {
                    mixed.push_back(rows);
                    continue;
                };
                for (name, count) in runs {
                    let id = device(context, &name)?;
                    let index = id.0 as usize;
                    if by_device.len() <= index {
                        by_device.resize_with(index + 1, VecDeque::new);
                    }
                    rows.count = count;
                    if self.is_wanted(context, id) {
                        by_device[index].push_back(rows);
                    } else {
                        context.devices.count_many(id, count.into());
                    }
                    rows.pass(count);
                }
            }
        }
        let by_device = by_device.into_iter().zip(0..).map(|(groups, id)| (groups, Some(DeviceId(id))));
        for (mut groups, device) in by_device.chain([(mixed, None)]) {
            if !groups.is_empty() {
                groups.shrink_to_fit();
                self.cursors.push(Cursor { groups, open: None, device, batch: Batch::default() });
            }
        }
        self.batch_rows = (BATCH_ROWS / self.cursors.len().max(1)).clamp(1, DEVICE_ROWS_MAX);
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
        let rows = row_count(group)? as usize;
        let mut reader = self.column(group, column)?;
        let (mut names, mut runs) = (Texts::default(), Vec::<Run>::new());
        let mut passed = 0;
        while passed < rows {
            names.clear();
            let count = RUN_ROWS.min(rows - passed);
            texts(&mut reader, count, &mut names)?;
            for (name, count) in names.runs() {
                let (Some(name), count) = (name, count as u32) else { return Ok(None) };
                if let Some((_, rows)) = runs.last_mut().filter(|(last, _)| last == name) {
                    *rows += count;
                } else if runs.len() == RUNS_MAX || runs.iter().any(|run| run.0 == name) {
                    return Ok(None);
                } else {
                    runs.push((name.to_vec(), count));
                }
            }
            passed += count;
        }
        Ok(Some(runs))
    }

    /// The reader of a column of a row group.
    fn column(&self, group: &RowGroupMetaData, at: usize) -> Result<ColumnReader, ParquetError> {
        column_reader(Arc::clone(&self.file), group, at)
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
        let stays_open = self.cursors.len() <= OPEN_MAX;
        loop {
            let cursor = &mut self.cursors[index];
            if cursor.batch.at < cursor.batch.rows {
                return Ok(true);
            }
            let Some(&rows) = cursor.groups.front() else {
                cursor.batch = Batch::default();
                return Ok(false);
            };
            let open = cursor.open.take();
            let mut open = match open {
                Some(open) => open,
                None => self.open(rows, self.cursors[index].device)?,
            };
            let count = self.batch_rows.min(rows.count as usize);
            let Cursor { groups, batch, open: kept, .. } = &mut self.cursors[index];
            open.read(count, batch)?;
            batch.passed = rows.passed;
            if let Some(rows) = groups.front_mut() {
                rows.pass(count as u32);
                if rows.count == 0 {
                    groups.pop_front();
                } else if stays_open {
                    *kept = Some(open);
                }
            }
        }
    }

    /// Readers of rows; a known device is not read.
    fn open(&self, rows: Rows, device: Option<DeviceId>) -> Result<Box<Open>, ParquetError> {
        let group = &self.footer.group(&*self.file, rows.place)?;
        let column = |at: Option<usize>| match at {
            Some(at) if !is_all_null(group, at) => self.column(group, at).map(Some),
            _ => Ok(None),
        };
        let mut numbers = [const { None }; 8];
        for (reader, at) in numbers.iter_mut().zip(self.columns.numbers) {
            *reader = column(at)?;
        }
        let devices = if device.is_some() { None } else { column(self.columns.device)? };
        let mut open = Box::new(Open { numbers, devices, names: column(self.columns.name)? });
        open.skip(rows.before as usize)?;
        Ok(open)
    }
}

impl Rows {
    /// Passes the first rows.
    fn pass(&mut self, rows: u32) {
        self.before += rows;
        self.count -= rows;
        self.passed += u64::from(rows);
    }
}

fn row_count(group: &RowGroupMetaData) -> Result<u32, ParquetError> {
    u32::try_from(group.num_rows())
        .map_err(|_| ParquetError::General("a row group has more than 4294967295 rows".to_owned()))
}

fn ends_early() -> ParquetError {
    ParquetError::General("a column ends before its row group".to_owned())
}

fn is_all_null(group: &RowGroupMetaData, at: usize) -> bool {
    let nulls = group.column(at).statistics().and_then(Statistics::null_count_opt);
    nulls.is_some() && nulls == u64::try_from(group.num_rows()).ok()
}

impl Open {
    fn readers(&mut self) -> impl Iterator<Item = &mut ColumnReader> {
        self.numbers.iter_mut().chain([&mut self.devices, &mut self.names]).flatten()
    }

    /// Passes the first rows.
    fn skip(&mut self, rows: usize) -> Result<(), ParquetError> {
        for reader in self.readers() {
            let skipped = match reader {
                ColumnReader::Int64ColumnReader(reader) => reader.skip_records(rows)?,
                ColumnReader::Int32ColumnReader(reader) => reader.skip_records(rows)?,
                ColumnReader::ByteArrayColumnReader(reader) => reader.skip_records(rows)?,
                _ => rows,
            };
            if skipped < rows {
                return Err(ends_early());
            }
        }
        Ok(())
    }

    /// Reads the next rows.
    fn read(&mut self, rows: usize, batch: &mut Batch) -> Result<(), ParquetError> {
        (batch.at, batch.rows) = (0, 0);
        for (reader, values) in self.numbers.iter_mut().zip(&mut batch.columns) {
            values.clear();
            reader.as_mut().map_or(Ok(()), |reader| integers(reader, rows, values))?;
        }
        for (reader, values) in [(&mut self.devices, &mut batch.devices), (&mut self.names, &mut batch.names)]
        {
            values.clear();
            reader.as_mut().map_or(Ok(()), |reader| texts(reader, rows, values))?;
        }
        batch.rows = rows;
        Ok(())
    }
}

/// The values of the next rows, and for each row whether it has one: empty in a column without nulls.
macro_rules! read {
    ($reader:expr, $rows:expr) => {{
        let (mut present, mut values) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < $rows {
            let (records, _, _) =
                $reader.read_records($rows - done, Some(&mut present), None, &mut values)?;
            if records == 0 {
                return Err(ends_early());
            }
            done += records;
        }
        let expected = if present.is_empty() { values.len() } else { present.len() };
        if expected != $rows || present.iter().filter(|&&level| level > 0).count() > values.len() {
            return Err(ends_early());
        }
        (values, present)
    }};
}

fn integers(reader: &mut ColumnReader, rows: usize, to: &mut Values) -> Result<(), ParquetError> {
    match reader {
        ColumnReader::Int64ColumnReader(reader) => {
            let (values, present) = read!(reader, rows);
            to.extend(values.into_iter(), &present);
        }
        ColumnReader::Int32ColumnReader(reader) => {
            let (values, present) = read!(reader, rows);
            to.extend(values.into_iter().map(i64::from), &present);
        }
        _ => {
            let problem = "a column of numbers has another type than INT32 or INT64";
            return Err(ParquetError::General(problem.to_owned()));
        }
    }
    Ok(())
}

fn texts(reader: &mut ColumnReader, rows: usize, to: &mut Texts) -> Result<(), ParquetError> {
    let ColumnReader::ByteArrayColumnReader(reader) = reader else {
        let problem = "a column of names has another type than BYTE_ARRAY";
        return Err(ParquetError::General(problem.to_owned()));
    };
    let (values, present): (Vec<ByteArray>, _) = read!(reader, rows);
    if present.is_empty() {
        values.iter().for_each(|value| to.push(Some(value.data())));
        return Ok(());
    }
    let mut values = values.iter();
    for level in present {
        to.push(if level > 0 { values.next().map(ByteArray::data) } else { None });
    }
    Ok(())
}

fn device(context: &mut Context, name: &[u8]) -> Result<DeviceId, Error> {
    let problem = || format!("more than {DEVICES_MAX} devices");
    let id = context.device(device_key(name));
    id.map_err(|_| context.error(ErrorKind::Limit, problem()).advice(FEWER_DEVICES))
}

impl<R: ChunkReader + 'static> Source for File<R> {
    fn next(&mut self, context: &mut Context) -> Result<Option<Record>, Error> {
        while let Some(Reverse((_, index))) = self.order.pop() {
            let Cursor { batch, device, .. } = &mut self.cursors[index];
            let at = batch.at;
            batch.at += 1;
            context.place = Position::Row(batch.passed + at as u64 + 1);
            let record = match batch.record(at, *device, context) {
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

    /// A row, of `device` if all are.
    fn record(
        &self,
        at: usize,
        device: Option<DeviceId>,
        context: &mut Context,
    ) -> Result<Record, FieldError> {
        let bad = |field, expected| FieldError { field, expected: Expected::Text(expected), at: 0 };
        let number = |column: usize| self.columns[column].get(at);
        let positive = |column: usize| {
            let value = number(column).and_then(|value| u64::try_from(value).ok());
            value.ok_or_else(|| bad(NUMBERS[column], "a number from 0"))
        };
        let device = match (device, self.devices.get(at)) {
            (Some(device), _) => device,
            (None, Some(name)) => context.device(device_key(name))?,
            (None, None) => return Err(bad("device", "a name")),
        };
        let issued = positive(0)?;
        let op = number(2).and_then(|op| usize::try_from(op).ok()).and_then(|op| OPS.get(op));
        let op = *op.ok_or_else(|| bad("op", "a number from 0 to 3"))?;
        let extent = |column: usize| match number(column) {
            None if op == Op::Flush => Ok(0),
            _ => positive(column),
        };
        let mut record = Record::new(Time::from_nanos(issued), device, op, extent(3)?, extent(4)?);
        if number(1).is_some() {
            record.completed = issued.checked_add(positive(1)?).map(Time::from_nanos);
        }
        if let Some(bits) = number(5) {
            record.flags = flags(bits).ok_or_else(|| bad("flags", "a sum of 1, 2, 4, 8 and 16"))?;
        }
        if let Some(of_linux) = number(6) {
            let expected = "0, or a class from 1 to 3 times 8192 plus a level from 0 to 7";
            record.priority = priority(of_linux).ok_or_else(|| bad("priority", expected))?;
        }
        if let Some(pid) = number(7) {
            let pid = u32::try_from(pid).map_err(|_| bad("process", "a number below 2^32"))?;
            record.process = context.process(pid, self.names.get(at).unwrap_or_default());
        }
        if record.completed.is_none() && number(1).is_some() {
            context.skips.add(Oddity::CompletedEarly, 1, context.place);
        }
        Ok(record)
    }
}
