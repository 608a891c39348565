//! Single decisions of the framework. Tests of whole workloads are in `tests/stream.rs`.

use alloc::boxed::Box;

use super::*;
use crate::policies::deadline::{Deadline, Version};
use crate::policies::mq_deadline::MqDeadline;
use crate::policies::noop::Noop;
use crate::testing::{Table, at_ms, request};
use Reason::{Child, CloseEnough, FirstCome, StreamBroken, StreamSliceOver};
use elevator::service_time::MeasuredPoint;
use elevator::{
    Candidate, Capabilities, Decision, Fact, Growth, HoldReason, Item, Priority, PriorityClass, Reason,
    Request, RequestId, Scheduler, Span, Time, Tunable, Tuning, Value, View, WorkConserving, tuned_by_itself,
};

/// 1 ms up to 1,000 sectors, 10 ms from 100,000 sectors on, linear between.
fn curve() -> ServiceCurve {
    let points = [(0, 1), (1_000, 1), (100_000, 10)];
    let points = points.map(|(distance, ms)| MeasuredPoint { distance, time: Span::from_millis(ms) });
    ServiceCurve::fit(&points, Span::ZERO)
}

fn around(policy: BoxedWorkConserving, settings: &[(&str, Value)]) -> Table {
    let mut t = Table::new(StreamScheduling::new(policy, curve()));
    for (name, value) in settings {
        t.scheduler.tune(name, *value).unwrap();
    }
    t
}

fn table(settings: &[(&str, Value)]) -> Table {
    around(Box::new(Noop::default()), settings)
}

/// A distant position.
const ELSEWHERE: u64 = 1_000_000_000;

/// Requests that form no stream: each begins at a lower sector than the previous one, and with the backward penalty is more distant than the pending requests.
fn elsewhere(n: u64) -> u64 {
    ELSEWHERE * (1_000 - n)
}

/// Establishes a stream: a reader issues `length` sequential requests from `start` on, each after the completion of the last one, in
/// alternation with distant requests. The last one has completed now. Returns the pending distant request.
fn establish_at(t: &mut Table, start: u64, length: u64) -> RequestId {
    let mut own = t.read(start);
    let mut other = t.read(elsewhere(0));
    for n in 1..length.min(4) {
        t.serves(own, FirstCome);
        t.sends(other, FirstCome);
        own = t.read(start + n * 8);
        t.complete(other);
        other = t.read(elsewhere(n));
    }
    t.serves(own, FirstCome);
    for n in 4..length {
        own = t.read(start + n * 8);
        t.serves(own, Child);
    }
    other
}

fn establish(t: &mut Table, length: u64) -> RequestId {
    establish_at(t, 0, length)
}

#[test]
fn the_disk_waits_for_the_child_of_an_established_stream() {
    let mut t = table(&[]);
    let other = establish(&mut t, 4);
    t.holds(HoldReason::AwaitChild, Some(at_ms(10)));
    t.at(3);
    let child = t.read(32);
    t.serves(child, Child);
    t.holds(HoldReason::AwaitChild, Some(at_ms(13)));
    t.at(13).serves(other, StreamBroken);
    t.idles();
}

#[test]
fn a_stream_below_the_threshold_is_not_waited_for() {
    let mut t = table(&[]);
    let other = establish(&mut t, 3);
    t.serves(other, FirstCome);
    let mut t = table(&[("stream_threshold", Value::Count(3))]);
    establish(&mut t, 3);
    t.holds(HoldReason::AwaitChild, Some(at_ms(10)));
}

#[test]
fn requests_of_the_lowest_priority_form_no_stream() {
    let lowest = [(PriorityClass::BestEffort, 7), (PriorityClass::Idle, 0)];
    for (class, level) in lowest {
        let mut t = table(&[]);
        let own = |n: u64| Request { priority: Priority { class, level }, ..request(n * 8, 8) };
        let mut other = t.read(elsewhere(0));
        for n in 0..6 {
            let next = t.insert(own(n));
            t.serves(other, FirstCome);
            other = t.read(elsewhere(n + 1));
            t.serves(next, FirstCome);
        }
        t.serves(other, FirstCome);
        t.idles();
    }
}

