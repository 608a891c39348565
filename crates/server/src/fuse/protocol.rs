//! The FUSE protocol, version 7.31 and similar ones, as far as one file needs it. Pure functions.

/// Length of a request's header.
pub(super) const IN_HEADER: usize = 40;
/// Length of a read's or write's arguments.
pub(super) const IO_ARGUMENTS: usize = 40;
/// Length of the part that is received apart: it has the arguments of reads and writes; a write's data follows.
pub(super) const PREFIX: usize = IN_HEADER + IO_ARGUMENTS;
/// Length of an answer's header.
pub(super) const OUT_HEADER: usize = 16;
/// The only inode: the root.
pub(super) const ROOT: u64 = 1;

/// Version spoken: 7.31, which every kernel since 5.4 speaks.
const MAJOR: u32 = 7;
const MINOR: u32 = 31;

/// Initialisation flags.
const ASYNC_READ: u32 = 1;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIO: u32 = 1 << 15;
const MAX_PAGES: u32 = 1 << 22;

/// `FUSE_INIT_EXT`: the request has 32 more flags. `FUSE_HAS_RESEND`, bit 39: Linux 6.9 and later.
const INIT_EXT: u32 = 1 << 30;
const HAS_RESEND: u32 = 1 << (39 - 32);

/// Flags of an open file: past the page cache, and writes side by side.
const FOPEN_DIRECT_IO: u32 = 1;
const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// Requests that the kernel keeps in flight; its default is 12.
const MAX_BACKGROUND: u16 = 256;

const PAGE: u32 = 4096;

/// A request's operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Init {
        minor: u32,
        flags: u32,
        /// Flags of bits 32 to 63.
        more_flags: u32,
    },
    GetAttr,
    SetAttr,
    Open,
    Read {
        offset: u64,
        bytes: u32,
    },
    Write {
        offset: u64,
        bytes: u32,
    },
    Fsync,
    Fallocate {
        offset: u64,
        bytes: u64,
        mode: u32,
    },
    StatFs,
    Release,
    Destroy,
    /// No reply: forgotten inodes, interrupts (requests wait for the disk only, so they are not interrupted).
    Silent,
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) unique: u64,
    pub(super) operation: Operation,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at + if cfg!(target_endian = "little") { 0 } else { 4 }))
        | u64::from(u32_at(bytes, at + if cfg!(target_endian = "little") { 4 } else { 0 })) << 32
}

/// Parses a request's first [`PREFIX`] bytes, or fewer if it is shorter.
pub(super) fn request(bytes: &[u8]) -> Option<Request> {
    if bytes.len() < IN_HEADER {
        return None;
    }
    let (opcode, unique) = (u32_at(bytes, 4), u64_at(bytes, 8));
    let arguments = &bytes[IN_HEADER..];
    let io = || (u64_at(arguments, 8), u32_at(arguments, 16));
    let operation = match opcode {
        26 => Operation::Init {
            minor: u32_at(arguments, 4),
            flags: u32_at(arguments, 12),
            more_flags: u32_at(arguments, 16),
        },
        3 => Operation::GetAttr,
        4 => Operation::SetAttr,
        14 => Operation::Open,
        15 => Operation::Read { offset: io().0, bytes: io().1 },
        16 => Operation::Write { offset: io().0, bytes: io().1 },
        17 => Operation::StatFs,
        18 | 25 => Operation::Release,
        20 => Operation::Fsync,
        38 => Operation::Destroy,
        43 => Operation::Fallocate {
            offset: u64_at(arguments, 8),
            bytes: u64_at(arguments, 16),
            mode: u32_at(arguments, 24),
        },
        2 | 36 | 42 => Operation::Silent,
        _ => Operation::Unknown,
    };
    Some(Request { unique, operation })
}

