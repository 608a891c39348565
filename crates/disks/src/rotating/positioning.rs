//! How long it takes to get to a request, and what of a place and beyond can be reached within a time.

use elevator::{Angles, Op, Positioning, Request, Sector, Span, Time};

use super::Rotating;
use super::segment::{Segment, State};

impl Positioning for Rotating {
    /// Nothing for a read that the buffer answers or a flush; else the arm's move and the wait after it, from where
    /// the head is or, while the arm has work, from where it goes.
    fn positioning_time(&self, now: Time, request: &Request) -> Span {
        let sector = request.start.0;
        if sector >= self.layout.capacity() || matches!(request.op, Op::Flush | Op::Discard) {
            return Span::ZERO;
        }
        let (end, write) = (request.end().0, request.op == Op::Write);
        if !write && self.segments.all().iter().any(|s| self.answers(s, sector, end)) {
            return Span::ZERO;
        }
        let now = self.picos_of(now).max(self.arm_free_at);
        Span::from_nanos(self.positioning_picos(now, sector, write).div_ceil(1000))
    }

    fn angle(&self, sector: Sector) -> u32 {
        self.layout.stretch(self.existing(sector)).spot.angle
    }

    fn reached_at_or_above(&self, now: Time, sector: Sector, within: Span) -> Option<Angles> {
        self.reached(now, within, |head| self.plain_cylinder(sector).saturating_sub(head))
    }

    fn reached_at_or_below(&self, now: Time, sector: Sector, within: Span) -> Option<Angles> {
        self.reached(now, within, |head| head.saturating_sub(self.plain_cylinder(sector)))
    }

    fn buffered(&self, n: usize) -> Option<(Sector, Sector)> {
        self.segments.all().get(n).map(|s| (Sector(s.start), Sector(s.end)))
    }
}

impl Rotating {
    /// What passes under the head between the least move of the arm over so many cylinders from the head's, or more, and
    /// `within`.
    fn reached(&self, now: Time, within: Span, distance: impl Fn(u32) -> u32) -> Option<Angles> {
        let now = self.picos_of(now).max(self.arm_free_at);
        let head = self.head_at(now);
        let cylinders = distance(head.cylinder).saturating_sub(self.layout.farthest_moved());
        let least = self.mechanics.least_seek(cylinders);
        let rest = within.as_nanos().saturating_mul(1000).checked_sub(least)?;
        let landed_at = head.angle_at(&self.mechanics, self.begins(now, &head) + least);
        Some(self.mechanics.passing(landed_at, rest))
    }

    fn plain_cylinder(&self, sector: Sector) -> u32 {
        self.layout.plain_cylinder(self.existing(sector))
    }

    fn existing(&self, sector: Sector) -> u64 {
        sector.0.min(self.layout.capacity() - 1)
    }

    fn answers(&self, s: &Segment, sector: u64, end: u64) -> bool {
        let allowed = self.buffer.read_hits_on_writes || !s.written;
        s.state != State::Empty && allowed && s.holds(sector) && end <= s.end
    }
}
