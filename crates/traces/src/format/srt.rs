//! HP's SRT (shared record trace): cello92, cello96, cello99 and the 2003 recordings, versions 1 to 7.
//!
//! An ASCII header with `version = 1.N;` and `tracedate = …` ends with a form feed. **Big-endian** 32-bit numbers follow:
//!
//! - all versions: `size` (of the record, in bytes), `id` (upper half: version; lower half: type, 1 short I/O, 4 suspect I/O), `sec`,
//!   `usec` (time of enqueueing), `start`, `stop` (both in **microseconds after enqueueing**);
//! - versions 1 to 3: `bytes, sector, devno, drivertype, cylno, ioflags, info`; version 4 adds `queuelen`, 5 `pid`, 6 `logical volume`;
//!   suspect records end with `susflags`;
//! - version 7: `bytes, machine, device, ?, ?, ioflags, info, queuelen, pid, logical volume, disk offset` (64 bits, in
//!   **bytes**)`, volume offset` (64 bits)`, ?, ?`.
//!
//! `ioflags`: bit 0 is set for a read, 0x100 for an asynchronous request. Without 0x100 the request is synchronous, with or without
//! 0x01000000 (a synchronous write of the buffer cache), as in DiskSim. `stop` yields the completion.
//!
//! Pitfalls: the sources do not state whether *sector* has 512 bytes or HP-UX's DEV_BSIZE of 1 KiB. Unless
//! [`Options::block_bytes`](crate::Options::block_bytes) is set, the reader uses the unit in which more requests continue the previous
//! one, and states it. The suspect flags of 1999 are byte-shifted and bit-reversed; they are ignored. The fields of versions 5 and 6 are
//! inferred from HP's converter and not tested with a real file.
//!
//! Source: Ruemmler and Wilkes, *UNIX disk access patterns*, USENIX Winter 1993; HP's srtLite and srt2ds.

use elevator::{Flags, Op, Time};

use super::{Signature, Spec};
use crate::binary::{Endian, Numbers, not_a_record, peek_record};
use crate::context::{Context, Source};
use crate::devices::Key;
use crate::error::Error;
use crate::input::{BUFFER_BYTES, Input};
use crate::options::TimeUnit;
use crate::record::{Pid, Record};
use crate::skips::Oddity;
use crate::write::{Device, Field, Holds, Rows, Writes};

pub(crate) const SPEC: Spec = Spec {
    name: "srt",
    title: "HP SRT",
    extensions: &[],
    signature: Signature::Start(|head| header_bytes(head).is_some()),
    reader: |input, context| Ok(Box::new(reader(input, context)?)),
    writes: Some(Writes::rows::<Row>()),
};

const FORM_FEED: u8 = 0x0c;
/// Upper bound for the header: a form feed further on does not end it.
const HEADER_BYTES_MAX: usize = 64 * 1024;
const RECORD_BYTES: std::ops::RangeInclusive<usize> = 24..=4_096;

const SHORT_IO: u32 = 1;
const SUSPECT_IO: u32 = 4;

const READ: u32 = 0x1;
const ASYNC: u32 = 0x100;

struct Raw {
    seconds: u32,
    micros: u32,
    stop: u32,
    bytes: u32,
    /// In blocks before version 7, in bytes since.
    place: u64,
    device: u32,
    ioflags: u32,
    pid: Option<u32>,
    version: u32,
}

/// Least size of a record, which includes all fields that are read.
const fn least_bytes(version: u32) -> usize {
    match version {
        1..=3 => 52,
        4 => 56,
        5 => 60,
        6 => 64,
        _ => 88,
    }
}

