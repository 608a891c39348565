//! Holding back who dirties too much: `balance_dirty_pages`.

use elevator::{Span, Time};

use super::description::ThrottleKind;
use super::state::State;
use super::tasks::{Context, TaskId, Wait};
use super::writeback::Effort;

/// Pages that may be dirtied between two looks while the limit is exceeded; 8 in 2.6.
const EXCEEDED_PAGES: u64 = 8;

/// A writer over the limit waits so long, unless the queue is no longer congested earlier: `HZ/10`.
const PATIENCE: Span = Span::from_millis(100);

/// Longest pause of a writer since 3.2: `MAX_PAUSE`.
const PAUSE_MAX: Span = Span::from_millis(200);

/// Between two estimates of how fast the device writes: `BANDWIDTH_INTERVAL`.
const ESTIMATE_EVERY: Span = Span::from_millis(200);

/// Who dirties, how much, and how fast the device takes it.
#[derive(Default)]
pub(super) struct Dirtiers {
    /// Pages dirtied since the last look, and
    since: u64,
    /// after how many the next is due.
    every: u64,
    exceeded: bool,
    /// Writers that are held back.
    pub(super) held: u64,
    /// Pages written to the device so far, at the last estimate,
    counted: u64,
    at: Time,
    /// and the estimate: pages a second.
    rate: u64,
    /// Writers that dirtied something since the last estimate, and in the period before it.
    recent: Vec<TaskId>,
    writers: u64,
}

impl Dirtiers {
    /// On a machine with so many pages: 2.6 looks every 1/32 of memory, from 16 to 1024 pages.
    pub(super) fn new(capacity: usize) -> Self {
        Self { every: (capacity as u64 / 32).clamp(16, 1024), rate: 25_600, ..Self::default() }
    }

    /// How many more pages may be dirtied before the next look; at least 1.
    pub(super) fn until_balance(&self) -> u64 {
        let every = if self.exceeded { EXCEEDED_PAGES } else { self.every };
        every.saturating_sub(self.since).max(1)
    }

    /// So many were dirtied; whether a look is due.
    pub(super) fn dirtied(&mut self, pages: u64) -> bool {
        self.since += pages;
        let due = self.since >= if self.exceeded { EXCEEDED_PAGES } else { self.every };
        if due {
            self.since = 0;
        }
        due
    }

    /// How much a writer above the limit writes itself: `sync_writeback_pages`.
    const fn chunk(&self) -> usize {
        (self.every + self.every / 2) as usize
    }
}

impl State {
    fn over(&self, limit: usize) -> bool {
        self.dirty + self.writing > limit
    }
}

impl Context {
    /// The task dirtied so many pages: it is held back while too many are dirty.
    pub(super) async fn balance_dirty_pages(&self, pages: u64) {
        if !self.with(|state| state.dirtiers.dirtied(pages)) {
            return;
        }
        match self.with(|state| state.rules.description.dirty.throttle) {
            ThrottleKind::Writes => Box::pin(self.write_for_leave()).await,
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

    /// Until 3.1: it writes as much as it dirtied, and half as much again, of anybody's.
    async fn write_for_leave(&self) {
        let (mut written, chunk) = (0, self.with(|state| state.dirtiers.chunk()));
        let mut held = false;
        while self.with(|state| state.over(state.rules.limit)) {
            self.with(|state| {
                state.dirtiers.exceeded = true;
                state.dirtiers.held += u64::from(!std::mem::replace(&mut held, true));
            });
            if self.with(|state| state.dirty > 0) {
                written += self.write_dirty(chunk, Effort::WRITER).await.pages;
                if written >= chunk || !self.with(|state| state.over(state.rules.limit)) {
                    break;
                }
            }
            self.sleep_at_most(Wait::AnyWrite, PATIENCE).await;
        }
        self.with(|state| state.dirtiers.held -= u64::from(held));
    }

    /// Since 3.2: it pauses so that all writers together dirty as fast as the device writes, faster while there is room
    /// between the middle of the thresholds and the limit, slower near the limit.
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
    /// How fast the device writes: a mean with the weight of the newest period one eighth.
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

    /// How long a writer has to pause for the pages of one look; `None` below the middle of the thresholds.
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