#[test]
fn the_disk_waits_for_the_child_of_a_write_only_with_wait_after_writes() {
    for waits in [false, true] {
        let mut t = table(&[("wait_after_writes", Value::Flag(waits))]);
        let other = establish(&mut t, 4);
        let child = t.write(32);
        t.serves(child, Child);
        if waits {
            t.holds(HoldReason::AwaitChild, Some(at_ms(10)));
        } else {
            t.serves(other, StreamBroken);
            let next = t.read(40);
            t.serves(next, FirstCome);
        }
    }
}

#[test]
fn wait_time_plus_service_time_must_be_less_than_the_pending_service_time() {
    for (ms, is_child) in [(8, true), (9, false)] {
        let mut t = table(&[]);
        let other = establish(&mut t, 4);
        t.at(ms);
        let arrival = t.read(32); // takes 1 ms; the selected pending request 10 ms
        if is_child {
            t.serves(arrival, Child);
        } else {
            t.holds(HoldReason::AwaitChild, Some(at_ms(10)));
            t.at(10).serves(other, StreamBroken);
        }
    }
}

#[test]
fn backward_costs_half_as_much_again() {
    // The selected pending request takes 10 ms; a request 60,000 sectors ahead takes 6.4 ms, 60,000 sectors behind 9.5 ms.
    let mut t = table(&[]);
    let other = establish_at(&mut t, 200_000, 4);
    t.at(1);
    let behind = t.read(140_000);
    t.holds(HoldReason::AwaitChild, Some(at_ms(10)));
    let ahead = t.read(260_000);
    t.serves(ahead, Child);
    t.at(11).serves(other, StreamBroken);
    t.serves(behind, FirstCome);
}

#[test]
fn a_long_stream_gets_a_second_chance_for_which_the_disk_does_not_wait() {
    let mut t = table(&[]);
    let other = establish(&mut t, 7); // more than 4 and 50%
    t.at(10).serves(other, StreamBroken);
    t.at(18);
    let late = t.read(56);
    t.read(ELSEWHERE * 20);
    t.serves(late, FirstCome);
    t.holds(HoldReason::AwaitChild, Some(at_ms(28))); // still established
}

#[test]
fn a_stream_not_long_enough_for_a_second_chance_begins_again() {
    for settings in [vec_of("tolerance_factor", 50), vec_of("second_chance", 0)] {
        let length = if settings[0].0 == "second_chance" { 7 } else { 6 };
        let mut t = table(&settings);
        let other = establish(&mut t, length);
        t.at(10).serves(other, StreamBroken);
        t.at(18);
        let late = t.read(length * 8);
        let pending = t.read(ELSEWHERE * 20);
        t.serves(late, FirstCome);
        t.serves(pending, FirstCome);
    }
}

fn vec_of(name: &'static str, percent: u64) -> [(&'static str, Value); 1] {
    [(name, Value::Percent(percent))]
}

#[test]
fn a_pending_request_is_sent_when_the_slice_is_over_and_children_stand_back_for_it() {
    let slice = Value::Span(Span::from_millis(20));
    let mut t = table(&[("stream_time_slice", slice)]);
    let other = establish(&mut t, 4); // served from 0 on
    t.at(8);
    let child = t.read(32);
    t.serves(child, Child);
    t.at(16);
    let child = t.read(40);
    t.sends(child, Child);
    t.at(20).complete(child);
    let late = t.read(48);
    t.serves(other, StreamSliceOver);
    t.serves(late, FirstCome);
    t.idles();
}

