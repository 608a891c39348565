//! The tuner's input from a modelled queue: accesses as they were submitted, above the scheduler, and their completions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use elevator::queue::{Event, Observer, Token};
use elevator::{Op, Outcome, Span, Time};
use tuner::{Access, Completion, Performance, Tally, Window};

#[derive(Default)]
struct Seen {
    accesses: Vec<Access>,
    unfinished: HashMap<Token, (Access, bool, Option<u64>)>,
    tally: Tally,
    drained: Option<Span>,
}

/// Observes a queue; clones share what was observed.
#[derive(Clone, Default)]
pub struct Watch(Rc<RefCell<Seen>>);

impl Watch {
    /// The observations since the previous call, as the window of `length` that ends at `end`; and how long a switch drained the queue.
    pub fn take(&self, end: Time, length: Span) -> (Window, Performance, Option<Span>) {
        let mut seen = self.0.borrow_mut();
        let accesses = std::mem::take(&mut seen.accesses);
        let start = Time::from_nanos(end.as_nanos().saturating_sub(length.as_nanos()));
        (Window { start, length, accesses }, seen.tally.finish(length), seen.drained.take())
    }
}

impl Watch {
    /// The same, but the observations stay for the next call.
    pub fn so_far(&self, end: Time, length: Span) -> (Window, Performance) {
        let seen = self.0.borrow();
        let start = Time::from_nanos(end.as_nanos().saturating_sub(length.as_nanos()));
        (Window { start, length, accesses: seen.accesses.clone() }, seen.tally.clone().finish(length))
    }
}

impl Observer for Watch {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        let mut seen = self.0.borrow_mut();
        match *event {
            Event::Submitted { token, op, start, sectors, flags, process, .. } => {
                let access = Access { time: now, position: start, op, size: sectors };
                seen.accesses.push(access);
                let party = process.map(|process| u64::from(process.group));
                seen.unfinished.insert(token, (access, flags.sync, party));
            }
            Event::Finished(token, outcome) => {
                let Some((access, sync, party)) = seen.unfinished.remove(&token) else { return };
                if outcome == Outcome::Done && access.op != Op::Flush {
                    let latency = now.since(access.time);
                    seen.tally.add(Completion { op: access.op, sync, size: access.size, latency, party });
                }
            }
            Event::Switched(report) => seen.drained = Some(report.drained_for),
            _ => {}
        }
    }
}
