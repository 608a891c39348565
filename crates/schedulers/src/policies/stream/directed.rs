//! Stream scheduling on a member of an array: directives from the coordinator, and reports to it.

use elevator::array::{Directive, Report};
use elevator::{Candidate, Decision, Hold, HoldReason, Reason, Request, RequestId, Span, Time, View, Wake};

use super::{NO_STREAM, Stream, StreamId, StreamScheduling};
use crate::parts::directives::{Adopted, Directives};

impl Directives<StreamId> {
    /// A request leaves the queue; returns whether its stream is to be adopted now.
    pub(super) fn dispatched(&mut self, now: Time, id: RequestId, stream: StreamId) -> bool {
        self.urgent.take_if(|urgent| *urgent == id);
        self.leaves(now, id);
        self.called.take_if(|called| *called == stream).is_some()
    }

    /// A request has completed.
    pub(super) fn completed(&mut self, now: Time, id: RequestId, longest: Span) {
        self.has_left(now, id, longest);
        if self.has_brought(id) && self.adopted.is_some() {
            self.report = Some(Report::Established);
        }
    }

    /// Whether the stream's deadline is suspended.
    pub(super) fn is_patient(&self, now: Time, stream: StreamId) -> bool {
        let awaits = |adopted: Adopted<_>| adopted.awaits_others || self.is_interrupted(now);
        self.adopted(stream).is_some_and(|adopted| now < adopted.until && awaits(adopted))
    }

    /// Reports the stream as broken, if the coordinator directed it: it was removed.
    pub(super) fn aborted(&mut self, stream: StreamId) {
        self.called.take_if(|called| *called == stream);
        if self.adopted.take_if(|adopted| adopted.stream == stream).is_some() {
            self.report = Some(Report::Broken);
        }
    }

    /// The stream's slice is over; this is not a break.
    pub(super) fn slice_over(&mut self, stream: StreamId) {
        self.adopted.take_if(|adopted| adopted.stream == stream);
    }
}

impl StreamScheduling {
    pub(super) fn apply(&mut self, now: Time, view: &View<'_>, directive: Directive) {
        // A directive may give another slice to requests that stood back.
        self.step_forward(now, view);
        match directive {
            Directive::Urgent(id) => self.directives.urgent = Some(id),
            Directive::Adopt(id) => self.call(&view.requests[id]),
            Directive::Slice(until) if until <= now => self.end_slice(now),
            Directive::Slice(until) => self.begin_slice(now, until),
            Directive::Pass(id) => self.directives.pass(id),
            Directive::Waiting(waits) => {
                self.directives.is_off = !waits;
                self.served = None;
            }
        }
    }

    /// Moves the request to the stream to adopt, whatever stream it was in.
    fn call(&mut self, request: &Request) {
        let was = self.stream_of[request.id];
        let Some(called) = self.directives.gathering() else {
            self.directives.adopted = None;
            if was == NO_STREAM {
                let fresh = Stream { budget: self.latest_budget, ..Stream::default() };
                let called = self.new_stream(fresh);
                self.extend(called, request);
            }
            self.directives.called = Some(self.stream_of[request.id]);
            return;
        };
        if was == called {
            return;
        }
        if was != NO_STREAM {
            self.links.remove(&mut self.streams[was as usize].queued, request.id);
            self.abort_if_over(was);
        }
        self.extend(called, request);
    }

    fn begin_slice(&mut self, now: Time, until: Time) {
        let Some(id) = self.directives.begin_slice(until) else { return };
        if let Some(served) = self.served.as_mut().filter(|served| served.stream == id) {
            served.until = until;
        }
        self.renew(now, id);
    }

    fn end_slice(&mut self, now: Time) {
        let Some(stream) = self.directives.end() else { return };
        if let Some(served) = self.served.as_mut().filter(|served| served.stream == stream) {
            served.until = now;
        }
    }

    pub(super) fn accepts_late_children(&self, id: StreamId) -> bool {
        self.tunables.late_child && self.directives.slice_of(id).is_some()
    }

    /// Whether the disk serves the stream for the coordinator and has waited for its next request while no other one was pending.
    pub(super) fn waits_at_no_cost(&self, id: StreamId) -> bool {
        self.stream(id).is_undecided && self.accepts_late_children(id)
    }

    /// Restarts the wait for the stream's next request.
    pub(super) fn renew(&mut self, now: Time, id: StreamId) {
        let stream = self.stream(id);
        if stream.is_parent_to_be && !stream.is_early() && !self.waits_at_no_cost(id) {
            let budget = stream.budget;
            self.expect_child(id, now, budget);
        }
    }

    /// The decision for a request of the array's own traffic that interrupts the slice, if there is one.
    pub(super) fn pass(&mut self, now: Time, view: &View<'_>) -> Option<Decision> {
        if self.directives.is_neglected(now, self.service_times.longest()) {
            let hold = Hold { until: None, wake: Wake::Completion, reason: HoldReason::Directed };
            return Some(Decision::Hold(hold));
        }
        let id = self.directives.next_to_pass()?;
        let passing = Candidate { id, urgent: true, reason: Reason::Urgent };
        Some(self.suspend_service(now, view, passing))
    }

    pub(super) fn take_report(&mut self) -> Option<Report> {
        self.directives.report.take()
    }

    /// The decision for the coordinator's urgent request, if there is one. Requests that the device already has go first;
    /// otherwise the device's own queue would move the head away again.
    pub(super) fn urgent(&mut self, now: Time, view: &View<'_>) -> Option<Decision> {
        let id = self.directives.urgent?;
        let stream = self.stream_of[id];
        if self.in_device.iter().any(|other| other.stream != stream) {
            let hold = Hold { until: None, wake: Wake::Completion, reason: HoldReason::Directed };
            return Some(Decision::Hold(hold));
        }
        self.directives.urgent = None;
        if self.stood_back.contains(&id) {
            self.step_forward(now, view);
        }
        Some(self.dispatch(now, view, id, Reason::Urgent))
    }

    /// The stream counts as established from now on. Until the next directive it has the member's own slice.
    pub(super) fn adopt(&mut self, now: Time, id: StreamId, request: RequestId) {
        let threshold = self.tunables.stream_threshold;
        let stream = self.stream_mut(id);
        stream.length = stream.length.max(threshold);
        self.directives.adopt(now, id, self.tunables.stream_time_slice);
        self.directives.brings = Some(request);
        self.served = None;
    }
}
