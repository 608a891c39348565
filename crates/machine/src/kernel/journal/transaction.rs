//! Transactions: running, committing, and committed with pending home writes; blocks and handles of transactions.

use elevator::{CauseSet, Time};
use hashbrown::HashSet;

use super::types::Tid;
use crate::kernel::fs::{Block, Inode};

/// A running or committing transaction.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) tid: Tid,
    pub(super) began: Time,
    /// Blocks in the order in which they joined. Before the close, forgotten blocks are still in the list, and blocks that
    /// returned may be in it twice.
    pub(super) blocks: Vec<Block>,
    /// Number of blocks, without forgotten ones.
    pub(super) count: u32,
    /// Freed blocks whose older copies must not be replayed. Before the close, blocks that returned are still in the list.
    pub(super) revoked: Vec<Block>,
    pub(super) inodes: Vec<Inode>,
    pub(super) ordered: HashSet<Inode>,
    /// Open handles, and their unused credits.
    pub(super) updates: u32,
    pub(super) credits: u32,
    /// A commit was requested, or the transaction is full.
    pub(super) asked: bool,
    /// It commits when its handles have stopped; no handle starts.
    pub(super) locked: bool,
    pub(super) causes: Option<CauseSet>,
}

impl Transaction {
    pub(super) fn new(tid: Tid, began: Time) -> Self {
        Self {
            tid,
            began,
            blocks: Vec::new(),
            count: 0,
            revoked: Vec::new(),
            inodes: Vec::new(),
            ordered: HashSet::new(),
            updates: 0,
            credits: 0,
            asked: false,
            locked: false,
            causes: None,
        }
    }

    /// Whether there is neither log nor data to write.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.revoked.is_empty() && self.ordered.is_empty()
    }
}

/// The phase of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Ordered data is being written; jbd waits for it.
    Data,
    /// It waits for log space, which a checkpoint frees.
    Room,
    /// Copies are being written to the log.
    Log,
    /// The commit record is being written.
    Record,
}

/// A committing transaction.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) of: Transaction,
    pub(super) phase: Phase,
    /// Position of its first log block, once allocated.
    pub(super) start: Option<u64>,
    /// Ordered data is being written.
    pub(super) data_out: bool,
    /// Log writes in flight.
    pub(super) writes_out: u32,
}

impl Commit {
    /// Whether copies are being written from the blocks, which must not change meanwhile.
    pub(super) fn is_copying(&self) -> bool {
        self.phase == Phase::Log && self.writes_out > 0
    }
}

/// A committed transaction with blocks that were not written home.
#[derive(Debug)]
pub(super) struct Old {
    pub(super) tid: Tid,
    /// Its position in the log.
    pub(super) start: u64,
    pub(super) blocks: Vec<Block>,
    /// Blocks that wait for their home write; blocks that a newer transaction committed do not.
    pub(super) left: u32,
}

/// The journal's state of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockState {
    pub(super) running: bool,
    pub(super) committing: bool,
    /// The running transaction has freed it.
    pub(super) forgotten: bool,
    /// The committing transaction has freed it.
    pub(super) revoking: bool,
    /// The committed transaction with the newest copy that was not written home.
    pub(super) checkpoint: Option<Tid>,
    /// It is being written home.
    pub(super) going_home: bool,
}

impl BlockState {
    pub(super) fn is_idle(&self) -> bool {
        self.is_committed() && self.checkpoint.is_none()
    }

    /// No uncommitted transaction contains it: the buffer has the committed content.
    pub(super) fn is_committed(&self) -> bool {
        !self.running && !self.committing && !self.forgotten && !self.revoking
    }
}

#[derive(Debug)]
pub(super) struct OpenHandle {
    /// The cause of its changes.
    pub(super) cause: CauseSet,
    /// Its transaction (jbd).
    pub(super) tid: Option<Tid>,
    /// Unused credits.
    pub(super) credits: u32,
    /// Changes that join a transaction when it stops (XFS).
    pub(super) brings: Vec<Change>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Block(Block),
    Forget(Block),
}
