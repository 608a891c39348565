//! Functions for formats of binary records.

use crate::context::Context;
use crate::error::{Error, ErrorKind, Position};
use crate::input::Input;
use crate::skips::Oddity;

/// The first and last bytes of a Parquet file.
pub(crate) const PARQUET_MAGIC: &[u8] = b"PAR1";

/// Byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Endian {
    Little,
    Big,
}

/// Reads fixed-width numbers from the front of a slice. Beyond its end they are zero: callers check the length first.
pub(crate) struct Numbers<'a> {
    bytes: &'a [u8],
    endian: Endian,
}

impl<'a> Numbers<'a> {
    pub(crate) fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self { bytes, endian }
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((head, rest)) = self.bytes.split_first_chunk::<N>() else {
            self.bytes = &[];
            return [0; N];
        };
        self.bytes = rest;
        *head
    }

    pub(crate) fn u16(&mut self) -> u16 {
        let bytes = self.take();
        if self.endian == Endian::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    }

    pub(crate) fn u32(&mut self) -> u32 {
        let bytes = self.take();
        if self.endian == Endian::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }

    pub(crate) fn u64(&mut self) -> u64 {
        let bytes = self.take();
        if self.endian == Endian::Little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) }
    }
}

/// The next `want` bytes, not consumed; `None` at the end, where an incomplete record is counted. Sets the position.
pub(crate) fn peek_record<'i>(
    input: &'i mut Input,
    want: usize,
    context: &mut Context,
) -> Result<Option<&'i [u8]>, Error> {
    context.place = Position::Byte(input.position());
    let have = input.peek(want).len();
    if have == want {
        return Ok(Some(input.peek(want)));
    }
    input.pass(have);
    input.failure().map_err(|stop| context.stopped(stop))?;
    let cut = (have > 0).then_some(Oddity::CutShort);
    if let Some(oddity) = input.odd_end().or(cut) {
        context.skip(oddity)?;
    }
    Ok(None)
}

/// The error of an invalid record. Records have no separators, so that nothing after it can be read.
pub(crate) fn not_a_record(context: &Context, field: &'static str, problem: String) -> Error {
    let (place, advice) = match context.place {
        // Nothing was read before: the file probably has another format.
        Position::Line(_) => (Position::Byte(0), context.another_format()),
        place => {
            (place, "if the format is right, the file is damaged from here on: truncate it here".to_owned())
        }
    };
    context.error(ErrorKind::Malformed, problem).at(place).field(field).advice(advice)
}
