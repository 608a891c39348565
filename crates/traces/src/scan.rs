//! Parsing of numbers and fields in the bytes of a line, without allocation and UTF-8 checks.

use core::fmt;

use elevator::Op;

use crate::devices::{DEVICES_MAX, Key};
use crate::rwbs::Rwbs;

/// What a field must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    Text(&'static str),
    /// One of the devices so far, of which there are [`DEVICES_MAX`].
    KnownDevice,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::KnownDevice => write!(f, "one of at most {DEVICES_MAX} devices"),
        }
    }
}

/// A malformed field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldError {
    /// The format's name of the field.
    pub(crate) field: &'static str,
    pub(crate) expected: Expected,
    /// Byte position in the line.
    pub(crate) at: u32,
}

/// A position in a line.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

/// The first bytes of a text, to be compared with another one in one step; the default: none.
#[derive(Clone, Copy, Default)]
pub(crate) struct Prefix {
    bytes: u128,
    mask: u128,
    length: u32,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const POWERS_OF_TEN: [u64; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

const fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    // By value, as all functions that are not inlined: a cursor whose address is taken is kept in memory, not in registers.
    #[inline]
    pub(crate) fn bad(self, field: &'static str, expected: &'static str) -> FieldError {
        FieldError { field, expected: Expected::Text(expected), at: self.at as u32 }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.line[self.at..]
    }

    pub(crate) fn advance(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.line.len());
    }

