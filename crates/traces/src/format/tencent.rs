//! Tencent CBS (SNIA 28064): `Timestamp,Offset,Size,IOType,VolumeID`, without a heading, in hourly `.tgz` archives.
//!
//! - *Timestamp*: **seconds** since 1970, shifted so that the first request is at zero.
//!   A fraction is permitted and has no effect: requests get times within their second.
//! - *Offset*, *Size*: **sectors of 512 bytes**.
//! - *IOType*: 0 is a read, 1 a write.
//! - *VolumeID*: a virtual disk. A file has thousands; choose one.
//!
//! Pitfalls: with whole seconds, all requests of a second would arrive at once. A seeded generator distributes them over their second, in
//! file order. Consecutive seconds overlap in the 50,000 lines that Caffeine's cache simulator has as a sample. The reader therefore accepts
//! a second that begins before the previous one has ended; otherwise it would drop lines.
//!
//! Source: Zhang et al., *OSCA: An Online-Model Based Cache Allocation Scheme in Cloud Block Storage Systems*, USENIX ATC
//! 2020, and the README published with the traces.

use std::io::Write;

use elevator::{Op, SECTOR_BYTES, Time};

use super::{Signature, Spec};
use crate::context::{Context, Source};
use crate::devices::Key;
use crate::input::Input;
use crate::lines::{End, LineFormat, Lines};
use crate::options::TimeUnit;
use crate::record::{Plain, Record};
use crate::scan::{Cursor, FieldError, Prefix, is_whole};
use crate::spread::spread_seconds;
use crate::unit;
use crate::write::{Device, Field, Holds, Rows, Writes};

pub(crate) const SPEC: Spec = Spec {
    name: "tencent",
    title: "Tencent CSV",
    extensions: &[],
    signature: Signature::Cells(looks_like),
    reader: |input, context| Ok(reader(input, context)),
    writes: Some(Writes::rows::<Row>()),
};

fn looks_like(cells: &[&str]) -> bool {
    matches!(*cells, [stamp, offset, size, "0" | "1", volume]
        if [stamp, offset, size, volume].into_iter().all(is_whole))
}

#[derive(Clone)]
pub(crate) struct Tencent {
    scale: u64,
    /// Thousands of lines have the same time stamp.
    latest: Latest,
}

/// The time stamp of the latest line, with the comma.
#[derive(Clone, Copy, Default)]
struct Latest {
    text: Prefix,
    at: Time,
}

fn reader(mut input: Input, context: &mut Context) -> Box<dyn Source> {
    let first = unit::column(input.peek(4_096), 0).first().copied();
    let scale = context.settle_unit(TimeUnit::Seconds, first.and_then(unit::by_epoch));
    context.epoch_clock = true;
    spread_seconds(Lines::new(input, Tencent { scale, latest: Latest::default() }), context)
}

impl LineFormat for Tencent {
    type Item = Plain;

    #[inline(always)]
    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Plain>, FieldError> {
        let at = match self.latest {
            Latest { text, at } if cursor.skip(&text) => at,
            _ => {
                let from = *cursor;
                let at = Time::from_nanos(cursor.decimal("Timestamp", self.scale)?);
                cursor.comma("Timestamp")?;
                self.latest = Latest { text: from.prefix(cursor), at };
                at
            }
        };
        let offset = cursor.blocks("Offset", SECTOR_BYTES)?;
        cursor.comma("Offset")?;
        let bytes = cursor.blocks("Size", SECTOR_BYTES)?;
        cursor.comma("Size")?;
        let op = cursor.read_is("IOType", 0)?;
        cursor.comma("IOType")?;
        let volume = cursor.number("VolumeID")?;
        end(cursor, "VolumeID")?;
        let device = context.device(Key::Number(volume))?;
        Ok(Some(Plain { at, offset, bytes, device, op }))
    }
}

/// October 2018, the month of the published traces, in seconds since 1970.
const PUBLISHED: u64 = 1_538_323_200;

/// Writes rows.
#[derive(Default)]
struct Row;

impl Rows for Row {
    const HOLDS: Holds = Holds::least(1_000_000_000).with(Field::Devices);
    const IS_RELATIVE: bool = true;

    fn row(&mut self, at: u64, record: &Record, device: &Device, to: &mut Vec<u8>) -> Option<()> {
        let (at, kind) = (PUBLISHED + at / 1_000_000_000, u8::from(record.op != Op::Read));
        writeln!(to, "{at},{},{},{kind},{}", record.start(), record.sector_count(), device.number).ok()
    }
}
