//! blktrace's binary records as the kernel writes them, in either byte order.
//!
//! - Version 7, 48 bytes: `u32 magic, u32 sequence, u64 time, u64 sector, u32 bytes, u32 action, u32 pid, u32 device,
//!   u32 cpu, u16 error, u16 pdu_len`, then `pdu_len` bytes.
//! - Version 8 (Linux 6.19 and later), 64 bytes: `u32 magic, u32 sequence, u64 time, u64 sector, u32 bytes, u32 pid, u64 action,
//!   u32 device, u32 cpu, u16 error, u16 pdu_len, u8 pad[12]`, then `pdu_len` bytes.
//!
//! The magic number is `0x65617400 | version` in the recording machine's byte order. *time* is in **nanoseconds** of the kernel's
//! clock, *sector* in units of **512 bytes**, *device* is `major << 20 | minor`. The lower 16 bits of *action* are the event (bit 8:
//! the data begin with a cgroup id), the upper ones categories: read, write, sync and so on. Notifications have a process's name.
//!
//! Pitfalls: blktrace writes one file per CPU, each in order, and the events of a request are in several files. Merge them first
//! (`blkparse -i sda -d sda.bin`). In the file of a single CPU many completions have no start, and are counted. Categories are a
//! direction and modifiers, not `RWBS`: a flush without data is a write without bytes.
//!
//! Tested with version 7 as written by the kernel (6.18: tracer `blk`, option `bin`, `trace_pipe`) and as merged by blkparse. Version 8
//! was tested only with records made by hand from the header file.
//!
//! Source: Linux, `include/uapi/linux/blktrace_api.h`; blktrace.

use std::collections::HashMap;

use elevator::{Flags, Op, Time};

use super::{Signature, Spec};
use crate::binary::{Endian, Numbers, not_a_record, peek_record};
use crate::context::Context;
use crate::devices::Key;
use crate::error::Error;
use crate::events::{Event, EventKind, EventSource, Selection, Survey};
use crate::input::{BUFFER_BYTES, Input};
use crate::options::TimeUnit;
use crate::pairing::Paired;
use crate::rwbs::Rwbs;
use crate::write::{self, Events, Field, Holds, Writes};

pub(crate) const SPEC: Spec = Spec {
    name: "blktrace",
    title: "blktrace binary",
    extensions: &[],
    signature: Signature::Start(looks_like),
    reader: |input, context| Ok(Box::new(reader(input, context)?)),
    writes: Some(Writes::events::<Binary>()),
};

const MAGIC: u32 = 0x6561_7400;
const V7_BYTES: usize = 48;
const V8_BYTES: usize = 64;
/// Linux's comm has 16 bytes; a notification's data, including the NUL, may be padded.
const COMM_BYTES_MAX: usize = 64;

const ACTION_MASK: u64 = 0xff;
const CGROUP: u64 = 1 << 8;
const CATEGORY_SHIFT: u32 = 16;

mod category {
    pub(super) const WRITE: u64 = 1 << 1;
    pub(super) const FLUSH: u64 = 1 << 2;
    pub(super) const SYNC: u64 = 1 << 3;
    pub(super) const PASSTHROUGH: u64 = 1 << 9;
    pub(super) const NOTIFY: u64 = 1 << 10;
    pub(super) const AHEAD: u64 = 1 << 11;
    pub(super) const META: u64 = 1 << 12;
    pub(super) const DISCARD: u64 = 1 << 13;
    pub(super) const FUA: u64 = 1 << 15;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    endian: Endian,
    version: u8,
}

impl Layout {
    /// Of an empty file, which has no event, that of the writer.
    fn of_file(head: &[u8]) -> Option<Self> {
        if head.is_empty() { Some(Self { endian: Endian::Little, version: 7 }) } else { Self::probe(head) }
    }

    fn probe(head: &[u8]) -> Option<Self> {
        let magic = *head.first_chunk()?;
        [(Endian::Little, u32::from_le_bytes(magic)), (Endian::Big, u32::from_be_bytes(magic))]
            .into_iter()
            .find(|(_, magic)| magic & !0xff == MAGIC && matches!(magic & 0xff, 7 | 8))
            .map(|(endian, magic)| Self { endian, version: (magic & 0xff) as u8 })
    }

    fn bytes(self) -> usize {
        if self.version == 7 { V7_BYTES } else { V8_BYTES }
    }
}

/// Whether the head of a file has the magic number.
fn looks_like(head: &[u8]) -> bool {
    Layout::probe(head).is_some()
}

struct Raw {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u64,
    pid: u32,
    device: u32,
    data_bytes: usize,
}