    #[inline]
    pub(crate) fn blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.at += 1;
        }
    }

    /// Consumes `byte` if it is next.
    #[inline]
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Consumes a comma and surrounding blanks.
    #[inline(always)]
    pub(crate) fn comma(&mut self, field: &'static str) -> Result<(), FieldError> {
        if let [b',', next, ..] = self.rest()
            && *next > b' '
        {
            self.at += 1;
            return Ok(());
        }
        *self = self.comma_and_blanks(field)?;
        Ok(())
    }

    #[cold]
    fn comma_and_blanks(mut self, field: &'static str) -> Result<Self, FieldError> {
        self.blanks();
        if !self.eat(b',') {
            return Err(self.bad(field, "a comma"));
        }
        self.blanks();
        Ok(self)
    }

    /// A whole number: the longest run of digits.
    #[inline(always)]
    pub(crate) fn number(&mut self, field: &'static str) -> Result<u64, FieldError> {
        let from = self.at;
        let mut value = 0_u64;
        // The value of each digit; other bytes become greater than 9, and their highest bit is set in `others`.
        let (values, others) = loop {
            let values = self.eight() ^ (ONES * u64::from(b'0'));
            let others = (values | values.wrapping_add(ONES * 0x76)) & (ONES * 0x80);
            if others != 0 {
                break (values, others);
            }
            value = value.wrapping_mul(100_000_000).wrapping_add(sum(values));
            self.at += 8;
        };
        let digits = others.trailing_zeros() as usize / 8;
        if digits > 0 {
            self.at += digits;
            // The last digit into the highest byte.
            let last = sum(values << (u64::BITS as usize - 8 * digits));
            value = value.wrapping_mul(POWERS_OF_TEN[digits]).wrapping_add(last);
        }
        match self.at - from {
            1..=19 => Ok(value),
            digits => hard_number(self.line, from, digits, field),
        }
    }

    /// The next eight bytes, the first one lowest; zeros behind the end.
    #[inline(always)]
    fn eight(self) -> u64 {
        let rest = self.rest();
        match (rest.first_chunk::<8>(), self.line.last_chunk::<8>()) {
            (Some(eight), _) => u64::from_le_bytes(*eight),
            // The end of the line, without the bytes before `rest`.
            (None, Some(last)) if !rest.is_empty() => u64::from_le_bytes(*last) >> (8 * (8 - rest.len())),
            (None, _) => {
                let mut eight = [0; 8];
                eight[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(eight)
            }
        }
    }

    /// As [`number`](Self::number), below 2^32.
    #[inline]
    pub(crate) fn number32(&mut self, field: &'static str) -> Result<u32, FieldError> {
        let from = *self;
        let value = self.number(field)?;
        u32::try_from(value).map_err(|_| from.bad(field, "a whole number below 2^32"))
    }

    /// A hexadecimal number, with or without `0x`.
    #[inline]
    pub(crate) fn hex(&mut self, field: &'static str) -> Result<u64, FieldError> {
        if self.rest().starts_with(b"0x") || self.rest().starts_with(b"0X") {
            self.at += 2;
        }
        let from = self.at;
        let mut value = 0_u64;
        while let Some(digit) = self.peek().and_then(|byte| (byte as char).to_digit(16)) {
            value = value << 4 | u64::from(digit);
            self.at += 1;
        }
        if matches!(self.at - from, 1..=16) {
            return Ok(value);
        }
        self.at = from;
        Err(self.bad(field, "a hexadecimal number"))
    }

    /// A number with or without a fraction, times `scale` (at most 10^9), rounded.
    #[inline(always)]
    pub(crate) fn decimal(&mut self, field: &'static str, scale: u64) -> Result<u64, FieldError> {
        let from = *self;
        let whole = self.number(field)?;
        let fraction = if self.eat(b'.') {
            let (fraction, digits) = fraction(self.rest(), scale);
            self.at += digits;
            fraction
        } else {
            0
        };
        let value = whole.checked_mul(scale).and_then(|value| value.checked_add(fraction));
        value.ok_or_else(|| from.bad(field, "a time within 584 years"))
    }

    /// The bytes up to the next blank, `stop`, or the end. May be empty.
    #[inline]
    pub(crate) fn word_until(&mut self, stop: u8) -> &'a [u8] {
        let from = self.at;
        while self.peek().is_some_and(|byte| !is_blank(byte) && byte != stop) {
            self.at += 1;
        }
        &self.line[from..self.at]
    }

    /// The bytes up to the next blank or the end. May be empty.
    #[inline]
    pub(crate) fn word(&mut self) -> &'a [u8] {
        self.word_until(b' ')
    }

    /// Consumes the end of a line, which follows.
    #[inline(always)]
    pub(crate) fn line_end(&mut self, field: &'static str) -> Result<(), FieldError> {
        if self.eat(b'\n') { Ok(()) } else { Err(self.bad(field, "the end of the line")) }
    }

    /// The bytes up to a position behind this one; none if there are more than 15, or if fewer than 16 follow.
    #[inline]
    pub(crate) fn prefix(self, to: usize) -> Prefix {
        let length = to - self.at;
        let (Some(bytes), 1..=15) = (self.rest().first_chunk::<16>(), length) else {
            return Prefix::default();
        };
        let mask = (1 << (8 * length)) - 1;
        Prefix { bytes: u128::from_le_bytes(*bytes) & mask, mask, length: length as u32 }
    }

    /// Consumes these bytes if they are next, and not none.
    #[inline(always)]
    pub(crate) fn skip(&mut self, prefix: &Prefix) -> bool {
        let Some(bytes) = self.rest().first_chunk::<16>() else { return false };
        if prefix.length == 0 || u128::from_le_bytes(*bytes) & prefix.mask != prefix.bytes {
            return false;
        }
        self.at += prefix.length as usize;
        true
    }

    /// Bytes consumed.
    pub(crate) const fn position(&self) -> usize {
        self.at
    }

    /// Checks that only blanks follow.
    #[inline]
    pub(crate) fn end(&mut self, field: &'static str) -> Result<(), FieldError> {
        self.blanks();
        if self.at == self.line.len() { Ok(()) } else { Err(self.bad(field, "the end of the line")) }
    }
}

/// The number of eight digits, of which the highest byte has the last: pairs, fours, and all eight.
#[inline(always)]
const fn sum(values: u64) -> u64 {
    let pairs = (values.wrapping_mul(10)).wrapping_add(values >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100)).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000)).wrapping_add(fours >> 32) & 0xffff_ffff
}

