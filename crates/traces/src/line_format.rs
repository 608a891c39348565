//! The parser of a line-oriented format.

use crate::context::Context;
use crate::record::Item;
use crate::scan::{Cursor, FieldError};

/// Checks that a cursor is at the end of a line, behind the field of this name.
pub(crate) type End = fn(&mut Cursor<'_>, &'static str) -> Result<(), FieldError>;

/// The parser of one format.
pub(crate) trait LineFormat: Clone + Send + 'static {
    /// The content of a line.
    type Item: Item;

    /// Whether a line is parsed without the lines before it.
    fn is_stateless(&self) -> bool {
        true
    }

    /// The waits since this was called before, in nanoseconds: the lines after a block are later by those of the block.
    fn take_waited(&mut self) -> u64 {
        0
    }

    /// Continues behind blocks with so many waits, and with the devices of another context.
    fn resume(&mut self, _waited: u64) {}

    /// Parses the line with which a text begins, up to its `end`; `None` if it is valid and has no request. A text of many lines is given first, because
    /// a search for the end of the line would be a second pass over it. After an error the line is given by itself, so that an error changes nothing.
    /// An [item](Item::lines) may be of several lines of a text.
    fn parse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
        end: End,
    ) -> Result<Option<Self::Item>, FieldError>;

    /// Whether the recording ends before this malformed line (a printed summary).
    fn is_over(&self, _line: &[u8]) -> bool {
        false
    }
}

/// Parses a line by itself. A line that begins with `#` is a comment in every format, if it is nothing else; blanks before a line are passed.
#[inline]
pub(crate) fn parse_alone<F: LineFormat>(
    format: &mut F,
    line: &[u8],
    context: &mut Context,
) -> Result<Option<F::Item>, FieldError> {
    format.parse(&mut Cursor::new(line), context, end).or_else(|bad| {
        let mut cursor = Cursor::new(line);
        cursor.blanks();
        let (text, before) = (cursor.rest(), cursor.position());
        match text.first() {
            Some(b'#') => Ok(None),
            Some(_) if before > 0 => format
                .parse(&mut Cursor::new(text), context, end)
                .map_err(|bad| FieldError { at: bad.at.saturating_add(before as u32), ..bad }),
            _ => Err(bad),
        }
    })
}

fn end(cursor: &mut Cursor<'_>, field: &'static str) -> Result<(), FieldError> {
    cursor.end(field)
}

/// Whether the first line is a heading, which some republished files have.
pub(crate) fn is_heading(number: u64, line: &[u8]) -> bool {
    let begins = line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'"' | b'#'));
    number == 1 && begins && !line.iter().any(u8::is_ascii_digit)
}
