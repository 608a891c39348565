//! The hub: messages of several threads, a coordinator that fails, members without requests, parts in any order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use disks::array::{Arrangement, Layout};
use elevator::array::{ArrayRequest, ArrayRequestId, Coordinator, Directive, Member, Report};
use elevator::queue::Token;
use elevator::{Flags, Op, Request, RequestId, Sector, Sectors, Span, Time, TuneError, Value};

use super::background::{Activity, Resync};
use super::hub::{Frontiers, Message, Note};
use super::{Hub, Link};
use crate::backend::Payload;
use crate::operation::NewOperation;
use crate::poller::Bell;

/// What a [`Counting`] coordinator received.
#[derive(Default)]
struct Received {
    arrived: AtomicU64,
    completed: AtomicU64,
    lost: AtomicU64,
    returned: AtomicU64,
}

/// Counts calls, directs a member after each 100th arrival, and panics at a request of this id.
struct Counting {
    received: Arc<Received>,
    latest: Time,
    directives: u64,
}

const PANICS_AT: ArrayRequestId = ArrayRequestId(99);

impl Coordinator for Counting {
    fn lost(&mut self, _: Time, _: Member) {
        self.received.lost.fetch_add(1, Ordering::Relaxed);
    }
    fn returned(&mut self, _: Time, _: Member) {
        self.received.returned.fetch_add(1, Ordering::Relaxed);
    }
    fn arrived(&mut self, now: Time, request: &ArrayRequest) {
        assert!(now >= self.latest, "the time runs backwards");
        assert!(request.id != PANICS_AT, "this test's coordinator panics");
        self.latest = now;
        let count = self.received.arrived.fetch_add(1, Ordering::Relaxed);
        self.directives += u64::from(count.is_multiple_of(100));
    }
    fn inserted(&mut self, _: Time, _: Member, _: &Request, _: ArrayRequestId) {}
    fn grown(&mut self, _: Time, _: Member, _: &Request, _: Option<&Request>) {}
    fn dispatched(&mut self, _: Time, _: Member, _: &Request) {}
    fn part_completed(&mut self, _: Time, _: Member, _: &Request, _: Option<RequestId>) {}
    fn completed(&mut self, _: Time, _: ArrayRequestId) {
        self.received.completed.fetch_add(1, Ordering::Relaxed);
    }
    fn reported(&mut self, _: Time, _: Member, _: Report) {}
    fn missed(&mut self, _: Time, _: Member) {}
    fn next_event(&self) -> Option<Time> {
        None
    }
    fn pass(&mut self, _: Time) {}
    fn directive(&mut self) -> Option<(Member, Directive)> {
        self.directives = self.directives.checked_sub(1)?;
        Some((Member(0), Directive::Waiting(true)))
    }
    fn tune(&mut self, name: &str, _: Value) -> Result<(), TuneError> {
        Err(TuneError::unknown(name))
    }
}

fn counting() -> (Box<Counting>, Arc<Received>) {
    let received = Arc::new(Received::default());
    (Box::new(Counting { received: received.clone(), latest: Time::ZERO, directives: 0 }), received)
}

fn hub(members: u32) -> (Arc<Hub>, Arc<Received>) {
    let (coordinator, received) = counting();
    let hub = Hub::new(coordinator, members, Activity::new(members, 1 << 20));
    let layout = Layout::new(Arrangement::Striped, members, Sectors(128), 0, 1 << 40).unwrap();
    let _ = hub.layout.set(layout);
    (hub, received)
}

fn request(start: u64) -> ArrayRequest {
    let id = ArrayRequestId(0);
    ArrayRequest { id, op: Op::Read, start: Sector(start), sectors: Sectors(8), parts: 1 }
}

#[test]
fn every_message_of_every_thread_reaches_the_coordinator() {
    const EACH: u64 = 20_000;
    let (hub, received) = hub(4);
    let begin = Barrier::new(4);
    let directives: u64 = thread::scope(|scope| {
        let members: Vec<_> = (0..4)
            .map(|index| {
                let (hub, begin) = (&hub, &begin);
                scope.spawn(move || {
                    let member = Member(index);
                    let (sender, directives) = hub.connect(member, Arc::new(Bell::new().unwrap()));
                    begin.wait();
                    for number in 0..EACH {
                        let at = Time::from_nanos(number * 1000);
                        sender
                            .send(Message {
                                member,
                                number: 1,
                                at,
                                note: Note::Arrived(request(number << 30)),
                            })
                            .unwrap();
                        hub.sent();
                        hub.run(at, member);
                    }
                    directives
                })
            })
            .collect();
        let receivers: Vec<_> = members.into_iter().map(|member| member.join().unwrap()).collect();
        receivers.iter().map(|directives| directives.try_iter().count() as u64).sum()
    });
    assert_eq!(received.arrived.load(Ordering::Relaxed), 4 * EACH, "every thread's messages arrived");
    assert_eq!(directives, 4 * EACH / 100);
}

