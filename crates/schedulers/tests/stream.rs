//! The stream framework on the stream paper's workloads, without process information. The disk's service times depend on distances only, and
//! distance 0 is a buffer hit, so that ratios are larger than on a real drive.

mod closed_loop;

use closed_loop::{Disk, FAR, Load, Partner, Path, Served, build, reader};
use elevator::Span;
use elevator::queue::{Identity, Limits, Options, Plugging};
use elevator::service_time::ServiceCurve;

const DEPTHS: [u32; 3] = [1, 4, 31];

/// Results of a run, of all readers together and of each.
#[derive(Debug)]
struct Outcomes {
    requests: u64,
    longest: Span,
    done: Vec<u64>,
}

/// Runs readers under a scheduler for `seconds`, at that depth.
fn run(scheduler: &str, depth: u32, readers: Vec<Load>, seconds: u64) -> Outcomes {
    let (plugging, limits, identity) = (Plugging::None, Limits::NONE, Identity::Hidden);
    let options = Options { depth, plugging, limits, identity, ..Options::default() };
    let curve = ServiceCurve::default();
    let disk = Disk::nearest_first(move |head, request| curve.service_time(head, request.start, 100));
    let time = Span::from_secs(seconds);
    let served = closed_loop::run(build(scheduler), options, disk, &readers, time).served;
    let done: Vec<u64> = served.iter().map(Served::requests).collect();
    let longest = served.iter().map(Served::longest).max().unwrap_or_default();
    Outcomes { requests: done.iter().sum(), longest, done }
}

/// The stream paper's `par-read`: four readers, 50 GB apart.
fn par_read(think: Span) -> Vec<Load> {
    (0..4).map(|n| Load { think, ..reader(n) }).collect()
}

fn ratio(outcomes: &Outcomes, to: &Outcomes) -> f64 {
    outcomes.requests as f64 / to.requests as f64
}

/// Every process gets its share within 15%.
fn assert_fair(outcomes: &Outcomes) {
    let mean = outcomes.requests / outcomes.done.len() as u64;
    for done in &outcomes.done {
        assert!(done.abs_diff(mean) * 100 <= mean * 15, "{outcomes:?}");
    }
}

/// The paper: about 3.2 times the others, longest wait 0.37 s, which is three slices of 124 ms and their seeks.
#[test]
fn par_read_alternates_sequential_slices_at_every_depth() {
    for depth in DEPTHS {
        let deadline = run("deadline", depth, par_read(Span::ZERO), 5);
        for spec in [
            "stream(deadline)",
            "stream(deadline-2.6.9)",
            "stream(noop)",
            "stream(c-scan)",
            "stream(mq-deadline)",
        ] {
            let stream = run(spec, depth, par_read(Span::ZERO), 5);
            // A slice of 124 ms with 0.1 ms per request, then a seek of 10 ms.
            assert!(
                ratio(&stream, &deadline) > 50.0,
                "{spec} at depth {depth}: {stream:?} against {deadline:?}"
            );
            assert!(stream.longest < Span::from_millis(3 * 124 + 60), "{spec} at depth {depth}: {stream:?}");
            assert_fair(&stream);
        }
    }
}

/// By the tail rule alone, a device with room for all requests leaves none pending, so that no stream begins.
#[test]
fn the_tail_rule_alone_starts_no_stream_if_the_device_has_room_for_all_readers() {
    let paper = run("stream{pending_in_device=off}", 31, par_read(Span::ZERO), 5);
    let deadline = run("deadline", 31, par_read(Span::ZERO), 5);
    assert_eq!(paper.requests, deadline.requests);
}

/// With more readers than the device's depth, requests are pending for the tail rule to compare with. Its time
/// starts at the dispatch, so that requests in the device shorten the wait.
#[test]
fn the_tail_rule_alone_helps_with_more_readers_than_the_depth() {
    let readers = || (0..8).map(|n| Load { at: u64::from(n) * FAR / 2, ..reader(n) }).collect::<Vec<_>>();
    let deadline = run("deadline", 2, readers(), 5);
    let ours = run("stream", 2, readers(), 5);
    assert!(ratio(&ours, &deadline) > 20.0, "{ours:?} against {deadline:?}");
}

#[test]
fn two_and_three_readers_below_the_depth_form_streams_too() {
    for depth in DEPTHS {
        for count in [2, 3] {
            let readers = || par_read(Span::ZERO)[..count].to_vec();
            let deadline = run("deadline", depth, readers(), 5);
            let stream = run("stream(deadline)", depth, readers(), 5);
            assert!(ratio(&stream, &deadline) > 50.0, "{count} readers at {depth}: {stream:?}, {deadline:?}");
            assert_fair(&stream);
        }
    }
}

/// In the paper the advantage decreases with think time until the streams break and stream equals deadline. Up to that think time
/// at most 3% are lost. A move from one reader to the next costs 10 ms forward.
#[test]
fn the_advantage_falls_with_think_time_and_ends_at_deadline() {
    for depth in DEPTHS {
        let mut last = f64::INFINITY;
        for think in [0, 1, 2, 4, 6, 8, 9, 10] {
            let readers = || par_read(Span::from_millis(think));
            let now =
                ratio(&run("stream(deadline)", depth, readers(), 10), &run("deadline", depth, readers(), 10));
            assert!(now <= last * 1.01, "think time {think} ms at depth {depth}: {now} after {last}");
            assert!(now >= 0.97, "think time {think} ms at depth {depth}: {now}");
            last = now;
        }
    }
}

