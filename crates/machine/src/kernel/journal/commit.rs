//! The commit of a transaction.

use elevator::Time;

use super::log::revoke_blocks;
use super::options::Style;
use super::transaction::{Commit, Old, Phase, Transaction};
use super::types::{Action, Tid, Why, Write};
use super::{Journal, Purpose};
use crate::kernel::fs::{Block, Extent};

/// Blocks of an XFS log record: 32 KB.
const RECORD_BLOCKS: u32 = 8;

impl Journal {
    /// The ordered data of a transaction was written.
    pub fn data_written(&mut self, now: Time, tid: Tid) {
        if let Some(commit) = self.committing.as_mut().filter(|commit| commit.of.tid == tid) {
            commit.data_out = false;
        }
        self.advance(now);
    }

    /// Closes the running transaction when its commit is due and its handles have ended.
    pub(super) fn close_running(&mut self, now: Time) {
        let interval = self.options.interval();
        let Some(running) = self.running.as_mut().filter(|_| self.committing.is_none()) else { return };
        if !running.asked && now < running.began + interval {
            return;
        }
        running.locked = true;
        if running.updates > 0 {
            return;
        }
        if let Some(closed) = self.running.take() {
            let of = self.settle(closed);
            self.committing =
                Some(Commit { of, phase: Phase::Data, start: None, data_out: false, writes_out: 0 });
            self.begin_data();
            self.wake();
        }
    }

    /// Fixes the contents of a closed transaction.
    fn settle(&mut self, mut of: Transaction) -> Transaction {
        of.blocks.retain(|block| {
            let held = self.held.entry(*block).or_default();
            let stays = std::mem::take(&mut held.running);
            held.committing |= stays;
            stays
        });
        of.revoked.retain(|block| {
            let held = self.held.entry(*block).or_default();
            let stays = std::mem::take(&mut held.forgotten);
            held.revoking |= stays;
            stays
        });
        of
    }

    fn begin_data(&mut self) {
        let Some(commit) = &mut self.committing else { return };
        commit.data_out = !commit.of.inodes.is_empty();
        if commit.data_out {
            let inodes = std::mem::take(&mut commit.of.inodes);
            let (tid, causes) = (commit.of.tid, commit.of.causes);
            self.actions.push_back(Action::WriteData { tid, inodes, causes });
        }
    }

    /// Advances the commit as far as possible, and starts the next one if it is due.
    pub(super) fn advance_commit(&mut self, now: Time) {
        while self.step() {
            self.close_running(now);
        }
    }

    /// Executes a step of the commit; returns whether there was one.
    fn step(&mut self) -> bool {
        let Some(commit) = &self.committing else { return false };
        let (data_out, writes_out) = (commit.data_out, commit.writes_out > 0);
        let (phase, is_empty) = (commit.phase, commit.of.is_empty());
        match phase {
            Phase::Data if data_out && self.options.log_after_data => return false,
            Phase::Data if is_empty => self.finish(),
            Phase::Data | Phase::Room if !self.commit_fits() => return false,
            Phase::Data | Phase::Room => self.write_log(),
            Phase::Log if writes_out || data_out => return false,
            Phase::Log => {
                self.wake();
                self.write_record();
            }
            Phase::Record if writes_out => return false,
            Phase::Record => self.finish(),
        }
        true
    }

    /// Log blocks of a transaction: revocations, descriptors, copies and the commit record; for XFS, packed parts of blocks.
    pub(super) fn cost(&self, blocks: u32, revoked: usize) -> u32 {
        match self.options.style {
            Style::Jbd => revoke_blocks(revoked) + blocks.div_ceil(self.options.tags()) + blocks + 1,
            Style::XfsLike => {
                let items = u64::from(blocks) + revoked as u64;
                (items * u64::from(self.options.item_bytes.clamp(1, 4096))).div_ceil(4096).max(1) as u32
            }
        }
    }

    /// Most blocks of a transaction: a quarter of the log (jbd), an eighth (XFS).
    pub(super) fn most(&self) -> u32 {
        let blocks = self.log.blocks();
        let most = match self.options.style {
            Style::Jbd => blocks / 4,
            Style::XfsLike => blocks / 8 * (4096 / u64::from(self.options.item_bytes.clamp(1, 4096))),
        };
        most.max(1) as u32
    }

