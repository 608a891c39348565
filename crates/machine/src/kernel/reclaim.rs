//! Page reclaim: the least recently used clean pages are dropped. If there are none, the task waits for writeback to
//! progress, as since 2.5, and writes pages itself if there is no writeback.

use elevator::Span;

use super::cache::List;
use super::context::Context;
use super::state::{State, Wait};
use super::writeback::Effort;

/// Pages dropped at a time: `SWAP_CLUSTER_MAX`.
const CLUSTER: usize = 32;

/// How long a task waits before it tries again: `HZ/10`.
const PATIENCE: Span = Span::from_millis(100);

impl State {
    /// Whether there is room for a page, after dropping clean pages if necessary.
    pub(super) fn make_room(&mut self) -> bool {
        if self.pages.len() < self.rules.capacity {
            return true;
        }
        self.balance_lists();
        self.shrink(CLUSTER) > 0
    }

    /// Deactivates the least recently used active pages until the active list is not the longer one.
    fn balance_lists(&mut self) {
        while self.lru.len(List::Active) > self.lru.len(List::Inactive) {
            let Some(id) = self.lru.oldest(List::Active) else { break };
            self.lru.remove(List::Active, id);
            self.lru.push(List::Inactive, id);
            let page = &mut self.pages[id];
            (page.active, page.referenced) = (false, false);
        }
    }

    /// Drops up to `most` clean pages from the old end and moves others to the new end; returns how many were dropped.
    fn shrink(&mut self, most: usize) -> usize {
        let mut dropped = 0;
        for _ in 0..self.lru.len(List::Inactive) {
            let Some(id) = self.lru.oldest(List::Inactive).filter(|_| dropped < most) else { break };
            if self.pages[id].is_idle() {
                self.drop_page(id);
                dropped += 1;
            } else {
                self.lru.remove(List::Inactive, id);
                self.lru.push(List::Inactive, id);
            }
        }
        dropped
    }
}

impl Context {
    /// Waits until there is room for a page.
    pub(super) async fn room(&self) {
        if !self.with(State::make_room) {
            Box::pin(self.reclaim_until_room()).await;
        }
    }

    async fn reclaim_until_room(&self) {
        while !self.with(State::make_room) {
            self.with(|state| state.wake_flusher(CLUSTER));
            let swapping = self.swap_some().await;
            if !swapping && self.with(|state| state.writing == 0) {
                self.write_dirty(CLUSTER, Effort::RECLAIM).await;
            }
            if self.with(|state| state.writing == 0 && state.dirty == 0) {
                self.with(State::force_commit);
            }
            self.sleep_at_most(Wait::Memory, PATIENCE).await;
        }
    }
}
