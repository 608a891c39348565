//! The journal: groups metadata changes into transactions and orders their writes.
//!
//! # Idea
//! Metadata changes of all processes join the *running* transaction. When it is old or large, or a process waits for one of
//! its changes, it closes and *commits*: ordered data is written, then copies of its blocks go to the log, then a commit
//! record. So `fsync` waits for the data and metadata of every process in the transaction, the entanglement that split-level
//! scheduling addresses. Committed blocks are written home by writeback; when the log runs out of space, a *checkpoint*
//! writes them.
//!
//! # State
//! One transaction runs, one commits, any number have blocks that were not written home. A state machine: events carry `now`,
//! actions come from [`poll`](Journal::poll), which is called until it returns `None` after every event and at
//! [`deadline`](Journal::deadline). An action stays valid until it is executed.
//!
//! # Order of a commit
//! 1. No handle starts; open handles end (`Locked`).
//! 2. A new transaction may start; ordered data is written (`Data`).
//! 3. Copies of blocks are written to the log; changes of these blocks wait (`Log`).
//! 4. The commit record is written, after a flush if there are barriers (`Record`).
//! 5. Waiting tasks continue; blocks may be written home.
//!
//! # Where it differs from the source
//! - As in jbd, a change waits while the block is copied to the log, and a block changed earlier is copied at once; but all
//!   blocks of a transaction are copied at the same time.
//! - Transactions without changes write no commit record.
//! - No batching of synchronous handles, no asynchronous commit, no checksums.
//! - [`Style::XfsLike`]: one checkpoint (XFS's term for a commit) at a time; XFS fills the next record while one is being
//!   written.
//!
//! # Sources
//! `fs/jbd` of Linux 2.6, `fs/jbd2`, `fs/xfs/xfs_log_cil.c`, XFS's design document on delayed logging.

mod checkpoint;
mod commit;
mod handles;
mod log;
mod options;
#[cfg(test)]
mod tests;
mod transaction;
mod types;

use std::collections::VecDeque;

use elevator::Time;
use hashbrown::HashMap;

use self::log::Log;
use self::transaction::{BlockState, Commit, Old, OpenHandle, Phase, Transaction};
use super::fs::{Block, Extent};

pub use options::{Data, Options, Style};
pub use types::{Access, Action, Handle, Started, Tid, Why, Write, WriteId};

/// A journal and its log.
#[derive(Debug)]
pub struct Journal {
    options: Options,
    log: Log,
    next_tid: u64,
    next_write: u64,
    running: Option<Transaction>,
    committing: Option<Commit>,
    /// Committed transactions, oldest first.
    old: VecDeque<Old>,
    /// The newest durable transaction.
    durable: Option<Tid>,
    held: HashMap<Block, BlockState>,
    members: Vec<Option<OpenHandle>>,
    writes: HashMap<WriteId, Purpose>,
    /// A task waits for log space.
    room_wanted: bool,
    /// The transaction of the last checkpoint, and the newest durable one at that time.
    looked_over: Option<(Tid, Option<Tid>)>,
    /// A new tail is being written to the superblock.
    tail_out: bool,
    /// A task waits; [`Action::Retry`] must follow.
    waiters: bool,
    actions: VecDeque<Action>,
}

/// The purpose of a write.
#[derive(Debug)]
enum Purpose {
    /// The committing transaction.
    Commit,
    /// Home writes for this transaction.
    Checkpoint(Tid, Vec<Block>),
    /// The new tail.
    Tail(u64),
}

impl Journal {
    /// An empty journal in this area of the device, whose first block is the superblock. It should have at least 1000 blocks,
    /// the minimum of `mke2fs`; a transaction is at most a quarter of it.
    pub fn new(options: Options, area: Extent) -> Self {
        Self {
            options,
            log: Log::new(area),
            next_tid: 1,
            next_write: 0,
            running: None,
            committing: None,
            old: VecDeque::new(),
            durable: None,
            held: HashMap::new(),
            members: Vec::new(),
            writes: HashMap::new(),
            room_wanted: false,
            looked_over: None,
            tail_out: false,
            waiters: false,
            actions: VecDeque::new(),
        }
    }