fn parse(bytes: &[u8], layout: Layout) -> Raw {
    let mut numbers = Numbers::new(bytes, layout.endian);
    let (_magic, _sequence) = (numbers.u32(), numbers.u32());
    let (time, sector, bytes) = (numbers.u64(), numbers.u64(), numbers.u32());
    let (action, pid) = if layout.version == 7 {
        let action = u64::from(numbers.u32());
        (action, numbers.u32())
    } else {
        let pid = numbers.u32();
        (numbers.u64(), pid)
    };
    let device = numbers.u32();
    let (_cpu, _error) = (numbers.u32(), numbers.u16());
    Raw { time, sector, bytes, action, pid, device, data_bytes: usize::from(numbers.u16()) }
}

impl Raw {
    fn is(&self, category: u64) -> bool {
        self.action >> CATEGORY_SHIFT & category != 0
    }

    fn kind(&self) -> Option<EventKind> {
        if self.is(category::NOTIFY) {
            return None;
        }
        match self.action & ACTION_MASK {
            1 => EventKind::from_letter(b'Q'),
            7 => EventKind::from_letter(b'D'),
            8 => EventKind::from_letter(b'C'),
            12 => EventKind::from_letter(b'I'),
            _ => None,
        }
    }

    fn tells_name(&self) -> bool {
        self.is(category::NOTIFY) && self.action & ACTION_MASK == 0
    }

    fn rwbs(&self) -> Rwbs {
        let flags = Flags {
            sync: self.is(category::SYNC),
            meta: self.is(category::META),
            ahead: self.is(category::AHEAD),
            fua: self.is(category::FUA),
            preflush: self.is(category::FLUSH),
            direct: false,
        };
        let own_flush = flags.preflush && self.bytes == 0 && !self.is(category::WRITE);
        let op = if self.is(category::PASSTHROUGH) {
            None
        } else if self.is(category::DISCARD) {
            Some(Op::Discard)
        } else if own_flush {
            Some(Op::Flush)
        } else if self.is(category::WRITE) {
            Some(Op::Write)
        } else {
            Some(Op::Read)
        };
        Rwbs { op, flags, own_flush }
    }

    fn device(&self) -> Key<'static> {
        Key::Pair(self.device >> 20, self.device & 0xf_ffff)
    }
}

pub(crate) struct Blktrace {
    input: Input,
    layout: Layout,
    scale: u64,
    selection: Selection,
}

fn reader(mut input: Input, context: &mut Context) -> Result<Paired<Blktrace>, Error> {
    let Some(layout) = Layout::of_file(input.peek(4)) else {
        let problem = "it does not begin with blktrace's magic number and version 7 or 8".to_owned();
        return Err(not_a_record(context, "magic", problem));
    };
    let order = if layout.endian == Endian::Little { "little-endian" } else { "big-endian" };
    context.notes.push(format!("version {}, {order}", layout.version));
    let scale = context.settle_unit(TimeUnit::Nanoseconds, None);
    context.epoch_clock = true;
    let selections = survey(input.peek(BUFFER_BYTES), layout).choose(context.options.event);
    let selection = selections.general;
    Ok(Paired::new(Blktrace { input, layout, scale, selection }, selections, context))
}

fn survey(mut head: &[u8], layout: Layout) -> Survey {
    let mut survey = Survey::default();
    while let Some(bytes) = head.get(..layout.bytes()) {
        let raw = parse(bytes, layout);
        raw.kind().into_iter().for_each(|kind| survey.saw(kind));
        let Some(rest) = head.get(layout.bytes() + raw.data_bytes..) else { break };
        head = rest;
    }
    survey
}

impl EventSource for Blktrace {
    fn next_event(&mut self, context: &mut Context) -> Result<Option<Event>, Error> {
        loop {
            let size = self.layout.bytes();
            let Some(bytes) = peek_record(&mut self.input, size, context)? else { return Ok(None) };
            if Layout::probe(bytes) != Some(self.layout) {
                let problem = "a record does not begin with the magic number of the first".to_owned();
                return Err(not_a_record(context, "magic", problem));
            }
            let raw = parse(bytes, self.layout);
            let whole = size + raw.data_bytes;
            let Some(bytes) = peek_record(&mut self.input, whole, context)? else { return Ok(None) };
            if raw.tells_name() {
                note_name(&raw, &bytes[size..], context);
            }
            let event = self.event(&raw, context)?;
            self.input.pass(whole);
            if event.is_some() {
                return Ok(event);
            }
        }
    }
}

