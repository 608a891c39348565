//! Decision tables, and the model of operations.

use alloc::vec::Vec;

use elevator::check_policy::check_policy;
use elevator::{HoldReason, Reason, Span};

use super::*;
use crate::testing::{Table, at_ms, request};

fn table() -> Table {
    Table::new(Dwell::new(&Environment::default()))
}

/// A stream far from sector 0 that is established, with `count` requests served from 0 ms on, one in a millisecond.
pub(super) fn stream<S: Scheduler + ?Sized>(t: &mut Table<S>, from: u64, count: u64) -> u64 {
    for n in 0..count {
        let id = t.insert(request(from + n * 1024, 1024));
        let sent = t.dispatches();
        assert_eq!(sent, id);
        t.now += Span::from_millis(1);
        t.complete(id);
    }
    from + count * 1024
}

#[test]
fn the_disk_waits_for_the_next_request_of_a_stream() {
    let mut t = table();
    // A move takes as long as estimated: what a request in time saves is measured.
    let first = t.insert(request(400_000_000 - 1024, 1024));
    assert_eq!(t.dispatches(), first);
    t.now += Span::from_millis(15);
    t.complete(first);
    let next = stream(&mut t, 400_000_000, 8);
    let since = t.now;
    let other = t.read(0);
    let Decision::Hold(Hold { until: Some(until), reason: HoldReason::AwaitChild, .. }) = t.next() else {
        panic!("no wait");
    };
    // All requests so far came at once. The wait is an eighth of what a request in time saves: a move over most of the disk.
    let wait = until.since(since);
    assert!(wait > Span::from_millis(1) && wait < Span::from_millis(3), "{wait}");
    let child = t.insert(request(next, 1024));
    t.sends(child, Reason::SliceOwner);
    t.complete(child);
    t.now += Span::from_millis(3);
    t.serves(other, Reason::NewSlice); // the next one is late
}

/// Regression: the first reads of a turn took no move, because the drive had read ahead, and readers that continue after 0.3 ms were left for each
/// other after one read.
#[test]
fn a_prompt_stream_is_not_left_for_what_the_drive_has_read_ahead() {
    let mut t = table();
    let mut next = [100_000_000, 800_000_000];
    let mut arrives = [Some(at_ms(1)); 2];
    let mut serves: Option<(RequestId, usize, Time)> = None;
    let (mut turn, mut reads, mut turns) = (0, 0, 0);
    while t.now < at_ms(3_000) {
        t.now += Span::from_micros(50);
        if let Some((id, reader, _)) = serves.take_if(|(.., done)| *done <= t.now) {
            t.complete(id);
            arrives[reader] = Some(t.now + Span::from_micros(300));
        }
        for reader in 0..2 {
            if arrives[reader].take_if(|at| *at <= t.now).is_some() {
                t.insert(request(next[reader], 8));
                next[reader] += 8;
            }
        }
        if serves.is_none()
            && let Decision::Dispatch { id, .. } = t.next()
        {
            let reader = usize::from(t.requests[id].start.0 >= 400_000_000);
            (turns, reads) = if reader == turn { (turns, reads + 1) } else { (turns + 1, 0) };
            turn = reader;
            // What the drive has read ahead ends after eight reads.
            let takes = if reads == 8 { Span::from_millis(10) } else { Span::from_micros(150) };
            serves = Some((id, reader, t.now + takes));
        }
    }
    assert!((10..40).contains(&turns), "{turns} turns");
}

#[test]
fn a_short_request_ends_the_slice_of_a_heavy_stream() {
    let mut t = table();
    let next = stream(&mut t, 400_000_000, 20); // ten megabytes
    let child = t.insert(request(next, 1024));
    let commit = t.read(0);
    t.sends(commit, Reason::Urgent);
    t.complete(commit);
    t.now += Span::from_millis(50);
    t.serves(child, Reason::NewSlice);
}

