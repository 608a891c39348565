//! Connects a coordinator to the members: passes events of their queues to it, and its directives to their schedulers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use elevator::Time;
use elevator::array::{ArrayRequestId, Coordinator, Member, MemberEvent};
use elevator::queue::{Event, Observer, Token};

use super::member::Disk;

/// Events that the coordinator has not received yet.
type Pending = Rc<RefCell<VecDeque<(Member, MemberEvent)>>>;

/// Observes a member's queue.
pub(super) struct MemberObserver {
    member: Member,
    pending: Pending,
}

impl Observer for MemberObserver {
    fn event(&mut self, _now: Time, event: &Event<'_>) {
        if let Some(event) = MemberEvent::of(event) {
            self.pending.borrow_mut().push_back((self.member, event));
        }
    }
}

/// A coordinator with the state that its events need.
pub(super) struct Coordination {
    pub(super) coordinator: Box<dyn Coordinator>,
    pending: Pending,
    /// The array request of each unfinished part, by the part's token.
    of_part: Vec<ArrayRequestId>,
    /// The array request of each queued request, by member and id.
    of_request: Vec<Vec<ArrayRequestId>>,
}

impl Coordination {
    pub(super) fn new(coordinator: Box<dyn Coordinator>, members: usize) -> Self {
        Self {
            coordinator,
            pending: Pending::default(),
            of_part: Vec::new(),
            of_request: vec![Vec::new(); members],
        }
    }

    pub(super) fn observer(&self, member: Member) -> MemberObserver {
        MemberObserver { member, pending: Rc::clone(&self.pending) }
    }

    /// Registers a part of `of` that is about to be submitted to a member.
    pub(super) fn sends(&mut self, Token(part): Token, of: ArrayRequestId) {
        set(&mut self.of_part, part as usize, of);
    }

    /// Passes all pending events to the coordinator.
    pub(super) fn notify(&mut self, now: Time, disks: &mut [Disk]) {
        while let Some((member, event)) = { self.pending.borrow_mut().pop_front() } {
            let of_request = &mut self.of_request[member.index()];
            match event {
                MemberEvent::Carried(Token(part), id) => {
                    set(of_request, id.index(), self.of_part[part as usize])
                }
                MemberEvent::Inserted(request) => {
                    let of = of_request[request.id.index()];
                    self.coordinator.inserted(now, member, &request, of);
                }
                MemberEvent::Grown(request, absorbed) => {
                    self.coordinator.grown(now, member, &request, absorbed.as_ref())
                }
                MemberEvent::Dispatched(request) => self.coordinator.dispatched(now, member, &request),
                MemberEvent::Completed(request) => {
                    let selected = disks[member.index()].block.selected(now);
                    self.coordinator.part_completed(now, member, &request, selected);
                }
            }
        }
    }

    /// Passes reports and directives until there are no more; returns whether there was a directive.
    pub(super) fn direct(&mut self, now: Time, disks: &mut [Disk]) -> bool {
        let mut any = false;
        loop {
            for (index, disk) in disks.iter_mut().enumerate() {
                while let Some(report) = disk.block.queue().report() {
                    self.coordinator.reported(now, Member(index as u32), report);
                }
            }
            let Some((member, directive)) = self.coordinator.directive() else { return any };
            any = true;
            let disk = &mut disks[member.index()];
            disk.changed = true;
            disk.block.queue().direct(now, directive);
        }
    }
}

/// Sets an entry of a table, which grows as needed.
fn set(table: &mut Vec<ArrayRequestId>, index: usize, value: ArrayRequestId) {
    if index >= table.len() {
        table.resize((index + 1).next_power_of_two(), value);
    }
    table[index] = value;
}
