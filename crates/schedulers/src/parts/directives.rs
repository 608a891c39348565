//! An array coordinator's directives to a member, as far as they still apply.

use elevator::array::Report;
use elevator::{RequestId, Span, Time};

/// How long bringing all heads to a stream may take: four slices, at most the longest slice that can be set. Each member must
/// first finish its device's requests, which may be a full device queue; between streams it takes one seek.
pub(crate) fn gathering_time(slice: Span) -> Span {
    (slice * 4).min(Span::from_secs(5))
}

/// The stream that the member serves on behalf of the coordinator.
#[derive(Clone, Copy)]
pub(crate) struct Adopted<S> {
    pub(crate) stream: S,
    /// The end of its service: the array's slice, or the time for gathering the heads before that has begun.
    pub(crate) until: Time,
    /// Not all members' heads have arrived. Until then the stream cannot break, because its next request depends on the other
    /// members.
    pub(crate) awaits_others: bool,
}

/// The directives to a policy whose streams have numbers of this type.
#[derive(Clone, Copy)]
pub(crate) struct Directives<S> {
    /// Dispatched at once.
    pub(crate) urgent: Option<RequestId>,
    /// The stream to adopt.
    pub(crate) called: Option<S>,
    /// When this request has completed, the head is at the adopted stream.
    pub(crate) brings: Option<RequestId>,
    pub(crate) adopted: Option<Adopted<S>>,
    /// No stream may be served.
    pub(crate) is_off: bool,
    /// A report that the coordinator has not collected yet.
    pub(crate) report: Option<Report>,
}

impl<S> Default for Directives<S> {
    fn default() -> Self {
        Self { urgent: None, called: None, brings: None, adopted: None, is_off: false, report: None }
    }
}

impl<S: Copy + PartialEq> Directives<S> {
    /// The stream, if the coordinator directed the member to serve it.
    pub(crate) fn adopted(&self, stream: S) -> Option<Adopted<S>> {
        self.adopted.filter(|adopted| adopted.stream == stream)
    }

    /// The end of the stream's slice, if the coordinator directed the member to serve it.
    pub(crate) fn slice_of(&self, stream: S) -> Option<Time> {
        self.adopted(stream).map(|adopted| adopted.until)
    }

    /// The stream that further requests of the coordinator's stream belong to, until all heads have arrived.
    pub(crate) fn gathering(&self) -> Option<S> {
        let adopted = self.adopted.filter(|adopted| adopted.awaits_others);
        self.called.or(adopted.map(|adopted| adopted.stream))
    }

    /// The member serves the stream from now on; with `request` the head reaches it.
    pub(crate) fn adopt(&mut self, now: Time, stream: S, slice: Span) {
        self.adopted = Some(Adopted { stream, until: now + gathering_time(slice), awaits_others: true });
    }

    /// All heads have arrived: the adopted stream's slice begins. Returns the stream.
    pub(crate) fn begin_slice(&mut self, until: Time) -> Option<S> {
        let adopted = self.adopted.as_mut()?;
        (adopted.until, adopted.awaits_others) = (until, false);
        Some(adopted.stream)
    }

    /// The service ends, and what has not begun will not. Returns the adopted stream.
    pub(crate) fn end(&mut self) -> Option<S> {
        (self.urgent, self.called) = (None, None);
        self.adopted.take().map(|adopted| adopted.stream)
    }

    /// A request was absorbed by another one.
    pub(crate) fn absorbed(&mut self, absorbed: RequestId, by: RequestId) {
        if self.urgent == Some(absorbed) {
            self.urgent = Some(by);
        }
    }

    /// A request has completed: whether it brought the head to the stream.
    pub(crate) fn has_brought(&mut self, id: RequestId) -> bool {
        self.brings.take_if(|brings| *brings == id).is_some()
    }
}