#[test]
fn a_flush_is_a_request_of_the_program_that_waits_for_it() {
    let mut t = table();
    let next = stream(&mut t, 400_000_000, 20); // ten megabytes
    t.insert(request(next, 1024));
    for n in 0..10 {
        let mut commit = Request { op: Op::Write, ..request(n * 8, 8) };
        commit.flags.sync = true;
        let commit = t.insert(commit);
        assert_eq!(t.dispatches(), commit, "commit {n}");
        t.now += Span::from_micros(200);
        t.complete(commit);
        t.scheduler.flushing(t.now);
        t.holds(HoldReason::AwaitCompletion, None);
        t.now += Span::from_millis(10);
        t.scheduler.flushed(t.now);
        let wait = t.next();
        assert!(matches!(wait, Decision::Hold(Hold { reason: HoldReason::AwaitChild, .. })), "{wait:?}");
        t.now += Span::from_micros(300);
    }
}

#[test]
fn a_stream_that_waits_for_its_turn_stays_heavy() {
    let mut t = table();
    t.scheduler.tune("sync_expire", elevator::Value::Span(Span::from_secs(60))).unwrap();
    let next = stream(&mut t, 400_000_000, 20); // ten megabytes
    t.insert(request(next, 1024));
    t.now += Span::from_secs(5);
    let commit = t.read(0);
    t.sends(commit, Reason::Urgent);
}

#[test]
fn two_sequences_of_a_program_are_one_flow() {
    let service_times = Environment::default().service_times;
    let mut flows = Flows::new(&service_times);
    // Reads run ahead of the writes, up to three megabytes.
    let requests = (0..100).flat_map(|n| {
        let write = request(400_000_000 + n * 64, 64);
        [request(400_000_000 + n * 128, 128), Request { op: Op::Write, ..write }]
    });
    let tracks: Vec<FlowId> =
        requests.map(|request| flows.tracked(Time::ZERO, &request, &service_times)).collect();
    assert!(tracks.iter().all(|&track| track == tracks[0]), "{tracks:?}");
    // All but the first read and write are contiguous.
    assert_eq!(flows.get(tracks[0]).recent_bytes(Time::ZERO), 99 * 192 * 512);
}

#[test]
fn a_tree_is_light_beside_a_long_stream() {
    let mut t = table();
    let tree = stream(&mut t, 800_000_000, 12); // six megabytes: heavy alone
    let next = stream(&mut t, 400_000_000, 200);
    t.insert(request(next, 1024));
    let file = t.insert(request(tree, 1024));
    t.sends(file, Reason::Urgent);
}

#[test]
fn asynchronous_writes_have_a_turn_beside_a_stream() {
    let mut t = table();
    let mut next = stream(&mut t, 400_000_000, 20);
    let write = t.write(0);
    let written = loop {
        let child = t.insert(request(next, 1024));
        let id = t.dispatches();
        if id == write {
            break t.now;
        }
        assert_eq!(id, child);
        t.now += Span::from_millis(10);
        t.complete(child);
        next += 1024;
        assert!(t.now < at_ms(1_000), "the write starves");
    };
    assert!(written >= at_ms(400), "at {written}"); // `write_period` after the write arrived
}

#[test]
fn an_expired_request_is_served_before_all_others() {
    let mut t = table();
    t.scheduler.tune("light_share", elevator::Value::Percent(99)).unwrap();
    let first = t.write(900_000_000);
    for n in 0..20 {
        t.now += Span::from_millis(300);
        let id = t.read(n * 100_000_000);
        let sent = t.dispatches();
        if sent == first {
            return;
        }
        assert_eq!(sent, id);
        t.complete(id);
    }
    panic!("not served");
}

#[test]
fn without_a_head_requests_go_in_order_of_arrival() {
    let environment = Environment { rotational: false, ..Environment::default() };
    let mut t = Table::new(Dwell::new(&environment));
    let ids = [900_000, 5, 400_000].map(|start| t.read(start));
    for id in ids {
        t.serves(id, Reason::FirstCome);
    }
    t.idles();
}

