//! Encodes a row group in memory, on threads if there are some.
//!
//! The pages are encoded here and not compressed: the library's general encoder takes longer than to read the recording, and bits that are
//! packed already become a few per cent smaller at most.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use elevator::SECTOR_BYTES;
use parquet::basic::{Encoding, EncodingMask};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

use super::groups::{Chunk, Group};
use super::rows::{PIECE, Row, Rows};
use super::varint::{number, signed};
use crate::helper_thread;

/// An encoded row group.
pub(super) struct Encoded {
    pub(super) bytes: Vec<u8>,
    /// Without its position in the file.
    pub(super) group: Group,
}

/// In the order of the groups.
pub(super) type Answer = Result<Vec<Encoded>, ParquetError>;

/// Groups that a thread encodes one after another.
struct Job {
    groups: Vec<Rows>,
    names: Arc<Vec<ByteArray>>,
    answer: SyncSender<Answer>,
}

/// Threads that encode row groups, for any number of [`ParquetWriter`](super::writer::ParquetWriter)s. They end when it is dropped.
pub struct Encoders {
    jobs: Option<Sender<Job>>,
    spare: Arc<Spare>,
}

/// Buffers. Fresh memory costs a page fault for each 4 KiB, more than to fill it.
#[derive(Default)]
struct Spare {
    pieces: Mutex<Vec<Vec<Row>>>,
    groups: Mutex<Vec<Vec<u8>>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Encoders {
    /// Starts this many threads; with none, the caller encodes.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let spare = Arc::<Spare>::default();
        if threads == 0 {
            return Self { jobs: None, spare };
        }
        let (jobs, queue) = channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads {
            let (queue, spare) = (Arc::clone(&queue), Arc::clone(&spare));
            helper_thread::spawn(move || {
                let mut fields = Fields::default();
                loop {
                    let job = lock(&queue).recv();
                    let Ok(Job { groups, names, answer }) = job else { return };
                    let encode = AssertUnwindSafe(|| fields.encode_all(groups, &names, &spare));
                    let encoded = catch_unwind(encode);
                    // The writer may be gone after an error.
                    let _ = answer.send(encoded.unwrap_or_else(|_| Err(failed())));
                }
            });
        }
        Self { jobs: Some(jobs), spare }
    }

    /// Takes the pieces of rows that are not used any more: all at once, because a thread may lose its processor while it has the lock.
    pub(super) fn take_pieces(&self, to: &mut Vec<Vec<Row>>) {
        std::mem::swap(to, &mut lock(&self.spare.pieces));
    }

    /// Keeps the memory of a group that is written.
    pub(super) fn keep(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        lock(&self.spare.groups).push(bytes);
    }

    /// Encodes groups on one thread. The caller bounds the number of groups that wait.
    pub(super) fn encode(
        &self,
        groups: Vec<Rows>,
        names: &Arc<Vec<ByteArray>>,
    ) -> Result<Receiver<Answer>, ParquetError> {
        let (answer, answers) = sync_channel(1);
        match &self.jobs {
            Some(jobs) => {
                jobs.send(Job { groups, names: Arc::clone(names), answer }).map_err(|_| failed())?
            }
            None => {
                // `answers` is there.
                let _ = answer.send(Fields::default().encode_all(groups, names, &self.spare));
            }
        }
        Ok(answers)
    }
}

pub(super) fn failed() -> ParquetError {
    ParquetError::General("a thread that encodes Parquet has failed".to_owned())
}

/// The rows of a group by field.
#[derive(Default)]
struct Fields {
    at: Vec<i64>,
    offset: Vec<i64>,
    bytes: Vec<i64>,
    op: Vec<u8>,
    bits: Vec<u8>,
    priority: Vec<u16>,
}

