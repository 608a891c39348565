//! The index of a file that is read.
//!
//! The library decodes an index as a whole and keeps about five kilobytes for each row group, half a gigabyte for a fleet's day. Here the index is
//! read as a stream and decoded in parts of some groups; a group is decoded again when it is opened. A walk over Thrift's compact protocol finds
//! where the description of a group ends.

use std::io::{BufRead, BufReader, Read, Take};

use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FooterTail, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::reader::ChunkReader;
use parquet::schema::types::SchemaDescPtr;

use super::index::list_head;

/// Groups that are decoded together.
const PART: usize = 256;
/// Bytes of their descriptions, unless one group has more.
const PART_BYTES: usize = 1 << 20;
/// Upper bound for one description: a group of 100,000 columns.
const GROUP_BYTES_MAX: u64 = 64 << 20;
/// Upper bound for structures in each other.
const DEPTH_MAX: u32 = 16;

/// Length of the last part of a file: the length of the index, and the magic number.
const TAIL: u64 = 8;

/// Fields of the index, in their order: version, schema, rows, groups.
const GROUPS_FIELD: i64 = 4;
/// Types of Thrift's compact protocol.
const LIST: u8 = 9;
const STRUCTURE: u8 = 12;

/// Where the description of a row group is in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    at: u64,
    length: u32,
}

/// Decodes descriptions of row groups.
pub(super) struct Footer {
    options: ParquetMetaDataOptions,
}

/// The groups that are not read yet.
pub(super) struct Parts<T: Read> {
    bytes: Bytes<T>,
    left: u64,
}

impl Footer {
    /// The columns of a file, and its groups.
    pub(super) fn read<R: ChunkReader>(file: &R) -> Result<(Self, SchemaDescPtr, Parts<R::T>), ParquetError> {
        let length = file.len();
        let start = length.checked_sub(TAIL).ok_or_else(|| general("it is too short"))?;
        let tail = file.get_bytes(start, TAIL as usize)?;
        let tail = FooterTail::try_from(&tail[..])?;
        if tail.is_encrypted_footer() {
            return Err(general("its index is encrypted"));
        }
        let length = tail.metadata_length() as u64;
        let at = start.checked_sub(length).ok_or_else(|| general("its index is longer than the file"))?;
        let mut bytes =
            Bytes { source: BufReader::new(file.get_read(at)?).take(length), taken: Vec::new(), at };
        let mut id = 0;
        let (before, left) = loop {
            let before = bytes.taken.len();
            let field = bytes.field(id)?.ok_or_else(|| general("it has no list of row groups"))?;
            id = field.0;
            if id == GROUPS_FIELD {
                bytes.check(field.1, LIST)?;
                break (before, bytes.list(STRUCTURE)?);
            }
            bytes.skip(field.1, 0)?;
        };
        // The same without groups. The field's head is one byte, or has an identifier of its own.
        let mut without = std::mem::take(&mut bytes.taken);
        without.truncate(before);
        without.extend([LIST, 2 * GROUPS_FIELD as u8]);
        list_head(&mut without, 0);
        without.push(0);
        let schema = ParquetMetaDataReader::decode_metadata(&without)?.file_metadata().schema_descr_ptr();
        let options = ParquetMetaDataOptions::new().with_schema(SchemaDescPtr::clone(&schema));
        Ok((Self { options }, schema, Parts { bytes, left }))
    }

    /// The next groups, with their places in the file; `None` at the end.
    pub(super) fn part<T: Read>(
        &self,
        parts: &mut Parts<T>,
    ) -> Result<Option<(Vec<Place>, ParquetMetaData)>, ParquetError> {
        let mut places = Vec::new();
        parts.bytes.taken.clear();
        while parts.left > 0 && places.len() < PART && parts.bytes.taken.len() < PART_BYTES {
            let (at, before) = (parts.bytes.at, parts.bytes.taken.len());
            parts.bytes.skip(STRUCTURE, 0)?;
            let length = parts.bytes.taken.len() - before;
            places.push(Place { at, length: length as u32 });
            parts.left -= 1;
        }
        if places.is_empty() {
            return Ok(None);
        }
        let decoded = self.decode(places.len(), &parts.bytes.taken)?;
        Ok(Some((places, decoded)))
    }

