//! The bytes of NBD: parsing what clients send and writing what servers answer. Pure functions, which never panic and
//! never allocate more than their input is long.

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
    /// Not supported.
    pub const ENOTSUP: u32 = 95;
    /// The server is going away.
    pub const ESHUTDOWN: u32 = 108;
}

/// Types of answers to options.
pub mod reply {
    /// Granted.
    pub const ACK: u32 = 1;
    /// One export.
    pub const SERVER: u32 = 2;
    /// One piece of information.
    pub const INFO: u32 = 3;
    /// One meta context.
    pub const META_CONTEXT: u32 = 4;
    /// Not known here.
    pub const ERR_UNSUP: u32 = 1 << 31 | 1;
    /// Forbidden here.
    pub const ERR_POLICY: u32 = 1 << 31 | 2;
    /// Malformed.
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    /// Only after TLS was started.
    pub const ERR_TLS_REQD: u32 = 1 << 31 | 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    /// Too long.
    pub const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

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

/// The header of an option: which one, and how many bytes follow.
///
/// # Errors
/// Its magic is wrong: whoever sends it speaks something else.
pub fn option_header(bytes: &[u8; 16]) -> Result<(u32, u32), BadMagic> {
    let mut bytes = Bytes(bytes);
    match (bytes.u64(), bytes.u32(), bytes.u32()) {
        (Some(OPTION_MAGIC), Some(option), Some(length)) => Ok((option, length)),
        _ => Err(BadMagic),
    }
}

/// What should begin with a magic number does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMagic;

/// An option that a client sends in negotiation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Negotiate<'a> {
    /// Choose an export and begin, the old way.
    ExportName(&'a str),
    /// Go away.
    Abort,
    /// List the exports.
    List,
    /// Encrypt from here on.
    StartTls,
    /// Tell about an export.
    Info(&'a str),
    /// Tell about an export and begin.
    Go(&'a str),
    /// Structured replies, please.
    StructuredReply,
    /// List the meta contexts of an export that match.
    ListMetaContext(Contexts<'a>),
    /// Use those that match.
    SetMetaContext(Contexts<'a>),
    /// Something newer than this server.
    Unknown,
}

/// A query for meta contexts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contexts<'a> {
    /// Of which export.
    pub export: &'a str,
    /// Whether there was no query at all, which lists everything.
    pub none_asked: bool,
    /// Whether any of the queries means the one context there is.
    pub base_allocation: bool,
}

/// Parses an option; `None` if its data does not fit it.
#[must_use]
pub fn option(number: u32, data: &[u8]) -> Option<Negotiate<'_>> {
    Some(match number {
        1 => Negotiate::ExportName(std::str::from_utf8(data).ok()?),
        2 => Negotiate::Abort,
        3 if data.is_empty() => Negotiate::List,
        5 if data.is_empty() => Negotiate::StartTls,
        6 => Negotiate::Info(info(data)?),
        7 => Negotiate::Go(info(data)?),
        8 if data.is_empty() => Negotiate::StructuredReply,
        9 => Negotiate::ListMetaContext(contexts(data, true)?),
        10 => Negotiate::SetMetaContext(contexts(data, false)?),
        3 | 5 | 8 => return None,
        _ => Negotiate::Unknown,
    })
}

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`. What kinds of information are asked for makes no difference: all are
/// sent, as servers may.
fn info(data: &[u8]) -> Option<&str> {
    let mut bytes = Bytes(data);
    let name = bytes.text()?;
    let asked = bytes.u16()?;
    bytes.take(usize::from(asked) * 2)?;
    bytes.0.is_empty().then_some(name)
}

fn contexts(data: &[u8], listing: bool) -> Option<Contexts<'_>> {
    let mut bytes = Bytes(data);
    let export = bytes.text()?;
    let queries = bytes.u32()?;
    let mut base_allocation = false;
    for _ in 0..queries {
        let query = bytes.text()?;
        base_allocation |= query == BASE_ALLOCATION || (listing && query == "base:");
    }
    bytes.0.is_empty().then_some(Contexts { export, none_asked: queries == 0, base_allocation })
}

/// The header of an answer to an option.
#[must_use]
pub fn option_reply(option: u32, kind: u32, length: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    bytes[8..12].copy_from_slice(&option.to_be_bytes());
    bytes[12..16].copy_from_slice(&kind.to_be_bytes());
    bytes[16..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// What a request asks for.
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
    /// Something newer than this server.
    Unknown,
}

/// A request of the transmission phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What.
    pub command: Command,
    /// `NBD_CMD_FLAG_FUA`.
    pub fua: bool,
    /// `NBD_CMD_FLAG_NO_HOLE`.
    pub no_hole: bool,
    /// `NBD_CMD_FLAG_REQ_ONE`.
    pub one: bool,
    /// Flags that are not known, or that this command does not take.
    pub odd_flags: bool,
    /// The client's name for it.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

/// Parses a request's header.
///
/// # Errors
/// Its magic is wrong: from here on nothing can be understood.
pub fn request(header: &[u8; REQUEST_BYTES]) -> Result<Request, BadMagic> {
    let mut bytes = Bytes(header);
    if bytes.u32() != Some(REQUEST_MAGIC) {
        return Err(BadMagic);
    }
    let (flags, kind) = (bytes.u16().unwrap_or(0), bytes.u16().unwrap_or(0));
    let (command, allowed) = match kind {
        0 => (Command::Read, FUA | DF),
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
const DF: u16 = 1 << 2;
const ONE: u16 = 1 << 3;

impl Request {
    /// What is wrong with it, for an export of `size` bytes in blocks of `block` bytes; as the error number to answer.
    #[must_use]
    pub fn problem(&self, size: u64, block: u32) -> Option<u32> {
        let block = u64::from(block);
        let (offset, length) = (self.offset, u64::from(self.length));
        let writes = matches!(self.command, Command::Write | Command::WriteZeroes);
        match self.command {
            Command::Unknown => return Some(error::EINVAL),
            _ if self.odd_flags => return Some(error::EINVAL),
            Command::Flush if offset == 0 && length == 0 => return None,
            Command::Flush => return Some(error::EINVAL),
            Command::Disconnect => return None,
            _ => {}
        }
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Some(if writes { error::ENOSPC } else { error::EINVAL });
        }
        if length == 0 || !offset.is_multiple_of(block) || !length.is_multiple_of(block) {
            return Some(error::EINVAL);
        }
        let carries_data = matches!(self.command, Command::Read | Command::Write);
        (carries_data && self.length > LONGEST_PAYLOAD).then_some(error::EOVERFLOW)
    }
}

/// Kinds of chunks of a structured reply.
pub mod chunk {
    /// Nothing more.
    pub const NONE: u16 = 0;
    /// Data at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Extents of a meta context.
    pub const BLOCK_STATUS: u16 = 5;
    /// It failed.
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// Flag of a structured reply's last chunk.
pub const DONE: u16 = 1;

/// The longest header of a reply: a chunk's and the offset behind it.
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

    /// What is to be sent.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = usize::from(self.length);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len() as u8;
    }

    /// A simple reply; its data follows a read that succeeded.
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

    /// A chunk of `length` bytes of data from `offset` on, which follow.
    #[must_use]
    pub fn data(cookie: u64, last: bool, offset: u64, length: u32) -> Self {
        let flags = if last { DONE } else { 0 };
        let mut header = Self::chunk(cookie, flags, chunk::OFFSET_DATA, length + 8);
        header.put(&offset.to_be_bytes());
        header
    }

    /// The last chunk of a reply without data, or behind it.
    #[must_use]
    pub fn end(cookie: u64) -> Self {
        Self::chunk(cookie, DONE, chunk::NONE, 0)
    }

    /// The last chunk of a reply that failed, without words.
    #[must_use]
    pub fn failed(cookie: u64, error: u32) -> Self {
        let mut header = Self::chunk(cookie, DONE, chunk::ERROR, 6);
        header.put(&error.to_be_bytes());
        header.put(&0u16.to_be_bytes());
        header
    }

    /// The last chunk, with `descriptors` extents of the one meta context, which follow.
    #[must_use]
    pub fn block_status(cookie: u64, descriptors: u32) -> Self {
        let mut header = Self::chunk(cookie, DONE, chunk::BLOCK_STATUS, 4 + 8 * descriptors);
        header.put(&BASE_ALLOCATION_ID.to_be_bytes());
        header
    }
}

/// One extent of `base:allocation`.
#[must_use]
pub fn descriptor(bytes: u32, data: bool) -> [u8; 8] {
    // A hole that reads as zeroes, or neither.
    let flags: u32 = if data { 0 } else { 3 };
    let mut descriptor = [0; 8];
    descriptor[..4].copy_from_slice(&bytes.to_be_bytes());
    descriptor[4..].copy_from_slice(&flags.to_be_bytes());
    descriptor
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn requests_are_judged_by_what_they_ask() {
        const SIZE: u64 = 1 << 20;
        let problem = |flags, kind, offset, length| {
            request(&header(flags, kind, offset, length)).unwrap().problem(SIZE, 512)
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
        let large = request(&header(0, 0, 0, LONGEST_PAYLOAD + 512)).unwrap();
        assert_eq!(large.problem(1 << 40, 512), Some(error::EOVERFLOW));
    }

    #[test]
    fn a_wrong_magic_is_noticed() {
        let mut bytes = header(0, 0, 0, 512);
        bytes[0] ^= 1;
        assert_eq!(request(&bytes), Err(BadMagic));
        assert_eq!(option_header(&[0; 16]), Err(BadMagic));
    }

    fn meta_query(export: &str, queries: &[&str]) -> Vec<u8> {
        let mut data = Vec::new();
        let text = |data: &mut Vec<u8>, text: &str| {
            data.extend((text.len() as u32).to_be_bytes());
            data.extend(text.as_bytes());
        };
        text(&mut data, export);
        data.extend((queries.len() as u32).to_be_bytes());
        queries.iter().for_each(|query| text(&mut data, query));
        data
    }

    #[test]
    fn options_are_read_whole_or_not_at_all() {
        let go = [&4u32.to_be_bytes()[..], b"disk", &1u16.to_be_bytes(), &3u16.to_be_bytes()].concat();
        assert_eq!(option(7, &go), Some(Negotiate::Go("disk")));
        for cut in 0..go.len() {
            assert_eq!(option(7, &go[..cut]), None, "cut at {cut}");
        }
        assert_eq!(option(7, &[&go[..], b"x"].concat()), None, "something behind it");
        let query = meta_query("", &["qemu:dirty", "base:allocation"]);
        let contexts = Contexts { export: "", none_asked: false, base_allocation: true };
        assert_eq!(option(10, &query), Some(Negotiate::SetMetaContext(contexts)));
        let absurd = [&0u32.to_be_bytes()[..], &u32::MAX.to_be_bytes()].concat();
        assert_eq!(option(10, &absurd), None, "four thousand million queries, none of which is there");
        assert_eq!(option(8, b"x"), None);
        assert_eq!(option(1234, b"x"), Some(Negotiate::Unknown));
    }

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
            let _ = request(&bytes).map(|request| request.problem(random(), 512));
        }
    }
}
