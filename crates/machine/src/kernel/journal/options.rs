//! How a journal works.

use elevator::Span;
use serde::Deserialize;

/// A journal's choices. The defaults are ext3's of 2.6.9.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// Whose rules it keeps.
    pub style: Style,
    /// What becomes of file data.
    pub data: Data,
    /// A transaction commits when it is so old: 5000 in ext3 and ext4 (`commit=5`), 30000 in XFS. In milliseconds; at
    /// least 1.
    pub commit_interval_ms: u32,
    /// Whether the device's cache is flushed before the commit record, which itself goes past the cache. Off in ext3
    /// until 3.1 (and in everything that 2.6.9 could do on an IDE disk); on in ext4 and XFS.
    pub barrier: bool,
    /// Whether the log is written only when the ordered data has been (jbd), or beside it, and both before the commit
    /// record (jbd2).
    pub log_after_data: bool,
    /// Bytes that each block takes in a descriptor: 8 in jbd, 16 in jbd2 with 64-bit blocks. 1 to 1024.
    pub tag_bytes: u32,
    /// XFS-like: bytes that a changed block takes in the log, as only what changed in it is logged: an inode with its
    /// header, or a few chunks of 128 bytes of a buffer. 1 to 4096.
    pub item_bytes: u32,
}

/// Whose rules a journal keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// jbd and jbd2: whole blocks; a handle belongs to a transaction from its start, and a commit waits for every handle.
    Jbd,
    /// XFS's delayed logging, reduced: parts of blocks, however often they were changed; a handle joins when it ends, so
    /// nobody waits for anybody; no data is dragged along; records end in the one that makes them whole, and each says
    /// where a replay begins.
    XfsLike,
}

/// What becomes of file data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Written to its home before the transaction commits that made it part of a file.
    Ordered,
    /// Written whenever writeback comes to it.
    Writeback,
    /// Logged like metadata: the caller hands data blocks to `access` as well.
    Journal,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            style: Style::Jbd,
            data: Data::Ordered,
            commit_interval_ms: 5000,
            barrier: false,
            log_after_data: true,
            tag_bytes: 8,
            item_bytes: 256,
        }
    }
}

impl Options {
    /// jbd2 as ext4 has used it since 2.6.37.
    #[must_use]
    pub fn jbd2() -> Self {
        Self { barrier: true, log_after_data: false, tag_bytes: 16, ..Self::default() }
    }

    /// XFS-like, with delayed logging (2.6.39).
    #[must_use]
    pub fn xfs_like() -> Self {
        Self {
            style: Style::XfsLike,
            data: Data::Writeback,
            commit_interval_ms: 30_000,
            barrier: true,
            ..Self::default()
        }
    }

    pub(super) fn interval(&self) -> Span {
        Span::from_millis(u64::from(self.commit_interval_ms.max(1)))
    }

    /// Blocks that one descriptor can tell of.
    pub(super) fn tags(&self) -> u32 {
        (4096 - 16) / self.tag_bytes.clamp(1, 1024)
    }
}
