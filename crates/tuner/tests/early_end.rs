//! Trials that end inside a window, in virtual time: every quarter of a second the host asks whether the window is lost.

use elevator::{Op, Sector, Sectors, Span, Time};
use tuner::{
    Access, Analyser, Fact, Measured, Metric, Observed, Parameters, Performance, Random, SchedulerId, Window,
};

const LENGTH: Span = Span::from_secs(5);
const STEP: Span = Span::from_millis(250);
/// The bandwidth of each scheduler; the third one stops the device.
const GIVEN: [f64; 4] = [100.0, 95.0, 1.0, 98.0];

/// Requests at random positions.
fn window(start: Time, length: Span, random: &mut Random) -> Window {
    let requests = (length.as_secs_f64() * 40.0) as u64;
    let mut access = |n: u64| Access {
        time: start + Span::from_millis(n * 25),
        position: Sector(random.below(1 << 28)),
        op: Op::Read,
        size: Sectors(8),
    };
    let accesses = (0..requests).map(&mut access).collect();
    Window { start, length, accesses }
}

struct Outcome {
    /// The work as a part of the best scheduler's.
    work: f64,
    /// The lengths of the windows under the third scheduler.
    lost: Vec<Span>,
    /// Windows under the third scheduler directly after another one under it.
    in_a_row: usize,
    /// The scheduler at the end.
    last: usize,
}

/// Some 400 s; with early ends or without.
fn run(early_ends: bool, seed: u64) -> Outcome {
    let names = ["none", "mq-deadline", "kyber", "bfq"].map(str::to_owned).to_vec();
    let mut analyser =
        Analyser::new(names, Metric::Bandwidth, Parameters::default(), Random::new(seed)).expect("valid");
    let (mut random, mut now, mut scheduler) = (Random::new(seed), Time::ZERO, 0);
    let (mut bytes, mut lost, mut in_a_row) = (0.0, Vec::new(), 0);
    while now < Time::ZERO + Span::from_secs(400) {
        let bandwidth = GIVEN[scheduler] * (0.95 + 0.1 * random.unit());
        let end = analyser.early_end().filter(|end| early_ends && end.scheduler == scheduler);
        let mut length = Span::ZERO;
        while length < LENGTH {
            length += STEP;
            let part = length.as_secs_f64() / LENGTH.as_secs_f64();
            if length < LENGTH && end.is_some_and(|end| end.is_due(&Measured::throughout(bandwidth), part)) {
                analyser.learn(Fact::EndedEarly);
                break;
            }
        }
        bytes += bandwidth * length.as_secs_f64();
        if scheduler == 2 {
            lost.push(length);
        }
        let performance = Performance { bandwidth, ..Performance::default() };
        let observed = Observed { scheduler: Some(SchedulerId(scheduler)), performance };
        let decision = analyser.window(&window(now, length, &mut random), &observed);
        now += length;
        let before = scheduler;
        scheduler = decision.scheduler.map_or(scheduler, |of| of.0);
        in_a_row += usize::from(before == 2 && scheduler == 2);
    }
    let best = GIVEN[0] * now.since(Time::ZERO).as_secs_f64();
    Outcome { work: bytes / best, lost, in_a_row, last: scheduler }
}

#[test]
fn a_clearly_worse_scheduler_is_left_inside_the_first_window_of_its_trial() {
    for seed in 1..=5 {
        let (whole, early) = (run(false, seed), run(true, seed));
        // Two windows without early ends. With them, three fifths of a window and a step: so much it may be worse at first.
        assert_eq!(whole.lost[..2], [LENGTH; 2], "seed {seed}");
        assert!(
            early.lost.iter().all(|length| *length <= Span::from_millis(3250)),
            "seed {seed}: {:?}",
            early.lost
        );
        assert!(
            early.work > whole.work && early.work > 0.95,
            "seed {seed}: {} and {}",
            early.work,
            whole.work
        );
        assert_ne!(early.last, 2);
        assert_eq!(early.in_a_row, 0, "seed {seed}: the trial is over, not only its window");
        // The loss is remembered: it is not tried more often.
        assert!(early.lost.len() <= whole.lost.len(), "seed {seed}: {:?} and {:?}", early.lost, whole.lost);
    }
}
