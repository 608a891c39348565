//! Throttling of writers: `balance_dirty_pages`.

use elevator::Span;

use super::context::Context;
use super::description::ThrottleKind;
use super::state::{EXCEEDED_PAGES, State, Wait};
use super::writeback::Effort;

/// How long a writer above the limit waits for the queue: `HZ/10`.
const PATIENCE: Span = Span::from_millis(100);

/// Longest pause of a writer since 3.2: `MAX_PAUSE`.
const PAUSE_MAX: Span = Span::from_millis(200);

/// Interval between bandwidth estimates: `BANDWIDTH_INTERVAL`.
const ESTIMATE_EVERY: Span = Span::from_millis(200);

impl State {
    fn over(&self, limit: usize) -> bool {
        self.dirty + self.writing > limit
    }
}

impl Context {
    /// Counts dirtied pages and throttles the task while too many pages are dirty.
    pub(super) async fn balance_dirty_pages(&self, pages: u64) {
        if !self.with(|state| state.dirtiers.dirtied(pages)) {
            return;
        }
        match self.with(|state| state.rules.description.dirty.throttle) {
            ThrottleKind::Writes => Box::pin(self.throttle_by_writing(true)).await,
            ThrottleKind::WritesToLimit => Box::pin(self.throttle_by_writing(false)).await,
            ThrottleKind::Pauses => self.pause().await,
        }
        self.with(|state| {
            if !state.over(state.rules.limit) {
                state.dirtiers.exceeded = false;
            }
            if state.dirty > state.rules.background {
                state.wake_flusher(0);
            }
        });
    }

    /// Until 3.1: the task writes 1.5 times as many pages as it dirtied, of any file. In 2.5.61 it repeats that until the number of
    /// dirty pages is below the limit.
    async fn throttle_by_writing(&self, once: bool) {
        let (mut written, chunk) = (0, self.with(|state| state.dirtiers.chunk()));
        let mut held = false;
        while self.with(|state| state.over(state.rules.limit)) {
            self.with(|state| {
                state.dirtiers.exceeded = true;
                state.dirtiers.held += u64::from(!std::mem::replace(&mut held, true));
            });
            if self.with(|state| state.dirty > 0) {
                written += self.write_dirty(chunk, Effort::WRITER).await.pages;
                if (once && written >= chunk) || !self.with(|state| state.over(state.rules.limit)) {
                    break;
                }
            }
            self.sleep_at_most(Wait::AnyWrite, PATIENCE).await;
        }
        self.with(|state| state.dirtiers.held -= u64::from(held));
    }

    /// Since 3.2: the task pauses, so that all writers together dirty at the device's write rate; faster between the middle
    /// of the thresholds and the limit, slower near the limit.
    async fn pause(&self) {
        self.with(|state| {
            if !state.dirtiers.recent.contains(&self.task) {
                state.dirtiers.recent.push(self.task);
            }
            state.estimate();
        });
        let mut held = false;
        while let Some(pause) = self.with(|state| state.pause()) {
            self.with(|state| {
                state.dirtiers.exceeded = true;
                state.dirtiers.held += u64::from(!std::mem::replace(&mut held, true));
                state.wake_flusher(0);
            });
            self.sleep_at_most(Wait::Timer, pause).await;
            if !self.with(|state| state.over(state.rules.limit)) {
                break;
            }
        }
        self.with(|state| state.dirtiers.held -= u64::from(held));
    }
}

impl State {
    /// Estimates the write rate: an average in which the newest period has a weight of 1/8.
    fn estimate(&mut self) {
        let passed = self.now.since(self.dirtiers.at);
        if passed < ESTIMATE_EVERY {
            return;
        }
        let out = self.watch.pages_out();
        let rate = (out - self.dirtiers.counted) * 1_000_000_000 / passed.as_nanos();
        let dirtiers = &mut self.dirtiers;
        dirtiers.rate = ((dirtiers.rate * 7 + rate) / 8).max(1);
        (dirtiers.counted, dirtiers.at) = (out, self.now);
        dirtiers.writers = dirtiers.recent.len() as u64;
        dirtiers.recent.clear();
    }

    /// The pause of a writer for the pages between two checks; `None` below the middle of the thresholds.
    fn pause(&self) -> Option<Span> {
        let (dirty, limit) = ((self.dirty + self.writing) as i128, self.rules.limit as i128);
        let free_run = (self.rules.background as i128 + limit) / 2;
        if dirty <= free_run {
            return None;
        }
        // 1 + ((setpoint - dirty) / (limit - setpoint))^3, in thousandths.
        let setpoint = (free_run + limit) / 2;
        let x = ((setpoint - dirty) * 1000 / (limit - setpoint).max(1)).clamp(-1000, 1000);
        let position = (1000 + x * x * x / 1_000_000).max(10) as u64;
        let rate = (self.dirtiers.rate * position / 1000 / self.dirtiers.writers.max(1)).max(1);
        let pages = if self.dirtiers.exceeded { EXCEEDED_PAGES } else { self.dirtiers.every };
        Some(Span::from_nanos(pages * 1_000_000_000 / rate).min(PAUSE_MAX))
    }
}
