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
    /// A time that is the sum of the waits before.
    PossibleTime,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::KnownDevice => write!(f, "one of at most {DEVICES_MAX} devices"),
            Self::PossibleTime => f.write_str("waits before this line that sum up to less than 584 years"),
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

impl FieldError {
    /// Of a request whose time is a sum of waits; of no field of its line.
    pub(crate) const fn impossible_time() -> Self {
        Self { field: "time", expected: Expected::PossibleTime, at: u32::MAX }
    }
}

/// A position in a line, or in a text that begins with it: no function but [`line_end`](Self::line_end) goes beyond the end of a line.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    /// Bytes of the text.
    length: usize,
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
    pub(crate) const fn new(text: &'a [u8]) -> Self {
        Self { rest: text, length: text.len() }
    }

    // By value, as all functions that are not inlined: a cursor whose address is taken is kept in memory, not in registers.
    #[inline]
    pub(crate) fn bad(self, field: &'static str, expected: &'static str) -> FieldError {
        FieldError { field, expected: Expected::Text(expected), at: self.position() as u32 }
    }

    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    #[inline(always)]
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Bytes consumed.
    #[inline(always)]
    pub(crate) const fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    #[inline(always)]
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    #[inline(always)]
    pub(crate) fn blanks(&mut self) {
        if let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
            if self.peek().is_some_and(is_blank) {
                self.rest = behind_blanks(self.rest);
            }
        }
    }

    /// Consumes `byte` if it is next.
    #[inline(always)]
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        match self.rest {
            [first, rest @ ..] if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Consumes a comma and surrounding blanks.
    #[inline(always)]
    pub(crate) fn comma(&mut self, field: &'static str) -> Result<(), FieldError> {
        if let [b',', rest @ ..] = self.rest
            && rest.first().is_some_and(|next| *next > b' ')
        {
            self.rest = rest;
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
        if let Some((eight, behind)) = self.rest.split_first_chunk() {
            let first = Digits::of(eight);
            if first.are_fewer_than_eight() {
                if first.count() > 0 {
                    self.rest = &self.rest[first.count()..];
                    return Ok(first.value());
                }
            } else if let Some((eight, last)) = behind.split_first_chunk() {
                let second = Digits::of(eight);
                if second.are_fewer_than_eight() {
                    self.rest = &behind[second.count()..];
                    return Ok(first.followed_by(second));
                }
                if let Some(eight) = last.first_chunk() {
                    let third = Digits::of(eight);
                    if third.count() <= 3 {
                        self.rest = &last[third.count()..];
                        let sixteen = sum(first.values) * POWERS_OF_TEN[8] + sum(second.values);
                        return Ok(sixteen * POWERS_OF_TEN[third.count()] + third.value());
                    }
                }
            }
        }
        let value;
        (*self, value) = self.hard_number(field)?;
        Ok(value)
    }

    /// A number near the end of the text, or without digits, or with so many that it may not fit.
    #[inline(never)]
    fn hard_number(mut self, field: &'static str) -> Result<(Self, u64), FieldError> {
        let (bad, mut number) = (self.bad(field, "a whole number below 2^64"), None);
        while let [digit @ b'0'..=b'9', rest @ ..] = self.rest {
            let next = number.unwrap_or(0_u64).checked_mul(10);
            let next = next.and_then(|tens| tens.checked_add(u64::from(digit - b'0')));
            number = Some(next.ok_or(bad)?);
            self.rest = rest;
        }
        Ok((self, number.ok_or(bad)?))
    }

    /// As [`number`](Self::number), below 2^32.
    #[inline(always)]
    pub(crate) fn number32(&mut self, field: &'static str) -> Result<u32, FieldError> {
        let from = *self;
        let value = self.number(field)?;
        u32::try_from(value).map_err(|_| from.bad(field, "a whole number below 2^32"))
    }

    /// A hexadecimal number, with or without `0x`.
    #[inline(always)]
    pub(crate) fn hex(&mut self, field: &'static str) -> Result<u64, FieldError> {
        if let [b'0', b'x' | b'X', rest @ ..] = self.rest {
            self.rest = rest;
        }
        let from = *self;
        let mut value = 0_u64;
        while let [byte, rest @ ..] = self.rest
            && let Some(digit) = (*byte as char).to_digit(16)
        {
            value = value << 4 | u64::from(digit);
            self.rest = rest;
        }
        if matches!(from.rest.len() - self.rest.len(), 1..=16) {
            return Ok(value);
        }
        *self = from;
        Err(self.bad(field, "a hexadecimal number"))
    }

    /// A number with or without a fraction, times `scale` (at most 10^9), rounded.
    #[inline(always)]
    pub(crate) fn decimal(&mut self, field: &'static str, scale: u64) -> Result<u64, FieldError> {
        let from = *self;
        let whole = self.number(field)?;
        let fraction = if self.eat(b'.') { self.fraction(scale) } else { 0 };
        let value = whole.checked_mul(scale).and_then(|value| value.checked_add(fraction));
        value.ok_or_else(|| from.bad(field, "a time within 584 years"))
    }

    /// The digits of a fraction times `scale`, rounded. Those beyond the tenth have no effect.
    #[inline(always)]
    fn fraction(&mut self, scale: u64) -> u64 {
        let mut tenth = None;
        let billionths = match self.rest.first_chunk().map(Digits::of) {
            Some(digits) if digits.are_fewer_than_eight() => {
                self.rest = &self.rest[digits.count()..];
                digits.value() * POWERS_OF_TEN[9 - digits.count()]
            }
            _ => {
                let (billionths, digits) = long_fraction(self.rest);
                tenth = self.rest.get(9).filter(|_| digits > 9);
                self.advance(digits);
                billionths
            }
        };
        if scale == POWERS_OF_TEN[9] {
            billionths + u64::from(tenth.is_some_and(|digit| *digit >= b'5'))
        } else {
            (billionths * scale + POWERS_OF_TEN[9] / 2) / POWERS_OF_TEN[9]
        }
    }

    /// The bytes up to the next blank, `stop`, or the end. May be empty.
    #[inline(always)]
    pub(crate) fn word_until(&mut self, stop: u8) -> &'a [u8] {
        let ends = |byte: &u8| is_blank(*byte) || *byte == stop || *byte == b'\n';
        let (word, rest) = self.rest.split_at(self.rest.iter().position(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    /// The bytes up to the next blank or the end. May be empty.
    #[inline(always)]
    pub(crate) fn word(&mut self) -> &'a [u8] {
        self.word_until(b' ')
    }

    /// The bytes up to the end of the line.
    #[inline(always)]
    pub(crate) fn line(&mut self) -> &'a [u8] {
        let Some(end) = memchr::memchr(b'\n', self.rest) else { return std::mem::take(&mut self.rest) };
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest;
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// The bytes up to a position behind this one.
    #[inline(always)]
    pub(crate) fn until(self, to: &Self) -> &'a [u8] {
        &self.rest[..self.rest.len() - to.rest.len()]
    }

    /// Consumes the end of a line, which follows.
    #[inline(always)]
    pub(crate) fn line_end(&mut self, field: &'static str) -> Result<(), FieldError> {
        match self.rest {
            [b'\n', rest @ ..] | [b'\r', b'\n', rest @ ..] => self.rest = rest,
            _ => return Err(self.bad(field, "the end of the line")),
        }
        Ok(())
    }

    /// The bytes up to a position behind this one; none if there are more than 15, or if fewer than 16 follow.
    #[inline]
    pub(crate) fn prefix(self, to: &Self) -> Prefix {
        let length = self.until(to).len();
        let (Some(bytes), 1..=15) = (self.rest.first_chunk::<16>(), length) else {
            return Prefix::default();
        };
        let mask = (1 << (8 * length)) - 1;
        Prefix { bytes: u128::from_le_bytes(*bytes) & mask, mask, length: length as u32 }
    }

    /// Consumes these bytes if they are next, and not none.
    #[inline(always)]
    pub(crate) fn skip(&mut self, prefix: &Prefix) -> bool {
        let Some(bytes) = self.rest.first_chunk::<16>() else { return false };
        if prefix.length == 0 || u128::from_le_bytes(*bytes) & prefix.mask != prefix.bytes {
            return false;
        }
        self.rest = &self.rest[prefix.length.min(15) as usize..];
        true
    }

    /// Checks that only blanks follow.
    #[inline(always)]
    pub(crate) fn end(&mut self, field: &'static str) -> Result<(), FieldError> {
        self.blanks();
        if self.rest.is_empty() { Ok(()) } else { Err(self.bad(field, "the end of the line")) }
    }
}

// These functions return what fits into registers: to read a cursor from memory that was just written waits for the store.

/// A text without the blanks at its beginning.
#[inline(never)]
fn behind_blanks(mut text: &[u8]) -> &[u8] {
    while let Some((eight, rest)) = text.split_first_chunk() {
        let others = u64::from_le_bytes(*eight) ^ (ONES * u64::from(b' '));
        if others != 0 {
            text = &text[others.trailing_zeros() as usize / 8..];
            break;
        }
        text = rest;
    }
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    text
}

/// The billionths of a fraction of eight digits or more, or near the end of the text, and the number of its digits.
#[inline(never)]
fn long_fraction(text: &[u8]) -> (u64, usize) {
    let (mut value, mut digits) = (0, 0);
    if let Some(eight) = text.first_chunk().map(Digits::of)
        && !eight.are_fewer_than_eight()
    {
        (value, digits) = (sum(eight.values), 8);
    }
    while let Some(digit @ b'0'..=b'9') = text.get(digits) {
        if digits < 9 {
            value = value * 10 + u64::from(digit - b'0');
        }
        digits += 1;
    }
    (value * POWERS_OF_TEN[9 - digits.min(9)], digits)
}

/// The digits with which eight bytes begin.
#[derive(Clone, Copy)]
struct Digits {
    /// The value of each digit; other bytes become greater than 9.
    values: u64,
    /// The highest bit of each other byte.
    others: u64,
}

impl Digits {
    #[inline(always)]
    const fn of(eight: &[u8; 8]) -> Self {
        let values = u64::from_le_bytes(*eight) ^ (ONES * b'0' as u64);
        Self { values, others: (values | values.wrapping_add(ONES * 0x76)) & (ONES * 0x80) }
    }

    #[inline(always)]
    const fn are_fewer_than_eight(self) -> bool {
        self.others != 0
    }

    #[inline(always)]
    const fn count(self) -> usize {
        self.others.trailing_zeros() as usize / 8
    }

    /// The number of fewer than eight digits.
    #[inline(always)]
    const fn value(self) -> u64 {
        // The last digit into the highest byte; two shifts, because one of 64 bits is not valid.
        sum((self.values << 8) << (self.others.trailing_zeros() ^ 63))
    }

    /// The number of these eight digits and of fewer than eight.
    #[inline(always)]
    const fn followed_by(self, last: Self) -> u64 {
        sum(self.values) * POWERS_OF_TEN[last.count()] + last.value()
    }
}

/// The number of eight digits, of which the highest byte has the last: pairs, fours, and all eight.
#[inline(always)]
const fn sum(values: u64) -> u64 {
    let pairs = (values.wrapping_mul(10)).wrapping_add(values >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100)).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000)).wrapping_add(fours >> 32) & 0xffff_ffff
}

