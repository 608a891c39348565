//! Stream scheduling on a member of an array: directives from the coordinator, and reports to it.

use elevator::array::{Directive, Report};
use elevator::{Decision, Hold, HoldReason, Reason, Request, RequestId, Span, Time, View, Wake};

use super::{NO_STREAM, Stream, StreamId, StreamScheduling};

/// How long bringing all heads to a stream may take: four slices, at most the longest slice that can be set. Each member must
/// first finish its device's requests, which may be a full device queue; between streams it takes one seek.
pub(crate) fn gathering_time(slice: Span) -> Span {
    (slice * 4).min(Span::from_secs(5))
}

/// The stream that the member serves on behalf of the coordinator.
#[derive(Clone, Copy)]
struct Adopted {
    stream: StreamId,
    /// The end of its service: the array's slice, or the member's own before that has begun.
    until: Time,
    /// Not all members' heads have arrived. Until then the stream cannot break, because its next request depends on the other
    /// members.
    awaits_others: bool,
}

/// The coordinator's directives, as far as they still apply.
#[derive(Clone, Copy, Default)]
pub(super) struct Directives {
    /// Dispatched at once.
    urgent: Option<RequestId>,
    /// Adopted when one of its requests is dispatched.
    called: Option<StreamId>,
    /// When this request has completed, the head is at the adopted stream.
    brings: Option<RequestId>,
    adopted: Option<Adopted>,
    /// No stream may be served.
    is_off: bool,
    /// A report that the coordinator has not collected yet.
    report: Option<Report>,
}

impl Directives {
    /// Whether the coordinator forbids serving streams.
    pub(super) const fn is_off(&self) -> bool {
        self.is_off
    }

    /// The end of the stream's slice, if the coordinator directed the member to serve it.
    pub(super) fn slice_of(&self, stream: StreamId) -> Option<Time> {
        self.adopted.filter(|adopted| adopted.stream == stream).map(|adopted| adopted.until)
    }

    /// A request was absorbed by another one.
    pub(super) fn absorbed(&mut self, absorbed: RequestId, by: RequestId) {
        if self.urgent == Some(absorbed) {
            self.urgent = Some(by);
        }
    }

    /// A request leaves the queue; returns whether its stream is to be adopted now.
    pub(super) fn dispatched(&mut self, id: RequestId, stream: StreamId) -> bool {
        self.urgent.take_if(|urgent| *urgent == id);
        self.called.take_if(|called| *called == stream).is_some()
    }

    /// A request has completed.
    pub(super) fn completed(&mut self, id: RequestId) {
        if self.brings.take_if(|brings| *brings == id).is_some() && self.adopted.is_some() {
            self.report = Some(Report::Established);
        }
    }

    /// Whether the stream's deadline is suspended.
    pub(super) fn is_patient(&self, now: Time, stream: StreamId) -> bool {
        self.adopted
            .is_some_and(|adopted| adopted.stream == stream && adopted.awaits_others && now < adopted.until)
    }

    /// The stream was removed.
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
            Directive::Waiting(waits) => {
                self.directives.is_off = !waits;
                self.served = None;
            }
        }
    }

    /// The request belongs to the stream to adopt, whatever stream it was in.
    fn call(&mut self, request: &Request) {
        let was = self.stream_of[request.id];
        let gathering = self.directives.adopted.filter(|adopted| adopted.awaits_others);
        let called = self.directives.called.or(gathering.map(|adopted| adopted.stream));
        let Some(called) = called else {
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
        let Some(adopted) = &mut self.directives.adopted else { return };
        adopted.until = until;
        adopted.awaits_others = false;
        let id = adopted.stream;
        if let Some(served) = self.served.as_mut().filter(|served| served.stream == id) {
            served.until = until;
        }
        self.renew(now, id);
    }

    fn end_slice(&mut self, now: Time) {
        (self.directives.urgent, self.directives.called) = (None, None);
        let Some(Adopted { stream, .. }) = self.directives.adopted.take() else { return };
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

    /// The wait for the stream's next request begins now.
    pub(super) fn renew(&mut self, now: Time, id: StreamId) {
        let stream = self.stream(id);
        if stream.is_parent_to_be && !stream.is_early() && !self.waits_at_no_cost(id) {
            let budget = stream.budget;
            self.expect_child(id, now, budget);
        }
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
        let until = now + gathering_time(self.tunables.stream_time_slice);
        self.directives.adopted = Some(Adopted { stream: id, until, awaits_others: true });
        self.directives.brings = Some(request);
        self.served = None;
    }
}
