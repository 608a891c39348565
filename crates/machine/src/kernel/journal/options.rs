//! Journal options.

use elevator::Span;
use serde::Deserialize;

/// Journal options. The defaults are those of ext3 in 2.6.9.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// Format and rules.
    pub style: Style,
    /// Handling of file data.
    pub data: Data,
    /// Age at which a transaction commits, in milliseconds, at least 1: 5000 in ext3 and ext4 (`commit=5`), 30000 in XFS.
    pub commit_interval_ms: u32,
    /// Whether the device's cache is flushed before the commit record and the record is written with FUA. Off in ext3 until
    /// 3.1 (and in 2.6.9 on IDE disks); on in ext4 and XFS.
    pub barrier: bool,
    /// Whether the log is written after the ordered data (jbd), or at the same time, and the commit record after both (jbd2).
    pub log_after_data: bool,
    /// Descriptor bytes for each block: 8 in jbd, 16 in jbd2 with 64-bit blocks. From 1 to 1024.
    pub tag_bytes: u32,
    /// XFS: log bytes of a changed block. Only changes are logged: an inode with its header, or a few chunks of 128 bytes of
    /// a buffer. From 1 to 4096.
    pub item_bytes: u32,
}

/// Format and rules of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// jbd and jbd2: whole blocks. A handle belongs to a transaction from its start, and a commit waits for all its handles.
    Jbd,
    /// XFS's delayed logging, reduced: parts of blocks, logged once however often they changed. A handle joins a transaction
    /// when it stops, so no handle delays a commit. Data is not ordered. The last record completes a commit; each record
    /// contains the tail.
    XfsLike,
}

/// Handling of file data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Written home before the commit of the transaction that allocated it.
    Ordered,
    /// Written by writeback at any time.
    Writeback,
    /// Logged like metadata; the caller passes data blocks to `access` as well.
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
    /// jbd2 as used by ext4 since 2.6.37.
    pub fn jbd2() -> Self {
        Self { barrier: true, log_after_data: false, tag_bytes: 16, ..Self::default() }
    }

    /// XFS with delayed logging (2.6.39).
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

    /// Blocks per descriptor.
    pub(super) fn tags(&self) -> u32 {
        (4096 - 16) / self.tag_bytes.clamp(1, 1024)
    }
}
