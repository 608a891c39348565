//! The queue of an array's member: what the coordinator says to its scheduler and hears from it.

use super::{Observer, Queue};
use crate::array::{Directive, Report};
use crate::request::RequestId;
use crate::scheduler::{Device, Positioning, View};
use crate::time::Time;

impl<O: Observer> Queue<O> {
    /// The coordinator tells the scheduler something; ask for the next step again.
    pub fn direct(&mut self, now: Time, directive: Directive) {
        let view = View { requests: &self.requests, device: self.device(None) };
        self.scheduler.directed(now, &view, directive);
    }

    /// The next thing that the scheduler has to tell the coordinator.
    pub fn report(&mut self) -> Option<Report> {
        self.scheduler.report()
    }

    /// What the scheduler would send if it never waited.
    pub fn selected(&mut self, now: Time, positioning: Option<&dyn Positioning>) -> Option<RequestId> {
        let device = self.device(positioning);
        self.scheduler.selected(now, &View { requests: &self.requests, device })
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