#[inline(always)]
const fn read_unless(is_write: bool) -> Op {
    if is_write { Op::Write } else { Op::Read }
}

const READ: u64 = u64::from_le_bytes(*b"read,\0\0\0");
const WRITE: u64 = u64::from_le_bytes(*b"write,\0\0");

/// Fields of several formats.
impl Cursor<'_> {
    /// 0 or 1; `read` is the number of a read.
    #[inline(always)]
    pub(crate) fn read_is(&mut self, field: &'static str, read: u64) -> Result<Op, FieldError> {
        if let [digit @ (b'0' | b'1'), rest @ ..] = self.rest
            && rest.first().is_some_and(|next| *next < b'0')
        {
            self.rest = rest;
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
        if let [letter, rest @ ..] = self.rest
            && rest.first() == Some(&b',')
            && matches!(letter | 0x20, b'r' | b'w')
        {
            self.rest = rest;
            return Ok(read_unless(letter | 0x20 == b'w'));
        }
        if let Some(eight) = self.rest.first_chunk() {
            // In lower case; no other byte becomes a letter by it.
            let word = u64::from_le_bytes(*eight) | (ONES * 0x20);
            let is_write = word & 0xffff_ffff_ffff == WRITE;
            if is_write || word & 0xff_ffff_ffff == READ {
                self.advance(4 + usize::from(is_write));
                return Ok(read_unless(is_write));
            }
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
    #[inline(always)]
    pub(crate) fn device(&mut self) -> Result<Key<'static>, FieldError> {
        let major = self.number32("device")?;
        if !self.eat(b',') {
            return Err(self.bad("device", "a device as major,minor"));
        }
        self.blanks();
        Ok(Key::Pair(major, self.number32("device")?))
    }

    #[inline(always)]
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
        assert_eq!(decimal("0.0059039254", 1_000_000_000), Some(5_903_925));
        assert_eq!(decimal("0.0059039255", 1_000_000_000), Some(5_903_926));
        assert_eq!(decimal("0.9999999999", 1_000_000_000), Some(1_000_000_000));
        assert_eq!(decimal("0.123456789x", 1_000_000_000), Some(123_456_789));
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
        let after = |text, bytes| {
            let mut cursor = Cursor::new(text);
            cursor.advance(bytes);
            cursor
        };
        let mut cursor = Cursor::new(text);
        let prefix = cursor.prefix(&after(text, 11));
        assert!(cursor.skip(&prefix) && cursor.position() == 11);
        assert!(!cursor.skip(&prefix) && cursor.position() == 11);
        assert!(!Cursor::new(b"1538323201,29310728,128,1,1869\n").skip(&prefix));
        assert!(!Cursor::new(b"1538323200,2931").skip(&prefix), "too short to be compared");
        for none in [
            Prefix::default(),
            cursor.prefix(&cursor),
            Cursor::new(text).prefix(&after(text, 30)),
            Cursor::new(b"1,2\n").prefix(&after(b"1,2\n", 2)),
        ] {
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
