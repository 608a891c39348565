//! The records that the program in the kernel writes.

use elevator::{Flags, Op, Priority, PriorityClass, Process, Sector, Sectors, Time};

use crate::event::{Arrival, Batch, Completed, Name};

/// Bytes of a record; the layout is `struct record` of `bpf/block.bpf.c`.
pub(super) const RECORD_BYTES: usize = 64;

const ARRIVED: u8 = 0;
const COMPLETED: u8 = 1;
const EXITED: u8 = 2;

fn u32_at(bytes: &[u8; RECORD_BYTES], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8; RECORD_BYTES], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

/// Adds a record to what happened. Commands that are no I/O (zone management, the device's own) are left out.
pub(super) fn take(bytes: &[u8], batch: &mut Batch) {
    let Ok(bytes) = <&[u8; RECORD_BYTES]>::try_from(bytes) else { return };
    let at = Time::from_nanos(u64_at(bytes, 0));
    let process = Process::thread(u32_at(bytes, 28), u32_at(bytes, 32));
    match bytes[40] {
        ARRIVED => batch.arrivals.extend(arrival(bytes, process)),
        COMPLETED => {
            let failed = bytes[41] != 0;
            batch.completed.extend(arrival(bytes, process).map(|arrival| Completed { arrival, at, failed }));
        }
        EXITED => batch.exited.push(process),
        _ => {}
    }
}

fn arrival(bytes: &[u8; RECORD_BYTES], process: Process) -> Option<Arrival> {
    let mut name = [0; 16];
    name.copy_from_slice(&bytes[48..]);
    let size = u32_at(bytes, 24);
    let flags = flags(bytes[39]);
    let op = match op(bytes[38])? {
        Op::Write if size == 0 && flags.preflush => Op::Flush,
        op => op,
    };
    let start = if op == Op::Flush { 0 } else { u64_at(bytes, 16) };
    Some(Arrival {
        at: Time::from_nanos(u64_at(bytes, 8)),
        op,
        start: Sector(start),
        sectors: Sectors::from_bytes(u64::from(size)),
        flags: Flags { preflush: flags.preflush && op != Op::Flush, ..flags },
        priority: priority(u16::from_ne_bytes([bytes[36], bytes[37]])),
        process: Some(process),
        name: Name::new(name),
    })
}

/// `enum req_op` of Linux: the same numbers since 4.10, but for the zones', whose appending writes are writes.
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