#[test]
fn a_coordinator_that_panics_is_not_called_again() {
    let (hub, received) = hub(2);
    let (sender, _directives) = hub.connect(Member(0), Arc::new(Bell::new().unwrap()));
    for id in [1, PANICS_AT.0, 2, 3] {
        let note = Note::Arrived(ArrayRequest { id: ArrayRequestId(id), ..request(5) });
        sender.send(Message { member: Member(0), number: 1, at: Time::ZERO, note }).unwrap();
        hub.sent();
        hub.run(Time::ZERO, Member(0));
    }
    assert_eq!(received.arrived.load(Ordering::Relaxed), 1);
    assert!(!hub.is_coordinated(), "the members schedule alone");
}

#[test]
fn a_new_coordinator_receives_nothing_of_earlier_requests_and_replaces_one_that_panicked() {
    let (hub, first) = hub(2);
    let (sender, _directives) = hub.connect(Member(0), Arc::new(Bell::new().unwrap()));
    let send_of = |member, note| {
        sender.send(Message { member, number: 1, at: Time::ZERO, note }).unwrap();
        hub.sent();
        hub.run(Time::ZERO, Member(0));
    };
    let send = |note| send_of(Member(0), note);
    let arrived = |id| Note::Arrived(ArrayRequest { id: ArrayRequestId(id), ..request(5) });
    send_of(Member(1), Note::Lost);
    send(arrived(1));
    send(arrived(PANICS_AT.0));
    assert!(!hub.is_coordinated());
    let (coordinator, second) = counting();
    hub.replace(coordinator);
    send(arrived(2));
    send(Note::Completed(ArrayRequestId(1)));
    send(Note::Completed(ArrayRequestId(2)));
    assert!(hub.is_coordinated());
    let counts = |received: &Received| {
        [&received.arrived, &received.completed, &received.lost].map(|count| count.load(Ordering::Relaxed))
    };
    assert_eq!(counts(&first), [1, 0, 1]);
    assert_eq!(counts(&second), [1, 1, 1]);
}

#[test]
fn a_member_without_requests_is_not_waited_for_until_its_next_one() {
    let (hub, received) = hub(2);
    let (sender, _directives) = hub.connect(Member(0), Arc::new(Bell::new().unwrap()));
    let send = |member, number: u64| {
        let at = Time::ZERO + Span::from_micros(number);
        sender.send(Message { member, number: 1, at, note: Note::Arrived(request(number << 30)) }).unwrap();
        hub.sent();
        hub.run(at, member);
    };
    (0..200).for_each(|number| send(Member((number % 2) as u32), number));
    assert_eq!(received.lost.load(Ordering::Relaxed), 0);
    (200..800).for_each(|number| send(Member(0), number));
    assert_eq!((received.lost.load(Ordering::Relaxed), hub.present()), (1, vec![true, false]));
    send(Member(1), 800);
    assert_eq!((received.returned.load(Ordering::Relaxed), hub.present()), (1, vec![true, true]));
}

#[test]
fn parts_in_any_order_continue_one_sequence() {
    let mut frontiers = Frontiers::default();
    let mut straight = |start: u64, sectors| {
        let mut request = ArrayRequest { sectors: Sectors(sectors), ..request(start) };
        frontiers.straighten(&mut request, 2560);
        (request.start.0, request.sectors.0)
    };
    assert_eq!(straight(1_000_000, 128), (1_000_000, 128));
    assert_eq!(straight(1_000_256, 128), (1_000_128, 256), "the third part before the second");
    assert_eq!(straight(1_000_128, 128), (1_000_384, 1), "the second one has been counted");
    assert_eq!(straight(1_000_384, 128), (1_000_384, 128));
    assert_eq!(straight(9_000_000, 128), (9_000_000, 128), "another sequence");
    assert_eq!(straight(1_000_512, 128), (1_000_512, 128));
    for other in 10..200 {
        straight(other * 1_000_000, 8);
    }
    assert_eq!(straight(u64::MAX - 4, 128), (u64::MAX - 4, 128), "an end behind all addresses");
    assert_eq!(straight(u64::MAX - 2, 128), (u64::MAX, 1));
}

/// Directs its only member at its messages, and counts the reports.
struct Slices {
    received: Arc<Received>,
    slices: Vec<Time>,
}

