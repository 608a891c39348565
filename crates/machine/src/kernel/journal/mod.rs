//! The journal of the modelled machine: which metadata becomes durable together, and what must be written before that.
//!
//! # Idea
//! Changes of metadata join the *running* transaction, everybody's the same. When it is old, large, or somebody wants
//! something in it durable, it closes and *commits*: its ordered data is written, copies of its blocks go to the log, then
//! a record that makes them whole. So whoever calls `fsync` waits for the data and metadata of everybody who happened to
//! be in the same transaction: that is the entanglement that split-level scheduling is about. Committed blocks go home
//! with ordinary writeback; when the log runs out of room, a *checkpoint* takes them there.
//!
//! # State
//! One transaction runs, one commits, any number wait for their blocks to go home. A state machine: events come in with
//! `now`, what it wants comes out of [`poll`](Journal::poll), which is asked until it says `None` after every event and at
//! [`deadline`](Journal::deadline). An answer does not become stale.
//!
//! # Order of a commit
//! 1. No new handles get in; those that are open end (`Locked`). 2. A new transaction may begin; ordered data is written
//!    (`Data`). 3. The blocks' copies are written; who wants to change one of these waits (`Log`). 4. The commit record,
//!    after a flush if there are barriers (`Record`). 5. Everybody who waited goes on; blocks may go home.
//!
//! # Where it differs from the source
//! - A block that is being copied to the log is waited for by whoever changes it, one changed before that is copied, as
//!   in jbd; but every block of a transaction is copied at the same time.
//! - Transactions in which nothing changed do not write a commit record.
//! - No batching of synchronous handles, no asynchronous commit, no checksums.
//! - [`Style::XfsLike`]: one checkpoint (XFS's word for such a commit) at a time, where XFS fills the next record while
//!   one is being written.
//!
//! # Sources
//! `fs/jbd` of 2.6, `fs/jbd2`, `fs/xfs/xfs_log_cil.c` and XFS's document on delayed logging, in our own words.

mod commit;
mod handles;
mod log;
mod options;
mod room;
#[cfg(test)]
mod tests;
mod transaction;
mod words;

use std::collections::VecDeque;

use elevator::Time;
use hashbrown::HashMap;

use self::handles::Member;
use self::log::Log;
use self::transaction::{Commit, Held, Old, Phase, Transaction};
use super::fs::{Block, Extent};

pub use options::{Data, Options, Style};
pub use words::{Access, Action, Handle, Started, Tid, Why, Write, WriteId};

/// A journal and its log.
#[derive(Debug)]
pub struct Journal {
    options: Options,
    log: Log,
    next_tid: u64,
    next_write: u64,
    running: Option<Transaction>,
    committing: Option<Commit>,
    /// Committed ones, oldest first.
    old: VecDeque<Old>,
    /// The newest that is durable.
    durable: Option<Tid>,
    held: HashMap<Block, Held>,
    members: Vec<Option<Member>>,
    writes: HashMap<WriteId, Purpose>,
    /// Somebody waits for room: who asks must be told when there may be some.
    room_wanted: bool,
    /// The oldest transaction whose blocks a checkpoint has gone through, and what was durable then.
    looked_over: Option<(Tid, Option<Tid>)>,
    /// A new place for the tail is being written to the superblock.
    tail_out: bool,
    /// Somebody was told to wait.
    waiters: bool,
    actions: VecDeque<Action>,
}

/// What a write of the journal's was for.
#[derive(Debug)]
enum Purpose {
    /// The transaction that commits.
    Commit,
    /// These blocks go home for this transaction.
    Checkpoint(Tid, Vec<Block>),
    /// The log is free up to there.
    Tail(u64),
}

impl Journal {
    /// An empty one in this part of the device, whose first block is its superblock. It should have a thousand blocks
    /// (`mke2fs` refuses less); no transaction may grow beyond a quarter of it.
    #[must_use]
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

    /// Wants a transaction durable (`fsync`). Whether there is anything to wait for: [`Action::Committed`] of it or of a
    /// later one. If there is not, data that the caller has written may still be in the device's cache: where there are
    /// barriers, the flush is the caller's.
    pub fn commit(&mut self, now: Time, tid: Tid) -> bool {
        if let Some(running) = self.running.as_mut().filter(|running| running.tid <= tid) {
            running.asked = true;
            self.advance(now);
        }
        self.durable < Some(tid)
    }

    /// Whether what the device's cache holds now becomes durable with a transaction that is not yet, where there are
    /// barriers: its commit record, before which the cache is flushed, has not set out (`jbd2_trans_will_send_data_barrier`).
    #[must_use]
    pub fn flush_to_come(&self, tid: Tid) -> bool {
        let out = |commit: &Commit| commit.of.tid == tid && commit.phase == Phase::Record;
        self.durable < Some(tid) && !self.committing.as_ref().is_some_and(out)
    }

    /// Wants everything durable (`sync`), and says which transaction to wait for.
    pub fn force(&mut self, now: Time) -> Option<Tid> {
        let newest = self.newest()?;
        self.commit(now, newest).then_some(newest)
    }

    /// The transaction with the newest changes, of those that are not over.
    #[must_use]
    pub fn newest(&self) -> Option<Tid> {
        Some(self.running.as_ref().or(self.committing.as_ref().map(|commit| &commit.of))?.tid)
    }

    /// The next thing that the journal wants; asked until there is none.
    pub fn poll(&mut self, now: Time) -> Option<Action> {
        if self.actions.is_empty() {
            self.advance(now);
        }
        self.actions.pop_front()
    }

    /// When it wants to be asked again if nothing happens before: the running transaction gets too old.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let waits = |running: &&Transaction| !running.asked && !running.locked && self.committing.is_none();
        let running = self.running.as_ref().filter(waits)?;
        Some(running.began + self.options.interval())
    }

    /// Something that it wanted written has been.
    pub fn written(&mut self, now: Time, write: WriteId) {
        match self.writes.remove(&write) {
            Some(Purpose::Commit) => {
                if let Some(commit) = &mut self.committing {
                    commit.writes_out -= 1;
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

    /// Whether a block is in a transaction that has not committed: writeback must leave it alone.
    #[must_use]
    pub fn holds(&self, block: Block) -> bool {
        self.held.get(&block).is_some_and(|held| held.running || held.committing)
    }

    /// The newest durable transaction.
    #[must_use]
    pub fn durable(&self) -> Option<Tid> {
        self.durable
    }

    /// Blocks of the log that a replay would go through, and all of them.
    #[must_use]
    pub fn filled(&self) -> (u64, u64) {
        (self.log.blocks() - self.log.room(), self.log.blocks())
    }

    /// Does whatever can be done now.
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

    /// Forgets a block that nothing is known of any more.
    fn tidy(&mut self, block: Block) {
        if self.held.get(&block).is_some_and(Held::is_idle) {
            self.held.remove(&block);
        }
    }
}
