//! The index at the end of a file.
//!
//! The library keeps about five kilobytes for each row group, half a gigabyte for a fleet's day. Here they are 250 bytes, until the end.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, EncodingMask, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::statistics::Statistics;
use parquet::schema::types::SchemaDescPtr;

/// Number of columns.
const COLUMNS: usize = 10;

/// An encoded row group.
#[derive(Clone)]
pub(super) struct Group {
    /// First byte in the file.
    pub(super) from: u64,
    pub(super) device: u32,
    pub(super) rows: u32,
    /// The first and the last time.
    pub(super) times: [i64; 2],
    pub(super) columns: [Chunk; COLUMNS],
}

/// A column of a group. Sizes are in bytes; a group is much smaller than 4 GiB.
#[derive(Clone, Copy, Default)]
pub(super) struct Chunk {
    /// Size of the dictionary page; 0: none.
    pub(super) dictionary: u32,
    /// Size of all pages, which are not compressed.
    pub(super) bytes: u32,
    pub(super) encodings: i32,
    /// No row has a value.
    pub(super) is_empty: bool,
}

/// Writes the index behind the groups; `devices` are the names of the devices.
pub(super) fn write(
    sink: impl Write,
    schema: &SchemaDescPtr,
    comment: &str,
    groups: &[Group],
    devices: &[ByteArray],
) -> Result<(), ParquetError> {
    let rows = groups.iter().map(|group| i64::from(group.rows)).sum();
    let value = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let metadata = Some(vec![value("dwell.recording", "1"), value("dwell.comment", comment)]);
    let created_by = Some(concat!("dwell ", env!("CARGO_PKG_VERSION")).to_owned());
    let file = FileMetaData::new(1, rows, created_by, metadata, Arc::clone(schema), None);
    let row_groups = groups.iter().map(|group| row_group(group, schema, devices));
    let metadata = ParquetMetaData::new(file, row_groups.collect::<Result<_, _>>()?);
    ParquetMetaDataWriter::new(sink, &metadata).finish()
}

fn row_group(
    group: &Group,
    schema: &SchemaDescPtr,
    devices: &[ByteArray],
) -> Result<RowGroupMetaData, ParquetError> {
    let mut from = group.from as i64;
    let mut columns = Vec::with_capacity(COLUMNS);
    for (index, chunk) in group.columns.iter().enumerate() {
        let column = schema.column(index);
        let statistics = match (column.name(), column.physical_type()) {
            ("device", _) => {
                let name = devices.get(group.device as usize).cloned();
                Some(Statistics::byte_array(name.clone(), name, None, Some(0), false))
            }
            ("at_ns", _) => {
                let [first, last] = group.times.map(Some);
                Some(Statistics::int64(first, last, None, Some(0), false))
            }
            _ if !chunk.is_empty => None,
            (_, Physical::INT32) => Some(Statistics::int32(None, None, None, Some(group.rows.into()), false)),
            (_, Physical::INT64) => Some(Statistics::int64(None, None, None, Some(group.rows.into()), false)),
            _ => Some(Statistics::byte_array(None, None, None, Some(group.rows.into()), false)),
        };
        let mut metadata = ColumnChunkMetaData::builder(column)
            .set_compression(Compression::UNCOMPRESSED)
            .set_encodings_mask(EncodingMask::try_new(chunk.encodings)?)
            .set_num_values(group.rows.into())
            .set_total_compressed_size(chunk.bytes.into())
            .set_total_uncompressed_size(chunk.bytes.into())
            .set_data_page_offset(from + i64::from(chunk.dictionary))
            .set_dictionary_page_offset((chunk.dictionary > 0).then_some(from));
        if let Some(statistics) = statistics {
            metadata = metadata.set_statistics(statistics);
        }
        columns.push(metadata.build()?);
        from += i64::from(chunk.bytes);
    }
    let bytes = group.columns.iter().map(|chunk| i64::from(chunk.bytes)).sum();
    RowGroupMetaData::builder(Arc::clone(schema))
        .set_num_rows(group.rows.into())
        .set_total_byte_size(bytes)
        .set_column_metadata(columns)
        .build()
}
