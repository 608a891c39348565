//! FastDTW is bit-identical to the reference implementation.
//!
//! `data/fastdtw.tsv` has the reference's distances, computed by `data/golden_distances.py`; the test generates the same inputs.

use elevator::Random;
use ioanalyzer::dtw::{fast::FastDtw, oracle};

fn value(kind: &str, random: &mut Random) -> f64 {
    let r = random.next();
    match kind {
        "jumps" if r % 10 < 7 => 8.0,
        "jumps" => ((r >> 8) % (1 << 32)) as f64 - 2f64.powi(31),
        "ties" => (r % 4) as f64,
        "fraction" => (r >> 11) as f64 / 2f64.powi(53),
        "huge" => ((r >> 11) % (1 << 50)) as f64 - 2f64.powi(49),
        _ => panic!("unknown kind {kind}"),
    }
}

struct Case {
    name: String,
    a: Vec<f64>,
    b: Vec<f64>,
    radius: usize,
    distance: f64,
}

fn cases() -> impl Iterator<Item = Case> {
    include_str!("data/fastdtw.tsv").lines().map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [kind, seed, n, m, radius, bits] = fields[..] else { panic!("six fields in {line}") };
        let mut random = Random::new(seed.parse().unwrap());
        let mut series = |length: &str| -> Vec<f64> {
            (0..length.parse::<usize>().unwrap()).map(|_| value(kind, &mut random)).collect()
        };
        let (a, b) = (series(n), series(m));
        let distance = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
        Case { name: line.to_string(), a, b, radius: radius.parse().unwrap(), distance }
    })
}

#[test]
fn fastdtw_is_bit_equal_to_the_reference() {
    let mut fast = [1, 2].map(FastDtw::new);
    let mut count = 0;
    for case in cases() {
        let distance = fast[case.radius - 1].distance(&case.a, &case.b);
        assert_eq!(distance.to_bits(), case.distance.to_bits(), "{}: {distance}", case.name);
        count += 1;
    }
    assert!(count > 500, "only {count} cases");
}

#[test]
fn the_oracle_is_bit_equal_to_the_reference() {
    for case in cases() {
        let distance = oracle::fast(&case.a, &case.b, case.radius);
        assert_eq!(distance.to_bits(), case.distance.to_bits(), "{}: {distance}", case.name);
    }
}
