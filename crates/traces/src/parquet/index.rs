//! The index at the end of a file.
//!
//! The library keeps about five kilobytes for each row group, half a gigabyte for a fleet's day. Here a [`Group`] is in memory at a time.

use std::io::{BufWriter, Write};
use std::sync::Arc;

use parquet::basic::{Compression, EncodingMask, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::statistics::Statistics;
use parquet::schema::types::SchemaDescPtr;

use super::groups::{COLUMNS, Group, Groups};
use super::varint::number;
use crate::binary::PARQUET_MAGIC;

/// Writes the index behind the groups; `devices` are the names of the devices.
///
/// The library writes an index as a whole. Here it writes one for each group, of which only the group's part is used, so that the index of a
/// fleet is never in memory.
pub(super) fn write(
    sink: impl Write,
    schema: &SchemaDescPtr,
    comment: &str,
    groups: &Groups,
    devices: &[ByteArray],
) -> Result<(), ParquetError> {
    let index = |groups: Vec<RowGroupMetaData>| -> Result<Vec<u8>, ParquetError> {
        let value = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
        let metadata = Some(vec![value("dwell.recording", "1"), value("dwell.comment", comment)]);
        let created_by = Some(concat!("dwell ", env!("CARGO_PKG_VERSION")).to_owned());
        // The library computes the number of rows.
        let file = FileMetaData::new(1, 0, created_by, metadata, Arc::clone(schema), None);
        let mut bytes = Vec::new();
        ParquetMetaDataWriter::new(&mut bytes, &ParquetMetaData::new(file, groups)).finish()?;
        bytes.truncate(bytes.len() - END_BYTES);
        Ok(bytes)
    };
    let mut sink = BufWriter::with_capacity(1 << 16, sink);
    let none = index(Vec::new())?;
    let Some(first) = groups.iter().next() else { return end(sink, &none, 0) };
    let one = index(vec![row_group(&first?, schema, devices)?])?;
    // The first byte that differs is the number of rows; then come a byte for the field of the groups, the head of their list, and the groups.
    let unknown = || ParquetError::General("the index has an unknown form".to_owned());
    let rows_at = none.iter().zip(&one).position(|(none, one)| none != one).ok_or_else(unknown)?;
    let (field, last) = (none[rows_at + 1], &none[rows_at + 3..]);
    let head = |rows: u64, groups: usize| {
        let mut head = none[..rows_at].to_vec();
        // Twice, because signed numbers are in zigzag order.
        number(&mut head, 2 * rows);
        head.push(field);
        list_head(&mut head, groups);
        head
    };
    let all = head(groups.rows(), groups.len());
    sink.write_all(&all)?;
    let mut length = all.len();
    for group in groups.iter() {
        let group = group?;
        let bytes = index(vec![row_group(&group, schema, devices)?])?;
        let own = bytes.strip_prefix(head(group.rows.into(), 1).as_slice());
        let own = own.and_then(|bytes| bytes.strip_suffix(last)).ok_or_else(unknown)?;
        sink.write_all(own)?;
        length += own.len();
    }
    end(sink, last, length)
}

/// Bytes behind the index: its length, and the magic number.
const END_BYTES: usize = 8;

/// Writes the last part of the index, of which `length` bytes are written, and the end of the file.
fn end(mut sink: impl Write, last: &[u8], length: usize) -> Result<(), ParquetError> {
    let too_long =
        |_| ParquetError::General("the index is longer than 4 GiB; split the recording".to_owned());
    let length = u32::try_from(length + last.len()).map_err(too_long)?;
    sink.write_all(last)?;
    sink.write_all(&length.to_le_bytes())?;
    sink.write_all(PARQUET_MAGIC)?;
    Ok(sink.flush()?)
}

/// The head of a list of structures in Thrift's compact protocol.
pub(super) fn list_head(to: &mut Vec<u8>, length: usize) {
    const STRUCTURE: u8 = 12;
    match length {
        ..15 => to.push((length as u8) << 4 | STRUCTURE),
        _ => {
            to.push(0xf0 | STRUCTURE);
            number(to, length as u64);
        }
    }
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
