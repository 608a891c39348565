//! DiskSim's validation traces: measurements of a physical drive, one request at a time.
//! `R|W class blkno bcount service gap`, separated by blanks.
//!
//! - *R* or *W*.
//! - *class*: `Hit`, `Miss`, and for writes `Doub`, `Trip`: the observed behaviour of the drive's buffer. Ignored.
//! - *blkno*, *bcount*: in blocks of the drive; 512 bytes unless [`Options::block_bytes`](crate::Options::block_bytes) is set.
//! - *service*: the measured response time in decimal **microseconds**; yields the completion.
//! - *gap*: decimal microseconds from the completion to the arrival of the next request.
//!
//! Pitfall: there is no arrival time. It is the sum of services and gaps, with the first request at zero, in fixed point so that no error
//! accumulates. The issuer waited for each completion: one process, at most one request in flight.
//!
//! Source: the `valid` directory of DiskSim 4.0; the traces were measured by Worthington, Ganger and Patt, and by CMU's
//! DIXtrac.

use std::io::Write;

use elevator::{SECTOR_BYTES, Time};

use super::{Signature, Spec};
use crate::context::Context;
use crate::devices::Key;
use crate::input::Input;
use crate::lines::{End, LineFormat, Lines};
use crate::options::TimeUnit;
use crate::record::Record;
use crate::scan::{Cursor, FieldError, is_decimal};
use crate::write::{Device, Field, Holds, Rows, Writes, letter};

pub(crate) const SPEC: Spec = Spec {
    name: "disksim-validate",
    title: "DiskSim validation trace",
    extensions: &[],
    signature: Signature::Words(looks_like),
    reader: |input, context| Ok(Box::new(reader(input, context))),
    writes: Some(Writes::rows::<Row>()),
};

fn looks_like(words: &[&str]) -> bool {
    matches!(*words, ["R" | "W", _, block, count, service, gap]
        if [block, count, service, gap].into_iter().all(is_decimal))
}

#[derive(Clone)]
pub(crate) struct Validate {
    scale: u64,
    block_bytes: u64,
    now: u64,
}

fn reader(input: Input, context: &mut Context) -> Lines<Validate> {
    let scale = context.settle_unit(TimeUnit::Microseconds, None);
    let block_bytes = context.options.block_bytes.map_or(SECTOR_BYTES, u64::from);
    Lines::new(input, Validate { scale, block_bytes, now: 0 })
}

impl LineFormat for Validate {
    type Item = Record;

    fn is_stateless(&self) -> bool {
        false
    }

    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Record>, FieldError> {
        cursor.blanks();
        let op = cursor.read_or_write("read or write")?;
        cursor.blanks();
        if cursor.word().is_empty() {
            return Err(cursor.bad("kind", "Hit or Miss"));
        }
        cursor.blanks();
        let offset = cursor.blocks("blkno", self.block_bytes)?;
        cursor.blanks();
        let bytes = cursor.blocks("bcount", self.block_bytes)?;
        cursor.blanks();
        let service = cursor.decimal("service time", self.scale)?;
        cursor.blanks();
        let gap = cursor.decimal("gap", self.scale)?;
        end(cursor, "gap")?;
        let device = context.device(Key::Number(0))?;
        let mut record = Record::new(Time::from_nanos(self.now), device, op, offset, bytes);
        let completed = self.now.checked_add(service);
        let next = completed.and_then(|completed| completed.checked_add(gap));
        let (Some(completed), Some(next)) = (completed, next) else {
            return Err(cursor.bad("gap", "times that sum up to less than 584 years"));
        };
        record.completed = Some(Time::from_nanos(completed));
        self.now = next;
        Ok(Some(record))
    }
}

/// Writes rows.
#[derive(Default)]
struct Row {
    /// A row lacks the gap to the next one.
    begun: bool,
    /// The completion of the last request.
    ended: u64,
}

impl Rows for Row {
    const HOLDS: Holds = Holds::least(1).with(Field::Completions);
    const IS_RELATIVE: bool = true;

    fn row(&mut self, at: u64, record: &Record, _device: &Device, to: &mut Vec<u8>) -> Option<()> {
        // The issuer waits: there is no request without a completion, and none before the completion of the one before it.
        let service = record.latency()?.as_nanos();
        let gap = at.checked_sub(self.ended)?;
        self.end_row(gap, to);
        self.ended = at.checked_add(service)?;
        let (op, start, sectors) = (letter(record.op), record.start(), record.sector_count());
        write!(to, "{op} Miss {start} {sectors} {}.{:03}", service / 1_000, service % 1_000).ok()?;
        self.begun = true;
        Some(())
    }

    fn end(&mut self, to: &mut Vec<u8>) {
        self.end_row(0, to);
    }
}

impl Row {
    fn end_row(&self, gap: u64, to: &mut Vec<u8>) {
        if self.begun {
            // A vector does not fail.
            let _ = writeln!(to, " {}.{:03}", gap / 1_000, gap % 1_000);
        }
    }
}
