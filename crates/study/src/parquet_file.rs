//! Parquet files of rows, written and read by columns. Arrow is not needed for that, and would double the time to build.
//!
//! A file has a checksum of all its bytes in its metadata: a changed bit in a header or in the index would otherwise give other rows. Files are
//! small, so they are read as a whole.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use evaluation::Error;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::ColumnReader;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type as Node, TypePtr};

use crate::table::{Cell, Field, Type};
use crate::unfinished;

/// Version of the columns, in each file's metadata.
const SCHEMA_VERSION: &str = "1";

/// What the files of this program name as their writer. Other programs keep the metadata when they write the rows of a file.
const WRITER: &str = concat!("dwell ", env!("CARGO_PKG_VERSION"));
const WRITERS: &str = "dwell ";

/// Key of the checksum in the metadata: the CRC-32 of the file, in which these [`DIGITS`] are zeros.
pub(crate) const CHECKSUM: &str = "dwell.crc32";
const DIGITS: &str = "00000000";

fn schema(fields: &[Field]) -> Result<TypePtr> {
    let column = |field: &Field| {
        let (physical, logical) = match field.kind {
            Type::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Type::Whole => (Physical::INT64, None),
            Type::Number => (Physical::DOUBLE, None),
            Type::Flag => (Physical::BOOLEAN, None),
        };
        let node = Node::primitive_type_builder(field.name, physical).with_repetition(Repetition::OPTIONAL);
        node.with_logical_type(logical).build().map(Arc::new)
    };
    let columns = fields.iter().map(column).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Node::group_type_builder("dwell").with_fields(columns).build()?))
}

/// Writes a table, which appears under its name when it is complete.
pub fn write_table(path: &Path, fields: &[Field], rows: &[Vec<Cell>]) -> std::result::Result<(), Error> {
    let failed = |error: &std::io::Error| Error::written(path.display(), error);
    let content = encode(fields, &rows.iter().collect::<Vec<_>>(), &[])?;
    let (mut file, temporary) = unfinished::create(path).map_err(|error| failed(&error))?;
    let written = file.write_all(&content).and_then(|()| file.sync_all());
    let renamed = written.and_then(|()| std::fs::rename(&temporary, path));
    renamed.map_err(|error| failed(&error)).inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

/// Reads the columns with these names, in their order; a column that the file does not have is empty.
///
/// # Errors
/// The file cannot be read, is no Parquet file, or was changed since `dwell` wrote it.
pub fn read_table(path: &Path, names: &[&str]) -> std::result::Result<Vec<Vec<Cell>>, Error> {
    opened(path)?.and_then(|reader| cells(&reader, names)).map_err(|error| {
        let problem = match error.to_string() {
            text if text.contains("Disabled feature") => {
                "the compression of its columns is not read here; write it with Snappy or Zstandard, or without".to_owned()
            }
            text => format!("no valid Parquet file ({text}); copy it again, or write it again"),
        };
        Error::Input(format!("{}: {problem}", path.display()))
    })
}

/// A file in memory.
struct Content {
    bytes: Arc<Bytes>,
    reader: SerializedFileReader<Bytes>,
}

/// Reads a file and verifies its checksum. Files of other programs, and those of `dwell` before there were checksums, have none.
fn opened(path: &Path) -> std::result::Result<Result<Content>, Error> {
    let content = std::fs::read(path).map_err(|error| Error::file(path.display(), &error))?;
    let content = Bytes::from(content);
    Ok(SerializedFileReader::new(content.clone()).and_then(|reader| {
        let reader = Content { bytes: Arc::new(content.clone()), reader };
        let metadata = reader.reader.metadata().file_metadata();
        let is_own = metadata.created_by().is_some_and(|writer| writer.starts_with(WRITERS));
        let stored = value(&reader, CHECKSUM);
        match stored.filter(|stored| is_own && *stored != file_checksum(&content)) {
            None => Ok(reader),
            Some(_) => Err(ParquetError::General("its checksum is wrong: the file was changed".to_owned())),
        }
    }))
}

/// The value of a key of the metadata.
fn value<'a>(content: &'a Content, key: &str) -> Option<&'a str> {
    let mut pairs = content.reader.metadata().file_metadata().key_value_metadata()?.iter();
    pairs.find(|pair| pair.key == key)?.value.as_deref()
}

