//! Merging: a submission, or a grown request, is merged into an adjacent queued request.

use super::parts::{Chain, PartId};
use super::{Event, Observer, Queue, State};
use crate::request::{Op, Request, RequestId};
use crate::scheduler::{Growth, Side};
use crate::time::Time;

impl<O: Observer> Queue<O> {
    /// Merges a part into a queued request, if one is adjacent and may grow.
    #[inline]
    pub(super) fn try_merge(&mut self, now: Time, part: PartId) -> bool {
        if self.merges.is_empty() {
            return false;
        }
        let submission = &self.parts.get(part).submission;
        let (op, start, end) = (submission.op, submission.start, submission.start + submission.sectors);
        for side in [Side::Back, Side::Front] {
            if let Some(id) = self.merges.neighbour(op, start, end, side)
                && self.merge(now, id, part, side)
            {
                return true;
            }
        }
        false
    }

    /// Merges a part into the adjacent queued request, if that may grow.
    fn merge(&mut self, now: Time, id: RequestId, part: PartId, side: Side) -> bool {
        let submission = &self.parts.get(part).submission;
        let token = submission.token;
        let (addition, chain) = (submission.as_request(now), Chain::of(part, submission));
        if !self.may_grow(id, &addition, chain, side) {
            return false;
        }
        self.grow(now, id, &addition, chain, side, None);
        self.observer.event(now, &Event::Merged(token, &self.requests[id], side));
        self.absorb_neighbour(now, id, side);
        true
    }

    fn may_grow(&mut self, id: RequestId, addition: &Request, chain: Chain, side: Side) -> bool {
        let request = &self.requests[id];
        let meta = &self.meta[id.index()];
        self.options.merges
            && alike(request, addition)
            && request.sectors.0.saturating_add(addition.sectors.0) <= self.options.max_sectors.0
            && meta.chain.segments + chain.segments <= self.options.max_segments
            && (meta.state == State::Plugged
                || self
                    .hosted
                    .call("may_merge", |scheduler| scheduler.may_merge(request, addition, side))
                    .unwrap_or(false))
    }

    fn grow(
        &mut self,
        now: Time,
        id: RequestId,
        addition: &Request,
        chain: Chain,
        side: Side,
        absorbed: Option<&Request>,
    ) {
        let was = self.requests[id];
        self.merges.remove(&was);
        let meta = &mut self.meta[id.index()];
        let request = self.requests.get_mut(id);
        request.sectors += addition.sectors;
        request.arrived = was.arrived.min(addition.arrived);
        meta.chain = match side {
            Side::Back => self.parts.join(meta.chain, chain),
            Side::Front => {
                request.start = addition.start;
                self.parts.join(chain, meta.chain)
            }
        };
        let request = *request;
        self.merges.add(&request);
        if self.meta[id.index()].state == State::Queued {
            let growth = Growth { was_start: was.start, was_sectors: was.sectors, absorbed };
            self.hosted.call("merged", |scheduler| scheduler.merged(now, &request, growth));
        }
    }

    /// Merges a grown request with a queued neighbour that is now adjacent.
    fn absorb_neighbour(&mut self, now: Time, id: RequestId, side: Side) {
        let request = self.requests[id];
        let Some(other) = self.merges.beyond(&request, side) else { return };
        let (neighbour, meta) = (self.requests[other], self.meta[other.index()]);
        let same_state = self.meta[id.index()].state == meta.state;
        if other == id || !same_state || !self.may_grow(id, &neighbour, meta.chain, side) {
            return;
        }
        self.merges.remove(&neighbour);
        self.grow(now, id, &neighbour, meta.chain, side, Some(&neighbour));
        self.observer.event(now, &Event::Absorbed(&self.requests[id], &neighbour));
        let grown = &mut self.meta[id.index()];
        grown.inserted = grown.inserted.min(meta.inserted);
        grown.inserted_behind = grown.inserted_behind.min(meta.inserted_behind);
        match meta.state {
            State::Queued => self.queued -= 1,
            _ => self.plug.retain(|&plugged| plugged != other),
        }
        self.requests.remove(other);
        self.counts.free(neighbour.direction());
        self.continue_waiting(now);
    }
}

/// Whether requests of these kinds may be merged. As Linux: neither flushes nor forced unit access, and the same priority. In addition the same
/// causes, for split-level policies. Positions are not compared.
fn alike(a: &Request, b: &Request) -> bool {
    let ordered = |r: &Request| r.flags.fua || r.flags.preflush || r.op == Op::Flush;
    a.op == b.op && !ordered(a) && !ordered(b) && a.priority == b.priority && a.causes == b.causes
}