    /// Requests the commit of a transaction (`fsync`). Returns whether the caller must wait for [`Action::Committed`] of it
    /// or a later one. If not, and with barriers, the caller must flush the device's cache, which may contain data that it
    /// has written.
    pub fn commit(&mut self, now: Time, tid: Tid) -> bool {
        if let Some(running) = self.running.as_mut().filter(|running| running.tid <= tid) {
            running.asked = true;
            self.advance(now);
        }
        self.durable < Some(tid)
    }

    /// With barriers: whether the device's cache will be flushed before this transaction is durable, because its commit
    /// record was not submitted yet (`jbd2_trans_will_send_data_barrier`).
    pub fn flush_to_come(&self, tid: Tid) -> bool {
        let out = |commit: &Commit| commit.of.tid == tid && commit.phase == Phase::Record;
        self.durable < Some(tid) && !self.committing.as_ref().is_some_and(out)
    }

    /// Requests the commit of everything (`sync`); returns the transaction to wait for.
    pub fn force(&mut self, now: Time) -> Option<Tid> {
        let newest = self.newest()?;
        self.commit(now, newest).then_some(newest)
    }

    /// The newest transaction that is not durable.
    pub fn newest(&self) -> Option<Tid> {
        Some(self.running.as_ref().or(self.committing.as_ref().map(|commit| &commit.of))?.tid)
    }

    /// The next action; call it until it returns `None`.
    pub fn poll(&mut self, now: Time) -> Option<Action> {
        if self.actions.is_empty() {
            self.advance(now);
        }
        self.actions.pop_front()
    }

    /// The time at which the running transaction is due, if no event comes earlier.
    pub fn deadline(&self) -> Option<Time> {
        let waits = |running: &&Transaction| !running.asked && !running.locked && self.committing.is_none();
        let running = self.running.as_ref().filter(waits)?;
        Some(running.began + self.options.interval())
    }

    /// A write of the journal completed.
    pub fn written(&mut self, now: Time, write: WriteId) {
        match self.writes.remove(&write) {
            Some(Purpose::Commit) => {
                if let Some(commit) = &mut self.committing {
                    commit.writes_out -= 1;
                    if commit.phase == Phase::Log && commit.writes_out == 0 {
                        // Blocks whose copies are written may change again.
                        self.wake();
                    }
                }
            }
            Some(Purpose::Checkpoint(tid, blocks)) => {
                blocks.into_iter().for_each(|block| self.is_home(block, tid));
            }
            Some(Purpose::Tail(tail)) => {
                self.log.tail = tail;
                self.tail_out = false;
                self.wake();
            }
            None => {}
        }
        self.advance(now);
    }

    /// Whether an uncommitted transaction contains a block: writeback must not write it.
    pub fn holds(&self, block: Block) -> bool {
        self.held.get(&block).is_some_and(|held| held.running || held.committing)
    }

    /// The newest durable transaction.
    pub fn durable(&self) -> Option<Tid> {
        self.durable
    }

    /// Log blocks that a replay would read, and all log blocks.
    pub fn filled(&self) -> (u64, u64) {
        (self.log.blocks() - self.log.room(), self.log.blocks())
    }

    /// Advances as far as possible.
    fn advance(&mut self, now: Time) {
        self.close_running(now);
        self.advance_commit(now);
        self.close_running(now);
        self.make_room();
    }

    fn write(&mut self, purpose: Purpose, make: impl FnOnce(WriteId) -> Write) {
        let id = WriteId(self.next_write);
        self.next_write += 1;
        self.writes.insert(id, purpose);
        self.actions.push_back(Action::Write(make(id)));
    }

    fn wake(&mut self) {
        if std::mem::take(&mut self.waiters) {
            self.actions.push_back(Action::Retry);
        }
    }

    /// Removes the state of a block that no transaction contains.
    fn tidy(&mut self, block: Block) {
        if self.held.get(&block).is_some_and(BlockState::is_idle) {
            self.held.remove(&block);
        }
    }
}
