//! A line of the trace. See [`traces::format::ftrace`] for the columns.

use elevator::{Flags, Op, Process, Sector, Sectors, Time};
use traces::Rwbs;

use crate::event::{Arrival, Name};

/// The content of a line.
pub(super) enum Line {
    Arrived(Arrival),
    Completed {
        op: Op,
        start: Sector,
        end: Sector,
        at: Time,
        failed: bool,
    },
    /// At least this many events were overwritten before they were read.
    Lost(u64),
}

impl Line {
    /// Its time; lost events sort first.
    pub(super) const fn at(&self) -> Time {
        match self {
            Self::Arrived(arrival) => arrival.at,
            Self::Completed { at, .. } => *at,
            Self::Lost(_) => Time::ZERO,
        }
    }

    /// `None` for lines without I/O.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(line);
        // A separate line, as a process may have such a name.
        if text.starts_with("CPU:")
            && let Some((_, rest)) = text.split_once("[LOST ")
        {
            // The kernel does not always report how many.
            return Some(Self::Lost(rest.split(' ').next()?.parse().unwrap_or(1)));
        }
        let (head, rest) = text.split_once(": block_")?;
        let (event, payload) = rest.split_once(": ")?;
        let at = seconds(head.rsplit(' ').next()?)?;
        match event {
            "bio_queue" => arrival(head, payload, at).map(Self::Arrived),
            "rq_complete" | "bio_complete" => completed(payload, at),
            _ => None,
        }
    }
}

/// `123.456789`, with any number of decimals.
fn seconds(text: &str) -> Option<Time> {
    let (whole, fraction) = text.split_once('.')?;
    let nanos = format!("{fraction:0<9}").get(..9)?.parse::<u64>().ok()?;
    Some(Time::from_nanos(whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)?))
}

/// `sector + sectors`, from anywhere before the brackets.
fn extent(payload: &str) -> Option<(Sector, Sectors)> {
    let (before, after) = payload.split_once(" + ")?;
    let start = before.rsplit(' ').next()?.parse().ok()?;
    let sectors = after.split(' ').next()?.parse().ok()?;
    Some((Sector(start), Sectors(sectors)))
}

/// The text in brackets at the end.
fn bracketed(payload: &str) -> Option<&str> {
    payload.trim_end().strip_suffix(']')?.rsplit_once('[').map(|(_, text)| text)
}

fn letters(payload: &str) -> Option<(Op, Flags)> {
    let rwbs = Rwbs::parse(payload.split(' ').nth(1)?.as_bytes())?;
    Some((rwbs.op?, rwbs.flags))
}

fn arrival(head: &str, payload: &str, at: Time) -> Option<Arrival> {
    let (op, flags) = letters(payload)?;
    let (start, sectors) = extent(payload)?;
    let is_flush = op == Op::Flush || (sectors == Sectors::ZERO && flags.preflush);
    let task = head.rsplit_once(" [")?.0.trim_end().rsplit_once('-')?.1.parse().ok()?;
    Some(Arrival {
        at,
        op: if is_flush { Op::Flush } else { op },
        start: if is_flush { Sector(0) } else { start },
        sectors,
        flags: Flags { preflush: flags.preflush && !is_flush, ..flags },
        priority: None,
        process: Some(Process::single(task)),
        name: Name::from(bracketed(payload)?),
    })
}

fn completed(payload: &str, at: Time) -> Option<Line> {
    let (op, _) = letters(payload)?;
    let (start, sectors) = extent(payload)?;
    let failed = bracketed(payload)? != "0";
    Some(Line::Completed { op, start, end: start + sectors, at, failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let queued =
            "  my tool-v2-4321    [001] .....  1234.567891: block_bio_queue: 7,0 FWFSM 16 + 8 [my tool-v2]";
        let Some(Line::Arrived(arrival)) = Line::parse(queued.as_bytes()) else { panic!() };
        assert_eq!(arrival.at, Time::from_nanos(1_234_567_891_000));
        assert_eq!((arrival.op, arrival.start, arrival.sectors), (Op::Write, Sector(16), Sectors(8)));
        assert_eq!(
            (arrival.process, arrival.name.to_string().as_str()),
            (Some(Process::single(4321)), "my tool-v2")
        );
        assert!(arrival.flags.preflush && arrival.flags.fua && arrival.flags.sync && arrival.flags.meta);
        let flush = "x-1 [001] ..... 1.5: block_bio_queue: 7,0 FWS 0 + 0 [x]";
        assert!(
            matches!(Line::parse(flush.as_bytes()), Some(Line::Arrived(a)) if a.op == Op::Flush && !a.flags.preflush)
        );
        let done = "<idle>-0 [000] ..s1. 2.000001: block_rq_complete: 7,0 R () 16 + 8 none,0,0 [-5]";
        let Some(Line::Completed { op, start, end, failed, .. }) = Line::parse(done.as_bytes()) else {
            panic!()
        };
        assert_eq!((op, start, end, failed), (Op::Read, Sector(16), Sector(24), true));
        assert!(matches!(Line::parse(b"CPU:1 [LOST 12 EVENTS]"), Some(Line::Lost(12))));
        assert!(matches!(Line::parse(b"CPU:1 [LOST EVENTS]"), Some(Line::Lost(1))));
        let named = "[LOST 99999999 -7 [001] ..... 1.5: block_bio_queue: 7,0 R 0 + 8 [[LOST 99999999 ]";
        assert!(matches!(Line::parse(named.as_bytes()), Some(Line::Arrived(_))));
    }

    #[test]
    fn invalid_lines_are_ignored() {
        for text in [
            "",
            "#",
            "a-1 [0] x 1.5: sched_switch: a",
            "a-1 [000] ..... 1.5: block_bio_queue: 7,0 R",
            ": block_: ",
        ] {
            assert!(Line::parse(text.as_bytes()).is_none(), "{text}");
        }
        assert!(Line::parse(&[0xff; 100]).is_none());
    }
}
