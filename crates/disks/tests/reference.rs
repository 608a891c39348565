//! The model compared with DiskSim's results, request by request.

mod common;

use common::{Arrival, Fcfs, Policy, ascii_trace, disksim, gunzip, parameters, replay};
use dwell_disks::parameters::{Fidelity, KeepRequested, Preseek, QueueOrder, QueueParameters};
use dwell_disks::{Completion, Rotating, RotatingParameters};

/// DiskSim's orders by sector: nearest first (SSTF), nearest in the current direction (LOOK), or nearest upwards (C-LOOK).
///
/// As in DiskSim, the distance is measured from the last request sent. Of two equally near requests, the one in the current direction is
/// served first. The direction is that of the last move.
struct BySector {
    kind: Order,
    last: u64,
    upwards: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Look,
    CLook,
    Sstf,
}

impl BySector {
    fn new(kind: Order) -> Self {
        Self { kind, last: 0, upwards: true }
    }

    fn cost(&self, start: u64) -> (bool, u64) {
        let distance = start.abs_diff(self.last);
        let ahead = if self.upwards { start >= self.last } else { start <= self.last };
        match self.kind {
            Order::Look => (!ahead, distance),
            Order::CLook => (start < self.last, if start < self.last { start } else { distance }),
            Order::Sstf => (false, distance),
        }
    }
}

impl Policy for BySector {
    fn next(&mut self, trace: &[Arrival], waiting: &mut Vec<usize>) -> Option<usize> {
        let best = (0..waiting.len()).min_by_key(|&i| self.cost(trace[waiting[i]].start))?;
        let index = waiting.remove(best);
        let start = trace[index].start;
        if start != self.last {
            self.upwards = start > self.last;
        }
        self.last = start;
        Some(index)
    }
}

struct Compared {
    mean: f64,
    p99: f64,
    equal: f64,
}

fn percentile(times: &mut [f64], part: f64) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[((times.len() - 1) as f64 * part).round() as usize]
}

