//! Encodes a row group in memory, on threads if there are some.
//!
//! Columns of few values are encoded here: the general encoder hashes each value, which takes longer than to read the recording.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use parquet::basic::{Encoding, EncodingMask};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::{ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, SchemaDescPtr};

use super::index::{Chunk, Group};
use super::rows::{Row, Rows};

/// An encoded row group.
pub(super) struct Encoded {
    pub(super) bytes: Vec<u8>,
    /// Without its position in the file.
    pub(super) group: Group,
    /// The rows' buffers, empty.
    pub(super) spare: Rows,
}

/// What a file's groups have in common.
pub(super) struct Layout {
    pub(super) schema: SchemaDescPtr,
    pub(super) properties: WriterPropertiesPtr,
}

type Answer = Result<Encoded, ParquetError>;

struct Job {
    rows: Rows,
    names: Arc<Vec<ByteArray>>,
    layout: Arc<Layout>,
    answer: SyncSender<Answer>,
}

/// Threads that encode row groups, for any number of [`ParquetWriter`](super::writer::ParquetWriter)s. They end when it is dropped.
pub struct Encoders {
    jobs: SyncSender<Job>,
    /// Empty buffers of full row groups.
    spare: Mutex<Vec<Rows>>,
}

/// Empty buffers that are kept.
const SPARE_MAX: usize = 4;

impl Encoders {
    /// Starts this many threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let (jobs, queue) = sync_channel::<Job>(1);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads.max(1) {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(Job { rows, names, layout, answer }) = job else { return };
                    let encoded = catch_unwind(AssertUnwindSafe(|| encode(rows, &names, &layout)));
                    // The writer may be gone after an error.
                    let _ = answer.send(encoded.unwrap_or_else(|_| Err(failed())));
                }
            });
        }
        Self { jobs, spare: Mutex::default() }
    }

    /// An empty buffer.
    pub(super) fn spare(&self) -> Rows {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Keeps an empty buffer.
    pub(super) fn keep(&self, rows: Rows) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_MAX {
            spare.push(rows);
        }
    }

    /// Encodes a group; waits while all threads are busy.
    pub(super) fn encode(
        &self,
        rows: Rows,
        names: &Arc<Vec<ByteArray>>,
        layout: &Arc<Layout>,
    ) -> Result<Receiver<Answer>, ParquetError> {
        let (answer, answers) = sync_channel(1);
        let job = Job { rows, names: Arc::clone(names), layout: Arc::clone(layout), answer };
        self.jobs.send(job).map_err(|_| failed())?;
        Ok(answers)
    }
}

pub(super) fn failed() -> ParquetError {
    ParquetError::General("a thread that encodes Parquet has failed".to_owned())
}

/// The columns being written.
struct Columns<'a> {
    layout: &'a Layout,
    sink: TrackedWrite<Vec<u8>>,
    done: Vec<Chunk>,
}

pub(super) fn encode(mut rows: Rows, names: &[ByteArray], layout: &Layout) -> Answer {
    let all = &rows.rows;
    let sink = TrackedWrite::new(Vec::with_capacity(all.len() * 16));
    let mut columns = Columns { layout, sink, done: Vec::new() };
    let present = |bit: u8| present(all, move |row| row.has(bit));
    let column = |of: fn(&Row) -> i64| all.iter().map(of).collect::<Vec<i64>>();
    columns.constant(&rows.name, all.len())?;
    columns.general(|writer| write!(writer, Int64ColumnWriter, &column(|row| row.at), None))?;
    columns.optional(
        &rows.latencies,
        all.len(),
        || present(Row::LATENCY),
        |writer, values, present| write!(writer, Int64ColumnWriter, values, present),
    )?;
    columns.int32(all.iter().map(|row| i32::from(row.op)))?;
    columns.general(|writer| write!(writer, Int64ColumnWriter, &column(|row| row.offset), None))?;
    columns.int64(all.iter().map(|row| row.bytes))?;
    let flags: Vec<i32> = all.iter().map(|row| i32::from(row.flags())).filter(|flags| *flags != 0).collect();
    columns.optional(
        &flags,
        all.len(),
        || self::present(all, |row| row.flags() != 0),
        |writer, values, present| write!(writer, Int32ColumnWriter, values, present),
    )?;
    let levels: Vec<i32> =
        all.iter().map(|row| i32::from(row.priority)).filter(|level| *level != 0).collect();
    columns.optional(
        &levels,
        all.len(),
        || self::present(all, |row| row.priority != 0),
        |writer, values, present| write!(writer, Int32ColumnWriter, values, present),
    )?;
    let pids: Vec<i64> =
        all.iter().filter(|row| row.has(Row::PROCESS)).map(|row| i64::from(row.process)).collect();
    columns.optional(
        &pids,
        all.len(),
        || present(Row::PROCESS),
        |writer, values, present| write!(writer, Int64ColumnWriter, values, present),
    )?;
    let texts: Vec<ByteArray> =
        rows.names.iter().map(|&name| names.get(name as usize).cloned().unwrap_or_default()).collect();
    columns.optional(
        &texts,
        all.len(),
        || present(Row::NAME),
        |writer, values, present| write!(writer, ByteArrayColumnWriter, values, present),
    )?;
    let times = [all.first(), all.last()].map(|row| row.map_or(0, |row| row.at));
    let group = Group {
        from: 0,
        device: rows.device,
        rows: all.len() as u32,
        times,
        columns: columns.done.try_into().map_err(|_| failed())?,
    };
    let bytes = columns.sink.into_inner()?;
    rows.clear();
    Ok(Encoded { bytes, group, spare: rows })
}

