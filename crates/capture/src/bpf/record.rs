//! The records that the BPF program writes.

use elevator::{Flags, Op, Priority, PriorityClass, Process, Sector, Sectors, Time};

use crate::event::{Arrival, Name};

/// Bytes of an arrival; the layout is `struct arrival` of `bpf/block.bpf.c`.
pub(super) const ARRIVAL_BYTES: usize = 64;
/// Bytes of `struct end`.
const END_BYTES: usize = 24;

const COMPLETED: u32 = 1;
const EXITED: u32 = 2;

/// The identity of a submission in flight: the address of its bio, which is reused after completion.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Bio(pub(super) u64);

pub(super) enum Record {
    Arrived(Bio, Arrival),
    Completed { bio: Bio, at: Time, failed: bool },
    Exited(Process),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

/// The program is built for little-endian machines only.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

impl Record {
    /// Parses a record. `None` for commands that are no I/O (zone management, driver-specific).
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        match (bytes.len(), u32_at(bytes, 16)) {
            (ARRIVAL_BYTES, _) => Some(Self::Arrived(Bio(u64_at(bytes, 8)), arrival(bytes)?)),
            (END_BYTES, COMPLETED) => Some(Self::Completed {
                bio: Bio(u64_at(bytes, 8)),
                at: Time::from_nanos(u64_at(bytes, 0)),
                failed: u32_at(bytes, 20) != 0,
            }),
            (END_BYTES, EXITED) => Some(Self::Exited(Process::thread(u32_at(bytes, 8), u32_at(bytes, 12)))),
            _ => None,
        }
    }

    /// When it happened, if the record has a time.
    pub(super) const fn at(&self) -> Option<Time> {
        match self {
            Self::Arrived(_, arrival) => Some(arrival.at),
            Self::Completed { at, .. } => Some(*at),
            Self::Exited(_) => None,
        }
    }
}

fn arrival(bytes: &[u8]) -> Option<Arrival> {
    let mut name = [0; 16];
    name.copy_from_slice(&bytes[48..ARRIVAL_BYTES]);
    let size = u32_at(bytes, 24);
    let flags = flags(bytes[39]);
    let op = match op(bytes[38])? {
        Op::Write if size == 0 && flags.preflush => Op::Flush,
        op => op,
    };
    let start = if op == Op::Flush { 0 } else { u64_at(bytes, 16) };
    Some(Arrival {
        at: Time::from_nanos(u64_at(bytes, 0)),
        op,
        start: Sector(start),
        sectors: Sectors::from_bytes(u64::from(size)),
        flags: Flags { preflush: flags.preflush && op != Op::Flush, ..flags },
        priority: priority(u16::from_ne_bytes([bytes[36], bytes[37]])),
        process: Some(Process::thread(u32_at(bytes, 28), u32_at(bytes, 32))),
        name: Name::new(name),
    })
}

/// `enum req_op` of Linux, unchanged since 4.10 except for zones; a zone append is a write.
fn op(number: u8) -> Option<Op> {
    match number {
        0 => Some(Op::Read),
        1 | 7 => Some(Op::Write),
        2 => Some(Op::Flush),
        // Discard, secure erase, write zeroes.
        3 | 5 | 9 => Some(Op::Discard),
        _ => None,
    }
}

const fn flags(bits: u8) -> Flags {
    Flags {
        sync: bits & 1 != 0,
        meta: bits & 2 != 0,
        fua: bits & 4 != 0,
        preflush: bits & 8 != 0,
        direct: false,
        ahead: bits & 16 != 0,
    }
}

/// `ioprio`: the class above bit 13, the level in the lowest three bits, hints between.
fn priority(ioprio: u16) -> Option<Priority> {
    let class = match ioprio >> 13 {
        1 => PriorityClass::RealTime,
        2 => PriorityClass::BestEffort,
        3 => PriorityClass::Idle,
        _ => return None,
    };
    Some(Priority { class, level: (ioprio & 7) as u8 })
}