#[test]
fn children_that_stand_back_are_not_lost_when_they_grow() {
    let slice = Value::Span(Span::from_millis(4));
    let mut t = table(&[("stream_time_slice", slice)]);
    let other = establish(&mut t, 4);
    t.at(5);
    let late = t.read(32);
    let later = t.read(40);
    t.absorb(late, later); // both stand back
    let pending = t.read(ELSEWHERE * 30);
    let touching = t.read(ELSEWHERE * 30 + 8);
    t.absorb(touching, pending); // neither does
    t.serves(other, StreamSliceOver);
    t.serves(touching, FirstCome);
    t.serves(late, FirstCome);
    t.idles();
}

#[test]
fn with_nothing_pending_the_disk_idles_and_the_first_pending_request_decides() {
    let mut t = table(&[]);
    let other = establish(&mut t, 4);
    t.at(10).serves(other, StreamBroken);
    let mut own = t.read(2_000 * ELSEWHERE);
    for n in 1..4 {
        t.serves(own, FirstCome);
        t.idles();
        own = t.read(2_000 * ELSEWHERE + n * 8);
    }
    t.serves(own, FirstCome);
    t.idles(); // established, but no request is pending for comparison
    t.at(14);
    let pending = t.read(2_000 * ELSEWHERE + 77_000); // takes 7.9 ms, too much after a wait of 4 ms
    t.holds(HoldReason::AwaitChild, Some(at_ms(10) + Span::from_nanos(7_906_181)));
    t.at(18).serves(pending, StreamBroken);
}

/// A served stream (threshold 1) around deadline with batches of one, at 0 ms; a distant request waits.
fn served_with_one_waiting() -> (Table, RequestId) {
    let slice = ("stream_time_slice", Value::Span(Span::from_secs(5)));
    let threshold = ("stream_threshold", Value::Count(1));
    let mut t = around(Box::new(Deadline::new(Version::V2_6_32)), &[slice, threshold]);
    t.scheduler.tune("fifo_batch", Value::Count(1)).unwrap();
    let own = t.read(0);
    let old = t.read(ELSEWHERE);
    t.serves(own, Reason::NewSweep);
    t.holds(HoldReason::AwaitChild, Some(at_ms(10)));
    for n in 1..=100 {
        t.at(5 * n);
        let child = t.read(8 * n);
        t.serves(child, Child);
        t.holds(HoldReason::AwaitChild, Some(at_ms(5 * n + 10)));
    }
    (t, old)
}

#[test]
fn an_expired_request_suspends_the_service_of_a_stream_and_its_child_resumes_it() {
    let (mut t, old) = served_with_one_waiting(); // now at 500 ms
    t.at(501);
    let child = t.read(8 * 101);
    let later = t.read(ELSEWHERE * 3);
    t.serves(old, Reason::Expired);
    t.serves(child, Child);
    t.holds(HoldReason::AwaitChild, Some(at_ms(511)));
    t.at(511).serves(later, StreamBroken);
}

#[test]
fn without_a_child_the_disk_stays_at_the_expired_request() {
    let (mut t, old) = served_with_one_waiting();
    t.at(501);
    let later = t.read(ELSEWHERE * 3);
    t.serves(old, Reason::Expired);
    t.holds(HoldReason::AwaitChild, Some(at_ms(511)));
    t.at(505);
    let near_old = t.read(ELSEWHERE + 8);
    t.serves(near_old, Child);
    t.at(515).serves(later, StreamBroken);
}

#[test]
fn another_streams_request_that_is_close_enough_ends_the_wait() {
    let mut t = table(&[]);
    // Two readers 30,000 sectors apart (3.6 ms forward, 5.5 ms backward), and requests from elsewhere.
    let [mut a, mut b] = [0, 30_000].map(|sector| t.read(sector));
    let mut other = t.read(elsewhere(0));
    for n in 1..4 {
        t.serves(a, FirstCome);
        t.sends(b, FirstCome);
        a = t.read(n * 8);
        t.complete(b);
        t.sends(other, FirstCome);
        b = t.read(30_000 + n * 8);
        t.complete(other);
        other = t.read(elsewhere(n));
    }
    t.serves(a, FirstCome); // established
    for n in 4..8 {
        a = t.read(n * 8);
        t.serves(a, Child);
    }
    // The wait lasts as long as the service time of `b`; then follows the second chance.
    t.at(4).serves(b, StreamBroken); // established too
    t.holds(HoldReason::AwaitChild, Some(at_ms(14)));
    t.at(6);
    let again = t.read(64); // the first reader's next request: 5.5 ms, after a wait of 2 ms
    t.serves(again, CloseEnough);
    t.holds(HoldReason::AwaitChild, Some(at_ms(16))); // back to the first stream, in the same slice
    t.at(16).serves(other, StreamBroken);
}

