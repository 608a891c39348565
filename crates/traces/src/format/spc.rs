//! SPC-1 traces, including UMass Financial and WebSearch: `ASU,LBA,Size,Opcode,Timestamp[,more…]`; blanks are allowed around commas.
//!
//! - *ASU*: application-specific unit, from 0; each is a device.
//! - *LBA*: in blocks of the unit; 512 bytes (in Financial1, 303567 + 3584/512 = 303574 is the next row's), unless
//!   [`Options::block_bytes`](crate::Options::block_bytes) is set.
//! - *Size*: **bytes**. Zero is valid; such rows are left out and counted.
//! - *Opcode*: `R` or `W`, in either case.
//! - *Timestamp*: decimal **seconds** since the trace began.
//! - Further fields are optional and ignored.
//!
//! UMass publishes them compressed with bzip2. Tested with the specification's example and the first lines of Financial1.
//!
//! Source: Storage Performance Council, *SPC Trace File Format Specification*; the UMass Trace Repository.

use std::io::Write;

use elevator::{SECTOR_BYTES, Time};

use super::{Signature, Spec};
use crate::context::Context;
use crate::devices::Key;
use crate::input::Input;
use crate::lines::{End, LineFormat, Lines};
use crate::options::TimeUnit;
use crate::record::{Plain, Record};
use crate::scan::{Cursor, FieldError, is_decimal, is_read_or_write, is_whole};
use crate::write::{Device, Field, Holds, Rows, Writes, letter};

pub(crate) const SPEC: Spec = Spec {
    name: "spc",
    title: "SPC",
    extensions: &[],
    signature: Signature::Cells(looks_like),
    reader: |input, context| Ok(Box::new(reader(input, context))),
    writes: Some(Writes::rows::<Row>()),
};

fn looks_like(cells: &[&str]) -> bool {
    matches!(*cells, [unit, block, size, op, stamp, ..]
        if [unit, block, size].into_iter().all(is_whole) && is_read_or_write(op) && is_decimal(stamp))
}

#[derive(Clone)]
pub(crate) struct Spc {
    scale: u64,
    block_bytes: u64,
}

fn reader(input: Input, context: &mut Context) -> Lines<Spc> {
    let scale = context.settle_unit(TimeUnit::Seconds, None);
    let block_bytes = context.options.block_bytes.map_or(SECTOR_BYTES, u64::from);
    Lines::new(input, Spc { scale, block_bytes })
}

impl LineFormat for Spc {
    type Item = Plain;

    #[inline(always)]
    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Plain>, FieldError> {
        cursor.blanks();
        let unit = cursor.number("ASU")?;
        cursor.comma("ASU")?;
        let offset = cursor.blocks("LBA", self.block_bytes)?;
        cursor.comma("LBA")?;
        let bytes = cursor.number("Size")?;
        cursor.comma("Size")?;
        let op = cursor.read_or_write("Opcode")?;
        cursor.comma("Opcode")?;
        let at = Time::from_nanos(cursor.decimal("Timestamp", self.scale)?);
        cursor.blanks();
        if cursor.peek() == Some(b',') {
            cursor.line();
        }
        end(cursor, "Timestamp")?;
        let device = context.device(Key::Number(unit))?;
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
        let (number, op) = (device.number, letter(record.op));
        let bytes = record.sector_count() * SECTOR_BYTES;
        let (seconds, nanos) = (at / 1_000_000_000, at % 1_000_000_000);
        writeln!(to, "{number},{},{bytes},{op},{seconds}.{nanos:09}", record.start()).ok()
    }
}
