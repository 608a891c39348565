//! MQSim: `arrival device lbn sectors type`, separated by blanks.
//!
//! - *arrival*: whole **nanoseconds** since the trace began.
//! - *device*: MQSim ignores it; the published traces number the disks of a RAID here. Read as a device.
//! - *lbn*, *sectors*: in sectors of 512 bytes.
//! - *type*: 0 is a write, 1 a read.
//!
//! Pitfall: MQSim's configuration has a unit of time (pico-, nano-, microseconds) which some releases ignore; the published traces are in
//! nanoseconds. Any other unit must be specified.
//!
//! Source: MQSim's README and the traces in its repository (SAFARI, ETH Zurich).

use std::io::Write;

use elevator::{Op, SECTOR_BYTES, Time};

use super::{Signature, Spec};
use crate::context::Context;
use crate::devices::Key;
use crate::input::Input;
use crate::lines::{End, LineFormat, Lines};
use crate::options::TimeUnit;
use crate::record::{Plain, Record};
use crate::scan::{Cursor, FieldError, is_whole};
use crate::write::{Device, Field, Holds, Rows, Writes};

pub(crate) const SPEC: Spec = Spec {
    name: "mqsim",
    title: "MQSim",
    extensions: &[],
    signature: Signature::Words(looks_like),
    reader: |input, context| Ok(Box::new(reader(input, context))),
    writes: Some(Writes::rows::<Row>()),
};

fn looks_like(words: &[&str]) -> bool {
    matches!(*words, [at, device, block, count, "0" | "1"]
        if [at, device, block, count].into_iter().all(is_whole))
}

#[derive(Clone)]
pub(crate) struct MqSim {
    scale: u64,
}

fn reader(input: Input, context: &mut Context) -> Lines<MqSim> {
    let scale = context.settle_unit(TimeUnit::Nanoseconds, None);
    Lines::new(input, MqSim { scale })
}

impl LineFormat for MqSim {
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
        let device = cursor.number("device")?;
        cursor.blanks();
        let offset = cursor.blocks("lbn", SECTOR_BYTES)?;
        cursor.blanks();
        let bytes = cursor.blocks("sectors", SECTOR_BYTES)?;
        cursor.blanks();
        let op = cursor.read_is("type", 1)?;
        end(cursor, "type")?;
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
        let (number, kind) = (device.number, u8::from(record.op == Op::Read));
        writeln!(to, "{at} {number} {} {} {kind}", record.start(), record.sector_count()).ok()
    }
}
