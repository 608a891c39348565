//! What a window costs the analyser: `cargo bench -p dwell-tuner --bench window`.
//!
//! By kinds of load, and by clusters at their worst: six thousand, all with as many requests as the window. Both take turns within a
//! round; the figures are medians of processor time, as Linux counts it, so that others on the machine matter little.

use elevator::{Op, Sector, Sectors, Span, Time};
use tuner::{
    Access, Analyser, ClusterState, DeciderName, Metric, Observed, Parameters, Performance, Random,
    SchedulerId, Window,
};

const CLUSTERS: u64 = 6000;
const ROUNDS: usize = 9;
const T: Span = Span::from_secs(5);

/// Mostly in sequence, now and then far, as several programs are.
fn window(number: u64, requests: u64) -> Window {
    let (start, mut random, mut at) = (Time::ZERO + T * number, Random::new(number), 0);
    let mut access = |n: u64| {
        at = if random.below(10) < 7 { at + 8 } else { random.below(1 << 31) };
        Access {
            time: start + Span::from_nanos(n * T.as_nanos() / requests),
            position: Sector(at),
            op: Op::Read,
            size: Sectors(8),
        }
    };
    Window { start, length: T, accesses: (0..requests).map(&mut access).collect() }
}

/// Knows as many clusters as there may be, made of windows like these.
fn analyser(decider: DeciderName, requests: u64) -> Analyser {
    let parameters = Parameters::default();
    let names = ["noop", "deadline", "cfq", "as"].map(str::to_owned).to_vec();
    let mut random = Random::new(1);
    let mut analyser = Analyser::new(names, Metric::Bandwidth, parameters, random)
        .expect("they fit together")
        .with_decider(decider);
    let cluster = |id: u64| ClusterState {
        id,
        requests,
        points: tuner::CInfo::of(&window(1_000_000 + id, requests.min(1000)), &parameters, &mut random)
            .points,
        hits: 1,
        used: id,
        performance: vec![(vec![1e6], 1); 4],
        successors: Vec::new(),
    };
    let clusters = (0..CLUSTERS).map(cluster).collect();
    let state = tuner::State { clusters, next_cluster: CLUSTERS, ..analyser.state() };
    analyser.restore(state).expect("it is of this code");
    analyser
}

/// Seconds that this thread was on a processor so far.
fn on_processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts it");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("a number comes first") / 1e9
}

fn main() {
    println!("requests   by kinds, ms (of a core)   by {CLUSTERS} clusters");
    for requests in [1000, 10_000, 100_000] {
        let mut ways = [DeciderName::Kinds, DeciderName::IoAnalyzer].map(|of| analyser(of, requests));
        let mut times = [const { Vec::new() }; 2];
        for round in 0..ROUNDS as u64 {
            let window = window(round, requests);
            // What is short is done over and over, as time on a processor is counted by the tick.
            let repeated = [1_000_000 / requests, 1];
            for ((analyser, times), repeated) in ways.iter_mut().zip(&mut times).zip(repeated) {
                let performance = Performance { bandwidth: 1e6, ..Performance::default() };
                let observed = Observed { scheduler: Some(SchedulerId(0)), performance };
                let started = on_processor();
                (0..repeated).for_each(|_| drop(analyser.window(&window, &observed)));
                times.push((on_processor() - started) / repeated as f64);
            }
        }
        let [kinds, clusters] = times.map(|mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            let median = times[ROUNDS / 2];
            format!("{:.3} ({:.4}%)", median * 1e3, median / T.as_secs_f64() * 100.0)
        });
        println!("{requests:8}   {kinds}   {clusters}");
    }
}
