//! The tuner's processor time and memory by the number of buckets, compared with the paper's formulas.

use tuner::{DeciderName, Parameters};

use super::phase::Lab;
use super::training::{Tuning, trained};
use super::{DEPTH, DRIVE, evaluation};
use crate::error::Error;
use crate::papers::Row;
use crate::papers::verdict::{self, Bound};

/// Bucket counts measured.
const BUCKETS: [u64; 4] = [100, 500, 1000, 4000];

/// "CPU cost [...] is quadratic respect to the size of the bucket": percent of a processor.
fn published_cpu(buckets: f64) -> f64 {
    2.008e-7 * buckets * buckets + 8.621e-4 * buckets + 0.25
}

/// "memory cost is (BucketSize x 8B + 20 * numSchedulers x 4B) x numClusters Bytes".
fn published_memory(buckets: f64, schedulers: f64, clusters: f64) -> f64 {
    (buckets * 8.0 + 20.0 * schedulers * 4.0) * clusters
}

pub(super) fn cost(scale: f64) -> Result<Vec<Row>, Error> {
    let lab = Lab::new(DRIVE, DEPTH)?;
    let benchmark = evaluation::mixed(scale);
    let mut rows = Vec::new();
    for x in BUCKETS {
        let parameters = Parameters { x, ..Parameters::default() };
        let outcome = trained(
            &lab,
            &*benchmark,
            Tuning { parameters, decider: DeciderName::IoAnalyzer, ..Tuning::of(4) },
        )?;
        let published = published_cpu(x as f64);
        let percent = outcome.cpu * 100.0;
        let figure =
            format!("decider ioanalyzer, {x} buckets, {} clusters: processor time", outcome.clusters);
        rows.push(Row::reported("cost", figure, &format!("{published:.2}%"), percent, "%").counting_as(
            "ioanalyzer/processor time",
            verdict::bound(Bound::AtMost, published, percent, 0.0),
        ));
        let clusters = outcome.clusters.max(1) as f64;
        let over = outcome.memory as f64 / published_memory(x as f64, 4.0, clusters);
        let figure = format!("decider ioanalyzer, {x} buckets: bytes kept, over the paper's formula");
        rows.push(
            Row::reported("cost", figure, "1", over, "x")
                .counting_as("ioanalyzer/memory", verdict::ratio(1.0, over, 0.0)),
        );
    }
    let kinds = trained(&lab, &*benchmark, Tuning::of(4))?;
    let figure = "decider kinds: processor time".to_owned();
    rows.push(Row::reported("cost", figure, "not published", kinds.cpu * 100.0, "%"));
    Ok(rows)
}