/// Relative differences of mean and 99th percentile, and the share of requests within 1 µs (DiskSim's answers are whole µs).
fn compare(ours: &[Completion], trace: &[Arrival], reference: &[Option<f64>]) -> Compared {
    let ours = ours.iter().zip(trace).map(|(done, a)| done.at.since(a.at).as_nanos() as f64 / 1e3);
    let pairs: Vec<(f64, f64)> =
        ours.zip(reference).filter_map(|(ours, answer)| Some((ours, (*answer)?))).collect();
    assert!(pairs.len() >= 5_000, "{} answers", pairs.len());
    let equal = pairs.iter().filter(|(a, b)| (a - b).abs() <= 1.5).count() as f64 / pairs.len() as f64;
    let (mut a, mut b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    let mean = a.iter().sum::<f64>() / b.iter().sum::<f64>() - 1.0;
    let p99 = percentile(&mut a, 0.99) / percentile(&mut b, 0.99) - 1.0;
    Compared { mean, p99, equal }
}

/// The requests of a file with several answers, and the answers in the columns of these names.
fn reference<const N: usize>(file: &str, names: [&str; N]) -> (Vec<Arrival>, [Vec<Option<f64>>; N]) {
    let text = gunzip(&disksim(file));
    let (heading, lines) = text.split_once('\n').unwrap();
    let column = |name: &str| {
        let column = 5 + heading.split_whitespace().position(|other| other == name).unwrap();
        lines.lines().map(|line| line.split_whitespace().nth(column).unwrap().parse().ok()).collect()
    };
    (ascii_trace(lines), names.map(column))
}

/// Requests to the Cheetah 9LP; `column` names DiskSim's results.
fn check(
    trace: &str,
    column: &str,
    drive: &str,
    policy: &mut dyn Policy,
    depth: u32,
    limits: (f64, f64, f64),
) {
    let mut p = parameters(drive, Fidelity::DiskSim);
    p.queue.depth = depth;
    if depth > 1 {
        p.queue.order = QueueOrder::PositioningTime { ageing: 0.0 };
    }
    let (arrivals, [answers]) = reference(&format!("cheetah9LP.{trace}.gz"), [column]);
    let done = replay(&mut Rotating::new(p).unwrap(), &arrivals, policy);
    let c = compare(&done, &arrivals, &answers);
    let case = format!("{trace}.{column}");
    println!(
        "{case}: mean {:+.4}%, p99 {:+.4}%, within 1 µs {:.3}%",
        c.mean * 100.0,
        c.p99 * 100.0,
        c.equal * 100.0
    );
    assert!(c.mean.abs() <= limits.0 && c.p99.abs() <= limits.1, "{case}: mean {} p99 {}", c.mean, c.p99);
    assert!(c.equal >= limits.2, "{case}: {} within 1 µs", c.equal);
}

/// Requests with DiskSim's result, in µs, in the sixth column. A third are writes; two fifths are near the previous request or follow it.
/// Arrivals are random with a mean interval of 20 ms (60 ms for a slow drive). The drive orders its own commands. Requests that DiskSim
/// loses have no result.
fn check_own(drive: &str, order: &str, change: impl Fn(&mut RotatingParameters), least: f64) {
    let text = gunzip(&disksim(&format!("{drive}.{order}.trace.gz")));
    let mut p = parameters(drive, Fidelity::DiskSim);
    change(&mut p);
    let trace = ascii_trace(&text);
    let done = replay(&mut Rotating::new(p).unwrap(), &trace, &mut Fcfs);
    let answers: Vec<Option<f64>> =
        text.lines().map(|line| line.split_whitespace().nth(5).unwrap().parse().ok()).collect();
    let answered = answers.iter().flatten().count();
    let near = |(done, (arrival, answer)): &(&Completion, (&Arrival, &Option<f64>))| {
        let ours = done.at.since(arrival.at).as_nanos() as f64 / 1e3;
        answer.is_some_and(|answer| (ours - answer).abs() <= 1.0)
    };
    let within = done.iter().zip(trace.iter().zip(&answers)).filter(near).count();
    println!("{drive}, {order}: {within} of {answered} within 1 µs");
    assert!(answered + 2 >= trace.len(), "{drive}, {order}: {answered} answers");
    assert!(within as f64 >= least * answered as f64, "{drive}, {order}: {within} of {answered}");
}

/// Covers overheads, stops of read-ahead, buffer segments and lost revolutions.
#[test]
fn drives_one_command_at_a_time() {
    let drives =
        ["atlas_III", "barracuda", "cheetah4LP", "cheetah9LP", "dec_rz26", "hp_c2247a", "hp_c3323a_validate"];
    for drive in drives {
        check_own(drive, "one", |p| p.queue = QueueParameters::default(), 0.999);
    }
}

#[test]
fn drives_that_order_sixteen_commands() {
    for drive in ["atlas_III", "cheetah4LP", "cheetah9LP"] {
        for (name, order) in
            [("c-look", QueueOrder::CLook), ("sptf", QueueOrder::PositioningTime { ageing: 0.0 })]
        {
            check_own(drive, name, |p| p.queue = QueueParameters { depth: 16, order, ..p.queue }, 0.999);
        }
    }
}

/// Writes that complete on the medium. In DiskSim 4.0, a write that arrives while the arm is busy never leaves the bus, and the
/// simulation stops. These are the results of a DiskSim in which that error (one misplaced brace) is corrected.
#[test]
fn drives_without_a_write_cache_take_several_commands() {
    let queue = |depth, order| {
        move |p: &mut RotatingParameters| p.queue = QueueParameters { depth, order, ..p.queue }
    };
    check_own("hp_c2247a", "four", queue(4, QueueOrder::Fcfs), 0.999);
    let nearest = QueueOrder::PositioningTime { ageing: 0.0 };
    check_own("hp_c3323a_validate", "sptf", queue(16, nearest), 0.999);
}

/// In the second half, most requests are for sectors that were accessed at least 300 commands earlier.
#[test]
fn a_drive_of_2048_segments() {
    let many = |p: &mut RotatingParameters| (p.buffer.segments, p.buffer.write_segments) = (2048, 128);
    check_own("cheetah9LP", "2048-segments", many, 0.999);
}

/// Changes a drive's parameters to those of a column of the results: a feature that no published drive has, then the queue depth.
fn variant(name: &str, p: &mut RotatingParameters) {
    let (what, commands) = name.split_once('.').unwrap();
    let b = &mut p.buffer;
    match what {
        "plain" => {}
        "ahead-0" => b.read_ahead_max = 0,
        "ahead-16-to-64" => (b.read_ahead_min, b.read_ahead_max) = (16, 64),
        "keep-all" => b.keep_requested = KeepRequested::KeepAll,
        "preseek" => p.bus.preseek = Preseek::AfterMedium,
        "never-leaves" => p.bus.never_disconnect = true,
        "sneaky" => {
            (b.sneaky_full_read_hits, b.sneaky_partial_read_hits) = (true, true);
            b.sneaky_intermediate_read_hits = true;
        }
        "watermarks" => {
            (b.write_watermark, b.read_watermark, b.watermark_of_request) = (0.4, 0.8, false);
        }
        "two-segments" => (b.segments, b.write_segments) = (2, 1),
        "apart" => (b.segments, b.write_segments, b.separate_write_segment) = (4, 1, true),
        "immediate" => (b.immediate_read, b.immediate_write) = (true, true),
        _ => panic!("{name}"),
    }
    p.queue = match commands {
        "one" => QueueParameters::default(),
        "four" => QueueParameters { depth: 4, order: QueueOrder::Fcfs, ..QueueParameters::default() },
        "sptf" => QueueParameters {
            depth: 16,
            order: QueueOrder::PositioningTime { ageing: 0.0 },
            ..QueueParameters::default()
        },
        _ => panic!("{name}"),
    };
}

/// A load in which three fifths of the requests are near one of the last eight, with a mean interval of 20 ms. Each column has DiskSim's
/// results for one variant of the drive. One assertion was removed from DiskSim: that a read with a "sneaky" hit could have had the arm.
#[test]
fn parameters_that_no_published_drive_has() {
    for drive in ["atlas_III", "barracuda", "cheetah9LP"] {
        let text = gunzip(&disksim(&format!("{drive}.variants.gz")));
        let (names, lines) = text.split_once('\n').unwrap();
        let trace = ascii_trace(lines);
        for (column, name) in names.split_whitespace().enumerate() {
            let mut p = parameters(drive, Fidelity::DiskSim);
            variant(name, &mut p);
            let done = replay(&mut Rotating::new(p).unwrap(), &trace, &mut Fcfs);
            let answer =
                |line: &str| line.split_whitespace().nth(5 + column).unwrap().parse::<f64>().unwrap();
            let ours = done.iter().zip(&trace).map(|(done, a)| done.at.since(a.at).as_nanos() as f64 / 1e3);
            let within =
                lines.lines().zip(ours).filter(|(line, ours)| (ours - answer(line)).abs() <= 1.0).count();
            println!("{drive}, {name}: {within} of {} within 1 µs", trace.len());
            assert!(within * 1000 >= trace.len() * 995, "{drive}, {name}: {within} of {}", trace.len());
        }
    }
}

/// Maximum relative differences of the mean and of the 99th percentile, and the minimum share of requests within 1 µs.
const BUFFER_OFF: (f64, f64, f64) = (0.001, 0.005, 0.999);
const BUFFER_ON: (f64, f64, f64) = (0.0001, 0.0001, 0.999);
/// If the drive orders its own commands, one different choice changes all later completions until the drive is idle.
const IN_THE_DRIVE: (f64, f64, f64) = (0.001, 0.001, 0.999);

#[test]
fn one_at_a_time_without_buffer() {
    check("svc", "fcfs_nocache", "cheetah9LP-nocache", &mut Fcfs, 1, BUFFER_OFF);
}

#[test]
fn one_at_a_time() {
    check("svc", "fcfs", "cheetah9LP", &mut Fcfs, 1, BUFFER_ON);
}

#[test]
fn driver_policies() {
    for trace in ["open", "heavy"] {
        let by = |column, policy: &mut dyn Policy| check(trace, column, "cheetah9LP", policy, 1, BUFFER_ON);
        by("fcfs", &mut Fcfs);
        by("look_lbn", &mut BySector::new(Order::Look));
        by("clook_lbn", &mut BySector::new(Order::CLook));
        by("sstf_lbn", &mut BySector::new(Order::Sstf));
    }
}

#[test]
fn sixteen_in_the_drive_by_positioning_time() {
    for trace in ["open", "heavy"] {
        check(trace, "ncq16_sptf", "cheetah9LP", &mut Fcfs, 16, IN_THE_DRIVE);
    }
}

/// Seek, rotation and transfer of each request with the buffer off.
#[test]
fn mechanics_within_a_microsecond() {
    let columns = ["seek_ms", "rotation_ms", "transfer_ms"];
    let (trace, [seek, rotation, transfer]) = reference("cheetah9LP.svc.gz", columns);
    let mut drive = Rotating::new(parameters("cheetah9LP-nocache", Fidelity::DiskSim)).unwrap();
    let done = replay(&mut drive, &trace, &mut Fcfs);
    let (mut within, mut all, mut worst) = (0, 0, 0.0_f64);
    for (n, done) in done.iter().enumerate() {
        let (Some(seek), Some(rotation), Some(transfer)) = (seek[n], rotation[n], transfer[n]) else {
            continue;
        };
        let s = done.service;
        let ours = [s.seek, s.rotation, s.transfer].map(|span| span.as_millis_f64());
        let off = ours.iter().zip([seek, rotation, transfer]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        within += usize::from(off <= 0.001);
        all += 1;
        worst = worst.max(off);
    }
    println!("mechanics: {within} of {all} within 1 µs, worst {worst:.6} ms");
    assert!(all >= 5_000 && within * 1000 >= all * 999, "{within} of {all}");
}
