//! The arm's current move and the sectors that pass under the head after it.

use crate::layout::{Extent, Layout, PhysicalSector, Turn};
use crate::mechanics::{Mechanics, Picos};

/// The position of the head.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head {
    pub(super) cylinder: u32,
    pub(super) head: u16,
    /// The platter's angle under the head at time `at`.
    pub(super) angle: Turn,
    pub(super) at: Picos,
}

impl Head {
    /// The platter's angle under the head at `time`, which is not before `at`.
    pub(super) fn angle_at(&self, mechanics: &Mechanics, time: Picos) -> Turn {
        self.angle.wrapping_add(mechanics.turned(time.saturating_sub(self.at)))
    }

    pub(super) fn seek_to(&self, mechanics: &Mechanics, spot: &PhysicalSector, write: bool) -> Picos {
        mechanics.seek(self.cylinder.abs_diff(spot.cylinder), self.head != spot.head, write)
    }
}

/// Part of a revolution: its duration, and the angle by which the platter turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation {
    time: Picos,
    turn: Turn,
}

impl Rotation {
    /// One sector of the given width.
    pub(super) fn new(m: &Mechanics, width: Turn) -> Self {
        let time = m.time_of(width);
        Self { time, turn: m.turned(time) }
    }

    /// A whole revolution.
    pub(super) const fn revolution(period: Picos) -> Self {
        Self { time: period, turn: 0 }
    }
}

/// A move of the arm, a rotational wait, and a run of sectors on one track, each of the same duration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// When the arm has arrived.
    pub(super) landed: Picos,
    /// When sector `next` begins to pass.
    pub(super) from: Picos,
    pub(super) next: u64,
    /// The sector behind the last that passes without another move.
    pub(super) limit: u64,
    pub(super) sector_time: Picos,
    /// The platter's angle at `from`.
    angle: Turn,
    sector_turn: Turn,
    cylinder: u32,
    head: u16,
    /// Set while the access waits, since `landed`, for a sector that it could not take: the angle that the platter turns until `from`.
    missed: Option<Turn>,
    /// `(a, b)`: once all sectors before `a` have passed, the sectors up to `b` are already in the buffer.
    pub(super) jump: Option<(u64, u64)>,
    pub(super) seek: Picos,
    pub(super) rotation: Picos,
}

/// The target of an access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    pub(super) sector: u64,
    pub(super) write: bool,
    /// If set, the access may begin with any sector before this one, whichever passes first.
    pub(super) immediate: Option<u64>,
    /// When the arm may move.
    pub(super) begin: Picos,
    pub(super) seek_min: Picos,
}

impl Access {
    /// `sectors` has the duration of one sector for each zone.
    // Inlined: the result is built in one place and moved to another at once; a call would copy it through memory.
    #[inline(always)]
    pub(super) fn new(layout: &Layout, m: &Mechanics, sectors: &[Rotation], head: &Head, aim: &Aim) -> Self {
        let stretch = layout.stretch(aim.sector);
        let spot = stretch.spot;
        let seek = head.seek_to(m, &spot, aim.write);
        let landed = aim.begin + seek.max(aim.seek_min);
        let angle = head.angle_at(m, landed);
        let Rotation { time, turn } = sectors[usize::from(spot.zone)];
        let plain = m.latency(angle, spot.angle);
        let mut access = Self {
            landed,
            from: landed + plain,
            next: aim.sector,
            limit: stretch.end,
            sector_time: time,
            angle: angle.wrapping_add(m.turned(plain)),
            sector_turn: turn,
            cylinder: spot.cylinder,
            head: spot.head,
            missed: None,
            jump: None,
            seek: seek.max(aim.seek_min),
            rotation: plain,
        };
        if let Some(end) = aim.immediate.filter(|_| stretch.end == stretch.track_end) {
            access.begin_anywhere(layout, end, &stretch, angle);
        }
        access
    }

    /// The head has landed behind the first wanted sector. It keeps the wanted sectors that pass until the track ends; the
    /// sectors before them pass in the next revolution.
    fn begin_anywhere(&mut self, layout: &Layout, end: u64, stretch: &Extent, landed_at: Turn) {
        let width = layout.width(stretch.spot.zone);
        let ahead = landed_at.wrapping_sub(stretch.spot.angle);
        let passed = u64::from(ahead.div_ceil(width.max(1)));
        let first_passed = self.next + passed;
        if passed == 0 || first_passed >= stretch.track_end {
            return;
        }
        let wanted = end.min(stretch.track_end);
        if first_passed < wanted {
            self.jump = Some((first_passed, wanted));
        }
    }

