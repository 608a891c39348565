//! A member of an array: directives from the coordinator, and reports to it.
//!
//! The coordinator chooses a stream of the array. The member dispatches the stream's next request at once (*urgent*) and *adopts* the flow
//! of that request: it is the owner of the disk until the array's slice ends, and only real-time requests and, if it is heavy,
//! scattered ones interrupt it. Its next request depends on all members, so a wait is limited by the cost of leaving the flow alone.

use elevator::array::{ArrayMember, Directive, Report};
use elevator::{Decision, HoldReason, Reason, Request, RequestId, Span, Time, View, Wake};

use super::flows::{FlowId, REAL_TIME, SCATTERED, is_stream};
use super::{Dwell, hold};
use crate::parts::directives::Adopted;

/// The longest wait for an adopted flow, in percent of the cost of leaving it: if the disk left, all members would lose the stream.
const PATIENCE: u64 = 150;

impl Dwell {
    /// The request belongs to the flow to adopt, whichever it continues.
    fn call(&mut self, now: Time, request: &Request) {
        // Otherwise it is over, and its place is free for another one.
        let called = self.directives.gathering().filter(|&flow| self.flows.is_used(flow));
        let track = self.stored[request.id].track;
        if called.is_none() {
            self.directives.adopted = None;
            if !is_stream(track) {
                return;
            }
            self.flows.establish(track, self.tunables.stream_threshold);
            self.directives.called = Some(track);
        }
        self.requeue(now, request, called.unwrap_or(track));
    }

    /// Moves a queued request to a stream's queue.
    fn requeue(&mut self, now: Time, request: &Request, flow: FlowId) {
        let stored = self.stored[request.id];
        let was = stored.flow;
        if was == flow || stored.is_async || was == REAL_TIME {
            return;
        }
        self.index.remove_key(Self::key(was, request.start, request.serial));
        self.by_flow.remove(&mut self.flows.get_mut(was).queued, request.id);
        self.flows.requeued(was);
        if was != stored.track {
            self.flows.ended(now, was, self.tunables.stream_threshold);
        }
        if flow != stored.track {
            self.flows.joins(now, request, flow, &self.service_times);
        }
        self.stored[request.id].flow = flow;
        self.index.insert_key(Self::key(flow, request.start, request.serial), request.id);
        self.by_flow.push_back(&mut self.flows.get_mut(flow).queued, request.id);
        self.flows.requeued(flow);
    }

    /// The array's service of the adopted flow ends.
    fn release(&mut self) {
        if let Some(Adopted { stream, .. }) = self.directives.adopted.take() {
            self.owner.take_if(|owner| owner.flow == stream);
        }
    }

    /// The decision for the coordinator's urgent request, if there is one. What the device already has goes first, or the device's own
    /// queue would move the head away again.
    pub(super) fn urgent(&mut self, now: Time, view: &View<'_>) -> Option<Decision> {
        let id = self.directives.urgent?;
        let own = self.flows.get(self.stored[id].flow).in_device;
        if self.gains.in_device() > own {
            return Some(hold(None, Wake::Completion, HoldReason::Directed));
        }
        self.own(now, self.stored[id].flow, view);
        Some(self.dispatch(now, view, id, Reason::Urgent))
    }

    /// The decision for a request that interrupts the array's service, if there is one.
    pub(super) fn pass(&mut self, now: Time, view: &View<'_>) -> Option<Decision> {
        if self.directives.is_neglected(now, self.service_times.longest()) {
            return Some(hold(None, Wake::Completion, HoldReason::Directed));
        }
        let id = self.directives.next_to_pass()?;
        self.own(now, self.stored[id].flow, view);
        Some(self.dispatch(now, view, id, Reason::Urgent))
    }

    /// A request is dispatched: with the urgent one the member adopts its flow.
    pub(super) fn directed_dispatch(&mut self, now: Time, id: RequestId) {
        self.directives.leaves(now, id);
        if self.directives.urgent.take_if(|urgent| *urgent == id).is_none() {
            return;
        }
        self.directives.brings = Some(id);
        if let Some(flow) = self.directives.called.take() {
            self.directives.adopt(now, flow, self.tunables.stream_slice);
        }
    }

    /// The adopted flow owns the disk again after an interruption, or loses it at the end of its slice.
    pub(super) fn resume_adopted(&mut self, now: Time, view: &View<'_>) {
        let Some(Adopted { stream: flow, until, .. }) = self.directives.adopted else { return };
        if now >= until {
            self.release();
            return;
        }
        let scattered = !self.is_light(now, flow) && !self.shares.is_exhausted;
        let interrupts = |&other: &FlowId| !self.flows.get(other).queued.is_empty();
        let first = [REAL_TIME, SCATTERED].into_iter().take(if scattered { 2 } else { 1 }).find(interrupts);
        let next = first.unwrap_or(flow);
        if self.owner.is_none_or(|owner| owner.flow != next) {
            self.own(now, next, view);
        }
    }

    /// The wait for the next request of an adopted flow. Outside: the owner is no adopted flow.
    pub(super) fn wait_adopted(
        &mut self,
        now: Time,
        view: &View<'_>,
        owner: FlowId,
        other: FlowId,
    ) -> Option<Option<Decision>> {
        let adopted = self.directives.adopted(owner)?;
        let flow = self.flows.get(owner);
        if flow.in_device > 0 {
            return Some(Some(hold(None, Wake::Completion, HoldReason::AwaitCompletion)));
        }
        if adopted.awaits_others || self.directives.is_interrupted(now) {
            return Some(Some(hold(Some(adopted.until), Wake::Timer, HoldReason::Directed)));
        }
        let cost = self.next_of(other).map(|id| self.time_elsewhere(&view.requests[id]));
        let longest = cost.unwrap_or(Span::ZERO).min(self.tunables.wait_max) * PATIENCE / 100;
        let until = flow.idle_since.max(self.slice_since) + longest;
        if until <= now {
            self.flows.get_mut(owner).missed();
            self.directives.adopted = None;
            self.directives.report = Some(Report::Broken);
            return Some(None);
        }
        self.flows.get_mut(owner).waits();
        Some(Some(hold(Some(until.min(adopted.until)), Wake::Timer, HoldReason::AwaitChild)))
    }
}

impl ArrayMember for Dwell {
    fn selected(&mut self, now: Time, view: &View<'_>) -> Option<RequestId> {
        self.choose(now, view, None).and_then(|flow| self.next_of(flow))
    }

    fn directed(&mut self, now: Time, view: &View<'_>, directive: Directive) {
        match directive {
            Directive::Urgent(id) => self.directives.urgent = Some(id),
            Directive::Adopt(id) => self.call(now, &view.requests[id]),
            Directive::Slice(until) if until <= now => {
                self.release();
                self.directives.end();
            }
            Directive::Slice(until) => {
                if self.directives.begin_slice(until).is_some() {
                    self.slice_since = now;
                }
            }
            Directive::Pass(id) => self.directives.pass(id),
            Directive::Waiting(waits) => {
                self.directives.is_off = !waits;
                self.release();
            }
        }
    }

    fn report(&mut self) -> Option<Report> {
        self.directives.report.take()
    }
}
