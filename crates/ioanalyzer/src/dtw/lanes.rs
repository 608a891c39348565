//! The inner loops on sixteen numbers at once, compiled for several vector widths.
//!
//! The loops are plain code on arrays, which the compiler vectorises. A standard build may use only the sixteen-byte vectors
//! of the original x86-64. The loops are therefore also compiled for wider vectors, and the widest version that the
//! processor supports is called. That call is the only `unsafe` in this crate; it is sound because the feature was detected
//! just before. Without the wider versions a 10% band takes more than twice as long.

use core::ops::Range;

/// Number of series compared at once: one vector of the widest kind.
pub const LANES: usize = 16;

/// One number for each of sixteen series. Aligned to a cache line, so that no vector crosses a cache-line boundary.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(align(64))]
pub struct Lanes(pub [f32; LANES]);

impl Lanes {
    /// The same number in every lane.
    pub const fn all(value: f32) -> Self {
        Self([value; LANES])
    }
}

#[inline(always)]
fn each(a: Lanes, b: Lanes, f: impl Fn(f32, f32) -> f32) -> Lanes {
    let mut out = [0.0; LANES];
    for ((out, a), b) in out.iter_mut().zip(a.0).zip(b.0) {
        *out = f(a, b);
    }
    Lanes(out)
}

/// One instruction; `f32::min` needs three because it handles NaN, which does not occur here.
#[inline(always)]
fn cheaper(a: Lanes, b: Lanes) -> Lanes {
    each(a, b, |a, b| if a < b { a } else { b })
}

#[inline(always)]
fn add_cost(sum: Lanes, x: f32, y: Lanes) -> Lanes {
    each(sum, y, |sum, y| sum + (x - y).abs())
}

const NO_WAY: Lanes = Lanes::all(f32::INFINITY);

/// The recurrence. `row[j + 1]` is column `j`'s sum in the latest row; `ROWS` rows at a time are filled in place. Each row
/// is a chain of dependent operations; several chains run in parallel.
#[inline(always)]
fn warp_loops<const ROWS: usize>(a: &[f32], ys: &[Lanes], width: usize, row: &mut Vec<Lanes>) -> Lanes {
    row.clear();
    row.resize(ys.len() + 1, NO_WAY);
    row[0] = Lanes::all(0.0);
    let groups = a.as_chunks::<ROWS>();
    for (group, x) in groups.0.iter().enumerate() {
        let i = ROWS * group;
        fill_rows(x, i, ys, width, row);
    }
    for (x, i) in groups.1.iter().zip(ROWS * groups.0.len()..) {
        fill_rows(&[*x], i, ys, width, row);
    }
    row[ys.len()]
}

/// Fills rows `i` to `i + ROWS - 1`. At both ends of the band a column belongs to some of them only.
#[inline(always)]
fn fill_rows<const ROWS: usize>(x: &[f32; ROWS], i: usize, ys: &[Lanes], width: usize, row: &mut [Lanes]) {
    let band = Band { i, width, columns: ys.len() };
    let (first, last) = (band.first(0), band.last(ROWS - 1));
    let mut at = Front { diagonal: row[first], left: [NO_WAY; ROWS] };
    row[first] = NO_WAY;
    if band.first(ROWS - 1) > band.last(0) {
        return at.some_rows(x, ys, row, first..last + 1, &band);
    }
    let all = band.first(ROWS - 1)..band.last(0) + 1;
    let inside = i >= width && last == i + ROWS - 1 + width;
    if inside {
        // The edges of the band have a constant number of steps, so that the compiler unrolls the loop.
        for step in 0..ROWS - 1 {
            row[first + step + 1] = at.column(x, ys[first + step], row[first + step + 1], |r| r <= step);
        }
    } else {
        at.some_rows(x, ys, row, first..all.start, &band);
    }
    for (sum, &y) in row[all.start + 1..all.end + 1].iter_mut().zip(&ys[all.clone()]) {
        *sum = at.column(x, y, *sum, |_| true);
    }
    if inside {
        for step in 0..ROWS - 1 {
            row[all.end + step + 1] = at.column(x, ys[all.end + step], NO_WAY, |r| r > step);
        }
    } else {
        at.some_rows(x, ys, row, all.end..last + 1, &band);
    }
}

/// The columns of row `i` and those after it.
struct Band {
    i: usize,
    width: usize,
    columns: usize,
}

impl Band {
    #[inline(always)]
    fn first(&self, r: usize) -> usize {
        (self.i + r).saturating_sub(self.width)
    }

    #[inline(always)]
    fn last(&self, r: usize) -> usize {
        (self.i + r + self.width).min(self.columns - 1)
    }
}

/// The cells on which the next column of a group of rows depends.
struct Front<const ROWS: usize> {
    /// The cell above and left of the first row's next one.
    diagonal: Lanes,
    /// The cell left of each row's next one.
    left: [Lanes; ROWS],
}

impl<const ROWS: usize> Front<ROWS> {
    /// Advances over columns that are outside the band in some of the rows.
    #[inline(always)]
    fn some_rows(
        &mut self,
        x: &[f32; ROWS],
        ys: &[Lanes],
        row: &mut [Lanes],
        columns: Range<usize>,
        band: &Band,
    ) {
        for j in columns {
            row[j + 1] = self.column(x, ys[j], row[j + 1], |r| band.first(r) <= j && j <= band.last(r));
        }
    }

    /// Advances by one column; `above` is its cell above the first row. Returns the last row's sum.
    #[inline(always)]
    fn column(&mut self, x: &[f32; ROWS], y: Lanes, above: Lanes, in_band: impl Fn(usize) -> bool) -> Lanes {
        let (mut diagonal, mut up) = (self.diagonal, above);
        for (r, (left, &x)) in self.left.iter_mut().zip(x).enumerate() {
            up = if in_band(r) { add_cost(cheaper(cheaper(diagonal, up), *left), x, y) } else { NO_WAY };
            diagonal = core::mem::replace(left, up);
        }
        self.diagonal = above;
        up
    }
}

macro_rules! for_each_width {
    ($name:ident, [$wide:expr, $middle:expr, $narrow:expr], $doc:literal, ($($argument:ident: $kind:ty),*)) => {
        #[doc = $doc]
        #[allow(unsafe_code)]
        pub(super) fn $name($($argument: $kind),*) -> Lanes {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f")]
                fn wide($($argument: $kind),*) -> Lanes { $wide($($argument),*) }
                #[target_feature(enable = "avx2")]
                fn middle($($argument: $kind),*) -> Lanes { $middle($($argument),*) }

                if is_x86_feature_detected!("avx512f") {
                    // SAFETY: the processor supports the features that the function was compiled for, its only requirement.
                    return unsafe { wide($($argument),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: as above.
                    return unsafe { middle($($argument),*) };
                }
            }
            $narrow($($argument),*)
        }
    };
}

for_each_width!(warp, [warp_loops::<4>, warp_loops::<2>, warp_loops::<1>], "Banded distances of `a` to the series in `ys`.",
    (a: &[f32], ys: &[Lanes], width: usize, row: &mut Vec<Lanes>));
