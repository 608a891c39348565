//! Headers of replies, simple and structured.

use super::{BASE_ALLOCATION_ID, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC};

/// Kinds of chunks of a structured reply.
pub mod chunk {
    /// The end of a reply.
    pub const NONE: u16 = 0;
    /// Data at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Extents of a meta context.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error.
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// Flag of a structured reply's last chunk.
pub const DONE: u16 = 1;

/// The longest header of a reply: that of a chunk with an offset.
pub const LONGEST_HEADER: usize = 28;

/// A header being written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    bytes: [u8; LONGEST_HEADER],
    length: u8,
}

impl Header {
    /// No header.
    pub const NONE: Self = Self { bytes: [0; LONGEST_HEADER], length: 0 };

    /// The bytes to send.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = usize::from(self.length);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len() as u8;
    }

    /// A simple reply. The data of a successful read follows it.
    pub fn simple(cookie: u64, error: u32) -> Self {
        let mut header = Self::NONE;
        header.put(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        header.put(&error.to_be_bytes());
        header.put(&cookie.to_be_bytes());
        header
    }

    fn chunk(cookie: u64, flags: u16, kind: u16, length: u32) -> Self {
        let mut header = Self::NONE;
        header.put(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        header.put(&flags.to_be_bytes());
        header.put(&kind.to_be_bytes());
        header.put(&cookie.to_be_bytes());
        header.put(&length.to_be_bytes());
        header
    }

    /// A chunk of data from `offset` on, of which `length` bytes follow.
    pub fn data(cookie: u64, last: bool, offset: u64, length: u32) -> Self {
        let flags = if last { DONE } else { 0 };
        let mut header = Self::chunk(cookie, flags, chunk::OFFSET_DATA, length + 8);
        header.put(&offset.to_be_bytes());
        header
    }

    /// The last chunk of a reply, without data.
    pub fn end(cookie: u64) -> Self {
        Self::chunk(cookie, DONE, chunk::NONE, 0)
    }

    /// The last chunk of a failed reply, without a message.
    pub fn failed(cookie: u64, error: u32) -> Self {
        let mut header = Self::chunk(cookie, DONE, chunk::ERROR, 6);
        header.put(&error.to_be_bytes());
        header.put(&0u16.to_be_bytes());
        header
    }

    /// The last chunk of a block status. `descriptors` extents follow.
    pub fn block_status(cookie: u64, descriptors: u32) -> Self {
        let mut header =
            Self::chunk(cookie, DONE, chunk::BLOCK_STATUS, 4 + DESCRIPTOR_BYTES as u32 * descriptors);
        header.put(&BASE_ALLOCATION_ID.to_be_bytes());
        header
    }
}

/// Length of an extent's descriptor.
pub const DESCRIPTOR_BYTES: usize = 8;

/// One extent of `base:allocation`.
pub fn descriptor(bytes: u32, data: bool) -> [u8; DESCRIPTOR_BYTES] {
    // `NBD_STATE_HOLE | NBD_STATE_ZERO`.
    let flags: u32 = if data { 0 } else { 3 };
    let mut descriptor = [0; DESCRIPTOR_BYTES];
    descriptor[..4].copy_from_slice(&bytes.to_be_bytes());
    descriptor[4..].copy_from_slice(&flags.to_be_bytes());
    descriptor
}

#[cfg(test)]
mod tests {
    use super::super::error;
    use super::*;

    const COOKIE: u64 = 0x0102_0304_0506_0708;

    /// The bytes of the protocol's document: numbers of 2, 4 and 8 bytes, the most significant byte first.
    fn bytes(numbers: &[(usize, u64)]) -> Vec<u8> {
        numbers.iter().flat_map(|(length, number)| number.to_be_bytes()[8 - length..].to_vec()).collect()
    }

    #[test]
    fn replies_have_the_bytes_of_the_protocol() {
        let simple = bytes(&[(4, 0x6744_6698), (4, 28), (8, COOKIE)]);
        assert_eq!(Header::simple(COOKIE, error::ENOSPC).as_slice(), simple);
        let chunk =
            |flags, kind, length| bytes(&[(4, 0x668e_33ef), (2, flags), (2, kind), (8, COOKIE), (4, length)]);
        for (last, flags) in [(true, 1), (false, 0)] {
            let data = [chunk(flags, 1, 512 + 8), bytes(&[(8, 4096)])].concat();
            assert_eq!(Header::data(COOKIE, last, 4096, 512).as_slice(), data);
        }
        assert_eq!(Header::end(COOKIE).as_slice(), chunk(1, 0, 0));
        let failed = [chunk(1, 0x8001, 6), bytes(&[(4, 5), (2, 0)])].concat();
        assert_eq!(Header::failed(COOKIE, error::EIO).as_slice(), failed);
        let status = [chunk(1, 5, 4 + 3 * 8), bytes(&[(4, 1)])].concat();
        assert_eq!(Header::block_status(COOKIE, 3).as_slice(), status);
        assert_eq!(Header::NONE.as_slice(), b"");
        assert_eq!(Header::data(COOKIE, true, 0, 0).as_slice().len(), LONGEST_HEADER);
    }

    #[test]
    fn an_extent_without_data_is_a_hole_of_zeroes() {
        assert_eq!(descriptor(0x0102_0304, true), [1, 2, 3, 4, 0, 0, 0, 0]);
        assert_eq!(descriptor(512, false), [0, 0, 2, 0, 0, 0, 0, 3]);
    }
}
