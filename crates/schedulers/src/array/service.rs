//! The stream that the whole array serves: gathering the heads, the slice, its end, and the choice of the next stream.

use alloc::vec::Vec;

use elevator::array::{Directive, Member};
use elevator::{RequestId, Time};

use super::StreamCoordinator;
use super::trial::Conduct;
use super::virtual_streams::StreamId;
use crate::parts::directives::gathering_time;

/// The progress of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arrival {
    /// It failed; the service does not wait for it.
    Lost,
    /// The stream has no request for it yet.
    Awaited,
    /// The stream's next request to it is urgent.
    Called,
    /// Its head has arrived.
    Established,
}

/// The stream that the array serves.
#[derive(Clone, Debug)]
pub(super) struct Service {
    stream: StreamId,
    /// The slice's end; before all heads have arrived, the time limit for that.
    pub(super) until: Time,
    arrivals: Vec<Arrival>,
}

impl Service {
    pub(super) const fn stream(&self) -> StreamId {
        self.stream
    }

    fn is_complete(&self) -> bool {
        self.arrivals.iter().all(|&arrival| matches!(arrival, Arrival::Established | Arrival::Lost))
    }
}

impl StreamCoordinator {
    fn slice_from(&self, now: Time) -> Time {
        now + self.tunables.stream_time_slice
    }

    fn is_ready(&self, now: Time, stream: StreamId) -> bool {
        let may = !self.worth.is_doubtful(now) || self.streams.has_paid(stream);
        may && self.streams.is_ready(now, stream, &self.tunables)
    }

    /// A stream has grown and may be ready.
    pub(super) fn serve_if_ready(&mut self, now: Time, stream: StreamId) {
        let rests = self.resting.is_some_and(|(resting, until)| resting == stream && now < until);
        let waits = self.trials.conduct() == Conduct::Waits;
        if waits && self.service.is_none() && !rests && self.is_ready(now, stream) {
            self.serve(now, stream);
        }
    }

    /// Advances the trials; their result may change whether the array waits.
    pub(super) fn conduct_trials(&mut self, now: Time) {
        let was = self.trials.conduct();
        self.trials.pass(now, &self.tunables);
        self.take_up(now, was);
    }

    /// Directs the members if the conduct has changed.
    pub(super) fn take_up(&mut self, now: Time, was: Conduct) {
        let conduct = self.trials.conduct();
        if conduct == was {
            return;
        }
        if let Some(service) = self.service.take() {
            self.judge(now, service.stream);
            self.direct_all(Directive::Slice(now));
        }
        self.resting = None;
        self.direct_all(Directive::Waiting(conduct == Conduct::Waits));
    }

    fn serve(&mut self, now: Time, stream: StreamId) {
        let arrival = |&there: &bool| if there { Arrival::Awaited } else { Arrival::Lost };
        let arrivals = self.streams.present().iter().map(arrival).collect();
        let until = now + gathering_time(self.tunables.stream_time_slice);
        self.service = Some(Service { stream, until, arrivals });
        self.resting = None;
        let total = self.trials.total(now);
        self.worth.begins(now, total);
        for member in 0..self.members.len() as u32 {
            self.bring(stream, Member(member));
        }
    }

    /// The stream has a new request for a member. If the member is awaited, the request is urgent, and the member adopts the
    /// stream. While the heads gather, the request belongs to the stream whatever its arrival; afterwards the member decides.
    pub(super) fn has_come(&mut self, stream: StreamId, member: Member, request: RequestId) {
        let Some(service) = self.service.as_ref().filter(|service| service.stream == stream) else { return };
        if service.arrivals[member.index()] == Arrival::Awaited {
            self.bring(stream, member);
        } else if !service.is_complete() {
            self.direct(member, Directive::Adopt(request));
        }
    }

    /// The stream's next request to a member is urgent; the member adopts the stream with all requests queued there.
    fn bring(&mut self, stream: StreamId, member: Member) {
        let Some(service) = &mut self.service else { return };
        let arrival = &mut service.arrivals[member.index()];
        let queued = self.streams.queued(stream, member);
        if let Some(&next) = queued.clone().next() {
            *arrival = Arrival::Called;
            self.directives.push_back((member, Directive::Urgent(next)));
            self.directives.extend(queued.map(|&queued| (member, Directive::Adopt(queued))));
        }
    }

    /// The urgent request of a member had left the queue before the directive arrived: the stream's next one there becomes urgent.
    pub(super) fn call_again(&mut self, member: Member) {
        let Some(service) = &mut self.service else { return };
        let arrival = &mut service.arrivals[member.index()];
        if *arrival == Arrival::Called {
            *arrival = Arrival::Awaited;
            let stream = service.stream;
            self.bring(stream, member);
        }
    }

    /// A member's head has reached the stream. When all have, the slice begins.
    pub(super) fn established(&mut self, now: Time, member: Member) {
        let until = self.slice_from(now);
        let Some(service) = &mut self.service else { return };
        service.arrivals[member.index()] = Arrival::Established;
        if service.is_complete() {
            service.until = until;
            self.streams.served(service.stream);
            self.direct_all(Directive::Slice(until));
        }
    }

    /// A member's physical stream broke: serving this virtual stream does not pay. Whether waiting pays at all is left to the
    /// trials.
    pub(super) fn broken(&mut self, now: Time) {
        if let Some(service) = &self.service {
            self.streams.broke(now, service.stream, &self.tunables);
            self.end_service(now);
            self.trials.begin(now, &self.tunables);
        }
    }

    /// The slice, or the time for gathering the heads, is over.
    pub(super) fn slice_over(&mut self, now: Time) {
        let complete = self.service.as_ref().filter(|service| service.is_complete());
        let complete = complete.map(Service::stream);
        self.end_service(now);
        if let Some(stream) = complete {
            self.streams.served_without_break(now, stream);
        }
    }

    /// While the heads gather: when the stream has had no request for longer than any member waits. Its program has ended, or computes, and the
    /// members hold other programs' requests back. With `retry_slices`, after which the stream is served again.
    pub(super) fn gathers_until(&self) -> Option<Time> {
        let retries = self.tunables.retry_slices > 0;
        let service = self.service.as_ref().filter(|service| retries && !service.is_complete())?;
        let patience = self.service_times.longest().percent(100 + self.tunables.second_chance);
        self.streams.quiet_until(service.stream, patience)
    }

    /// Compares the stream's services with the array's throughput without one.
    fn judge(&mut self, now: Time, stream: StreamId) {
        let total = self.trials.total(now);
        let work = self.worth.ends(now, total);
        let Some(of_stream) = self.streams.work(stream) else { return };
        *of_stream += work;
        if let Some(pays) = self.worth.judge(now, of_stream, &self.tunables) {
            self.streams.judged(now, stream, pays, &self.tunables);
        }
    }

    /// Turns to the ready stream that was not served for longest, if there is another one.
    pub(super) fn end_service(&mut self, now: Time) {
        let Some(Service { stream, .. }) = self.service.take() else { return };
        self.streams.served(stream);
        self.judge(now, stream);
        self.direct_all(Directive::Slice(now));
        let next = self.streams.longest_unserved(stream, |id| self.is_ready(now, id));
        match next {
            Some(next) => self.serve(now, next),
            None => self.resting = Some((stream, self.slice_from(now))),
        }
    }

    fn direct_all(&mut self, directive: Directive) {
        for member in 0..self.members.len() as u32 {
            self.direct(Member(member), directive);
        }
    }
}
