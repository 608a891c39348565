//! One process as the engine knows it.

use super::calls::Called;
use crate::program::{Await, Program, Who};

/// What a process waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Blocked {
    /// Nothing: it is about to run, or sleeps until an event in the heap.
    No,
    /// Room in the queue for its submission.
    Asleep,
    /// Completions.
    On(Await),
    /// The others.
    Meeting,
    /// Processes of other machines.
    Gathering,
    /// Its children.
    Children,
    /// Its call, which has not returned.
    Call,
    /// It has ended.
    Ended,
}

/// One process.
pub(super) struct Running {
    pub(super) who: Who,
    pub(super) program: Box<dyn Program>,
    pub(super) parent: Option<usize>,
    pub(super) children: u32,
    pub(super) blocked: Blocked,
    pub(super) submitted: u64,
    /// Numbers of its unfinished submissions, in any order.
    pub(super) outstanding: Vec<u64>,
    pub(super) call: Option<Called>,
}

impl Running {
    /// A submission is finished.
    pub(super) fn ended(&mut self, number: u64) {
        if let Some(at) = self.outstanding.iter().position(|&unfinished| unfinished == number) {
            self.outstanding.swap_remove(at);
        }
    }

    pub(super) fn is_satisfied(&self, what: Await) -> bool {
        match what {
            Await::All => self.outstanding.is_empty(),
            Await::Io(n) => n < self.submitted && !self.outstanding.contains(&n),
            Await::Fewer(most) => self.outstanding.len() < most.max(1) as usize,
        }
    }

    /// Whether nothing of its own can be unfinished when the wait is over: what it asks for then can be served only after all
    /// that it asked for before.
    pub(super) fn waits_for_all(&self, what: Await) -> bool {
        match what {
            Await::All => true,
            Await::Io(n) => self.outstanding.iter().all(|&unfinished| unfinished == n),
            Await::Fewer(most) => most <= 1,
        }
    }
}