#[test]
fn while_a_stream_is_served_no_other_request_enters_a_queueing_device() {
    let mut t = table(&[]);
    t.depth = 31;
    let mut own = t.read(0);
    let far = [1, 2, 3].map(|n| t.read(ELSEWHERE * n));
    t.sends(own, FirstCome);
    far.iter().for_each(|&id| t.sends(id, FirstCome));
    for n in 1..3 {
        t.complete(own);
        t.idles(); // the pending requests are in the device; the nearest takes 10 ms
        own = t.read(n * 8);
        t.sends(own, FirstCome);
    }
    t.complete(own);
    t.idles();
    let fourth = t.read(24);
    t.sends(fourth, FirstCome); // established
    let held_back = t.read(ELSEWHERE * 4);
    t.holds(HoldReason::AwaitChild, Some(at_ms(124)));
    far.iter().for_each(|&id| t.complete(id));
    t.holds(HoldReason::AwaitChild, Some(at_ms(124)));
    t.at(50).complete(fourth);
    t.holds(HoldReason::AwaitChild, Some(at_ms(60)));
    t.at(55);
    let child = t.read(32);
    t.sends(child, Child);
    t.holds(HoldReason::AwaitChild, Some(at_ms(124)));
    t.at(124).sends(held_back, StreamSliceOver);
}

#[test]
fn by_the_tail_rule_the_wait_time_begins_at_the_dispatch() {
    let mut t = table(&[("pending_in_device", Value::Flag(false)), ("stream_threshold", Value::Count(1))]);
    t.depth = 2;
    let first = t.read(0);
    let other = t.read(ELSEWHERE);
    t.sends(first, FirstCome);
    t.holds(HoldReason::AwaitChild, Some(at_ms(10)));
    t.at(10).sends(other, StreamBroken);
    t.complete(first);
    t.complete(other);
    t.idles();
}

#[test]
fn a_near_child_may_arrive_while_its_parent_is_in_the_device() {
    for (sector, joins) in [(8, true), (100_000, false)] {
        let mut t = table(&[("stream_threshold", Value::Count(2))]);
        let first = t.read(0);
        let other = t.read(ELSEWHERE);
        t.serves(first, FirstCome);
        t.sends(other, FirstCome); // the selected pending request took 10 ms; early children may take 2.5 ms
        let early = t.read(ELSEWHERE + sector);
        let pending = t.read(ELSEWHERE * 7);
        t.complete(other);
        t.serves(early, FirstCome);
        if joins {
            t.holds(HoldReason::AwaitChild, Some(at_ms(10)));
        } else {
            t.serves(pending, FirstCome);
        }
    }
}

#[test]
fn a_lower_class_waits_under_a_stream_too() {
    let mut t = around(Box::new(MqDeadline::default()), &[]);
    t.depth = 4;
    let of = |class, start| Request { priority: Priority { class, level: 4 }, ..request(start, 8) };
    let high = t.insert(of(PriorityClass::RealTime, 0));
    let low = t.insert(of(PriorityClass::Idle, 8));
    t.sends(high, Reason::Batch);
    t.holds(HoldReason::ClassWaits, None);
    t.complete(high);
    t.sends(low, Reason::Batch);
}

