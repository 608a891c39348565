//! The measurement of the device's service times.

use std::time::Duration;

use capture::profile::{Probe, ServiceTime};
use elevator::SECTOR_BYTES;
use evaluation::report::format::{bytes, time};

use super::{Advice, Session};
use crate::interrupt;

/// The time for measuring service times.
pub(super) const PROBING: Duration = Duration::from_secs(3);

/// The service times, and whether other requests delayed the reads that measured them.
pub(super) struct Measurement {
    /// `None` without a measurement.
    pub(super) probe: Option<Probe>,
    pub(super) is_disturbed: bool,
}

impl Session<'_> {
    /// Measures the device, unless the command line excludes it. What was observed is worth a report also if the measurement fails.
    pub(super) fn measure(&self, advice: &mut Advice) -> Measurement {
        // The service times of one member are not those of the array.
        let is_joined_by_none = !self.target.members.is_empty();
        let measured = match is_joined_by_none || self.arguments.no_probe || interrupt::requested() {
            true => Ok(None),
            false => Probe::measure(&self.target.layer, PROBING, &interrupt::requested),
        };
        let failure = measured.as_ref().err().map(|error| format!("service times: not measured: {error}"));
        let mut probe = measured.unwrap_or_default();
        let is_useless = |of: &ServiceTime| of.points.is_empty() || of.is_disturbed();
        let is_disturbed = probe.as_ref().is_some_and(|probe| is_useless(&probe.service_time));
        let delayed = probe.as_mut().filter(|_| !is_disturbed);
        let delayed = delayed.map(|probe| probe.service_time.remove_delayed()).unwrap_or_default();
        let reason = probe.as_ref().filter(|_| is_disturbed).map(why_discarded);
        advice.discarded = reason.or(failure).or_else(|| left_out(&delayed));
        Measurement { probe, is_disturbed }
    }
}

/// The points that were left out because other requests delayed their reads.
fn left_out(delayed: &[(u64, u64)]) -> Option<String> {
    let point = |&(distance, nanos): &(u64, u64)| match distance {
        0 => format!("in sequence {}", time(nanos)),
        sectors => format!("{} {}", bytes(sectors * SECTOR_BYTES), time(nanos)),
    };
    let points: Vec<String> = delayed.iter().map(point).collect();
    (!points.is_empty()).then(|| {
        format!(
            "left out, because farther reads took less time, so that other requests delayed these: {}",
            points.join(", ")
        )
    })
}

/// The reason for not using a measurement that other requests delayed.
fn why_discarded(probe: &Probe) -> String {
    let Some((near, far)) = probe.service_time.near_and_far() else {
        return format!(
            "service times: none, because no read ended within {} s: the drive preferred requests of the load",
            PROBING.as_secs()
        );
    };
    let [near, far] = [near, far].map(|span| time(span.as_nanos()));
    format!(
        "service times: discarded, because reads in sequence took longer ({near}) than across the device ({far}): other requests delayed them"
    )
}
