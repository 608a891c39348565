//! The timeline of a run, for plots: where the device was, for which task, and when it waited deliberately.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use elevator::queue::{Event, Observer, Token};
use elevator::{Direction, HoldReason, RequestId, Time};
use serde::Serialize;

use crate::waits::{WaitClock, Waited};

/// A served request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Arrival in the queue, in nanoseconds.
    pub arrived_ns: u64,
    /// Dispatch, in nanoseconds.
    pub from_ns: u64,
    /// Completion, in nanoseconds.
    pub to_ns: u64,
    /// First sector.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// Whether it is a write.
    pub write: bool,
    /// The task that issued it; 0 if unknown.
    pub task: u32,
}

/// A deliberate wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// Begin, in nanoseconds.
    pub from_ns: u64,
    /// End, in nanoseconds.
    pub to_ns: u64,
    #[serde(serialize_with = "as_text")]
    pub reason: HoldReason,
}

fn as_text<S: serde::Serializer>(reason: &HoldReason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.as_str())
}

/// The first requests and waits of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    /// Requests, in order of completion.
    pub points: Vec<Point>,
    /// Waits, in order.
    pub waits: Vec<Wait>,
    /// Whether the run had more requests than were kept.
    pub truncated: bool,
    /// Numbers of all reads and writes with data, also of those that were not kept, by their length rounded up to a power of two.
    #[serde(skip)]
    pub sizes: [BTreeMap<u32, u64>; 2],
}

/// Fills a [`Timeline`] from a queue's events.
pub struct Recorder {
    timeline: Rc<RefCell<Timeline>>,
    most: usize,
    wait_clock: WaitClock,
    /// The task of each unfinished submission. Schedulers may not see it.
    tasks: HashMap<Token, u32>,
    /// The task of each request's first submission.
    carried: HashMap<RequestId, u32>,
}

impl Timeline {
    /// A recorder of at most `most` requests, and its timeline.
    pub fn recorder(most: usize) -> (Recorder, Rc<RefCell<Self>>) {
        let timeline = Rc::new(RefCell::new(Self::default()));
        let recorder = Recorder {
            timeline: Rc::clone(&timeline),
            most,
            wait_clock: WaitClock::default(),
            tasks: HashMap::new(),
            carried: HashMap::new(),
        };
        (recorder, timeline)
    }
}

impl Recorder {
    /// Follows which task each request belongs to.
    fn follow(&mut self, event: &Event<'_>) {
        match *event {
            Event::Submitted { token, process: Some(process), .. } => {
                self.tasks.insert(token, process.task);
            }
            Event::Carried(token, request) => {
                let task = self.tasks.get(&token).copied().unwrap_or_default();
                self.carried.insert(request.id, task);
            }
            Event::Finished(token, _) => {
                self.tasks.remove(&token);
            }
            _ => {}
        }
    }
}

impl Observer for Recorder {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        let waited = self.wait_clock.event(now, event);
        self.follow(event);
        let mut timeline = self.timeline.borrow_mut();
        if let Event::Completed { request, .. } = *event
            && request.sectors.0 > 0
        {
            let sizes = &mut timeline.sizes[request.direction() as usize];
            *sizes.entry(request.sectors.0.next_power_of_two()).or_default() += 1;
        }
        if timeline.points.len() >= self.most {
            timeline.truncated = true;
            return;
        }
        if let Some(Waited { from, to, reason }) = waited {
            timeline.waits.push(Wait { from_ns: from.as_nanos(), to_ns: to.as_nanos(), reason });
        }
        if let Event::Completed { request, dispatched, .. } = *event {
            timeline.points.push(Point {
                arrived_ns: request.arrived.as_nanos(),
                from_ns: dispatched.as_nanos(),
                to_ns: now.as_nanos(),
                sector: request.start.0,
                sectors: request.sectors.0,
                write: request.direction() == Direction::Write,
                task: self.carried.get(&request.id).copied().unwrap_or_default(),
            });
        }
    }
}
