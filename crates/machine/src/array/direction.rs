//! Between the coordinator and the members: what happens in their queues reaches it, what it says reaches them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use elevator::array::{ArrayRequestId, Coordinator, Member};
use elevator::queue::{Event, Observer, Token};
use elevator::{Op, Outcome, Request, RequestId, Time};

use super::Disk;

/// What the coordinator has to hear of a member's queue.
enum Heard {
    Carried(Token, RequestId),
    Inserted(Request),
    Grown(Request, Option<Request>),
    Dispatched(Request),
    Completed(Request),
}

/// What happened in the members' queues and the coordinator has not heard yet.
type Unheard = Rc<RefCell<VecDeque<(Member, Heard)>>>;

/// Listens to a member's queue.
pub(super) struct Ear {
    member: Member,
    unheard: Unheard,
}

impl Observer for Ear {
    fn event(&mut self, _now: Time, event: &Event<'_>) {
        let heard = match *event {
            Event::Carried(token, request) => Heard::Carried(token, request.id),
            Event::Inserted(request) => Heard::Inserted(*request),
            Event::Merged(_, request, _) => Heard::Grown(*request, None),
            Event::Absorbed(request, other) => Heard::Grown(*request, Some(*other)),
            // Flushes are in no scheduler and in no stream.
            Event::Dispatched { request, .. } if request.op != Op::Flush => Heard::Dispatched(*request),
            Event::Completed { request, outcome, .. }
                if request.op != Op::Flush && outcome != Outcome::GivenBack =>
            {
                Heard::Completed(*request)
            }
            _ => return,
        };
        self.unheard.borrow_mut().push_back((self.member, heard));
    }
}

/// A coordinator at work.
pub(super) struct Direction {
    pub(super) coordinator: Box<dyn Coordinator>,
    unheard: Unheard,
    /// The array's request of each part on its way, by the part's token.
    of_part: Vec<ArrayRequestId>,
    /// The array's request of each queued request, by member and id.
    of_request: Vec<Vec<ArrayRequestId>>,
}

impl Direction {
    pub(super) fn new(coordinator: Box<dyn Coordinator>, members: usize) -> Self {
        Self {
            coordinator,
            unheard: Unheard::default(),
            of_part: Vec::new(),
            of_request: vec![Vec::new(); members],
        }
    }

    pub(super) fn ear(&self, member: Member) -> Ear {
        Ear { member, unheard: Rc::clone(&self.unheard) }
    }

    /// A part of `of` is about to go to a member's queue.
    pub(super) fn sends(&mut self, Token(part): Token, of: ArrayRequestId) {
        set(&mut self.of_part, part as usize, of);
    }

    /// Tells the coordinator everything that has happened.
    pub(super) fn hear(&mut self, now: Time, disks: &mut [Disk]) {
        while let Some((member, heard)) = { self.unheard.borrow_mut().pop_front() } {
            let of_request = &mut self.of_request[member.index()];
            match heard {
                Heard::Carried(Token(part), id) => set(of_request, id.index(), self.of_part[part as usize]),
                Heard::Inserted(request) => {
                    let of = of_request[request.id.index()];
                    self.coordinator.inserted(now, member, &request, of);
                }
                Heard::Grown(request, absorbed) => {
                    self.coordinator.grown(now, member, &request, absorbed.as_ref())
                }
                Heard::Dispatched(request) => self.coordinator.dispatched(now, member, &request),
                Heard::Completed(request) => {
                    let selected = disks[member.index()].block.selected(now);
                    self.coordinator.part_completed(now, member, &request, selected);
                }
            }
        }
    }

    /// Carries reports up and directives down until there are no more; whether any directive was given.
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
            disk.stirred = true;
            disk.block.queue().direct(now, directive);
        }
    }
}

/// Sets an entry of a table that grows as far as needed.
fn set(table: &mut Vec<ArrayRequestId>, index: usize, value: ArrayRequestId) {
    if index >= table.len() {
        table.resize((index + 1).next_power_of_two(), value);
    }
    table[index] = value;
}
