//! Dynamic time warping by its definition: slow and simple, the reference for the optimised versions.
//!
//! Only tests and benchmarks use this module.

use std::collections::{HashMap, HashSet};

type Cell = (usize, usize);

/// The exact distance, cost `|a - b|`, every cell of the matrix. Infinite if either series is empty.
pub fn exact(a: &[f64], b: &[f64]) -> f64 {
    banded(a, b, a.len().max(b.len()))
}

/// The exact distance over paths that stay within `width` columns of the diagonal (Sakoe and Chiba's band).
pub fn banded(a: &[f64], b: &[f64], width: usize) -> f64 {
    let mut above = vec![f64::INFINITY; b.len() + 1];
    above[0] = 0.0;
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![f64::INFINITY; b.len() + 1];
        for (j, &y) in b.iter().enumerate().filter(|(j, _)| j.abs_diff(i) <= width) {
            row[j + 1] = above[j + 1].min(row[j]).min(above[j]) + (x - y).abs();
        }
        above = row;
    }
    if a.is_empty() { f64::INFINITY } else { above[b.len()] }
}

/// FastDTW (Salvador and Chan, 2007) with sets and maps, as in the published pseudo-code.
///
/// # Panics
/// If `radius` is 0: an odd length then leaves its last row outside the window.
pub fn fast(a: &[f64], b: &[f64], radius: usize) -> f64 {
    assert!(radius > 0, "FastDTW needs a radius of at least 1");
    if a.is_empty() || b.is_empty() {
        return f64::INFINITY;
    }
    fast_path(a, b, radius).0
}

fn fast_path(a: &[f64], b: &[f64], radius: usize) -> (f64, Vec<Cell>) {
    let min_time_size = radius + 2;
    if a.len() < min_time_size || b.len() < min_time_size {
        let all = (0..a.len()).flat_map(|i| (0..b.len()).map(move |j| (i, j))).collect::<Vec<_>>();
        return windowed(a, b, &all);
    }
    let (_, path) = fast_path(&halved(a), &halved(b), radius);
    windowed(a, b, &expanded(&path, a.len(), b.len(), radius))
}

/// Means of neighbours; the last of an odd number of points is dropped.
fn halved(series: &[f64]) -> Vec<f64> {
    series.chunks_exact(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect()
}

/// The cells within `radius` of the coarse path, each replaced by its four fine cells, in row order.
fn expanded(path: &[Cell], rows: usize, columns: usize, radius: usize) -> Vec<Cell> {
    let mut window = HashSet::new();
    for &(i, j) in path {
        for near_i in i.saturating_sub(radius)..=i + radius {
            for near_j in j.saturating_sub(radius)..=j + radius {
                for (di, dj) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    window.insert((near_i * 2 + di, near_j * 2 + dj));
                }
            }
        }
    }
    let mut cells: Vec<Cell> = window.into_iter().filter(|&(i, j)| i < rows && j < columns).collect();
    cells.sort_unstable();
    cells
}

/// The cheapest path through `window`, which is in row order. Among equally cheap predecessors of a cell, the one above is preferred,
/// then the one on the left, then the diagonal one.
fn windowed(a: &[f64], b: &[f64], window: &[Cell]) -> (f64, Vec<Cell>) {
    let mut best: HashMap<Cell, (f64, Cell)> = HashMap::from([((0, 0), (0.0, (0, 0)))]);
    for &(i, j) in window {
        let cost = (a[i] - b[j]).abs();
        let ways = [(i, j + 1), (i + 1, j), (i, j)]
            .map(|from| (best.get(&from).map_or(f64::INFINITY, |(sum, _)| sum + cost), from));
        let cheapest = ways.into_iter().reduce(|first, other| if other.0 < first.0 { other } else { first });
        best.insert((i + 1, j + 1), cheapest.expect("three ways"));
    }
    let mut path = Vec::new();
    let mut at = (a.len(), b.len());
    while at != (0, 0) {
        path.push((at.0 - 1, at.1 - 1));
        at = best[&at].1;
    }
    path.reverse();
    (best[&(a.len(), b.len())].0, path)
}
