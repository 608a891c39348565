//! Several devices under one coordinator: the members of an array.
//!
//! ```text
//! md, LVM, btrfs ── loop device 0 ── member 0: queue, scheduler, disk ─┐
//!                └─ loop device 1 ── member 1: queue, scheduler, disk ─┴─ hub: coordinator
//! ```
//!
//! Each member is a server as any other, with a thread, a queue, a scheduler and a control socket of its own. Its device has a link to
//! the hub, which runs the coordinator that the model of an array runs too (`elevator::array`). The coordinator needs the array's
//! addresses; here they are derived from the members' by the layout, which the command line or md's superblock states. A request to a
//! member counts as an array request of one part, as in the stream paper, whose requests were at most a stripe unit.
//!
//! Dwell implements no RAID: what members hold, and what follows from a failed one, is up to the program on top.

mod background;
mod control;
mod hub;
mod link;
mod md;
#[cfg(test)]
mod rate_tests;
mod run;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use disks::array::Layout;
use elevator::array::Member;

pub use background::Resync;
pub use hub::BoxedCoordinator;
pub use md::{Found, find, identifier, is_array, kernel_name, misplaced, refuse_old};
pub use run::{ArrayConfiguration, ArrayServer, MemberFactory, MemberSchedulers, run_array, start_array};

pub(crate) use hub::Hub;
pub(crate) use link::{BACKGROUND, Link};

use crate::ServeError;
use crate::clock::Clock;
use ::control::protocol::ArrayState;
use background::Activity;

/// A coordinator and the places of its members.
pub struct Array {
    hub: Arc<Hub>,
    clock: Clock,
    members: u32,
    /// There is a coordinator.
    directs: AtomicBool,
}

/// A place in an array, for a member's [`Configuration`](crate::Configuration).
#[derive(Clone)]
pub struct ArrayPlace {
    pub(crate) hub: Arc<Hub>,
    pub(crate) member: Member,
    pub(crate) clock: Clock,
}

impl Array {
    /// An array of so many members at `speed` times real time. Its own traffic transfers at least `background` bytes a second on each
    /// member, however busy the foreground is.
    pub fn new(coordinator: Option<BoxedCoordinator>, members: u32, speed: u32, background: u64) -> Self {
        let directs = AtomicBool::new(coordinator.is_some());
        let coordinator = coordinator.unwrap_or_else(|| Box::new(hub::NoCoordinator));
        let hub = Hub::new(coordinator, members, Activity::new(members, background));
        Self { hub, clock: Clock::new(speed), members, directs }
    }

    /// The place of a member, from 0.
    pub fn place(&self, member: u32) -> ArrayPlace {
        ArrayPlace { hub: self.hub.clone(), member: Member(member), clock: self.clock }
    }

    /// Replaces the coordinator, also one that has panicked.
    pub fn set_coordinator(&self, coordinator: Option<BoxedCoordinator>) {
        self.directs.store(coordinator.is_some(), Ordering::Relaxed);
        self.hub.replace(coordinator.unwrap_or_else(|| Box::new(hub::NoCoordinator)));
    }

    /// Sets the layout; the members are coordinated from then on. A second call changes nothing.
    ///
    /// # Errors
    /// The layout has another number of members.
    pub fn set_layout(&self, layout: Layout) -> Result<(), ServeError> {
        if layout.members() != self.members {
            return Err(ServeError::Configuration(format!(
                "the array has {} members, and --member names {}",
                layout.members(),
                self.members
            )));
        }
        let _ = self.hub.layout.set(layout);
        Ok(())
    }

    /// The layout, if it is known.
    pub fn layout(&self) -> Option<Layout> {
        self.hub.layout.get().copied()
    }

    /// Sets what md reports of its own traffic.
    pub fn set_sync(&self, sync: Resync) {
        self.hub.activity.set_sync(sync, self.hub.layout.get(), self.clock.now());
    }

    /// The state without the members' own.
    fn state(&self) -> (ArrayState, Vec<bool>) {
        let counters = &self.hub.counters;
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let state = ArrayState {
            layout: self.layout().map(|layout| layout.to_string()),
            coordinated: self.directs.load(Ordering::Relaxed) && self.hub.is_coordinated(),
            members: Vec::new(),
            directives: count(&counters.directives),
            background: count(&self.hub.activity.recognised),
            background_held: count(&self.hub.activity.held),
            lost: count(&counters.lost),
            returned: count(&counters.returned),
        };
        (state, self.hub.present())
    }
}