/// Which rows have a value, as definition levels.
fn present(rows: &[Row], has: impl Fn(Row) -> bool) -> Vec<i16> {
    rows.iter().map(|row| i16::from(has(*row))).collect()
}

/// Writes values with the library's writer of the column.
macro_rules! write {
    ($writer:expr, $kind:ident, $values:expr, $present:expr) => {
        match $writer {
            ColumnWriter::$kind(writer) => writer.write_batch($values, $present, None).map(drop),
            _ => Err(ParquetError::General("a column has another type".to_owned())),
        }
    };
}
use write;

/// Upper bound for different values in a dictionary.
const VALUES_MAX: usize = 1 << 12;
/// Places of the dictionary's hash table.
const PLACES: usize = 4 * VALUES_MAX;

impl Columns<'_> {
    fn column(&self) -> ColumnDescPtr {
        self.layout.schema.column(self.done.len())
    }

    /// Writes a column with the library.
    fn general(
        &mut self,
        write: impl FnOnce(&mut ColumnWriter<'_>) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        let (column, properties) = (self.column(), Arc::clone(&self.layout.properties));
        let pages = SerializedPageWriter::new(&mut self.sink);
        let mut writer = get_column_writer(column, properties, Box::new(pages));
        write(&mut writer)?;
        self.done.push(Chunk::of(&writer.close()?));
        Ok(())
    }

    /// Writes a column that may have no values.
    fn optional<T>(
        &mut self,
        values: &[T],
        rows: usize,
        present: impl FnOnce() -> Vec<i16>,
        write: impl FnOnce(&mut ColumnWriter<'_>, &[T], Option<&[i16]>) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        match values {
            [] => self.nothing(rows),
            values => self.general(|writer| write(writer, values, Some(&present()))),
        }
    }

    /// Writes pages that are encoded already.
    fn pages(
        &mut self,
        dictionary: Option<(Vec<u8>, usize)>,
        data: Vec<u8>,
        encoding: Encoding,
        rows: usize,
    ) -> Result<(), ParquetError> {
        let mut pages = SerializedPageWriter::new(&mut self.sink);
        let mut put = |page: Page| {
            let bytes = page.buffer().len();
            pages.write_page(CompressedPage::new(page, bytes)).map(|spec| spec.uncompressed_size as u32)
        };
        let is_empty = dictionary.is_none();
        let dictionary = match dictionary {
            Some((values, count)) => put(Page::DictionaryPage {
                buf: values.into(),
                num_values: count as u32,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            })?,
            None => 0,
        };
        let data = put(Page::DataPage {
            buf: data.into(),
            num_values: rows as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })?;
        pages.close()?;
        let encodings = [Encoding::PLAIN, Encoding::RLE, encoding];
        self.done.push(Chunk {
            dictionary,
            compressed: dictionary + data,
            uncompressed: dictionary + data,
            encodings: EncodingMask::new_from_encodings(encodings.iter()).as_i32(),
            is_compressed: false,
            is_empty,
        });
        Ok(())
    }

    /// A column with one text in all rows.
    fn constant(&mut self, text: &ByteArray, rows: usize) -> Result<(), ParquetError> {
        let mut dictionary = (text.len() as u32).to_le_bytes().to_vec();
        dictionary.extend_from_slice(text.data());
        // Indices of one bit, all 0.
        let mut data = vec![1];
        run(&mut data, rows);
        self.pages(Some((dictionary, 1)), data, Encoding::RLE_DICTIONARY, rows)
    }

    /// A column without values.
    fn nothing(&mut self, rows: usize) -> Result<(), ParquetError> {
        let mut levels = Vec::new();
        run(&mut levels, rows);
        let mut data = (levels.len() as u32).to_le_bytes().to_vec();
        data.extend(levels);
        self.pages(None, data, Encoding::PLAIN, rows)
    }

    fn int32(&mut self, values: impl ExactSizeIterator<Item = i32> + Clone) -> Result<(), ParquetError> {
        if self.few(values.clone().map(i64::from), size_of::<i32>())? {
            return Ok(());
        }
        self.general(|writer| write!(writer, Int32ColumnWriter, &values.collect::<Vec<_>>(), None))
    }

    fn int64(&mut self, values: impl ExactSizeIterator<Item = i64> + Clone) -> Result<(), ParquetError> {
        if self.few(values.clone(), size_of::<i64>())? {
            return Ok(());
        }
        self.general(|writer| write!(writer, Int64ColumnWriter, &values.collect::<Vec<_>>(), None))
    }

    /// Writes a column of numbers of so many bytes, if few of them differ; returns whether it did.
    fn few(
        &mut self,
        values: impl ExactSizeIterator<Item = i64>,
        bytes: usize,
    ) -> Result<bool, ParquetError> {
        let rows = values.len();
        let Some((found, data)) = dictionary(values) else { return Ok(false) };
        let dictionary = found.iter().flat_map(|value| value.to_le_bytes().into_iter().take(bytes)).collect();
        self.pages(Some((dictionary, found.len())), data, Encoding::RLE_DICTIONARY, rows)?;
        Ok(true)
    }
}

