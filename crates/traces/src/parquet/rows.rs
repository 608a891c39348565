//! Rows of a device that are in no group yet.

use elevator::cold_path;
use parquet::data_type::ByteArray;

use super::{flag_bits, op_number, priority_number};
use crate::record::Record;

/// Rows of a piece: 3 KiB, which the processor's first cache holds.
pub(super) const PIECE: usize = 128;

/// Rows of a device. A row is in one piece of memory, because a recording of a thousand devices goes from device to device: ten columns each would
/// be ten cache misses.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) name: ByteArray,
    /// Number of the device in the file.
    pub(super) device: u32,
    /// [`PIECE`] rows each, the last one fewer.
    pub(super) pieces: Vec<Vec<Row>>,
    /// Lengths, of the rows with [`Row::LARGE`].
    pub(super) large: Vec<i64>,
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
    pub(super) rows: Vec<Row>,
    pub(super) used: usize,
}

impl Open {
    /// Appends a row; whether the piece is full.
    #[inline]
    pub(super) fn push(&mut self, row: Row) -> bool {
        if self.used == self.rows.len() {
            cold_path();
            self.rows.resize((2 * self.used).clamp(4, PIECE), Row::default());
        }
        self.rows[self.used] = row;
        self.used += 1;
        self.used >= PIECE
    }

    /// Where the next row goes.
    #[inline]
    pub(super) fn next(&self) -> Option<&Row> {
        self.rows.get(self.used)
    }

    /// The rows.
    pub(super) fn take(&mut self) -> Vec<Row> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.truncate(std::mem::take(&mut self.used));
        rows
    }
}

/// The fields of a record that all formats have, and small ones. Rows go through memory: each byte of one costs time.
#[derive(Clone, Copy, Default)]
pub(super) struct Row {
    pub(super) at: i64,
    pub(super) offset: i64,
    /// [`Self::LARGE`] if the length is not below.
    pub(super) bytes: u32,
    pub(super) op: u8,
    /// The record's flags, and the bits below.
    pub(super) bits: u8,
    /// 0: none.
    pub(super) priority: u16,
}

/// The other fields of a record.
pub(super) struct Rest {
    /// The length, if it is [`Row::LARGE`] or more.
    pub(super) large: Option<i64>,
    pub(super) latency: Option<i64>,
    pub(super) process: Option<i64>,
}

impl Row {
    pub(super) const LARGE: u32 = u32::MAX;
    pub(super) const LATENCY: u8 = 1 << 5;
    pub(super) const PROCESS: u8 = 1 << 6;
    pub(super) const NAME: u8 = 1 << 7;
    pub(super) const FLAGS: u8 = Self::LATENCY - 1;

    /// The row of a record, and the rest if there is any; `None` if a number of it is larger than a column's greatest.
    #[inline]
    pub(super) fn new(record: &Record, has_name: bool) -> Option<(Self, Option<Rest>)> {
        let number = |value: u64| i64::try_from(value).ok();
        let (at, offset) = (number(record.at.as_nanos())?, number(record.offset)?);
        let length = number(record.bytes)?;
        let bytes = u32::try_from(length).unwrap_or(Self::LARGE);
        let latency = record.latency().and_then(|latency| number(latency.as_nanos()));
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let bits = flag_bits(record.flags) as u8
            | bit(latency.is_some(), Self::LATENCY)
            | bit(record.process.is_some(), Self::PROCESS)
            | bit(has_name, Self::NAME);
        let large = (bytes == Self::LARGE).then_some(length);
        let rest = (large.is_some() || bits > Self::FLAGS).then(|| {
            let process = record.process.map(|pid| pid.0.into());
            Rest { large, latency, process }
        });
        let priority = record.priority.map_or(0, |priority| priority_number(priority) as u16);
        Some((Self { at, offset, bytes, op: op_number(record.op), bits, priority }, rest))
    }
}
