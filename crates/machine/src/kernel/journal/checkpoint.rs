//! Log space: committed blocks are written home, by writeback or by a checkpoint when the log is full.

use elevator::Time;

use super::commit::extents;
use super::options::Style;
use super::types::{Tid, Why, Write};
use super::{Journal, Purpose};
use crate::kernel::fs::Block;

impl Journal {
    /// Writeback starts writing a block home. Returns the transaction to pass to [`home_written`](Self::home_written) when
    /// the write completes; `None` if no committed transaction contains the block. A block that the journal
    /// [holds](Self::holds) must not be written.
    pub fn home_begins(&mut self, block: Block) -> Option<Tid> {
        let held = self.held.get_mut(&block).filter(|held| held.is_committed())?;
        held.going_home = true;
        held.checkpoint
    }

    pub fn home_written(&mut self, now: Time, block: Block, tid: Tid) {
        self.is_home(block, tid);
        self.advance(now);
    }

    pub(super) fn is_home(&mut self, block: Block, tid: Tid) {
        let Some(held) = self.held.get_mut(&block) else { return };
        held.going_home = false;
        if held.checkpoint == Some(tid) {
            held.checkpoint = None;
            self.leaves_old(tid);
        }
        self.tidy(block);
    }

    /// One block less of a committed transaction is waiting for its home write.
    pub(super) fn leaves_old(&mut self, tid: Tid) {
        if let Ok(i) = self.old.binary_search_by_key(&tid, |old| old.tid) {
            self.old[i].left -= 1;
        }
    }

    /// Log space required before a handle may start: for the largest transaction, and for the committing one unless its space
    /// is allocated.
    pub(super) fn room_for_more(&self) -> u64 {
        let committing = self.committing.as_ref().filter(|commit| commit.start.is_none());
        let commit =
            committing.map_or(0, |commit| self.cost(commit.of.blocks.len() as u32, commit.of.revoked.len()));
        u64::from(self.cost(self.most(), 0)) + u64::from(commit)
    }

    /// If log space is wanted: frees it, or else starts a checkpoint of the oldest transaction.
    pub(super) fn make_room(&mut self) {
        while self.old.front().is_some_and(|old| old.left == 0) {
            self.old.pop_front();
        }
        if !self.room_wanted || self.tail_out {
            return;
        }
        if self.log.room() >= self.room_for_more() {
            self.room_wanted = false;
            self.wake();
            return;
        }
        let (tail, tid) = self.possible_tail();
        if tail == self.log.tail {
            self.checkpoint();
        } else if self.options.style == Style::XfsLike {
            // XFS records contain the tail, so no extra write is needed.
            self.log.tail = tail;
            self.make_room();
            self.wake();
        } else {
            self.write_tail(tail, tid);
        }
    }

    /// The position and the transaction at which a replay could start.
    fn possible_tail(&self) -> (u64, Tid) {
        if let Some(old) = self.old.front() {
            return (old.start, old.tid);
        }
        match self.committing.as_ref() {
            Some(commit) => (commit.start.unwrap_or(self.log.head), commit.of.tid),
            None => (self.log.head, Tid(self.running.as_ref().map_or(self.next_tid, |it| it.tid.0))),
        }
    }

    fn write_tail(&mut self, tail: u64, tid: Tid) {
        let (to, past_cache) = (self.log.superblock(), self.options.barrier);
        self.tail_out = true;
        self.write(Purpose::Tail(tail), |id| Write {
            id,
            to,
            why: Why::Superblock,
            tid,
            causes: None,
            preflush: past_cache,
            fua: past_cache,
            homes: Vec::new(),
            revokes: Vec::new(),
        });
    }

    /// Writes the oldest transaction's blocks home. Blocks that a newer transaction contains must wait for it, so its commit
    /// is requested.
    fn checkpoint(&mut self) {
        let Some(old) = self.old.front() else { return };
        let tid = old.tid;
        // No further block can be written until these writes complete or another transaction commits.
        if self.looked_over.replace((tid, self.durable)) == Some((tid, self.durable)) {
            return;
        }
        let mut go = Vec::new();
        let mut newer = false;
        for &block in &old.blocks {
            let Some(held) = self.held.get_mut(&block).filter(|held| held.checkpoint == Some(tid)) else {
                continue;
            };
            if held.going_home {
                continue;
            }
            if held.is_committed() {
                held.going_home = true;
                go.push(block);
            } else {
                newer |= held.running || held.forgotten;
            }
        }
        for (to, blocks) in extents(&go) {
            let homes = blocks.to_vec();
            self.write(Purpose::Checkpoint(tid, homes.clone()), |id| Write {
                id,
                to,
                why: Why::Checkpoint,
                tid,
                causes: None,
                preflush: false,
                fua: false,
                homes,
                revokes: Vec::new(),
            });
        }
        if let Some(running) = self.running.as_mut().filter(|_| newer) {
            running.asked = true;
        }
    }
}
