//! The coordinator's place between the members' threads.
//!
//! A member's thread sends what happened to it as messages and then runs the coordinator itself, unless another thread does so at that
//! moment: that thread takes these messages too before it leaves. So no thread waits for another one, and there is no thread of the
//! coordinator's own whose wake-up would delay it. The mutex is only ever tried.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use disks::array::Layout;
use elevator::array::{ArrayRequest, ArrayRequestId, Coordinator, Directive, Member, MemberEvent, Report};
use elevator::{Request, RequestId, Sector, Sectors, Time, TuneError, Value};

use super::background::Activity;
use crate::poller::Bell;

/// No time.
const NEVER: u64 = u64::MAX;

/// A member that gets no request while each other one gets this many on average is not waited for: md has failed it, or it is a spare.
const SILENT: u64 = 128;

/// A coordinator for a host with threads.
pub type BoxedCoordinator = Box<dyn Coordinator + Send>;

/// Directs no member: for schedulers without a coordinator. The array's own traffic is recognised all the same.
pub(crate) struct NoCoordinator;

impl Coordinator for NoCoordinator {
    fn lost(&mut self, _: Time, _: Member) {}
    fn returned(&mut self, _: Time, _: Member) {}
    fn arrived(&mut self, _: Time, _: &ArrayRequest) {}
    fn inserted(&mut self, _: Time, _: Member, _: &Request, _: ArrayRequestId) {}
    fn grown(&mut self, _: Time, _: Member, _: &Request, _: Option<&Request>) {}
    fn dispatched(&mut self, _: Time, _: Member, _: &Request) {}
    fn part_completed(&mut self, _: Time, _: Member, _: &Request, _: Option<RequestId>) {}
    fn completed(&mut self, _: Time, _: ArrayRequestId) {}
    fn reported(&mut self, _: Time, _: Member, _: Report) {}
    fn missed(&mut self, _: Time, _: Member) {}
    fn next_event(&self) -> Option<Time> {
        None
    }
    fn pass(&mut self, _: Time) {}
    fn directive(&mut self) -> Option<(Member, Directive)> {
        None
    }
    fn tune(&mut self, name: &str, _: Value) -> Result<(), TuneError> {
        Err(TuneError::unknown(name))
    }
}

/// What happened to a member.
pub(super) enum Note {
    Arrived(ArrayRequest),
    /// An event of the queue, and the array request that it belongs to, for `Inserted`.
    Event(MemberEvent, ArrayRequestId),
    /// The event `Completed` with the selected pending request.
    PartCompleted(Request, Option<RequestId>),
    Completed(ArrayRequestId),
    /// With the number of directives that the member had received.
    Reported(Report, u64),
    /// See [`Coordinator::missed`].
    Missed,
    Lost,
    Returned,
}

/// A member's message.
pub(super) struct Message {
    pub(super) member: Member,
    /// Counted by the member, from 1.
    pub(super) number: u64,
    pub(super) at: Time,
    pub(super) note: Note,
}

/// A directive, and the number of its member's last message that the coordinator had received. Requests may have left the queue, and
/// others may have their ids, since.
pub(super) type Directed = (Directive, u64);

/// The coordinator and what only the thread that runs it uses.
struct Running {
    coordinator: BoxedCoordinator,
    messages: Receiver<Message>,
    now: Time,
    members: Vec<Option<(Sender<Directed>, Arc<Bell>)>>,
    present: Vec<bool>,
    /// Requests to the array, and that count at each member's latest one.
    arrivals: u64,
    latest: Vec<u64>,
    /// The number of the last message of each member.
    seen: Vec<u64>,
    /// The directives to each member, and the number of the last one that ended a service.
    directed: Vec<Directives>,
    frontiers: Frontiers,
    /// The unfinished requests to the array that this coordinator received, by id.
    received: Vec<bool>,
}

/// The directives to a member.
#[derive(Clone, Copy, Default)]
struct Directives {
    sent: u64,
    /// What the member reports before it has received this one is about a service that has ended.
    last_end: u64,
}

impl Directives {
    /// A directive is sent at `now`; returns what the member gets. A service ends with a slice until now. The member's time may be an earlier one:
    /// it would take the directive for the beginning of a slice.
    fn send(&mut self, now: Time, directive: Directive) -> Directive {
        self.sent += 1;
        match directive {
            Directive::Slice(until) if until <= now => {
                self.last_end = self.sent;
                Directive::Slice(Time::ZERO)
            }
            Directive::Waiting(_) => {
                self.last_end = self.sent;
                directive
            }
            _ => directive,
        }
    }

    const fn is_outdated(&self, received: u64) -> bool {
        received < self.last_end
    }
}

impl Running {
    fn receive(&mut self, id: ArrayRequestId) {
        let index = id.0 as usize;
        if index >= self.received.len() {
            self.received.resize((index + 1).next_power_of_two(), false);
        }
        self.received[index] = true;
    }

    /// The request has ended; whether this coordinator received it.
    fn end(&mut self, id: ArrayRequestId) -> bool {
        self.received.get_mut(id.0 as usize).is_some_and(std::mem::take)
    }

