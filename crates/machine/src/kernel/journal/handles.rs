//! Handles: starting, changing blocks, stopping.

use elevator::{CauseSet, Time};

use super::Journal;
use super::options::{Data, Style};
use super::transaction::{Change, Commit, OpenHandle, Transaction};
use super::types::{Access, Handle, Started, Tid};
use crate::kernel::Causes;
use crate::kernel::fs::{Block, Inode};

impl Journal {
    /// Starts a handle that changes at most `credits` blocks; the number is limited to the size of a transaction. The caller
    /// must wait while a transaction closes, is full, or the log has no space.
    pub fn start(&mut self, now: Time, credits: u32, cause: CauseSet, causes: &mut Causes) -> Started {
        let credits = credits.min(self.most());
        if !self.admits(credits) {
            self.advance(now);
            if !self.admits(credits) {
                self.waiters = true;
                return Started::Wait;
            }
        }
        let tid = (self.options.style == Style::Jbd).then(|| {
            let running = self.run(now);
            running.updates += 1;
            running.credits += credits;
            running.causes = Some(causes.join(running.causes, cause));
            running.tid
        });
        let member = Some(OpenHandle { cause, tid, credits, brings: Vec::new() });
        match self.members.iter().position(Option::is_none) {
            Some(free) => {
                self.members[free] = member;
                Started::Handle(Handle(free as u32))
            }
            None => {
                self.members.push(member);
                Started::Handle(Handle(self.members.len() as u32 - 1))
            }
        }
    }

    /// Adds a block to the handle's transaction before it changes. The caller must wait while a copy of the block is being
    /// written to the log; before that, the copy is made at once.
    pub fn access(&mut self, handle: Handle, block: Block) -> Access {
        let Some(Some(member)) = self.members.get_mut(handle.0 as usize) else { return Access::Granted };
        if self.options.style == Style::XfsLike {
            member.brings.push(Change::Block(block));
            return Access::Granted;
        }
        let in_log = self.committing.as_ref().is_some_and(Commit::is_copying);
        let held = self.held.entry(block).or_default();
        if held.committing && in_log && !held.running {
            self.waiters = true;
            return Access::Wait;
        }
        let is_new = !held.running;
        if is_new && member.credits > 0 {
            member.credits -= 1;
            if let Some(running) = &mut self.running {
                running.credits -= 1;
            }
        }
        self.join(block);
        Access::Granted
    }

    /// In ordered mode: the file's data must be written before the transaction commits.
    pub fn order(&mut self, handle: Handle, inode: Inode) {
        let is_open = self.members.get(handle.0 as usize).is_some_and(Option::is_some);
        if !is_open || self.options.data != Data::Ordered {
            return;
        }
        if let Some(running) = &mut self.running
            && running.ordered.insert(inode)
        {
            running.inodes.push(inode);
        }
    }

    /// Removes a freed metadata block from the running transaction and revokes older copies.
    pub fn forget(&mut self, handle: Handle, block: Block) {
        let Some(Some(member)) = self.members.get_mut(handle.0 as usize) else { return };
        if self.options.style == Style::XfsLike {
            member.brings.push(Change::Forget(block));
        } else {
            self.leave(block);
        }
    }

    /// Stops a handle; returns the transaction that contains its changes.
    pub fn stop(&mut self, now: Time, handle: Handle, causes: &mut Causes) -> Tid {
        let member = self.members.get_mut(handle.0 as usize).and_then(Option::take);
        let running = self.run(now);
        let mut tid = running.tid;
        if let Some(member) = member {
            if let Some(joined) = member.tid {
                tid = joined;
                running.updates -= 1;
                running.credits -= member.credits;
            }
            if member.tid.is_none() {
                running.causes = Some(causes.join(running.causes, member.cause));
            }
            for change in member.brings {
                match change {
                    Change::Block(block) => self.join(block),
                    Change::Forget(block) => self.leave(block),
                }
            }
        }
        self.advance(now);
        tid
    }

    /// The running transaction, started if there is none.
    fn run(&mut self, now: Time) -> &mut Transaction {
        let next_tid = &mut self.next_tid;
        self.running.get_or_insert_with(|| {
            let tid = Tid(*next_tid);
            *next_tid += 1;
            Transaction::new(tid, now)
        })
    }

    fn admits(&mut self, credits: u32) -> bool {
        let most = self.most();
        if let Some(running) = &mut self.running {
            if running.locked {
                return false;
            }
            let wanted = running.count + running.credits + credits;
            if wanted + super::log::revoke_blocks(running.revoked.len()) > most {
                running.asked = true;
                return false;
            }
        }
        let has_room = self.log.room() >= self.room_for_more();
        self.room_wanted |= !has_room;
        has_room
    }

    /// Adds a block to the running transaction.
    fn join(&mut self, block: Block) {
        let Some(running) = &mut self.running else { return };
        let held = self.held.entry(block).or_default();
        if !held.running {
            held.running = true;
            running.blocks.push(block);
            running.count += 1;
        }
        held.forgotten = false;
    }

    /// Removes a freed block from the running transaction.
    fn leave(&mut self, block: Block) {
        let Some(running) = &mut self.running else { return };
        let held = self.held.entry(block).or_default();
        if std::mem::take(&mut held.running) {
            running.count -= 1;
        }
        if !std::mem::replace(&mut held.forgotten, true) {
            running.revoked.push(block);
        }
    }
}