/// A run of zeros of one bit, in the hybrid of runs and packed bits.
fn run(to: &mut Vec<u8>, rows: usize) {
    number(to, (rows as u64) << 1);
    to.push(0);
}

/// An unsigned LEB128 number.
fn number(to: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// The different values, and the data page of their indices; `None` if there are too many.
fn dictionary(values: impl ExactSizeIterator<Item = i64>) -> Option<(Vec<i64>, Vec<u8>)> {
    let count = values.len();
    let mut found: Vec<i64> = Vec::new();
    let mut indices: Vec<u16> = Vec::with_capacity(count);
    // Indices plus one; 0 is empty.
    let mut places = vec![0_u16; PLACES];
    for value in values {
        let mut place = (value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize
            >> (usize::BITS - PLACES.trailing_zeros());
        let index = loop {
            match places[place] {
                0 if found.len() == VALUES_MAX => return None,
                0 => {
                    found.push(value);
                    places[place] = found.len() as u16;
                    break found.len() - 1;
                }
                index if found[usize::from(index) - 1] == value => break usize::from(index) - 1,
                _ => place = (place + 1) % PLACES,
            }
        };
        indices.push(index as u16);
    }
    let width = (usize::BITS - found.len().saturating_sub(1).leading_zeros()).max(1);
    let mut data = Vec::with_capacity(count * width as usize / 8 + 16);
    data.push(width as u8);
    if found.len() <= 1 {
        run(&mut data, count);
        return Some((found, data));
    }
    // Groups of eight indices.
    number(&mut data, (count.div_ceil(8) as u64) << 1 | 1);
    let (mut bits, mut filled) = (0_u64, 0);
    let padding = std::iter::repeat_n(&0_u16, count.next_multiple_of(8) - count);
    for &index in indices.iter().chain(padding) {
        bits |= u64::from(index) << filled;
        filled += width;
        if filled >= 32 {
            data.extend_from_slice(&(bits as u32).to_le_bytes());
            bits >>= 32;
            filled -= 32;
        }
    }
    data.extend_from_slice(&bits.to_le_bytes()[..filled.div_ceil(8) as usize]);
    Some((found, data))
}
