//! Jain's fairness index of the processes of a run.

use crate::measure::Measured;

/// Jain's fairness index of the processes' slowdowns relative to their times when alone: 1 if all are slowed alike,
/// 1/n if one process had everything.
#[must_use]
pub fn fairness(measured: &Measured, alone_ns: &[u64]) -> f64 {
    let progress: Vec<f64> = measured
        .processes
        .iter()
        .zip(alone_ns)
        .filter(|(process, alone)| process.elapsed_ns > 0 && **alone > 0)
        .map(|(process, &alone)| alone as f64 / process.elapsed_ns as f64)
        .collect();
    let sum: f64 = progress.iter().sum();
    let squares: f64 = progress.iter().map(|x| x * x).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (progress.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_slowdowns_have_fairness_one() {
        let process = |elapsed_ns| crate::ProcessMeasured { elapsed_ns, ..Default::default() };
        let measured = Measured { processes: vec![process(100), process(200)], ..Default::default() };
        assert!((fairness(&measured, &[10, 20]) - 1.0).abs() < 1e-9);
        assert!(
            (fairness(&measured, &[100, 0]) - 1.0).abs() < 1e-9,
            "a process without requests does not count"
        );
        assert!(fairness(&measured, &[100, 2]) < 0.52);
    }
}
