//! The arm's current move and the sectors that pass under the head after it.

use crate::layout::{Extent, Layout, PhysicalSector, Turn};
use crate::mechanics::{Mechanics, Picos};

/// Where the head is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head {
    pub(super) cylinder: u32,
    pub(super) head: u16,
    /// The angle under it at `at`.
    pub(super) angle: Turn,
    pub(super) at: Picos,
}

impl Head {
    /// The angle under it at another time, not before `at`.
    pub(super) fn angle_at(&self, mechanics: &Mechanics, time: Picos) -> Turn {
        self.angle.wrapping_add(mechanics.turned(time.saturating_sub(self.at)))
    }

    pub(super) fn seek_to(&self, mechanics: &Mechanics, spot: &PhysicalSector, write: bool) -> Picos {
        mechanics.seek(self.cylinder.abs_diff(spot.cylinder), self.head != spot.head, write)
    }
}

/// How long a part of a track takes to pass, and by what the platter has turned then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation {
    time: Picos,
    turn: Turn,
}

impl Rotation {
    /// A sector.
    pub(super) fn new(m: &Mechanics, width: Turn) -> Self {
        let time = m.time_of(width);
        Self { time, turn: m.turned(time) }
    }

    /// All of it.
    pub(super) const fn revolution(period: Picos) -> Self {
        Self { time: period, turn: 0 }
    }
}

/// A move, a wait, and a stretch of sectors on one track, which take equally long each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// When the arm has arrived.
    pub(super) landed: Picos,
    /// When sector `next` begins to pass.
    pub(super) from: Picos,
    pub(super) next: u64,
    /// Sectors up to here can be passed without moving.
    pub(super) limit: u64,
    pub(super) sector_time: Picos,
    /// At `from`.
    angle: Turn,
    sector_turn: Turn,
    cylinder: u32,
    head: u16,
    /// Waits for a sector that could not be taken when it came, since `landed`: by what the platter turns until `from`.
    missed: Option<Turn>,
    /// Having passed the sectors before the first, the head has the sectors up to the second already.
    pub(super) jump: Option<(u64, u64)>,
    pub(super) seek: Picos,
    pub(super) rotation: Picos,
}

/// What an access is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    pub(super) sector: u64,
    pub(super) write: bool,
    /// Begin with whichever sector comes first, of those up to here.
    pub(super) immediate: Option<u64>,
    /// When the arm may move.
    pub(super) begin: Picos,
    pub(super) seek_min: Picos,
}

impl Access {
    /// `sectors` are those of each zone.
    // In line, for it is made in one place and put in another at once, and would wait for itself in memory between.
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

    /// The head has landed behind the first wanted sector: what it passes until the track's end it keeps, if that is
    /// wanted, and the sectors before come round afterwards.
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

    /// When the arm begins to move: it may still have an earlier move to finish.
    pub(super) const fn begun(&self) -> Picos {
        self.landed - self.seek
    }

    /// How many sectors have passed.
    pub(super) fn passed(&self, now: Picos) -> u64 {
        match now.checked_sub(self.from) {
            Some(time) if self.sector_time > 0 => time / self.sector_time,
            Some(_) => u64::MAX,
            None => 0,
        }
    }

    /// The sector that passes at a time, or `goal` if it comes first.
    pub(super) fn passed_until(&self, now: Picos, goal: u64) -> u64 {
        // Most often the drive has woken because it came to its goal; that needs no division.
        if goal >= self.next && now >= self.time_of(goal) {
            return goal;
        }
        // Nor has anything passed while the arm moves and the platter turns.
        if now < self.from {
            return self.next.min(goal);
        }
        self.next.saturating_add(self.passed(now)).min(goal)
    }

    /// When all sectors before `sector` have passed.
    pub(super) fn time_of(&self, sector: u64) -> Picos {
        self.from + sector.saturating_sub(self.next) * self.sector_time
    }

    /// Where the head is when all sectors before `sector` have passed.
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

    /// The arm has moved, whatever has passed since.
    pub(super) fn land(&self, head: &mut Head) {
        head.cylinder = self.cylinder;
        head.head = self.head;
    }

    /// Sector `sector` could not be taken when it came: one revolution is lost.
    pub(super) fn miss(&mut self, sector: u64, revolution: Rotation) {
        let head = self.head_after(sector);
        self.angle = head.angle.wrapping_add(revolution.turn);
        (self.landed, self.missed) = (head.at, Some(revolution.turn));
        self.from = head.at + revolution.time;
        self.next = sector;
    }

    /// So many of its sectors.
    pub(super) fn sectors(&self, count: u64) -> Rotation {
        Rotation { time: count * self.sector_time, turn: self.sector_turn.wrapping_mul(count as Turn) }
    }

    /// Before the first sector: when the arm may leave if it does not stop within a sector. One that waits for the first
    /// sector after a move waits for it, as DiskSim has it; one that missed a sector passes others meanwhile.
    pub(super) fn leaves_at(&self, now: Picos) -> Picos {
        let next_end = self.landed + (self.passed_while_missing(now) + 1) * self.sector_time;
        if self.missed.is_some() { next_end.min(self.from) } else { self.from }
    }

    /// Having missed a sector, the head passes others until it comes round again.
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

    /// The head has come to the sectors that it had read at once.
    pub(super) fn skip_to(&mut self, sector: u64) {
        let head = self.head_after(sector);
        (self.angle, self.from, self.next, self.jump) = (head.angle, head.at, sector, None);
    }
}