/// The place of the checksum's digits: behind the last such key, and two bytes for the type and length of a text.
fn digits(content: &[u8]) -> Option<std::ops::Range<usize>> {
    let key = content.windows(CHECKSUM.len()).rposition(|bytes| bytes == CHECKSUM.as_bytes())?;
    let from = key + CHECKSUM.len() + 2;
    Some(from..from + DIGITS.len()).filter(|digits| digits.end <= content.len())
}

/// The checksum of a file, as text; empty if it has no place for one.
pub(crate) fn file_checksum(content: &[u8]) -> String {
    let Some(digits) = digits(content) else { return String::new() };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&content[..digits.start]);
    hasher.update(DIGITS.as_bytes());
    hasher.update(&content[digits.end..]);
    format!("{:08x}", hasher.finalize())
}

/// The content of a file with these rows and this metadata.
pub(crate) fn encode(
    fields: &[Field],
    rows: &[&Vec<Cell>],
    metadata: &[(String, String)],
) -> std::result::Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    columns(&mut content, fields, rows, metadata)
        .map_err(|error| Error::Failed(format!("Parquet: {error}")))?;
    let checksum = file_checksum(&content);
    let digits = digits(&content).map(|digits| &mut content[digits]);
    let digits = digits.filter(|digits| *digits == DIGITS.as_bytes());
    digits
        .ok_or_else(|| Error::Failed("Parquet: no place for the checksum".to_owned()))?
        .copy_from_slice(checksum.as_bytes());
    Ok(content)
}