fn parse(bytes: &[u8]) -> Option<Raw> {
    let mut numbers = Numbers::new(bytes, Endian::Big);
    let _size = numbers.u32();
    let id = numbers.u32();
    let (version, kind) = (id >> 16, id & 0xffff);
    if !matches!(version, 1..=7)
        || !matches!(kind, SHORT_IO | SUSPECT_IO)
        || bytes.len() < least_bytes(version)
    {
        return None;
    }
    let (seconds, micros) = (numbers.u32(), numbers.u32());
    let (_start, stop) = (numbers.u32(), numbers.u32());
    let mut raw = Raw {
        seconds,
        micros,
        stop,
        bytes: numbers.u32(),
        place: 0,
        device: 0,
        ioflags: 0,
        pid: None,
        version,
    };
    if version == 7 {
        raw.fill_v7(&mut numbers)
    } else {
        raw.fill(&mut numbers)
    }
    Some(raw)
}

impl Raw {
    fn fill(&mut self, numbers: &mut Numbers<'_>) {
        self.place = u64::from(numbers.u32());
        self.device = numbers.u32();
        let (_driver, _cylinder) = (numbers.u32(), numbers.u32());
        self.ioflags = numbers.u32();
        let (_info, _queue_length) = (numbers.u32(), numbers.u32());
        self.pid = (self.version >= 5).then(|| numbers.u32());
    }

    fn fill_v7(&mut self, numbers: &mut Numbers<'_>) {
        let _machine = numbers.u32();
        self.device = numbers.u32();
        let (_, _) = (numbers.u32(), numbers.u32());
        self.ioflags = numbers.u32();
        let (_info, _queue_length) = (numbers.u32(), numbers.u32());
        self.pid = Some(numbers.u32());
        let _logical_volume = numbers.u32();
        self.place = numbers.u64();
    }

    fn flags(&self) -> Flags {
        Flags { sync: self.ioflags & ASYNC == 0, ..Flags::default() }
    }
}

/// Size of the header, if the head of a file has one.
fn header_bytes(head: &[u8]) -> Option<usize> {
    let end = memchr::memchr(FORM_FEED, &head[..head.len().min(HEADER_BYTES_MAX)])?;
    let header = &head[..end];
    memchr::memmem::find(header, b"version").map(|_| end + 1)
}

pub(crate) struct Srt {
    input: Input,
    scale: u64,
    block_bytes: u64,
}

fn reader(mut input: Input, context: &mut Context) -> Result<Srt, Error> {
    let scale = context.settle_unit(TimeUnit::Microseconds, None);
    context.epoch_clock = true;
    let head = input.peek(BUFFER_BYTES);
    let Some(start) = header_bytes(head) else {
        let problem = "no header with a version that ends in a form feed".to_owned();
        return Err(not_a_record(context, "header", problem));
    };
    let judged = judge_block(&head[start..]);
    input.pass(start);
    let block_bytes = match (context.options.block_bytes, judged) {
        (Some(block_bytes), _) => u64::from(block_bytes),
        (None, Some((block_bytes, sequential, pairs))) => {
            context.notes.push(format!(
                "sectors taken as {block_bytes} bytes, as {sequential} of the first {pairs} requests then follow on"
            ));
            block_bytes
        }
        (None, None) => 512,
    };
    Ok(Srt { input, scale, block_bytes })
}

/// The block size for which more requests continue the previous one; with the number of those requests, and of all.
fn judge_block(mut records: &[u8]) -> Option<(u64, usize, usize)> {
    let mut followers = [(512, 0), (1_024, 0)];
    let mut pairs = 0;
    let mut last: Option<Raw> = None;
    while let Some(size) = record_size(records).filter(|&size| size <= records.len()) {
        let raw = parse(&records[..size])?;
        if raw.version == 7 {
            return None;
        }
        if let Some(last) = last.filter(|last| last.device == raw.device) {
            pairs += 1;
            for (block, count) in &mut followers {
                *count += usize::from(last.place + u64::from(last.bytes) / *block == raw.place);
            }
        }
        last = Some(raw);
        records = &records[size..];
    }
    let [small, large] = followers;
    let (block_bytes, sequential) = if large.1 > small.1 { large } else { small };
    Some((block_bytes, sequential, pairs))
}

