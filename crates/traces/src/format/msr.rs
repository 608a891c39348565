//! MSR Cambridge (SNIA 388): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, without a heading.
//!
//! - *Timestamp*: Windows FILETIME, ticks of **100 ns** since 1601, shifted so that the first request is at zero.
//! - *Hostname*, *DiskNumber*: together the device, `src1.2`.
//! - *Type*: `Read` or `Write`.
//! - *Offset*, *Size*: **bytes**.
//! - *ResponseTime*: ticks of **100 ns**; yields the completion.
//!
//! Pitfalls: the traces were recorded *below* Windows' cache, per volume of a server, like requests that reach a scheduler. There are no
//! processes. Some republished copies have Unix time stamps, which are recognized by their magnitude and stated.
//!
//! Source: Narayanan, Donnelly, Rowstron, *Write Off-Loading*, FAST 2008, and the README published with the traces.

use std::io::Write;

use elevator::{Op, Time};

use super::{Signature, Spec};
use crate::context::Context;
use crate::devices::Key;
use crate::input::Input;
use crate::lines::{End, LineFormat, Lines};
use crate::options::TimeUnit;
use crate::record::Record;
use crate::scan::{Cursor, FieldError, is_decimal, is_read_or_write, is_whole};
use crate::unit;
use crate::write::{Device, Field, Holds, Rows, Writes};

pub(crate) const SPEC: Spec = Spec {
    name: "msr",
    title: "MSR Cambridge CSV",
    extensions: &[],
    signature: Signature::Cells(looks_like),
    reader: |input, context| Ok(Box::new(reader(input, context))),
    writes: Some(Writes::rows::<Row>()),
};

fn looks_like(cells: &[&str]) -> bool {
    matches!(*cells, [stamp, _, disk, op, offset, size, response]
        if [disk, offset, size].into_iter().all(is_whole)
            && is_decimal(stamp)
            && is_decimal(response)
            && is_read_or_write(op))
}

/// FILETIME ticks of the years 1970 to 2100.
const FILETIMES: std::ops::Range<u64> = 116_444_736_000_000_000..157_766_880_000_000_000;

#[derive(Clone)]
pub(crate) struct Msr {
    scale: u64,
}

fn reader(mut input: Input, context: &mut Context) -> Lines<Msr> {
    let first = unit::column(input.peek(4_096), 0).first().copied();
    let judged = first.filter(|stamp| !FILETIMES.contains(stamp)).and_then(unit::by_epoch);
    let scale = context.settle_unit(TimeUnit::Ticks, judged);
    context.epoch_clock = true;
    Lines::new(input, Msr { scale })
}

impl LineFormat for Msr {
    type Item = Record;

    #[inline(always)]
    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Record>, FieldError> {
        let at = Time::from_nanos(cursor.decimal("Timestamp", self.scale)?);
        cursor.comma("Timestamp")?;
        let name = host_and_disk(cursor)?;
        let op = cursor.read_or_write("Type")?;
        cursor.comma("Type")?;
        let offset = cursor.number("Offset")?;
        cursor.comma("Offset")?;
        let bytes = cursor.number("Size")?;
        cursor.comma("Size")?;
        let response = cursor.decimal("ResponseTime", self.scale)?;
        end(cursor, "ResponseTime")?;
        let device = context.device(Key::Name(name))?;
        let mut record = Record::new(at, device, op, offset, bytes);
        record.completed = at.as_nanos().checked_add(response).map(Time::from_nanos);
        Ok(Some(record))
    }
}

/// `Hostname,DiskNumber` as one name, including the comma.
#[inline(always)]
fn host_and_disk<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], FieldError> {
    let rest = cursor.rest();
    if cursor.word_until(b',').is_empty() {
        return Err(cursor.bad("Hostname", "a host's name"));
    }
    cursor.comma("Hostname")?;
    cursor.number("DiskNumber")?;
    let name = &rest[..rest.len() - cursor.rest().len()];
    cursor.comma("DiskNumber")?;
    Ok(name)
}

/// February 2007, the month of the published traces, in ticks since 1601.
const PUBLISHED: u64 = 128_166_372_000_000_000;

/// Writes rows.
#[derive(Default)]
struct Row;

impl Rows for Row {
    const HOLDS: Holds = Holds::least(100)
        .with(Field::Devices)
        .with(Field::Completions)
        .except(Field::NoCompletion)
        .with(Field::Bytes);
    const IS_RELATIVE: bool = true;

    fn row(&mut self, at: u64, record: &Record, device: &Device, to: &mut Vec<u8>) -> Option<()> {
        let at = PUBLISHED.checked_add(at / 100)?;
        let response = record.latency().map_or(0, |latency| latency.as_nanos() / 100);
        let kind = if record.op == Op::Read { "Read" } else { "Write" };
        let (host, disk) = &device.host_and_disk;
        writeln!(to, "{at},{host},{disk},{kind},{},{},{response}", record.offset, record.bytes).ok()
    }
}
