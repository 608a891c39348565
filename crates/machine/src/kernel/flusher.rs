//! The kernel's threads, and the two flushers: one writes while much is dirty, one writes old pages.

use elevator::{Priority, Process, Span, Time};

use super::calls::Returned;
use super::context::{Context, Job, Shared};
use super::state::{
    FIRST_THREAD, FLUSHER, JOURNAL, SPLIT_WRITER, State, THREAD_COUNT, TaskId, UPDATER, Wait,
};
use super::writeback::{BATCH, Effort};

/// How long a flusher waits for a congested queue: `HZ/10`.
const PATIENCE: Span = Span::from_millis(100);

/// Creates the kernel's threads.
pub(super) fn start(state: &Shared) -> Vec<(TaskId, Job)> {
    for number in 0..THREAD_COUNT {
        let mut state = state.borrow_mut();
        let task = state.task(TaskId(number));
        task.process = Some(Process::single(FIRST_THREAD + number));
        task.priority = Priority::default();
    }
    let context = |task| Context::new(state, task);
    let (flusher, updater) = (context(FLUSHER), context(UPDATER));
    let (journal, split_writer) = (context(JOURNAL), context(SPLIT_WRITER));
    vec![
        (FLUSHER, Box::pin(async move { flusher.flush_forever().await })),
        (UPDATER, Box::pin(async move { updater.update_forever().await })),
        (JOURNAL, Box::pin(async move { journal.journal_forever().await })),
        (SPLIT_WRITER, Box::pin(async move { split_writer.split_writer().await })),
    ]
}

impl State {
    /// Wakes the flusher to write at least `pages` pages, and more until the background threshold is met.
    pub(super) fn wake_flusher(&mut self, pages: usize) {
        self.flush_least = self.flush_least.max(pages);
        self.sleepers.wake(self.now, Wait::Work(FLUSHER));
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
}
