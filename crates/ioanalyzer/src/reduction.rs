//! The series of jumps that is compared, the paper's `CInfo`.

use crate::parameters::Parameters;
use elevator::Random;
use observation::{Access, Window};

/// A window as it is compared and stored: the number of requests and the jumps between them.
#[derive(Clone, PartialEq, Debug)]
pub struct CInfo {
    /// Accesses in the window. All windows last `t`, so this stands for the paper's IOPS.
    pub requests: u64,
    /// Sector jumps (Δ sector), negative backwards: one per bucket, or one per access without reduction.
    pub points: Vec<f64>,
}

impl CInfo {
    /// Reduces a window; `random` draws one extreme of each bucket.
    pub fn of(window: &Window, parameters: &Parameters, random: &mut Random) -> Self {
        let jumps = jumps(window);
        let points = match parameters.x as usize {
            0 => jumps.map(|(_, jump)| jump).collect(),
            x => reduced(window, jumps, x, random),
        };
        Self { requests: window.requests(), points }
    }

    /// Whether `other` has a similar number of requests: "all CInfo ∈ stored that have a similar (±10%) number of
    /// IOPS" (III-D), relative to *this* one.
    pub fn has_similar_iops(&self, other: &Self, percent: u64) -> bool {
        let apart = u128::from(self.requests.abs_diff(other.requests));
        apart * 100 <= u128::from(self.requests) * u128::from(percent)
    }
}

/// Each access except the first, with its jump from the previous one.
fn jumps(window: &Window) -> impl Iterator<Item = (&Access, f64)> {
    let mut before: Option<&Access> = None;
    window.placed().filter_map(move |access| {
        let from = before.replace(access)?;
        // Exact: no device has 2^53 sectors.
        Some((access, access.position.0 as f64 - from.position.0 as f64))
    })
}

/// "n seconds I/O traces are reduced to x elements or buckets. Each bucket will store the essential information of n/x
/// seconds. We extract the essential information using the maximum and minimum sector jump of the period (Δ sector) and
/// randomly select one of them." (III-B)
///
/// The paper does not define the value of a bucket without a jump; here it is 0.
fn reduced<'a>(
    window: &'a Window,
    jumps: impl Iterator<Item = (&'a Access, f64)>,
    x: usize,
    random: &mut Random,
) -> Vec<f64> {
    let mut extremes: Vec<Option<(f64, f64)>> = vec![None; x];
    for (access, jump) in jumps {
        let into = access.time.since(window.start).as_nanos().min(window.length.as_nanos() - 1);
        let bucket = (u128::from(into) * x as u128 / u128::from(window.length.as_nanos())) as usize;
        let (least, greatest) = extremes[bucket].unwrap_or((jump, jump));
        extremes[bucket] = Some((least.min(jump), greatest.max(jump)));
    }
    let mut draw = |(least, greatest)| if random.coin() { greatest } else { least };
    extremes.into_iter().map(|extreme| extreme.map_or(0.0, &mut draw)).collect()
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};

    use super::*;

    fn window(accesses: &[(u64, u64)]) -> Window {
        let access = |&(ms, position): &(u64, u64)| Access {
            time: Time::ZERO + Span::from_millis(ms),
            position: Sector(position),
            op: Op::Read,
            size: Sectors(8),
        };
        Window {
            start: Time::ZERO,
            length: Span::from_secs(5),
            accesses: accesses.iter().map(access).collect(),
        }
    }

    #[test]
    fn a_bucket_holds_its_greatest_or_least_jump() {
        let parameters = Parameters { x: 5, ..Parameters::default() };
        let window = window(&[(0, 100), (100, 108), (200, 50), (300, 60), (2000, 61), (9999, 0)]);
        let mut seen = [false; 2];
        for seed in 0..32 {
            let points = CInfo::of(&window, &parameters, &mut Random::new(seed)).points;
            assert_eq!(points[1..], [0.0, 1.0, 0.0, -61.0]);
            assert!([10.0, -58.0].contains(&points[0]), "{points:?}");
            seen[usize::from(points[0] > 0.0)] = true;
        }
        assert_eq!(seen, [true; 2], "both must be drawn");
    }

    #[test]
    fn without_buckets_every_jump_is_kept() {
        let parameters = Parameters { x: 0, ..Parameters::default() };
        let cinfo = CInfo::of(&window(&[(0, 100), (1, 108), (2, 50)]), &parameters, &mut Random::new(0));
        assert_eq!((cinfo.requests, cinfo.points), (3, vec![8.0, -58.0]));
    }

    #[test]
    fn a_tenth_more_or_less_is_similar() {
        let of = |requests| CInfo { requests, points: Vec::new() };
        assert!(of(100).has_similar_iops(&of(110), 10));
        assert!(of(100).has_similar_iops(&of(90), 10));
        assert!(!of(100).has_similar_iops(&of(111), 10));
    }
}
