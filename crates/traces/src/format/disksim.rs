//! DiskSim ASCII: `arrival devno blkno bcount flags`, separated by white space.
//!
//! - *arrival*: decimal **milliseconds** since the simulation began, ascending.
//! - *devno*: the device.
//! - *blkno*, *bcount*: in blocks of the device; 512 bytes unless [`Options::block_bytes`](crate::Options::block_bytes) is set.
//! - *flags*: **hexadecimal**; bit 0 is set for a read. DiskSim's other bits (asynchronous, time-critical) do not occur in its own
//!   examples and are ignored.
//!
//! Pitfall: [MQSim](super::mqsim) traces also have five numbers per line, with the arrival in whole nanoseconds. A file without a
//! fraction in any arrival is read as MQSim's unless the format is specified.
//!
//! Source: the DiskSim 4.0 reference manual, section on input formats (Carnegie Mellon University).

use std::io::Write;

use elevator::{Op, SECTOR_BYTES, Time};

use super::{Signature, Spec};
use crate::context::Context;
use crate::devices::Key;
use crate::input::Input;
use crate::lines::{End, LineFormat, Lines};
use crate::options::TimeUnit;
use crate::record::{Plain, Record};
use crate::scan::{Cursor, FieldError, is_decimal, is_hex, is_whole};
use crate::write::{Device, Field, Holds, Rows, Writes};

pub(crate) const SPEC: Spec = Spec {
    name: "disksim",
    title: "DiskSim ASCII",
    extensions: &["ascii"],
    signature: Signature::Words(looks_like),
    reader: |input, context| Ok(Box::new(reader(input, context))),
    writes: Some(Writes::rows::<Row>()),
};

/// Five whole numbers with a flag of 0 or 1 are left to [MQSim](super::mqsim).
fn looks_like(words: &[&str]) -> bool {
    matches!(*words, [at, device, block, count, flags]
        if [device, block, count].into_iter().all(is_whole)
            && is_decimal(at)
            && is_hex(flags)
            && !(is_whole(at) && matches!(flags, "0" | "1")))
}

#[derive(Clone)]
pub(crate) struct DiskSim {
    scale: u64,
    block_bytes: u64,
}

fn reader(input: Input, context: &mut Context) -> Lines<DiskSim> {
    let scale = context.settle_unit(TimeUnit::Milliseconds, None);
    let block_bytes = context.options.block_bytes.map_or(SECTOR_BYTES, u64::from);
    Lines::new(input, DiskSim { scale, block_bytes })
}

impl LineFormat for DiskSim {
    type Item = Plain;

    #[inline(always)]
    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Plain>, FieldError> {
        cursor.blanks();
        let at = Time::from_nanos(cursor.decimal("arrival", self.scale)?);
        cursor.blanks();
        let device = cursor.number("devno")?;
        cursor.blanks();
        let offset = cursor.blocks("blkno", self.block_bytes)?;
        cursor.blanks();
        let bytes = cursor.blocks("bcount", self.block_bytes)?;
        cursor.blanks();
        let op = if cursor.hex("flags")? & 1 == 1 { Op::Read } else { Op::Write };
        end(cursor, "flags")?;
        let device = context.device(Key::Number(device))?;
        Ok(Some(Plain { at, offset, bytes, device, op }))
    }
}

/// Writes rows.
#[derive(Default)]
struct Row;

impl Rows for Row {
    const HOLDS: Holds = Holds::least(1).with(Field::Devices);
    const IS_RELATIVE: bool = false;

    fn row(&mut self, at: u64, record: &Record, device: &Device, to: &mut Vec<u8>) -> Option<()> {
        let (number, flags) = (device.number, u8::from(record.op == Op::Read));
        let (millis, nanos) = (at / 1_000_000, at % 1_000_000);
        let (start, sectors) = (record.start(), record.sector_count());
        writeln!(to, "{millis}.{nanos:06} {number} {start} {sectors} {flags}").ok()
    }
}