impl Fields {
    /// Moves rows here. Fields that no row has stay empty.
    fn take(&mut self, rows: &mut Rows, spare: &Spare) {
        let Self { at, offset, bytes, op, bits, priority } = self;
        at.clear();
        offset.clear();
        bytes.clear();
        op.clear();
        bits.clear();
        priority.clear();
        let mut has = 0;
        let pieces = std::mem::take(&mut rows.pieces);
        let (mut time, mut times) = (rows.begin, rows.times.iter());
        for piece in &pieces {
            at.extend(piece.iter().map(|row| {
                let next = time + i64::from(row.gap);
                time = if row.gap == Row::LARGE { times.next().copied().unwrap_or(next) } else { next };
                time
            }));
            offset.extend(piece.iter().map(|row| i64::from(row.sector) * SECTOR_BYTES as i64));
            bytes.extend(piece.iter().map(|row| i64::from(row.bytes)));
            op.extend(piece.iter().map(|row| row.op));
            has |= piece.iter().fold(0, |has, row| has | u16::from(row.bits) | row.priority);
        }
        if has != 0 {
            for piece in &pieces {
                bits.extend(piece.iter().map(|row| row.bits));
                priority.extend(piece.iter().map(|row| row.priority));
            }
        }
        let put = |to: &mut [i64], short: i64, large: &[i64]| {
            let places = to.iter_mut().filter(|place| **place == short);
            places.zip(large).for_each(|(place, large)| *place = *large);
        };
        if !rows.offsets.is_empty() {
            put(offset, i64::from(Row::LARGE) * SECTOR_BYTES as i64, &rows.offsets);
        }
        if !rows.lengths.is_empty() {
            put(bytes, Row::LARGE.into(), &rows.lengths);
        }
        lock(&spare.pieces).extend(pieces.into_iter().filter(|piece| piece.len() == PIECE));
    }

    fn encode_all(&mut self, groups: Vec<Rows>, names: &[ByteArray], spare: &Spare) -> Answer {
        groups.into_iter().map(|rows| self.encode(rows, names, spare)).collect()
    }

    fn encode(
        &mut self,
        mut rows: Rows,
        names: &[ByteArray],
        spare: &Spare,
    ) -> Result<Encoded, ParquetError> {
        self.take(&mut rows, spare);
        let Self { at, offset, bytes, op, bits, priority } = self;
        let sink = lock(&spare.groups).pop().unwrap_or_default();
        let mut columns = Columns { sink, rows: at.len(), done: Vec::new() };
        let count = at.len();
        let optional =
            |values: usize, bit: u8| levels(bits.iter().map(|bits| bits & bit != 0), values, count);
        columns.constant(&rows.name)?;
        columns.ascending(Vec::new(), at)?;
        columns.ascending(optional(rows.latencies.len(), Row::LATENCY), &rows.latencies)?;
        match two_values(op) {
            Some((found, indices)) => columns.small_indices(Vec::new(), &found, indices)?,
            None => columns.small(Vec::new(), op.iter().map(|op| (*op).into()))?,
        }
        columns.ascending(Vec::new(), offset)?;
        columns.integers(Vec::new(), bytes)?;
        let flags: Vec<i64> =
            bits.iter().map(|bits| (bits & Row::FLAGS).into()).filter(|flags| *flags != 0).collect();
        columns.small(optional(flags.len(), Row::FLAGS), flags.iter().copied())?;
        let priorities: Vec<i64> =
            priority.iter().filter(|priority| **priority != 0).map(|priority| (*priority).into()).collect();
        let present = levels(priority.iter().map(|priority| *priority != 0), priorities.len(), count);
        columns.small(present, priorities.iter().copied())?;
        columns.integers(optional(rows.processes.len(), Row::PROCESS), &rows.processes)?;
        columns.texts(optional(rows.names.len(), Row::NAME), &rows.names, names)?;
        let group = Group {
            from: 0,
            device: rows.device,
            rows: at.len() as u32,
            times: [at.first(), at.last()].map(|at| at.copied().unwrap_or(0)),
            columns: columns.done.try_into().map_err(|_| failed())?,
        };
        Ok(Encoded { bytes: columns.sink, group })
    }
}

