//! Collected latencies: exact sum and maximum, and a distribution with three significant digits.
//!
//! A histogram takes tens of KB, and a recording may have more processes than memory has room for histograms. So the first
//! latencies are kept in a list; most processes never have more.

use std::sync::LazyLock;

use elevator::Span;
use hdrhistogram::Histogram;
use serde::Serialize;

/// A distribution of latencies, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Number of samples.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: u64,
    /// Median, with three significant digits.
    pub p50_ns: u64,
    /// 99th percentile, with three significant digits.
    pub p99_ns: u64,
    /// Maximum, exact.
    pub max_ns: u64,
}

/// Latencies kept in a list. For more, a histogram (about 60 KB for milliseconds) is smaller in most cases.
const FEW: usize = 1024;

/// Counters of 32 bits keep the used part of the histogram in the processor's cache. 4 billion requests of one latency would
/// overflow a counter.
type Counts = Histogram<u32>;

fn counts() -> Counts {
    Histogram::new(3).expect("three digits are allowed")
}

/// For the rounding of values that are not in a histogram yet.
static ROUNDING: LazyLock<Counts> = LazyLock::new(counts);

/// Latencies of a process or a direction.
#[derive(Clone, Default)]
pub struct Latencies {
    /// All latencies, unordered, while there are at most [`FEW`].
    few: Vec<u64>,
    /// All latencies, once there are more.
    many: Option<Counts>,
    sum: u128,
    max: u64,
}

fn count(counts: &mut Counts, ns: u64) {
    // The histogram resizes itself; recording fails only beyond 64 bits of nanoseconds.
    counts.record(ns).expect("a histogram that grows");
}

impl Latencies {
    /// Adds a latency.
    #[inline]
    pub fn record(&mut self, span: Span) {
        let ns = span.as_nanos();
        self.sum += u128::from(ns);
        self.max = self.max.max(ns);
        match &mut self.many {
            Some(many) => count(many, ns),
            None if self.few.len() < FEW => self.few.push(ns),
            None => count(self.spill(), ns),
        }
    }

    /// Adds all of another's.
    pub fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        let fit = self.many.is_none() && other.many.is_none() && self.few.len() + other.few.len() <= FEW;
        if fit {
            self.few.extend(&other.few);
            return;
        }
        let many = self.spill();
        other.few.iter().for_each(|&ns| count(many, ns));
        if let Some(others) = &other.many {
            many.add(others).expect("histograms that grow by themselves");
        }
    }

    /// Moves the latencies to the histogram.
    fn spill(&mut self) -> &mut Counts {
        let few = std::mem::take(&mut self.few);
        let many = self.many.get_or_insert_with(counts);
        few.into_iter().for_each(|ns| count(many, ns));
        many
    }

    /// Count, mean, quantiles and maximum.
    pub fn summary(&self) -> Latency {
        let count = self.many.as_ref().map_or(self.few.len() as u64, Counts::len);
        let [p50_ns, p99_ns] = self.quantiles([0.5, 0.99]).map(|ns| ns.min(self.max));
        let mean_ns = self.sum.checked_div(u128::from(count)).unwrap_or(0) as u64;
        Latency { count, mean_ns, p50_ns, p99_ns, max_ns: self.max }
    }

    /// Quantiles as the histogram rounds them, for lists as well.
    fn quantiles<const N: usize>(&self, wanted: [f64; N]) -> [u64; N] {
        if let Some(many) = &self.many {
            return wanted.map(|quantile| many.value_at_quantile(quantile));
        }
        let mut sorted = self.few.clone();
        sorted.sort_unstable();
        wanted.map(|quantile| {
            let rank = (quantile * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.saturating_sub(1)).map_or(0, |&ns| ROUNDING.highest_equivalent(ns))
        })
    }

    /// Points of the distribution: (latency, share of requests at or below it).
    pub(crate) fn distribution(&self) -> Vec<(u64, f64)> {
        let mut all = self.clone();
        let many = all.spill();
        let count = many.len().max(1) as f64;
        let mut below = 0u64;
        many.iter_recorded()
            .map(|step| {
                below += step.count_since_last_iteration();
                (step.value_iterated_to().min(self.max), below as f64 / count)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_and_a_histogram_have_the_same_summary() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> (state & 63)
        };
        for number in (0..40).chain([FEW - 1, FEW, FEW + 1]) {
            let mut latencies = Latencies::default();
            (0..number).for_each(|_| latencies.record(Span::from_nanos(random())));
            assert_eq!(latencies.many.is_some(), number > FEW);
            let mut spilled = latencies.clone();
            spilled.spill();
            assert_eq!(latencies.summary(), spilled.summary(), "{number}");
            assert_eq!(latencies.distribution(), spilled.distribution());
        }
    }

    #[test]
    fn a_sum_has_the_summary_of_all_samples() {
        for (own, others) in [(0, 0), (3, 4), (FEW, 1), (1, FEW), (2 * FEW, 5), (5, 2 * FEW)] {
            let mut all = Latencies::default();
            let [mut first, mut second] = [Latencies::default(), Latencies::default()];
            for n in 0..own + others {
                let span = Span::from_nanos(n as u64 * 777);
                all.record(span);
                if n < own { &mut first } else { &mut second }.record(span);
            }
            first.add(&second);
            assert_eq!(first.summary(), all.summary());
            assert_eq!(first.distribution(), all.distribution());
        }
    }
}
