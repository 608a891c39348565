//! FastDTW: warping in linear time, bit-identical to the reference implementation.
//!
//! # Idea
//! Halve the resolution of both series until one is very short, and compute the exact path there. Then, at each finer level, examine only
//! cells near the coarser level's path (Salvador and Chan, "Toward accurate dynamic time warping in linear time and
//! space", 2007; used by the IOAnalyzer paper, section III-A).
//!
//! # Optimisations
//! - A row is a chain of dependent additions. One loop therefore fills four rows, so that four chains run in parallel ([`rows`]).
//!   A window is one interval of columns for each *pair* of rows, because both come from one coarse row.
//! - A cell stores only its sum: `min(x, y, z) + cost` equals `min(x + cost, y + cost, z + cost)` to the bit, because
//!   rounding is monotone. Its predecessor is computed only for cells on the path. That computation must compare the
//!   *sums*, as the reference does: different sums can be equal after rounding, and then the order above, left, diagonal
//!   decides.
//! - All rows are in one buffer with infinite borders, so that cells at the edges need no special case.
//! - The path of the finest level is not needed; only the rows that the next ones depend on are kept.
//!
//! # Not for
//! Exact distances: on jump sequences FastDTW's result can be far above the exact distance. [`band`](super::band) is exact.
//!
//! [`rows`]: super

use super::rows::{Columns, Quad, fill_pair, fill_single};

/// Computes FastDTW distances; reuses its buffers.
pub struct FastDtw {
    radius: usize,
    /// Both series at each level below the finest.
    halves: Vec<(Vec<f64>, Vec<f64>)>,
    window: Vec<Columns>,
    /// For each row the columns that the path covers.
    path: Vec<Columns>,
    sums: Sums,
    latest: [Vec<f64>; 2],
}

impl FastDtw {
    /// `radius`: the distance from the coarse path up to which the finer level examines cells; at least 1 (0 counts as 1).
    pub fn new(radius: usize) -> Self {
        Self {
            radius: radius.max(1),
            halves: Vec::new(),
            window: Vec::new(),
            path: Vec::new(),
            sums: Sums::default(),
            latest: [Vec::new(), Vec::new()],
        }
    }

    /// The distance of `a` and `b`, cost `|a - b|`. Infinite if either is empty.
    pub fn distance(&mut self, a: &[f64], b: &[f64]) -> f64 {
        if a.is_empty() || b.is_empty() {
            return f64::INFINITY;
        }
        let mut halves = core::mem::take(&mut self.halves);
        let levels = self.halve(a, b, &mut halves);
        self.whole_window(levels.checked_sub(1).map_or((a, b), |coarsest| pair(&halves[coarsest])));
        for level in (0..levels).rev() {
            let (coarse_a, coarse_b) = pair(&halves[level]);
            self.sums.fill(&self.window, coarse_a, coarse_b);
            self.sums.trace(coarse_a, coarse_b, &mut self.path);
            let (finer_a, finer_b) = level.checked_sub(1).map_or((a, b), |finer| pair(&halves[finer]));
            self.expand(finer_a.len(), finer_b.len());
        }
        self.halves = halves;
        self.finest(a, b)
    }

    /// Fills `halves`; returns the number of levels below the finest.
    fn halve(&self, a: &[f64], b: &[f64], halves: &mut Vec<(Vec<f64>, Vec<f64>)>) -> usize {
        let min_time_size = self.radius + 2;
        let (mut lengths, mut level) = ((a.len(), b.len()), 0);
        while lengths.0 >= min_time_size && lengths.1 >= min_time_size {
            if halves.len() == level {
                halves.push((Vec::new(), Vec::new()));
            }
            let (done, rest) = halves.split_at_mut(level);
            let (finer_a, finer_b) = done.last().map_or((a, b), pair);
            halve_into(finer_a, &mut rest[0].0);
            halve_into(finer_b, &mut rest[0].1);
            lengths = (lengths.0 / 2, lengths.1 / 2);
            level += 1;
        }
        level
    }

    fn whole_window(&mut self, (a, b): (&[f64], &[f64])) {
        self.window.clear();
        self.window.resize(a.len().div_ceil(2), Columns { first: 0, last: b.len() - 1 });
    }

