//! How long warping takes: `cargo bench -p tuner --bench warping`.
//!
//! Each figure is the median of rounds in which every method takes its turn, so that load from elsewhere falls on all
//! alike. The oracle is the definition in its plainest form, and stands for "what it would be without the effort".

use std::hint::black_box;
use std::time::Instant;

use tuner::Random;
use tuner::dtw::{fast::FastDtw, oracle};

const POINTS: usize = 1000;
const ROUNDS: usize = 31;

/// Mostly sequential, now and then far: 1000 jumps of a disk under several programs.
fn jumps(random: &mut Random) -> Vec<f64> {
    (0..POINTS)
        .map(|_| if random.below(10) < 7 { 8.0 } else { random.below(1 << 32) as f64 - 2f64.powi(31) })
        .collect()
}

fn noise(random: &mut Random) -> Vec<f64> {
    (0..POINTS).map(|_| random.unit() * 1e6).collect()
}

fn smooth(random: &mut Random) -> Vec<f64> {
    let mut at = 0.0;
    (0..POINTS)
        .map(|_| {
            at += random.unit() - 0.5;
            at
        })
        .collect()
}

/// Median microseconds of one call of each method, turn and turn about.
fn medians(methods: &mut [(&str, Box<dyn FnMut() -> f64>)], calls: usize) {
    let mut times = vec![Vec::new(); methods.len()];
    for _ in 0..ROUNDS {
        for (times, (_, method)) in times.iter_mut().zip(methods.iter_mut()) {
            let started = Instant::now();
            for _ in 0..calls {
                black_box(method());
            }
            times.push(started.elapsed().as_secs_f64() * 1e6 / calls as f64);
        }
    }
    for (times, (name, _)) in times.iter_mut().zip(methods.iter()) {
        times.sort_by(f64::total_cmp);
        println!(
            "{name:>40}: {:9.2} us (fastest {:.2}, slowest {:.2})",
            times[ROUNDS / 2],
            times[0],
            times[ROUNDS - 1]
        );
    }
}

fn main() {
    let kinds: [(&str, fn(&mut Random) -> Vec<f64>); 3] =
        [("jumps", jumps), ("noise", noise), ("smooth", smooth)];
    for (kind, make) in kinds {
        let mut random = Random::seeded(1);
        let pairs: Vec<_> = (0..64).map(|_| (make(&mut random), make(&mut random))).collect();
        let mut fast = FastDtw::new(1);
        let (again, mut next) = (pairs.clone(), 0);
        println!("{kind}, {POINTS} points");
        medians(
            &mut [(
                "FastDTW",
                Box::new(move || {
                    next = (next + 1) % pairs.len();
                    fast.distance(&pairs[next].0, &pairs[next].1)
                }),
            )],
            64,
        );
        medians(&mut [("oracle FastDTW", Box::new(move || oracle::fast(&again[0].0, &again[0].1, 1)))], 1);
    }
}
