//! What belongs together: a transaction while it runs, while it commits, and while it waits for its blocks to go home.

use elevator::{CauseSet, Time};
use hashbrown::HashSet;

use super::words::Tid;
use crate::kernel::fs::{Block, Inode};

/// A transaction that runs or commits.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) tid: Tid,
    pub(super) began: Time,
    /// In the order in which they joined. Until it closes, what has been forgotten since may be among them, and what came
    /// back after that may be there twice.
    pub(super) blocks: Vec<Block>,
    /// How many of them are still in it.
    pub(super) count: u32,
    /// Blocks that were freed: older copies of them must not be replayed. Until it closes, what came back may be among
    /// them.
    pub(super) revoked: Vec<Block>,
    pub(super) inodes: Vec<Inode>,
    pub(super) ordered: HashSet<Inode>,
    /// Open handles, and the credits that they may still use.
    pub(super) updates: u32,
    pub(super) credits: u32,
    /// Somebody wants it durable, or it has grown too large.
    pub(super) asked: bool,
    /// It commits as soon as its handles have ended; no new ones get in.
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

    /// Nothing to write: neither log nor data.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.revoked.is_empty() && self.ordered.is_empty()
    }
}

/// How far a commit has come, once its transaction is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Ordered data is being written; jbd waits for it.
    Data,
    /// The log has to have room: checkpoints make some.
    Room,
    /// The copies are being written to the log.
    Log,
    /// The commit record is being written.
    Record,
}

/// A transaction that commits.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) of: Transaction,
    pub(super) phase: Phase,
    /// Where its first block in the log is, once it has one.
    pub(super) start: Option<u64>,
    /// Ordered data is under way.
    pub(super) data_out: bool,
    /// Writes of its own under way.
    pub(super) writes_out: u32,
}

impl Commit {
    /// Copies are being written from the blocks themselves, which must not change meanwhile.
    pub(super) fn is_copying(&self) -> bool {
        self.phase == Phase::Log && self.writes_out > 0
    }
}

/// A committed transaction some of whose blocks are not at home yet.
#[derive(Debug)]
pub(super) struct Old {
    pub(super) tid: Tid,
    /// Where it begins in the log.
    pub(super) start: u64,
    pub(super) blocks: Vec<Block>,
    /// How many of them wait; those that a newer transaction has committed do not.
    pub(super) left: u32,
}

/// What the journal knows of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) running: bool,
    pub(super) committing: bool,
    /// The running transaction has freed it.
    pub(super) forgotten: bool,
    /// The committing one has.
    pub(super) revoking: bool,
    /// The committed transaction whose copy of it is the newest and not at home yet.
    pub(super) checkpoint: Option<Tid>,
    /// It is being written home.
    pub(super) going_home: bool,
}

impl Held {
    pub(super) fn is_idle(&self) -> bool {
        self.is_committed() && self.checkpoint.is_none()
    }

    /// No transaction that is not durable has a part in it: what memory holds is what was committed last.
    pub(super) fn is_committed(&self) -> bool {
        !self.running && !self.committing && !self.forgotten && !self.revoking
    }
}
