//! Alibaba block traces 2020: `device_id,opcode,offset,length,timestamp`, without a heading.
//!
//! - *device_id*: a virtual disk. A file has about a thousand; choose one.
//! - *opcode*: `R` or `W`.
//! - *offset*, *length*: **bytes**.
//! - *timestamp*: **microseconds** since 1970, shifted so that the first request is at zero. Stamps of another magnitude are read in
//!   the corresponding unit, which the interpretation states. A fraction is permitted.
//!
//! Pitfall: the capacities are in a second file, `device_size.csv` (`device_id,capacity`); pass the capacity as an option.
//!
//! Source: Li et al., *An In-Depth Analysis of Cloud Block Storage Workloads in Large-Scale Production*, IISWC 2020, and
//! the README of alibaba/block-traces (CC-BY-4.0).

use std::io::Write;

use elevator::Time;

use super::{Signature, Spec};
use crate::context::Context;
use crate::devices::Key;
use crate::input::Input;
use crate::lines::{End, LineFormat, Lines};
use crate::options::TimeUnit;
use crate::record::{Plain, Record};
use crate::scan::{Cursor, FieldError, is_read_or_write, is_whole};
use crate::unit;
use crate::write::{Device, Field, Holds, Rows, Writes, letter};

pub(crate) const SPEC: Spec = Spec {
    name: "alibaba",
    title: "Alibaba CSV",
    extensions: &[],
    signature: Signature::Cells(looks_like),
    reader: |input, context| Ok(Box::new(reader(input, context))),
    writes: Some(Writes::rows::<Row>()),
};

fn looks_like(cells: &[&str]) -> bool {
    matches!(*cells, [device, op, offset, length, stamp]
        if [device, offset, length, stamp].into_iter().all(is_whole) && is_read_or_write(op))
}

#[derive(Clone)]
pub(crate) struct Alibaba {
    scale: u64,
}

fn reader(mut input: Input, context: &mut Context) -> Lines<Alibaba> {
    let first = unit::column(input.peek(4_096), 4).first().copied();
    let scale = context.settle_unit(TimeUnit::Microseconds, first.and_then(unit::by_epoch));
    context.epoch_clock = true;
    Lines::new(input, Alibaba { scale })
}

impl LineFormat for Alibaba {
    type Item = Plain;

    #[inline(always)]
    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Plain>, FieldError> {
        let device = cursor.number("device_id")?;
        cursor.comma("device_id")?;
        let op = cursor.read_or_write("opcode")?;
        cursor.comma("opcode")?;
        let offset = cursor.number("offset")?;
        cursor.comma("offset")?;
        let bytes = cursor.number("length")?;
        cursor.comma("length")?;
        let at = Time::from_nanos(cursor.decimal("timestamp", self.scale)?);
        end(cursor, "timestamp")?;
        let device = context.device(Key::Number(device))?;
        Ok(Some(Plain { at, offset, bytes, device, op }))
    }
}

/// January 2020, the month of the published traces, in microseconds since 1970.
const PUBLISHED: u64 = 1_577_808_000_000_000;

/// Writes rows.
#[derive(Default)]
struct Row;

impl Rows for Row {
    const HOLDS: Holds = Holds::least(1_000).with(Field::Devices).with(Field::Bytes);
    const IS_RELATIVE: bool = true;

    fn row(&mut self, at: u64, record: &Record, device: &Device, to: &mut Vec<u8>) -> Option<()> {
        let (number, at) = (device.number, PUBLISHED + at / 1_000);
        writeln!(to, "{number},{},{},{},{at}", letter(record.op), record.offset, record.bytes).ok()
    }
}