    /// The window of the next finer level: all cells within `radius` of the path in both directions, with doubled coordinates.
    fn expand(&mut self, rows: usize, columns: usize) {
        let (radius, last_row) = (self.radius, self.path.len() - 1);
        self.window.clear();
        self.window.extend((0..rows.div_ceil(2)).map(|coarse| {
            let first = self.path[coarse.saturating_sub(radius)].first;
            let last = self.path[(coarse + radius).min(last_row)].last;
            Columns {
                first: first.saturating_sub(radius) * 2,
                last: ((last + radius) * 2 + 1).min(columns - 1),
            }
        }));
    }

    /// Fills the finest level, keeping only the latest row, and returns its last sum.
    fn finest(&mut self, a: &[f64], b: &[f64]) -> f64 {
        let [mut above, mut below] = core::mem::take(&mut self.latest);
        above.clear();
        above.resize(b.len() + 2, f64::INFINITY);
        below.clear();
        below.resize(b.len() + 2, f64::INFINITY);
        above[0] = 0.0;
        // The column at `above[1]`.
        let mut above_first = 0;
        let mut distance = f64::INFINITY;
        for (group, xs) in a.chunks(4).enumerate() {
            let upper = self.window[2 * group];
            let lower = *self.window.get(2 * group + 1).filter(|_| xs.len() > 2).unwrap_or(&upper);
            let right = self.window.get(2 * group + 2).map_or(lower.last, |next| next.last);
            let above_row = &above[upper.first - above_first..];
            latest_row(xs, upper, lower, b, above_row, &mut below[1..]);
            below[0] = f64::INFINITY;
            below[lower.width() + 1..=right - lower.first + 1].fill(f64::INFINITY);
            distance = below[lower.width()];
            above_first = lower.first;
            core::mem::swap(&mut above, &mut below);
        }
        self.latest = [above, below];
        distance
    }
}

/// Fills up to four rows and writes the last of them to `row`.
fn latest_row(xs: &[f64], upper: Columns, lower: Columns, b: &[f64], above: &[f64], row: &mut [f64]) {
    let ys = &b[upper.first..=upper.last];
    match *xs {
        [x0, x1, x2, x3] => {
            let none: [&mut [f64]; 3] = [&mut [], &mut [], &mut []];
            let [row0, row1, row2] = none;
            Quad { x: [x0, x1, x2, x3], upper, lower }.fill::<false>(b, above, [row0, row1, row2, row]);
        }
        [x0, x1, x2] => {
            // At most once per comparison, and only if the number of rows is not a multiple of four.
            let mut upper_row = vec![f64::INFINITY; lower.last - upper.first + 2];
            let mut left = [f64::INFINITY; 2];
            fill_pair::<false, true>([x0, x1], ys, above, &mut left, &mut [], &mut upper_row[1..]);
            fill_single(x2, &b[lower.first..=lower.last], &upper_row[lower.first - upper.first..], row);
        }
        [x0, x1] => fill_pair::<false, true>([x0, x1], ys, above, &mut [f64::INFINITY; 2], &mut [], row),
        [x] => fill_single(x, ys, above, row),
        _ => unreachable!("one to four rows"),
    }
}

/// The sums of one level, row after row, each between infinite borders.
#[derive(Default)]
struct Sums {
    cells: Vec<f64>,
    /// Column `j` of row `i` is at index `base[i] + j`. Row 0 is the virtual row before the first.
    base: Vec<usize>,
}

impl Sums {
    fn fill(&mut self, window: &[Columns], a: &[f64], b: &[f64]) {
        let mut end = self.begin(window);
        for (group, xs) in a.chunks(4).enumerate() {
            let upper = window[2 * group];
            let lower = *window.get(2 * group + 1).filter(|_| xs.len() > 2).unwrap_or(&upper);
            let right = window.get(2 * group + 2).map_or(lower.last, |next| next.last);
            end = self.fill_group(xs, upper, lower, right, b, end);
        }
    }

