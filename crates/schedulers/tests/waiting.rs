//! The gain of waiting, end to end: the workloads for which the waiting schedulers were designed, in a closed loop.

mod closed_loop;

use closed_loop::{CAPACITY, Disk, Load, Outcomes, Path, Served, build, reader, takes};
use elevator::queue::Identity::{self, Same, Shown};
use elevator::queue::{Options, Plugging};
use elevator::{Op, Span};

const WAITING: [&str; 4] = ["anticipatory-2.6.9", "anticipatory-2.6.32", "cooperative", "cfq-2.6.32"];

/// Sectors in a request: 64 KiB.
const SECTORS: u32 = 128;
const HOUR: Span = Span::from_secs(3_600);

fn run(scheduler: &str, identity: Identity, loads: &[Load]) -> Outcomes {
    let options =
        Options { depth: 1, identity, plugging: Plugging::None, merges: false, ..Options::default() };
    closed_loop::run(build(scheduler), options, Disk::in_order(takes), loads, HOUR)
}

/// Requests per second of all loads.
fn rate(outcomes: &Outcomes) -> f64 {
    outcomes.served.iter().map(Served::requests).sum::<u64>() as f64 / outcomes.elapsed.as_secs_f64()
}

/// The time until a load completed `enough` requests, or until the end of the run.
fn seconds(outcomes: &Outcomes, n: usize) -> f64 {
    outcomes.served[n].finished.map_or(HOUR.as_secs_f64(), |at| at.as_secs_f64())
}

/// A sequential reader of a quarter of the disk.
fn stream(quarter: u32, enough: u64) -> Load {
    let at = u64::from(quarter) * CAPACITY / 4;
    Load { at, sectors: SECTORS, think: Span::from_micros(20), enough, ..reader(quarter + 1) }
}

/// Four processes read files that are far apart.
fn par_read(scheduler: &str, identity: Identity) -> Outcomes {
    run(scheduler, identity, &[0, 1, 2, 3].map(|quarter| stream(quarter, 1_500)))
}

/// A source tree; each file is read by a process of its own.
fn chunks(quarter: u32) -> Load {
    let path = Path::Files { requests: 1, gap: 256, spawn: Span::from_micros(1_500) };
    Load { path, ..stream(quarter, 2_000) }
}

#[test]
fn parallel_readers_are_three_times_as_fast_when_processes_are_shown() {
    let deadline = rate(&par_read("deadline-2.6.32", Shown));
    for scheduler in WAITING {
        let rate = rate(&par_read(scheduler, Shown));
        assert!(rate >= 3.0 * deadline, "{scheduler}: {rate:.0}/s, deadline {deadline:.0}/s");
    }
}

#[test]
fn when_all_are_one_process_waiting_schedulers_are_deadline() {
    let deadline = rate(&par_read("deadline-2.6.32", Same));
    for scheduler in WAITING {
        let rate = rate(&par_read(scheduler, Same));
        assert!((rate / deadline - 1.0).abs() < 0.05, "{scheduler}: {rate:.0}/s, deadline {deadline:.0}/s");
    }
}

#[test]
fn a_streaming_reader_starves_chunk_reads_under_las_and_not_under_cas() {
    let measure = |scheduler| {
        let outcomes = run(scheduler, Shown, &[chunks(0), stream(2, 1)]);
        (seconds(&outcomes, 0), rate(&outcomes))
    };
    let [(deadline, d), (las, l), (cas, c)] =
        ["deadline-2.6.9", "anticipatory-2.6.9", "cooperative"].map(measure);
    eprintln!("deadline {deadline:.1} s {d:.0}/s, LAS {las:.1} s {l:.0}/s, CAS {cas:.1} s {c:.0}/s");
    assert!(las > 8.0 * cas, "published: 4767 s and 255 s");
    assert!(cas < deadline, "published: 255 s and 297 s");
    assert!(c > 2.0 * d, "published: 34 MB/s and 9 MB/s");
}

#[test]
fn two_chunk_readers_are_two_groups() {
    let measure = |scheduler| rate(&run(scheduler, Shown, &[chunks(0), chunks(2)]));
    let [deadline, las, cas] = ["deadline-2.6.9", "anticipatory-2.6.9", "cooperative"].map(measure);
    eprintln!("deadline {deadline:.0}/s, LAS {las:.0}/s, CAS {cas:.0}/s");
    assert!(cas >= 2.5 * las, "published: 4.0 and 11.6 MB/s");
}

#[test]
fn reads_beside_a_streaming_writer_do_not_wait_for_it() {
    let measure = |scheduler| {
        let write = Load { op: Op::Write, sync: false, depth: 100, think: Span::ZERO, ..stream(2, 1) };
        seconds(&run(scheduler, Shown, &[stream(0, 1_000), write]), 0)
    };
    let deadline = measure("deadline-2.6.9");
    for scheduler in WAITING {
        let seconds = measure(scheduler);
        eprintln!("{scheduler} {seconds:.1} s, deadline {deadline:.1} s");
        assert!(seconds * 4.0 < deadline, "published: 10 s or 9 s, and 129 s");
    }
}

#[test]
fn the_device_does_not_wait_long_for_a_random_reader() {
    let loads = [0, 1, 2, 3].map(|n| Load {
        at: 0,
        path: Path::Within(CAPACITY),
        think: Span::from_millis(30),
        ..stream(n, 500)
    });
    let deadline = rate(&run("deadline-2.6.9", Shown, &loads));
    for scheduler in WAITING {
        let rate = rate(&run(scheduler, Shown, &loads));
        assert!(rate > 0.9 * deadline, "{scheduler}: {rate:.0}/s, deadline {deadline:.0}/s");
    }
}

/// High throughput must not starve a reader: neither of two readers waits much longer than a read
/// expiry (checked once per expiry time) or a slice.
#[test]
fn of_two_streaming_readers_neither_waits_long() {
    for scheduler in WAITING {
        let outcomes = run(scheduler, Shown, &[0, 2].map(|quarter| stream(quarter, 3_000)));
        let longest = outcomes.served.iter().map(Served::longest).max().unwrap_or_default();
        assert!(longest < Span::from_millis(300), "{scheduler}: {longest}");
        let spread = seconds(&outcomes, 0) / seconds(&outcomes, 1);
        assert!(
            (0.8..1.25).contains(&spread),
            "{scheduler}: one reader took {spread:.2} times as long as the other"
        );
    }
}

/// Files that are megabytes apart and follow slowly form a group if the next one is within the window.
#[test]
fn chunk_readers_of_scattered_files_are_groups_too() {
    let path = Path::Files { requests: 1, gap: 7_000, spawn: Span::from_micros(2_500) };
    let trees = [0, 2].map(|quarter| Load { path, ..chunks(quarter) });
    let [las, cas] =
        ["anticipatory-2.6.9", "cooperative"].map(|scheduler| rate(&run(scheduler, Shown, &trees)));
    assert!(cas >= 1.5 * las, "LAS {las:.0}/s, CAS {cas:.0}/s");
}
