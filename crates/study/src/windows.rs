//! Measurements by window of virtual time, from the events of the queue or the array.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use elevator::queue::{Event, Observer, Token};
use elevator::{Op, SECTOR_BYTES, Time};
use fnv::FnvHasher;

/// What finished in a window.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Window {
    pub(crate) start_ns: u64,
    pub(crate) bytes: u64,
    pub(crate) reads: Latencies,
    pub(crate) writes: Latencies,
}

/// The latencies of a window, in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Latencies {
    count: u64,
    sum: u128,
    max: u64,
    p99: u64,
    /// All of them until the window is closed.
    all: Vec<u64>,
}

impl Latencies {
    fn push(&mut self, ns: u64) {
        self.count += 1;
        self.sum += u128::from(ns);
        self.max = self.max.max(ns);
        self.all.push(ns);
    }

    fn close(&mut self) {
        let mut all = std::mem::take(&mut self.all);
        if !all.is_empty() {
            let rank = (all.len() * 99).div_ceil(100) - 1;
            self.p99 = *all.select_nth_unstable(rank).1;
        }
    }

    fn of<T>(&self, value: T) -> Option<T> {
        (self.count > 0).then_some(value)
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn mean(&self) -> Option<u64> {
        self.of((self.sum / u128::from(self.count.max(1))) as u64)
    }

    pub(crate) fn p99(&self) -> Option<u64> {
        self.of(self.p99)
    }

    pub(crate) fn max(&self) -> Option<u64> {
        self.of(self.max)
    }
}

/// Time, operation and bytes of a submission.
type Begun = (Time, Op, u64);

/// Windows of a run.
pub(crate) struct Windows {
    length_ns: u64,
    /// Submissions that have not finished.
    begun: HashMap<Token, Begun, BuildHasherDefault<FnvHasher>>,
    closed: Vec<Window>,
    present: Window,
}

impl Windows {
    pub(crate) fn new(length_ns: u64) -> Rc<RefCell<Self>> {
        let length_ns = length_ns.max(1);
        let (begun, closed, present) = (HashMap::default(), Vec::new(), Window::default());
        Rc::new(RefCell::new(Self { length_ns, begun, closed, present }))
    }

    fn close(&mut self) {
        let mut window = std::mem::take(&mut self.present);
        if window.reads.count + window.writes.count > 0 {
            window.reads.close();
            window.writes.close();
            self.closed.push(window);
        }
    }

    pub(crate) fn finish(&mut self) -> Vec<Window> {
        self.close();
        std::mem::take(&mut self.closed)
    }

    fn finished(&mut self, now: Time, token: Token) {
        let Some((at, op, bytes)) = self.begun.remove(&token) else { return };
        let start_ns = now.as_nanos() / self.length_ns * self.length_ns;
        if start_ns != self.present.start_ns {
            self.close();
            self.present.start_ns = start_ns;
        }
        self.present.bytes += bytes;
        let latencies = if op == Op::Read { &mut self.present.reads } else { &mut self.present.writes };
        latencies.push(now.since(at).as_nanos());
    }
}

/// The observer of the queue, or of the array.
pub(crate) struct Watcher(pub(crate) Rc<RefCell<Windows>>);

impl Observer for Watcher {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        let mut windows = self.0.borrow_mut();
        match *event {
            Event::Submitted { token, op, sectors, .. } if op != Op::Flush => {
                let bytes = u64::from(sectors.0) * SECTOR_BYTES;
                windows.begun.insert(token, (now, op, bytes));
            }
            Event::Finished(token, _) => windows.finished(now, token),
            _ => {}
        }
    }
}
