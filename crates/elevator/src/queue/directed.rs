//! The queue of an array's member: directives to its scheduler, reports from it.

use super::{Observer, Queue};
use crate::array::{Directive, Report};
use crate::request::RequestId;
use crate::time::Time;
use crate::view::{Device, Positioning, View};

impl<O: Observer> Queue<O> {
    /// Passes a directive of the coordinator to the scheduler. The host calls [`next`](Self::next) afterwards.
    pub fn direct(&mut self, now: Time, directive: Directive) {
        let view = View { requests: &self.requests, device: self.device(None) };
        self.hosted.call("directed", |scheduler| {
            if let Some(member) = scheduler.array_member() {
                member.directed(now, &view, directive);
            }
        });
        self.recover(now);
    }

    /// The scheduler's next report for the coordinator. The queue recovers from a panic in this call at its next call with a time.
    pub fn report(&mut self) -> Option<Report> {
        self.hosted.call("report", |scheduler| scheduler.array_member()?.report()).flatten()
    }

    /// The request that the scheduler would dispatch if it never waited; `None` if it is no array member.
    pub fn selected(&mut self, now: Time, positioning: Option<&dyn Positioning>) -> Option<RequestId> {
        let view = View { requests: &self.requests, device: self.device(positioning) };
        let selected = self
            .hosted
            .call("selected", |scheduler| scheduler.array_member()?.selected(now, &view))
            .flatten();
        self.recover(now);
        selected
    }

    fn device<'a>(&self, positioning: Option<&'a dyn Positioning>) -> Device<'a> {
        Device {
            depth: self.options.depth,
            in_flight: self.in_flight,
            last_dispatched: self.last_dispatched,
            positioning,
        }
    }
}