    fn write_log(&mut self) {
        let Some(commit) = &mut self.committing else { return };
        commit.phase = Phase::Log;
        commit.start = Some(self.log.head);
        let homes = commit.of.blocks.clone();
        let revokes = commit.of.revoked.clone();
        match self.options.style {
            Style::Jbd => {
                if !revokes.is_empty() {
                    self.log_blocks(Why::Log, revoke_blocks(revokes.len()), &[], revokes);
                }
                for group in homes.chunks(self.options.tags() as usize) {
                    self.log_blocks(Why::Log, 1 + group.len() as u32, group, Vec::new());
                }
            }
            Style::XfsLike => {
                let records = self.cost(homes.len() as u32, revokes.len()).div_ceil(RECORD_BLOCKS);
                for _ in 1..records {
                    self.log_blocks(Why::Log, RECORD_BLOCKS, &[], Vec::new());
                }
            }
        }
    }

    /// Writes the commit record: a block of its own (jbd), or the last record (XFS).
    fn write_record(&mut self) {
        let Some(commit) = &mut self.committing else { return };
        commit.phase = Phase::Record;
        match self.options.style {
            Style::Jbd => self.log_blocks(Why::Commit, 1, &[], Vec::new()),
            Style::XfsLike => {
                let (homes, revokes) = (commit.of.blocks.clone(), commit.of.revoked.clone());
                let left = (self.cost(homes.len() as u32, revokes.len()) - 1) % RECORD_BLOCKS + 1;
                self.log_blocks(Why::Commit, left, &homes, revokes);
            }
        }
    }

    /// Writes the next `n` log blocks, which contain copies of `homes` after a header block.
    fn log_blocks(&mut self, why: Why, n: u32, homes: &[Block], revokes: Vec<Block>) {
        let extents = self.log.take(n);
        let Some(commit) = &mut self.committing else { return };
        let (tid, causes) = (commit.of.tid, commit.of.causes);
        // All XFS records are barriers, since each may overwrite log space whose blocks were written home but not flushed.
        let past_cache = self.options.barrier && (why == Why::Commit || self.options.style == Style::XfsLike);
        commit.writes_out += extents.len() as u32;
        let mut homes = homes.to_vec();
        let whole = extents.len() == 1;
        for (i, to) in extents.into_iter().enumerate() {
            let here = if whole || i > 0 { homes.len() } else { homes.len().min(to.blocks as usize - 1) };
            let carried: Vec<Block> = homes.drain(..here).collect();
            let revokes = if i == 0 { revokes.clone() } else { Vec::new() };
            self.write(Purpose::Commit, |id| Write {
                id,
                to,
                why,
                tid,
                causes,
                preflush: past_cache,
                fua: past_cache,
                homes: carried,
                revokes,
            });
        }
    }

    fn commit_fits(&mut self) -> bool {
        let Some(commit) = &mut self.committing else { return false };
        commit.phase = Phase::Room;
        let (blocks, revoked) = (commit.of.blocks.len() as u32, commit.of.revoked.len());
        let cost = u64::from(self.cost(blocks, revoked));
        if self.log.room() < cost {
            self.room_wanted = true;
            self.make_room();
        }
        self.log.room() >= cost
    }

    /// Completes the commit.
    fn finish(&mut self) {
        let Some(commit) = self.committing.take() else { return };
        let Transaction { tid, blocks, revoked, .. } = commit.of;
        for &block in blocks.iter().chain(&revoked) {
            let held = self.held.entry(block).or_default();
            let moves = std::mem::take(&mut held.committing);
            held.revoking = false;
            let older = std::mem::replace(&mut held.checkpoint, moves.then_some(tid));
            if let Some(older) = older {
                self.leaves_old(older);
            }
            self.tidy(block);
        }
        self.durable = Some(tid);
        let released = blocks.iter().copied().filter(|block| self.held[block].is_committed()).collect();
        if let Some(start) = commit.start.filter(|_| !blocks.is_empty()) {
            self.old.push_back(Old { tid, start, left: blocks.len() as u32, blocks });
        }
        self.actions.push_back(Action::Committed { tid, blocks: released });
        self.wake();
    }
}

/// Groups adjacent blocks into extents.
pub(super) fn extents(blocks: &[Block]) -> impl Iterator<Item = (Extent, &[Block])> {
    let runs = blocks.chunk_by(|a, b| a.plus(1) == *b);
    runs.map(|run| (Extent { start: run[0], blocks: run.len() as u32 }, run))
}