/// A number without digits, or with so many that it may not fit.
#[cold]
fn hard_number(line: &[u8], from: usize, digits: usize, field: &'static str) -> Result<u64, FieldError> {
    let number = std::str::from_utf8(&line[from..from + digits]).ok().and_then(|text| text.parse().ok());
    let expected = "a whole number below 2^64";
    number.ok_or(FieldError { field, expected: Expected::Text(expected), at: from as u32 })
}

/// The digits of a fraction, those beyond the ninth ignored: their value times `scale`, and their number.
fn fraction(text: &[u8], scale: u64) -> (u64, usize) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let read = digits.min(9);
    let value = text[..read].iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    let divisor = POWERS_OF_TEN[read];
    (if divisor == scale { value } else { (value * scale + divisor / 2) / divisor }, digits)
}

#[inline(always)]
const fn read_unless(is_write: bool) -> Op {
    if is_write { Op::Write } else { Op::Read }
}

/// Fields of several formats.
impl Cursor<'_> {
    /// 0 or 1; `read` is the number of a read.
    #[inline(always)]
    pub(crate) fn read_is(&mut self, field: &'static str, read: u64) -> Result<Op, FieldError> {
        if let [digit @ (b'0' | b'1'), b',', ..] = *self.rest() {
            self.at += 1;
            return Ok(read_unless(u64::from(digit - b'0') != read));
        }
        let from = *self;
        match self.number(field)? {
            value @ (0 | 1) => Ok(read_unless(value != read)),
            _ => Err(from.bad(field, "0 or 1")),
        }
    }

    /// `R` or `W`, `read` or `write`, in either case.
    #[inline(always)]
    pub(crate) fn read_or_write(&mut self, field: &'static str) -> Result<Op, FieldError> {
        // Which letter it is, is a comparison and not a branch: reads and writes alternate, so that a branch is often mispredicted.
        if let [letter, b',', ..] = *self.rest()
            && matches!(letter | 0x20, b'r' | b'w')
        {
            self.at += 1;
            return Ok(read_unless(letter | 0x20 == b'w'));
        }
        let op;
        (*self, op) = self.read_or_write_word(field)?;
        Ok(op)
    }

    #[cold]
    fn read_or_write_word(mut self, field: &'static str) -> Result<(Self, Op), FieldError> {
        let from = self;
        match self.word_until(b',') {
            [b'R' | b'r'] => Ok((self, Op::Read)),
            [b'W' | b'w'] => Ok((self, Op::Write)),
            word if word.eq_ignore_ascii_case(b"read") => Ok((self, Op::Read)),
            word if word.eq_ignore_ascii_case(b"write") => Ok((self, Op::Write)),
            _ => Err(from.bad(field, "R or W")),
        }
    }

    /// A number of blocks, as bytes.
    #[inline(always)]
    pub(crate) fn blocks(&mut self, field: &'static str, block_bytes: u64) -> Result<u64, FieldError> {
        let from = *self;
        let blocks = self.number(field)?;
        blocks.checked_mul(block_bytes).ok_or_else(|| from.bad(field, "a place below 2^64 bytes"))
    }

    /// `major,minor`.
    pub(crate) fn device(&mut self) -> Result<Key<'static>, FieldError> {
        let major = self.number32("device")?;
        if !self.eat(b',') {
            return Err(self.bad("device", "a device as major,minor"));
        }
        self.blanks();
        Ok(Key::Pair(major, self.number32("device")?))
    }

    pub(crate) fn rwbs(&mut self) -> Result<Rwbs, FieldError> {
        let from = *self;
        Rwbs::parse(self.word()).ok_or_else(|| from.bad("RWBS", "letters such as R, WS or FWFSM"))
    }
}