/// Records the process name of a notification.
fn note_name(raw: &Raw, data: &[u8], context: &mut Context) {
    let data = if raw.action & CGROUP != 0 { data.get(8..).unwrap_or_default() } else { data };
    let length = memchr::memchr(0, data).unwrap_or(data.len()).min(COMM_BYTES_MAX);
    context.process(raw.pid, &data[..length]);
}

impl Blktrace {
    fn event(&self, raw: &Raw, context: &mut Context) -> Result<Option<Event>, Error> {
        let Some(kind) = raw.kind().filter(|&kind| self.selection.wants(kind)) else { return Ok(None) };
        let Some(at) = raw.time.checked_mul(self.scale) else {
            let problem = format!("a time of {} in the forced unit is beyond 584 years", raw.time);
            return Err(not_a_record(context, "time", problem));
        };
        let process = match kind {
            EventKind::Start(event) if event == self.selection.start => context.process(raw.pid, b""),
            _ => None,
        };
        Ok(Some(Event {
            kind,
            at,
            device: raw.device(),
            rwbs: raw.rwbs(),
            sector: raw.sector,
            sectors: u64::from(raw.bytes).div_ceil(elevator::SECTOR_BYTES),
            priority: None,
            process,
            place: context.place,
        }))
    }
}

/// Writes version 7, little-endian: a Q and a C event for each request, and a notification when a process's name is new.
#[derive(Default)]
struct Binary {
    sequence: u32,
    names: HashMap<u32, String>,
}

/// The bits of a device's minor number.
const MINOR_BITS: u32 = 20;
/// Linux's limit of a name, without the NUL.
const COMM_BYTES: usize = 15;

impl Binary {
    fn record(
        &mut self,
        at: Time,
        action: u64,
        (sector, bytes): (u64, u32),
        event: &write::Event,
        data: &[u8],
        to: &mut Vec<u8>,
    ) {
        self.sequence = self.sequence.wrapping_add(1);
        let device = event.device.0 << MINOR_BITS | event.device.1;
        for number in [MAGIC | 7, self.sequence] {
            to.extend_from_slice(&number.to_le_bytes());
        }
        for number in [at.as_nanos(), sector] {
            to.extend_from_slice(&number.to_le_bytes());
        }
        for number in [bytes, action as u32, event.pid, device, 0] {
            to.extend_from_slice(&number.to_le_bytes());
        }
        for number in [0, data.len() as u16] {
            to.extend_from_slice(&number.to_le_bytes());
        }
        to.extend_from_slice(data);
    }

    fn event(&mut self, at: Time, action: u64, event: &write::Event, to: &mut Vec<u8>) {
        let flags = event.flags;
        let categories = [
            (category::WRITE, event.op != Op::Read),
            (category::DISCARD, event.op == Op::Discard),
            (category::FLUSH, flags.preflush || event.op == Op::Flush),
            (category::SYNC, flags.sync),
            (category::META, flags.meta),
            (category::AHEAD, flags.ahead),
            (category::FUA, flags.fua),
        ];
        let categories = categories.iter().filter(|(_, has)| *has).map(|(category, _)| category);
        let action = action | categories.sum::<u64>() << CATEGORY_SHIFT;
        // 'can_hold' has checked the length.
        let bytes = (event.sectors * elevator::SECTOR_BYTES) as u32;
        self.record(at, action, (event.start, bytes), event, &[], to);
    }
}

impl Events for Binary {
    const HOLDS: Holds = Holds::all(1).except(Field::Bytes).except(Field::Priorities);

    fn can_hold(&self, event: &write::Event) -> bool {
        let (major, minor) = event.device;
        major < 1 << (u32::BITS - MINOR_BITS)
            && minor < 1 << MINOR_BITS
            && event.sectors <= u64::from(u32::MAX) / elevator::SECTOR_BYTES
    }

    fn start(&mut self, at: Time, event: &write::Event, name: Option<&str>, to: &mut Vec<u8>) {
        if let Some(name) = name.filter(|_| event.pid > 0)
            && self.names.get(&event.pid).is_none_or(|known| known != name)
        {
            self.names.insert(event.pid, name.to_owned());
            let end = (0..=COMM_BYTES.min(name.len())).rev().find(|&end| name.is_char_boundary(end));
            let mut data = name.as_bytes()[..end.unwrap_or(0)].to_vec();
            data.resize(COMM_BYTES + 1, 0);
            self.record(at, category::NOTIFY << CATEGORY_SHIFT, (0, 0), event, &data, to);
        }
        self.event(at, 1, event, to);
    }

    fn complete(&mut self, at: Time, event: &write::Event, to: &mut Vec<u8>) {
        self.event(at, 8, event, to);
    }
}
