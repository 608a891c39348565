//! Loads as the kernel's counters measure them, and the comparison of two loads.
//!
//! Different loads: requests of half or twice the size; a difference of a quarter in the share of reads; three times as many in flight, or three
//! times the latency. A lower rate, fewer in flight or a lower latency is no difference, because devices are often idle. The significance test uses
//! the same measure, so that standby compares what the test has measured. Of a window whose requests were observed, two more measures: the share of
//! requests near to earlier ones, which distinguishes sequential from random loads, and the number of reads in flight.

use elevator::Op;
use observation::Window;

/// The ratio of request sizes from which on loads differ.
const SIZE: f64 = 2.0;
/// The difference in the share of reads from which on loads differ.
const SHARE: f64 = 0.25;
/// The ratio of requests in flight, or of latencies. CPU load alone can double them.
const MORE: f64 = 3.0;
/// The difference in the share of requests near to earlier ones from which on loads differ.
const NEAR: f64 = 0.5;
/// The ratio of reads in flight from which on the loads of observed windows differ. The number in flight in a closed loop depends on the programs;
/// with think times a faster scheduler lowers it, by less than this in all measured loads.
const DEEPER: f64 = 8.0;
/// Latencies below this are equal, in seconds.
const FAST: f64 = 1e-4;

/// The load of a window.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Load {
    /// Completed requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Mean size of a request in bytes.
    pub size: f64,
    /// The share of reads, 0 to 1.
    pub reads: f64,
    /// Mean number of requests in flight.
    pub in_flight: f64,
    /// Mean latency in seconds, from arrival in the queue.
    pub latency: f64,
    /// The share of requests within 64 KiB of one of the preceding ones, 0 to 1, if the requests were observed.
    pub near: Option<f64>,
    /// Mean number of reads in flight, if each was observed.
    pub reads_in_flight: Option<f64>,
}

impl Load {
    /// Whether there were enough requests: "we only consider traces over 1 IOPS" (IOAnalyzer).
    pub const fn counts(&self) -> bool {
        self.iops > 1.0
    }

    /// The part of a window's load that does not depend on the scheduler, without its order and depth.
    pub fn of(window: &Window) -> Self {
        let (all, seconds) = (window.accesses.len() as f64, window.length.as_secs_f64());
        let bytes: f64 = window.accesses.iter().map(|access| access.size.bytes() as f64).sum();
        let reads = window.accesses.iter().filter(|access| access.op == Op::Read).count() as f64;
        Self {
            iops: all / seconds,
            bandwidth: bytes / seconds,
            size: bytes / all.max(1.0),
            reads: reads / all.max(1.0),
            ..Self::default()
        }
    }

    /// How the requests differ from those of `known`, if they do.
    pub fn requests_differ_from(&self, known: &Self) -> Option<String> {
        let kib = |bytes: f64| bytes / 1024.0;
        let times = self.size.max(512.0) / known.size.max(512.0);
        if !(1.0 / SIZE..SIZE).contains(&times) {
            return Some(format!("requests of {:.0} KiB instead of {:.0}", kib(self.size), kib(known.size)));
        }
        if (self.reads - known.reads).abs() >= SHARE {
            let percent = |share: f64| share * 100.0;
            return Some(format!(
                "{:.0}% reads instead of {:.0}%",
                percent(self.reads),
                percent(known.reads)
            ));
        }
        let both = |of: fn(&Self) -> Option<f64>| of(self).zip(of(known));
        if let Some((near, other)) = both(|load| load.near)
            && (near - other).abs() >= NEAR
        {
            let percent = |share: f64| share * 100.0;
            return Some(format!(
                "{:.0}% of the requests near to earlier ones instead of {:.0}%",
                percent(near),
                percent(other)
            ));
        }
        // Less than one in flight counts as one.
        if let Some((depth, other)) = both(|load| load.reads_in_flight)
            && !(1.0 / DEEPER..DEEPER).contains(&(depth.max(1.0) / other.max(1.0)))
        {
            return Some(format!("{depth:.1} reads in flight instead of {other:.1}"));
        }
        None
    }

