//! Records: the common form of all recordings.

use core::fmt;

use elevator::{Flags, Op, Priority, SECTOR_BYTES, Sector, Sectors, Span, Time};
use serde::Serialize;

use crate::error::Position;

/// A device of a recording, numbered in order of appearance. [`Recording::devices`](crate::Recording::devices) has its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct DeviceId(pub u32);

/// A process: Linux's task id, or the format's equivalent. [`Recording::process_name`](crate::Recording::process_name) has its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct Pid(pub u32);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A recorded request.
///
/// Within a recording `at` never decreases. In formats whose clock counts from an epoch, the first request is at [`Time::ZERO`]; in
/// formats whose clock starts with the recording, times are unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Time of issue.
    pub at: Time,
    /// Time of completion, if recorded; not before `at`.
    pub completed: Option<Time>,
    /// The device.
    pub device: DeviceId,
    /// The operation.
    pub op: Op,
    /// Flags; all false in formats without them.
    pub flags: Flags,
    /// I/O priority, if recorded.
    pub priority: Option<Priority>,
    /// First byte on the device. Some formats allow offsets that are not a multiple of a sector.
    pub offset: u64,
    /// Length in bytes; zero for [`Op::Flush`] and only for it, whose offset is zero too. `offset + bytes` does not overflow.
    pub bytes: u64,
    /// The process, if recorded.
    pub process: Option<Pid>,
}

/// What a worker cannot decide about an item that it has parsed.
pub(crate) trait Settle: Copy + Send + 'static {
    /// Sets the position and replaces the worker's device ids. False: too many devices.
    fn settle(&mut self, ids: &[DeviceId], place: Position) -> bool;
}

/// What a worker parses a line to. It crosses from one processor's cache to another's, which takes longer than to copy it: it is small.
pub(crate) trait Item: Copy + Send + 'static {
    /// What the consumer uses.
    type Full: Settle;

    fn full(self) -> Self::Full;

    /// Number of lines.
    #[inline(always)]
    fn lines(&self) -> u64 {
        1
    }

    /// The item after the waits of earlier blocks, in nanoseconds; `None` if its time is not possible.
    #[inline(always)]
    fn later(self, _waited: u64) -> Option<Self> {
        Some(self)
    }
}

impl<T: Settle> Item for T {
    type Full = Self;

    fn full(self) -> Self {
        self
    }
}

/// A record without optional fields; a flush is synchronous.
#[derive(Clone, Copy)]
pub(crate) struct Plain {
    pub(crate) at: Time,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) device: DeviceId,
    pub(crate) op: Op,
}

impl Plain {
    /// The fields of a record that has no others.
    pub(crate) const fn of(record: &Record) -> Self {
        Self {
            at: record.at,
            offset: record.offset,
            bytes: record.bytes,
            device: record.device,
            op: record.op,
        }
    }

    /// Appends records. The optional fields are copied from a record without them; the compiler would assemble them byte by byte, and their copy would
    /// wait for these bytes.
    pub(crate) fn append(items: impl ExactSizeIterator<Item = Self>, to: &mut Vec<Record>) {
        let from = to.len();
        to.resize(from + items.len(), Record::new(Time::ZERO, DeviceId(0), Op::Read, 0, 0));
        for (record, Self { at, offset, bytes, device, op }) in to[from..].iter_mut().zip(items) {
            (record.at, record.offset, record.bytes) = (at, offset, bytes);
            (record.device, record.op, record.flags.sync) = (device, op, op == Op::Flush);
        }
    }

    /// As [`Settle::settle`].
    #[inline(always)]
    pub(crate) fn settled(self, ids: &[DeviceId]) -> Option<Self> {
        let device = *ids.get(self.device.0 as usize)?;
        (device.0 != u32::MAX).then_some(Self { device, ..self })
    }
}

impl Item for Plain {
    type Full = Record;

    #[inline(always)]
    fn full(self) -> Record {
        let mut record = Record::new(self.at, self.device, self.op, self.offset, self.bytes);
        record.flags.sync = self.op == Op::Flush;
        record
    }
}

impl Settle for Record {
    #[inline]
    fn settle(&mut self, ids: &[DeviceId], _place: Position) -> bool {
        let Some(&id) = ids.get(self.device.0 as usize) else { return false };
        self.device = id;
        id.0 != u32::MAX
    }
}

impl Record {
    /// A record without optional fields; a flush is synchronous.
    #[must_use]
    pub const fn new(at: Time, device: DeviceId, op: Op, offset: u64, bytes: u64) -> Self {
        let flags =
            Flags { sync: false, meta: false, ahead: false, fua: false, preflush: false, direct: false };
        Self { at, completed: None, device, op, flags, priority: None, offset, bytes, process: None }
    }

    /// The first sector.
    #[must_use]
    pub const fn start(&self) -> Sector {
        Sector(self.offset / SECTOR_BYTES)
    }

    /// Number of sectors, rounded outwards; at most `u32::MAX` (2 TiB).
    #[must_use]
    pub const fn sectors(&self) -> Sectors {
        if self.bytes == 0 {
            return Sectors::ZERO;
        }
        Sectors::from_bytes(self.end().saturating_sub(self.start().bytes()))
    }

    /// As [`sectors`](Self::sectors), without a limit.
    pub(crate) const fn sector_count(&self) -> u64 {
        if self.bytes == 0 { 0 } else { self.end().div_ceil(SECTOR_BYTES) - self.start().0 }
    }

    /// The byte behind the last one.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }

    /// Whether it begins and ends on sector boundaries.
    #[must_use]
    pub const fn is_aligned(&self) -> bool {
        self.offset.is_multiple_of(SECTOR_BYTES) && self.bytes.is_multiple_of(SECTOR_BYTES)
    }

    /// Time from issue to completion, if recorded.
    #[must_use]
    pub fn latency(&self) -> Option<Span> {
        self.completed.map(|end| end.since(self.at))
    }
}
