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
use crate::record::Plain;
use crate::scan::{Cursor, FieldError};
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
    /// Version 2: the sum of the waits.
    waited: u64,
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
    Ok(Lines::after(1, input, Fio { version, scale, waited: 0 }))
}

impl LineFormat for Fio {
    type Item = Plain;

    fn is_stateless(&self) -> bool {
        self.version == Version::V3
    }

    #[inline(always)]
    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Plain>, FieldError> {
        cursor.blanks();
        let at = match self.version {
            Version::V2 => self.waited,
            Version::V3 => cursor.decimal("time", self.scale)?,
        };
        cursor.blanks();
        let file = cursor.word();
        cursor.blanks();
        let before_action = *cursor;
        let action = cursor.word();
        let op = match action {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" => Op::Flush,
            b"wait" => return self.wait(cursor, end).map(|()| None),
            b"add" | b"open" | b"close" => {
                cursor.line();
                return end(cursor, "action").map(|()| None);
            }
            _ => return Err(before_action.bad("action", "an action (read, write, trim, sync, datasync)")),
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
        let (device, at) = (context.device(Key::Name(file))?, Time::from_nanos(at));
        Ok(Some(Plain { at, offset, bytes, device, op }))
    }
}

impl Fio {
    #[inline(never)]
    fn wait(&mut self, cursor: &mut Cursor<'_>, end: End) -> Result<(), FieldError> {
        cursor.blanks();
        let wait = cursor.decimal("wait", self.scale)?;
        let waited = self.waited.checked_add(wait);
        let waited = waited.ok_or_else(|| cursor.bad("wait", "waits that sum up to less than 584 years"))?;
        cursor.line();
        end(cursor, "wait")?;
        self.waited = waited;
        Ok(())
    }
}