    /// When the arm begins to move: later than the request if an earlier move has to end first.
    pub(super) const fn begun(&self) -> Picos {
        self.landed - self.seek
    }

    /// How many sectors have passed at `now`.
    pub(super) fn passed(&self, now: Picos) -> u64 {
        match now.checked_sub(self.from) {
            Some(time) if self.sector_time > 0 => time / self.sector_time,
            Some(_) => u64::MAX,
            None => 0,
        }
    }

    /// The sector that passes at `now`, or `goal` if it comes first.
    pub(super) fn passed_until(&self, now: Picos, goal: u64) -> u64 {
        // The drive most often wakes exactly at its goal; that case needs no division.
        if goal >= self.next && now >= self.time_of(goal) {
            return goal;
        }
        // While the arm moves and the platter turns to the sector, nothing passes.
        if now < self.from {
            return self.next.min(goal);
        }
        self.next.saturating_add(self.passed(now)).min(goal)
    }

    /// When all sectors before `sector` have passed.
    pub(super) fn time_of(&self, sector: u64) -> Picos {
        self.from + sector.saturating_sub(self.next) * self.sector_time
    }

    /// The head's position when all sectors before `sector` have passed.
    pub(super) fn head_after(&self, sector: u64) -> Head {
        let count = sector.saturating_sub(self.next);
        Head {
            cylinder: self.cylinder,
            head: self.head,
            angle: self.angle.wrapping_add(self.sector_turn.wrapping_mul(count as Turn)),
            at: self.time_of(sector),
        }
    }

    pub(super) fn same_cylinder(&self, head: &Head) -> bool {
        self.cylinder == head.cylinder
    }

    pub(super) fn same_track(&self, head: &Head) -> bool {
        self.same_cylinder(head) && self.head == head.head
    }

    /// Moves the head to the access's track, whatever has passed since.
    pub(super) fn land(&self, head: &mut Head) {
        head.cylinder = self.cylinder;
        head.head = self.head;
    }

    /// Sector `sector` could not be taken when it passed: the access waits one revolution.
    pub(super) fn miss(&mut self, sector: u64, revolution: Rotation) {
        let head = self.head_after(sector);
        self.angle = head.angle.wrapping_add(revolution.turn);
        (self.landed, self.missed) = (head.at, Some(revolution.turn));
        self.from = head.at + revolution.time;
        self.next = sector;
    }

    /// The duration and angle of `count` sectors.
    pub(super) fn sectors(&self, count: u64) -> Rotation {
        Rotation { time: count * self.sector_time, turn: self.sector_turn.wrapping_mul(count as Turn) }
    }

    /// When the arm may leave before the first sector, if it does not stop within a sector. In DiskSim, an access that waits for
    /// its first sector after a move cannot leave before that sector; one that missed a sector leaves at any sector boundary.
    pub(super) fn leaves_at(&self, now: Picos) -> Picos {
        let next_end = self.landed + (self.passed_while_missing(now) + 1) * self.sector_time;
        if self.missed.is_some() { next_end.min(self.from) } else { self.from }
    }

    /// Advances the head over the sectors that pass while the access waits for a missed sector.
    pub(super) fn pass_others(&self, head: &mut Head, now: Picos) {
        if let Some(turn) = self.missed {
            let passed = self.passed_while_missing(now);
            head.angle =
                self.angle.wrapping_sub(turn).wrapping_add(self.sector_turn.wrapping_mul(passed as Turn));
            head.at = self.landed + passed * self.sector_time;
        }
    }

    fn passed_while_missing(&self, now: Picos) -> u64 {
        now.saturating_sub(self.landed).checked_div(self.sector_time).unwrap_or(0)
    }

    /// Continues behind the sectors that are already in the buffer.
    pub(super) fn skip_to(&mut self, sector: u64) {
        let head = self.head_after(sector);
        (self.angle, self.from, self.next, self.jump) = (head.angle, head.at, sector, None);
    }
}
