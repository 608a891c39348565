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
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = usize::from(self.length);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len() as u8;
    }

    /// A simple reply. The data of a successful read follows it.
    #[must_use]
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
    #[must_use]
    pub fn data(cookie: u64, last: bool, offset: u64, length: u32) -> Self {
        let flags = if last { DONE } else { 0 };
        let mut header = Self::chunk(cookie, flags, chunk::OFFSET_DATA, length + 8);
        header.put(&offset.to_be_bytes());
        header
    }

    /// The last chunk of a reply, without data.
    #[must_use]
    pub fn end(cookie: u64) -> Self {
        Self::chunk(cookie, DONE, chunk::NONE, 0)
    }

    /// The last chunk of a failed reply, without a message.
    #[must_use]
    pub fn failed(cookie: u64, error: u32) -> Self {
        let mut header = Self::chunk(cookie, DONE, chunk::ERROR, 6);
        header.put(&error.to_be_bytes());
        header.put(&0u16.to_be_bytes());
        header
    }

    /// The last chunk of a block status. `descriptors` extents follow.
    #[must_use]
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
#[must_use]
pub fn descriptor(bytes: u32, data: bool) -> [u8; DESCRIPTOR_BYTES] {
    // `NBD_STATE_HOLE | NBD_STATE_ZERO`.
    let flags: u32 = if data { 0 } else { 3 };
    let mut descriptor = [0; DESCRIPTOR_BYTES];
    descriptor[..4].copy_from_slice(&bytes.to_be_bytes());
    descriptor[4..].copy_from_slice(&flags.to_be_bytes());
    descriptor
}