    /// Whether this coordinator received the request: one that arrived before belongs to a former coordinator.
    fn is_received(&self, id: ArrayRequestId) -> bool {
        self.received.get(id.0 as usize).copied().unwrap_or(false)
    }
}

/// The ends of recent sequences of requests, by the array's addresses.
///
/// A large request arrives in parts, one for each member, in the order in which the members' threads receive them, and md's requests for
/// one member can comprise several rows. By their addresses such parts go back and forth. A part near the end of a sequence continues
/// that sequence, so the coordinator receives the sequence in order.
#[derive(Default)]
pub(super) struct Frontiers {
    /// The end of each sequence, and when it was used last.
    ends: Vec<(u64, u64)>,
    uses: u64,
}

impl Frontiers {
    /// The most sequences, as many as the coordinator has streams.
    const MOST: usize = 64;

    /// Lets a request within `near` sectors of a sequence's end begin there.
    pub(super) fn straighten(&mut self, request: &mut ArrayRequest, near: u64) {
        self.uses += 1;
        let (start, end) = (request.start.0, request.start.0.saturating_add(u64::from(request.sectors.0)));
        let closest = self.ends.iter_mut().min_by_key(|(known, _)| known.abs_diff(start));
        if let Some((known, used)) = closest.filter(|(known, _)| known.abs_diff(start) <= near) {
            request.start = Sector(*known);
            request.sectors = Sectors(u32::try_from(end.saturating_sub(*known)).unwrap_or(u32::MAX).max(1));
            (*known, *used) = (end.max(*known), self.uses);
            return;
        }
        if self.ends.len() < Self::MOST {
            self.ends.push((end, self.uses));
        } else if let Some(oldest) = self.ends.iter_mut().min_by_key(|(_, used)| *used) {
            *oldest = (end, self.uses);
        }
    }
}

/// How far the parts of one large request are apart: four rows.
fn near(layout: &Layout) -> u64 {
    (4 * u64::from(layout.unit().0) * u64::from(layout.members())).max(2048)
}

/// Counters for `ctl`.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) directives: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) returned: AtomicU64,
}

/// Shared by the members.
pub(crate) struct Hub {
    running: Mutex<Running>,
    sender: Sender<Message>,
    /// Messages since the coordinator ran last.
    due: AtomicU64,
    /// When the coordinator must run, in nanoseconds.
    next: AtomicU64,
    /// The coordinator has panicked and is not called again: members schedule alone.
    broken: AtomicBool,
    /// Set once the geometry is known.
    pub(super) layout: OnceLock<Layout>,
    pub(super) activity: Activity,
    pub(super) counters: Counters,
}

impl Hub {
    pub(crate) fn new(coordinator: BoxedCoordinator, members: u32, activity: Activity) -> Arc<Self> {
        let (sender, messages) = channel();
        let mut slots = Vec::new();
        slots.resize_with(members as usize, || None);
        let running = Running {
            coordinator,
            messages,
            now: Time::ZERO,
            members: slots,
            present: vec![true; members as usize],
            arrivals: 0,
            latest: vec![0; members as usize],
            seen: vec![0; members as usize],
            directed: vec![Directives::default(); members as usize],
            frontiers: Frontiers::default(),
            received: Vec::new(),
        };
        Arc::new(Self {
            running: Mutex::new(running),
            sender,
            due: AtomicU64::new(0),
            next: AtomicU64::new(NEVER),
            broken: AtomicBool::new(false),
            layout: OnceLock::new(),
            activity,
            counters: Counters::default(),
        })
    }

    /// Connects a member's queue; `bell` wakes its thread. Called while a server starts, so it may wait.
    pub(super) fn connect(&self, member: Member, bell: Arc<Bell>) -> (Sender<Message>, Receiver<Directed>) {
        let (sender, directives) = channel();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.members[member.index()] = Some((sender, bell));
        running.directed[member.index()] = Directives::default();
        (self.sender.clone(), directives)
    }

