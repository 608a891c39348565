//! ftrace's text: the output of `trace`, `trace_pipe`, `trace-cmd report`, and of `perf script`.
//!
//! `comm-pid [cpu] flags seconds: event: payload`. The payload is
//!
//! - for `block_io_start`, `block_rq_insert`, `block_rq_issue`, `block_io_done`:
//!   `major,minor RWBS bytes (command) sector + sectors class,hint,level [comm]`;
//! - for `block_rq_complete`: `major,minor RWBS (command) sector + sectors class,hint,level [error]`;
//! - for `block_bio_queue`: `major,minor RWBS sector + sectors [comm]`; for `block_bio_complete` with `[error]`.
//!
//! Sectors have **512 bytes**, times are **seconds** with six decimals (trace-cmd: nine). Kernels before 6.6 have no
//! `class,hint,level`. Times are since boot, shifted so that the first request is at zero.
//!
//! Pitfalls: the process of a request is that of its *start* event; an issue may come from a kernel worker, a completion from an
//! interrupt. A prefix of `<...>` has lost the name, which the brackets have. `block_io_start` has the size of the submission that
//! created the request; later merges have no event, so that the extent counts (see `pairing`). `block_rq_insert` does not
//! occur under `none`. `block_bio_queue` names the partition, request events the disk. Clocks without a decimal point (`counter`,
//! `x86-tsc`) do not count seconds; they are read as nanoseconds, which the interpretation states.
//!
//! Source: Linux, `include/trace/events/block.h` and `kernel/trace/trace_output.c`; tried on recordings of kernel 6.18.

use std::io::Write;
use std::sync::LazyLock;

use elevator::{Priority, PriorityClass, Time};
use memchr::{memchr, memmem, memrchr};

use super::{Signature, Spec};
use crate::context::Context;
use crate::devices::Key;
use crate::events::{Event, EventKind, Selections, Survey};
use crate::input::{BUFFER_BYTES, Input};
use crate::lines::{End, LineFormat, Lines};
use crate::options::TimeUnit;
use crate::pairing::Paired;
use crate::record::Pid;
use crate::rwbs::Rwbs;
use crate::scan::{Cursor, FieldError};
use crate::skips::Oddity;
use crate::write::{self, Events, Writes};

pub(crate) const SPEC: Spec = Spec {
    name: "ftrace",
    title: "ftrace text",
    extensions: &[],
    signature: Signature::Head(looks_like),
    reader: |input, context| Ok(Box::new(reader(input, context))),
    writes: Some(Writes::events::<Text>()),
};

#[derive(Clone)]
pub(crate) struct Ftrace {
    scale: u64,
    selections: Selections,
}

fn reader(mut input: Input, context: &mut Context) -> Paired<Lines<Ftrace>> {
    let mut survey = Survey::default();
    let mut fraction = true;
    for line in input.peek(BUFFER_BYTES).split(|&byte| byte == b'\n') {
        if let Some(found) = find_event(line) {
            match Cursor::new(found.payload.trim_ascii_start()).device() {
                Ok(device) => survey.saw_on(device, found.kind),
                Err(_) => survey.saw(found.kind),
            }
            fraction = stamp(found.prefix).contains(&b'.');
        }
    }
    let selections = survey.choose(context.options.event);
    let scale = context.settle_unit(TimeUnit::Seconds, (!fraction).then_some(TimeUnit::Nanoseconds));
    context.epoch_clock = true;
    Paired::new(Lines::new(input, Ftrace { scale, selections: selections.clone() }), selections, context)
}

/// Whether the head of a file has a block event.
fn looks_like(head: &[u8]) -> bool {
    head.starts_with(b"# tracer:") || head.split(|&byte| byte == b'\n').any(|line| find_event(line).is_some())
}

struct Found<'a> {
    kind: EventKind,
    /// The line before the event's name: process, cpu, flags, time.
    prefix: &'a [u8],
    payload: &'a [u8],
}

/// Built once: building a searcher costs more than searching a line.
static EVENT: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(": block"));

#[inline(always)]
fn find_event(line: &[u8]) -> Option<Found<'_>> {
    EVENT.find_iter(line).find_map(|at| {
        let rest = &line[at + 2..];
        let rest = rest.strip_prefix(b"block:").unwrap_or(rest);
        let length = rest.iter().take(EventKind::TRACEPOINT_BYTES_MAX + 1).position(|&byte| byte == b':')?;
        let name = &rest[..length];
        let kind = EventKind::from_tracepoint(name)?;
        Some(Found { kind, prefix: &line[..at], payload: &rest[name.len() + 1..] })
    })
}

