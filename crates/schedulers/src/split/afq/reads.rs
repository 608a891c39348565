//! Readers: whether each account reads sequentially, and the account in turn.

use alloc::vec::Vec;

use elevator::{Hold, HoldReason, Time, Wake};

use super::Tunables;

/// The recent reads of an account.
#[derive(Clone, Copy, Default)]
struct Reader {
    /// Consecutive near reads.
    steps: u64,
    /// Its reads in the device, and the time of its last completion.
    in_device: u32,
    came_back: Time,
}

/// The account in turn.
#[derive(Clone, Copy)]
struct Turn {
    place: usize,
    began: Time,
    sent: u64,
}

/// All accounts' reads, by account index.
#[derive(Default)]
pub(super) struct Reads {
    readers: Vec<Reader>,
    turn: Option<Turn>,
}

impl Reads {
    fn reader(&mut self, place: usize) -> &mut Reader {
        if place >= self.readers.len() {
            self.readers.resize(place + 1, Reader::default());
        }
        &mut self.readers[place]
    }

    /// The account whose turn continues, if any.
    pub(super) fn goes_on(&self, now: Time, tunables: &Tunables) -> Option<usize> {
        let turn = self.turn?;
        let left = turn.sent < tunables.batch && now < turn.began + tunables.slice;
        left.then_some(turn.place)
    }

    /// The accounts that have reads in the device.
    pub(super) fn in_device(&self) -> impl Iterator<Item = usize> {
        (0..self.readers.len()).filter(|&place| self.readers[place].in_device > 0)
    }

    /// A read is dispatched; `distance`: sectors from its account's last one.
    pub(super) fn sent(&mut self, now: Time, place: usize, distance: u64, tunables: &Tunables) {
        let turn = self.goes_on(now, tunables).filter(|&whose| whose == place).and(self.turn);
        let Turn { began, sent, .. } = turn.unwrap_or(Turn { place, began: now, sent: 0 });
        self.turn = Some(Turn { place, began, sent: sent + 1 });
        let reader = self.reader(place);
        reader.in_device += 1;
        reader.steps = if distance <= tunables.near { reader.steps + 1 } else { 0 };
    }

    /// A read completed.
    pub(super) fn came_back(&mut self, now: Time, place: usize) {
        let reader = self.reader(place);
        reader.in_device -= 1;
        reader.came_back = now;
    }

    /// The wait for the account in turn while it has no queued reads, if it reads sequentially: first for its reads in the
    /// device, then for its next read.
    pub(super) fn awaits(&self, now: Time, place: usize, tunables: &Tunables) -> Option<Hold> {
        let reader = self.readers.get(place)?;
        if reader.steps < tunables.sequential_after {
            return None;
        }
        let reason = HoldReason::AwaitSliceOwner;
        if reader.in_device > 0 {
            return Some(Hold { until: None, wake: Wake::Completion, reason });
        }
        let until = reader.came_back + tunables.idle;
        (now < until).then_some(Hold { until: Some(until), wake: Wake::Timer, reason })
    }
}
