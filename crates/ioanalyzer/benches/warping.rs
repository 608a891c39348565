//! Duration of comparisons: `cargo bench -p dwell-ioanalyzer --bench warping`.
//!
//! Each figure is a median over rounds. Every round runs each method once, so that other load affects all methods equally. The oracle is a
//! direct implementation of the definition, for comparison with the optimised methods.

use std::hint::black_box;
use std::time::Instant;

use elevator::Random;
use ioanalyzer::dtw::band::{BandedDtw, Sixteen};
use ioanalyzer::dtw::fast::FastDtw;
use ioanalyzer::dtw::nearest::{nearest_banded, nearest_fast};
use ioanalyzer::dtw::{LANES, oracle};

const POINTS: usize = 1000;
const STORED: usize = 6000;

type Make = fn(&mut Random) -> Vec<f64>;
type Method<'a> = (&'a str, f64, Box<dyn FnMut() + 'a>);

/// Mostly sequential with occasional distant jumps, as on a disk that several programs use.
fn jumps(random: &mut Random) -> Vec<f64> {
    let far = |random: &mut Random| random.below(1 << 32) as f64 - 2f64.powi(31);
    (0..POINTS).map(|_| if random.below(10) < 7 { 8.0 } else { far(random) }).collect()
}

fn noise(random: &mut Random) -> Vec<f64> {
    (0..POINTS).map(|_| random.unit() * 1e6).collect()
}

fn smooth(random: &mut Random) -> Vec<f64> {
    let mut at = random.unit() * 100.0;
    let mut step = || {
        at += random.unit() - 0.5;
        at
    };
    (0..POINTS).map(|_| step()).collect()
}

/// Prints the median time of one call of each method, divided by its count of comparisons, in microseconds.
fn medians(rounds: usize, methods: &mut [Method<'_>]) {
    let mut times = vec![Vec::new(); methods.len()];
    for _ in 0..rounds {
        for (times, (_, count, method)) in times.iter_mut().zip(methods.iter_mut()) {
            let started = Instant::now();
            method();
            times.push(started.elapsed().as_secs_f64() * 1e6 / *count);
        }
    }
    for (times, (name, ..)) in times.iter_mut().zip(methods.iter()) {
        times.sort_by(f64::total_cmp);
        let (median, least, most) = (times[rounds / 2], times[0], times[rounds - 1]);
        println!("{name:>44} {median:12.2} us   ({least:.2} to {most:.2})");
    }
}

fn done<T>(answer: T) {
    black_box(answer);
}

fn singles(series: &[f64]) -> Vec<f32> {
    series.iter().map(|&value| value as f32).collect()
}

fn comparisons(name: &str, make: Make) {
    println!("one comparison of {POINTS} points, {name}");
    let mut random = Random::new(1);
    let series: Vec<Vec<f64>> = (0..33).map(|_| make(&mut random)).collect();
    let (query, others) = series.split_first().expect("33 series");
    let single: Vec<Vec<f32>> = others.iter().map(|other| singles(other)).collect();
    let rows: Vec<&[f32]> = single.iter().map(Vec::as_slice).collect();
    let batch = Sixteen::of(&rows);
    let query_single = singles(query);
    let banded = |width: usize| {
        let (batch, query) = (&batch, &query_single);
        let mut banded = BandedDtw::new(width);
        move || done(banded.distances(query, batch))
    };
    let mut fast = FastDtw::new(1);
    medians(
        21,
        &mut [
            ("FastDTW", 32.0, Box::new(|| others.iter().for_each(|o| done(fast.distance(query, o))))),
            ("FastDTW, oracle", 1.0, Box::new(|| done(oracle::fast(query, &others[0], 1)))),
            ("exact, 10% band", LANES as f64, Box::new(banded(POINTS / 10))),
            ("exact, 1% band", LANES as f64, Box::new(banded(POINTS / 100))),
            ("exact, no band", LANES as f64, Box::new(banded(POINTS))),
            ("exact, 10% band, oracle", 1.0, Box::new(|| done(oracle::banded(query, &others[0], 100)))),
            ("exact, 1% band, oracle", 1.0, Box::new(|| done(oracle::banded(query, &others[0], 10)))),
        ],
    );
}

fn searches(name: &str, make: Make) {
    println!("nearest of {STORED} x {POINTS} points, {name}");
    let mut random = Random::new(2);
    let query = make(&mut random);
    let stored: Vec<Vec<f64>> = (0..STORED).map(|_| make(&mut random)).collect();
    let rows: Vec<&[f64]> = stored.iter().map(Vec::as_slice).collect();
    let single: Vec<Vec<f32>> = stored.iter().map(|one| singles(one)).collect();
    let single_rows: Vec<&[f32]> = single.iter().map(Vec::as_slice).collect();
    let batches: Vec<Sixteen> = single_rows.chunks(LANES).map(Sixteen::of).collect();
    let query_single = singles(&query);
    let banded = |width: usize| {
        let (batches, query) = (&batches, &query_single);
        let mut banded = BandedDtw::new(width);
        move || done(nearest_banded(&mut banded, query, batches, |_| true))
    };
    let mut fast = FastDtw::new(1);
    medians(
        7,
        &mut [
            ("FastDTW", 1.0, Box::new(|| done(nearest_fast(&mut fast, &query, &rows)))),
            ("exact, 10% band", 1.0, Box::new(banded(POINTS / 10))),
            ("exact, 1% band", 1.0, Box::new(banded(POINTS / 100))),
        ],
    );
}

fn main() {
    let kinds: [(&str, Make); 3] = [("jumps", jumps), ("noise", noise), ("smooth", smooth)];
    kinds.iter().for_each(|&(name, make)| comparisons(name, make));
    kinds.iter().for_each(|&(name, make)| searches(name, make));
}