/// Whether the text is a whole number.
pub(crate) fn is_whole(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the text is a number with or without a fraction.
pub(crate) fn is_decimal(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    is_whole(whole) && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the text is a hexadecimal number, with or without `0x`.
pub(crate) fn is_hex(text: &str) -> bool {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether the text is `R`, `W`, `read` or `write`, in either case.
pub(crate) fn is_read_or_write(text: &str) -> bool {
    ["r", "w", "read", "write"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<u64> {
        Cursor::new(text.as_bytes()).number("n").ok()
    }

    #[test]
    fn numbers_up_to_the_last_and_not_beyond() {
        assert_eq!(number("0"), Some(0));
        assert_eq!(number("18446744073709551615"), Some(u64::MAX));
        assert_eq!(number("18446744073709551616"), None);
        assert_eq!(number("00000000000000000000000007"), Some(7));
        assert_eq!(number(""), None);
        assert_eq!(number("-1"), None);
    }

    #[test]
    fn decimals_are_exact_to_the_nanosecond() {
        let decimal = |text: &str, scale| Cursor::new(text.as_bytes()).decimal("t", scale).ok();
        assert_eq!(decimal("4333.974490", 1_000_000_000), Some(4_333_974_490_000));
        assert_eq!(decimal("5.903925", 1_000_000), Some(5_903_925));
        assert_eq!(decimal("5.9039254999", 1_000_000), Some(5_903_925));
        assert_eq!(decimal("5.9039255", 1_000_000), Some(5_903_926));
        assert_eq!(decimal("7", 1_000), Some(7_000));
        assert_eq!(decimal("7.", 1_000), Some(7_000));
        assert_eq!(decimal("18446744073709551615", 2), None);
        assert_eq!(decimal("0.000000000999999999", 1), Some(0));
    }

    #[test]
    fn a_prefix_is_consumed_only_if_it_is_next() {
        let text = b"1538323200,29310728,128,1,1869\n";
        let mut cursor = Cursor::new(text);
        let prefix = cursor.prefix(11);
        assert!(cursor.skip(&prefix) && cursor.position() == 11);
        assert!(!cursor.skip(&prefix) && cursor.position() == 11);
        assert!(!Cursor::new(b"1538323201,29310728,128,1,1869\n").skip(&prefix));
        assert!(!Cursor::new(b"1538323200,2931").skip(&prefix), "too short to be compared");
        for none in [Prefix::default(), cursor.prefix(11), cursor.prefix(30), Cursor::new(b"1,2\n").prefix(2)]
        {
            assert!(!Cursor::new(text).skip(&none));
        }
    }

    #[test]
    fn reads_and_writes_by_letter_word_and_digit() {
        let letter = |text: &str| Cursor::new(text.as_bytes()).read_or_write("op").ok();
        for (read, write) in [("R,", "W,"), ("r,", "w,"), ("Read,", "WRITE,"), ("R", "w")] {
            assert_eq!((letter(read), letter(write)), (Some(Op::Read), Some(Op::Write)));
        }
        assert!(["", ",", "2,", "RW,", "\x12,", "\x17,", "D,"].iter().all(|text| letter(text).is_none()));
        let digit = |text: &str, read| Cursor::new(text.as_bytes()).read_is("op", read).ok();
        for (read, write) in [("0,", "1,"), ("00,", "01,"), ("0", "1")] {
            assert_eq!((digit(read, 0), digit(write, 0)), (Some(Op::Read), Some(Op::Write)));
            assert_eq!((digit(read, 1), digit(write, 1)), (Some(Op::Write), Some(Op::Read)));
        }
        assert!(["", ",", "2,", "10,", "R,"].iter().all(|text| digit(text, 0).is_none()));
    }

    #[test]
    fn hexadecimal_with_and_without_prefix() {
        let hex = |text: &str| Cursor::new(text.as_bytes()).hex("flags").ok();
        assert_eq!(hex("2a"), Some(0x2a));
        assert_eq!(hex("0X2A"), Some(0x2a));
        assert_eq!(hex("0x"), None);
        assert_eq!(hex("12345678123456781"), None);
    }
}
