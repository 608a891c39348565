//! Lower bound of the gain by switching: the best schedulers found for the parts of a run that is known in advance.

use elevator::Span;
use tuner::SchedulerId;

use super::phase::{FIXED, Lab, Phase, fixed, planned};
use crate::error::Error;
use crate::parallel::in_parallel;

/// Parts of a run, each of which may have a scheduler of its own.
const PARTS: usize = 9;
/// Runs that are searched: the first ones.
const RUNS: usize = 1;

/// Mean time over that of the best fixed scheduler. The search begins with the best fixed scheduler in every part, changes the scheduler of
/// one part after the other, and keeps each change that makes the whole run shorter. It does not find gains that need several changes
/// together, so a better plan may exist.
pub(super) fn best_plan_found(
    lab: &Lab,
    benchmark: &(dyn Fn(u64) -> Result<Phase, Error> + Sync),
) -> Result<f64, Error> {
    let over = in_parallel(RUNS, |run| {
        let phase = benchmark(run as u64)?;
        let mut alone = Vec::new();
        for scheduler in (0..FIXED.len()).map(SchedulerId) {
            alone.push((fixed(lab, &phase, scheduler)?.seconds, scheduler));
        }
        let (best, scheduler) =
            alone.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::NAN, SchedulerId(0)));
        let part = Span::from_nanos((best / PARTS as f64 * 1e9) as u64);
        let (mut least, mut plan) = (best, [scheduler; PARTS]);
        for changed in 0..PARTS {
            for other in (0..FIXED.len()).map(SchedulerId) {
                let before = std::mem::replace(&mut plan[changed], other);
                if before == other {
                    continue;
                }
                let seconds = planned(lab, &phase, &plan, part)?;
                if seconds < least {
                    least = seconds;
                } else {
                    plan[changed] = before;
                }
            }
        }
        Ok(least / best)
    })
    .into_iter()
    .collect::<Result<Vec<_>, Error>>()?;
    Ok(over.iter().sum::<f64>() / over.len() as f64)
}