/// The last word of a prefix.
fn stamp(prefix: &[u8]) -> &[u8] {
    let from = prefix.iter().rposition(|&byte| byte == b' ').map_or(0, |at| at + 1);
    &prefix[from..]
}

impl LineFormat for Ftrace {
    type Item = Event;

    #[inline(always)]
    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Event>, FieldError> {
        let mut line_end = *cursor;
        let line = line_end.line();
        // Only the text behind this line is left to it.
        let begin = *cursor;
        *cursor = line_end;
        end(cursor, "event")?;
        let Some(found) = find_event(line) else { return other_line(line, context).map(|()| None) };
        if !self.selections.wants(found.kind) {
            return Ok(None);
        }
        let behind = |bytes: usize| {
            let mut cursor = begin;
            cursor.advance(bytes);
            cursor
        };
        let at = behind(found.prefix.len() - stamp(found.prefix).len()).decimal("time", self.scale)?;
        let payload = behind(line.len() - found.payload.len());
        let payload = parse_payload(payload, &line_end)?;
        let selection = self.selections.of(payload.device);
        if !selection.wants(found.kind) {
            return Ok(None);
        }
        let process = match found.kind {
            EventKind::Start(event) if event == selection.start => {
                process(found.prefix, payload.bracketed, context)
            }
            _ => None,
        };
        let Payload { device, rwbs, sector, sectors, priority, .. } = payload;
        let (kind, place) = (found.kind, context.place);
        Ok(Some(Event { kind, at, device, rwbs, sector, sectors, priority, process, place }))
    }
}

/// Handles a line without a block event: comment, other event, lost events; otherwise malformed.
fn other_line(line: &[u8], context: &mut Context) -> Result<(), FieldError> {
    if memmem::find(line, b" EVENTS]").is_some() {
        let lost = memmem::find(line, b"LOST ").map(|at| &line[at + 5..]);
        let count = lost.and_then(|text| Cursor::new(text).number("lost").ok()).unwrap_or(1);
        context.skips.add(Oddity::EventsLost, count, context.place);
        return Ok(());
    }
    let is_event = cpu_at(line).is_some()
        && memmem::find(line, b": ").is_some()
        && memmem::find(line, b": block").is_none();
    if line.is_empty() || is_heading(line) || is_event || is_other_block_event(line) {
        return Ok(());
    }
    Err(Cursor::new(line).bad("event", "a line of an ftrace recording"))
}

/// Whether a line precedes the events: comments, and trace-cmd's lines about its file and CPUs without events.
fn is_heading(line: &[u8]) -> bool {
    let starts = [&b"#"[..], b"cpus=", b"version = "];
    starts.iter().any(|start| line.starts_with(start))
        || (line.starts_with(b"CPU ") && line.ends_with(b" is empty"))
}

/// Whether a line has a block event that is not read: plug, split, remap, getrq.
fn is_other_block_event(line: &[u8]) -> bool {
    memmem::find(line, b": block_").is_some_and(|at| memchr(b':', &line[at + 8..]).is_some())
}

/// The position of `[cpu]`.
fn cpu_at(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'[', text).find(|&at| {
        let rest = &text[at + 1..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (1..=5).contains(&digits) && rest.get(digits) == Some(&b']')
    })
}

struct Payload<'a> {
    device: Key<'static>,
    rwbs: Rwbs,
    sector: u64,
    sectors: u64,
    priority: Option<Priority>,
    /// The final brackets' content: a comm or an error.
    bracketed: &'a [u8],
}

#[inline(always)]
fn parse_payload<'a>(mut cursor: Cursor<'a>, line_end: &Cursor<'a>) -> Result<Payload<'a>, FieldError> {
    cursor.blanks();
    let device = cursor.device()?;
    cursor.blanks();
    let rwbs = cursor.rwbs()?;
    cursor.blanks();
    let sector = sector_after_command(&mut cursor)?;
    cursor.blanks();
    if !cursor.eat(b'+') {
        return Err(cursor.bad("sectors", "+ and a number of sectors"));
    }
    cursor.blanks();
    let sectors = u64::from(cursor.number32("sectors")?);
    cursor.blanks();
    let priority = priority(&mut cursor);
    cursor.blanks();
    let rest = cursor.until(line_end).trim_ascii_end();
    let bracketed = rest.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let bracketed = bracketed.ok_or_else(|| cursor.bad("comm", "a process or an error in brackets"))?;
    Ok(Payload { device, rwbs, sector, sectors, priority, bracketed })
}

