//! The optimised warpings compared with the oracle, on seeded series of many kinds and lengths.

use elevator::Random;
use ioanalyzer::dtw::band::{BandedDtw, Sixteen};
use ioanalyzer::dtw::fast::FastDtw;
use ioanalyzer::dtw::nearest::{nearest_banded, nearest_fast};
use ioanalyzer::dtw::{LANES, oracle};

/// A series of one kind: distant jumps, ties, noise, drift, or all equal.
fn series(kind: u64, length: usize, random: &mut Random) -> Vec<f64> {
    let mut at = 0.0;
    (0..length)
        .map(|_| match kind % 5 {
            0 if random.below(10) < 7 => 8.0,
            0 => random.below(1 << 32) as f64 - 2f64.powi(31),
            1 => random.below(3) as f64,
            2 => random.unit() * 1e6,
            3 => {
                at += random.unit() - 0.5;
                at
            }
            _ => 8.0,
        })
        .collect()
}

fn singles(series: &[f64]) -> Vec<f32> {
    series.iter().map(|&value| value as f32).collect()
}

#[test]
fn fastdtw_is_the_oracle_to_the_bit_at_any_lengths_and_radius() {
    let mut random = Random::new(1);
    for case in 0..1500u64 {
        let (n, m) = (1 + random.below(90) as usize, 1 + random.below(90) as usize);
        let (a, b) = (series(case, n, &mut random), series(case / 5, m, &mut random));
        let radius = 1 + random.below(3) as usize;
        let mut fast = FastDtw::new(radius);
        let distance = fast.distance(&a, &b);
        assert_eq!(
            distance.to_bits(),
            oracle::fast(&a, &b, radius).to_bits(),
            "case {case}: {n} x {m}, radius {radius}"
        );
        assert_eq!(
            fast.distance(&a, &b).to_bits(),
            distance.to_bits(),
            "case {case}: reused buffers changed the result"
        );
        assert!(distance >= oracle::exact(&a, &b) * (1.0 - 1e-12), "case {case}: below the exact distance");
    }
}

#[test]
fn banded_distances_are_the_oracles_within_single_precision() {
    let mut random = Random::new(4);
    for case in 0..150u64 {
        let length = 1 + random.below(150) as usize;
        let width = random.below(length as u64 + 5) as usize;
        let a = series(case, length, &mut random);
        let others: Vec<Vec<f64>> =
            (0..1 + random.below(16)).map(|kind| series(kind, length, &mut random)).collect();
        let single: Vec<Vec<f32>> = others.iter().map(|other| singles(other)).collect();
        let batch = Sixteen::of(&single.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let distances = BandedDtw::new(width).distances(&singles(&a), &batch);
        for lane in 0..LANES {
            let Some(other) = others.get(lane) else {
                assert_eq!(distances.0[lane], f32::INFINITY);
                continue;
            };
            let exact = oracle::banded(&a, other, width);
            let found = f64::from(distances.0[lane]);
            assert!(
                (found - exact).abs() <= exact * 1e-4,
                "case {case}, {length} +-{width}: {found}, not {exact}"
            );
        }
    }
}

#[test]
fn the_nearest_wanted_series_is_found() {
    let mut random = Random::new(5);
    for case in 0..60u64 {
        let length = 20 + random.below(100) as usize;
        let query = series(case, length, &mut random);
        // Some series occur twice: among equals the first counts.
        let mut stored: Vec<Vec<f64>> = (0..50).map(|kind| series(kind % 4, length, &mut random)).collect();
        stored.extend_from_within(10..20);
        let mut fast = FastDtw::new(1);
        let rows: Vec<&[f64]> = stored.iter().map(Vec::as_slice).collect();
        let found = nearest_fast(&mut fast, &query, &rows).unwrap();
        let distances: Vec<f64> = rows.iter().map(|row| fast.distance(&query, row)).collect();
        let least = distances.iter().copied().fold(f64::INFINITY, f64::min);
        let first = distances.iter().position(|&distance| distance == least);
        assert_eq!((Some(found.index), found.distance), (first, least), "case {case}");
        assert_eq!(found.farthest, distances.iter().copied().fold(0.0, f64::max), "case {case}");

        let single: Vec<Vec<f32>> = stored.iter().map(|one| singles(one)).collect();
        let rows: Vec<&[f32]> = single.iter().map(Vec::as_slice).collect();
        let batches: Vec<Sixteen> = rows.chunks(LANES).map(Sixteen::of).collect();
        let mut banded = BandedDtw::new(length / 10);
        let wanted = |index: usize| !index.is_multiple_of(7);
        let found = nearest_banded(&mut banded, &singles(&query), &batches, wanted).unwrap();
        let exact = |index: usize| oracle::banded(&query, &stored[index], length / 10);
        let least = (0..stored.len()).filter(|&index| wanted(index)).map(exact).fold(f64::INFINITY, f64::min);
        assert!(wanted(found.index), "case {case}");
        assert!((exact(found.index) - least).abs() <= least * 2e-4, "case {case}");
    }
}

#[test]
fn without_series_there_is_no_nearest() {
    let mut fast = FastDtw::new(0);
    assert_eq!(fast.distance(&[], &[1.0]), f64::INFINITY);
    assert_eq!(nearest_fast(&mut fast, &[1.0], &[]), None);
    let batch = Sixteen::of(&[&[1.0, 2.0]]);
    assert_eq!(BandedDtw::new(1).distances(&[1.0], &batch).0[0], f32::INFINITY);
    assert_eq!(BandedDtw::new(1).distances(&[], &Sixteen::default()).0[0], f32::INFINITY);
}
