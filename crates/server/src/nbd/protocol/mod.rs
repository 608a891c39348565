//! The bytes of NBD: pure functions that parse requests and write replies. They do not panic, and allocate at most the length of their
//! input.
//!
//! | file | content |
//! |---|---|
//! | `options` | negotiation, in both directions |
//! | `requests` | transmission phase, from the client |
//! | `replies` | transmission phase, from the server |

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
/// Begins the reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// The longest option that the server reads. The protocol limits export names and meta contexts to 4096 bytes each.
pub const LONGEST_OPTION: u32 = 32 << 10;
/// The longest read or write, which the protocol recommends to clients that have not negotiated another one.
pub const LONGEST_PAYLOAD: u32 = 32 << 20;
/// Length of a request's header.
pub const REQUEST_BYTES: usize = 28;
/// The only meta context of this server.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The number of [`BASE_ALLOCATION`] in replies.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Handshake flags of both sides: fixed newstyle, and no 124 zeroes after the reply to `NBD_OPT_EXPORT_NAME`.
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
    /// Writes, trims and write-zeroes fail.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `NBD_CMD_FLUSH` is supported.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// `NBD_CMD_FLAG_FUA` is supported.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The disk rotates.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// `NBD_CMD_TRIM` is supported.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `NBD_CMD_WRITE_ZEROES` is supported.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// A flush covers completed writes of all connections.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Error numbers of replies.
pub mod error {
    /// Not permitted.
    pub const EPERM: u32 = 1;
    /// I/O error.
    pub const EIO: u32 = 5;
    /// Out of memory.
    pub const ENOMEM: u32 = 12;
    /// Invalid request.
    pub const EINVAL: u32 = 22;
    /// No space left.
    pub const ENOSPC: u32 = 28;
    /// The reply would be too long.
    pub const EOVERFLOW: u32 = 75;
}

/// The magic number is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMagic;

/// Reads numbers from bytes.
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
                request.problem(&Limits {
                    bytes: random(),
                    block_bytes: 512,
                    read_only: random() % 2 == 0,
                    longest: 1 << 20,
                })
            });
        }
    }
}