fn columns(
    out: impl Write + Send,
    fields: &[Field],
    rows: &[&Vec<Cell>],
    metadata: &[(String, String)],
) -> Result<()> {
    let version = KeyValue::new("dwell.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let schema_version = KeyValue::new("dwell.schema_version".to_owned(), SCHEMA_VERSION.to_owned());
    let others = metadata.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    let checksum = KeyValue::new(CHECKSUM.to_owned(), DIGITS.to_owned());
    let metadata = [version, schema_version].into_iter().chain(others).chain([checksum]).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(WRITER.to_owned())
        .set_key_value_metadata(Some(metadata));
    let mut writer = SerializedFileWriter::new(out, schema(fields)?, Arc::new(properties.build()))?;
    let mut group = writer.next_row_group()?;
    let mut index = 0;
    while let Some(mut column) = group.next_column()? {
        let cells = || rows.iter().map(|row| row.get(index).unwrap_or(&Cell::Nothing));
        let present: Vec<i16> = cells().map(|cell| i16::from(*cell != Cell::Nothing)).collect();
        match column.untyped() {
            ColumnWriter::BoolColumnWriter(column) => {
                let of = |cell: &Cell| if let Cell::Flag(on) = cell { Some(*on) } else { None };
                column.write_batch(&cells().filter_map(of).collect::<Vec<_>>(), Some(&present), None)?;
            }
            ColumnWriter::Int64ColumnWriter(column) => {
                let of = |cell: &Cell| if let Cell::Whole(n) = cell { Some(*n) } else { None };
                column.write_batch(&cells().filter_map(of).collect::<Vec<_>>(), Some(&present), None)?;
            }
            ColumnWriter::DoubleColumnWriter(column) => {
                let of = |cell: &Cell| match cell {
                    Cell::Number(n) => Some(*n),
                    Cell::Whole(n) => Some(*n as f64),
                    _ => None,
                };
                column.write_batch(&cells().filter_map(of).collect::<Vec<_>>(), Some(&present), None)?;
            }
            ColumnWriter::ByteArrayColumnWriter(column) => {
                let of = |cell: &Cell| match cell {
                    Cell::Text(text) => Some(ByteArray::from(text.as_bytes().to_vec())),
                    _ => None,
                };
                column.write_batch(&cells().filter_map(of).collect::<Vec<_>>(), Some(&present), None)?;
            }
            _ => {}
        }
        column.close()?;
        index += 1;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

/// A part of a table of a study, open for reading.
pub(crate) struct Part {
    path: PathBuf,
    content: Content,
}

impl Part {
    /// # Errors
    /// The file cannot be read, is no Parquet file, or was changed.
    pub(crate) fn open(path: &Path) -> std::result::Result<Self, Error> {
        let content = opened(path)?.map_err(|error| damaged(path, &error))?;
        Ok(Self { path: path.to_owned(), content })
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> i64 {
        self.content.reader.metadata().file_metadata().num_rows()
    }

    /// The value of a key of the metadata.
    pub(crate) fn metadata(&self, key: &str) -> Option<&str> {
        value(&self.content, key)
    }

    /// The columns with these names, in their order; a column that the file does not have is empty.
    ///
    /// # Errors
    /// The file is damaged.
    pub(crate) fn cells(&self, names: &[&str]) -> std::result::Result<Vec<Vec<Cell>>, Error> {
        cells(&self.content, names).map_err(|error| damaged(&self.path, &error))
    }
}

fn damaged(path: &Path, error: &ParquetError) -> Error {
    let part = path.file_name().unwrap_or_default().to_string_lossy();
    let advice = format!("remove runs/{part} to repeat its runs");
    Error::Input(format!("{}: no valid Parquet file of a study ({error}); {advice}", path.display()))
}

fn cells(content: &Content, names: &[&str]) -> Result<Vec<Vec<Cell>>> {
    let Content { bytes, reader } = content;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let mut all = Vec::new();
    for group in 0..reader.num_row_groups() {
        let group = reader.metadata().row_group(group);
        let count = usize::try_from(group.num_rows()).unwrap_or(0);
        let from = all.len();
        all.resize(from + count, vec![Cell::Nothing; names.len()]);
        for (to, name) in names.iter().enumerate() {
            let Some(index) = schema.columns().iter().position(|column| column.path().string() == *name)
            else {
                continue;
            };
            let described = &schema.columns()[index];
            if described.max_rep_level() > 0 {
                return Err(ParquetError::General(format!("column '{name}' has lists")));
            }
            let is_unsigned =
                matches!(described.logical_type_ref(), Some(LogicalType::Integer(of)) if !of.is_signed);
            let reader = traces::column_reader(Arc::clone(bytes), group, index)?;
            let column = column(reader, count, is_unsigned)?;
            for (row, cell) in all[from..].iter_mut().zip(column) {
                row[to] = cell;
            }
        }
    }
    Ok(all)
}

fn column(reader: ColumnReader, count: usize, is_unsigned: bool) -> Result<Vec<Cell>> {
    macro_rules! read {
        ($reader:expr, $to_cell:expr) => {{
            let (mut present, mut values) = (Vec::new(), Vec::new());
            let mut reader = $reader;
            while present.len() < count {
                let before = present.len();
                reader.read_records(count - before, Some(&mut present), None, &mut values)?;
                if present.len() == before {
                    break;
                }
            }
            let mut values = values.into_iter().map($to_cell);
            let cell = |present: &i16| if *present > 0 { values.next() } else { None };
            present.iter().map(cell).map(|cell| cell.unwrap_or(Cell::Nothing)).collect()
        }};
    }
    Ok(match reader {
        ColumnReader::BoolColumnReader(reader) => read!(reader, Cell::Flag),
        ColumnReader::Int64ColumnReader(reader) => read!(reader, Cell::Whole),
        ColumnReader::DoubleColumnReader(reader) => read!(reader, Cell::Number),
        // Of other programs.
        ColumnReader::Int32ColumnReader(reader) if is_unsigned => {
            read!(reader, |n: i32| Cell::from(n as u32))
        }
        ColumnReader::Int32ColumnReader(reader) => read!(reader, |n: i32| Cell::Whole(n.into())),
        ColumnReader::FloatColumnReader(reader) => read!(reader, |n: f32| Cell::Number(n.into())),
        ColumnReader::ByteArrayColumnReader(reader) => {
            read!(reader, |bytes: ByteArray| Cell::Text(String::from_utf8_lossy(bytes.data()).into_owned()))
        }
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{PROCESSES, RUNS};

    fn read(path: &Path, names: &[&str]) -> std::result::Result<Vec<Vec<Cell>>, Error> {
        Part::open(path)?.cells(names)
    }

    #[test]
    fn rows_survive_a_file() {
        let path = std::env::temp_dir().join(format!("dwell-parquet-{}", std::process::id()));
        let value = |field: &Field, n: i64| match field.kind {
            Type::Text => Cell::Text(format!("{} ü {n}", field.name)),
            Type::Whole => Cell::Whole(n - 1),
            Type::Number => Cell::Number(n as f64 / 3.0),
            Type::Flag => Cell::Flag(n % 2 == 0),
        };
        let row = |n: i64| -> Vec<Cell> {
            let cells = RUNS.iter().zip(0..);
            cells.map(|(field, c)| if (c + n) % 5 == 0 { Cell::Nothing } else { value(field, n) }).collect()
        };
        let rows: Vec<Vec<Cell>> = (0..100).map(row).collect();
        write_table(&path, RUNS, &rows).unwrap();
        let names: Vec<&str> = RUNS.iter().map(|field| field.name).collect();
        assert_eq!(read(&path, &names).unwrap(), rows);
        assert_eq!(read(&path, &["no such column"]).unwrap()[99], [Cell::Nothing]);
        let bytes = std::fs::read(&path).unwrap();
        for length in [0, 4, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(matches!(read(&path, &names), Err(Error::Input(_))), "{length} bytes");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn files_of_polars_and_pyarrow_with_zstandard_are_read() {
        for name in ["zstd-polars", "zstd-pyarrow"] {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/tests/parquet");
            let rows = read_table(&Path::new(folder).join(format!("{name}.parquet")), &["at_ns", "device"]);
            let rows = rows.unwrap();
            assert_eq!((rows.len(), &rows[1][0]), (1_500, &Cell::Whole(1_001)), "{name}");
            assert_eq!(rows[0][1], Cell::Text("8,16".to_owned()), "{name}");
        }
    }

    #[test]
    fn a_changed_bit_is_an_error_or_changes_nothing() {
        let path = std::env::temp_dir().join(format!("dwell-parquet-bit-{}", std::process::id()));
        let row = |n: i64| -> Vec<Cell> {
            let cell = |field: &Field| match field.kind {
                Type::Text => Cell::Text(format!("{} {n}", field.name)),
                Type::Whole => Cell::Whole(n << 33),
                Type::Number => Cell::Number(n as f64 / 3.0),
                Type::Flag => Cell::Flag(n % 2 == 0),
            };
            PROCESSES.iter().map(cell).collect()
        };
        let rows: Vec<Vec<Cell>> = (0..9).map(row).collect();
        write_table(&path, PROCESSES, &rows).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let names: Vec<&str> = PROCESSES.iter().map(|field| field.name).collect();
        let (mut errors, mut same) = (0, 0);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            std::fs::write(&path, &changed).unwrap();
            match read_table(&path, &names) {
                Err(Error::Input(_)) => errors += 1,
                Ok(found) if found == rows => same += 1,
                other => panic!("byte {at}: {other:?}"),
            }
        }
        std::fs::remove_file(path).unwrap();
        // Not verified: the names of the writer and of the checksum.
        assert!(errors > 2_000 && same <= WRITERS.len() + CHECKSUM.len(), "{errors} errors, {same} without");
    }
}
