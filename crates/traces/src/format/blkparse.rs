//! blkparse's default text: `major,minor cpu sequence seconds.nanoseconds pid action RWBS rest`.
//!
//! - Q, I, D: `sector + sectors [comm]`, or only `[comm]` without sectors (a flush);
//! - C: `sector + sectors [error]`, with `(elapsed)` before the brackets under `-t`, or `sector [error]`;
//! - all other actions (merges, splits, remaps, plugs, messages, zones) are ignored.
//!
//! Sectors have **512 bytes**; times are **seconds** with nine decimals since the recording began, and are not shifted. The reader uses
//! C and the first of Q, I and D that occurs.
//!
//! Pitfalls: blkparse prints a summary at the end, where the reader stops. Several devices may be in one file. A Q on a device-mapper
//! volume and the Q on the disk below are two devices. FIU's traces are named `.blkparse` but have another format.
//!
//! Source: blktrace, blkparse_fmt.c (`process_default`).

use std::io::Write;

use elevator::Time;
use memchr::memmem;

use super::{Signature, Spec};
use crate::context::Context;
use crate::events::{Event, EventKind, Selection, Survey};
use crate::input::{BUFFER_BYTES, Input};
use crate::lines::{End, LineFormat, Lines};
use crate::options::TimeUnit;
use crate::pairing::Paired;
use crate::rwbs::Rwbs;
use crate::scan::{Cursor, FieldError};
use crate::write::{self, Events, Field, Holds, Writes};

pub(crate) const SPEC: Spec = Spec {
    name: "blkparse",
    title: "blkparse text",
    extensions: &[],
    signature: Signature::Line(looks_like),
    reader: |input, context| Ok(Box::new(reader(input, context))),
    writes: Some(Writes::events::<Printed>()),
};

/// Bracketed names of a process without a known name: Dwell's, and that of printing a null pointer.
const UNNAMED: [&[u8]; 2] = [b"?", b"(null)"];

#[derive(Clone)]
pub(crate) struct Blkparse {
    scale: u64,
    selection: Selection,
}

fn reader(mut input: Input, context: &mut Context) -> Paired<Lines<Blkparse>> {
    let mut survey = Survey::default();
    for line in input.peek(BUFFER_BYTES).split(|&byte| byte == b'\n') {
        if let Some(kind) = head(&mut Cursor::new(line), 1).ok().and_then(|head| kind(head.action)) {
            survey.saw(kind);
        }
    }
    let selections = survey.choose(context.options.event);
    let selection = selections.general;
    let scale = context.settle_unit(TimeUnit::Seconds, None);
    Paired::new(Lines::new(input, Blkparse { scale, selection }), selections, context)
}

/// Whether a line has blkparse's form.
fn looks_like(line: &[u8]) -> bool {
    let head = head(&mut Cursor::new(line), 1);
    head.is_ok_and(|mut head| head.action.len() <= 2 && head.time.word().contains(&b'.'))
}

fn kind(action: &[u8]) -> Option<EventKind> {
    match action {
        &[letter] => EventKind::from_letter(letter),
        _ => None,
    }
}

struct Head<'a> {
    device: crate::devices::Key<'static>,
    at: u64,
    time: Cursor<'a>,
    pid: u32,
    action: &'a [u8],
}

#[inline(always)]
fn head<'a>(cursor: &mut Cursor<'a>, scale: u64) -> Result<Head<'a>, FieldError> {
    cursor.blanks();
    let device = cursor.device()?;
    cursor.blanks();
    cursor.number("cpu")?;
    cursor.blanks();
    cursor.number("sequence")?;
    cursor.blanks();
    let time = *cursor;
    let at = cursor.decimal("time", scale)?;
    cursor.blanks();
    let pid = cursor.number32("pid")?;
    cursor.blanks();
    let action = cursor.word();
    if action.is_empty() {
        return Err(cursor.bad("action", "an action (Q, I, D, C, ...)"));
    }
    cursor.blanks();
    Ok(Head { device, at, time, pid, action })
}

impl LineFormat for Blkparse {
    type Item = Event;

    #[inline(always)]
    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Event>, FieldError> {
        let head = head(cursor, self.scale)?;
        let Some(kind) = kind(head.action).filter(|&kind| self.selection.wants(kind)) else {
            cursor.line();
            return end(cursor, "action").map(|()| None);
        };
        let rwbs = cursor.rwbs()?;
        cursor.blanks();
        let (sector, sectors) = extent(cursor)?;
        let before_comm = *cursor;
        let rest = cursor.line().trim_ascii_end();
        let open = memchr::memchr(b'[', rest);
        let (Some(open), true) = (open, rest.ends_with(b"]")) else {
            return Err(before_comm.bad("comm", "a process or an error in brackets"));
        };
        end(cursor, "comm")?;
        let comm = &rest[open + 1..rest.len() - 1];
        let comm = if UNNAMED.contains(&comm) { b"" } else { comm };
        let process = match kind {
            EventKind::Start(event) if event == self.selection.start => context.process(head.pid, comm),
            _ => None,
        };
        let (device, at, place) = (head.device, head.at, context.place);
        Ok(Some(Event { kind, at, device, rwbs, sector, sectors, priority: None, process, place }))
    }

    fn is_over(&self, line: &[u8]) -> bool {
        let line = line.trim_ascii_start();
        let of_summary = [b"CPU".as_slice(), b"Total ", b"Reads Queued", b"Throughput", b"Events ("];
        of_summary.iter().any(|start| line.starts_with(start))
            || memmem::find(line, b"Reads Queued:").is_some()
    }
}

/// `sector + sectors`, `sector`, or nothing.
#[inline(always)]
fn extent(cursor: &mut Cursor<'_>) -> Result<(u64, u64), FieldError> {
    if matches!(cursor.peek(), Some(b'[' | b'(')) {
        return Ok((0, 0));
    }
    let sector = cursor.number("sector")?;
    cursor.blanks();
    if !cursor.eat(b'+') {
        return Ok((sector, 0));
    }
    cursor.blanks();
    let sectors = u64::from(cursor.number32("sectors")?);
    cursor.blanks();
    Ok((sector, sectors))
}

/// Writes a Q line for each request's issue and a C line for its completion, without a summary.
#[derive(Default)]
struct Printed {
    sequence: u64,
}

impl Printed {
    fn line(&mut self, at: Time, action: char, event: &write::Event, bracketed: &str, to: &mut Vec<u8>) {
        let (major, minor) = event.device;
        self.sequence += 1;
        let (seconds, nanos) = (at.as_nanos() / 1_000_000_000, at.as_nanos() % 1_000_000_000);
        let write::Event { pid, start, sectors, .. } = event;
        let letters = Rwbs::letters(event.op, event.flags);
        // A vector does not fail.
        let _ = write!(to, "{major:3},{minor:<3} {:2} {:8} {seconds:5}.{nanos:09} ", 0, self.sequence);
        let _ = writeln!(to, "{pid:5} {action:>2} {letters:>3} {start} + {sectors} [{bracketed}]");
    }
}

impl Events for Printed {
    const HOLDS: Holds = Holds::all(1).except(Field::Bytes).except(Field::Priorities);

    fn start(&mut self, at: Time, event: &write::Event, name: Option<&str>, to: &mut Vec<u8>) {
        self.line(at, 'Q', event, name.unwrap_or("?"), to);
    }

    fn complete(&mut self, at: Time, event: &write::Event, to: &mut Vec<u8>) {
        self.line(at, 'C', event, "0", to);
    }
}
