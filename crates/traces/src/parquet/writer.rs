//! Writes a Parquet file: row groups of one device each, a device's in the order of time.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type as Node, TypePtr};

use super::{flag_bits, op_number, priority_number};
use crate::record::Record;
use crate::write::Written;

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 17;
/// Rows in memory, of all devices together: about 50 bytes each.
const ROWS_MAX: usize = 1 << 20;

/// Writes all fields of records.
pub struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    /// By device.
    devices: Vec<Rows>,
    names: HashMap<String, ByteArray>,
    rows: usize,
    written: Written,
}

/// Rows of a device that are in no group yet.
#[derive(Default)]
struct Rows {
    name: ByteArray,
    at: Vec<i64>,
    latency: Optional<i64>,
    op: Vec<i32>,
    offset: Vec<i64>,
    bytes: Vec<i64>,
    flags: Optional<i32>,
    priority: Optional<i32>,
    process: Optional<i64>,
    process_name: Optional<ByteArray>,
}

/// A column that may have no values.
struct Optional<T> {
    present: Vec<i16>,
    values: Vec<T>,
}

impl<T> Default for Optional<T> {
    fn default() -> Self {
        Self { present: Vec::new(), values: Vec::new() }
    }
}

impl<T> Optional<T> {
    #[inline]
    fn push(&mut self, value: Option<T>) {
        self.present.push(i16::from(value.is_some()));
        self.values.extend(value);
    }
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

fn properties(comment: &str) -> WriterPropertiesPtr {
    let metadata = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_data_page_size_limit(256 << 10)
        .set_created_by(concat!("dwell ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![
            metadata("dwell.recording", "1"),
            metadata("dwell.comment", comment),
        ]));
    // Ascending or scattered numbers: a dictionary of them would be as large as the column.
    for (name, encoding) in [
        ("at_ns", Encoding::DELTA_BINARY_PACKED),
        ("latency_ns", Encoding::DELTA_BINARY_PACKED),
        ("offset", Encoding::DELTA_BINARY_PACKED),
    ] {
        let path = ColumnPath::from(name);
        properties =
            properties.set_column_dictionary_enabled(path.clone(), false).set_column_encoding(path, encoding);
    }
    Arc::new(properties.build())
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
        let file = schema().and_then(|schema| SerializedFileWriter::new(sink, schema, properties(comment)));
        let (devices, names, written) = (Vec::new(), HashMap::new(), Written::default());
        Ok(Self { file: file.map_err(failed)?, devices, names, rows: 0, written })
    }

    /// Adds the names of new devices; `devices` are all devices of the recording.
    pub fn meet<N: AsRef<str>>(&mut self, devices: impl IntoIterator<Item = N>) {
        let new = devices.into_iter().skip(self.devices.len());
        let rows =
            |name: N| Rows { name: ByteArray::from(name.as_ref().as_bytes().to_vec()), ..Rows::default() };
        self.devices.extend(new.map(rows));
    }

    /// Writes a record; `process_name` is the name of its process, if known.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn write(&mut self, record: &Record, process_name: Option<&str>) -> io::Result<()> {
        let number = |value: u64| i64::try_from(value).ok();
        let device = record.device.0 as usize;
        let fields = (number(record.at.as_nanos()), number(record.offset), number(record.bytes));
        let (Some(at), Some(offset), Some(bytes)) = fields else {
            self.written.left_out += 1;
            return Ok(());
        };
        while self.devices.len() <= device {
            let name = ByteArray::from(self.devices.len().to_string().into_bytes());
            self.devices.push(Rows { name, ..Rows::default() });
        }
        let name = process_name.map(|name| match self.names.get(name) {
            Some(known) => known.clone(),
            None => {
                let bytes = ByteArray::from(name.as_bytes().to_vec());
                self.names.insert(name.to_owned(), bytes.clone());
                bytes
            }
        });
        let rows = &mut self.devices[device];
        rows.at.push(at);
        rows.latency.push(record.latency().and_then(|latency| number(latency.as_nanos())));
        rows.op.push(op_number(record.op));
        rows.offset.push(offset);
        rows.bytes.push(bytes);
        rows.flags.push(Some(flag_bits(record.flags)).filter(|bits| *bits != 0));
        rows.priority.push(record.priority.map(priority_number));
        rows.process.push(record.process.map(|pid| pid.0.into()));
        rows.process_name.push(name);
        let is_full = rows.at.len() >= GROUP_ROWS;
        self.rows += 1;
        self.written.written += 1;
        if is_full {
            self.flush(device)?;
        } else if self.rows >= ROWS_MAX {
            self.flush_largest()?;
        }
        Ok(())
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
        order.sort_by_key(|&device| std::cmp::Reverse(self.devices[device].at.len()));
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
        let count = rows.at.len();
        if count > 0 {
            group(&mut self.file, rows).map_err(failed)?;
            self.rows -= count;
            // A new buffer: those of many devices would together exceed the limit of memory.
            let name = self.devices[device].name.clone();
            self.devices[device] = Rows { name, ..Rows::default() };
        }
        Ok(())
    }

    /// Writes what is in memory, and the index.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn finish(mut self) -> io::Result<Written> {
        self.flush_all()?;
        self.file.close().map_err(failed)?;
        Ok(self.written)
    }
}

fn group<W: Write + Send>(file: &mut SerializedFileWriter<W>, rows: &Rows) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    let mut index = 0;
    while let Some(mut column) = group.next_column()? {
        match (column.untyped(), index) {
            (ColumnWriter::ByteArrayColumnWriter(column), 0) => {
                column.write_batch(&vec![rows.name.clone(); rows.at.len()], None, None)?;
            }
            (ColumnWriter::Int64ColumnWriter(column), 1) => {
                column.write_batch(&rows.at, None, None)?;
            }
            (ColumnWriter::Int64ColumnWriter(column), 2) => {
                column.write_batch(&rows.latency.values, Some(&rows.latency.present), None)?;
            }
            (ColumnWriter::Int32ColumnWriter(column), 3) => {
                column.write_batch(&rows.op, None, None)?;
            }
            (ColumnWriter::Int64ColumnWriter(column), 4) => {
                column.write_batch(&rows.offset, None, None)?;
            }
            (ColumnWriter::Int64ColumnWriter(column), 5) => {
                column.write_batch(&rows.bytes, None, None)?;
            }
            (ColumnWriter::Int32ColumnWriter(column), 6) => {
                column.write_batch(&rows.flags.values, Some(&rows.flags.present), None)?;
            }
            (ColumnWriter::Int32ColumnWriter(column), 7) => {
                column.write_batch(&rows.priority.values, Some(&rows.priority.present), None)?;
            }
            (ColumnWriter::Int64ColumnWriter(column), 8) => {
                column.write_batch(&rows.process.values, Some(&rows.process.present), None)?;
            }
            (ColumnWriter::ByteArrayColumnWriter(column), _) => {
                column.write_batch(&rows.process_name.values, Some(&rows.process_name.present), None)?;
            }
            _ => {}
        }
        column.close()?;
        index += 1;
    }
    group.close()?;
    Ok(())
}
