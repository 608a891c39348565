//! The bytes of NBD: parsing what clients send and writing what servers answer. Pure functions, which never panic and
//! never allocate more than their input is long.
//!
//! | file | of which phase |
//! |---|---|
//! | `options` | negotiation, both directions |
//! | `requests` | transmission, from the client |
//! | `replies` | transmission, from the server |

mod options;
mod replies;
mod requests;

pub use options::{
    Contexts, EXPORT_NAME, Negotiate, SET_META_CONTEXT, option, option_header, option_reply, reply,
};
pub use replies::{DESCRIPTOR_BYTES, DONE, Header, LONGEST_HEADER, chunk, descriptor};
pub use requests::{Command, Limits, Request, request};

/// `NBDMAGIC`.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins the answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// The longest option that is read; export names and meta contexts are at most 4096 bytes each.
pub const LONGEST_OPTION: u32 = 32 << 10;
/// The longest read or write, as servers may expect of clients that have not asked.
pub const LONGEST_PAYLOAD: u32 = 32 << 20;
/// Length of a request's header.
pub const REQUEST_BYTES: usize = 28;
/// The only meta context there is here.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The number that it is known by in replies.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Handshake flags, of both sides: fixed newstyle, and no 124 zeroes behind `NBD_OPT_EXPORT_NAME`.
pub mod handshake {
    /// `NBD_FLAG_FIXED_NEWSTYLE`.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// `NBD_FLAG_NO_ZEROES`.
    pub const NO_ZEROES: u16 = 2;
}

/// Transmission flags.
pub mod transmission {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1;
    /// Whatever would change it fails.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Flushes are understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// Forced unit access is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// Something turns.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// Trims are understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// Write-zeroes is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// A flush covers what completed on every connection.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Error numbers of replies.
pub mod error {
    /// Not permitted.
    pub const EPERM: u32 = 1;
    /// The disk failed.
    pub const EIO: u32 = 5;
    /// No memory.
    pub const ENOMEM: u32 = 12;
    /// The request makes no sense.
    pub const EINVAL: u32 = 22;
    /// No room.
    pub const ENOSPC: u32 = 28;
    /// Longer than can be answered.
    pub const EOVERFLOW: u32 = 75;
}

/// What should begin with a magic number does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMagic;

/// A reader of bytes that may run out.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()? as usize;
        std::str::from_utf8(self.take(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any bytes at all are answered, and a round trip of what is well-formed loses nothing.
    #[test]
    fn no_bytes_make_the_parser_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..200_000 {
            let data: Vec<u8> = (0..random() % 64).map(|_| (random() >> 32) as u8 & 0x0f).collect();
            let _ = option((random() % 12) as u32, &data);
            let mut bytes = [0; REQUEST_BYTES];
            bytes.iter_mut().for_each(|byte| *byte = random() as u8);
            bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
            let _ = request(&bytes).map(|request| {
                request.problem(&Limits { bytes: random(), block_bytes: 512, read_only: random() % 2 == 0 })
            });
        }
    }
}
