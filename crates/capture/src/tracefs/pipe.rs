//! The text of an instance of the kernel's tracer.

use std::fs::File;
use std::io::{self, Read};

use crate::error::Error;

/// Bytes from which on the rest is left for the next call: a busy device may add text as fast as it is read.
const MOST: usize = 16 << 20;

/// A trace, each event once; reads do not block.
pub(super) struct Pipe {
    file: File,
    /// What was read and not returned: the beginning of a line.
    text: Vec<u8>,
}

impl Pipe {
    pub(super) const fn new(file: File) -> Self {
        Self { file, text: Vec::new() }
    }

    /// Reads the available text, or a part of it. Returns the complete lines.
    pub(super) fn lines(&mut self) -> Result<Vec<u8>, Error> {
        let mut buffer = [0; 1 << 16];
        while self.text.len() < MOST {
            match self.file.read(&mut buffer) {
                Ok(0) => break,
                Ok(bytes) => self.text.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("reading the kernel's trace", error)),
            }
        }
        let whole = self.text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.text.split_off(whole);
        Ok(std::mem::replace(&mut self.text, rest))
    }
}