    /// How this load differs from `known`, if it does.
    pub fn differs_from(&self, known: &Self) -> Option<String> {
        let another = self.requests_differ_from(known);
        if another.is_some() {
            return another;
        }
        // Less than one in flight counts as one.
        if self.in_flight >= MORE * known.in_flight.max(1.0) {
            return Some(format!(
                "{:.1} requests in flight instead of {:.1}",
                self.in_flight, known.in_flight
            ));
        }
        if self.latency >= MORE * known.latency.max(FAST) {
            let ms = |seconds: f64| seconds * 1e3;
            return Some(format!("{:.2} ms a request instead of {:.2}", ms(self.latency), ms(known.latency)));
        }
        None
    }
}

#[cfg(test)]
impl Load {
    /// Reads of 4 KiB, eight in flight, as counters show them.
    pub(crate) const SMALL: Self = Self {
        iops: 8000.0,
        bandwidth: 32768e3,
        size: 4096.0,
        reads: 1.0,
        in_flight: 8.0,
        latency: 1e-3,
        near: None,
        reads_in_flight: None,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevator::{Sector, Sectors, Span, Time};
    use observation::Access;

    const SMALL: Load = Load::SMALL;

    #[test]
    fn a_lower_rate_is_the_same_load() {
        let others = [
            (Load { size: 16384.0, ..SMALL }, "requests of 16 KiB instead of 4"),
            (Load { reads: 0.5, ..SMALL }, "50% reads instead of 100%"),
            (Load { in_flight: 30.0, ..SMALL }, "30.0 requests in flight instead of 8.0"),
            (Load { latency: 4e-3, ..SMALL }, "4.00 ms a request instead of 1.00"),
        ];
        for (load, why) in others {
            assert_eq!(load.differs_from(&SMALL).as_deref(), Some(why));
        }
        let less = Load { iops: 10.0, bandwidth: 40960.0, in_flight: 0.01, latency: 2e-4, ..SMALL };
        assert_eq!(less.differs_from(&SMALL), None);
        let fast = Load { latency: 1e-5, ..SMALL };
        assert_eq!(Load { latency: 2e-4, ..SMALL }.differs_from(&fast), None, "both are fast");
    }

    #[test]
    fn a_load_has_the_rates_and_means_of_its_window() {
        let access = |n: u64| Access {
            time: Time::ZERO,
            position: Sector(n),
            op: if n < 15 { Op::Read } else { Op::Write },
            size: Sectors(if n < 15 { 8 } else { 24 }),
        };
        let window =
            Window { start: Time::ZERO, length: Span::from_secs(4), accesses: (0..20).map(access).collect() };
        let expected = Load { iops: 5.0, bandwidth: 30_720.0, size: 6144.0, reads: 0.75, ..Load::default() };
        assert_eq!(Load::of(&window), expected);
        assert_eq!(Load::of(&Window { accesses: Vec::new(), ..window }), Load::default());
    }

    #[test]
    fn sizes_differ_from_half_to_twice_and_numbers_in_flight_from_three_times() {
        let of = |size: f64| Load { size, ..SMALL }.requests_differ_from(&SMALL).is_some();
        assert_eq!([2047.0, 2048.0, 3000.0, 8191.0, 8192.0].map(of), [true, false, false, false, true]);
        let of = |in_flight: f64| Load { in_flight, ..SMALL }.differs_from(&SMALL).is_some();
        assert_eq!([20.0, 23.9, 24.0].map(of), [false, false, true]);
        let of = |latency: f64| Load { latency, ..SMALL }.differs_from(&SMALL).is_some();
        assert_eq!([2.5e-3, 3.1e-3].map(of), [false, true]);
        // Less than half a sector counts as one.
        let tiny = Load { size: 100.0, ..SMALL };
        assert_eq!(Load { size: 600.0, ..SMALL }.requests_differ_from(&tiny), None);
        assert_eq!(
            [0.75, 0.76].map(|reads| Load { reads, ..SMALL }.requests_differ_from(&SMALL).is_some()),
            [true, false]
        );
        assert!(!Load { iops: 1.0, ..SMALL }.counts() && Load { iops: 1.1, ..SMALL }.counts());
    }
}
