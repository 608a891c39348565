//! The coordinator's decisions one by one, on two members with stripe units of 64 KiB.
//!
//! The service times are the default desktop drive's: 0.1 ms at the head's position, about 10 to 20 ms at a distance.

use elevator::{Flags, Priority, Sectors};

use super::*;

const UNIT: u64 = 128;
/// The position, on the members, of requests that belong to no stream.
const ELSEWHERE: u64 = 700_000_000;
/// A unit at the other end of the disks, behind those requests.
const FAR: u64 = 14_000_000;

/// A request of the array and the part of it on a member.
#[derive(Clone, Copy)]
struct Submitted {
    member: Member,
    job: ArrayRequestId,
    request: Request,
}

struct Scene {
    coordinator: StreamCoordinator,
    now: Time,
    names: u32,
    foreign: [RequestId; 2],
}

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

impl Scene {
    /// Two members, each with a distant queued request that belongs to no stream.
    fn new() -> Self {
        let coordinator = StreamCoordinator::new(ServiceCurve::default(), 2);
        let mut scene = Self { coordinator, now: Time::ZERO, names: 0, foreign: [RequestId(0); 2] };
        for member in 0..2 {
            let asked = scene.ask_at(Member(member), Sector(2 * ELSEWHERE), Sector(ELSEWHERE));
            scene.foreign[member as usize] = asked.request.id;
        }
        scene
    }

    /// Submits a read of one unit to the array.
    fn ask(&mut self, unit: u64) -> Submitted {
        self.ask_at(Member((unit % 2) as u32), Sector(unit * UNIT), Sector(unit / 2 * UNIT))
    }

    fn ask_at(&mut self, member: Member, logical: Sector, start: Sector) -> Submitted {
        self.names += 1;
        let (job, sectors) = (ArrayRequestId(self.names), Sectors(UNIT as u32));
        self.coordinator
            .arrived(self.now, &ArrayRequest { id: job, op: Op::Read, start: logical, sectors, parts: 1 });
        let request = Request {
            id: RequestId(self.names),
            serial: u64::from(self.names),
            op: Op::Read,
            start,
            sectors,
            flags: Flags::default(),
            priority: Priority::default(),
            process: None,
            causes: None,
            arrived: self.now,
        };
        self.coordinator.inserted(self.now, member, &request, job);
        Submitted { member, job, request }
    }

    /// The disk serves it at once; the array request completes `response` after its arrival.
    fn serve(&mut self, asked: Submitted, response: Span) {
        let Submitted { member, job, request } = asked;
        self.coordinator.dispatched(self.now, member, &request);
        self.now += response;
        let selected = Some(self.foreign[member.index()]);
        self.coordinator.part_completed(self.now, member, &request, selected);
        self.coordinator.completed(self.now, job);
    }

    /// Reads units in sequence; each takes `response`, followed by think time.
    fn read(&mut self, units: core::ops::Range<u64>, response: Span, think: Span) {
        for unit in units {
            let asked = self.ask(unit);
            self.serve(asked, response);
            self.now += think;
        }
    }

    fn directives(&mut self) -> Vec<(u32, Directive)> {
        core::iter::from_fn(|| self.coordinator.directive()).map(|(member, d)| (member.0, d)).collect()
    }

    fn end_slice(&mut self) {
        self.now = self.coordinator.next_event().unwrap();
        self.coordinator.pass(self.now);
    }

    /// Reads until the stream is served, and reports the arrival of the heads.
    fn establish(&mut self, first: u64) {
        self.read(first..first + 11, ms(20), Span::ZERO);
        let urgent = self.directives().into_iter().filter(|(_, d)| matches!(d, Directive::Urgent(_)));
        assert_eq!(urgent.count(), 2, "one for each member");
        for member in 0..2 {
            self.coordinator.reported(self.now, Member(member), Report::Established);
        }
    }
}

