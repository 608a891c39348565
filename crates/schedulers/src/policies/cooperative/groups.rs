//! Groups of processes that access nearby blocks.

use alloc::vec::Vec;

use elevator::{Fact, Item, Sector};

use super::Bounds;
use crate::parts::averages::{ONE, Probability, ThinkTime};
use crate::parts::jiffies::{Jiffies, Ticks};
use crate::parts::processes::Slot;
use crate::policies::anticipatory::judgement::GroupId;

/// A process, distinguished from a later one with the same slot by its serial number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub(super) slot: Slot,
    pub(super) serial: u64,
}

/// The state of a group: a position at which reading continues, by any process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    generation: u32,
    /// The time from a member's completion to the next request of any member.
    pub(super) ttime: ThinkTime,
    /// The probability that no process continues where a member ended; starts at the device's.
    pub(super) no_coop: Probability,
    /// The process whose request was the latest.
    pub(super) latest: Member,
    /// Whether more than one process has been in it.
    pub(super) is_cooperating: bool,
    nr_queued: u32,
    /// The time of the latest completion, if any.
    last_end_request: Option<Jiffies>,
}

/// The groups of a device.
///
/// Every arrival compares all positions, so these are adjacent in memory; likewise the times of last use.
#[derive(Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// The end of the latest request of any member: requests near it join.
    positions: Vec<Sector>,
    /// The time of the latest use of each.
    used: Vec<Jiffies>,
    generations: u32,
}

/// A request that joins a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joining {
    pub(super) now: Jiffies,
    pub(super) process: Member,
    pub(super) start: Sector,
    pub(super) end: Sector,
    /// The limit on think times.
    pub(super) max_thinktime: Jiffies,
}

/// The range of positions near a request: up to `window` sectors before it, half as many after it.
#[derive(Clone, Copy)]
struct Window {
    first: u64,
    width: u64,
}

impl Window {
    const fn around(start: Sector, window: u64) -> Self {
        let first = start.0.saturating_sub(window);
        Self { first, width: start.0.saturating_add(window / 2) - first }
    }

    const fn has(self, position: Sector) -> bool {
        position.0.wrapping_sub(self.first) <= self.width
    }
}

impl Groups {
    /// The group with that id, if it still exists.
    pub(super) fn get(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id.place as usize).filter(|group| group.generation == id.generation)
    }

    pub(super) fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.groups.get_mut(id.place as usize).filter(|group| group.generation == id.generation)
    }

    /// The group of a request at `start`: the process's own if it is still near, else the nearest.
    pub(super) fn near(
        &self,
        own: Option<GroupId>,
        start: Sector,
        now: Jiffies,
        bounds: &Bounds,
    ) -> Option<GroupId> {
        let near = Window::around(start, bounds.group_window);
        let exists = |place: usize| {
            self.groups[place].nr_queued > 0 || now.saturating_sub(self.used[place]) <= bounds.group_lifetime
        };
        let belongs = |place: usize| near.has(self.positions[place]) && exists(place);
        if own.is_some_and(|id| self.get(id).is_some() && belongs(id.place as usize)) {
            return own;
        }
        // Usually none is near; this is determined without a branch for each.
        if !self.positions.iter().fold(false, |any, &position| any | near.has(position)) {
            return None;
        }
        (0..self.positions.len())
            .filter(|&place| belongs(place))
            .min_by_key(|&place| self.positions[place].distance(start))
            .map(|place| self.name(place))
    }

    fn name(&self, place: usize) -> GroupId {
        GroupId { place: place as u32, generation: self.groups[place].generation }
    }

    /// A new group. With `groups_max` groups, the one unused for longest is replaced.
    pub(super) fn form(&mut self, joining: &Joining, no_coop: Probability, bounds: &Bounds) -> GroupId {
        self.generations = self.generations.wrapping_add(1);
        let group = Group {
            generation: self.generations,
            ttime: ThinkTime::default(),
            no_coop,
            latest: joining.process,
            is_cooperating: false,
            nr_queued: 0,
            last_end_request: None,
        };
        if self.groups.len() < bounds.groups_max {
            self.groups.push(group);
            self.positions.push(joining.start);
            self.used.push(joining.now);
            return self.name(self.groups.len() - 1);
        }
        let oldest =
            self.used.iter().enumerate().min_by_key(|(_, used)| **used).map_or(0, |(place, _)| place);
        self.groups[oldest] = group;
        self.positions[oldest] = joining.start;
        self.used[oldest] = joining.now;
        self.name(oldest)
    }

    /// A request joins an existing group.
    pub(super) fn join(&mut self, id: GroupId, joining: &Joining) {
        let Some(group) = self.get_mut(id) else { return };
        if let Some(end) = group.last_end_request {
            let ttime = if group.nr_queued == 0 { joining.now.saturating_sub(end) } else { 0 };
            group.ttime.add(ttime.min(joining.max_thinktime));
        }
        group.is_cooperating |= group.latest != joining.process;
        group.latest = joining.process;
        group.nr_queued += 1;
        self.positions[id.place as usize] = joining.end;
        self.used[id.place as usize] = joining.now;
    }

    /// A member's request left the queue.
    pub(super) fn left_queue(&mut self, id: GroupId) {
        if let Some(group) = self.get_mut(id) {
            group.nr_queued = group.nr_queued.saturating_sub(1);
        }
    }

    /// A member's request completed.
    pub(super) fn completed(&mut self, id: GroupId, now: Jiffies) {
        if let Some(group) = self.get_mut(id) {
            group.last_end_request = Some(now);
            self.used[id.place as usize] = now;
        }
    }

    /// All groups, for display.
    pub(super) fn inspect(&self, now: Jiffies, ticks: Ticks, awaited: Option<GroupId>) -> Vec<Item> {
        let item = |place: usize| {
            let (group, name) = (&self.groups[place], self.name(place));
            let think = match group.ttime.is_empty() {
                true => Fact::None,
                false => Fact::Span(ticks.span(group.ttime.mean())),
            };
            Item::new("group", place as u64)
                .with("position", Fact::Sector(self.positions[place]))
                .with("awaited", Fact::Flag(awaited == Some(name)))
                .with("cooperating", Fact::Flag(group.is_cooperating))
                .with("queued", Fact::Count(u64::from(group.nr_queued)))
                .with("think_time", think)
                .with("nobody_goes_on", Fact::Percent(group.no_coop.get() * 100 / ONE))
                .with("unused_for", Fact::Span(ticks.span(now.saturating_sub(self.used[place]))))
        };
        (0..self.groups.len()).map(item).collect()
    }

    /// The most groups from now on.
    pub(super) fn limit(&mut self, groups_max: usize) {
        self.groups.truncate(groups_max);
        self.positions.truncate(groups_max);
        self.used.truncate(groups_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::anticipatory::by_process::in_window;

    #[test]
    fn the_near_range_equals_the_close_window() {
        for start in [0, 5, 4_096, 8_191, 8_192, 8_193, 100_000, u64::MAX - 5] {
            for position in
                [0, 1, 4_095, 4_096, 4_097, 12_288, 12_289, 91_807, 91_808, 104_096, 104_097, u64::MAX]
            {
                let near = Window::around(Sector(start), 8_192).has(Sector(position));
                assert_eq!(near, in_window(Sector(position), Sector(start), 8_192), "{position} {start}");
            }
        }
    }
}
