//! What a device is asked for, in numbers, and which loads are alike.
//!
//! # What counts as another
//! Requests of half or twice the size; a quarter more or fewer of them reads; three times as many under way, or three times as slow.
//! Being asked for less is no reason: a device is asked for less most of the time. Fewer under way, or faster, is therefore like.

use elevator::Op;
use ioanalyzer::Window;

/// Requests of so many times the size, or of that part of it, are others.
const SIZE: f64 = 2.0;
/// A share of reads that differs by so much is another.
const SHARE: f64 = 0.25;
/// So many times as many under way, or as slow, is another load. Two would come of a busy processor.
const MORE: f64 = 3.0;
/// Seconds; what is faster is as good as this.
const FAST: f64 = 1e-4;

/// What a device was asked in a window.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Load {
    /// Requests a second that ended.
    pub iops: f64,
    /// Bytes a second.
    pub bandwidth: f64,
    /// Bytes of a request.
    pub size: f64,
    /// The share of reads, 0 to 1.
    pub reads: f64,
    /// Requests under way, on average over the window.
    pub under_way: f64,
    /// Seconds from a request's arrival in the queue to its end.
    pub latency: f64,
}

impl Load {
    /// Whether enough was asked to say anything: "we only consider traces over 1 IOPS".
    #[must_use]
    pub const fn counts(&self) -> bool {
        self.iops > 1.0
    }

    /// What a window was asked, as far as that does not depend on the scheduler: what requests were like.
    #[must_use]
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

    /// In what requests are of another kind than `known`'s, in words.
    #[must_use]
    pub fn is_another_kind_than(&self, known: &Self) -> Option<String> {
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
        None
    }

    /// In what this is another load than `known`, in words.
    #[must_use]
    pub fn differs_from(&self, known: &Self) -> Option<String> {
        let another = self.is_another_kind_than(known);
        if another.is_some() {
            return another;
        }
        // Less than one at a time is as good as idle.
        if self.under_way >= MORE * known.under_way.max(1.0) {
            return Some(format!(
                "{:.1} requests at a time instead of {:.1}",
                self.under_way, known.under_way
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
mod tests {
    use super::*;

    const SMALL: Load =
        Load { iops: 8000.0, bandwidth: 32768e3, size: 4096.0, reads: 1.0, under_way: 8.0, latency: 1e-3 };

    #[test]
    fn what_is_another_load_and_what_is_only_less_of_it() {
        let others = [
            (Load { size: 16384.0, ..SMALL }, "requests of 16 KiB instead of 4"),
            (Load { reads: 0.5, ..SMALL }, "50% reads instead of 100%"),
            (Load { under_way: 30.0, ..SMALL }, "30.0 requests at a time instead of 8.0"),
            (Load { latency: 4e-3, ..SMALL }, "4.00 ms a request instead of 1.00"),
        ];
        for (load, why) in others {
            assert_eq!(load.differs_from(&SMALL).as_deref(), Some(why));
        }
        let less = Load { iops: 10.0, bandwidth: 40960.0, under_way: 0.01, latency: 2e-4, ..SMALL };
        assert_eq!(less.differs_from(&SMALL), None);
        let fast = Load { latency: 1e-5, ..SMALL };
        assert_eq!(Load { latency: 2e-4, ..SMALL }.differs_from(&fast), None, "both are fast");
    }
}
