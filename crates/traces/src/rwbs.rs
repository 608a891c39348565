//! The RWBS letters of the block layer's traces: `RA`, `WSM`, `FWFS`.
//!
//! In order: `F` (preflush), the operation (`R` read, `W` write, `D` discard, `DE` secure erase, `F` flush, `N` other), then `F`
//! (forced unit access), `A` (read-ahead), `S` (sync), `M` (metadata). The meaning of an `F` depends on its position.
//!
//! Source: Linux, `blk_fill_rwbs`; blktrace, `fill_rwbs`.

use elevator::{Flags, Op};

/// Operation and flags of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rwbs {
    /// `None` for passthrough commands and zone management.
    pub op: Option<Op>,
    /// The flags.
    pub flags: Flags,
    /// The block layer's own flush (`FF`; blktrace: `FN`), which serves all requests that need one.
    pub own_flush: bool,
}

impl Rwbs {
    /// Parses the letters; `None` if they are invalid.
    #[must_use]
    #[inline]
    pub fn parse(letters: &[u8]) -> Option<Self> {
        let preflush = letters.len() > 1 && letters[0] == b'F';
        let rest = &letters[usize::from(preflush)..];
        let (&letter, rest) = rest.split_first()?;
        let op = match letter {
            b'R' => Some(Op::Read),
            b'W' if rest.first() == Some(&b'Z') => Some(Op::Discard),
            b'W' => Some(Op::Write),
            b'D' => Some(Op::Discard),
            b'F' => Some(Op::Flush),
            b'N' if preflush => Some(Op::Flush),
            b'N' | b'Z' => None,
            _ => return None,
        };
        let mut flags = Flags { preflush, ..Flags::default() };
        for letter in rest {
            flags.sync |= *letter == b'S';
            flags.meta |= *letter == b'M';
            flags.ahead |= *letter == b'A';
            flags.fua |= *letter == b'F';
        }
        Some(Self { op, flags, own_flush: op == Some(Op::Flush) })
    }

    /// The letters of an operation with flags, as [`parse`](Self::parse) accepts them.
    pub(crate) fn letters(op: Op, flags: Flags) -> String {
        let mut letters = String::new();
        if flags.preflush || op == Op::Flush {
            letters.push('F');
        }
        letters.push(match op {
            Op::Read => 'R',
            Op::Write | Op::Flush => 'W',
            Op::Discard => 'D',
        });
        let flagged = [(flags.fua, 'F'), (flags.ahead, 'A'), (flags.sync, 'S'), (flags.meta, 'M')];
        letters.extend(flagged.iter().filter(|(set, _)| *set).map(|(_, letter)| letter));
        letters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(letters: &str) -> (Option<Op>, Flags, bool) {
        let rwbs = Rwbs::parse(letters.as_bytes()).unwrap();
        (rwbs.op, rwbs.flags, rwbs.own_flush)
    }

    #[test]
    fn an_f_means_what_its_place_says() {
        let none = Flags::default();
        assert_eq!(parse("RA"), (Some(Op::Read), Flags { ahead: true, ..none }, false));
        assert_eq!(parse("WSM"), (Some(Op::Write), Flags { sync: true, meta: true, ..none }, false));
        assert_eq!(parse("FWS"), (Some(Op::Write), Flags { preflush: true, sync: true, ..none }, false));
        let all = Flags { preflush: true, fua: true, sync: true, meta: true, ..none };
        assert_eq!(parse("FWFSM"), (Some(Op::Write), all, false));
        assert_eq!(parse("WFS"), (Some(Op::Write), Flags { fua: true, sync: true, ..none }, false));
        assert_eq!(parse("FF"), (Some(Op::Flush), Flags { preflush: true, ..none }, true));
        assert_eq!(parse("F"), (Some(Op::Flush), none, true));
        assert_eq!(parse("FN"), (Some(Op::Flush), Flags { preflush: true, ..none }, true));
        assert_eq!(parse("DE").0, Some(Op::Discard));
        assert_eq!(parse("N").0, None);
        assert_eq!(Rwbs::parse(b""), None);
        assert_eq!(Rwbs::parse(b"x"), None);
    }

    #[test]
    fn letters_are_read_back() {
        for bits in 0..32_u8 {
            let bit = |n: u8| bits >> n & 1 == 1;
            let (sync, meta, ahead, fua, preflush) = (bit(0), bit(1), bit(2), bit(3), bit(4));
            let flags = Flags { sync, meta, ahead, fua, preflush, direct: false };
            for op in [Op::Read, Op::Write, Op::Discard] {
                let read = Rwbs::parse(Rwbs::letters(op, flags).as_bytes()).unwrap();
                assert_eq!((read.op, read.flags), (Some(op), flags));
            }
        }
    }
}
