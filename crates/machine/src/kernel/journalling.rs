//! Between the journal, which only decides, and the kernel, which does.

use super::journal::{Action, Tid, WriteId};
use super::state::State;
use super::tasks::{Context, Wait};
use super::threads::JOURNAL;

impl State {
    /// Hears what the journal wants: what needs no input or output is done at once, the rest is its thread's.
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

    /// Something that the journal wanted written has been.
    pub(super) fn journal_written(&mut self, write: WriteId) {
        if let Some(journal) = &mut self.journal {
            journal.written(self.now, write);
        }
        self.pump_journal();
    }

    /// Everything that is held becomes durable; for whom to wait.
    pub(super) fn force_commit(&mut self) -> Option<Tid> {
        let now = self.now;
        let tid = self.journal.as_mut().and_then(|journal| journal.force(now));
        self.pump_journal();
        tid
    }
}

impl Context {
    /// Waits until a transaction is durable; begins to make it so if nobody has.
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