#[test]
fn a_stream_is_ready_when_it_has_its_threshold_on_every_disk() {
    let mut scene = Scene::new();
    scene.read(0..7, ms(20), Span::ZERO);
    assert_eq!(scene.directives(), [], "seven parts, three of them on the second disk");
    let eighth = scene.ask(7);
    let next = eighth.request.id;
    assert_eq!(scene.directives(), [(1, Directive::Urgent(next)), (1, Directive::Adopt(next))]);
    scene.serve(eighth, ms(20));
    assert_eq!(scene.directives(), [], "the other head is called with the stream's next request to its disk");
    let ninth = scene.ask(8);
    let next = ninth.request.id;
    assert_eq!(scene.directives(), [(0, Directive::Urgent(next)), (0, Directive::Adopt(next))]);
}

#[test]
fn response_times_in_between_do_not_count() {
    let mut scene = Scene::new();
    // Each disk gets its next request 60 ms after the completion of the last one, more than any service time.
    scene.read(0..12, ms(60), Span::ZERO);
    assert!(!scene.directives().is_empty(), "the stream has no think time");
}

#[test]
fn think_time_does_count() {
    // The pending requests take about 20 ms; between two requests to a disk the program thinks twice.
    for (think, pays) in [(1, true), (6, true), (12, false), (30, false)] {
        for response in [1, 30] {
            let mut scene = Scene::new();
            scene.read(0..40, ms(response), ms(think));
            assert_eq!(!scene.directives().is_empty(), pays, "{think} ms of thinking");
        }
    }
}

#[test]
fn requests_farther_than_the_pending_one_form_no_stream() {
    let mut scene = Scene::new();
    for n in 0..400 {
        let asked = scene.ask(n / 2 % 2 * FAR + n);
        scene.serve(asked, ms(15));
    }
    assert_eq!(scene.directives(), [], "pairs of near requests at opposite ends of the disks");
}

#[test]
fn the_arrays_slice_begins_when_all_heads_have_arrived() {
    let mut scene = Scene::new();
    scene.read(0..11, ms(20), Span::ZERO);
    scene.directives();
    let called = scene.coordinator.next_event().unwrap();
    scene.coordinator.reported(scene.now, Member(1), Report::Established);
    assert_eq!(scene.directives(), [], "one head has arrived");
    assert_eq!(scene.coordinator.next_event(), Some(called), "the time limit for the other heads");
    scene.now += ms(5);
    scene.coordinator.reported(scene.now, Member(0), Report::Established);
    let until = scene.now + ms(124);
    assert_eq!(scene.directives(), [(0, Directive::Slice(until)), (1, Directive::Slice(until))]);
    assert_eq!(scene.coordinator.next_event(), Some(until));
}

#[test]
fn when_the_slice_is_over_another_ready_stream_is_next() {
    let mut scene = Scene::new();
    scene.establish(0);
    scene.directives();
    scene.read(FAR..FAR + 12, ms(1), Span::ZERO);
    assert_eq!(scene.directives(), [], "one stream at a time");
    let waiting = scene.ask(FAR + 12);
    scene.end_slice();
    let (end, next) = (Directive::Slice(scene.now), waiting.request.id);
    let expected = [(0, end), (1, end), (0, Directive::Urgent(next)), (0, Directive::Adopt(next))];
    assert_eq!(scene.directives(), expected);
}

#[test]
fn ready_streams_are_served_in_turn() {
    let mut scene = Scene::new();
    scene.establish(0);
    let others = [FAR, FAR / 2];
    others.iter().for_each(|&from| scene.read(from..from + 12, Span::from_micros(100), Span::ZERO));
    let mut waiting = [11, others[0] + 12, others[1] + 12];
    let mut called = |scene: &mut Scene| {
        scene.directives();
        let asked = waiting.map(|unit| scene.ask(unit));
        scene.directives();
        scene.end_slice();
        let urgent = scene.directives().into_iter().find_map(|(_, directive)| match directive {
            Directive::Urgent(id) => asked.iter().position(|asked| asked.request.id == id),
            _ => None,
        });
        for (asked, unit) in asked.into_iter().zip(&mut waiting) {
            scene.serve(asked, ms(1));
            let other_disk = scene.ask(*unit + 1);
            scene.serve(other_disk, ms(1));
            *unit += 2;
        }
        for member in 0..2 {
            scene.coordinator.reported(scene.now, Member(member), Report::Established);
        }
        urgent
    };
    assert_eq!([(); 3].map(|()| called(&mut scene)), [Some(1), Some(2), Some(0)]);
}

