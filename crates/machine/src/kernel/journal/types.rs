//! Types of the journal's interface.

use elevator::CauseSet;

use crate::kernel::fs::{Block, Extent, Inode};

/// A transaction's number. Numbers increase and are not reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tid(pub u64);

/// An open handle: a task's participation in a transaction while it changes metadata.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle(pub u32);

/// The result of starting a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Started {
    Handle(Handle),
    /// The caller must try again after [`Action::Retry`].
    Wait,
}

/// Whether a block may be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The block is part of the handle's transaction.
    Granted,
    /// The block is being copied to the log for an earlier transaction; try again after [`Action::Retry`].
    Wait,
}

/// An action for the caller, from [`Journal::poll`](super::Journal::poll).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Write the dirty pages of these files that have a block; call [`Journal::data_written`](super::Journal::data_written)
    /// when these writes and earlier ones in flight have completed.
    WriteData {
        /// The transaction that waits for them.
        tid: Tid,
        /// The files, in the order in which they joined.
        inodes: Vec<Inode>,
        /// The causes of the transaction.
        causes: Option<CauseSet>,
    },
    /// Submit this write; call [`Journal::written`](super::Journal::written) when it has completed.
    Write(Write),
    /// The transaction is durable: tasks that wait for it continue. `blocks` are ordinary dirty buffers from now on, which
    /// writeback may write home; see [`Journal::home_begins`](super::Journal::home_begins).
    Committed {
        /// The transaction.
        tid: Tid,
        /// Its blocks that no later transaction contains.
        blocks: Vec<Block>,
    },
    /// Tasks that wait for a handle or a block may try again.
    Retry,
}

/// A write of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// Its number, for [`Journal::written`](super::Journal::written).
    pub id: WriteId,
    /// Its location: in the log area, or the home location for [`Why::Checkpoint`].
    pub to: Extent,
    /// Its purpose.
    pub why: Why,
    /// Its transaction; for [`Why::Superblock`] the first that a replay needs from now on.
    pub tid: Tid,
    /// The causes of the transaction. `None` for home writes: each block has the causes of its own changes.
    pub causes: Option<CauseSet>,
    /// A flush precedes it.
    pub preflush: bool,
    /// It is durable when it completes (FUA).
    pub fua: bool,
    /// The blocks that it contains copies of, in order; empty for other log blocks. XFS records contain parts of more blocks
    /// than they have.
    pub homes: Vec<Block>,
    /// The blocks whose older copies must not be replayed.
    pub revokes: Vec<Block>,
}

/// The number of a write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteId(pub u64);

/// The purpose of a write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Why {
    /// Log blocks of a transaction: descriptors, revocations and copies of blocks.
    Log,
    /// The commit record.
    Commit,
    /// Home writes that free log space.
    Checkpoint,
    /// The superblock of the log, with a new tail.
    Superblock,
}
