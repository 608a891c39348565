//! Rounds: every scheduler is measured several times, in alternating order.
//!
//! # Idea
//! A device changes while it is measured: caches fill, a solid-state drive cleans up, another program starts. Measured once in a fixed order, the
//! first scheduler gets the cold device and the last the warm one. Rounds that run forwards and backwards in turn give each scheduler the same mean
//! position, and repetition shows how far a result can be trusted. If `none` itself differs from round to round, nothing can be compared.

use elevator::text::counted;
use observation::throughput::Curve;

/// The ratio of the greatest and the least result of `none` at one point that noise explains.
const NOISE: f64 = 1.5;

/// The order of a round: forwards in even rounds, backwards in odd ones.
pub(super) fn order(schedulers: usize, round: u32) -> Vec<usize> {
    let forwards = 0..schedulers;
    if round.is_multiple_of(2) { forwards.collect() } else { forwards.rev().collect() }
}

/// The mean of each point over several rounds, and half the width of its 95% confidence interval in bytes per second; no widths for a single round.
/// Points that a round lacks, because it was stopped, are left out.
pub(super) fn combined(rounds: &[Vec<Curve>]) -> (Vec<Curve>, Vec<Vec<f64>>) {
    let Some(first) = rounds.first() else { return (Vec::new(), Vec::new()) };
    let (mut curves, mut widths) = (Vec::new(), Vec::new());
    for (n, curve) in first.iter().enumerate() {
        let (mut points, mut own) = (Vec::new(), Vec::new());
        for (m, &(size, _)) in curve.points.iter().enumerate() {
            let values: Option<Vec<f64>> =
                rounds.iter().map(|round| Some(round.get(n)?.points.get(m)?.1)).collect();
            let Some(values) = values else { break };
            let (mean, width) = interval(&values);
            points.push((size, mean));
            own.extend(width);
        }
        curves.push(Curve { kind: curve.kind, points });
        widths.push(own);
    }
    (curves, widths)
}

/// The mean, and half the width of the 95% interval by Student's t.
fn interval(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, None);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    // The quantile of 0.975 for 1, 2, … degrees of freedom.
    const T: [f64; 9] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];
    let t = T.get(values.len() - 2).copied().unwrap_or(2.0);
    (mean, Some(t * (variance / n).sqrt()))
}

/// Why the results of `none` differ too much to compare anything with them, if they do: at the median point the best round is more than [`NOISE`] times
/// the worst. Further rounds can only increase that ratio.
pub(super) fn unsteady(none: &[Vec<Curve>]) -> Option<String> {
    let first = none.first()?;
    let mut ratios: Vec<(f64, String)> = Vec::new();
    for (n, curve) in first.iter().enumerate() {
        for (m, &(size, _)) in curve.points.iter().enumerate() {
            let values = none.iter().filter_map(|round| Some(round.get(n)?.points.get(m)?.1));
            let (least, most) = values.fold((f64::INFINITY, 0.0), |(least, most), value| {
                (f64::min(least, value), f64::max(most, value))
            });
            let kind = if curve.kind.random == Some(true) { "random" } else { "sequential" };
            let of =
                format!("{:.1} to {:.1} MB/s at {:.0} KiB, {kind}", least / 1e6, most / 1e6, size / 1024.0);
            ratios.push((most / least.max(1.0), of));
        }
    }
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let median = ratios.get(ratios.len() / 2)?;
    (median.0 > NOISE).then(|| format!("none gave {} in {}", median.1, counted(none.len() as u64, "round")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use observation::throughput::CurveClass;

    fn round(rates: &[f64]) -> Vec<Curve> {
        let kind = CurveClass { reads: Some(true), random: Some(true) };
        let points = rates.iter().zip(1..).map(|(rate, n)| (f64::from(n) * 4096.0, *rate)).collect();
        vec![Curve { kind, points }]
    }

    #[test]
    fn each_scheduler_has_the_same_mean_position() {
        let mut places = [0; 3];
        for turn in 0..4 {
            for (place, scheduler) in order(3, turn).into_iter().enumerate() {
                places[scheduler] += place;
            }
        }
        assert_eq!(places, [4; 3]);
    }

    #[test]
    fn rounds_are_averaged_with_an_interval() {
        let (curves, widths) = combined(&[round(&[10.0]), round(&[12.0]), round(&[8.0]), round(&[10.0])]);
        assert_eq!(curves[0].points, [(4096.0, 10.0)]);
        assert!((widths[0][0] - 3.18 * (8.0_f64 / 3.0 / 4.0).sqrt()).abs() < 1e-9, "{widths:?}");
        assert_eq!(combined(&[round(&[10.0])]).1, [[0.0; 0]]);
        // The second round was stopped after its first point.
        let (curves, _) = combined(&[round(&[10.0, 20.0]), round(&[10.0])]);
        assert_eq!(curves[0].points.len(), 1);
    }

    /// As a cold file did: the first round reads from the disk below, the later ones from memory.
    #[test]
    fn a_device_that_warms_up_is_refused() {
        let cold = [round(&[21e6, 25e6, 50e6]), round(&[400e6; 3]), round(&[410e6; 3]), round(&[390e6; 3])];
        assert_eq!(unsteady(&cold).unwrap(), "none gave 25.0 to 410.0 MB/s at 8 KiB, random in 4 rounds");
        // One disturbed point of three is noise.
        let steady = [round(&[100e6, 101e6, 20e6]), round(&[104e6, 99e6, 100e6])];
        assert_eq!(unsteady(&steady), None);
    }
}
