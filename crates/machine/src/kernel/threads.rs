//! The kernel's own threads: the flusher, which writes when much is dirty, the one that looks for what is old, and the
//! journal's; and one that writes what a split policy wants written.

use elevator::{Flags, Op, Priority, Process, Span, Time};

use super::calls::Returned;
use super::fs::Inode;
use super::io::{Bio, Purpose};
use super::journal::{Action, Tid, Why, Write};
use super::state::State;
use super::tasks::{Context, Job, Shared, TaskId, Wait};
use super::writeback::{BATCH, Effort};

/// Writes when more is dirty than the background threshold allows: `pdflush` in `background_writeout`.
pub(super) const FLUSHER: TaskId = TaskId(0);
/// Writes what is old: `pdflush` in `wb_kupdate`.
pub(super) const UPDATER: TaskId = TaskId(1);
/// Writes the journal: `kjournald`.
pub(super) const JOURNAL: TaskId = TaskId(2);
/// Writes what a split policy wants written.
pub(super) const BLEEDER: TaskId = TaskId(3);

/// How many there are; processes' tasks are numbered from here.
pub(super) const COUNT: u32 = 4;

/// What the block layer calls the kernel's threads: process numbers from here on, which no program may have. In this
/// order: the flusher, the one that looks for what is old, the journal's, and the one that a split policy has write.
pub const FIRST_THREAD: u32 = u32::MAX - COUNT;

/// A flusher that met a congested queue waits so long at most: `HZ/10`.
const PATIENCE: Span = Span::from_millis(100);

/// Gives the threads their identities; who they are and what they do.
pub(super) fn start(state: &Shared) -> Vec<(TaskId, Job)> {
    for number in 0..COUNT {
        let mut state = state.borrow_mut();
        let task = state.task(TaskId(number));
        task.process = Some(Process::single(FIRST_THREAD + number));
        task.priority = Priority::default();
    }
    let context = |task| Context::new(state, task);
    let (flusher, updater) = (context(FLUSHER), context(UPDATER));
    let (journal, bleeder) = (context(JOURNAL), context(BLEEDER));
    vec![
        (FLUSHER, Box::pin(async move { flusher.flush_forever().await })),
        (UPDATER, Box::pin(async move { updater.update_forever().await })),
        (JOURNAL, Box::pin(async move { journal.journal_forever().await })),
        (BLEEDER, Box::pin(async move { bleeder.bleed_forever().await })),
    ]
}

impl State {
    /// The flusher has work: at least so many pages, and until the background threshold is met.
    pub(super) fn wake_flusher(&mut self, pages: usize) {
        self.flush_least = self.flush_least.max(pages);
        self.sleepers.wake(self.now, Wait::Work(FLUSHER));
    }

    /// The next write of a transaction's log, if the journal wants it by now.
    fn next_of_the_log(&mut self, of: Tid) -> Option<Write> {
        let its = |action: &Action| matches!(action, Action::Write(write) if (write.why, write.tid) == (Why::Log, of));
        let place = self.journal_work.iter().position(its)?;
        match self.journal_work.remove(place)? {
            Action::Write(write) => Some(write),
            _ => None,
        }
    }
}

impl Context {
    async fn flush_forever(&self) -> Returned {
        loop {
            self.sleep(Wait::Work(FLUSHER)).await;
            self.flush().await;
        }
    }

    async fn flush(&self) {
        let mut least = self.with(|state| std::mem::take(&mut state.flush_least));
        while least > 0 || self.with(|state| state.dirty > state.rules.background) {
            let written = self.write_dirty(BATCH, Effort::BACKGROUND).await;
            least = least.saturating_sub(written.pages);
            if written.pages < BATCH {
                if !written.met_congestion {
                    break;
                }
                self.sleep_at_most(Wait::AnyWrite, PATIENCE).await;
            }
        }
    }

    async fn update_forever(&self) -> Returned {
        let (interval, age) = self.with(|state| {
            let dirty = state.rules.description.dirty;
            (Span::from_millis(dirty.interval_ms), Span::from_millis(dirty.expire_ms))
        });
        let mut next = Time::ZERO + interval;
        loop {
            self.sleep_at_most(Wait::Timer, next.since(self.now())).await;
            next = self.now() + interval;
            let older_than = self.now() - age;
            if older_than == Time::ZERO {
                continue;
            }
            let effort = Effort { older_than, keeps_age: true, ..Effort::BACKGROUND };
            loop {
                let written = self.write_dirty(BATCH, effort).await;
                if written.pages == BATCH {
                    continue;
                }
                if !written.met_congestion {
                    break;
                }
                self.sleep_at_most(Wait::AnyWrite, PATIENCE).await;
            }
        }
    }

    async fn journal_forever(&self) -> Returned {
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

    /// Writes a transaction's ordered data. Where its log may go beside that it goes before the data is waited for
    /// (`journal_finish_inode_data_buffers` of jbd2).
    async fn write_ordered(&self, tid: Tid, inodes: &[Inode]) {
        for &inode in inodes {
            self.write_file(inode.into(), usize::MAX, Effort::ORDERED).await;
        }
        while let Some(write) = self.with(|state| state.next_of_the_log(tid)) {
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
            self.with(|state| state.buffers_go_home(&write.homes))
        } else {
            (Vec::new(), write.causes)
        };
        self.submit(Bio { flags, causes, pages, ..bio }).await;
    }
}
