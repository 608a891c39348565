//! A member's side of the coordination: what its device reports, which directives it receives, and which requests it holds back.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

use disks::array::Layout;
use elevator::array::{ArrayRequest, ArrayRequestId, Directive, Member, MemberEvent};
use elevator::queue::{Queue, Token};
use elevator::{Op, Positioning, Priority, PriorityClass, Request, RequestId, Sector, Sectors, Span, Time};

use super::background::Background;
use super::hub::{Directed, Hub, Message, Note};
use crate::operation::{FrontIndex, NewOperation};
use crate::poller::Bell;
use crate::statistics::Watch;

/// After an attempt in vain a member's thread sleeps for so long. With a real-time priority it would otherwise keep the processor from the thread
/// that runs the coordinator.
const BUSY: Span = Span::from_micros(500);

/// The priority of the array's own traffic, which therefore forms no streams, and has the smallest share where the policy has shares.
pub(crate) const BACKGROUND: Priority = Priority { class: PriorityClass::BestEffort, level: 7 };

/// A submission that was announced to the coordinator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Announced {
    No,
    Foreground {
        to_coordinator: bool,
    },
    /// With the sectors that it reads.
    Background(Sectors),
}

/// A member's link.
pub(crate) struct Link {
    hub: Arc<Hub>,
    member: Member,
    sender: Sender<Message>,
    directives: Receiver<Directed>,
    /// Messages sent.
    sent: Cell<u64>,
    /// Directives received.
    received: u64,
    /// By token.
    announced: Vec<Announced>,
    /// The array request of each queued request, by id; none if the coordinator does not know it.
    of_request: Vec<Option<ArrayRequestId>>,
    /// The message that reported each queued request, by id; none for what has left the queue.
    queued: Vec<Option<u64>>,
    background: Background,
    /// The background's requests in the queue that interrupt no stream yet.
    waiting: Vec<RequestId>,
    /// The number of the background's requests in the queue.
    queued_background: usize,
    held: VecDeque<(FrontIndex, NewOperation)>,
    latest: Time,
    /// Until then another thread runs the coordinator, if it did at the last attempt.
    busy_until: Time,
}

impl Link {
    pub(crate) fn new(hub: Arc<Hub>, member: Member, bell: Arc<Bell>) -> Self {
        let (sender, directives) = hub.connect(member, bell);
        let link = Self {
            hub,
            member,
            sender,
            directives,
            sent: Cell::new(0),
            received: 0,
            announced: Vec::new(),
            of_request: Vec::new(),
            queued: Vec::new(),
            background: Background::default(),
            waiting: Vec::new(),
            queued_background: 0,
            held: VecDeque::new(),
            latest: Time::ZERO,
            busy_until: Time::ZERO,
        };
        link.send(Note::Returned);
        link
    }

    fn layout(&self) -> Option<Layout> {
        self.hub.layout.get().copied().filter(|_| self.hub.is_coordinated())
    }

    fn send(&self, note: Note) {
        self.sent.set(self.sent.get() + 1);
        let message = Message { member: self.member, number: self.sent.get(), at: self.latest, note };
        // The hub keeps the receiver as long as itself.
        let _ = self.sender.send(message);
        self.hub.sent();
    }

    /// Requests of the array's own traffic that wait.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Requests of the array's own traffic that were recognised, on all members.
    #[cfg(test)]
    pub(crate) fn recognised(&self) -> u64 {
        self.hub.activity.recognised.load(Ordering::Relaxed)
    }

    /// Holds an operation of the array's own traffic back if it must wait; otherwise returns it, and whether it belongs to that traffic.
    pub(crate) fn hold(
        &mut self,
        now: Time,
        front: FrontIndex,
        operation: NewOperation,
    ) -> Option<(NewOperation, bool)> {
        self.latest = self.latest.max(now);
        let Some(layout) = self.layout() else { return Some((operation, false)) };
        let NewOperation { op, start, sectors, .. } = operation;
        let activity = &self.hub.activity;
        if !self.background.recognises(activity, &layout, self.member, (op, start, sectors), now) {
            return Some((operation, false));
        }
        if op == Op::Write {
            self.background.writes();
            return Some((operation, true));
        }
        if self.held.is_empty() {
            self.background.arrived(now);
        }
        if !self.held.is_empty() || !self.background.may_go(activity, start, sectors, now) {
            activity.held.fetch_add(1, Ordering::Relaxed);
            self.held.push_back((front, operation));
            return None;
        }
        Some((operation, true))
    }