    /// The description of a group.
    pub(super) fn group<R: ChunkReader>(
        &self,
        file: &R,
        place: Place,
    ) -> Result<RowGroupMetaData, ParquetError> {
        let bytes = file.get_bytes(place.at, place.length as usize)?;
        self.decode(1, &bytes)?.row_groups().first().cloned().ok_or_else(|| general("a row group is missing"))
    }

    fn decode(&self, count: usize, groups: &[u8]) -> Result<ParquetMetaData, ParquetError> {
        // Version 1, no schema, 0 rows; then the groups.
        let mut index = vec![0x15, 2, 0x26, 0, 0x10 | LIST];
        list_head(&mut index, count);
        index.extend_from_slice(groups);
        index.push(0);
        ParquetMetaDataReader::decode_metadata_with_options(&index, Some(&self.options))
    }
}

fn general(problem: &str) -> ParquetError {
    ParquetError::General(problem.to_owned())
}

/// The bytes of the index, of which the latest are kept.
struct Bytes<T: Read> {
    source: Take<BufReader<T>>,
    taken: Vec<u8>,
    /// Position of the next byte in the file.
    at: u64,
}

impl<T: Read> Bytes<T> {
    fn byte(&mut self) -> Result<u8, ParquetError> {
        self.check_length(1)?;
        let next = self.source.fill_buf()?.first().copied().ok_or_else(|| general("its index ends early"))?;
        self.source.consume(1);
        self.taken.push(next);
        self.at += 1;
        Ok(next)
    }

    fn check_length(&self, more: u64) -> Result<(), ParquetError> {
        match self.taken.len() as u64 + more {
            ..=GROUP_BYTES_MAX => Ok(()),
            _ => Err(general("a part of its index has more than 64 MiB")),
        }
    }

    fn take(&mut self, count: u64) -> Result<(), ParquetError> {
        self.check_length(count)?;
        let read = self.source.by_ref().take(count).read_to_end(&mut self.taken)? as u64;
        self.at += read;
        if read == count { Ok(()) } else { Err(general("its index ends early")) }
    }

    fn number(&mut self) -> Result<u64, ParquetError> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(general("a number in its index is too long"))
    }

    /// The identifier and type of the next field, after the field `last`; `None` at the end of the structure.
    fn field(&mut self, last: i64) -> Result<Option<(i64, u8)>, ParquetError> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        let id = match head >> 4 {
            0 => {
                let zigzag = self.number()?;
                (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
            }
            step => last.saturating_add(step.into()),
        };
        Ok(Some((id, head & 0xf)))
    }

    fn check(&self, found: u8, expected: u8) -> Result<(), ParquetError> {
        if found == expected { Ok(()) } else { Err(general("its list of row groups has another type")) }
    }

    /// The length of a list of this type.
    fn list(&mut self, expected: u8) -> Result<u64, ParquetError> {
        let (length, kind) = self.any_list()?;
        self.check(kind, expected)?;
        Ok(length)
    }

    fn any_list(&mut self) -> Result<(u64, u8), ParquetError> {
        let head = self.byte()?;
        let length = if head >> 4 == 0xf { self.number()? } else { u64::from(head >> 4) };
        Ok((length, head & 0xf))
    }

    /// Passes a value of a field.
    fn skip(&mut self, kind: u8, depth: u32) -> Result<(), ParquetError> {
        if depth > DEPTH_MAX {
            return Err(general("its index has structures in too many others"));
        }
        match kind {
            // The type of a flag is its value.
            1 | 2 => Ok(()),
            3 => self.take(1),
            4..=6 => self.number().map(drop),
            7 => self.take(8),
            8 => {
                let length = self.number()?;
                self.take(length)
            }
            LIST | 10 => {
                let (length, kind) = self.any_list()?;
                (0..length).try_for_each(|_| self.skip_element(kind, depth))
            }
            11 => {
                let length = self.number()?;
                let kinds = if length > 0 { self.byte()? } else { 0 };
                (0..length).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 0xf, depth)
                })
            }
            STRUCTURE => {
                let mut last = 0;
                while let Some((id, kind)) = self.field(last)? {
                    last = id;
                    self.skip(kind, depth + 1)?;
                }
                Ok(())
            }
            13 => self.take(16),
            _ => Err(general("its index has an unknown type")),
        }
    }

    /// Passes an element of a list or map, where a flag has a byte.
    fn skip_element(&mut self, kind: u8, depth: u32) -> Result<(), ParquetError> {
        self.skip(if matches!(kind, 1 | 2) { 3 } else { kind }, depth + 1)
    }
}