    /// Puts another coordinator in the place of this one. May wait: not for members' threads.
    pub(super) fn replace(&self, mut coordinator: BoxedCoordinator) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for member in (0..).map(Member).take(running.present.len()).filter(|m| !running.present[m.index()]) {
            coordinator.lost(running.now, member);
        }
        running.coordinator = coordinator;
        running.received.clear();
        self.next.store(NEVER, Ordering::Relaxed);
        self.broken.store(false, Ordering::Relaxed);
    }

    /// Whether the coordinator takes part.
    pub(crate) fn is_coordinated(&self) -> bool {
        self.layout.get().is_some() && !self.broken.load(Ordering::Relaxed)
    }

    /// The members without those that are lost. May wait: not for members' threads.
    pub(super) fn present(&self) -> Vec<bool> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).present.clone()
    }

    /// A message was sent.
    pub(super) fn sent(&self) {
        self.due.fetch_add(1, Ordering::SeqCst);
    }

    /// When the coordinator must run if nothing happens before.
    pub(super) fn next_event(&self) -> Option<Time> {
        let next = self.next.load(Ordering::Relaxed);
        (next != NEVER).then(|| Time::from_nanos(next))
    }

    /// Runs the coordinator if there are messages or its time has come. Returns false if another thread runs it.
    pub(super) fn run(&self, now: Time, own: Member) -> bool {
        while self.due.load(Ordering::SeqCst) > 0 || self.next.load(Ordering::Relaxed) <= now.as_nanos() {
            let Ok(mut running) = self.running.try_lock() else { return false };
            self.due.store(0, Ordering::SeqCst);
            // Messages are sent before they are counted: what is counted is received here.
            fence(Ordering::SeqCst);
            let call = AssertUnwindSafe(|| self.step(&mut running, now, own));
            if self.broken.load(Ordering::Relaxed) || panic::catch_unwind(call).is_err() {
                self.broken.store(true, Ordering::Relaxed);
                running.messages.try_iter().for_each(drop);
                self.next.store(NEVER, Ordering::Relaxed);
            }
            drop(running);
            // Who tried in vain counted its messages before: the loop's condition sees them.
            fence(Ordering::SeqCst);
        }
        true
    }

    fn step(&self, running: &mut Running, now: Time, own: Member) {
        while let Ok(Message { member, number, at, note }) = running.messages.try_recv() {
            running.seen[member.index()] = number;
            let now = running.now.max(at);
            running.now = now;
            if matches!(note, Note::Arrived(_)) {
                self.notice_silence(running, member);
            }
            match &note {
                Note::Arrived(request) => running.receive(request.id),
                Note::Event(MemberEvent::Inserted(_), id) if !running.is_received(*id) => continue,
                Note::Completed(id) if !running.end(*id) => continue,
                Note::Reported(_, received) if running.directed[member.index()].is_outdated(*received) => {
                    continue;
                }
                _ => {}
            }
            let coordinator = &mut running.coordinator;
            match note {
                Note::Arrived(mut request) => {
                    if let Some(layout) = self.layout.get() {
                        running.frontiers.straighten(&mut request, near(layout));
                    }
                    coordinator.arrived(now, &request);
                }
                Note::Event(MemberEvent::Inserted(request), of) => {
                    coordinator.inserted(now, member, &request, of);
                }
                Note::Event(MemberEvent::Grown(request, absorbed), _) => {
                    coordinator.grown(now, member, &request, absorbed.as_ref());
                }
                Note::Event(MemberEvent::Dispatched(request), _) => {
                    coordinator.dispatched(now, member, &request);
                }
                Note::Event(MemberEvent::Carried(..) | MemberEvent::Completed(_), _) => {}
                Note::PartCompleted(request, selected) => {
                    coordinator.part_completed(now, member, &request, selected);
                }
                Note::Completed(id) => coordinator.completed(now, id),
                Note::Reported(report, _) => coordinator.reported(now, member, report),
                Note::Missed => coordinator.missed(now, member),
                Note::Lost => self.set_present(running, member, false),
                Note::Returned => self.set_present(running, member, true),
            }
        }
        running.now = running.now.max(now);
        if running.coordinator.next_event().is_some_and(|at| at <= running.now) {
            running.coordinator.pass(running.now);
        }
        let mut woken = 0_u64;
        while let Some((member, directive)) = running.coordinator.directive() {
            self.counters.directives.fetch_add(1, Ordering::Relaxed);
            self.activity.directed(running.now, directive);
            if let Some(Some((sender, bell))) = running.members.get(member.index()) {
                let directive = running.directed[member.index()].send(running.now, directive);
                // A member that has ended takes none.
                let _ = sender.send((directive, running.seen[member.index()]));
                let bit = 1 << (member.index() % 64);
                if member != own && woken & bit == 0 {
                    bell.ring();
                    // Members beyond the 64th that share a bit are woken each time.
                    woken |= if member.index() < 64 { bit } else { 0 };
                }
            }
        }
        let next = running.coordinator.next_event().map_or(NEVER, Time::as_nanos);
        self.next.store(next, Ordering::Relaxed);
    }

    /// A request arrived at a member: it is there, and another one may have been silent for too long.
    fn notice_silence(&self, running: &mut Running, member: Member) {
        let members = running.latest.len() as u64;
        running.arrivals += 1;
        running.latest[member.index()] = running.arrivals;
        self.set_present(running, member, true);
        if running.arrivals.is_multiple_of(SILENT) {
            for other in 0..running.latest.len() {
                if running.arrivals - running.latest[other] >= SILENT * members {
                    self.set_present(running, Member(other as u32), false);
                }
            }
        }
    }

    fn set_present(&self, running: &mut Running, member: Member, present: bool) {
        if std::mem::replace(&mut running.present[member.index()], present) == present {
            return;
        }
        let counters = &self.counters;
        if present {
            counters.returned.fetch_add(1, Ordering::Relaxed);
            running.coordinator.returned(running.now, member);
        } else {
            counters.lost.fetch_add(1, Ordering::Relaxed);
            running.coordinator.lost(running.now, member);
        }
    }
}
