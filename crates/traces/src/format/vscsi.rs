//! CloudPhysics' binary vSCSI records, little-endian, without a header.
//!
//! - Version 1, 32 bytes: `u32 sn, u32 len, u32 nSG, u16 cmd, u16 ver, u64 lbn, u64 ts`.
//! - Version 2, 40 bytes: `u16 cmd, u16 ver, u32 sn, u32 len, u32 nSG, u64 lbn, u64 ts, u64 rt`.
//!
//! The version is `ver >> 8` of the first two records. `len` is in **bytes**, `lbn` in sectors of 512 bytes, `ts` in **microseconds**. `rt`
//! is read as the response time in microseconds and yields the completion; this meaning is inferred from its name, not from the
//! publisher. `cmd` is the SCSI operation code, which distinguishes reads from writes; some well-known readers ignore it.
//!
//! Source: VMware's vscsiStats trace records, as libCacheSim's reader has them.

use elevator::{Op, SECTOR_BYTES, Time};

use super::cloudphysics::scsi_op;
use super::{Signature, Spec};
use crate::binary::{Endian, Numbers, not_a_record, peek_record};
use crate::context::{Context, Source};
use crate::devices::Key;
use crate::error::Error;
use crate::input::Input;
use crate::options::TimeUnit;
use crate::record::Record;
use crate::skips::Oddity;
use crate::write::{Device, Field, Holds, Rows, Writes};

pub(crate) const SPEC: Spec = Spec {
    name: "vscsi",
    title: "CloudPhysics vSCSI binary",
    extensions: &[],
    signature: Signature::Head(looks_like),
    reader: |input, context| Ok(Box::new(reader(input, context)?)),
    writes: Some(Writes::rows::<Row>()),
};

const V1_BYTES: usize = 32;
const V2_BYTES: usize = 40;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Version {
    fn bytes(self) -> usize {
        if self == Self::V1 { V1_BYTES } else { V2_BYTES }
    }
}

struct Raw {
    version: u16,
    command: u16,
    length: u32,
    lbn: u64,
    stamp: u64,
    response: Option<u64>,
}

fn parse(bytes: &[u8], version: Version) -> Raw {
    let mut numbers = Numbers::new(bytes, Endian::Little);
    let (mut command, mut ver) = (0, 0);
    if version == Version::V2 {
        (command, ver) = (numbers.u16(), numbers.u16());
    }
    let _serial = numbers.u32();
    let length = numbers.u32();
    let _scatter_gather_elements = numbers.u32();
    if version == Version::V1 {
        (command, ver) = (numbers.u16(), numbers.u16());
    }
    let (lbn, stamp) = (numbers.u64(), numbers.u64());
    let response = (version == Version::V2).then(|| numbers.u64());
    Raw { version: ver >> 8, command, length, lbn, stamp, response }
}

impl Raw {
    fn is(&self, version: Version) -> bool {
        self.version == if version == Version::V1 { 1 } else { 2 }
    }
}

/// The version of the first two records (or the only one).
fn probe(head: &[u8]) -> Option<Version> {
    [Version::V1, Version::V2].into_iter().find(|&version| {
        let mut records = head.chunks_exact(version.bytes()).take(2).map(|bytes| parse(bytes, version));
        head.len() >= version.bytes() && records.all(|raw| raw.is(version))
    })
}

/// Of an empty file, which has no request, that of the writer.
fn version_of_file(head: &[u8]) -> Option<Version> {
    if head.is_empty() { Some(Version::V2) } else { probe(head) }
}

/// Whether the head of a file has such records.
fn looks_like(head: &[u8]) -> bool {
    // Any two short records of zeros and ones could match; therefore the commands must be plausible, too.
    let Some(version) = probe(head) else { return false };
    head.chunks_exact(version.bytes()).take(2).all(|bytes| parse(bytes, version).command <= 0xff)
}

pub(crate) struct Vscsi {
    input: Input,
    version: Version,
    scale: u64,
}

fn reader(mut input: Input, context: &mut Context) -> Result<Vscsi, Error> {
    let scale = context.settle_unit(TimeUnit::Microseconds, None);
    context.epoch_clock = true;
    let Some(version) = version_of_file(input.peek(2 * V2_BYTES)) else {
        let problem = "the first records are of neither version 1 nor version 2".to_owned();
        return Err(not_a_record(context, "ver", problem));
    };
    Ok(Vscsi { input, version, scale })
}

impl Source for Vscsi {
    fn next(&mut self, context: &mut Context) -> Result<Option<Record>, Error> {
        loop {
            let size = self.version.bytes();
            let Some(bytes) = peek_record(&mut self.input, size, context)? else { return Ok(None) };
            let raw = parse(bytes, self.version);
            if !raw.is(self.version) {
                let problem = format!("version {} among records of another", raw.version);
                return Err(not_a_record(context, "ver", problem));
            }
            self.input.pass(size);
            if let Some(record) = self.record(&raw, context)? {
                return Ok(Some(record));
            }
        }
    }
}

impl Vscsi {
    fn record(&self, raw: &Raw, context: &mut Context) -> Result<Option<Record>, Error> {
        let Some(op) = scsi_op(u64::from(raw.command)) else {
            context.skip(Oddity::OtherCommand)?;
            return Ok(None);
        };
        let (at, offset) = (raw.stamp.checked_mul(self.scale), raw.lbn.checked_mul(SECTOR_BYTES));
        let (Some(at), Some(offset)) = (at, offset) else {
            context.skip(Oddity::Malformed)?;
            return Ok(None);
        };
        let device = context.device(Key::Number(0)).map_err(|bad| context.malformed_error(bad, &[]))?;
        let mut record = Record::new(Time::from_nanos(at), device, op, offset, u64::from(raw.length));
        let response = raw.response.and_then(|response| response.checked_mul(self.scale));
        record.completed = response.and_then(|response| at.checked_add(response)).map(Time::from_nanos);
        Ok(Some(record))
    }
}

/// Writes version 2.
#[derive(Default)]
struct Row {
    serial: u32,
}

impl Rows for Row {
    const HOLDS: Holds = Holds::least(1_000).with(Field::Completions).except(Field::NoCompletion);
    const IS_RELATIVE: bool = true;

    fn row(&mut self, at: u64, record: &Record, _device: &Device, to: &mut Vec<u8>) -> Option<()> {
        let command: u16 = if record.op == Op::Read { 0x28 } else { 0x2a };
        let bytes = u32::try_from(record.sector_count() * SECTOR_BYTES).ok()?;
        let response = record.latency().map_or(0, |latency| latency.as_nanos() / 1_000);
        self.serial = self.serial.wrapping_add(1);
        to.extend_from_slice(&command.to_le_bytes());
        to.extend_from_slice(&0x200_u16.to_le_bytes());
        for number in [self.serial, bytes, 1] {
            to.extend_from_slice(&number.to_le_bytes());
        }
        for number in [record.start().0, at / 1_000, response] {
            to.extend_from_slice(&number.to_le_bytes());
        }
        Some(())
    }
}