/// At longer think times a wait for the reader at the end of the sweep still appears judicious, because the penalty raises the
/// estimated cost of the move back (150 GB) by half. Without the penalty nothing is lost.
#[test]
fn beyond_the_crossing_only_the_backward_penalty_loses() {
    for depth in DEPTHS {
        for think in [12, 15, 20, 30] {
            let readers = || par_read(Span::from_millis(think));
            let deadline = run("deadline", depth, readers(), 10);
            let fair = ratio(&run("stream{backward_penalty=1}", depth, readers(), 10), &deadline);
            let penalised = ratio(&run("stream", depth, readers(), 10), &deadline);
            println!("think time {think} ms, depth {depth}: {penalised:.3}; without the penalty {fair:.3}");
            assert!(fair >= 0.97, "think time {think} ms at depth {depth}: {fair}");
            assert!(penalised >= 0.70, "think time {think} ms at depth {depth}: {penalised}");
        }
    }
}

#[test]
fn a_longer_slice_gains_to_about_a_hundred_milliseconds_then_little() {
    let slice = |ms: u64| {
        let spec = format!("stream{{stream_time_slice={ms}ms}}");
        run(&spec, 1, par_read(Span::ZERO), 10).requests as f64
    };
    let [s10, s50, s100, s200] = [10, 50, 100, 200].map(slice);
    assert!(s50 > 1.3 * s10 && s100 > s50, "{s10} {s50} {s100} {s200}");
    assert!(s200 < 1.08 * s100, "{s100} {s200}");
}

/// Two readers of files 100 MB apart that wait for each other after every five requests, four such pairs 50 GB apart.
fn multi_threads() -> Vec<Load> {
    let thread = |n: u32| {
        let at = u64::from(n / 2) * FAR + u64::from(n % 2) * 100_000_000 / 512;
        let partner = Some(Partner { load: n as usize ^ 1, every: 5 });
        Load { at, path: Path::Ahead(24), partner, ..reader(n) }
    };
    (0..8).map(thread).collect()
}

/// In the paper: more than twice deadline's throughput.
#[test]
fn threads_that_wait_for_each_other_do_not_disturb_the_streams() {
    for depth in DEPTHS {
        let deadline = run("deadline", depth, multi_threads(), 20);
        let stream = run("stream(deadline)", depth, multi_threads(), 20);
        println!("multi-threads at depth {depth}: {:.2}", ratio(&stream, &deadline));
        assert!(ratio(&stream, &deadline) > 2.0, "depth {depth}: {stream:?} against {deadline:?}");
    }
}

/// Twelve readers alternate with slices of 124 ms, which would exceed deadline's 500 ms. Expired requests interrupt the
/// streams, so that no reader waits for the slices of all others.
#[test]
fn expired_requests_are_respected() {
    for depth in DEPTHS {
        let readers =
            || (0..12).map(|n| Load { at: u64::from(n) * FAR / 4, ..reader(n) }).collect::<Vec<_>>();
        let respects = run("stream(deadline)", depth, readers(), 20);
        let ignores = run("stream(c-scan)", depth, readers(), 20);
        assert!(ignores.longest > Span::from_millis(11 * 124), "{ignores:?}");
        assert!(respects.longest < Span::from_millis(500 + 2 * 124 + 12 * 15), "{respects:?}");
        assert!(respects.done.iter().all(|&done| done > 0), "{respects:?}");
    }
}

/// Readers that keep two requests outstanding: a child arrives while its parent is in the device.
#[test]
fn readers_with_several_requests_outstanding_are_streams_too() {
    for depth in DEPTHS {
        for outstanding in [2, 4] {
            let readers = || -> Vec<_> {
                par_read(Span::ZERO).into_iter().map(|r| Load { depth: outstanding, ..r }).collect()
            };
            let deadline = run("deadline", depth, readers(), 5);
            let stream = run("stream(deadline)", depth, readers(), 5);
            println!("{outstanding} outstanding at depth {depth}: {stream:?} against {deadline:?}");
            assert!(
                ratio(&stream, &deadline) > 0.97,
                "{outstanding} at {depth}: {stream:?} against {deadline:?}"
            );
            assert!(stream.requests > 30_000, "{outstanding} at {depth}: {stream:?}");
        }
    }
}

/// Random reads have no locality; the framework must not reduce their throughput.
#[test]
fn random_readers_lose_nothing() {
    for depth in DEPTHS {
        // For each reader a different stride over the whole disk of 500 GB.
        let readers = || -> Vec<_> {
            let strides = [97_000_003_u64, 31_000_019, 59_000_023, 83_000_029];
            let readers = (0..).zip(strides);
            readers.map(|(n, at)| Load { at, path: Path::Ahead(at), ..reader(n) }).collect()
        };
        let deadline = run("sstf", depth, readers(), 10);
        let stream = run("stream(sstf)", depth, readers(), 10);
        assert!(ratio(&stream, &deadline) > 0.97, "depth {depth}: {stream:?} against {deadline:?}");
    }
}
