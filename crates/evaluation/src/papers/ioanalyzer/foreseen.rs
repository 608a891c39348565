//! What there is to win by switching at all: a run whose schedulers were chosen by somebody who knew it.

use elevator::Span;
use tuner::SchedulerId;

use super::phase::{FIXED, Lab, Phase, fixed, planned};
use crate::error::Error;
use crate::parallel::in_parallel;

/// Parts of a run, each of which may have another scheduler.
const PARTS: usize = 9;
/// Runs that are looked at: the first ones.
const RUNS: usize = 1;

/// Time over that of the best fixed scheduler, on average: the least that was found by changing the scheduler of one part after the
/// other, from the best fixed one everywhere, and keeping whatever makes the whole run shorter. There may be less still, where only
/// several changes together gain.
pub(super) fn least_found(
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
