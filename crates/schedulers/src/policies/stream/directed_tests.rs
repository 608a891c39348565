//! A member's reaction to each of the coordinator's directives.

use alloc::boxed::Box;

use elevator::array::{Directive, Report};
use elevator::{HoldReason, Priority, Reason, Request, RequestId};

use super::StreamScheduling;
use crate::policies::noop::Noop;
use crate::testing::member::{ELSEWHERE, called, service_times};
use crate::testing::{Table, at_ms, request};

fn table() -> Table {
    Table::new(policy())
}

fn policy() -> StreamScheduling {
    StreamScheduling::new(Box::new(Noop::default()), service_times())
}

#[test]
fn an_urgent_request_goes_first_and_is_reported() {
    let mut t = table();
    let (first, other) = called(&mut t);
    t.serves(first, Reason::Urgent);
    assert_eq!(t.report(), Some(Report::Established), "the head has arrived");
    t.at(100).holds(HoldReason::AwaitChild, Some(at_ms(110)));
    let second = t.read(8);
    t.serves(second, Reason::Child);
    assert_eq!(t.report(), None, "it was there");
    let now = t.now;
    t.direct(Directive::Slice(now));
    t.serves(other, Reason::StreamSliceOver);
}

#[test]
fn the_arrival_of_the_head_is_not_reported_once_the_slice_has_been_ended() {
    let mut t = table();
    let (first, _) = called(&mut t);
    t.sends(first, Reason::Urgent);
    let now = t.now;
    t.direct(Directive::Slice(now));
    t.complete(first);
    assert_eq!(t.report(), None);
}

#[test]
fn an_urgent_request_waits_for_requests_in_the_device() {
    let mut t = table();
    t.depth = 31;
    let before = t.read(ELSEWHERE / 2);
    t.sends(before, Reason::FirstCome);
    let (first, _) = called(&mut t);
    t.holds(HoldReason::Directed, None);
    t.complete(before);
    t.sends(first, Reason::Urgent);
    assert_eq!(t.report(), None, "the head has not arrived yet");
    t.complete(first);
    assert_eq!(t.report(), Some(Report::Established));
}

#[test]
fn a_stream_breaks_only_after_its_slice_has_begun() {
    let mut t = table();
    let (first, other) = called(&mut t);
    t.serves(first, Reason::Urgent);
    for ms in [10, 50, 200, 400] {
        t.at(ms);
        assert!(matches!(t.next(), elevator::Decision::Hold(_)), "other heads have not arrived yet");
    }
    assert_eq!(t.report(), Some(Report::Established));
    t.direct(Directive::Slice(at_ms(600)));
    t.holds(HoldReason::AwaitChild, Some(at_ms(410)));
    t.at(410).serves(other, Reason::StreamBroken);
    assert_eq!(t.report(), Some(Report::Broken));
}

#[test]
fn queued_requests_join_the_stream_that_the_coordinator_names() {
    let mut t = table();
    let other = t.read(ELSEWHERE);
    // Too far from each other to be one stream by themselves.
    let requests = [0, 5_000, 10_000].map(|start| t.read(start));
    t.direct(Directive::Urgent(requests[0]));
    requests.into_iter().for_each(|request| t.direct(Directive::Adopt(request)));
    t.serves(requests[0], Reason::Urgent);
    t.serves(requests[1], Reason::Child);
    t.serves(requests[2], Reason::Child);
    let now = t.now;
    t.direct(Directive::Slice(now));
    t.serves(other, Reason::StreamSliceOver);
}

#[test]
fn the_arrays_slice_replaces_the_members_own() {
    let mut t = table();
    let (first, _) = called(&mut t);
    t.serves(first, Reason::Urgent);
    t.direct(Directive::Slice(at_ms(5)));
    t.holds(HoldReason::AwaitChild, Some(at_ms(5)));
}

#[test]
fn an_absorbed_urgent_request_passes_its_urgency_on() {
    let mut t = table();
    let before = t.read(0);
    let urgent = t.read(8);
    t.direct(Directive::Urgent(urgent));
    t.absorb(before, urgent);
    t.serves(before, Reason::Urgent);
}

#[test]
fn with_waiting_off_it_dispatches_the_candidate() {
    let mut t = table();
    let (first, other) = called(&mut t);
    t.serves(first, Reason::Urgent);
    t.holds(HoldReason::AwaitChild, Some(at_ms(10)));
    t.direct(Directive::Waiting(false));
    t.serves(other, Reason::FirstCome);
    let elsewhere = t.read(ELSEWHERE);
    let child = t.read(8);
    t.serves(elsewhere, Reason::FirstCome);
    t.serves(child, Reason::FirstCome);
}