impl Coordinator for Slices {
    fn lost(&mut self, _: Time, _: Member) {}
    fn returned(&mut self, _: Time, _: Member) {}
    fn arrived(&mut self, _: Time, _: &ArrayRequest) {}
    fn inserted(&mut self, _: Time, _: Member, _: &Request, _: ArrayRequestId) {}
    fn grown(&mut self, _: Time, _: Member, _: &Request, _: Option<&Request>) {}
    fn dispatched(&mut self, _: Time, _: Member, _: &Request) {}
    fn part_completed(&mut self, _: Time, _: Member, _: &Request, _: Option<RequestId>) {}
    fn completed(&mut self, _: Time, _: ArrayRequestId) {}
    fn reported(&mut self, _: Time, _: Member, _: Report) {
        self.received.completed.fetch_add(1, Ordering::Relaxed);
    }
    fn missed(&mut self, _: Time, _: Member) {}
    fn next_event(&self) -> Option<Time> {
        None
    }
    fn pass(&mut self, _: Time) {}
    fn directive(&mut self) -> Option<(Member, Directive)> {
        self.slices.pop().map(|until| (Member(0), Directive::Slice(until)))
    }
    fn tune(&mut self, name: &str, _: Value) -> Result<(), TuneError> {
        Err(TuneError::unknown(name))
    }
}

/// A hub whose coordinator has directed slices until these times at 5 ms; the slices as the member gets them, and its reports by the number of
/// directives that it had received, as far as they reach the coordinator.
fn directed(slices: &[u64], reports: &[u64]) -> (Vec<Time>, Vec<u64>) {
    let received = Arc::new(Received::default());
    let time = |ms| Time::ZERO + Span::from_millis(ms);
    let slices = slices.iter().rev().map(|&ms| time(ms)).collect();
    let coordinator = Slices { received: received.clone(), slices };
    let hub = Hub::new(Box::new(coordinator), 1, Activity::new(1, 1 << 20));
    let (sender, directives) = hub.connect(Member(0), Arc::new(Bell::new().unwrap()));
    let send = |note| {
        sender.send(Message { member: Member(0), number: 1, at: time(5), note }).unwrap();
        hub.sent();
        hub.run(time(5), Member(0));
        received.completed.swap(0, Ordering::Relaxed) > 0
    };
    send(Note::Missed);
    let slices = directives.try_iter().map(|(directive, _)| match directive {
        Directive::Slice(until) => until,
        other => panic!("{other:?}"),
    });
    let slices = slices.collect();
    (slices, reports.iter().copied().filter(|&known| send(Note::Reported(Report::Broken, known))).collect())
}

/// The members' threads read the clock at different times. One whose time is older would take the end of a service for the beginning of a slice.
#[test]
fn the_end_of_a_service_has_passed_for_every_member() {
    assert_eq!(directed(&[5, 6], &[]).0, [Time::ZERO, Time::ZERO + Span::from_millis(6)]);
}

/// A member reports the end of a stream while the coordinator ends the service for the same reason and begins the next one.
#[test]
fn a_report_on_a_service_that_has_ended_is_ignored() {
    assert_eq!(directed(&[9, 5, 9], &[0, 1, 2, 3]).1, [2, 3]);
}

/// Members end a turn at the same sector, so a member must not wait behind a row of the next turn that arrived first.
#[test]
fn held_requests_go_in_the_order_of_their_addresses() {
    let layout = Layout::new(Arrangement::Parity(1), 3, Sectors(128), 0, 1 << 40).unwrap();
    let hub = Hub::new(counting().0, 3, Activity::new(3, 1 << 20));
    let _ = hub.layout.set(layout);
    let now = Time::ZERO + Span::from_millis(1010);
    hub.activity.set_sync(Resync::Active, Some(&layout), now);
    let mut link = Link::new(hub, Member(0), Arc::new(Bell::new().unwrap()));
    link.arrives(now, Token(0), (Op::Read, Sector(1 << 30), Sectors(8)), false);
    for row in [2, 0, 3, 1] {
        let (start, sectors, flags) = (Sector(row * 128), Sectors(128), Flags::default());
        let payload = Payload::None;
        let operation =
            NewOperation { cookie: row, op: Op::Read, start, sectors, flags, process: None, payload };
        assert!(link.hold(now, 0, operation).is_none(), "row {row} waits for a turn");
    }
    assert!(link.release(now).is_none());
    let due = Time::ZERO + Span::from_millis(1500);
    let rows: Vec<_> = std::iter::from_fn(|| link.release(due)).map(|(_, held)| held.cookie).collect();
    assert_eq!(rows, [0, 1, 2, 3]);
}