#[test]
fn the_wrapped_policy_is_tuned_through_the_framework() {
    let mut t = around(Box::new(Deadline::new(Version::V2_6_32)), &[]);
    t.scheduler.tune("fifo_batch", Value::Count(3)).unwrap();
    assert_eq!(t.scheduler.tunable("fifo_batch"), Some(Value::Count(3)));
    assert_eq!(t.scheduler.tunable("stream_threshold"), Some(Value::Count(4)));
    assert!(t.scheduler.tune("no_such", Value::Count(3)).is_err());
}

/// A policy with a tunable of its own, and one with the name of a tunable of the framework.
struct Named;

impl Scheduler for Named {
    fn insert(&mut self, _: Time, _: &Request) {}

    fn merged(&mut self, _: Time, _: &Request, _: Growth<'_>) {}

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.dispatch_candidate(now, view).unwrap_or(Decision::Idle)
    }
}

impl WorkConserving for Named {
    fn candidate(&mut self, _: Time, _: &View<'_>) -> Option<Candidate> {
        None
    }

    fn take(&mut self, _: Time, _: &Request) {}
}

impl Capabilities for Named {
    tuned_by_itself!();
}

impl Tuning for Named {
    fn table(&self) -> &[Tunable] {
        const { &[crate::policies::deadline::Tunables::TABLE[0], Tunables::TABLE[0]] }
    }

    fn value(&self, _: &str) -> Option<Value> {
        None
    }

    fn set_value(&mut self, name: &str, _: Value) -> Result<(), TuneError> {
        Err(TuneError::unknown(name))
    }
}

#[test]
fn tunables_of_the_wrapped_policy_are_listed_once_behind_its_own() {
    let t = around(Box::new(Named), &[]);
    let (own, of_policy) = t.scheduler.tunables().split_at(Tunables::TABLE.len());
    assert!(own.iter().map(|tunable| tunable.name).eq(Tunables::TABLE.iter().map(|tunable| tunable.name)));
    assert!(
        of_policy.iter().map(|tunable| tunable.name).eq([crate::policies::deadline::Tunables::TABLE[0].name])
    );
}

/// The item that `inspect` returns for the stream in that state.
fn item_of(t: &Table, role: &str) -> Option<Item> {
    let is = |item: &Item| matches!(item.fact("role"), Some(Fact::Word(word)) if word == role);
    t.items().into_iter().find(is)
}

#[test]
fn children_are_expected_of_64_streams_at_most() {
    let mut t = table(&[]);
    t.depth = 100;
    for n in 1..=70 {
        let read = t.read(elsewhere(n));
        t.sends(read, FirstCome);
        let parents =
            t.items().iter().filter(|item| item.fact("role") == Some(Fact::Word("parent-to-be"))).count();
        assert_eq!(parents as u64, n.min(64));
    }
}

#[test]
fn inspection_shows_a_stream_whose_child_is_queued() {
    let mut t = table(&[]);
    let first = t.read(0);
    let other = t.read(elsewhere(0));
    t.serves(first, FirstCome);
    t.sends(other, FirstCome);
    assert!(item_of(&t, "child queued").is_none());
    let child = t.read(8);
    t.at(1_000).complete(other); // the time for another child is over
    let item = item_of(&t, "child queued").expect("a stream");
    assert_eq!(item.fact("position"), Some(Fact::Sector(Sector(16))));
    t.sends(child, FirstCome);
    assert!(item_of(&t, "child queued").is_none());
}

#[test]
fn inspection_shows_the_served_stream_and_the_awaited_child() {
    let mut t = table(&[]);
    assert!(item_of(&t, "served").is_none());
    establish(&mut t, 4);
    assert!(matches!(t.next(), Decision::Hold(_)));
    let served = item_of(&t, "served").expect("its child is awaited");
    assert_eq!(served.fact("established"), Some(Fact::Flag(true)));
    assert_eq!(served.fact("length"), Some(Fact::Count(4)));
    assert!(matches!(served.fact("slice_left"), Some(Fact::Span(left)) if left > Span::ZERO));
    assert!(matches!(served.fact("child_awaited_for"), Some(Fact::Span(left)) if left > Span::ZERO));
}
