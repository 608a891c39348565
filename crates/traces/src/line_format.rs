//! The parser of a line-oriented format.

use crate::context::Context;
use crate::record::{Item, Plain};
use crate::scan::{Cursor, FieldError};

/// The parser of one format.
pub(crate) trait LineFormat: Clone + Send + 'static {
    /// The content of a line.
    type Item: Item;

    /// Whether a line is parsed without the lines before it.
    const IS_STATELESS: bool = true;

    /// Parses a line; `None` if it is valid and has no request.
    fn parse(&mut self, line: &[u8], context: &mut Context) -> Result<Option<Self::Item>, FieldError>;

    /// Parses the line with which a text begins, and returns its length, if the line is as most are: a request that ends with `\n`. Otherwise
    /// [`parse`](Self::parse) parses it. A search for the end of the line before would be a second pass over the text.
    #[inline(always)]
    fn parse_usual(&self, _text: &[u8], _context: &mut Context) -> Option<(Self::Item, usize)> {
        None
    }

    /// Whether the recording ends before this malformed line (a printed summary).
    fn is_over(&self, _line: &[u8]) -> bool {
        false
    }
}

/// Checks that a cursor is at the end of a line, behind the field of this name.
pub(crate) type End = fn(&mut Cursor<'_>, &'static str) -> Result<(), FieldError>;

/// A format each of whose lines is a request by itself. Usual lines are parsed without a search for their end.
pub(crate) trait RecordLine: Clone + Send + 'static {
    /// Parses a line up to its `end`.
    fn record(&self, cursor: &mut Cursor<'_>, context: &mut Context, end: End) -> Result<Plain, FieldError>;
}

impl<F: RecordLine> LineFormat for F {
    type Item = Plain;

    fn parse(&mut self, line: &[u8], context: &mut Context) -> Result<Option<Plain>, FieldError> {
        self.record(&mut Cursor::new(line), context, |cursor, field| cursor.end(field)).map(Some)
    }

    #[inline(always)]
    fn parse_usual(&self, text: &[u8], context: &mut Context) -> Option<(Plain, usize)> {
        let mut cursor = Cursor::new(text);
        let record = self.record(&mut cursor, context, |cursor, field| cursor.line_end(field)).ok()?;
        Some((record, cursor.position()))
    }
}

/// Whether the first line is a heading, which some republished files have.
pub(crate) fn is_heading(number: u64, line: &[u8]) -> bool {
    let begins = line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'"' | b'#'));
    number == 1 && begins && !line.iter().any(u8::is_ascii_digit)
}
