//! Positioning times, bounds on them, and ideal times.

use elevator::{Angles, Op, Positioning, Request, Sector, Sectors, Span, Time};

use super::Rotating;
use super::segment::{Segment, State};
use crate::drive::{Gap, Ideal};
use crate::layout::PhysicalSector;
use crate::mechanics::Picos;
use crate::parameters::{FastWrite, ReadAhead};

impl Positioning for Rotating {
    /// 0 for a flush and for a read that the buffer answers; otherwise seek and rotation, from the head's position or, while the arm
    /// is busy, from its destination.
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
    /// The angles that pass under the head from the end of the shortest move over that many cylinders or more until `within`.
    fn reached(&self, now: Time, within: Span, distance: impl Fn(u32) -> u32) -> Option<Angles> {
        let now = self.picos_of(now).max(self.arm_free_at);
        let head = self.head_at(now);
        let cylinders = distance(head.cylinder).saturating_sub(self.layout.farthest_moved());
        let least = self.mechanics.least_seek(cylinders);
        let rest = within.as_nanos().saturating_mul(1000).checked_sub(least)?;
        let landed_at = head.angle_at(&self.mechanics, self.begins(now, &head) + least);
        Some(self.mechanics.angles_within(landed_at, rest))
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

impl Ideal for Rotating {
    fn least_seek(&self, from: Sector, to: Sector) -> Span {
        let last = self.layout.capacity() - 1;
        let before = self.layout.stretch(from.0.saturating_sub(1).min(last));
        let after = self.layout.stretch(to.0.min(last)).spot;
        let picos = match from == to {
            true if to.0 < before.end => 0,
            true => self.switch(&before.spot, &after),
            false => self.arm(&before.spot, &after),
        };
        Span::from_nanos(picos / 1000)
    }

    fn sequential_transfer(&self, start: Sector, sectors: Sectors) -> Span {
        let end = (start + sectors).0.min(self.layout.capacity());
        let (mut at, mut picos) = (start.0, 0);
        while at < end {
            let stretch = self.layout.stretch(at);
            let stop = end.min(stretch.end);
            picos += (stop - at) * self.sector_time(&stretch.spot);
            if stop < end {
                let last = self.layout.stretch(stop - 1).spot;
                picos += self.switch(&last, &self.layout.stretch(stop).spot);
            }
            at = stop;
        }
        Span::from_nanos(picos / 1000)
    }

    fn interface_picos(&self) -> [u64; 2] {
        [self.timing.bus_read, self.timing.bus_write]
    }

    // Any order visits each track, or each cylinder if tracks are not runs of sectors. Its moves are at least as long as the shortest tree
    // that connects them, which is the path from each to the next one, because a move takes the longer the more cylinders it crosses.
    fn least_pass(&self, extents: &mut dyn Iterator<Item = (Sector, Sector)>, moves: bool) -> (Span, u64) {
        let (mut picos, mut moved) = (0, 0);
        let mut last: Option<(u64, u32)> = None;
        let (counts, by_track) = (moves && !self.layout.has_moved(), self.layout.is_plain());
        for (start, end) in extents {
            let (mut at, end) = (start.0, end.0.min(self.layout.capacity()));
            while at < end {
                let stretch = self.layout.stretch(at);
                let stop = end.min(stretch.end);
                picos += (stop - at) * self.sector_time(&stretch.spot);
                if counts {
                    let track = if by_track { self.layout.track(at).0 } else { 0 };
                    let cylinder = self.layout.plain_cylinder(at);
                    if let Some((before, from)) = last
                        && (before, from) != (track, cylinder)
                    {
                        picos += self.mechanics.least_move(from.abs_diff(cylinder));
                        moved += 1;
                    }
                    last = Some((track, cylinder));
                }
                at = stop;
            }
        }
        (Span::from_nanos(picos / 1000), moved)
    }

    fn reach(&self) -> Option<u64> {
        let tracks = match self.buffer.read_ahead {
            ReadAhead::TrackAhead => 2 * self.layout.most_on_track(),
            _ => 0,
        };
        let ahead = tracks.max(self.buffer.read_ahead_min).max(self.buffer.read_ahead_max);
        Some(self.segment_size().max(ahead.into()).max(1))
    }

    fn cylinder(&self, sector: Sector) -> u32 {
        self.layout.stretch(self.existing(sector)).spot.cylinder
    }

    fn least_gaps(&self, gaps: &[Gap]) -> Vec<Span> {
        let travel = self.mechanics.least_travel();
        let gap = |gap: &Gap| {
            let [from, to] = [gap.from, gap.to].map(|sector| self.layout.stretch(self.existing(sector)).spot);
            let cylinders = from.cylinder.abs_diff(to.cylinder) as usize;
            let least = travel[cylinders.min(travel.len() - 1)].max(gap.at_least.as_nanos() * 1000);
            let picos = if gap.turns { self.mechanics.least_gap(from.angle, to.angle, least) } else { least };
            Span::from_nanos(picos / 1000)
        };
        gaps.iter().map(gap).collect()
    }

    // Unwritten data is in at most as many runs as there are write segments. Without it, the path between tracks is shorter by the moves
    // between the tracks of a run, and by less than a full stroke for each run.
    fn buffered_writes(&self) -> Option<Span> {
        if self.buffer.fast_write == FastWrite::None {
            return Some(Span::ZERO);
        }
        let segments = u64::from(self.buffer.write_segments);
        let sectors = segments * self.segment_size();
        let sectors = if self.buffer.memory_sectors > 0 {
            sectors.min(u64::from(self.buffer.memory_sectors))
        } else {
            sectors
        };
        let longest = self.layout.widths().map(|width| self.mechanics.time_of(width)).max().unwrap_or(0);
        let tracks = sectors / u64::from(self.layout.fewest_on_track().div_ceil(2)) + 2 * segments;
        let picos = sectors * longest
            + tracks * self.mechanics.least_move(1)
            + segments * self.mechanics.full_stroke();
        Some(Span::from_nanos(picos.div_ceil(1000)))
    }
}

impl Rotating {
    fn sector_time(&self, spot: &PhysicalSector) -> Picos {
        self.mechanics.time_of(self.layout.width(spot.zone))
    }

    fn arm(&self, from: &PhysicalSector, to: &PhysicalSector) -> Picos {
        self.mechanics.seek(from.cylinder.abs_diff(to.cylinder), from.head != to.head, false)
    }

    /// From the end of a sector to the start of its successor on another track: the switch, and the rest of the skew.
    fn switch(&self, before: &PhysicalSector, after: &PhysicalSector) -> Picos {
        let end = before.angle.wrapping_add(self.layout.width(before.zone));
        let switch = self.arm(before, after);
        switch + self.mechanics.latency(end.wrapping_add(self.mechanics.turned(switch)), after.angle)
    }
}
