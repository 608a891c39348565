//! The regular files of a tar archive as one stream. (Tencent publishes hourly archives.)
//!
//! Supported are block headers with octal or base-256 sizes; links, directories and extended headers are skipped. A text file without
//! a final newline gets one, so that lines of two files do not join; binary files, which contain zero bytes, are concatenated as
//! they are.
//!
//! Source: POSIX.1-1988 ustar, and GNU tar's manual on its extensions.

use std::io::{self, Read};

const BLOCK_BYTES: usize = 512;

/// A reader of the archive's regular files.
pub(crate) struct TarMembers {
    source: Box<dyn Read + Send>,
    /// Unread bytes of the present file.
    left: u64,
    /// Padding of its last block.
    padding: u64,
    last_byte: u8,
    /// A zero byte has occurred.
    binary: bool,
    over: bool,
}

impl TarMembers {
    pub(crate) fn new(source: Box<dyn Read + Send>) -> Self {
        Self { source, left: 0, padding: 0, last_byte: b'\n', binary: false, over: false }
    }

    /// Goes to the next regular file.
    fn next_member(&mut self) -> io::Result<()> {
        self.pass(self.padding)?;
        let mut header = [0; BLOCK_BYTES];
        loop {
            if !self.read_header(&mut header)? || header.iter().all(|&byte| byte == 0) {
                self.over = true;
                return Ok(());
            }
            let size = size(&header)?;
            let padding = size.wrapping_neg() % BLOCK_BYTES as u64;
            if matches!(header[156], b'0' | 0) {
                (self.left, self.padding) = (size, padding);
                return Ok(());
            }
            self.pass(size)?;
            self.pass(padding)?;
        }
    }

    fn read_header(&mut self, header: &mut [u8; BLOCK_BYTES]) -> io::Result<bool> {
        let mut have = 0;
        while have < BLOCK_BYTES {
            match self.source.read(&mut header[have..])? {
                0 if have == 0 => return Ok(false),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => have += read,
            }
        }
        Ok(true)
    }

    fn pass(&mut self, bytes: u64) -> io::Result<()> {
        let passed = io::copy(&mut (&mut self.source).take(bytes), &mut io::sink())?;
        if passed == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

fn size(header: &[u8; BLOCK_BYTES]) -> io::Result<u64> {
    let field = &header[124..136];
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a tar header's size is not a number");
    if field[0] & 0x80 != 0 {
        let low = field.last_chunk().copied().map(u64::from_be_bytes);
        return low.filter(|&size| size < 1 << 60).ok_or_else(damaged);
    }
    let digits = field.iter().skip_while(|&&byte| byte == b' ').take_while(|byte| byte.is_ascii_digit());
    let size = digits.fold(0_u64, |size, digit| size << 3 | u64::from(digit & 7));
    if field.iter().any(u8::is_ascii_digit) { Ok(size) } else { Err(damaged()) }
}

impl Read for TarMembers {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 && !self.over {
            if self.last_byte != b'\n' && !self.binary && !into.is_empty() {
                (into[0], self.last_byte) = (b'\n', b'\n');
                return Ok(1);
            }
            self.next_member()?;
        }
        if self.over || into.is_empty() {
            return Ok(0);
        }
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let read = self.source.read(&mut into[..want])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        self.last_byte = into[read - 1];
        self.binary |= memchr::memchr(0, &into[..read]).is_some();
        Ok(read)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An archive with these members: name, type, content.
    pub(crate) fn archive(members: &[(&str, u8, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, kind, content) in members {
            let mut header = [0; BLOCK_BYTES];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..136].copy_from_slice(format!("{:011o} ", content.len()).as_bytes());
            header[156] = *kind;
            header[257..262].copy_from_slice(b"ustar");
            bytes.extend(header);
            bytes.extend(*content);
            bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        }
        bytes.resize(bytes.len() + 2 * BLOCK_BYTES, 0);
        bytes
    }

    fn read(bytes: Vec<u8>) -> io::Result<String> {
        let mut text = String::new();
        TarMembers::new(Box::new(io::Cursor::new(bytes))).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn regular_files_come_out_as_lines() {
        let bytes =
            archive(&[("d/", b'5', b""), ("x", b'x', b"pax"), ("a", b'0', b"1\n2"), ("b", 0, b"3\n")]);
        assert_eq!(read(bytes).unwrap(), "1\n2\n3\n");
    }

    #[test]
    fn nothing_is_put_between_files_of_binary_records() {
        let bytes = archive(&[("a", b'0', b"\0\x01"), ("b", b'0', b"\x02\x03")]);
        assert_eq!(read(bytes).unwrap(), "\0\x01\x02\x03");
    }

    #[test]
    fn a_cut_archive_ends_early() {
        let bytes = archive(&[("a", b'0', b"1\n2\n")]);
        assert_eq!(read(bytes[..514].to_vec()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(read(vec![1; 512]).is_err());
    }
}
