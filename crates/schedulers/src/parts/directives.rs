//! An array coordinator's directives to a member, as far as they still apply.

use alloc::vec::Vec;

use elevator::array::Report;
use elevator::{RequestId, Span, Time};

/// How long bringing all heads to a stream may take: four slices, at most the longest slice that can be set. Each member must
/// first finish its device's requests, which may be a full device queue; a change of streams otherwise takes one seek.
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
pub(crate) struct Directives<S> {
    /// Dispatched as soon as the device has no request of another stream.
    pub(crate) urgent: Option<RequestId>,
    /// The stream to adopt.
    pub(crate) called: Option<S>,
    /// When this request has completed, the head is at the adopted stream.
    pub(crate) brings: Option<RequestId>,
    pub(crate) adopted: Option<Adopted<S>>,
    /// Queued requests of the array's own traffic, which interrupt the service of a stream.
    passing: Vec<RequestId>,
    /// Those in the device, and since when.
    passed: Vec<(RequestId, Time)>,
    /// Until when the adopted stream's next request may be late because of them.
    late_until: Time,
    /// No stream may be served.
    pub(crate) is_off: bool,
    /// A report that the coordinator has not collected yet.
    pub(crate) report: Option<Report>,
}

impl<S> Default for Directives<S> {
    fn default() -> Self {
        Self {
            urgent: None,
            called: None,
            brings: None,
            adopted: None,
            passing: Vec::new(),
            passed: Vec::new(),
            late_until: Time::ZERO,
            is_off: false,
            report: None,
        }
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

    /// Until all heads have arrived: the member's stream to which further requests that the coordinator names are added.
    pub(crate) fn gathering(&self) -> Option<S> {
        let adopted = self.adopted.filter(|adopted| adopted.awaits_others);
        self.called.or(adopted.map(|adopted| adopted.stream))
    }

    /// Makes the member serve the stream from now on.
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
        if self.takes_back(absorbed) {
            self.pass(by);
        }
    }

    pub(crate) fn pass(&mut self, id: RequestId) {
        if !self.passing.contains(&id) {
            self.passing.push(id);
        }
    }

    fn takes_back(&mut self, id: RequestId) -> bool {
        let place = self.passing.iter().position(|&passing| passing == id);
        place.map(|place| self.passing.remove(place)).is_some()
    }

    /// A request goes to the device.
    pub(crate) fn leaves(&mut self, now: Time, id: RequestId) {
        if self.takes_back(id) {
            self.passed.push((id, now));
        }
    }

    /// A request has left the device. The stream's next request may need other members, whose heads are still away: after one that passes it is
    /// expected for another two of the longest positioning times.
    pub(crate) fn has_left(&mut self, now: Time, id: RequestId, longest: Span) {
        if let Some(place) = self.passed.iter().position(|passed| passed.0 == id) {
            self.passed.swap_remove(place);
            self.late_until = now + longest * 2;
        }
    }

    /// The next request that is to pass.
    pub(crate) fn next_to_pass(&self) -> Option<RequestId> {
        self.passing.first().copied()
    }

    /// Whether the stream in service is, or was just now, interrupted.
    pub(crate) fn is_interrupted(&self, now: Time) -> bool {
        !self.passing.is_empty() || !self.passed.is_empty() || now < self.late_until
    }

    /// Whether a request that passes has been in the device for longer than a positioning time takes: the device's own scheduler prefers others,
    /// and must get no more of them.
    pub(crate) fn is_neglected(&self, now: Time, longest: Span) -> bool {
        self.passed.iter().any(|&(_, since)| now >= since + longest)
    }

    /// A request has completed: whether it brought the head to the stream.
    pub(crate) fn has_brought(&mut self, id: RequestId) -> bool {
        self.brings.take_if(|brings| *brings == id).is_some()
    }
}
