//! fio's iolog, versions 2 and 3.
//!
//! - Version 2 begins with `fio version 2 iolog`, followed by `file add|open|close` and
//!   `file wait|read|write|sync|datasync|trim offset length`. The offset of `wait` is in **microseconds**.
//! - Version 3 (fio 3.31 and later) begins with `fio version 3 iolog`, followed by `time file action [offset length]`, without `wait`;
//!   *time* is in **microseconds** since the job began.
//!
//! *offset* and *length* are **bytes**. Each file is a device. `sync` and `datasync` are read as flushes, `trim` as a discard.
//!
//! Pitfalls: it is disputed whether version 2's `wait` counts from the previous wait or from the previous operation (fio #756). The
//! reader follows the manual: relative to the previous wait, so that operations between two waits are issued together. The manual
//! has no unit for version 3. fio's code uses microseconds, but other writers have used nanoseconds (spdk #3909), which makes the
//! recording a thousand times too long.
//! A wait of more than 36 years is malformed, as is a request after waits that sum up to more than 584 years.
//!
//! Source: fio's HOWTO, section *Trace file format*, and iolog.c.

use elevator::{Op, Time};

use super::{Signature, Spec};
use crate::context::Context;
use crate::devices::Key;
use crate::error::{Error, ErrorKind, Position};
use crate::input::Input;
use crate::lines::{End, LineFormat, Lines};
use crate::options::TimeUnit;
use crate::record::{DeviceId, Item, Plain, Record};
use crate::scan::{Cursor, FieldError, Prefix};
use crate::write::FioWriter;

pub(crate) const SPEC: Spec = Spec {
    name: "fio",
    title: "fio iolog",
    extensions: &["iolog"],
    signature: Signature::Start(looks_like),
    reader: |input, context| Ok(Box::new(reader(input, context)?)),
    writes: Some(FioWriter::WRITES),
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V2,
    V3,
}

#[derive(Clone)]
pub(crate) struct Fio {
    version: Version,
    scale: u64,
    /// Version 2: the sum of the waits, at most `u64::MAX`.
    waited: u64,
    /// Most lines have the file of the line before.
    latest: Latest,
}

/// The file of the latest request, with the blank behind it.
#[derive(Clone, Copy)]
struct Latest {
    text: Prefix,
    device: DeviceId,
}

impl Default for Latest {
    fn default() -> Self {
        Self { text: Prefix::default(), device: DeviceId(0) }
    }
}

/// An operation, and in version 2 also the wait before it, which then has no item of its own.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    plain: Plain,
    lines: u8,
}

impl Item for Operation {
    type Full = Record;

    #[inline(always)]
    fn full(self) -> Record {
        self.plain.full()
    }

    #[inline(always)]
    fn lines(&self) -> u64 {
        self.lines.into()
    }

    #[inline(always)]
    fn later(mut self, waited: u64) -> Option<Self> {
        let at = self.plain.at.as_nanos().saturating_add(waited);
        self.plain.at = Time::from_nanos(at);
        (at != u64::MAX || waited == 0).then_some(self)
    }
}

/// Upper bound for a wait, in nanoseconds: a damaged number is left out, and the lines behind it are read.
const WAIT_MAX: u64 = 1 << 60;

/// The content of a line.
enum Line {
    Operation(Plain),
    /// The sum of the waits up to this one.
    Wait(u64),
    Other,
}

/// The version of a title line.
fn title(line: &[u8]) -> Option<Version> {
    match line.trim_ascii() {
        b"fio version 2 iolog" => Some(Version::V2),
        b"fio version 3 iolog" => Some(Version::V3),
        _ => None,
    }
}

/// Whether the head of a file has a title.
fn looks_like(head: &[u8]) -> bool {
    head.starts_with(b"fio version ")
}

fn reader(mut input: Input, context: &mut Context) -> Result<Lines<Fio>, Error> {
    let head = input.peek(64);
    let first = head.split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
    let Some(version) = title(first) else {
        let problem = "the first line is neither 'fio version 2 iolog' nor 'fio version 3 iolog'";
        return Err(context.error(ErrorKind::Format, problem).at(Position::Line(1)));
    };
    let title_bytes = first.len();
    input.pass(title_bytes);
    let scale = context.settle_unit(TimeUnit::Microseconds, None);
    context.notes.push(match version {
        Version::V2 => "version 2, each wait relative to the one before".to_owned(),
        Version::V3 => "version 3".to_owned(),
    });
    Ok(Lines::after(1, input, Fio { version, scale, waited: 0, latest: Latest::default() }))
}

impl LineFormat for Fio {
    type Item = Operation;

