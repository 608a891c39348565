//! FastDTW: warping in linear time, to the last bit what the reference algorithm answers.
//!
//! # Idea
//! Halve both series until one is tiny, warp there exactly, then go back up: at each finer level only cells near the
//! coarser level's path are looked at (Salvador and Chan, "Toward accurate dynamic time warping in linear time and
//! space", 2007; the paper behind the tuner uses it, section III-A).
//!
//! # How it is fast
//! - A window is one interval of columns for each *pair* of rows, as both rows of a pair come from one coarse row. The two
//!   rows are filled in one loop: each is a chain of dependent additions, and two chains run side by side.
//! - A cell holds its sum and nothing else: `min(x, y, z) + cost` equals `min(x + cost, y + cost, z + cost)` to the bit, as
//!   rounding is monotone. Which of them it came from is found only for the cells on the path. That must compare the
//!   *sums*, as the reference does: two ways that differ can tie after rounding, and then the order above, left, diagonal
//!   decides.
//! - The rows stand in one buffer with infinite borders, so that no cell asks whether its neighbours exist.
//!
//! # Not for
//! Truth: FastDTW can be far above the exact distance on jump sequences. [`band`](super::band) is exact.

use super::cheaper;

/// The columns that a pair of rows covers.
#[derive(Clone, Copy)]
struct Columns {
    first: usize,
    last: usize,
}

/// Where a row of sums begins: `cells[at]` is the infinite border left of column `first`.
#[derive(Clone, Copy)]
struct Row {
    at: usize,
    first: usize,
}

impl Row {
    /// The place of a column from `first - 1` on.
    const fn place(self, column: usize) -> usize {
        self.at + 1 + column - self.first
    }
}

/// Computes FastDTW distances, with buffers that it keeps from one to the next.
pub struct FastDtw {
    radius: usize,
    /// Both series at each level, finest first.
    halves: Vec<(Vec<f64>, Vec<f64>)>,
    cells: Vec<f64>,
    rows: Vec<Row>,
    window: Vec<Columns>,
    /// For each row the columns that the path covers.
    path: Vec<Columns>,
}

impl FastDtw {
    /// `radius`: how far from the coarse path the finer level looks, at least 1 (a 0 counts as 1).
    #[must_use]
    pub fn new(radius: usize) -> Self {
        Self {
            radius: radius.max(1),
            halves: Vec::new(),
            cells: Vec::new(),
            rows: Vec::new(),
            window: Vec::new(),
            path: Vec::new(),
        }
    }

    /// The distance of `a` and `b`, cost `|a - b|`. Infinite if either is empty.
    pub fn distance(&mut self, a: &[f64], b: &[f64]) -> f64 {
        self.distance_within(a, b, f64::INFINITY)
    }

    /// The same, but infinite as soon as the distance is known to exceed `bound`.
    pub fn distance_within(&mut self, a: &[f64], b: &[f64], bound: f64) -> f64 {
        if a.is_empty() || b.is_empty() {
            return f64::INFINITY;
        }
        let mut halves = core::mem::take(&mut self.halves);
        let levels = self.halve(a, b, &mut halves);
        for level in (1..=levels).rev() {
            let (coarse_a, coarse_b) = &halves[level - 1];
            self.warp(coarse_a, coarse_b, level == levels, f64::INFINITY);
            self.trace(coarse_a, coarse_b);
        }
        self.halves = halves;
        self.warp(a, b, levels == 0, bound)
    }

    /// Fills `halves` and returns how many levels there are below the finest.
    fn halve(&self, a: &[f64], b: &[f64], halves: &mut Vec<(Vec<f64>, Vec<f64>)>) -> usize {
        let min_time_size = self.radius + 2;
        let (mut lengths, mut level) = ((a.len(), b.len()), 0);
        while lengths.0 >= min_time_size && lengths.1 >= min_time_size {
            if halves.len() == level {
                halves.push((Vec::new(), Vec::new()));
            }
            let (done, rest) = halves.split_at_mut(level);
            let (finer_a, finer_b) = done.last().map_or((a, b), |(a, b)| (a, b));
            halve_into(finer_a, &mut rest[0].0);
            halve_into(finer_b, &mut rest[0].1);
            lengths = (lengths.0 / 2, lengths.1 / 2);
            level += 1;
        }
        level
    }

    /// Fills the window's cells and returns the last one's sum, or infinity when every sum of a pair of rows exceeds
    /// `bound`: no path gets cheaper on its way.
    fn warp(&mut self, a: &[f64], b: &[f64], coarsest: bool, bound: f64) -> f64 {
        if coarsest {
            self.window.clear();
            self.window.resize(a.len().div_ceil(2), Columns { first: 0, last: b.len() - 1 });
        } else {
            self.expand(a.len(), b.len());
        }
        self.lay_out();
        for (pair, xs) in a.chunks(2).enumerate() {
            let reached = self.fill(pair, xs, b);
            if reached > bound {
                return f64::INFINITY;
            }
        }
        let last = self.rows[a.len()];
        self.cells[last.place(b.len() - 1)]
    }