/// A slice has begun, and nothing else is queued.
fn serving_alone(late_child: bool) -> Table {
    let mut policy = policy();
    policy.tunables.late_child = late_child;
    let mut t = Table::new(policy);
    let first = t.read(0);
    t.direct(Directive::Urgent(first));
    t.direct(Directive::Adopt(first));
    t.serves(first, Reason::Urgent);
    assert_eq!(t.report(), Some(Report::Established));
    t.direct(Directive::Slice(at_ms(500)));
    t
}

/// Nothing else is queued, so the disk loses nothing by waiting. A late child comes from a reader whose request to another disk was late.
#[test]
fn a_late_child_continues_the_slice_if_nothing_was_pending() {
    let mut t = serving_alone(true);
    let second = t.at(60).read(8);
    t.serves(second, Reason::Child);
    // What is pending now is compared from now on.
    let other = t.at(150).read(ELSEWHERE);
    t.holds(HoldReason::AwaitChild, Some(at_ms(160)));
    let third = t.at(155).read(16);
    t.serves(third, Reason::Child);
    t.at(165).holds(HoldReason::AwaitChild, Some(at_ms(175)));
    t.at(175).serves(other, Reason::StreamBroken);
    assert_eq!(t.report(), Some(Report::Broken));
}

/// As in the paper: it is later than the last budget, so it continues no stream, and the disk turns to it.
#[test]
fn without_late_child_a_late_child_ends_the_slice_if_nothing_was_pending() {
    let mut t = serving_alone(false);
    let second = t.at(60).read(8);
    let elevator::Decision::Dispatch { id, reason } = t.next() else {
        panic!("{:?}", t.next());
    };
    assert_eq!(id, second);
    assert_ne!(reason, Reason::Child);
}

#[test]
fn a_distant_request_does_not_continue_the_slice_if_nothing_was_pending() {
    let mut t = serving_alone(true);
    let other = t.at(60).read(ELSEWHERE);
    t.holds(HoldReason::AwaitChild, Some(at_ms(70)));
    t.at(70).serves(other, Reason::StreamBroken);
}

/// The array's own traffic, of the lowest priority, far from the stream in service.
fn own_traffic(t: &mut Table, start: u64) -> RequestId {
    let priority = Priority { level: 7, ..Priority::default() };
    t.insert(Request { priority, ..request(ELSEWHERE / 2 + start, 8) })
}

#[test]
fn the_arrays_own_traffic_interrupts_the_slice() {
    let mut t = serving_alone(true);
    let own = [0, 8].map(|start| own_traffic(&mut t, start));
    let child = t.read(8);
    own.into_iter().for_each(|own| t.direct(Directive::Pass(own)));
    t.serves(own[0], Reason::Urgent);
    t.serves(own[1], Reason::Urgent);
    t.serves(child, Reason::Child);
}

/// The other members serve it too: the stream's next request needs them.
#[test]
fn the_stream_may_be_late_after_an_interruption() {
    let mut t = serving_alone(true);
    let own = own_traffic(&mut t, 0);
    t.direct(Directive::Pass(own));
    t.at(100).serves(own, Reason::Urgent);
    let other = t.read(ELSEWHERE);
    for ms in [105, 110, 119] {
        t.at(ms);
        assert!(
            matches!(t.next(), elevator::Decision::Hold(_)),
            "{ms} ms: the other members' heads are away"
        );
    }
    t.at(120).serves(other, Reason::StreamBroken);
}

#[test]
fn a_device_that_leaves_the_arrays_own_traffic_behind_gets_nothing_else() {
    let mut t = serving_alone(true);
    t.depth = 31;
    let own = own_traffic(&mut t, 0);
    t.direct(Directive::Pass(own));
    t.at(100).sends(own, Reason::Urgent);
    let children = [8, 16].map(|start| t.read(start));
    t.at(109).sends(children[0], Reason::Child);
    t.at(110).holds(HoldReason::Directed, None);
    t.complete(children[0]);
    t.holds(HoldReason::Directed, None);
    t.complete(own);
    t.sends(children[1], Reason::Child);
}

#[test]
fn an_absorbed_request_that_passes_is_replaced() {
    let mut t = serving_alone(true);
    let [first, second] = [0, 8].map(|start| own_traffic(&mut t, start));
    t.direct(Directive::Pass(second));
    let child = t.read(8);
    t.absorb(first, second);
    t.serves(first, Reason::Urgent);
    t.serves(child, Reason::Child);
}
