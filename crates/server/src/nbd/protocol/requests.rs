//! Requests of the transmission phase, and the errors of those that are not accepted.

use super::{BadMagic, Bytes, REQUEST_BYTES, REQUEST_MAGIC, error};

/// The command of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// `NBD_CMD_READ`.
    Read,
    /// `NBD_CMD_WRITE`; its data follows.
    Write,
    /// `NBD_CMD_DISC`.
    Disconnect,
    /// `NBD_CMD_FLUSH`.
    Flush,
    /// `NBD_CMD_TRIM`.
    Trim,
    /// `NBD_CMD_WRITE_ZEROES`.
    WriteZeroes,
    /// `NBD_CMD_BLOCK_STATUS`.
    BlockStatus,
    /// A command that this server does not offer.
    Unknown,
}

/// A request of the transmission phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    pub command: Command,
    /// `NBD_CMD_FLAG_FUA`.
    pub fua: bool,
    /// `NBD_CMD_FLAG_NO_HOLE`.
    pub no_hole: bool,
    /// `NBD_CMD_FLAG_REQ_ONE`.
    pub one: bool,
    /// Flags are set that are unknown or that this command does not take.
    pub odd_flags: bool,
    /// The client's name for the request.
    pub cookie: u64,
    /// The first byte.
    pub offset: u64,
    /// The length in bytes.
    pub length: u32,
}

/// Parses a request's header.
///
/// # Errors
/// The magic number is wrong: the boundary between requests is lost, so the connection cannot continue.
pub fn request(header: &[u8; REQUEST_BYTES]) -> Result<Request, BadMagic> {
    let mut bytes = Bytes(header);
    if bytes.u32() != Some(REQUEST_MAGIC) {
        return Err(BadMagic);
    }
    let (flags, kind) = (bytes.u16().unwrap_or(0), bytes.u16().unwrap_or(0));
    let (command, allowed) = match kind {
        0 => (Command::Read, FUA),
        1 => (Command::Write, FUA),
        2 => (Command::Disconnect, u16::MAX),
        3 => (Command::Flush, FUA),
        4 => (Command::Trim, FUA),
        6 => (Command::WriteZeroes, FUA | NO_HOLE),
        7 => (Command::BlockStatus, FUA | ONE),
        _ => (Command::Unknown, u16::MAX),
    };
    Ok(Request {
        command,
        fua: flags & FUA != 0,
        no_hole: flags & NO_HOLE != 0,
        one: flags & ONE != 0,
        odd_flags: flags & !allowed != 0,
        cookie: bytes.u64().unwrap_or(0),
        offset: bytes.u64().unwrap_or(0),
        length: bytes.u32().unwrap_or(0),
    })
}

const FUA: u16 = 1;
const NO_HOLE: u16 = 1 << 1;
const ONE: u16 = 1 << 3;

/// Which requests an export accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Its size.
    pub bytes: u64,
    /// The unit of offsets and lengths.
    pub block_bytes: u32,
    /// Whether commands that change it are refused.
    pub read_only: bool,
    /// The longest data of one request, in bytes.
    pub longest: u32,
}

