//! Reading of line-oriented formats.

use crate::context::{Context, Source};
use crate::error::{Error, Position};
use crate::input::Input;
use crate::record::Record;
use crate::scan::FieldError;
use crate::skips::Oddity;

/// The parser of one format.
pub(crate) trait LineFormat {
    /// The content of a line.
    type Item;

    /// Parses a line; `None` if it is valid and has no request.
    fn parse(&mut self, line: &[u8], context: &mut Context) -> Result<Option<Self::Item>, FieldError>;

    /// Whether the recording ends before this malformed line (a printed summary).
    fn is_over(&self, _line: &[u8]) -> bool {
        false
    }
}

/// The lines of an input.
pub(crate) struct Lines<F> {
    input: Input,
    format: F,
    over: bool,
    number: u64,
}

impl<F: LineFormat> Lines<F> {
    pub(crate) fn new(input: Input, format: F) -> Self {
        Self { input, format, over: false, number: 0 }
    }

    /// The content of the next line that has a request.
    #[inline]
    pub(crate) fn next_item(&mut self, context: &mut Context) -> Result<Option<F::Item>, Error> {
        while !self.over {
            let line = match self.input.line() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(stop) => return Err(context.stopped(stop)),
            };
            let (bytes, unended, cut) = (line.bytes, line.unended, line.cut);
            self.number += 1;
            let number = self.number;
            context.place = Position::Line(number);
            if cut {
                break;
            }
            match self.format.parse(bytes, context) {
                Ok(Some(item)) => {
                    context.good();
                    return Ok(Some(item));
                }
                Ok(None) => {}
                Err(_) if bytes.is_empty() || is_heading(number, bytes) => {}
                Err(_) if self.format.is_over(bytes) => self.over = true,
                Err(_) if unended => context.skip(Oddity::CutShort)?,
                Err(bad) => context.malformed(bad, bytes)?,
            }
        }
        self.finish(context)
    }

    fn finish(&mut self, context: &mut Context) -> Result<Option<F::Item>, Error> {
        let odd = if self.over { None } else { self.input.odd_end() };
        self.over = true;
        odd.map(|oddity| context.skip(oddity)).transpose().map(|_| None)
    }
}

/// Whether the first line is a heading, which some republished files have.
fn is_heading(number: u64, line: &[u8]) -> bool {
    let begins = line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'"' | b'#'));
    number == 1 && begins && !line.iter().any(u8::is_ascii_digit)
}

impl<F: LineFormat<Item = Record>> Source for Lines<F> {
    fn next(&mut self, context: &mut Context) -> Result<Option<Record>, Error> {
        self.next_item(context)
    }
}
