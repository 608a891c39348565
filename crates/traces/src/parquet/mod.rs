//! Parquet files of requests. [`format::parquet`](crate::format::parquet) has the columns.

pub(crate) mod encode;
mod footer;
pub(crate) mod groups;
mod index;
mod reader;
mod rows;
mod varint;
pub(crate) mod writer;
mod zstd;

pub(crate) use reader::source;
pub use zstd::column_reader;

use elevator::{Flags, Op, Priority, PriorityClass};

/// Bits of the column `flags`.
fn flag_bits(flags: Flags) -> i32 {
    let Flags { sync, meta, ahead, fua, preflush, direct: _ } = flags;
    let bit = |on: bool, bit: u32| i32::from(on) << bit;
    bit(sync, 0) | bit(meta, 1) | bit(ahead, 2) | bit(fua, 3) | bit(preflush, 4)
}

/// The flags, if all bits are known ones.
fn flags(bits: i64) -> Option<Flags> {
    let bit = |bit: u32| bits >> bit & 1 == 1;
    let (sync, meta, ahead, fua, preflush) = (bit(0), bit(1), bit(2), bit(3), bit(4));
    let flags = Flags { sync, meta, ahead, fua, preflush, direct: false };
    (0..32).contains(&bits).then_some(flags)
}

const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Discard, Op::Flush];

const fn op_number(op: Op) -> u8 {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Discard => 2,
        Op::Flush => 3,
    }
}

const CLASSES: [PriorityClass; 3] = [PriorityClass::RealTime, PriorityClass::BestEffort, PriorityClass::Idle];

fn priority_number(priority: Priority) -> i32 {
    let class = CLASSES.iter().zip(1..).find(|(class, _)| **class == priority.class);
    class.map_or(2, |(_, number)| number) * 8192 + i32::from(priority.level)
}

/// The priority, if class and level exist; 0 is none.
fn priority(number: i64) -> Option<Option<Priority>> {
    if number == 0 {
        return Some(None);
    }
    let class = CLASSES.get(usize::try_from(number / 8192).ok()?.checked_sub(1)?)?;
    let level = u8::try_from(number % 8192).ok().filter(|level| *level <= 7)?;
    Some(Some(Priority { class: *class, level }))
}