#[test]
fn a_stream_alone_rests_for_a_slice() {
    let mut scene = Scene::new();
    scene.establish(0);
    scene.end_slice();
    scene.directives();
    scene.read(11..15, ms(20), Span::ZERO);
    assert_eq!(scene.directives(), [], "80 ms later it stands back for requests of no stream");
    scene.now += ms(1);
    scene.read(15..20, ms(20), Span::ZERO);
    assert_eq!(scene.directives().len(), 4, "then it is served again");
}

#[test]
fn a_broken_stream_ends_the_service_and_never_triggers_again() {
    let mut scene = Scene::new();
    scene.establish(0);
    scene.directives();
    scene.coordinator.reported(scene.now, Member(0), Report::Broken);
    let end = Directive::Slice(scene.now);
    assert_eq!(scene.directives(), [(0, end), (1, end)]);
    assert_eq!(scene.coordinator.next_event(), None);
    scene.read(11..200, ms(20), Span::ZERO);
    assert_eq!(scene.directives(), [], "the stream still exists but is unusable");
    scene.now += ms(1000);
    scene.read(200..212, ms(20), Span::ZERO);
    assert!(!scene.directives().is_empty(), "after its end a new stream may form");
}

#[test]
fn with_retries_a_broken_stream_is_served_again_after_a_time_that_doubles_until_a_whole_slice() {
    let mut scene = Scene::new();
    scene.coordinator.tunables.retry_slices = 1;
    scene.establish(0);
    let mut unit = 11;
    let read_until_served = |scene: &mut Scene, unit: &mut u64| {
        while !scene.directives().iter().any(|(_, d)| matches!(d, Directive::Urgent(_))) {
            scene.read(*unit..*unit + 1, ms(1), Span::ZERO);
            *unit += 1;
        }
    };
    for (nth, slices) in [1, 2, 4, 1].into_iter().enumerate() {
        if nth == 3 {
            (0..2).for_each(|member| {
                scene.coordinator.reported(scene.now, Member(member), Report::Established)
            });
            // The service pays, and an unfinished request keeps the stream.
            scene.read(unit..unit + 240, Span::from_micros(500), Span::ZERO);
            let waiting = scene.ask(unit + 240);
            unit += 241;
            scene.end_slice();
            scene.serve(waiting, ms(1));
            scene.directives();
            read_until_served(&mut scene, &mut unit);
        }
        scene.directives();
        scene.coordinator.reported(scene.now, Member(0), Report::Broken);
        scene.directives();
        let broke = scene.now;
        read_until_served(&mut scene, &mut unit);
        let (pause, least) = (scene.now.since(broke), ms(124) * slices);
        assert!(pause >= least && pause < least + ms(5), "{pause:?} after {least:?}");
    }
}

#[test]
fn after_a_service_that_does_not_pay_only_a_stream_that_has_paid_is_served() {
    for (units, response) in [(6, 10), (1, 40)] {
        let mut scene = Scene::new();
        scene.coordinator.tunables.retry_slices = 8;
        // With the time in which the heads gather, a service takes two slices.
        scene.coordinator.tunables.stream_time_slice = ms(60);
        // The array reads a unit in 20 ms without a service; then in 10 ms, or in 40.
        scene.establish(0);
        scene.read(11..11 + units, ms(response), Span::ZERO);
        let waiting = scene.ask(11 + units).request.id;
        scene.end_slice();
        scene.directives();
        scene.read(FAR..FAR + 12, ms(20), Span::ZERO);
        if response == 40 {
            assert_eq!(scene.directives(), [], "neither the stream that has not paid nor an unknown one");
            continue;
        }
        (0..2).for_each(|member| scene.coordinator.reported(scene.now, Member(member), Report::Established));
        scene.directives();
        scene.read(FAR + 12..FAR + 13, ms(40), Span::ZERO);
        scene.end_slice();
        assert!(
            scene.directives().iter().any(|(_, d)| *d == Directive::Urgent(waiting)),
            "it has paid before"
        );
    }
}