    fn take_waited(&mut self) -> u64 {
        std::mem::take(&mut self.waited)
    }

    fn resume(&mut self, waited: u64) {
        self.waited = waited;
        self.latest = Latest::default();
    }

    #[inline(always)]
    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Operation>, FieldError> {
        let mut behind_wait = None;
        loop {
            match (self.line(cursor, context, end), behind_wait) {
                (Ok(Line::Operation(plain)), _) => {
                    let lines = 1 + u8::from(behind_wait.is_some());
                    return Ok(Some(Operation { plain, lines }));
                }
                (Ok(Line::Wait(waited)), None) => {
                    self.waited = waited;
                    if cursor.rest().is_empty() {
                        return Ok(None);
                    }
                    behind_wait = Some(*cursor);
                }
                (_, Some(behind)) => {
                    *cursor = behind;
                    return Ok(None);
                }
                (other, None) => return other.map(|_| None),
            }
        }
    }
}

/// The actions of most lines.
#[derive(Clone, Copy)]
enum Action {
    Wait,
    Move(Op),
}

const WAIT: u64 = u64::from_le_bytes(*b"wait \0\0\0");
const READ: u64 = u64::from_le_bytes(*b"read \0\0\0");
const WRITE: u64 = u64::from_le_bytes(*b"write \0\0");

/// Consumes `wait`, `read` or `write`, and the blank behind it.
#[inline(always)]
fn usual_action(cursor: &mut Cursor<'_>) -> Option<Action> {
    let eight = u64::from_le_bytes(*cursor.rest().first_chunk()?);
    let (five, six) = (eight & 0xff_ffff_ffff, eight & 0xffff_ffff_ffff);
    // Reads and writes alternate: a branch between them is often mispredicted.
    let is_write = six == WRITE;
    if is_write || five == READ {
        cursor.advance(5 + usize::from(is_write));
        return Some(Action::Move(if is_write { Op::Write } else { Op::Read }));
    }
    (five == WAIT).then(|| {
        cursor.advance(5);
        Action::Wait
    })
}

impl Fio {
    #[inline(always)]
    fn line(&mut self, cursor: &mut Cursor<'_>, context: &mut Context, end: End) -> Result<Line, FieldError> {
        cursor.blanks();
        let at = match self.version {
            Version::V2 => self.waited,
            Version::V3 => cursor.decimal("time", self.scale)?,
        };
        cursor.blanks();
        let from = *cursor;
        let (file, known) = if cursor.skip(&self.latest.text) {
            (&[][..], Some(self.latest.device))
        } else {
            (cursor.word(), None)
        };
        cursor.blanks();
        let behind_file = *cursor;
        let op = match usual_action(cursor) {
            Some(Action::Move(op)) => op,
            Some(Action::Wait) => return self.wait(cursor, end).map(Line::Wait),
            None => match cursor.word() {
                b"read" => Op::Read,
                b"write" => Op::Write,
                b"trim" => Op::Discard,
                b"sync" | b"datasync" => Op::Flush,
                b"wait" => return self.wait(cursor, end).map(Line::Wait),
                b"add" | b"open" | b"close" => {
                    cursor.line();
                    return end(cursor, "action").map(|()| Line::Other);
                }
                _ => return Err(behind_file.bad("action", "an action (read, write, trim, sync, datasync)")),
            },
        };
        let (mut offset, mut bytes) = (0, 0);
        if op == Op::Flush {
            cursor.line();
        } else {
            cursor.blanks();
            offset = cursor.number("offset")?;
            cursor.blanks();
            bytes = cursor.number("length")?;
        }
        end(cursor, "length")?;
        if self.version == Version::V2 && at == u64::MAX {
            return Err(FieldError::impossible_time());
        }
        let device = match known {
            Some(device) => device,
            None => {
                let device = context.device(Key::Name(file))?;
                self.latest = Latest { text: from.prefix(&behind_file), device };
                device
            }
        };
        Ok(Line::Operation(Plain { at: Time::from_nanos(at), offset, bytes, device, op }))
    }

    /// The sum of the waits up to this one.
    #[inline(always)]
    fn wait(&self, cursor: &mut Cursor<'_>, end: End) -> Result<u64, FieldError> {
        cursor.blanks();
        let from = *cursor;
        let wait = cursor.decimal("wait", self.scale)?;
        if wait > WAIT_MAX {
            return Err(from.bad("wait", "a wait of less than 36 years"));
        }
        if cursor.peek() != Some(b'\n') {
            cursor.line();
        }
        end(cursor, "wait")?;
        Ok(self.waited.saturating_add(wait))
    }
}
