//! The right side of the inequality: service time(selected pending request), which bounds how long a stream's child may take.

use core::mem;

use elevator::{LastDispatched, Request, Sector, Span, Time, View};

use super::{StreamId, StreamScheduling};

impl StreamScheduling {
    /// service time(selected pending request) for a head at the end of the stream's latest request. `None` if only the
    /// stream's own requests are pending.
    fn selected_pending(&self, id: StreamId, candidate: Option<&Request>) -> Option<Span> {
        let disk = self.stream(id).position;
        let candidate = candidate.filter(|request| self.stream_of[request.id] != id);
        let selected = candidate.map(|request| self.service_time(disk, request.start));
        let nearest = self.nearest_in_device(id, disk);
        selected.into_iter().chain(nearest).min()
    }

    /// The nearest request of another stream in the device, which the device's own scheduler would probably serve next.
    fn nearest_in_device(&self, id: StreamId, disk: Sector) -> Option<Span> {
        if !self.tunables.pending_in_device {
            return None;
        }
        let others = self.in_device.iter().filter(|other| other.stream != id);
        others.map(|other| self.service_time(disk, other.start)).min()
    }

    /// Sets the deadlines of the streams whose latest requests have completed.
    pub(super) fn decide(&mut self, now: Time, candidate: Option<&Request>) {
        let mut undecided = mem::take(&mut self.undecided);
        undecided.retain(|&id| !self.decide_for(now, id, candidate));
        self.undecided = undecided;
    }

    /// As [`decide`](Self::decide) for one stream; `true` if a request was pending to compare with.
    fn decide_for(&mut self, now: Time, id: StreamId, candidate: Option<&Request>) -> bool {
        let Some(budget) = self.selected_pending(id, candidate) else { return false };
        self.latest_budget = budget;
        let since = if self.waits_at_no_cost(id) { now } else { self.stream(id).since };
        self.stream_mut(id).is_undecided = false;
        self.expect_child(id, since, budget);
        true
    }

    /// The budget of the stream's latest request need not be determined: it has a child in the device, or can have none.
    pub(super) fn drop_decision(&mut self, id: StreamId) {
        if mem::take(&mut self.stream_mut(id).is_undecided) {
            self.undecided.retain(|&other| other != id);
        }
    }

    /// A request may have children as soon as it is in the device. By the tail rule it counts as completed there.
    pub(super) fn expect_children_of_dispatched(
        &mut self,
        now: Time,
        view: &View<'_>,
        request: &Request,
        id: StreamId,
    ) {
        self.drop_decision(id);
        let selected = if view.device.depth == 1 {
            None // One decision per request suffices: the next one follows when this request has completed.
        } else {
            self.selected_behind(now, view, request, id)
        };
        let stream = self.stream(id);
        let known = if stream.length > 1 { stream.budget } else { self.latest_budget };
        let known =
            if self.accepts_late_children(id) { known.max(self.service_times.longest()) } else { known };
        let budget = selected.unwrap_or(known);
        let tail_rule = view.device.depth > 1 && !self.tunables.pending_in_device;
        self.expect_child(id, if tail_rule { now } else { Time::MAX }, budget);
    }

    /// service time(selected pending request) once `request` is in the device.
    fn selected_behind(
        &mut self,
        now: Time,
        view: &View<'_>,
        request: &Request,
        id: StreamId,
    ) -> Option<Span> {
        let mut after = *view;
        after.device.in_flight += 1;
        after.device.last_dispatched = Some(LastDispatched {
            serial: request.serial,
            start: request.start,
            end: request.end(),
            at: now,
        });
        let candidate = self.policy.candidate(now, &after).map(|candidate| &view.requests[candidate.id]);
        let selected = self.selected_pending(id, candidate)?;
        self.latest_budget = selected;
        Some(selected)
    }
}