/// Its program has ended: the members, whose heads are at the stream, would hold all other requests for the rest of four slices.
#[test]
fn a_stream_without_requests_is_not_gathered_for_long() {
    let mut scene = Scene::new();
    scene.coordinator.tunables.retry_slices = 4;
    scene.read(0..9, ms(20), Span::ZERO);
    assert!(!scene.directives().is_empty(), "it is served");
    let quiet = scene.now;
    let longest = scene.coordinator.service_times.longest();
    assert_eq!(scene.coordinator.next_event(), Some(quiet + longest * 2), "a wait and a second chance");
    let late = scene.ask(9);
    assert!(scene.coordinator.next_event() > Some(quiet + longest * 2), "it has a request");
    scene.serve(late, ms(20));
    scene.directives();
    scene.end_slice();
    assert!(scene.now < quiet + ms(124), "{}", scene.now);
    let ends = scene.directives().into_iter().filter(|(_, d)| *d == Directive::Slice(scene.now));
    assert_eq!(ends.count(), 2, "each member");
}

#[test]
fn a_long_stream_has_a_second_chance_once() {
    // The longest think time after which the next unit still belongs to the stream.
    let patience = |units: u64, chances: u64| {
        let belongs = |think: u64| {
            let mut scene = Scene::new();
            scene.read(0..units, ms(20), Span::ZERO);
            let end = |scene: &Scene, id| scene.coordinator.streams.ends(id, Member(0)).1;
            let is_it = |&id: &u32| end(&scene, id) == Sector(units * UNIT);
            let stream = (0..8).find(is_it).expect("a stream that ends there");
            for unit in units..units + chances {
                scene.now += ms(think);
                let asked = scene.ask(unit);
                if end(&scene, stream) != Sector((unit + 1) * UNIT) {
                    return false;
                }
                scene.serve(asked, ms(20));
            }
            true
        };
        (1..200).take_while(|&think| belongs(think)).last().expect("a millisecond")
    };
    let once = patience(9, 1);
    assert!(patience(20, 1).abs_diff(2 * once) <= 1, "{} and {once}", patience(20, 1));
    assert_eq!(patience(20, 2), once, "then it must grow beyond the threshold again");
}

#[test]
fn merged_requests_keep_their_stream() {
    let mut scene = Scene::new();
    scene.read(0..8, ms(20), Span::ZERO);
    let (first, second) = (scene.ask(8), scene.ask(10));
    let mut grown = first.request;
    grown.sectors += second.request.sectors;
    scene.coordinator.grown(scene.now, first.member, &grown, Some(&second.request));
    scene.serve(Submitted { request: grown, ..first }, ms(5));
    scene.coordinator.completed(scene.now, second.job);
    let stream = scene.coordinator.jobs[first.job.0 as usize].stream;
    assert_eq!(scene.coordinator.streams.queued(stream, first.member).count(), 0);
    assert_eq!(scene.coordinator.streams.ends(stream, first.member).0, grown.end());
    scene.read(11..14, ms(20), Span::ZERO);
    assert!(!scene.directives().is_empty());
}

#[test]
fn a_request_that_the_device_returned_is_counted_once() {
    let mut scene = Scene::new();
    let asked = scene.ask(0);
    // The member's queue dispatches the returned request again, which is counted once.
    scene.coordinator.dispatched(scene.now, asked.member, &asked.request);
    scene.serve(asked, ms(20));
    assert_eq!(scene.coordinator.members[0].in_device, []);
}

#[test]
fn a_failed_member_is_not_waited_for() {
    let mut scene = Scene::new();
    scene.coordinator.lost(scene.now, Member(1));
    // Every other unit: the remaining units are on the failed member.
    for unit in [0, 2, 4] {
        let asked = scene.ask(unit);
        scene.serve(asked, ms(20));
    }
    assert_eq!(scene.directives(), [], "three of four");
    let fourth = scene.ask(6);
    let next = fourth.request.id;
    assert_eq!(scene.directives(), [(0, Directive::Urgent(next)), (0, Directive::Adopt(next))]);
    scene.serve(fourth, ms(20));
    scene.coordinator.reported(scene.now, Member(0), Report::Established);
    let slice = Directive::Slice(scene.now + ms(124));
    assert_eq!(scene.directives().first(), Some(&(0, slice)), "the slice begins without the failed member");
}

