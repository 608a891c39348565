//! Formatting into a buffer of the kernel's: what does not fit is cut off.

use core::fmt::{self, Write};

use elevator::Fact;

pub(crate) struct Text<'a> {
    room: &'a mut [u8],
    length: usize,
}

impl Text<'_> {
    /// # Safety
    /// `room` points to `size` bytes that nothing else uses while the text lives.
    pub(crate) unsafe fn new(room: *mut u8, size: usize) -> Self {
        // SAFETY: the caller passes `size` writable bytes at `room`.
        Self { room: unsafe { core::slice::from_raw_parts_mut(room, size) }, length: 0 }
    }

    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn push(&mut self, text: fmt::Arguments<'_>) {
        // Never fails: what does not fit is cut off.
        let _ = self.write_fmt(text);
    }
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let n = text.len().min(self.room.len() - self.length);
        self.room[self.length..self.length + n].copy_from_slice(&text.as_bytes()[..n]);
        self.length += n;
        Ok(())
    }
}

/// A fact as `iosched/inspect` prints it.
pub(crate) struct Value(pub Fact);

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fact::Count(n) => write!(f, "{n}"),
            Fact::Span(span) => write!(f, "{span}"),
            Fact::Sector(sector) => write!(f, "{}", sector.0),
            Fact::Flag(on) => f.write_str(if on { "yes" } else { "no" }),
            Fact::Word(word) => f.write_str(word),
            Fact::Percent(n) => write!(f, "{n}%"),
            Fact::None => f.write_str("-"),
        }
    }
}