#[test]
fn without_a_head_each_fourth_request_is_asynchronous_if_there_are_both() {
    let environment = Environment { rotational: false, ..Environment::default() };
    let mut t = Table::new(Dwell::new(&environment));
    let writes: Vec<_> = (0..5).map(|n| t.write(n * 8)).collect();
    (0..20).for_each(|n| _ = t.read(n * 8));
    let sent = [(); 20].map(|()| t.dispatches());
    let places: Vec<_> = (0..20).filter(|&n| writes.contains(&sent[n])).collect();
    assert!(
        places.len() == 5 && places.windows(2).all(|pair| pair[1] - pair[0] == PASSING as usize),
        "{places:?}"
    );
}

#[test]
fn a_long_synchronous_write_is_heavy_and_a_short_one_light() {
    let mut t = table();
    let write = |start: u64, sectors: u32| Request { sectors: elevator::Sectors(sectors), ..direct(start) };
    t.insert(write(100_000_000, SHORT_WRITE + 1));
    let short = t.insert(write(900_000_000, SHORT_WRITE));
    assert_eq!(t.dispatches(), short);
}

#[test]
fn the_device_gets_all_asynchronous_writes_while_nobody_waits() {
    let mut t = table();
    t.depth = 32;
    for round in 1..3 {
        t.now += Span::from_millis(1);
        (0..24).for_each(|n| _ = t.write(n * 40_000_000 + round * 8));
        let sent = [(); 24].map(|()| t.dispatches());
        sent.into_iter().for_each(|id| t.complete(id));
    }
}

