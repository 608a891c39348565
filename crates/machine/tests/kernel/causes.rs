//! Causes of requests, if a policy uses them.

use std::collections::BTreeSet;

use elevator::{Op, Span, Time};
use machine::Next;
use machine::kernel::{Call, Description, FIRST_THREAD, Image};

use crate::bench::{Bench, FIRST, write_file};

/// The causes of writes by certain processes, as process numbers.
fn behind(bench: &Bench, which: impl Fn(u32) -> bool) -> BTreeSet<u32> {
    let kernel = bench.machine.kernel().expect("booted");
    let seen = bench.ear.0.borrow();
    let writes = seen.iter().filter(|s| s.op == Op::Write && s.process.is_some_and(|p| which(p.task)));
    writes.filter_map(|write| write.causes).flat_map(|causes| kernel.members(causes)).collect()
}

#[test]
fn journal_writes_have_the_causes_of_the_transaction() {
    let machine = Description::named("pc-2004").expect("built in");
    let mut bench = Bench::new(&machine, "token-call", &Image::new());
    bench.calls("a", write_file("/a", 4096, 4096));
    bench.calls("b", write_file("/b", 4096, 4096));
    bench.calls("c", write_file("/c", 4096, 4096).chain([Call::Fsync(FIRST)]));
    bench.run();
    assert_eq!(behind(&bench, |process| process >= FIRST_THREAD), BTreeSet::from([1, 2, 3]));
}

#[test]
fn flusher_writes_have_the_causes_of_their_pages() {
    let machine = Description::named("pc-2003").expect("built in");
    let mut bench = Bench::new(&machine, "token-call", &Image::new());
    bench.calls("a", write_file("/a", 30 << 20, 64 << 10));
    bench.calls("b", write_file("/b", 30 << 20, 64 << 10));
    bench.run();
    assert_eq!(behind(&bench, |process| process >= FIRST_THREAD), BTreeSet::from([1, 2]));
}

#[test]
fn a_page_dirtied_by_two_processes_has_both_causes() {
    let machine = Description::named("pc-2003").expect("built in");
    let mut bench = Bench::new(&machine, "token-call", &Image::new());
    bench.calls("a", write_file("/a", 4096, 4096));
    bench.run();
    bench.calls("b", write_file("/a", 4096, 4096).chain([Call::Fsync(FIRST)]));
    bench.run();
    assert_eq!(behind(&bench, |process| process == 2), BTreeSet::from([1, 2]));
}

/// Then lets the kernel write all old pages.
fn and_rest(calls: impl Iterator<Item = Call> + 'static) -> impl Iterator<Item = Next> + 'static {
    calls.map(Next::Call).chain([Next::Think(Span::from_secs(60))])
}

#[test]
fn delayed_allocation_has_the_causes_of_the_pages() {
    let machine = Description::named("pc-2012").expect("built in");
    let mut bench = Bench::new(&machine, "token-call", &Image::new());
    bench.start("a", and_rest(write_file("/a", 1 << 20, 64 << 10)));
    bench.start("b", and_rest(write_file("/b", 1 << 20, 64 << 10)));
    bench.run();
    assert_eq!(behind(&bench, |_| true), BTreeSet::from([1, 2]), "no kernel thread");
}

#[test]
fn home_writes_of_metadata_have_the_causes_of_its_changes() {
    let machine = Description::named("pc-2010").expect("built in");
    let mut bench = Bench::new(&machine, "token-call", &Image::new());
    // Both in one transaction; the indirect blocks are each one's own.
    bench.start("a", and_rest(write_file("/a", 8 << 20, 64 << 10)));
    bench.start("b", and_rest(write_file("/b", 8 << 20, 64 << 10)));
    bench.run();
    let kernel = bench.machine.kernel().expect("booted");
    let seen = bench.ear.0.borrow();
    let committed = seen.iter().position(|s| s.causes.is_some_and(|causes| kernel.members(causes) == [1, 2]));
    let committed = committed.expect("the journal's blocks are of both");
    let home = seen[committed..]
        .iter()
        .filter(|s| !s.completed && s.op == Op::Write && s.at > Time::ZERO + Span::from_secs(20));
    let behind: BTreeSet<Vec<u32>> = home.filter_map(|s| Some(kernel.members(s.causes?))).collect();
    assert!(behind.contains(&vec![1]) && behind.contains(&vec![2]), "{behind:?}");
}