    /// The held operation that goes next: the first by its address, as members end a turn at the same one.
    fn first_held(&self) -> Option<usize> {
        (0..self.held.len()).min_by_key(|&index| self.held[index].1.start)
    }

    /// A held operation that may go now.
    pub(crate) fn release(&mut self, now: Time) -> Option<(FrontIndex, NewOperation)> {
        let index = self.first_held()?;
        let NewOperation { start, sectors, .. } = self.held[index].1;
        let goes = self.background.may_go(&self.hub.activity, start, sectors, now);
        goes.then(|| self.held.remove(index)).flatten()
    }

    /// When the device must call again.
    pub(crate) fn next_event(&self, now: Time) -> Option<Time> {
        let held = self.first_held().map(|index| &self.held[index]);
        let held = held.map(|(_, held)| self.background.look_again(&self.hub.activity, held.sectors, now));
        let coordinator = if self.hub.is_coordinated() { self.hub.next_event() } else { None };
        let coordinator = coordinator.map(|at| at.max(self.busy_until));
        held.into_iter().chain(coordinator).min()
    }

    /// An operation is about to be submitted.
    pub(crate) fn arrives(
        &mut self,
        now: Time,
        token: Token,
        (op, start, sectors): (Op, Sector, Sectors),
        is_background: bool,
    ) {
        self.latest = self.latest.max(now);
        let index = token.0 as usize;
        if index >= self.announced.len() {
            self.announced.resize((index + 1).next_power_of_two(), Announced::No);
        }
        self.announced[index] = Announced::No;
        if !matches!(op, Op::Read | Op::Write) {
            return;
        }
        if is_background {
            // Writes follow reads, and wait for nothing.
            let sectors = if op == Op::Read { sectors } else { Sectors::ZERO };
            self.background.began(sectors);
            self.announced[index] = Announced::Background(sectors);
            return;
        }
        let layout = self.layout();
        self.hub.activity.foreground(now, 1);
        let is_in_order = self.background.foreground_began(layout.as_ref(), start, sectors, now);
        self.hub.activity.mix(is_in_order);
        self.announced[index] = Announced::Foreground { to_coordinator: layout.is_some() };
        let Some(layout) = layout else { return };
        let start = layout.logical(self.member.0, start);
        self.send(Note::Arrived(ArrayRequest { id: self.id(token), op, start, sectors, parts: 1 }));
    }

    fn id(&self, token: Token) -> ArrayRequestId {
        let members = self.hub.layout.get().map_or(1, Layout::members);
        ArrayRequestId(token.0 as u32 * members + self.member.0)
    }

    /// A submission has ended.
    pub(crate) fn finished(&mut self, now: Time, token: Token) {
        self.latest = self.latest.max(now);
        let Some(announced) = self.announced.get_mut(token.0 as usize) else { return };
        match std::mem::replace(announced, Announced::No) {
            Announced::No => {}
            Announced::Background(sectors) => self.background.ended(sectors, now),
            Announced::Foreground { to_coordinator } => {
                self.hub.activity.foreground(now, -1);
                self.background.foreground_ended(now);
                if to_coordinator {
                    self.send(Note::Completed(self.id(token)));
                }
            }
        }
    }