fn record_size(bytes: &[u8]) -> Option<usize> {
    let size = u32::from_be_bytes(*bytes.first_chunk()?) as usize;
    RECORD_BYTES.contains(&size).then_some(size)
}

impl Source for Srt {
    fn next(&mut self, context: &mut Context) -> Result<Option<Record>, Error> {
        loop {
            let Some(head) = peek_record(&mut self.input, 4, context)? else { return Ok(None) };
            let Some(size) = record_size(head) else {
                let problem = "a record's size must be from 24 to 4096 bytes".to_owned();
                return Err(not_a_record(context, "size", problem));
            };
            let Some(bytes) = peek_record(&mut self.input, size, context)? else { return Ok(None) };
            let raw = parse(bytes);
            self.input.pass(size);
            let Some(raw) = raw else {
                context.skip(Oddity::OtherCommand)?;
                continue;
            };
            if let Some(record) = self.record(&raw, context)? {
                return Ok(Some(record));
            }
        }
    }
}

impl Srt {
    fn record(&self, raw: &Raw, context: &mut Context) -> Result<Option<Record>, Error> {
        let units = u64::from(raw.seconds) * 1_000_000 + u64::from(raw.micros);
        let block_bytes = if raw.version == 7 { 1 } else { self.block_bytes };
        let (at, offset) = (units.checked_mul(self.scale), raw.place.checked_mul(block_bytes));
        let (Some(at), Some(offset)) = (at, offset) else {
            context.skip(Oddity::Malformed)?;
            return Ok(None);
        };
        let op = if raw.ioflags & READ != 0 { Op::Read } else { Op::Write };
        let device = Key::Number(u64::from(raw.device));
        let device = context.device(device).map_err(|bad| context.malformed_error(bad, &[]))?;
        let mut record = Record::new(Time::from_nanos(at), device, op, offset, u64::from(raw.bytes));
        let completed = u64::from(raw.stop).checked_mul(self.scale).and_then(|stop| at.checked_add(stop));
        record.completed = completed.map(Time::from_nanos);
        record.flags = raw.flags();
        record.process = raw.pid.map(Pid);
        Ok(Some(record))
    }
}

/// January 2003, in seconds since 1970.
const YEAR_2003: u64 = 1_041_379_200;

/// Writes version 7.
#[derive(Default)]
struct Row;

impl Rows for Row {
    const HOLDS: Holds = Holds::least(1_000)
        .with(Field::Devices)
        .with(Field::Completions)
        .except(Field::NoCompletion)
        .with(Field::Synchronous)
        .with(Field::Processes)
        .with(Field::Bytes);
    const IS_RELATIVE: bool = true;

    fn head(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(b"version = 1.7;\ntracedate = \"2003-01-01\";\n");
        to.push(FORM_FEED);
    }

    fn row(&mut self, at: u64, record: &Record, device: &Device, to: &mut Vec<u8>) -> Option<()> {
        let micros = at / 1_000;
        let seconds = u32::try_from(YEAR_2003 + micros / 1_000_000).ok()?;
        let response = record.latency().map_or(0, |latency| latency.as_nanos() / 1_000);
        let (response, bytes) = (u32::try_from(response).ok()?, u32::try_from(record.bytes).ok()?);
        let number = u32::try_from(device.number).unwrap_or(record.device.0);
        let direction = if record.op == Op::Read { READ } else { 0 };
        let ioflags = direction | if record.flags.sync { 0 } else { ASYNC };
        let pid = record.process.map_or(0, |pid| pid.0);
        let (size, id) = (88, 7 << 16 | SHORT_IO);
        let time = [seconds, (micros % 1_000_000) as u32, 0, response];
        let first = [size, id].into_iter().chain(time).chain([bytes, 0, number, 0, 0, ioflags, 0, 0, pid, 0]);
        first.for_each(|number| to.extend_from_slice(&number.to_be_bytes()));
        to.extend_from_slice(&record.offset.to_be_bytes());
        to.extend_from_slice(&[0; 16]);
        Some(())
    }
}
