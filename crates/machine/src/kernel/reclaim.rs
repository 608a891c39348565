//! Making room: clean pages that are the longest unused go first. Where there are none, whoever needs room waits for any
//! write to end, as since 2.5, and writes some itself if nobody does.

use elevator::Span;

use super::cache::List;
use super::state::State;
use super::tasks::{Context, Wait};
use super::writeback::Effort;

/// Pages freed at a time: `SWAP_CLUSTER_MAX`.
const CLUSTER: usize = 32;

/// How long somebody in need waits before looking again: `HZ/10`.
const PATIENCE: Span = Span::from_millis(100);

impl State {
    /// Whether there is room for one more page, after letting go of clean ones if need be.
    pub(super) fn make_room(&mut self) -> bool {
        if self.pages.len() < self.rules.capacity {
            return true;
        }
        self.balance_lists();
        self.shrink(CLUSTER) > 0
    }

    /// The longest unused active pages go back until that list is no longer the larger one.
    fn balance_lists(&mut self) {
        while self.lru.len(List::Active) > self.lru.len(List::Inactive) {
            let Some(id) = self.lru.oldest(List::Active) else { break };
            self.lru.remove(List::Active, id);
            self.lru.push(List::Inactive, id);
            let page = &mut self.pages[id];
            (page.active, page.referenced) = (false, false);
        }
    }

    /// Drops up to so many clean pages from the old end; those that cannot go are moved to the new end. How many went.
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
    /// Waits until there is room for one more page.
    pub(super) async fn room(&self) {
        if !self.with(State::make_room) {
            Box::pin(self.make_way()).await;
        }
    }

    async fn make_way(&self) {
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