#[test]
fn it_keeps_the_contract() {
    let operations = std::env::var("DWELL_OPERATIONS").ok().and_then(|number| number.parse().ok());
    for rotational in [true, false] {
        let environment = Environment { rotational, ..Environment::default() };
        check_policy(operations.unwrap_or(200_000), 1, &mut || Box::new(Dwell::new(&environment)))
            .unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn a_program_that_waits_for_its_writes_is_not_awaited() {
    let mut t = table();
    let mut next = stream(&mut t, 400_000_000, 5);
    let mut holds = 0;
    for n in 0..40 {
        // The program needs memory: its next read follows the write.
        let write = t.write(800_000_000 + n * 1024);
        let mut decision = t.next();
        if let Decision::Hold(hold) = decision {
            t.now = hold.until.expect("a time");
            holds += 1;
            decision = t.next();
        }
        assert!(matches!(decision, Decision::Dispatch { id, .. } if id == write), "{decision:?}");
        t.now += Span::from_millis(2);
        t.complete(write);
        for _ in 0..3 {
            let id = t.insert(request(next, 64));
            assert_eq!(t.dispatches(), id);
            t.now += Span::from_micros(500);
            t.complete(id);
            next += 64;
        }
    }
    assert!((1..=20).contains(&holds), "{holds} waits in 40 rounds");
}

#[test]
fn random_readers_of_an_area_each_are_served_one_after_the_other() {
    let mut t = table();
    let mut random = elevator::Random::new(1);
    // Two programs that read at random in areas of 20 GB, 400 GB apart. Their next requests arrive at once.
    let mut draw = |area: u64| area * 800_000_000 + random.below(40_000_000);
    let mut queued = [0, 1].map(|area| t.read(draw(area)));
    let (mut changes, mut last, mut in_device) = (0, 0, None);
    for _ in 0..200 {
        let id = in_device.take().unwrap_or_else(|| t.dispatches());
        let area = usize::from(id == queued[1]);
        changes += u32::from(area != last);
        last = area;
        t.now += Span::from_millis(8);
        t.complete(id);
        if let Decision::Dispatch { id, .. } = t.next() {
            in_device = Some(id);
        }
        queued[area] = t.read(draw(area as u64));
    }
    assert!(changes <= 60, "{changes} changes of area in 200 requests");
}

#[test]
fn a_device_that_queues_gets_scattered_requests_beside_those_of_a_light_flow() {
    let mut t = table();
    t.depth = 4;
    let next = stream(&mut t, 400_000_000, 5);
    t.now += Span::from_millis(100);
    let scattered = t.read(0);
    assert_eq!(t.dispatches(), scattered);
    let child = t.insert(request(next, 64));
    assert_eq!(t.dispatches(), child);
}

/// A synchronous write of 16 KiB.
pub(super) fn direct(start: u64) -> Request {
    let mut write = request(start, 32);
    (write.op, write.flags.sync) = (Op::Write, true);
    write
}

/// Two sequential writers on a device that takes `near` for a write behind the last one and `far` for others: how often the device
/// changes from one to the other in 200 writes.
fn changes_between_writers(near: Span, far: Span) -> u32 {
    let mut t = table();
    t.depth = 4;
    let mut next = [0, 400_000_000];
    let mut queued = next.map(|start| t.insert(direct(start)));
    let (mut changes, mut last, mut sent) = (0, 0, Vec::new());
    for _ in 0..200 {
        while let Decision::Dispatch { id, .. } = t.next() {
            sent.push(id);
        }
        if sent.is_empty() {
            t.now += Span::from_millis(1);
            continue;
        }
        let id = sent.remove(0);
        let writer = usize::from(id == queued[1]);
        changes += u32::from(writer != last);
        t.now += if writer == last { near } else { far };
        last = writer;
        t.complete(id);
        next[writer] += 32;
        queued[writer] = t.insert(direct(next[writer]));
    }
    changes
}

#[test]
fn sequential_writers_take_turns_where_a_change_costs_a_move() {
    let changes = changes_between_writers(Span::from_micros(300), Span::from_millis(8));
    assert!(changes <= 60, "{changes} changes");
}

#[test]
fn a_device_with_a_cache_for_writes_gets_those_of_all_writers() {
    let changes = changes_between_writers(Span::from_micros(100), Span::from_micros(100));
    assert!(changes >= 150, "{changes} changes");
}

#[test]
fn flows_near_each_other_are_served_before_those_far_away() {
    let mut t = table();
    // Two files in one area, and one far away; 4 KB of each 16 KB.
    let starts = [800_000_000, 400_000_000, 400_100_000];
    for start in starts {
        t.now += Span::from_millis(50);
        for n in 0..8 {
            let id = t.insert(request(start + n * 32, 8));
            assert_eq!(t.dispatches(), id);
            t.now += Span::from_micros(100);
            t.complete(id);
        }
    }
    let [far, near] = [starts[0], starts[1]].map(|start| t.insert(request(start + 256, 8)));
    // The disk has served the third file; its program pauses.
    let mut decision = t.next();
    while let Decision::Hold(hold) = decision {
        t.now = hold.until.expect("a time");
        decision = t.next();
    }
    assert!(matches!(decision, Decision::Dispatch { id, .. } if id == near), "{decision:?}");
    t.complete(near);
    t.now += Span::from_millis(200);
    assert_eq!(t.dispatches(), far);
}

/// A program with one request outstanding at a time: its next request, and its results.
struct Program<'a> {
    draw: &'a mut dyn FnMut() -> Request,
    served: u64,
    longest_wait: Span,
}

impl<'a> Program<'a> {
    fn new(draw: &'a mut dyn FnMut() -> Request) -> Self {
        Self { draw, served: 0, longest_wait: Span::ZERO }
    }
}

/// Runs the programs on a disk that takes 8 ms, or half a millisecond for a request behind the last one; each next request arrives at
/// once.
fn run(t: &mut Table, programs: &mut [Program<'_>], time: Span) {
    let end = t.now + time;
    let mut queued: Vec<_> = programs.iter_mut().map(|program| t.insert((program.draw)())).collect();
    let mut since = std::vec![t.now; programs.len()];
    let mut starts: Vec<_> = queued.iter().map(|&id| t.requests[id]).collect();
    let mut head = Sector(0);
    while t.now < end {
        let id = match t.next() {
            Decision::Dispatch { id, .. } => id,
            Decision::Hold(hold) => {
                t.now = hold.until.expect("a time");
                continue;
            }
            Decision::Idle => panic!("idle with requests queued"),
        };
        let n = queued.iter().position(|&other| other == id).expect("a request of a program");
        t.now += if starts[n].start == head { Span::from_micros(500) } else { Span::from_millis(8) };
        head = starts[n].end();
        t.complete(id);
        programs[n].served += 1;
        programs[n].longest_wait = programs[n].longest_wait.max(t.now.since(since[n]));
        queued[n] = t.insert((programs[n].draw)());
        since[n] = t.now;
        starts[n] = t.requests[queued[n]];
    }
}

/// The requests of a sequential reader.
fn sequential(from: u64, sectors: u32) -> impl FnMut() -> Request {
    let mut next = from;
    move || {
        next += u64::from(sectors);
        request(next - u64::from(sectors), sectors)
    }
}

#[test]
fn a_heavy_stream_beside_random_reads_does_not_wait_for_long() {
    let mut t = table();
    let mut random = elevator::Random::new(1);
    let (mut stream, mut reads) = (sequential(400_000_000, 1024), || request(random.below(300_000_000), 8));
    let mut programs = [Program::new(&mut stream), Program::new(&mut reads)];
    run(&mut t, &mut programs, Span::from_secs(20));
    let [stream, reads] = programs;
    assert!(stream.longest_wait < Span::from_millis(800), "{}", stream.longest_wait);
    assert!(reads.longest_wait < Span::from_millis(200), "{}", reads.longest_wait);
    assert!(reads.served * 8 > 15_000, "{} random reads in 20 s", reads.served);
}

#[test]
fn asynchronous_writes_have_half_of_the_time_beside_random_reads_when_they_are_old() {
    let mut t = table();
    let mut random = elevator::Random::new(1);
    let writes: Vec<_> = (0..400).map(|n| t.write(800_000_000 - n * 1_000_000)).collect();
    let mut read = t.read(0);
    let mut left = writes.len();
    let mut reads = 0;
    while left > 0 {
        match t.next() {
            Decision::Hold(hold) => t.now = hold.until.expect("a time"),
            Decision::Idle => panic!("idle with requests queued"),
            Decision::Dispatch { id, .. } => {
                t.now += Span::from_millis(8);
                t.complete(id);
                if id == read {
                    read = t.read(random.below(300_000_000));
                    reads += 1;
                } else {
                    left -= 1;
                }
            }
        }
    }
    // 3.2 s of work, and the reads.
    assert!(t.now < at_ms(8_000), "{} with {reads} reads", t.now);
    assert!(reads > 150, "{reads} reads until {}", t.now);
}

#[test]
fn slices_are_proportional_to_the_weight_of_the_priority_level() {
    let mut t = table();
    let mut draws = [(0, 0), (400_000_000, 4), (800_000_000, 7)].map(|(from, level)| {
        let mut next = sequential(from, 1024);
        move || {
            let mut read = next();
            read.priority.level = level;
            read
        }
    });
    let [a, b, c] = &mut draws;
    let mut programs = [Program::new(a), Program::new(b), Program::new(c)];
    run(&mut t, &mut programs, Span::from_secs(30));
    let [high, middle, low] = programs.map(|program| program.served as f64);
    // Weights 8, 4 and 1; a slice loses one move.
    assert!((1.8..2.3).contains(&(high / middle)), "{high} {middle} {low}");
    assert!((3.5..6.0).contains(&(middle / low)), "{high} {middle} {low}");
}

#[test]
fn real_time_requests_precede_all_others() {
    let mut t = table();
    let next = stream(&mut t, 400_000_000, 8);
    t.insert(request(next, 1024));
    t.read(0);
    let mut urgent = request(900_000_000, 8);
    urgent.priority.class = PriorityClass::RealTime;
    let second = t.insert(urgent);
    urgent.start = Sector(100_000_000);
    let first = t.insert(urgent);
    // In sector order.
    for id in [first, second] {
        let sent = t.dispatches();
        assert_eq!(sent, id);
        t.complete(id);
    }
}
