//! Writer of DiskSim ASCII. See [`format::disksim`](crate::format::disksim) for the columns.

use std::io::{self, Write};

use elevator::Op;

use super::Written;
use crate::record::Record;

/// Writes reads and writes, in milliseconds with six decimals (exact) and sectors of 512 bytes, rounded outwards.
///
/// The device is the number of its [`DeviceId`](crate::DeviceId). Flushes and discards are left out; completions, processes and flags
/// are not written.
pub struct DiskSimWriter<W> {
    sink: W,
    written: Written,
}

impl<W: Write> DiskSimWriter<W> {
    /// Writes to `sink`, which should be buffered.
    pub fn new(sink: W) -> Self {
        Self { sink, written: Written::default() }
    }

    /// Writes a record.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let flag = match record.op {
            Op::Read => 1,
            Op::Write => 0,
            Op::Discard | Op::Flush => {
                self.written.left_out += 1;
                return Ok(());
            }
        };
        let at = record.at.as_nanos();
        let (device, start, sectors) = (record.device.0, record.start(), record.sectors().0);
        self.written.written += 1;
        self.written.rounded += u64::from(!record.is_aligned());
        writeln!(self.sink, "{}.{:06} {device} {start} {sectors} {flag}", at / 1_000_000, at % 1_000_000)
    }

    /// Flushes the sink.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn finish(mut self) -> io::Result<Written> {
        self.sink.flush().map(|()| self.written)
    }
}
