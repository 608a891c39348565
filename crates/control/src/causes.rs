//! Causes of writes: what an observer of a served device reports to the server.

/// System calls that make data of files dirty, and that agents hold.
pub const WRITES: &[libc::c_long] = &[
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_copy_file_range,
    libc::SYS_fallocate,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
];

/// What a host observes of a live device and its page cache, and reports to a policy. Files have the numbers of their inodes; processes are thread groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CauseEvent {
    /// A folio of a file became dirty.
    Dirtied {
        /// The process; `None` for a kernel thread.
        process: Option<u32>,
        /// The file.
        file: u64,
        /// The offset, in bytes.
        offset: u64,
        /// Its size.
        bytes: u32,
        /// The thread, if no call of [`WRITES`] made it dirty: by a store to mapped memory, or through `io_uring`.
        stored_by: Option<u32>,
    },
    /// A folio left the page cache, dirty or not.
    Dropped {
        /// The file.
        file: u64,
        /// The offset, in bytes.
        offset: u64,
        /// Its size.
        bytes: u32,
    },
    /// Sectors were submitted to the device.
    Submitted {
        /// The first sector.
        start: u64,
        /// The number of sectors.
        sectors: u32,
        /// Whether it is a read.
        is_read: bool,
        /// Whether it is data, of a file or of the device: neither metadata nor a journal.
        is_data: bool,
        /// The processes that caused it; empty if unknown.
        processes: Vec<u32>,
        /// The file and the offset of its pages, if they were seen to become dirty.
        file: Option<(u64, u64)>,
    },
}
