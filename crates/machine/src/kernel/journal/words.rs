//! The words of the journal: what it is told, what it wants done, and why.

use elevator::CauseSet;

use crate::kernel::fs::{Block, Extent, Inode};

/// A transaction's number: later ones are larger, none is used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tid(pub u64);

/// An open handle: somebody's membership in a transaction while it changes metadata.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle(pub u32);

/// Whether somebody could begin, or may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Started {
    /// It is in.
    Handle(Handle),
    /// Not now: ask again after [`Action::Retry`].
    Wait,
}

/// Whether a block may be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It is part of the handle's transaction now.
    Granted,
    /// Its copy is being written to the log for an earlier transaction; ask again after [`Action::Retry`].
    Wait,
}

/// What the journal wants done. It is heard with [`Journal::poll`](super::Journal::poll).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Write the dirty pages of these files that have a place on the device, and say
    /// [`Journal::data_written`](super::Journal::data_written) when all of them, and those already under way, are done.
    WriteData {
        /// The transaction that waits for them.
        tid: Tid,
        /// In the order in which they joined it.
        inodes: Vec<Inode>,
        /// Everybody in the transaction.
        causes: Option<CauseSet>,
    },
    /// Write this, and say [`Journal::written`](super::Journal::written) when it is done.
    Write(Write),
    /// The transaction is durable: whoever waits for it goes on. `blocks` are ordinary dirty buffers from now on, that
    /// writeback may write to their homes; see [`Journal::home_begins`](super::Journal::home_begins).
    Committed {
        /// Which.
        tid: Tid,
        /// Those of its blocks that no later transaction has taken.
        blocks: Vec<Block>,
    },
    /// Whoever was told to wait for a handle or a block may ask again.
    Retry,
}

/// A write of the journal's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// Its name, for [`Journal::written`](super::Journal::written).
    pub id: WriteId,
    /// Where: in the log's area, but at home for [`Why::Checkpoint`].
    pub to: Extent,
    /// What for.
    pub why: Why,
    /// The transaction that it serves; for [`Why::Superblock`] the first that a replay needs from now on.
    pub tid: Tid,
    /// Everybody in that transaction. `None` on the way home: each block is there on behalf of whoever changed it.
    pub causes: Option<CauseSet>,
    /// A flush goes before it.
    pub preflush: bool,
    /// Durable when it completes.
    pub fua: bool,
    /// The blocks whose copies it carries, in order; empty for records of the log's own. XFS-like records carry parts of
    /// more blocks than they have.
    pub homes: Vec<Block>,
    /// The blocks of which no older copy may be replayed.
    pub revokes: Vec<Block>,
}

/// The name of a write until it is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteId(pub u64);

/// Why the journal writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Why {
    /// The log's blocks of a transaction: descriptors, revocations and the blocks' copies, as they lie one after another.
    Log,
    /// The commit record, which makes a transaction whole.
    Commit,
    /// Blocks go home so that the log can be used again.
    Checkpoint,
    /// The log's superblock: where a replay begins.
    Superblock,
}
