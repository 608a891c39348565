//! Expected durations of experiments, for their order and for the estimate of the remaining time. No result depends on them.

/// Paper and experiment, scheduler (empty for an experiment that runs as a whole), seconds of one processor at the default
/// scale; measured once.
const TABLE: &str = include_str!("costs.csv");

/// The assumed duration of unknown experiments, in seconds.
const UNKNOWN_S: f64 = 3.0;

/// Seconds of one processor at this share of the default scale.
pub(super) fn expected(experiment: &str, scheduler: &str, share: f64) -> f64 {
    let rows = TABLE.lines().skip(1).filter_map(|line| {
        let mut fields = line.split(';');
        let row = (fields.next()?, fields.next()?, fields.next()?.parse::<f64>().ok()?);
        fields.next().is_none().then_some(row)
    });
    let mut found = rows.filter(|row| (row.0, row.1) == (experiment, scheduler));
    (found.next().map_or(UNKNOWN_S, |(_, _, seconds)| seconds) * share).max(0.01)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_row() {
        for line in TABLE.lines().skip(1) {
            let fields: Vec<&str> = line.split(';').collect();
            let [experiment, scheduler, seconds] = fields[..] else { panic!("{line}") };
            let seconds: f64 = seconds.parse().unwrap_or_else(|_| panic!("{line}"));
            assert!((expected(experiment, scheduler, 1.0) - seconds.max(0.01)).abs() < 1e-9, "{line}");
        }
    }
}
