//! CloudPhysics CSV, as republished by the libCacheSim project: `version,time,op,size,lbn`, with a heading.
//!
//! - *version*: 1 or 2, of the original binary record (see [`vscsi`](super::vscsi)). Ignored.
//! - *time*: **microseconds** in the binary original; the project's converter divides to whole **seconds**, so that both occur. If
//!   microseconds would mean millions of requests per second, the unit is seconds, which the interpretation states.
//! - *op*: the SCSI operation code, **hexadecimal**: 08, 28, 88, a8 read; 0a, 2a, 8a, aa write; others are left out and counted.
//! - *size*: **bytes**.
//! - *lbn*: sectors of 512 bytes.
//!
//! Pitfalls: according to the note beside the sample file its times are microseconds, so that 113,872 requests would take 7.2 ms; in seconds they take two
//! hours. Requests are distributed within whole seconds by a seeded generator. The converter drops the response times.
//!
//! Source: Waldspurger et al., *Efficient MRC Construction with SHARDS*, FAST 2015; libCacheSim.

use std::io::Write;

use elevator::{Op, SECTOR_BYTES, Time};

use super::{Signature, Spec};
use crate::context::{Context, Source};
use crate::devices::Key;
use crate::input::{BUFFER_BYTES, Input};
use crate::lines::{End, LineFormat, Lines};
use crate::options::TimeUnit;
use crate::record::{Plain, Record};
use crate::scan::{Cursor, FieldError, is_hex, is_whole};
use crate::skips::Oddity;
use crate::spread::spread_seconds;
use crate::unit;
use crate::write::{Device, Holds, Rows, Writes};

pub(crate) const SPEC: Spec = Spec {
    name: "cloudphysics",
    title: "CloudPhysics CSV",
    extensions: &[],
    signature: Signature::Cells(looks_like),
    reader: |input, context| Ok(reader(input, context)),
    writes: Some(Writes::rows::<Row>()),
};

fn looks_like(cells: &[&str]) -> bool {
    match *cells {
        ["version", "time", "op", "size", "lbn"] => true,
        ["1" | "2", time, op, size, lbn] => {
            [time, size, lbn].into_iter().all(is_whole) && op.len() <= 4 && is_hex(op)
        }
        _ => false,
    }
}

#[derive(Clone)]
pub(crate) struct CloudPhysics {
    scale: u64,
}

fn reader(mut input: Input, context: &mut Context) -> Box<dyn Source> {
    let stamps = unit::column(input.peek(BUFFER_BYTES), 1);
    let dense = unit::too_dense(&stamps, TimeUnit::Microseconds);
    let scale = context.settle_unit(TimeUnit::Microseconds, dense.then_some(TimeUnit::Seconds));
    context.epoch_clock = true;
    spread_seconds(Lines::new(input, CloudPhysics { scale }), context)
}

impl LineFormat for CloudPhysics {
    type Item = Plain;

    #[inline(always)]
    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Plain>, FieldError> {
        cursor.number("version")?;
        cursor.comma("version")?;
        let at = Time::from_nanos(cursor.decimal("time", self.scale)?);
        cursor.comma("time")?;
        let op = scsi_op(cursor.hex("op")?);
        cursor.comma("op")?;
        let bytes = cursor.number("size")?;
        cursor.comma("size")?;
        let offset = cursor.blocks("lbn", SECTOR_BYTES)?;
        end(cursor, "lbn")?;
        let Some(op) = op else {
            context.skips.add(Oddity::OtherCommand, 1, context.place);
            return Ok(None);
        };
        let device = context.device(Key::Number(0))?;
        Ok(Some(Plain { at, offset, bytes, device, op }))
    }
}

/// The operation of a SCSI code: READ and WRITE (6, 10, 12, 16), WRITE AND VERIFY (10, 12, 16).
pub(crate) const fn scsi_op(code: u64) -> Option<Op> {
    match code {
        0x08 | 0x28 | 0x88 | 0xa8 => Some(Op::Read),
        0x0a | 0x2a | 0x8a | 0xaa | 0x2e | 0x8e | 0xae => Some(Op::Write),
        _ => None,
    }
}

/// Writes rows.
#[derive(Default)]
struct Row;

impl Rows for Row {
    const HOLDS: Holds = Holds::least(1_000);
    const IS_RELATIVE: bool = true;

    fn head(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(b"version,time,op,size,lbn\n");
    }

    fn row(&mut self, at: u64, record: &Record, _device: &Device, to: &mut Vec<u8>) -> Option<()> {
        let code = if record.op == Op::Read { "28" } else { "2a" };
        let bytes = record.sector_count() * SECTOR_BYTES;
        writeln!(to, "1,{},{code},{bytes},{}", at / 1_000, record.start()).ok()
    }
}
