//! The change of a device's state between two snapshots.

use std::collections::VecDeque;

use server::control::protocol::{AccountState, State};

/// Limit of stored head positions.
const POSITIONS: usize = 60;

/// The states of a device at the last two snapshots and now, and its last head positions.
pub(super) struct History {
    /// The state at the previous snapshot.
    before: State,
    /// The state at the current snapshot.
    shown: State,
    /// The latest state.
    now: State,
    /// Head positions in sectors, newest last.
    positions: VecDeque<u64>,
}

/// Rates between two snapshots.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Rate {
    /// Operations per second.
    pub(super) operations: f64,
    /// Bytes read per second, in units of 10^6.
    pub(super) read: f64,
    /// Bytes written per second, in units of 10^6.
    pub(super) written: f64,
}

/// What an account caused between two snapshots, in bytes per second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Caused {
    pub(super) read: f64,
    pub(super) data: f64,
    pub(super) metadata: f64,
    /// Its held calls on average.
    pub(super) held: f64,
}

impl History {
    pub(super) fn new(state: State) -> Self {
        let positions = VecDeque::from([state.head_sector]);
        Self { before: state.clone(), shown: state.clone(), now: state, positions }
    }

    /// Stores the latest state.
    pub(super) fn update(&mut self, state: State) {
        self.positions.push_back(state.head_sector);
        if self.positions.len() > POSITIONS {
            self.positions.pop_front();
        }
        self.now = state;
    }

    /// Begins the next snapshot, which shows the latest state.
    pub(super) fn begin_snapshot(&mut self) {
        self.before = std::mem::replace(&mut self.shown, self.now.clone());
    }

    pub(super) const fn state(&self) -> &State {
        &self.shown
    }

    pub(super) fn positions(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.positions.iter().copied()
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

    /// Operations per second, and bytes per second in units of 10^6, of one kind.
    pub(super) fn operation(&self, name: &str) -> (f64, f64) {
        let of = |state: &State| state.operations.get(name).map_or((0, 0), |o| (o.done, o.bytes));
        let (before, now) = (of(&self.before), of(&self.shown));
        (self.per_second(before.0, now.0), self.per_second(before.1, now.1) / 1e6)
    }

    /// All accounts of a split-level scheduler, in the server's order.
    pub(super) fn accounts(&self) -> Vec<(&AccountState, Caused)> {
        let none = AccountState::default();
        let caused = |now: &AccountState| {
            let before = self.before.accounts.iter().find(|before| before.name == now.name).unwrap_or(&none);
            Caused {
                read: self.per_second(before.read, now.read),
                data: self.per_second(before.data, now.data),
                metadata: self.per_second(before.metadata, now.metadata),
                held: self.per_second(before.held_ns, now.held_ns) / 1e9,
            }
        };
        self.shown.accounts.iter().map(|now| (now, caused(now))).collect()
    }

    /// All processes, the busiest first.
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
