//! Executes the actions that the journal decides on.

use elevator::{Flags, Op};

use super::calls::Returned;
use super::context::Context;
use super::fs::Inode;
use super::journal::{Action, Tid, Why, Write, WriteId};
use super::state::{Bio, JOURNAL, Purpose, State, Wait};
use super::writeback::Effort;

impl State {
    /// Takes actions from the journal: those without I/O are executed at once, the others by the journal's thread.
    pub(super) fn pump_journal(&mut self) {
        let Some(mut journal) = self.journal.take() else { return };
        while let Some(action) = journal.poll(self.now) {
            match action {
                Action::Retry => self.sleepers.wake(self.now, Wait::JournalRetry),
                Action::Committed { tid, blocks } => {
                    self.watch.now.commits += 1;
                    self.durable = self.durable.max(Some(tid));
                    for block in blocks {
                        self.release_buffer(block);
                    }
                    self.sleepers.wake(self.now, Wait::Durable);
                }
                Action::WriteData { .. } | Action::Write(_) => {
                    self.journal_work.push_back(action);
                    self.sleepers.wake(self.now, Wait::Work(JOURNAL));
                }
            }
        }
        let deadline = journal.deadline();
        self.journal = Some(journal);
        if deadline != std::mem::replace(&mut self.journal_deadline, deadline) {
            self.sleepers.wake(self.now, Wait::Work(JOURNAL));
        }
    }

    /// A write of the journal has completed.
    pub(super) fn journal_written(&mut self, write: WriteId) {
        if let Some(journal) = &mut self.journal {
            journal.written(self.now, write);
        }
        self.pump_journal();
    }

    /// Commits everything; returns the transaction to wait for.
    pub(super) fn force_commit(&mut self) -> Option<Tid> {
        let now = self.now;
        let tid = self.journal.as_mut().and_then(|journal| journal.force(now));
        self.pump_journal();
        tid
    }
}

impl Context {
    /// Waits until a transaction is durable, and requests its commit.
    pub(super) async fn wait_for_commit(&self, tid: Tid) {
        let waits = self.with(|state| {
            let now = state.now;
            let waits = state.journal.as_mut().is_some_and(|journal| journal.commit(now, tid));
            state.pump_journal();
            waits
        });
        while waits && self.with(|state| state.durable < Some(tid)) {
            self.sleep(Wait::Durable).await;
        }
    }
}

impl State {
    /// The next pending log write of a transaction.
    fn next_log_write(&mut self, of: Tid) -> Option<Write> {
        let its = |action: &Action| matches!(action, Action::Write(write) if (write.why, write.tid) == (Why::Log, of));
        let place = self.journal_work.iter().position(its)?;
        match self.journal_work.remove(place)? {
            Action::Write(write) => Some(write),
            _ => None,
        }
    }
}

impl Context {
    pub(super) async fn journal_forever(&self) -> Returned {
        loop {
            let (action, alarm) = self.with(|state| {
                state.pump_journal();
                (state.journal_work.pop_front(), state.journal_deadline)
            });
            match (action, alarm) {
                (Some(Action::WriteData { tid, inodes, .. }), _) => self.write_ordered(tid, &inodes).await,
                (Some(Action::Write(write)), _) => self.write_journal(write).await,
                (Some(Action::Committed { .. } | Action::Retry), _) => {}
                (None, Some(at)) => {
                    let span = at.since(self.now());
                    self.sleep_at_most(Wait::Work(JOURNAL), span).await;
                }
                (None, None) => self.sleep(Wait::Work(JOURNAL)).await,
            }
        }
    }

    /// Writes a transaction's ordered data. If the log may be written in parallel, it is submitted before the wait for the
    /// data (`journal_finish_inode_data_buffers` of jbd2).
    async fn write_ordered(&self, tid: Tid, inodes: &[Inode]) {
        for &inode in inodes {
            self.write_file(inode.into(), usize::MAX, Effort::ORDERED).await;
        }
        while let Some(write) = self.with(|state| state.next_log_write(tid)) {
            self.write_journal(write).await;
        }
        for &inode in inodes {
            self.wait_for_writes(inode.into()).await;
        }
        self.with(|state| {
            if let Some(journal) = &mut state.journal {
                journal.data_written(state.now, tid);
            }
        });
    }

    async fn write_journal(&self, write: Write) {
        let bio = Bio::bare(self.task, Purpose::Journal(write.id), Op::Write, Some(write.to));
        let flags = Flags {
            sync: self.with(|state| state.rules.sync_writes),
            meta: true,
            preflush: write.preflush,
            fua: write.fua,
            ..Flags::default()
        };
        let (pages, causes) = if write.why == Why::Checkpoint {
            self.with(|state| state.start_home_writes(&write.homes))
        } else {
            (Vec::new(), write.causes)
        };
        self.submit(Bio { flags, causes, pages, ..bio }).await;
    }
}