    /// Allocates the buffer and sets the virtual row, in whose border the path starts. Returns the index of the first row.
    fn begin(&mut self, window: &[Columns]) -> usize {
        let widths: usize = window.iter().map(|pair| 2 * (pair.width() + 2)).sum();
        let columns = window[window.len() - 1].last + 1;
        // Right borders extend to the last column at most, and their sum telescopes.
        let needed = widths + 5 * columns;
        if self.cells.len() < needed {
            self.cells.resize(needed, f64::INFINITY);
        }
        self.base.clear();
        self.base.push(1);
        let end = window[0].last + 2;
        self.cells[..end].fill(f64::INFINITY);
        self.cells[0] = 0.0;
        end
    }

    /// Fills up to four rows from index `at` on, with right borders up to column `right`; returns the index behind them.
    fn fill_group(
        &mut self,
        xs: &[f64],
        upper: Columns,
        lower: Columns,
        right: usize,
        b: &[f64],
        at: usize,
    ) -> usize {
        let columns = [upper, upper, lower, lower];
        let stride =
            |row: usize| if row < 2 { lower.last + 3 - upper.first } else { right + 3 - lower.first };
        let above = self.base[self.base.len() - 1] + upper.first - 1;
        let mut end = at;
        for (row, columns) in columns.iter().enumerate().take(xs.len()) {
            self.base.push(end + 1 - columns.first);
            end += stride(row);
        }
        let (done, mut rest) = self.cells.split_at_mut(at);
        let above = &done[above..];
        let [row0, row1, row2, row3] = core::array::from_fn(|row| {
            let length = if row < xs.len() { stride(row) } else { 0 };
            let (taken, others) = core::mem::take(&mut rest).split_at_mut(length);
            rest = others;
            border(taken, columns[row].width());
            taken
        });
        let ys = &b[upper.first..=upper.last];
        let left = &mut [f64::INFINITY; 2];
        match *xs {
            [x] => fill_single(x, ys, above, &mut row0[1..]),
            [x0, x1] => fill_pair::<true, true>([x0, x1], ys, above, left, &mut row0[1..], &mut row1[1..]),
            [x0, x1, x2] => {
                fill_pair::<true, true>([x0, x1], ys, above, left, &mut row0[1..], &mut row1[1..]);
                let above = &row1[lower.first - upper.first..];
                fill_single(x2, &b[lower.first..=lower.last], above, &mut row2[1..]);
            }
            [x0, x1, x2, x3] => {
                let rows = [&mut row0[1..], &mut row1[1..], &mut row2[1..], &mut row3[1..]];
                Quad { x: [x0, x1, x2, x3], upper, lower }.fill::<true>(b, above, rows);
            }
            _ => unreachable!("one to four rows"),
        }
        end
    }

    /// Follows the path from the last cell to the first and records the columns of each row.
    fn trace(&self, a: &[f64], b: &[f64], path: &mut Vec<Columns>) {
        path.clear();
        path.resize(a.len(), Columns::default());
        let mut column = b.len() - 1;
        for (i, &x) in a.iter().enumerate().rev() {
            let (above, row) = (self.base[i], self.base[i + 1]);
            path[i].last = column;
            loop {
                let cost = (x - b[column]).abs();
                let up = self.cells[above + column] + cost;
                let left = self.cells[row + column - 1] + cost;
                let diagonal = self.cells[above + column - 1] + cost;
                if left < up && left <= diagonal {
                    column -= 1;
                    continue;
                }
                path[i].first = column;
                column -= usize::from(diagonal < up && column > 0);
                break;
            }
        }
    }
}

/// Sets a row's borders to infinity: one cell before the row, the rest behind it.
fn border(row: &mut [f64], width: usize) {
    if let Some((first, rest)) = row.split_first_mut() {
        *first = f64::INFINITY;
        rest[width..].fill(f64::INFINITY);
    }
}

fn pair(both: &(Vec<f64>, Vec<f64>)) -> (&[f64], &[f64]) {
    (&both.0, &both.1)
}

/// Means of pairs of neighbours; of an odd number of points, the last is dropped, as in the reference.
fn halve_into(series: &[f64], halves: &mut Vec<f64>) {
    halves.resize(series.len() / 2, 0.0);
    for (half, &[first, second]) in halves.iter_mut().zip(series.as_chunks().0) {
        *half = (first + second) / 2.0;
    }
}
