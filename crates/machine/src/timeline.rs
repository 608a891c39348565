//! The picture that explains: where the device was over time, for whom, and when it waited on purpose.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use elevator::queue::{Event, Observer, Token};
use elevator::{Direction, HoldReason, RequestId, Time};
use serde::Serialize;

use crate::waits::{WaitClock, Waited};

/// One request served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// When it went to the device, in nanoseconds.
    pub from_ns: u64,
    /// When it came back.
    pub to_ns: u64,
    /// First sector.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// Whether it wrote.
    pub write: bool,
    /// The issuing task, 0 if unknown.
    pub task: u32,
}

/// One deliberate wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// From then, in nanoseconds.
    pub from_ns: u64,
    /// Until then.
    pub to_ns: u64,
    /// Why.
    #[serde(serialize_with = "as_text")]
    pub reason: HoldReason,
}

fn as_text<S: serde::Serializer>(reason: &HoldReason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.as_str())
}

/// What a picture needs of a run: the first so many requests and waits.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    /// Requests, in order of completion.
    pub points: Vec<Point>,
    /// Waits, in order.
    pub waits: Vec<Wait>,
    /// Whether there was more than it was to keep.
    pub truncated: bool,
}

/// Writes a [`Timeline`] down from a queue's events.
pub struct Recorder {
    timeline: Rc<RefCell<Timeline>>,
    most: usize,
    wait_clock: WaitClock,
    /// The submitting task of each unfinished submission, which schedulers may not be told.
    tasks: HashMap<Token, u32>,
    /// That of each request's first submission.
    carried: HashMap<RequestId, u32>,
}

impl Timeline {
    /// A recorder of at most `most` requests, and the timeline that it fills.
    #[must_use]
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
    /// Keeps track of whose each request is.
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
        if timeline.points.len() >= self.most {
            timeline.truncated = true;
            return;
        }
        if let Some(Waited { from, to, reason }) = waited {
            timeline.waits.push(Wait { from_ns: from.as_nanos(), to_ns: to.as_nanos(), reason });
        }
        if let Event::Completed { request, dispatched, .. } = *event {
            timeline.points.push(Point {
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
