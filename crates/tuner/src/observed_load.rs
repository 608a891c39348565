//! The load of a window whose requests were observed: also their order, and the number of reads in flight.

use observation::{LatencyClass, Performance, Window};

use crate::kinds::Shape;
use crate::load::Load;

/// The part of the load that does not depend on the scheduler; the number of reads in flight only with `performance`.
pub(crate) fn observed(window: &Window, performance: Option<&Performance>) -> Load {
    let load = Load::of(window);
    let reads_in_flight = performance.and_then(|performance| {
        let latency = performance.latencies[LatencyClass::Reads as usize]?;
        Some(performance.iops * load.reads * latency.mean)
    });
    let near = (!window.accesses.is_empty()).then(|| Shape::of(window).near());
    Load { near, reads_in_flight, ..load }
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};
    use observation::Access;

    use super::*;

    /// Reads of 4 KiB, 5 s of them, with a mean latency in seconds.
    fn reads(place: impl FnMut(u64) -> u64, latency: f64) -> Load {
        let access = |position| Access {
            time: Time::ZERO,
            position: Sector(position),
            op: Op::Read,
            size: Sectors(8),
        };
        let accesses: Vec<Access> = (0..500).map(place).map(access).collect();
        let window = Window { start: Time::ZERO, length: Span::from_secs(5), accesses };
        let latency = observation::Latency { mean: latency, p99: latency };
        let performance = Performance {
            iops: 100.0,
            latencies: [Some(latency), None, Some(latency)],
            ..Performance::default()
        };
        observed(&window, Some(&performance))
    }

    /// Random and sequential reads, and one and 32 readers, have the same size and share of reads, and different best schedulers.
    #[test]
    fn order_and_depth_of_reads_distinguish_loads() {
        let mut random = elevator::Random::new(1);
        let mut at_random = |_| random.below(1 << 30);
        let [alone, again, deep] = [0.01, 0.012, 0.32].map(|latency| reads(&mut at_random, latency));
        // Two readers that take turns.
        let sequential = reads(|n| (n % 2) * (1 << 29) + n / 2 * 8, 0.01);
        assert_eq!(alone.requests_differ_from(&again), None);
        let why = sequential.requests_differ_from(&alone).expect("another load");
        assert_eq!(why, "100% of the requests near to earlier ones instead of 0%");
        assert_eq!(
            deep.requests_differ_from(&alone).expect("another load"),
            "32.0 reads in flight instead of 1.0"
        );
        assert!(
            alone.requests_differ_from(&deep).is_some() && alone.requests_differ_from(&sequential).is_some()
        );
        // Of standby only the counters are known.
        let counted = Load { near: None, reads_in_flight: None, ..alone };
        assert_eq!([sequential, deep].map(|load| load.requests_differ_from(&counted)), [None, None]);
    }
}