/// The columns being written. A column has one data page, which begins with its definition levels if it is optional.
struct Columns {
    sink: Vec<u8>,
    rows: usize,
    done: Vec<Chunk>,
}

/// The header of a page.
#[derive(Clone, Copy)]
enum PageHead {
    Data,
    Dictionary,
}

/// The number of an encoding in a file.
const fn thrift_number(encoding: Encoding) -> i64 {
    match encoding {
        Encoding::RLE => 3,
        Encoding::DELTA_BINARY_PACKED => 5,
        Encoding::RLE_DICTIONARY => 8,
        // No others are written.
        _ => 0,
    }
}

/// Upper bound for different values in a dictionary.
const VALUES_MAX: usize = 1 << 12;
/// Upper bound for places of the dictionary's hash table.
const PLACES: usize = 4 * VALUES_MAX;

impl Columns {
    fn pages(
        &mut self,
        dictionary: Option<(Vec<u8>, usize)>,
        data: Vec<u8>,
        encoding: Encoding,
        is_empty: bool,
    ) -> Result<(), ParquetError> {
        let dictionary = match dictionary {
            Some((values, count)) => {
                self.page(PageHead::Dictionary, &values, [count as i64, thrift_number(Encoding::PLAIN)])
            }
            None => 0,
        };
        let data = self.page(PageHead::Data, &data, [self.rows as i64, thrift_number(encoding)]);
        let encodings = EncodingMask::new_from_encodings([Encoding::PLAIN, Encoding::RLE, encoding].iter());
        self.done.push(Chunk {
            dictionary,
            bytes: dictionary + data,
            encodings: encodings.as_i32(),
            is_empty,
        });
        Ok(())
    }

    /// Writes a page, not compressed and with its checksum; returns its bytes.
    fn page(&mut self, head: PageHead, content: &[u8], [values, encoding]: [i64; 2]) -> u32 {
        // Thrift's compact protocol: each field begins with the step from the field before, and its type.
        let integer = |to: &mut Vec<u8>, value: i64| {
            to.push(0x15);
            signed(to, value);
        };
        let before = self.sink.len();
        let (kind, field) = match head {
            PageHead::Data => (0, 0x1c),
            PageHead::Dictionary => (2, 0x3c),
        };
        let to = &mut self.sink;
        let checksum = crc32fast::hash(content).cast_signed();
        for value in [kind, content.len() as i64, content.len() as i64, checksum.into()] {
            integer(to, value);
        }
        to.push(field);
        integer(to, values);
        integer(to, encoding);
        if let PageHead::Data = head {
            // Of the levels.
            [Encoding::RLE; 2].map(thrift_number).into_iter().for_each(|encoding| integer(to, encoding));
        }
        to.extend([0, 0]);
        to.extend_from_slice(content);
        (to.len() - before) as u32
    }

    /// A column with one text in all rows.
    fn constant(&mut self, text: &ByteArray) -> Result<(), ParquetError> {
        // Indices of one bit.
        let mut data = vec![1];
        run(&mut data, self.rows, 0);
        self.pages(Some((plain(text), 1)), data, Encoding::RLE_DICTIONARY, false)
    }

    /// INT64 values of which a dictionary would be as large as the column.
    fn ascending(&mut self, levels: Vec<u8>, values: &[i64]) -> Result<(), ParquetError> {
        if values.is_empty() {
            return self.pages(None, levels, Encoding::PLAIN, true);
        }
        let mut data = levels;
        delta(&mut data, values);
        self.pages(None, data, Encoding::DELTA_BINARY_PACKED, false)
    }

    /// INT64 values: a dictionary if few of them differ.
    fn integers(&mut self, mut levels: Vec<u8>, values: &[i64]) -> Result<(), ParquetError> {
        match dictionary(values.iter().copied()) {
            Some((found, indices)) if !found.is_empty() => {
                levels.extend(indices);
                let plain = found.iter().flat_map(|value| value.to_le_bytes()).collect();
                self.pages(Some((plain, found.len())), levels, Encoding::RLE_DICTIONARY, false)
            }
            _ => self.ascending(levels, values),
        }
    }

