//! Latencies as they are collected: an exact sum and maximum beside a distribution to three digits.
//!
//! A histogram has the size of a small file. A recording may have more processes than there is memory for one each, so the
//! first few latencies are kept as they are, and most processes never have more.

use std::sync::LazyLock;

use elevator::Span;
use hdrhistogram::Histogram;

use crate::measure::Latency;

/// Latencies that are kept as they are: beyond these a histogram, which for milliseconds has some 60 KB, is smaller for most.
const FEW: usize = 1024;

/// Of 32 bits, so that what is in use of it stays in the processor's cache; 4 billion requests of one latency are too many.
type Counts = Histogram<u32>;

fn counts() -> Counts {
    Histogram::new(3).expect("three digits are allowed")
}

/// What tells how far a value is rounded.
static ROUNDING: LazyLock<Counts> = LazyLock::new(counts);

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct Latencies {
    /// All of them, in any order, while they are few.
    few: Vec<u64>,
    /// All of them, once they are not.
    many: Option<Counts>,
    sum: u128,
    max: u64,
}

fn count(counts: &mut Counts, ns: u64) {
    // It grows by itself; recording fails only beyond what 64 bits of nanoseconds hold.
    counts.record(ns).expect("a histogram that grows");
}

impl Latencies {
    #[inline]
    pub(crate) fn record(&mut self, span: Span) {
        let ns = span.as_nanos();
        self.sum += u128::from(ns);
        self.max = self.max.max(ns);
        match &mut self.many {
            Some(many) => count(many, ns),
            None if self.few.len() < FEW => self.few.push(ns),
            None => count(self.spill(), ns),
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
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

    /// From now on they are many.
    fn spill(&mut self) -> &mut Counts {
        let few = std::mem::take(&mut self.few);
        let many = self.many.get_or_insert_with(counts);
        few.into_iter().for_each(|ns| count(many, ns));
        many
    }

    pub(crate) fn summary(&self) -> Latency {
        let count = self.many.as_ref().map_or(self.few.len() as u64, Counts::len);
        let [p50_ns, p99_ns] = self.quantiles([0.5, 0.99]).map(|ns| ns.min(self.max));
        let mean_ns = self.sum.checked_div(u128::from(count)).unwrap_or(0) as u64;
        Latency { count, mean_ns, p50_ns, p99_ns, max_ns: self.max }
    }

    /// As the histogram tells them, however few they are.
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

    /// (latency, share of requests at or below it) for pictures.
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
    fn few_are_summed_up_as_many_are() {
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
    fn together_they_are_what_all_would_be() {
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