    /// Passes events and reports to the coordinator, and its directives to the queue. To be called before the queue's `next`.
    pub(crate) fn settle(
        &mut self,
        now: Time,
        queue: &mut Queue<Watch>,
        positioning: Option<&dyn Positioning>,
    ) {
        self.latest = self.latest.max(now);
        loop {
            self.pass_events(now, queue, positioning);
            while let Some(report) = queue.report() {
                self.send(Note::Reported(report, self.received));
            }
            if !self.hub.run(now, self.member) {
                self.busy_until = now + BUSY;
            }
            let mut any = false;
            while let Ok((directive, seen)) = self.directives.try_recv() {
                any = true;
                self.received += 1;
                if self.is_current(directive, seen) {
                    queue.direct(now, directive);
                } else if matches!(directive, Directive::Urgent(_)) {
                    self.send(Note::Missed);
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Whether the request that a directive names is still in the queue: it may have been dispatched or merged while the directive was
    /// on its way, and another request may have its id.
    fn is_current(&self, directive: Directive, seen: u64) -> bool {
        let (Directive::Urgent(id) | Directive::Adopt(id)) = directive else { return true };
        self.queued.get(id.index()).copied().flatten().is_some_and(|number| number <= seen)
    }

    fn pass_events(&mut self, now: Time, queue: &mut Queue<Watch>, positioning: Option<&dyn Positioning>) {
        let Some(mut events) = queue.observer().members.take() else { return };
        for event in events.drain(..) {
            self.follow_background(&event);
            let note = match event {
                MemberEvent::Carried(token, id) => {
                    let known = self.announced.get(token.0 as usize);
                    let known = matches!(known, Some(Announced::Foreground { to_coordinator: true }));
                    let of = known.then(|| self.id(token));
                    self.know(id, of);
                    continue;
                }
                MemberEvent::Inserted(request)
                | MemberEvent::Grown(request, _)
                | MemberEvent::Dispatched(request) => match self.of(request.id) {
                    Some(of) => Note::Event(event, of),
                    None => continue,
                },
                MemberEvent::Completed(request) => match self.of(request.id) {
                    Some(_) => Note::PartCompleted(request, queue.selected(now, positioning)),
                    None => continue,
                },
            };
            self.send(note);
            match event {
                MemberEvent::Inserted(request) => self.queued_since(request.id, Some(self.sent.get())),
                MemberEvent::Dispatched(request) => self.queued_since(request.id, None),
                MemberEvent::Grown(_, Some(absorbed)) => self.queued_since(absorbed.id, None),
                _ => {}
            }
        }
        queue.observer().members = Some(events);
        if self.background.passes() {
            self.waiting.drain(..).for_each(|id| queue.direct(now, Directive::Pass(id)));
        }
    }

    /// Until when no request may be dispatched: in a turn of the background, further requests of which are on their way.
    pub(crate) fn reserved(&self, now: Time) -> Option<Time> {
        if self.queued_background > 0 { None } else { self.background.reserved(now) }
    }

    fn follow_background(&mut self, event: &MemberEvent) {
        match event {
            MemberEvent::Inserted(request) if request.priority == BACKGROUND => {
                self.waiting.push(request.id);
                self.queued_background += 1;
            }
            MemberEvent::Dispatched(request) => self.left(request),
            MemberEvent::Grown(_, Some(absorbed)) => self.left(absorbed),
            _ => {}
        }
    }

    /// A request has left the queue.
    fn left(&mut self, request: &Request) {
        if request.priority == BACKGROUND {
            self.waiting.retain(|&id| id != request.id);
            self.queued_background = self.queued_background.saturating_sub(1);
        }
    }

    fn know(&mut self, id: RequestId, of: Option<ArrayRequestId>) {
        if id.index() >= self.of_request.len() {
            self.of_request.resize((id.index() + 1).next_power_of_two(), None);
        }
        self.of_request[id.index()] = of;
    }

    fn queued_since(&mut self, id: RequestId, number: Option<u64>) {
        if id.index() >= self.queued.len() {
            self.queued.resize((id.index() + 1).next_power_of_two(), None);
        }
        self.queued[id.index()] = number;
    }

    fn of(&self, id: RequestId) -> Option<ArrayRequestId> {
        self.of_request.get(id.index()).copied().flatten()
    }
}

/// The member's server has ended: nothing that it had goes on.
impl Drop for Link {
    fn drop(&mut self) {
        for index in 0..self.announced.len() {
            self.finished(self.latest, Token(index as u64));
        }
        self.send(Note::Lost);
        self.hub.run(self.latest, self.member);
    }
}