/// The header of an answer with `bytes` behind it, or of an error.
pub(super) fn out_header(unique: u64, bytes: usize, errno: i32) -> [u8; OUT_HEADER] {
    let mut header = [0; OUT_HEADER];
    header[..4].copy_from_slice(&((OUT_HEADER + bytes) as u32).to_ne_bytes());
    header[4..8].copy_from_slice(&(-errno).to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// Whether the kernel can send requests again that a former process had received and not answered.
pub(super) const fn can_resend(flags: u32, more_flags: u32) -> bool {
    flags & INIT_EXT != 0 && more_flags & HAS_RESEND != 0
}

/// `FUSE_NOTIFY_RESEND`: makes the kernel send again every request that has been received and not answered.
pub(super) fn resend() -> [u8; OUT_HEADER] {
    const FUSE_NOTIFY_RESEND: i32 = 7;
    out_header(0, 0, -FUSE_NOTIFY_RESEND)
}

/// Concatenated fields.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
}

/// The answer to `FUSE_INIT`, for requests of at most `max_write` bytes.
pub(super) fn init(minor: u32, flags: u32, max_write: u32) -> Vec<u8> {
    let mut fields = Fields::default();
    let flags = flags & (ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES);
    fields.u32(MAJOR).u32(MINOR.min(minor)).u32(0).u32(flags);
    fields.u16(MAX_BACKGROUND).u16(MAX_BACKGROUND);
    fields.u32(max_write).u32(1).u16((max_write / PAGE) as u16).u16(0);
    fields.0.resize(64, 0);
    fields.0
}

/// How long the kernel may cache attributes: they never change.
const FOR_EVER: u64 = 1 << 30;

/// The answer to `FUSE_GETATTR` and `FUSE_SETATTR`: a regular file of `bytes`, its owner's alone.
pub(super) fn attributes(bytes: u64, (user, group): (u32, u32)) -> Vec<u8> {
    let mut fields = Fields::default();
    fields.u64(FOR_EVER).u32(0).u32(0);
    fields.u64(ROOT).u64(bytes).u64(bytes / 512).u64(0).u64(0).u64(0).u32(0).u32(0).u32(0);
    fields.u32(MODE).u32(1).u32(user).u32(group).u32(0).u32(PAGE).u32(0);
    fields.0
}

/// A regular file, readable and writable by its owner.
pub(super) const MODE: u32 = 0o100_600;

/// The answer to `FUSE_OPEN`.
pub(super) fn open() -> Vec<u8> {
    let mut fields = Fields::default();
    fields.u64(0).u32(FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES).u32(0);
    fields.0
}

/// The answer to `FUSE_WRITE`.
pub(super) fn written(bytes: u32) -> [u8; 8] {
    let mut answer = [0; 8];
    answer[..4].copy_from_slice(&bytes.to_ne_bytes());
    answer
}

/// The answer to `FUSE_STATFS`. The block size becomes the granularity of the loop device's discards.
pub(super) fn statfs(bytes: u64) -> Vec<u8> {
    let mut fields = Fields::default();
    fields.u64(bytes / u64::from(PAGE)).u64(0).u64(0).u64(1).u64(0).u32(PAGE).u32(0).u32(PAGE).u32(0);
    fields.0.resize(80, 0);
    fields.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(opcode: u32, arguments: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; IN_HEADER];
        bytes[4..8].copy_from_slice(&opcode.to_ne_bytes());
        bytes[8..16].copy_from_slice(&77u64.to_ne_bytes());
        bytes.extend_from_slice(arguments);
        bytes
    }

    #[test]
    fn a_read_has_offset_and_length() {
        let mut arguments = [0; IO_ARGUMENTS];
        arguments[8..16].copy_from_slice(&(5u64 << 40).to_ne_bytes());
        arguments[16..20].copy_from_slice(&4096u32.to_ne_bytes());
        let request = request(&bytes(15, &arguments)).unwrap();
        assert_eq!(request.unique, 77);
        assert_eq!(request.operation, Operation::Read { offset: 5 << 40, bytes: 4096 });
    }

    #[test]
    fn answers_have_the_lengths_that_the_kernel_expects() {
        assert_eq!(init(40, u32::MAX, 1 << 20).len(), 64);
        assert_eq!(attributes(1 << 30, (0, 0)).len(), 104);
        assert_eq!(open().len(), 16);
        assert_eq!(statfs(1 << 30).len(), 80);
        assert_eq!(out_header(1, 8, 0)[..4], 24u32.to_ne_bytes());
        assert_eq!(out_header(1, 0, 5)[4..8], (-5i32).to_ne_bytes());
    }

    #[test]
    fn a_kernel_that_can_resend_has_both_flags_and_the_notification_is_a_positive_code() {
        assert!(can_resend(1 << 30, 1 << 7));
        assert!(!can_resend(0, 1 << 7) && !can_resend(1 << 30, !(1 << 7)));
        assert_eq!(resend()[4..8], 7i32.to_ne_bytes());
    }

    #[test]
    fn short_and_unknown_requests_do_not_panic() {
        assert_eq!(request(&[0; 39]), None);
        for opcode in 0..64 {
            assert!(request(&bytes(opcode, &[])).is_some());
        }
    }
}
