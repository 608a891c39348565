//! Buffered input: lines and bytes of a stream.

use std::io::{self, Read};

use crate::compression::is_trailing;
use crate::skips::Oddity;

/// Size of the buffer, which limits detection and the length of a line.
pub(crate) const BUFFER_BYTES: usize = 256 * 1024;

/// A line without its terminator.
pub(crate) struct Line<'a> {
    pub(crate) bytes: &'a [u8],
    /// The stream ended before the line did: the line may be truncated.
    pub(crate) unended: bool,
    /// The compressed stream is truncated, and therefore the line.
    pub(crate) cut: bool,
}

/// Whole lines.
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    /// Length of the lines.
    pub(crate) length: usize,
}

/// Why reading ended early.
#[derive(Debug)]
pub(crate) enum ReadStop {
    Failed(io::Error),
    LineTooLong,
}

/// A buffered stream.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes consumed.
    passed: u64,
    ended: bool,
    /// The anomaly at the end of a compressed stream.
    odd_end: Option<Oddity>,
    failure: Option<io::Error>,
}

impl Input {
    pub(crate) fn new(source: Box<dyn Read + Send>) -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], source, ..Self::empty() }
    }

    /// An input without content.
    pub(crate) fn empty() -> Self {
        Self {
            source: Box::new(io::empty()),
            buffer: Vec::new(),
            start: 0,
            end: 0,
            passed: 0,
            ended: false,
            odd_end: None,
            failure: None,
        }
    }

    /// Position of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.passed
    }

    /// The anomaly at the end of a compressed stream, once everything before has been consumed. Returned once.
    pub(crate) fn odd_end(&mut self) -> Option<Oddity> {
        self.odd_end.take_if(|_| self.start == self.end)
    }

    /// Up to `want` of the next bytes, not consumed; fewer only at the end or beyond the buffer's size.
    pub(crate) fn peek(&mut self, want: usize) -> &[u8] {
        while self.end - self.start < want && self.refill() {}
        &self.buffer[self.start..self.end.min(self.start + want)]
    }

    /// Consumes `bytes` bytes of the buffer.
    pub(crate) fn pass(&mut self, bytes: usize) {
        let bytes = bytes.min(self.end - self.start);
        self.start += bytes;
        self.passed += bytes as u64;
    }

    /// The error that ended the stream, if any.
    pub(crate) fn failure(&mut self) -> Result<(), ReadStop> {
        match self.failure.take() {
            Some(error) if self.start == self.end => Err(ReadStop::Failed(error)),
            other => {
                self.failure = other;
                Ok(())
            }
        }
    }

    /// The next line, without `\n` or `\r\n`.
    pub(crate) fn line(&mut self) -> Result<Option<Line<'_>>, ReadStop> {
        let mut searched = 0;
        loop {
            let waiting = &self.buffer[self.start..self.end];
            if let Some(length) = memchr::memchr(b'\n', &waiting[searched..]) {
                return Ok(Some(self.take_line(searched + length, 1)));
            }
            searched = waiting.len();
            if searched == self.buffer.len() {
                return Err(ReadStop::LineTooLong);
            }
            if !self.refill() {
                return self.last_line();
            }
        }
    }

    /// Whether the stream is longer than the buffer.
    pub(crate) fn is_large(&mut self) -> bool {
        while self.refill() {}
        !self.ended
    }

    /// The next whole lines, in `bytes`; `None` if there are none: the rest is the last line, or too long.
    pub(crate) fn block(&mut self, mut bytes: Vec<u8>) -> Option<Block> {
        bytes.resize(BUFFER_BYTES, 0);
        let rest = self.start..self.end;
        bytes[..rest.len()].copy_from_slice(&self.buffer[rest.clone()]);
        (self.start, self.end) = (0, rest.len());
        std::mem::swap(&mut self.buffer, &mut bytes);
        while self.refill() {}
        let length = memchr::memrchr(b'\n', &self.buffer[..self.end])? + 1;
        std::mem::swap(&mut self.buffer, &mut bytes);
        let rest = &bytes[length..self.end];
        self.buffer[..rest.len()].copy_from_slice(rest);
        self.end = rest.len();
        self.passed += length as u64;
        Some(Block { bytes, length })
    }

    fn last_line(&mut self) -> Result<Option<Line<'_>>, ReadStop> {
        match self.end - self.start {
            0 => self.failure().map(|()| None),
            length => Ok(Some(self.take_line(length, 0))),
        }
    }

    fn take_line(&mut self, length: usize, terminator: usize) -> Line<'_> {
        let from = self.start;
        self.start += length + terminator;
        self.passed += (length + terminator) as u64;
        let bytes = &self.buffer[from..from + length];
        let unended = terminator == 0;
        let cut = unended && self.odd_end == Some(Oddity::CutShort);
        Line { bytes: bytes.strip_suffix(b"\r").unwrap_or(bytes), unended, cut }
    }

    /// Reads more into the buffer; false at the end or if the buffer is full.
    fn refill(&mut self) -> bool {
        if self.ended {
            return false;
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        self.end < self.buffer.len() && self.read_more()
    }

    fn read_more(&mut self) -> bool {
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.ended = true;
                    self.odd_end = Some(Oddity::CutShort);
                }
                Err(error) if is_trailing(&error) => {
                    self.ended = true;
                    self.odd_end = Some(Oddity::Trailing);
                }
                Err(error) => {
                    self.ended = true;
                    self.failure = Some(error);
                }
            }
            return !self.ended;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte per read.
    struct Dribble(Vec<u8>, usize);

    impl Read for Dribble {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let Some(&byte) = self.0.get(self.1) else { return Ok(0) };
            into[0] = byte;
            self.1 += 1;
            Ok(1)
        }
    }

    fn lines(text: &[u8]) -> Vec<(String, bool)> {
        let mut input = Input::new(Box::new(Dribble(text.to_vec(), 0)));
        let mut lines = Vec::new();
        while let Some(line) = input.line().unwrap() {
            lines.push((String::from_utf8(line.bytes.to_vec()).unwrap(), line.unended));
        }
        lines
    }

    #[test]
    fn lines_end_in_any_of_three_ways() {
        let expected = [("a", false), ("", false), ("bc", false), ("d", true)];
        let expected: Vec<_> = expected.iter().map(|&(text, cut)| (text.to_string(), cut)).collect();
        assert_eq!(lines(b"a\n\r\nbc\r\nd"), expected);
        assert_eq!(lines(b""), []);
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_refused() {
        let mut input = Input::new(Box::new(io::repeat(b'x')));
        assert!(matches!(input.line(), Err(ReadStop::LineTooLong)));
    }
}
