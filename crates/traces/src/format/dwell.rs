//! Dwell's own format: one line per request with all fields of a [`Record`]. Written by `dwell record`.
//!
//! The first line is `# dwell recording 1`. Lines that begin with `#` are comments, except `# process PID TEXT` at the end:
//! readers use the text, for example the task's name and control group, as the name of the process. All other lines have these fields, separated by blanks:
//!
//! - *at*: **nanoseconds** since the recording began, ascending;
//! - *response*: **nanoseconds** from then to the completion, or `-` if unknown;
//! - *device*: `major,minor`, a number, or a name;
//! - *RWBS*: the block layer's letters, as in [`blkparse`](super::blkparse); a flush is `FW` of length zero;
//! - *offset*, *length*: **bytes**;
//! - *priority*: `rt`, `be` or `idle` and the level, as in `be4`, or `-`;
//! - *pid*: the task, or `-`; then the task's name, which may contain blanks, to the end of the line.
//!
//! No other format can be read back without loss: blkparse's text has no priorities and matches completions by their sectors, and fio's
//! iolog has neither processes nor completions.

use elevator::{Op, Priority, PriorityClass, Time};

use super::{Signature, Spec};
use crate::context::Context;
use crate::devices::Key;
use crate::error::{Error, ErrorKind, Position};
use crate::input::Input;
use crate::lines::{End, LineFormat, Lines};
use crate::options::TimeUnit;
use crate::record::Record;
use crate::scan::{Cursor, FieldError};
use crate::write::Writes;

pub(crate) const SPEC: Spec = Spec {
    name: "dwell",
    title: "Dwell's own",
    extensions: &[],
    signature: Signature::Start(looks_like),
    reader: |input, context| Ok(Box::new(reader(input, context)?)),
    writes: Some(Writes::DWELL),
};

/// The first line without the version.
pub(crate) const TITLE: &str = "# dwell recording ";
/// The version.
pub(crate) const VERSION: u32 = 1;
/// The start of a line about a process.
pub(crate) const PROCESS: &str = "# process ";

#[derive(Clone)]
pub(crate) struct Dwell {
    scale: u64,
}

/// Whether the head of a file has the title.
fn looks_like(head: &[u8]) -> bool {
    head.starts_with(TITLE.as_bytes())
}

fn reader(mut input: Input, context: &mut Context) -> Result<Lines<Dwell>, Error> {
    let head = input.peek(64);
    let version =
        head.strip_prefix(TITLE.as_bytes()).and_then(|rest| Cursor::new(rest).number32("version").ok());
    if version != Some(VERSION) {
        let problem = match version {
            Some(version) => format!("is of version {version}; version {VERSION} is read"),
            None => format!("does not begin with '{TITLE}{VERSION}'"),
        };
        return Err(context.error(ErrorKind::Format, problem).at(Position::Line(1)));
    }
    let scale = context.settle_unit(TimeUnit::Nanoseconds, None);
    Ok(Lines::new(input, Dwell { scale }))
}

impl LineFormat for Dwell {
    type Item = Record;

    #[inline(always)]
    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Record>, FieldError> {
        if cursor.peek() == Some(b'#') {
            if let Some(rest) = cursor.line().strip_prefix(PROCESS.as_bytes()) {
                let mut cursor = Cursor::new(rest);
                // A comment may begin with the same words.
                if let Ok(pid) = cursor.number32("pid") {
                    cursor.blanks();
                    context.process(pid, cursor.rest().trim_ascii_end());
                }
            }
            return end(cursor, "comment").map(|()| None);
        }
        let at = cursor.decimal("at", self.scale)?;
        cursor.blanks();
        let response = if cursor.eat(b'-') { None } else { Some(cursor.decimal("response", self.scale)?) };
        cursor.blanks();
        let device = match pair(*cursor) {
            Some((behind, pair)) => {
                *cursor = behind;
                pair
            }
            None => device_key(cursor.word()),
        };
        cursor.blanks();
        let rwbs = cursor.rwbs()?;
        let op = rwbs.op.ok_or_else(|| cursor.bad("RWBS", "letters of a read, write, discard or flush"))?;
        cursor.blanks();
        let offset = cursor.number("offset")?;
        cursor.blanks();
        let bytes = cursor.number("length")?;
        cursor.blanks();
        let priority = if cursor.eat(b'-') { None } else { Some(priority(cursor)?) };
        cursor.blanks();
        let pid = if cursor.eat(b'-') { None } else { Some(cursor.number32("pid")?) };
        cursor.blanks();
        let name = cursor.line().trim_ascii_end();
        end(cursor, "name")?;
        let device = context.device(device)?;
        let is_flush = bytes == 0 && (rwbs.flags.preflush || op == Op::Flush);
        let op = if is_flush { Op::Flush } else { op };
        let mut record = Record::new(Time::from_nanos(at), device, op, offset, bytes);
        record.flags = rwbs.flags;
        record.flags.preflush &= !is_flush;
        record.priority = priority;
        record.completed = response.and_then(|response| at.checked_add(response)).map(Time::from_nanos);
        record.process = pid.and_then(|pid| context.process(pid, name));
        Ok(Some(record))
    }
}

/// A pair of numbers without blanks, and the cursor behind it.
#[inline(always)]
fn pair<'a>(mut cursor: Cursor<'a>) -> Option<(Cursor<'a>, Key<'static>)> {
    let major = cursor.number32("device").ok()?;
    if !cursor.eat(b',') {
        return None;
    }
    let minor = cursor.number32("device").ok()?;
    (cursor.peek() == Some(b' ')).then_some((cursor, Key::Pair(major, minor)))
}

/// A device's name as written, as the key of a pair of numbers, a number or a name.
pub(crate) fn device_key(word: &[u8]) -> Key<'_> {
    let mut number = Cursor::new(word);
    match (number.number("device"), number.rest()) {
        // As it is written, without zeros before.
        (Ok(number), []) if word.len() == 1 || !word.starts_with(b"0") => Key::Number(number),
        (Ok(_), [b',', ..]) => {
            let mut pair = Cursor::new(word);
            pair.device().ok().filter(|_| pair.rest().is_empty()).unwrap_or(Key::Name(word))
        }
        _ => Key::Name(word),
    }
}

#[inline(always)]
fn priority(cursor: &mut Cursor<'_>) -> Result<Priority, FieldError> {
    let from = *cursor;
    let (class, level) = match cursor.word() {
        [b'b', b'e', level] => (PriorityClass::BestEffort, level),
        [b'r', b't', level] => (PriorityClass::RealTime, level),
        [b'i', b'd', b'l', b'e', level] => (PriorityClass::Idle, level),
        _ => (PriorityClass::Idle, &0),
    };
    let level = level.wrapping_sub(b'0');
    if level > 7 {
        return Err(from.bad("priority", "rt, be or idle and a level from 0 to 7"));
    }
    Ok(Priority { class, level })
}

/// Names of the priority classes.
pub(crate) const CLASSES: [(PriorityClass, &str); 3] =
    [(PriorityClass::RealTime, "rt"), (PriorityClass::BestEffort, "be"), (PriorityClass::Idle, "idle")];