impl Request {
    /// The error number for a request that an export does not accept.
    pub fn problem(&self, limits: &Limits) -> Option<u32> {
        let block = u64::from(limits.block_bytes);
        let (offset, length) = (self.offset, u64::from(self.length));
        let writes = matches!(self.command, Command::Write | Command::WriteZeroes);
        match self.command {
            Command::Unknown => return Some(error::EINVAL),
            _ if self.odd_flags => return Some(error::EINVAL),
            Command::Flush if offset == 0 && length == 0 => return None,
            Command::Flush => return Some(error::EINVAL),
            Command::Disconnect => return None,
            _ if limits.read_only && (writes || self.command == Command::Trim) => return Some(error::EPERM),
            _ => {}
        }
        if offset.checked_add(length).is_none_or(|end| end > limits.bytes) {
            return Some(if writes { error::ENOSPC } else { error::EINVAL });
        }
        if length == 0 || !offset.is_multiple_of(block) || !length.is_multiple_of(block) {
            return Some(error::EINVAL);
        }
        match self.command {
            Command::Read if self.length > limits.longest => Some(error::EOVERFLOW),
            // The protocol does not permit `NBD_EOVERFLOW` for writes.
            Command::Write if self.length > limits.longest => Some(error::EINVAL),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::protocol::LONGEST_PAYLOAD;

    const SIZE: u64 = 1 << 20;

    fn header(flags: u16, kind: u16, offset: u64, length: u32) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&7u64.to_be_bytes());
        bytes[16..24].copy_from_slice(&offset.to_be_bytes());
        bytes[24..].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    #[test]
    fn each_request_that_an_export_does_not_accept_has_its_error() {
        const LIMITS: Limits =
            Limits { bytes: SIZE, block_bytes: 512, read_only: false, longest: LONGEST_PAYLOAD };
        let problem = |flags, kind, offset, length| {
            request(&header(flags, kind, offset, length)).unwrap().problem(&LIMITS)
        };
        let table = [
            ((0, 0, 0, 4096), None),
            ((0, 0, SIZE - 512, 512), None),
            ((0, 0, SIZE - 512, 1024), Some(error::EINVAL)),
            ((0, 1, SIZE - 512, 1024), Some(error::ENOSPC)),
            ((0, 0, u64::MAX - 511, 1024), Some(error::EINVAL)),
            ((0, 0, 1, 512), Some(error::EINVAL)),
            ((0, 0, 0, 511), Some(error::EINVAL)),
            ((0, 0, 0, 0), Some(error::EINVAL)),
            ((1, 0, 0, 512), None),
            // `NBD_CMD_FLAG_DF`: a reply in one chunk, which this server does not offer.
            ((4, 0, 0, 512), Some(error::EINVAL)),
            ((1, 1, 0, 512), None),
            ((2, 1, 0, 512), Some(error::EINVAL)),
            ((0, 3, 0, 0), None),
            ((0, 3, 512, 0), Some(error::EINVAL)),
            ((2, 6, 0, 512), None),
            ((16, 6, 0, 512), Some(error::EINVAL)),
            ((8, 7, 0, 512), None),
            ((0, 5, 0, 512), Some(error::EINVAL)),
            ((0, 99, 0, 512), Some(error::EINVAL)),
        ];
        for ((flags, kind, offset, length), expected) in table {
            assert_eq!(problem(flags, kind, offset, length), expected, "{kind} {flags:#x} {offset}+{length}");
        }
        let limits = Limits { bytes: 1 << 40, ..LIMITS };
        let large = |kind| request(&header(0, kind, 0, LONGEST_PAYLOAD + 512)).unwrap().problem(&limits);
        assert_eq!([large(0), large(1), large(6)], [Some(error::EOVERFLOW), Some(error::EINVAL), None]);
    }

    #[test]
    fn a_read_only_export_refuses_every_command_that_changes_it() {
        let limits = Limits { bytes: SIZE, block_bytes: 512, read_only: true, longest: LONGEST_PAYLOAD };
        let problem =
            |kind, offset, length| request(&header(0, kind, offset, length)).unwrap().problem(&limits);
        for kind in [1, 4, 6] {
            assert_eq!(problem(kind, 0, 512), Some(error::EPERM), "{kind}");
            assert_eq!(problem(kind, SIZE, 512), Some(error::EPERM), "{kind}");
        }
        assert_eq!([problem(0, 0, 512), problem(3, 0, 0), problem(7, 0, 512), problem(2, 0, 0)], [None; 4]);
    }

    #[test]
    fn a_wrong_magic_is_an_error() {
        let mut bytes = header(0, 0, 0, 512);
        bytes[0] ^= 1;
        assert_eq!(request(&bytes), Err(BadMagic));
    }
}
