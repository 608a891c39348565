//! Rows of a device that are in no group yet.

use elevator::{SECTOR_BYTES, cold_path};
use parquet::data_type::ByteArray;

use super::{flag_bits, op_number, priority_number};
use crate::record::Record;

/// Rows of a piece: 2 KiB, which the processor's first cache holds.
pub(super) const PIECE: usize = 128;

/// Rows of a device. A row is in one piece of memory, because a recording of a thousand devices goes from device to device: ten columns each would
/// be ten cache misses.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) name: ByteArray,
    /// Number of the device in the file.
    pub(super) device: u32,
    /// The time of the row before these.
    pub(super) begin: i64,
    /// [`PIECE`] rows each, the last one fewer.
    pub(super) pieces: Vec<Vec<Row>>,
    /// Of the rows whose `gap` is [`Row::LARGE`].
    pub(super) times: Vec<i64>,
    /// Of the rows whose `sector` is [`Row::LARGE`].
    pub(super) offsets: Vec<i64>,
    /// Of the rows whose `bytes` is [`Row::LARGE`].
    pub(super) lengths: Vec<i64>,
    /// Of the rows that have one.
    pub(super) latencies: Vec<i64>,
    /// Of the rows that have one.
    pub(super) processes: Vec<i64>,
    /// Numbers of names, of the rows that have one.
    pub(super) names: Vec<u32>,
}

/// The piece of a device that is being filled. Rows behind the used ones have no meaning.
#[derive(Default)]
pub(super) struct Open {
    rows: Box<[Row]>,
    used: u32,
    /// The time of the row before the next.
    latest: i64,
}

impl Open {
    /// Appends a row with this time; whether the piece is full.
    #[inline]
    pub(super) fn push(&mut self, row: Row, at: i64) -> bool {
        if self.len() == self.rows.len() {
            cold_path();
            self.grow();
        }
        self.rows[self.used as usize] = row;
        self.used += 1;
        self.latest = at;
        self.is_full()
    }

    /// Appends the row of a record as most are: without a rest, and without filling the memory. False: nothing is done.
    #[inline(always)]
    pub(super) fn push_usual(&mut self, record: &Record) -> bool {
        let has_place = (self.used as usize + 1) < self.rows.len();
        let Some(place) = self.rows.get_mut(self.used as usize).filter(|_| has_place) else { return false };
        let at = record.at.as_nanos();
        let (gap, sector) = (at.wrapping_sub(self.latest.cast_unsigned()), record.offset / SECTOR_BYTES);
        let is_small = gap.max(sector).max(record.bytes) < u64::from(Row::LARGE)
            && record.offset.is_multiple_of(SECTOR_BYTES)
            && at <= i64::MAX.cast_unsigned();
        if !is_small || record.completed.is_some() || record.process.is_some() {
            return false;
        }
        let (gap, sector, bytes) = (gap as u32, sector as u32, record.bytes as u32);
        let (op, bits, priority) =
            (op_number(record.op), flag_bits(record.flags) as u8, Row::priority(record));
        *place = Row { gap, sector, bytes, op, bits, priority };
        self.used += 1;
        self.latest = at.cast_signed();
        true
    }

    #[inline(never)]
    fn grow(&mut self) {
        let mut rows = std::mem::take(&mut self.rows).into_vec();
        rows.resize((2 * rows.len()).clamp(4, PIECE), Row::default());
        self.rows = rows.into();
    }

    /// Number of rows.
    pub(super) const fn len(&self) -> usize {
        self.used as usize
    }

    pub(super) const fn is_full(&self) -> bool {
        self.len() >= PIECE
    }

    /// The time of the row before the next.
    pub(super) const fn latest(&self) -> i64 {
        self.latest
    }

    /// Where the next row goes.
    #[inline]
    pub(super) fn next(&self) -> Option<&Row> {
        self.rows.get(self.len())
    }

    /// The rows; the next ones go into `next`, whose content has no meaning.
    pub(super) fn replace(&mut self, next: Vec<Row>) -> Vec<Row> {
        let mut rows = std::mem::replace(&mut self.rows, next.into()).into_vec();
        rows.truncate(std::mem::take(&mut self.used) as usize);
        rows
    }
}

/// The fields of a record that all formats have, and small ones. Rows go through memory: each byte of one costs time. Numbers that are not below
/// [`Self::LARGE`] are in [`Rows`].
#[derive(Clone, Copy, Default)]
pub(super) struct Row {
    /// Nanoseconds since the row before.
    pub(super) gap: u32,
    /// The offset, if it is a whole number of sectors.
    pub(super) sector: u32,
    /// The length.
    pub(super) bytes: u32,
    pub(super) op: u8,
    /// The record's flags, and the bits below.
    pub(super) bits: u8,
    /// 0: none.
    pub(super) priority: u16,
}

/// The other fields of a record.
pub(super) struct Rest {
    pub(super) time: Option<i64>,
    pub(super) offset: Option<i64>,
    pub(super) length: Option<i64>,
    pub(super) latency: Option<i64>,
    pub(super) process: Option<i64>,
}

impl Row {
    pub(super) const LARGE: u32 = u32::MAX;
    pub(super) const LATENCY: u8 = 1 << 5;
    pub(super) const PROCESS: u8 = 1 << 6;
    pub(super) const NAME: u8 = 1 << 7;
    pub(super) const FLAGS: u8 = Self::LATENCY - 1;

    /// The row of a record behind one of time `latest`, its time, and the rest if there is any; `None` if a number of it is larger than a column's
    /// greatest.
    #[inline]
    pub(super) fn new(record: &Record, latest: i64, has_name: bool) -> Option<(Self, i64, Option<Rest>)> {
        let number = |value: u64| i64::try_from(value).ok();
        let (at, offset) = (number(record.at.as_nanos())?, number(record.offset)?);
        let length = number(record.bytes)?;
        let small = |number: u64| u32::try_from(number).unwrap_or(Self::LARGE);
        // A step back is large, too.
        let gap = small((at - latest).cast_unsigned());
        let sector = if record.offset.is_multiple_of(SECTOR_BYTES) {
            small(record.offset / SECTOR_BYTES)
        } else {
            Self::LARGE
        };
        let bytes = small(record.bytes);
        let latency = record.latency().and_then(|latency| number(latency.as_nanos()));
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let bits = flag_bits(record.flags) as u8
            | bit(latency.is_some(), Self::LATENCY)
            | bit(record.process.is_some(), Self::PROCESS)
            | bit(has_name, Self::NAME);
        let is_large = gap.max(sector).max(bytes) == Self::LARGE;
        let rest = (is_large || bits > Self::FLAGS).then(|| {
            let large = |short: u32, value: i64| (short == Self::LARGE).then_some(value);
            Rest {
                time: large(gap, at),
                offset: large(sector, offset),
                length: large(bytes, length),
                latency,
                process: record.process.map(|pid| pid.0.into()),
            }
        });
        let (op, priority) = (op_number(record.op), Self::priority(record));
        Some((Self { gap, sector, bytes, op, bits, priority }, at, rest))
    }

    #[inline]
    fn priority(record: &Record) -> u16 {
        record.priority.map_or(0, |priority| priority_number(priority) as u16)
    }
}
