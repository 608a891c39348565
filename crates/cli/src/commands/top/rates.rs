//! What happened between two moments of a device.

use std::collections::VecDeque;

use server::control::protocol::State;

/// Places of the head that are remembered.
const PLACES: usize = 60;

/// A device now and when the last picture was drawn, and where its head has been.
pub(super) struct History {
    /// When the last picture was drawn.
    before: State,
    /// At the picture that is shown.
    shown: State,
    /// Now.
    now: State,
    /// Where the head was, newest last, in sectors.
    places: VecDeque<u64>,
}

/// How fast something went between two pictures.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Rate {
    /// Operations a second.
    pub(super) operations: f64,
    /// 10^6 bytes a second, read.
    pub(super) read: f64,
    /// The same, written.
    pub(super) written: f64,
}

impl History {
    pub(super) fn new(state: State) -> Self {
        let places = VecDeque::from([state.head_sector]);
        Self { before: state.clone(), shown: state.clone(), now: state, places }
    }

    /// The device now.
    pub(super) fn hear(&mut self, state: State) {
        self.places.push_back(state.head_sector);
        if self.places.len() > PLACES {
            self.places.pop_front();
        }
        self.now = state;
    }

    /// The next picture is of now.
    pub(super) fn picture(&mut self) {
        self.before = std::mem::replace(&mut self.shown, self.now.clone());
    }

    pub(super) const fn state(&self) -> &State {
        &self.shown
    }

    pub(super) fn places(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.places.iter().copied()
    }

    fn per_second(&self, before: u64, now: u64) -> f64 {
        let ns = self.shown.time_ns.saturating_sub(self.before.time_ns);
        if ns == 0 { 0.0 } else { now.saturating_sub(before) as f64 * 1e9 / ns as f64 }
    }

    pub(super) fn dispatched(&self) -> f64 {
        self.per_second(self.before.dispatched, self.shown.dispatched)
    }

    pub(super) fn holds(&self) -> f64 {
        self.per_second(self.before.holds, self.shown.holds)
    }

    /// Operations done and 10^6 bytes a second of one kind.
    pub(super) fn operation(&self, name: &str) -> (f64, f64) {
        let of = |state: &State| state.operations.get(name).map_or((0, 0), |o| (o.done, o.bytes));
        let (before, now) = (of(&self.before), of(&self.shown));
        (self.per_second(before.0, now.0), self.per_second(before.1, now.1) / 1e6)
    }

    /// Every process that is known, the busiest first.
    pub(super) fn processes(&self) -> Vec<(u32, Rate)> {
        let rate = |(&process, now): (&u32, &server::ProcessAccount)| {
            let before = self.before.processes.get(&process).copied().unwrap_or_default();
            let rate = Rate {
                operations: self.per_second(before.operations, now.operations),
                read: self.per_second(before.read_bytes, now.read_bytes) / 1e6,
                written: self.per_second(before.written_bytes, now.written_bytes) / 1e6,
            };
            (process, rate)
        };
        let mut processes: Vec<(u32, Rate)> = self.shown.processes.iter().map(rate).collect();
        processes.sort_by(|(_, a), (_, b)| b.operations.total_cmp(&a.operations));
        processes
    }
}
