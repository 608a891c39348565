//! Fast warping against slow warping, on seeded series of many kinds and lengths.

use tuner::Random;
use tuner::dtw::band::{BandedDtw, Envelope, Sixteen};
use tuner::dtw::fast::FastDtw;
use tuner::dtw::nearest::{Bounded, nearest_banded, nearest_fast, nearest_fast_pruned};
use tuner::dtw::{LANES, oracle};

/// Kinds that stress different things: far jumps, ties, noise, drift, all equal.
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
    let mut random = Random::seeded(1);
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
            "case {case}: buffers left something behind"
        );
        assert!(distance >= oracle::exact(&a, &b) * (1.0 - 1e-12), "case {case}: below the exact distance");
    }
}

#[test]
fn a_bounded_comparison_gives_the_distance_or_proves_that_it_is_more() {
    let mut random = Random::seeded(2);
    let mut fast = FastDtw::new(1);
    let mut given_up = 0;
    for case in 0..500u64 {
        let length = 1 + random.below(200) as usize;
        let (a, b) = (series(case, length, &mut random), series(case / 5, length, &mut random));
        let distance = fast.distance(&a, &b);
        let bound = distance * random.unit() * 1.5;
        let found = fast.distance_within(&a, &b, bound);
        given_up += u64::from(found == f64::INFINITY);
        assert!(found == distance || (found == f64::INFINITY && distance > bound), "case {case}");
    }
    assert!(given_up > 100, "{given_up}");
}

#[test]
fn the_lower_bound_is_one() {
    let mut random = Random::seeded(3);
    for case in 0..500u64 {
        let (a, b) = (series(case, 60, &mut random), series(case / 5, 70, &mut random));
        assert!(Bounded::of(&a).least_distance(&Bounded::of(&b)) <= oracle::exact(&a, &b), "case {case}");
    }
}

#[test]
fn banded_distances_are_the_oracles_within_single_precision() {
    let mut random = Random::seeded(4);
    for case in 0..150u64 {
        let length = 1 + random.below(150) as usize;
        let width = random.below(length as u64 + 5) as usize;
        let a = series(case, length, &mut random);
        let others: Vec<Vec<f64>> =
            (0..1 + random.below(16)).map(|kind| series(kind, length, &mut random)).collect();
        let single: Vec<Vec<f32>> = others.iter().map(|other| singles(other)).collect();
        let batch = Sixteen::of(&single.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let distances = BandedDtw::new(width).distances(&singles(&a), &batch, f32::INFINITY);
        let bounds = BandedDtw::bounds(&Envelope::of(&singles(&a), width), &batch);
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
            assert!(bounds.0[lane] <= distances.0[lane], "case {case}: a bound above the distance");
        }
    }
}

#[test]
fn pruning_finds_the_same_nearest() {
    let mut random = Random::seeded(5);
    let mut fast = FastDtw::new(1);
    for case in 0..60u64 {
        let length = 20 + random.below(100) as usize;
        let query = series(case, length, &mut random);
        // Some twice, so that ties must be broken alike.
        let mut stored: Vec<Vec<f64>> = (0..50).map(|kind| series(kind % 4, length, &mut random)).collect();
        stored.extend_from_within(10..20);
        let rows: Vec<&[f64]> = stored.iter().map(Vec::as_slice).collect();
        let all = nearest_fast(&mut fast, &query, &rows).unwrap();
        let pruned = nearest_fast_pruned(&mut fast, &query, &rows).unwrap();
        assert_eq!(
            (all.index, all.distance.to_bits()),
            (pruned.index, pruned.distance.to_bits()),
            "case {case}"
        );
        assert!(pruned.farthest <= all.farthest);

        let single: Vec<Vec<f32>> = stored.iter().map(|one| singles(one)).collect();
        let rows: Vec<&[f32]> = single.iter().map(Vec::as_slice).collect();
        let batches: Vec<Sixteen> = rows.chunks(LANES).map(Sixteen::of).collect();
        let mut banded = BandedDtw::new(length / 10);
        let wanted = |index: usize| !index.is_multiple_of(7);
        let all = nearest_banded(&mut banded, &singles(&query), &batches, wanted, false).unwrap();
        let pruned = nearest_banded(&mut banded, &singles(&query), &batches, wanted, true).unwrap();
        assert_eq!(
            (all.index, all.distance.to_bits()),
            (pruned.index, pruned.distance.to_bits()),
            "case {case}"
        );
    }
}

#[test]
fn nothing_to_compare_is_no_distance() {
    let mut fast = FastDtw::new(0);
    assert_eq!(fast.distance(&[], &[1.0]), f64::INFINITY);
    assert_eq!(nearest_fast(&mut fast, &[1.0], &[]), None);
    let batch = Sixteen::of(&[&[1.0, 2.0]]);
    assert_eq!(BandedDtw::new(1).distances(&[1.0], &batch, f32::INFINITY).0[0], f32::INFINITY);
    assert_eq!(BandedDtw::new(1).distances(&[], &Sixteen::default(), f32::INFINITY).0[0], f32::INFINITY);
}