/// The sector, which follows the number of bytes and the command in parentheses if present.
#[inline(always)]
fn sector_after_command(cursor: &mut Cursor<'_>) -> Result<u64, FieldError> {
    if cursor.peek() != Some(b'(') {
        let number = cursor.number("sector")?;
        cursor.blanks();
        if cursor.peek() != Some(b'(') {
            return Ok(number);
        }
    }
    let close = cursor.rest().iter().position(|&byte| matches!(byte, b')' | b'\n'));
    let mut behind = *cursor;
    behind.advance(close.unwrap_or(0));
    if !behind.eat(b')') {
        return Err(cursor.bad("command", "a command in parentheses"));
    }
    *cursor = behind;
    cursor.blanks();
    cursor.number("sector")
}

/// `class,hint,level`, if present.
#[inline(always)]
fn priority(cursor: &mut Cursor<'_>) -> Option<Priority> {
    if cursor.peek() == Some(b'[') {
        return None;
    }
    let class_of = |name: &[u8]| match name {
        b"rt" => Some(PriorityClass::RealTime),
        b"be" => Some(PriorityClass::BestEffort),
        b"idle" => Some(PriorityClass::Idle),
        _ => None,
    };
    let word = cursor.word();
    if let [class @ .., b',', b'0'..=b'9', b',', level @ b'0'..=b'7'] = word
        && let Some(class) = class_of(class)
    {
        return Some(Priority { class, level: level - b'0' });
    }
    let mut parts = word.split(|&byte| byte == b',');
    let class = class_of(parts.next()?)?;
    let level = parts.nth(1)?;
    let level = u8::try_from(Cursor::new(level).number("level").ok()?).ok().filter(|&level| level <= 7)?;
    Some(Priority { class, level })
}

/// The process of `comm-pid`, which a thread group in parentheses may follow.
fn process(prefix: &[u8], comm: &[u8], context: &mut Context) -> Option<Pid> {
    let head = prefix[..cpu_at(prefix)?].trim_ascii();
    let head = match (head.ends_with(b")"), memrchr(b'(', head)) {
        (true, Some(at)) => head[..at].trim_ascii_end(),
        _ => head,
    };
    let at = memchr::memrchr2(b'-', b' ', head)?;
    let pid = Cursor::new(&head[at + 1..]).number32("pid").ok()?;
    let name = if comm.is_empty() { head[..at].trim_ascii_end() } else { comm };
    context.process(pid, name)
}

/// Writes a `block_io_start` and a `block_rq_complete` for each request.
#[derive(Default)]
struct Text;

impl Text {
    fn line(at: Time, process: &str, event: &write::Event, name: &str, bracketed: &str, to: &mut Vec<u8>) {
        let (seconds, nanos) = (at.as_nanos() / 1_000_000_000, at.as_nanos() % 1_000_000_000);
        let (major, minor) = event.device;
        let letters = Rwbs::letters(event.op, event.flags);
        let write::Event { start, sectors, .. } = event;
        let size = match name {
            "block_io_start" => format!("{} ", sectors * elevator::SECTOR_BYTES),
            _ => String::new(),
        };
        // A vector does not fail.
        let _ = write!(to, "{process:>24} [000] ..... {seconds:5}.{nanos:09}: {name}: {major},{minor} ");
        let _ = write!(to, "{letters} {size}() {start} + {sectors} ");
        let _ = match event.priority {
            Some(Priority { class: PriorityClass::RealTime, level }) => write!(to, "rt,0,{level}"),
            Some(Priority { class: PriorityClass::BestEffort, level }) => write!(to, "be,0,{level}"),
            Some(Priority { class: PriorityClass::Idle, level }) => write!(to, "idle,0,{level}"),
            None => write!(to, "none,0,0"),
        };
        let _ = writeln!(to, " [{bracketed}]");
    }
}

impl Events for Text {
    fn head(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(b"# tracer: nop\n#\n");
    }

    fn start(&mut self, at: Time, event: &write::Event, name: Option<&str>, to: &mut Vec<u8>) {
        let name = name.unwrap_or("<...>");
        // Brackets and colons have a meaning in this place; the last brackets have the name as it is.
        let plain = name.replace(['[', ']', ':'], "_");
        let process = if event.pid == 0 { "<idle>-0".to_owned() } else { format!("{plain}-{}", event.pid) };
        Self::line(at, &process, event, "block_io_start", name, to);
    }

    fn complete(&mut self, at: Time, event: &write::Event, to: &mut Vec<u8>) {
        Self::line(at, "<idle>-0", event, "block_rq_complete", "0", to);
    }
}