    /// INT32 values, from 0 to 65,535.
    fn small(
        &mut self,
        mut levels: Vec<u8>,
        values: impl ExactSizeIterator<Item = i64> + Clone,
    ) -> Result<(), ParquetError> {
        match dictionary(values.clone()) {
            Some((found, _)) if found.is_empty() => self.pages(None, levels, Encoding::PLAIN, true),
            Some((found, indices)) => self.small_indices(levels, &found, indices),
            None => {
                levels.extend(values.flat_map(plain_small));
                self.pages(None, levels, Encoding::PLAIN, false)
            }
        }
    }

    /// A dictionary of INT32 values, and the indices of the rows.
    fn small_indices(
        &mut self,
        mut levels: Vec<u8>,
        found: &[i64],
        indices: Vec<u8>,
    ) -> Result<(), ParquetError> {
        levels.extend(indices);
        let dictionary = found.iter().copied().flat_map(plain_small).collect();
        self.pages(Some((dictionary, found.len())), levels, Encoding::RLE_DICTIONARY, false)
    }

    /// Texts by their number in `names`.
    fn texts(
        &mut self,
        mut levels: Vec<u8>,
        numbers: &[u32],
        names: &[ByteArray],
    ) -> Result<(), ParquetError> {
        let name = |number: i64| names.get(number as usize).map(plain).unwrap_or_else(|| vec![0; 4]);
        match dictionary(numbers.iter().map(|number| i64::from(*number))) {
            Some((found, _)) if found.is_empty() => self.pages(None, levels, Encoding::PLAIN, true),
            Some((found, indices)) => {
                levels.extend(indices);
                let dictionary = found.iter().flat_map(|number| name(*number)).collect();
                self.pages(Some((dictionary, found.len())), levels, Encoding::RLE_DICTIONARY, false)
            }
            None => {
                levels.extend(numbers.iter().flat_map(|number| name((*number).into())));
                self.pages(None, levels, Encoding::PLAIN, false)
            }
        }
    }
}

fn plain_small(value: i64) -> [u8; 4] {
    (value as i32).to_le_bytes()
}

/// A text with its length before it.
fn plain(text: &ByteArray) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text.data()].concat()
}

/// The definition levels of an optional column with this number of values; `present` is not used if all rows or none have one.
fn levels(present: impl Iterator<Item = bool>, values: usize, rows: usize) -> Vec<u8> {
    let mut levels = vec![0; 4];
    if values == 0 || values == rows {
        run(&mut levels, rows, u8::from(values > 0));
    } else {
        number(&mut levels, (rows.div_ceil(8) as u64) << 1 | 1);
        let from = levels.len();
        levels.resize(from + rows.div_ceil(8), 0);
        present.enumerate().for_each(|(row, has)| levels[from + row / 8] |= u8::from(has) << (row % 8));
    }
    let bytes = levels.len() as u32 - 4;
    levels[..4].copy_from_slice(&bytes.to_le_bytes());
    levels
}

/// A run of a value of one bit, in the hybrid of runs and packed bits.
fn run(to: &mut Vec<u8>, rows: usize, value: u8) {
    number(to, (rows as u64) << 1);
    to.push(value);
}

/// Values of a block of [`delta`], which has four parts.
const BLOCK: usize = 128;
const PART: usize = BLOCK / 4;

