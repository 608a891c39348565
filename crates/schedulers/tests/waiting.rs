//! Whether waiting pays, end to end: the situations for which the waiting schedulers were made, in a tiny closed world.

mod support;

use elevator::Span;
use elevator::queue::Identity::{self, Same, Shown};
use support::{CAPACITY, Outcomes, Program, World};

const WAITING: [&str; 4] = ["anticipatory-2.6.9", "anticipatory-2.6.32", "cooperative", "cfq-2.6.32"];

/// Four processes, each reading a file of its own, far apart.
fn par_read(scheduler: &str, identity: Identity) -> Outcomes {
    let programs: Vec<_> = (0..4)
        .map(|n| (Program::Stream { at: n * CAPACITY / 4, think: Span::from_micros(20) }, 1_500))
        .collect();
    World::run(scheduler, identity, 1, &programs)
}

/// A source tree read file by file, each by a process of its own.
fn chunks(part: u64) -> Program {
    Program::Chunks {
        at: part * CAPACITY / 4,
        reads_per_file: 1,
        gap: 256,
        think: Span::from_micros(50),
        spawn: Span::from_micros(1_500),
    }
}

#[test]
fn parallel_readers_are_three_times_as_fast_when_processes_are_shown() {
    let deadline = par_read("deadline-2.6.32", Shown).rate();
    for scheduler in WAITING {
        let rate = par_read(scheduler, Shown).rate();
        assert!(rate >= 3.0 * deadline, "{scheduler}: {rate:.0}/s, deadline {deadline:.0}/s");
    }
}

#[test]
fn when_all_are_one_process_waiting_schedulers_are_deadline() {
    let deadline = par_read("deadline-2.6.32", Same).rate();
    for scheduler in WAITING {
        let rate = par_read(scheduler, Same).rate();
        assert!((rate / deadline - 1.0).abs() < 0.05, "{scheduler}: {rate:.0}/s, deadline {deadline:.0}/s");
    }
}

#[test]
fn a_streaming_reader_starves_chunk_reads_under_las_and_not_under_cas() {
    let seconds = |scheduler| {
        let stream = Program::Stream { at: CAPACITY / 2, think: Span::from_micros(20) };
        let outcomes = World::run(scheduler, Shown, 1, &[(chunks(0), 2_000), (stream, 1)]);
        (outcomes.seconds(0), outcomes.rate())
    };
    let [(deadline, d), (las, l), (cas, c)] =
        ["deadline-2.6.9", "anticipatory-2.6.9", "cooperative"].map(seconds);
    eprintln!("deadline {deadline:.1} s {d:.0}/s, LAS {las:.1} s {l:.0}/s, CAS {cas:.1} s {c:.0}/s");
    assert!(las > 8.0 * cas, "published: 4767 s and 255 s");
    assert!(cas < deadline, "published: 255 s and 297 s");
    assert!(c > 2.0 * d, "published: 34 MB/s and 9 MB/s");
}

#[test]
fn two_chunk_readers_are_two_groups() {
    let rate = |scheduler| World::run(scheduler, Shown, 1, &[(chunks(0), 2_000), (chunks(2), 2_000)]).rate();
    let [deadline, las, cas] = ["deadline-2.6.9", "anticipatory-2.6.9", "cooperative"].map(rate);
    eprintln!("deadline {deadline:.0}/s, LAS {las:.0}/s, CAS {cas:.0}/s");
    assert!(cas >= 2.5 * las, "published: 4.0 and 11.6 MB/s");
}

#[test]
fn reads_beside_a_streaming_writer_do_not_wait_for_it() {
    let seconds = |scheduler| {
        let write = Program::Write { at: CAPACITY / 2, window: 100 };
        let read = Program::Stream { at: 0, think: Span::from_micros(20) };
        World::run(scheduler, Shown, 1, &[(read, 1_000), (write, 1)]).seconds(0)
    };
    let deadline = seconds("deadline-2.6.9");
    for scheduler in WAITING {
        let seconds = seconds(scheduler);
        eprintln!("{scheduler} {seconds:.1} s, deadline {deadline:.1} s");
        assert!(seconds * 4.0 < deadline, "published: 10 s or 9 s, and 129 s");
    }
}

#[test]
fn nobody_waits_long_for_a_random_reader() {
    let rate = |scheduler| {
        let programs: Vec<_> =
            (0..4).map(|n| (Program::Random { think: Span::from_millis(30), seed: n }, 500)).collect();
        World::run(scheduler, Shown, 1, &programs).rate()
    };
    let deadline = rate("deadline-2.6.9");
    for scheduler in WAITING {
        let rate = rate(scheduler);
        assert!(rate > 0.9 * deadline, "{scheduler}: {rate:.0}/s, deadline {deadline:.0}/s");
    }
}

/// Throughput must not be bought with a read that waits for ever: neither of two readers waits much longer than a read
/// expiry (looked at once in as long) or a slice.
#[test]
fn of_two_streaming_readers_neither_waits_long() {
    for scheduler in WAITING {
        let programs =
            [0, CAPACITY / 2].map(|at| (Program::Stream { at, think: Span::from_micros(20) }, 3_000));
        let outcomes = World::run(scheduler, Shown, 1, &programs);
        let longest = outcomes.longest.iter().max().copied().unwrap_or_default();
        assert!(longest < Span::from_millis(300), "{scheduler}: {longest}");
        let spread = outcomes.seconds(0) / outcomes.seconds(1);
        assert!(
            (0.8..1.25).contains(&spread),
            "{scheduler}: one took {spread:.2} times as long as the other"
        );
    }
}

/// Files that lie megabytes apart and come slowly are a group as long as the next one is within the window.
#[test]
fn chunk_readers_of_scattered_files_are_groups_all_the_same() {
    let tree = |part: u64| Program::Chunks {
        at: part * CAPACITY / 4,
        reads_per_file: 1,
        gap: 7_000,
        think: Span::from_micros(50),
        spawn: Span::from_micros(2_500),
    };
    let rate = |scheduler| World::run(scheduler, Shown, 1, &[(tree(0), 2_000), (tree(2), 2_000)]).rate();
    let [las, cas] = ["anticipatory-2.6.9", "cooperative"].map(rate);
    assert!(cas >= 1.5 * las, "LAS {las:.0}/s, CAS {cas:.0}/s");
}
