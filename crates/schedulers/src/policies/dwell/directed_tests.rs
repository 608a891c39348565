//! A member's reaction to each of the coordinator's directives.

use alloc::vec::Vec;

use elevator::array::{Directive, Report};
use elevator::{Decision, Device, HoldReason, Priority, Reason, Request};

use super::*;
use crate::testing::member::{ELSEWHERE, called, service_times};
use crate::testing::{Table, at_ms, request};

fn table() -> Table {
    Table::new(Dwell::new(&Environment { service_times: service_times(), ..Environment::default() }))
}

#[test]
fn an_urgent_request_goes_first_and_is_reported() {
    let mut t = table();
    let (first, other) = called(&mut t);
    t.serves(first, Reason::Urgent);
    assert_eq!(t.report(), Some(Report::Established), "the head has arrived");
    let second = t.read(8);
    t.serves(second, Reason::SliceOwner);
    let now = t.now;
    t.direct(Directive::Slice(now));
    t.serves(other, Reason::NewSlice);
}

#[test]
fn the_selected_request_is_that_of_the_flow_that_would_own_the_disk_next() {
    let mut t = table();
    let selected = |t: &mut Table| {
        let device = Device { depth: 1, in_flight: 0, last_dispatched: None, positioning: None };
        let view = View { requests: &t.requests, device };
        t.scheduler.array_member().expect("an array member").selected(t.now, &view)
    };
    assert_eq!(selected(&mut t), None);
    let read = t.read(ELSEWHERE);
    t.write(0);
    assert_eq!(selected(&mut t), Some(read), "and not the write");
    t.serves(read, Reason::NewSlice);
}

#[test]
fn an_urgent_request_waits_for_requests_in_the_device() {
    let mut t = table();
    t.depth = 31;
    let before = t.read(ELSEWHERE / 2);
    t.sends(before, Reason::NewSlice);
    let (first, _) = called(&mut t);
    t.holds(HoldReason::Directed, None);
    t.complete(before);
    t.sends(first, Reason::Urgent);
    assert_eq!(t.report(), None, "the head has not arrived yet");
    t.complete(first);
    assert_eq!(t.report(), Some(Report::Established));
}

#[test]
fn a_flow_breaks_only_after_its_slice_has_begun() {
    let mut t = table();
    let (first, other) = called(&mut t);
    t.serves(first, Reason::Urgent);
    for ms in [10, 50, 200, 400] {
        t.at(ms);
        assert!(matches!(t.next(), Decision::Hold(_)), "other heads have not arrived yet");
    }
    assert_eq!(t.report(), Some(Report::Established));
    t.direct(Directive::Slice(at_ms(600)));
    // One and a half times the cost of the move to the other request.
    t.holds(HoldReason::AwaitChild, Some(at_ms(415)));
    t.at(415).serves(other, Reason::NewSlice);
    assert_eq!(t.report(), Some(Report::Broken));
}

#[test]
fn queued_requests_join_the_flow_that_the_coordinator_names() {
    let mut t = table();
    let other = t.read(ELSEWHERE);
    let requests: Vec<_> = [0, 136, 272].map(|start| t.read(start)).into();
    t.direct(Directive::Urgent(requests[0]));
    requests.iter().for_each(|&request| t.direct(Directive::Adopt(request)));
    t.serves(requests[0], Reason::Urgent);
    t.serves(requests[1], Reason::SliceOwner);
    t.serves(requests[2], Reason::SliceOwner);
    let now = t.now;
    t.direct(Directive::Slice(now));
    t.serves(other, Reason::NewSlice);
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
fn scattered_requests_interrupt_an_adopted_flow_once_it_is_heavy() {
    let mut t = table();
    let (first, other) = called(&mut t);
    t.serves(first, Reason::Urgent);
    t.direct(Directive::Slice(at_ms(500)));
    let mut end = 8;
    for _ in 0..9 {
        let next = t.insert(request(end, 1024));
        end += 1024;
        t.serves(next, Reason::SliceOwner);
    }
    let next = t.insert(request(end, 1024)); // 4.5 MiB so far
    t.serves(other, Reason::SliceOwner);
    t.serves(next, Reason::SliceOwner);
    assert_eq!(t.report(), Some(Report::Established), "the service has not ended");
    assert_eq!(t.report(), None);
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
fn with_waiting_off_it_waits_for_no_flow() {
    let mut t = table();
    let (first, other) = called(&mut t);
    t.serves(first, Reason::Urgent);
    t.direct(Directive::Slice(at_ms(500)));
    t.holds(HoldReason::AwaitChild, Some(at_ms(15)));
    t.direct(Directive::Waiting(false));
    t.serves(other, Reason::NewSlice);
}

#[test]
fn without_a_head_it_follows_no_coordinator() {
    let mut dwell = Dwell::new(&Environment { rotational: false, ..Environment::default() });
    assert!(dwell.array_member().is_none());
}

#[test]
fn the_arrays_own_traffic_interrupts_the_slice() {
    let mut t = table();
    let first = t.read(0);
    t.direct(Directive::Urgent(first));
    t.direct(Directive::Adopt(first));
    t.serves(first, Reason::Urgent);
    t.direct(Directive::Slice(at_ms(500)));
    let priority = Priority { level: 7, ..Priority::default() };
    let own = t.insert(Request { priority, ..request(ELSEWHERE / 2, 128) });
    let child = t.read(8);
    t.direct(Directive::Pass(own));
    t.depth = 31;
    t.at(100).sends(own, Reason::Urgent);
    t.at(109).sends(child, Reason::SliceOwner);
    let next = t.read(16);
    t.at(110).holds(HoldReason::Directed, None);
    t.complete(child);
    t.complete(own);
    t.sends(next, Reason::SliceOwner);
    t.complete(next);
    let other = t.read(ELSEWHERE);
    t.at(129);
    assert!(matches!(t.next(), Decision::Hold(_)), "the other members' heads are away");
    t.at(160).serves(other, Reason::NewSlice);
}