/// Differences of successive values: each block has its least difference, and each part of a block the width of its numbers above that.
fn delta(to: &mut Vec<u8>, values: &[i64]) {
    to.reserve(values.len() * 6);
    for of_header in [BLOCK, BLOCK / PART, values.len()] {
        number(to, of_header as u64);
    }
    signed(to, values.first().copied().unwrap_or(0));
    let mut deltas = [0_i64; BLOCK];
    let after = values.get(1..).unwrap_or_default();
    for (values, after) in values.chunks(BLOCK).zip(after.chunks(BLOCK)) {
        let count = after.len();
        for ((delta, value), after) in deltas.iter_mut().zip(values).zip(after) {
            *delta = after.wrapping_sub(*value);
        }
        let least = deltas[..count].iter().copied().min().unwrap_or(0);
        deltas[count..].fill(least);
        signed(to, least);
        let widths = to.len();
        to.extend([0; BLOCK / PART]);
        for (index, part) in deltas[..count.next_multiple_of(PART)].chunks(PART).enumerate() {
            let above = part.iter().fold(0, |all, delta| all | delta.wrapping_sub(least) as u64);
            let width = u64::BITS - above.leading_zeros();
            to[widths + index] = width as u8;
            pack(to, part.iter().map(|delta| delta.wrapping_sub(least) as u64), width);
        }
    }
}

/// Numbers of `width` bits, which together fill whole bytes.
fn pack(to: &mut Vec<u8>, values: impl Iterator<Item = u64>, width: u32) {
    let (mut bits, mut filled) = (0_u64, 0);
    for value in values {
        bits |= value << filled;
        filled += width;
        if filled >= u64::BITS {
            to.extend_from_slice(&bits.to_le_bytes());
            filled -= u64::BITS;
            bits = if filled == 0 { 0 } else { value >> (width - filled) };
        }
    }
    to.extend_from_slice(&bits.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// As [`dictionary`], of values that are 0 and 1, both: reads and writes.
fn two_values(values: &[u8]) -> Option<(Vec<i64>, Vec<u8>)> {
    let (&first, rest) = values.split_first()?;
    let all = |of: fn(u8, u8) -> u8| rest.iter().fold(first, |all, value| of(all, *value));
    if first > 1 || all(|all, value| all | value) != 1 || all(|all, value| all & value) != 0 {
        return None;
    }
    let mut data = Vec::with_capacity(values.len() / 8 + 16);
    data.push(1);
    number(&mut data, (values.len().div_ceil(8) as u64) << 1 | 1);
    let (groups, rest) = values.as_chunks::<8>();
    let mut last = [first; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = Some(&last).filter(|_| !rest.is_empty());
    data.extend(groups.iter().chain(last).map(|group| {
        // The lowest bit of each byte, that of the first one lowest.
        let differs = u64::from_le_bytes(*group) ^ u64::from_le_bytes([first; 8]);
        (differs.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
    }));
    Some((vec![first.into(), (1 - first).into()], data))
}

/// The different values, and the data page of their indices; `None` if there are too many.
fn dictionary(values: impl ExactSizeIterator<Item = i64>) -> Option<(Vec<i64>, Vec<u8>)> {
    let count = values.len();
    let mut found: Vec<i64> = Vec::new();
    let mut indices: Vec<u16> = Vec::with_capacity(count);
    // Indices plus one; 0 is empty.
    let mut places = vec![0_u16; (2 * count).next_power_of_two().clamp(16, PLACES)];
    let shift = usize::BITS - places.len().trailing_zeros();
    for value in values {
        let mut place = (value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> shift;
        let index = loop {
            match places[place] {
                0 if found.len() == VALUES_MAX => return None,
                0 => {
                    found.push(value);
                    places[place] = found.len() as u16;
                    break found.len() - 1;
                }
                index if found[usize::from(index) - 1] == value => break usize::from(index) - 1,
                _ => place = (place + 1) % places.len(),
            }
        };
        indices.push(index as u16);
    }
    let width = (usize::BITS - found.len().saturating_sub(1).leading_zeros()).max(1);
    let mut data = Vec::with_capacity(count * width as usize / 8 + 16);
    data.push(width as u8);
    if found.len() <= 1 {
        run(&mut data, count, 0);
        return Some((found, data));
    }
    // Groups of eight indices.
    number(&mut data, (count.div_ceil(8) as u64) << 1 | 1);
    let padding = std::iter::repeat_n(&0_u16, count.next_multiple_of(8) - count);
    pack(&mut data, indices.iter().chain(padding).map(|index| u64::from(*index)), width);
    Some((found, data))
}