#[test]
fn a_missed_directive_is_repeated_for_the_next_request() {
    let mut scene = Scene::new();
    scene.coordinator.missed(scene.now, Member(0));
    scene.coordinator.lost(scene.now, Member(1));
    for unit in [0, 2, 4] {
        let asked = scene.ask(unit);
        scene.serve(asked, ms(20));
    }
    let first = scene.ask(6);
    let next = first.request.id;
    assert_eq!(scene.directives(), [(0, Directive::Urgent(next)), (0, Directive::Adopt(next))]);
    // It went to the device before the directive came.
    scene.serve(first, ms(20));
    scene.coordinator.missed(scene.now, Member(0));
    assert_eq!(scene.directives(), []);
    let next = scene.ask(8).request.id;
    assert_eq!(scene.directives(), [(0, Directive::Urgent(next)), (0, Directive::Adopt(next))]);
}

#[test]
fn a_returned_member_is_waited_for_again() {
    let mut scene = Scene::new();
    let asked = scene.ask(1);
    // Its request ends with it, without a completion.
    scene.coordinator.lost(scene.now, Member(1));
    scene.coordinator.completed(scene.now, asked.job);
    scene.coordinator.returned(scene.now, Member(1));
    assert_eq!(scene.directives(), []);
    scene.coordinator.part_completed(scene.now, Member(1), &asked.request, None);
    for unit in [0, 2, 4, 6] {
        let asked = scene.ask(unit);
        scene.serve(asked, ms(20));
    }
    assert_eq!(scene.directives(), [], "the other half of the stream is missing");
}

#[test]
fn members_stop_waiting_if_that_is_faster() {
    let mut scene = Scene::new();
    scene.coordinator.tunables.trial_slices = 4;
    scene.establish(0);
    scene.coordinator.reported(scene.now, Member(0), Report::Broken);
    scene.directives();
    // Each unit takes 20 ms until the trial begins, then 10 ms.
    let (mut unit, mut directives) = (FAR, Vec::new());
    while scene.now < Time::ZERO + ms(3_000) {
        let waits = !directives.contains(&(0, Directive::Waiting(false)));
        scene.read(unit..unit + 1, ms(if waits { 20 } else { 10 }), Span::ZERO);
        unit += 1;
        directives.extend(scene.directives());
    }
    let waiting: Vec<_> = directives.iter().filter(|(_, d)| matches!(d, Directive::Waiting(_))).collect();
    assert_eq!(waiting[..2], [&(0, Directive::Waiting(false)), &(1, Directive::Waiting(false))]);
    let without = directives.iter().position(|(_, d)| *d == Directive::Waiting(false)).unwrap();
    let with = directives.iter().position(|(_, d)| *d == Directive::Waiting(true)).unwrap();
    let served = directives[without..with].iter().any(|(_, d)| matches!(d, Directive::Urgent(_)));
    assert!(!served, "no stream is served during the trial");
}

#[test]
fn a_description_builds_the_coordinator_with_its_settings() {
    use crate::{Environment, Spec};
    let build =
        |text: &str| Spec::parse(text).unwrap().build_coordinator(&Environment::default(), 2).unwrap();
    assert!(build("deadline").is_none() && build("stream(deadline)").is_none());
    let text = "array-stream(deadline){trial_slices=8, late_child=on}";
    let member = Spec::parse(text).unwrap().build(&Environment::default()).unwrap();
    assert_eq!(member.tunable("late_child"), Some(Value::Flag(true)), "a member's");
    let mut coordinator = build(text).expect("a policy for arrays");
    assert_eq!(coordinator.tune("trial_slices", Value::Count(16)), Ok(()));
    assert!(coordinator.tune("trial_slices", Value::Count(1_001)).is_err());
    assert!(coordinator.tune("trial_slices", Value::Flag(true)).is_err());
    assert_eq!(coordinator.tune("no_such", Value::Count(1)), Err(TuneError::unknown("no_such")));
}
