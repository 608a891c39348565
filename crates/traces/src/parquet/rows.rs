//! Rows of a device that are in no group yet.

use parquet::data_type::ByteArray;

use super::{flag_bits, op_number, priority_number};
use crate::record::Record;

/// Rows of a device, of 32 bytes each and what only some recordings have. A row is in one piece, because a recording of a thousand devices
/// goes from device to device: ten columns each would be ten cache misses.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) name: ByteArray,
    /// Number of the device in the file.
    pub(super) device: u32,
    pub(super) rows: Vec<Row>,
    /// Of the rows that have one.
    pub(super) latencies: Vec<i64>,
    /// Numbers of names, of the rows that have one.
    pub(super) names: Vec<u32>,
}

/// A record without latency and name.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) at: i64,
    pub(super) offset: i64,
    pub(super) bytes: i64,
    pub(super) process: u32,
    pub(super) op: u8,
    /// The record's flags, and the bits below.
    bits: u8,
    /// 0: none.
    pub(super) priority: u16,
}

impl Row {
    pub(super) const LATENCY: u8 = 1 << 5;
    pub(super) const PROCESS: u8 = 1 << 6;
    pub(super) const NAME: u8 = 1 << 7;
    const FLAGS: u8 = Self::LATENCY - 1;

    pub(super) const fn flags(self) -> u8 {
        self.bits & Self::FLAGS
    }

    pub(super) const fn has(self, bit: u8) -> bool {
        self.bits & bit != 0
    }
}

impl Rows {
    pub(super) fn new(name: &[u8], device: usize) -> Self {
        Self { name: ByteArray::from(name.to_vec()), device: device as u32, ..Self::default() }
    }

    /// Appends a record; false if a number of it is larger than a column's greatest.
    #[inline]
    pub(super) fn push(&mut self, record: &Record, name: Option<u32>) -> bool {
        let number = |value: u64| i64::try_from(value).ok();
        let fields = (number(record.at.as_nanos()), number(record.offset), number(record.bytes));
        let (Some(at), Some(offset), Some(bytes)) = fields else { return false };
        let mut bits = flag_bits(record.flags) as u8;
        if let Some(latency) = record.latency().and_then(|latency| number(latency.as_nanos())) {
            bits |= Row::LATENCY;
            self.latencies.push(latency);
        }
        if let Some(name) = name {
            bits |= Row::NAME;
            self.names.push(name);
        }
        if record.process.is_some() {
            bits |= Row::PROCESS;
        }
        let process = record.process.map_or(0, |pid| pid.0);
        let priority = record.priority.map_or(0, |priority| priority_number(priority) as u16);
        self.rows.push(Row { at, offset, bytes, process, op: op_number(record.op), bits, priority });
        true
    }

    /// Removes the rows, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.latencies.clear();
        self.names.clear();
    }
}