    /// The window of the next finer level: all within `radius` of the path, in both directions, doubled.
    fn expand(&mut self, rows: usize, columns: usize) {
        self.window.clear();
        let coarse_rows = self.path.len();
        for coarse in 0..rows.div_ceil(2) {
            let first = self.path[coarse.saturating_sub(self.radius)].first;
            let last = self.path[(coarse + self.radius).min(coarse_rows - 1)].last;
            self.window.push(Columns {
                first: first.saturating_sub(self.radius) * 2,
                last: ((last + self.radius) * 2 + 1).min(columns - 1),
            });
        }
    }

    /// Gives every row its place in `cells`. Row 0 is the virtual one before the first: the path starts in its border.
    fn lay_out(&mut self) {
        self.rows.clear();
        self.rows.push(Row { at: 0, first: 0 });
        let mut at = self.window[0].last + 2;
        for (pair, &Columns { first, last }) in self.window.iter().enumerate() {
            let right = self.window.get(pair + 1).map_or(last, |below| below.last);
            let stride = right - first + 2;
            self.rows.push(Row { at, first });
            self.rows.push(Row { at: at + stride, first });
            at += 2 * stride;
        }
        if self.cells.len() < at {
            self.cells.resize(at, f64::INFINITY);
        }
        self.cells[..self.window[0].last + 2].fill(f64::INFINITY);
        self.cells[0] = 0.0;
    }

    /// Fills the one or two rows of a pair and their borders; returns the least sum of the last row.
    fn fill(&mut self, pair: usize, xs: &[f64], b: &[f64]) -> f64 {
        let Columns { first, last } = self.window[pair];
        let (above, row) = (self.rows[2 * pair], self.rows[2 * pair + 1]);
        let width = last - first + 1;
        let stride = self.rows[2 * pair + 2].at - row.at;
        let (done, rest) = self.cells.split_at_mut(row.at);
        let above = &done[above.place(first) - 1..][..=width];
        let (upper, lower) = rest.split_at_mut(stride);
        let lower = &mut lower[..stride];
        let ys = &b[first..=last];
        let upper_sums = &mut upper[1..=width];
        if xs.len() == 1 {
            upper[0] = f64::INFINITY;
            return fill_one(xs[0], ys, above, &mut upper[1..=width]);
        }
        let least = fill_two([xs[0], xs[1]], ys, above, upper_sums, &mut lower[1..=width]);
        upper[0] = f64::INFINITY;
        lower[0] = f64::INFINITY;
        lower[width + 1..].fill(f64::INFINITY);
        least
    }

    /// Walks back from the last cell to the first and notes the columns of each row.
    fn trace(&mut self, a: &[f64], b: &[f64]) {
        self.path.clear();
        self.path.resize(a.len(), Columns { first: 0, last: 0 });
        let mut column = b.len() - 1;
        for (i, &x) in a.iter().enumerate().rev() {
            let (above, row) = (self.rows[i], self.rows[i + 1]);
            self.path[i].last = column;
            loop {
                let cost = (x - b[column]).abs();
                let up = self.cells[above.place(column)] + cost;
                let left = self.cells[row.place(column) - 1] + cost;
                let diagonal = self.cells[above.place(column) - 1] + cost;
                if left < up && left <= diagonal {
                    column -= 1;
                    continue;
                }
                self.path[i].first = column;
                column -= usize::from(diagonal < up && column > 0);
                break;
            }
        }
    }
}

/// Means of neighbours; the last of an odd number of points is dropped, as in the reference.
fn halve_into(series: &[f64], halves: &mut Vec<f64>) {
    halves.clear();
    halves.extend(series.chunks_exact(2).map(|pair| (pair[0] + pair[1]) / 2.0));
}

fn fill_one(x: f64, ys: &[f64], above: &[f64], sums: &mut [f64]) -> f64 {
    let (mut left, mut least) = (f64::INFINITY, f64::INFINITY);
    for ((&y, near), sum) in ys.iter().zip(above.windows(2)).zip(sums) {
        left = cheaper(cheaper(near[0], near[1]), left) + (x - y).abs();
        *sum = left;
        least = cheaper(least, left);
    }
    least
}

/// Two rows in one loop: two chains of additions that do not wait for each other.
fn fill_two([x0, x1]: [f64; 2], ys: &[f64], above: &[f64], upper: &mut [f64], lower: &mut [f64]) -> f64 {
    let width = ys.len();
    let (above, upper, lower) = (&above[..=width], &mut upper[..width], &mut lower[..width]);
    let (mut left0, mut left1, mut least) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    for j in 0..width {
        let y = ys[j];
        let sum0 = cheaper(cheaper(above[j], above[j + 1]), left0) + (x0 - y).abs();
        let sum1 = cheaper(cheaper(left0, sum0), left1) + (x1 - y).abs();
        upper[j] = sum0;
        lower[j] = sum1;
        least = cheaper(least, sum1);
        (left0, left1) = (sum0, sum1);
    }
    least
}
