//! Stream scheduling on a member of an array: what the coordinator directs, and what it is told.

use elevator::array::{Directive, Report};
use elevator::{Decision, Reason, RequestId, Time, View};

use super::{Served, StreamId, StreamScheduling};

/// What the coordinator has said, as far as it still matters.
#[derive(Clone, Copy, Default)]
pub(super) struct Direction {
    /// Goes at once.
    pub(super) urgent: Option<RequestId>,
    /// Its stream is adopted when it is dispatched.
    adopts: Option<RequestId>,
    /// The stream to serve, and until when.
    adopted: Option<Served>,
    /// What the coordinator has not been told yet.
    report: Option<Report>,
}

impl Direction {
    /// Until when the coordinator wants the stream served, if it does.
    pub(super) fn slice_of(&self, stream: StreamId) -> Option<Time> {
        self.adopted.filter(|adopted| adopted.stream == stream).map(|adopted| adopted.until)
    }

    /// A request's place was taken by one that absorbed it.
    pub(super) fn absorbed(&mut self, absorbed: RequestId, by: RequestId) {
        for named in [&mut self.urgent, &mut self.adopts] {
            if *named == Some(absorbed) {
                *named = Some(by);
            }
        }
    }

    /// The request leaves the queue; whether its stream is to be adopted.
    pub(super) fn dispatched(&mut self, id: RequestId) -> bool {
        self.urgent.take_if(|urgent| *urgent == id);
        self.adopts.take_if(|adopts| *adopts == id).is_some()
    }

    /// The stream is gone for good.
    pub(super) fn aborted(&mut self, stream: StreamId) {
        if self.adopted.take_if(|adopted| adopted.stream == stream).is_some() {
            self.report = Some(Report::Broken);
        }
    }

    /// The stream's slice is over, which is no fault of its own.
    pub(super) fn slice_over(&mut self, stream: StreamId) {
        self.adopted.take_if(|adopted| adopted.stream == stream);
    }
}

impl StreamScheduling {
    pub(super) fn heed(&mut self, now: Time, directive: Directive) {
        match directive {
            Directive::Urgent(id) => self.direction.urgent = Some(id),
            Directive::Adopt(id) => {
                self.direction.adopted = None;
                self.direction.adopts = Some(id);
            }
            Directive::Slice(until) => {
                self.direction.adopts.take_if(|_| until <= now);
                let Some(adopted) = &mut self.direction.adopted else { return };
                adopted.until = until;
                if let Some(served) = &mut self.served
                    && served.stream == adopted.stream
                {
                    served.until = until;
                }
                if until <= now {
                    self.direction.adopted = None;
                }
            }
        }
    }

    pub(super) fn tell(&mut self) -> Option<Report> {
        self.direction.report.take()
    }

    /// The coordinator's urgent request, if there is one.
    pub(super) fn urgent(&mut self, now: Time, view: &View<'_>) -> Option<Decision> {
        let id = self.direction.urgent.take()?;
        if self.stood_back.contains(&id) {
            self.step_forward(now, view);
        }
        Some(self.dispatch(now, view, id, Reason::Urgent))
    }

    /// From now on the stream counts as established. Until the coordinator says more, it has the member's own slice.
    pub(super) fn adopt(&mut self, now: Time, id: StreamId) {
        let threshold = self.tunables.stream_threshold;
        let stream = self.stream_mut(id);
        stream.length = stream.length.max(threshold);
        let until = now + self.tunables.stream_time_slice;
        self.direction.adopted = Some(Served { stream: id, until });
        self.direction.report = Some(Report::Established);
        self.served = None;
    }
}
