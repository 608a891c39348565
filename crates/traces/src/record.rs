//! The one form that every recording is turned into.

use core::fmt;

use elevator::{Flags, Op, Priority, SECTOR_BYTES, Sector, Sectors, Span, Time};
use serde::Serialize;

/// A device of one recording: dense, in order of first appearance. [`Recording::devices`](crate::Recording::devices)
/// has its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct DeviceId(pub u32);

/// A process as the recorder numbered it: Linux's task id, or what the format has in its place.
/// [`Recording::process_name`](crate::Recording::process_name) has its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct Pid(pub u32);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One recorded request.
///
/// A recording yields them with `at` never running backwards. Formats whose clock counts from some epoch are moved so
/// that the first request is at [`Time::ZERO`]; formats whose clock starts with the recording keep their times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When its submitter issued it.
    pub at: Time,
    /// When it came back, if the recording knows; never before `at`.
    pub completed: Option<Time>,
    /// The device.
    pub device: DeviceId,
    /// What it does.
    pub op: Op,
    /// What the submitter said. Formats that do not know leave them all false.
    pub flags: Flags,
    /// The submitter's priority, if recorded.
    pub priority: Option<Priority>,
    /// First byte on the device. A few formats have places that are no multiple of a sector.
    pub offset: u64,
    /// Length in bytes; zero only for [`Op::Flush`]. `offset + bytes` does not overflow.
    pub bytes: u64,
    /// The submitter, if recorded.
    pub process: Option<Pid>,
}

impl Record {
    /// A request of which nothing but time, place and kind is known.
    #[must_use]
    pub const fn new(at: Time, device: DeviceId, op: Op, offset: u64, bytes: u64) -> Self {
        let flags = Flags { sync: false, meta: false, ahead: false, fua: false, preflush: false };
        Self { at, completed: None, device, op, flags, priority: None, offset, bytes, process: None }
    }

    /// The first sector that it touches.
    #[must_use]
    pub const fn start(&self) -> Sector {
        Sector(self.offset / SECTOR_BYTES)
    }

    /// The sectors that it touches, rounded outwards; capped at `u32::MAX` sectors (2 TiB).
    #[must_use]
    pub const fn sectors(&self) -> Sectors {
        if self.bytes == 0 {
            return Sectors::ZERO;
        }
        Sectors::from_bytes(self.end().saturating_sub(self.start().bytes()))
    }

    /// The byte behind its last one.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }

    /// Whether it begins and ends on sector boundaries.
    #[must_use]
    pub const fn is_aligned(&self) -> bool {
        self.offset.is_multiple_of(SECTOR_BYTES) && self.bytes.is_multiple_of(SECTOR_BYTES)
    }

    /// How long it took, if its completion was recorded.
    #[must_use]
    pub fn latency(&self) -> Option<Span> {
        self.completed.map(|end| end.since(self.at))
    }
}
