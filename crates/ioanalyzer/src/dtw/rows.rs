//! The inner loops of FastDTW: one, two or four rows of sums at once.
//!
//! Each takes the columns' values `ys`, the row above *with one column more on its left* (`above[j]` is the diagonal and
//! `above[j + 1]` the cell above), and `left`, the sums left of the first column, which it replaces by those of the last.
//! The last row is always written, the others only if `KEEP` is true.

use super::cheaper;

/// The columns that a pair of rows covers.
#[derive(Clone, Copy, Default)]
pub(super) struct Columns {
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Columns {
    pub(super) const fn width(self) -> usize {
        self.last - self.first + 1
    }
}

pub(super) fn fill_single(x: f64, ys: &[f64], above: &[f64], row: &mut [f64]) {
    let (above, row) = (&above[..=ys.len()], &mut row[..ys.len()]);
    let mut left = f64::INFINITY;
    for j in 0..ys.len() {
        left = cheaper(cheaper(above[j], above[j + 1]), left) + (x - ys[j]).abs();
        row[j] = left;
    }
}

/// Fills two rows with the same columns, up to the end of `ys`.
#[inline(always)]
pub(super) fn fill_pair<const KEEP: bool, const KEEP_LAST: bool>(
    x: [f64; 2],
    ys: &[f64],
    above: &[f64],
    left: &mut [f64; 2],
    upper: &mut [f64],
    lower: &mut [f64],
) {
    let width = ys.len();
    let above = &above[..=width];
    let upper = if KEEP { &mut upper[..width] } else { upper };
    let lower = if KEEP_LAST { &mut lower[..width] } else { lower };
    let [mut left0, mut left1] = *left;
    for j in 0..width {
        let y = ys[j];
        let sum0 = cheaper(cheaper(above[j], above[j + 1]), left0) + (x[0] - y).abs();
        left1 = cheaper(cheaper(left0, sum0), left1) + (x[1] - y).abs();
        left0 = sum0;
        if KEEP {
            upper[j] = left0;
        }
        if KEEP_LAST {
            lower[j] = left1;
        }
    }
    *left = [left0, left1];
}

/// Two pairs of rows. The lower one begins and ends no earlier than the upper one.
pub(super) struct Quad {
    pub(super) x: [f64; 4],
    pub(super) upper: Columns,
    pub(super) lower: Columns,
}

impl Quad {
    /// Fills all four rows in three ranges: columns of the upper pair only, of both pairs, and of the lower pair only.
    /// `above` begins one column before the upper pair, and each of `rows` at its own first column.
    #[inline(always)]
    pub(super) fn fill<const KEEP: bool>(&self, b: &[f64], above: &[f64], rows: [&mut [f64]; 4]) {
        let [row0, row1, row2, row3] = rows;
        let [x0, x1, x2, x3] = self.x;
        let (upper, lower) = (self.upper, self.lower);
        let alone = (lower.first - upper.first).min(upper.width());
        let mut left = [f64::INFINITY; 2];
        fill_pair::<KEEP, KEEP>([x0, x1], &b[upper.first..][..alone], above, &mut left, row0, row1);

        let ys = if alone == upper.width() { &[][..] } else { &b[lower.first..=upper.last] };
        let both = ys.len();
        let mut lower_left = [f64::INFINITY; 2];
        let kept = |row| if KEEP { row } else { &mut [][..] };
        let (rest0, rest1) =
            if KEEP { (&mut row0[alone..], &mut row1[alone..]) } else { (kept(row0), kept(row1)) };
        fill_four::<KEEP>(
            self.x,
            ys,
            &above[alone..],
            &mut left,
            &mut lower_left,
            [rest0, rest1, &mut *row2, &mut *row3],
        );

        let rest2 = if KEEP { &mut row2[both..] } else { row2 };
        let beyond = &b[lower.first + both..=lower.last];
        fill_beyond::<KEEP>([x2, x3], left[1], beyond, lower_left, rest2, &mut row3[both..]);
    }
}

#[inline(always)]
fn fill_four<const KEEP: bool>(
    x: [f64; 4],
    ys: &[f64],
    above: &[f64],
    left: &mut [f64; 2],
    lower_left: &mut [f64; 2],
    rows: [&mut [f64]; 4],
) {
    let width = ys.len();
    let above = &above[..=width];
    let [row0, row1, row2, row3] = rows;
    let row3 = &mut row3[..width];
    let (row0, row1, row2) =
        if KEEP { (&mut row0[..width], &mut row1[..width], &mut row2[..width]) } else { (row0, row1, row2) };
    let ([mut left0, mut left1], [mut left2, mut left3]) = (*left, *lower_left);
    for j in 0..width {
        let y = ys[j];
        let sum0 = cheaper(cheaper(above[j], above[j + 1]), left0) + (x[0] - y).abs();
        let sum1 = cheaper(cheaper(left0, sum0), left1) + (x[1] - y).abs();
        let sum2 = cheaper(cheaper(left1, sum1), left2) + (x[2] - y).abs();
        let sum3 = cheaper(cheaper(left2, sum2), left3) + (x[3] - y).abs();
        if KEEP {
            row0[j] = sum0;
            row1[j] = sum1;
            row2[j] = sum2;
        }
        row3[j] = sum3;
        (left0, left1, left2, left3) = (sum0, sum1, sum2, sum3);
    }
    *left = [left0, left1];
    *lower_left = [left2, left3];
}

/// Columns behind the end of the rows above; only the first of them has a diagonal cell.
#[inline(always)]
fn fill_beyond<const KEEP: bool>(
    x: [f64; 2],
    mut diagonal: f64,
    ys: &[f64],
    [mut left0, mut left1]: [f64; 2],
    upper: &mut [f64],
    lower: &mut [f64],
) {
    let lower = &mut lower[..ys.len()];
    for (j, &y) in ys.iter().enumerate() {
        let sum0 = cheaper(diagonal, left0) + (x[0] - y).abs();
        left1 = cheaper(cheaper(left0, sum0), left1) + (x[1] - y).abs();
        (left0, diagonal) = (sum0, f64::INFINITY);
        if KEEP {
            upper[j] = left0;
        }
        lower[j] = left1;
    }
}
