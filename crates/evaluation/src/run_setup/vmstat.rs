//! The device's throughput over time, in the manner of `vmstat 1`, and the waiting and service times of requests.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use elevator::queue::{Event, Observer};
use elevator::{Direction, Time};
use serde::{Deserialize, Serialize};

/// Limit of stored bins. When it is exceeded, pairs are merged into bins of twice the width, so that memory does not grow with time.
const MOST_BINS: usize = 4096;
/// Limit of requests behind a moment whose bytes are counted one by one.
const MOST_RECENT: usize = 4096;
/// Limit of requests in the scatter plots.
const MOST_POINTS: usize = 4000;
/// The time that the scatter plots cover, as in figure 7 of the stream paper.
const SCATTER_NS: u64 = 4_000_000_000;

/// The device over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Vmstat {
    /// Width of a bin in nanoseconds.
    pub bin_ns: u64,
    /// Bytes read from the device, by bin.
    pub read: Vec<u64>,
    /// Bytes written to the device, by bin.
    pub written: Vec<u64>,
    /// Completion time of the latest request.
    #[serde(default)]
    pub latest_ns: u64,
    /// The longest time from a request's arrival in the queue to its completion.
    pub longest_ns: u64,
    /// Completion time and bytes of the latest requests.
    #[serde(skip)]
    recent: VecDeque<(u64, u64)>,
    /// (completion, wait in the queue, service) of the first requests, in nanoseconds.
    pub scatter: Vec<[u64; 3]>,
}

impl Default for Vmstat {
    fn default() -> Self {
        let bin_ns = 100_000_000;
        let (read, written, scatter) = (Vec::new(), Vec::new(), Vec::new());
        Self { bin_ns, read, written, latest_ns: 0, longest_ns: 0, recent: VecDeque::new(), scatter }
    }
}

impl Vmstat {
    /// A listener, and the statistics that it fills.
    pub fn listener() -> (Listener, Rc<RefCell<Self>>) {
        let shared = Rc::new(RefCell::new(Self::default()));
        (Listener(Rc::clone(&shared)), shared)
    }

    fn record(&mut self, now: Time, direction: Direction, bytes: u64) {
        let mut bin = (now.as_nanos() / self.bin_ns) as usize;
        while bin >= MOST_BINS {
            self.bin_ns *= 2;
            self.read = halved(&self.read);
            self.written = halved(&self.written);
            bin /= 2;
        }
        let bins = match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.written,
        };
        if bins.len() <= bin {
            bins.resize(bin + 1, 0);
        }
        bins[bin] += bytes;
        self.latest_ns = now.as_nanos();
        if self.recent.len() == MOST_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((self.latest_ns, bytes));
    }

    /// Bytes in both directions until a moment. If thousands of later requests exist, the moment's bin counts in proportion.
    pub fn bytes(&self, to_ns: u64) -> u64 {
        let has_all = (1..MOST_RECENT).contains(&self.recent.len());
        if to_ns >= self.latest_ns || has_all || self.recent.front().is_some_and(|(at, _)| *at <= to_ns) {
            let later = self.recent.iter().rev().take_while(|(at, _)| *at > to_ns).map(|(_, bytes)| bytes);
            return self.read.iter().chain(&self.written).sum::<u64>() - later.sum::<u64>();
        }
        let both = [&self.read, &self.written].map(|bins| share(bins, self.bin_ns, 0, to_ns));
        both.iter().sum::<f64>() as u64
    }

    /// 10^6 bytes per second in both directions between two moments, in nanoseconds.
    pub fn rate(&self, from_ns: u64, to_ns: u64) -> f64 {
        let bytes = share(&self.read, self.bin_ns, from_ns, to_ns)
            + share(&self.written, self.bin_ns, from_ns, to_ns);
        if to_ns > from_ns { bytes * 1e3 / (to_ns - from_ns) as f64 } else { 0.0 }
    }

    /// The longest period without reads between two moments, in nanoseconds, in whole bins.
    pub fn longest_without_reads(&self, from_ns: u64, to_ns: u64) -> u64 {
        let (mut longest, mut current) = (0, 0);
        for bin in from_ns.div_ceil(self.bin_ns)..to_ns / self.bin_ns {
            let quiet = self.read.get(bin as usize).is_none_or(|&bytes| bytes == 0);
            current = if quiet { current + self.bin_ns } else { 0 };
            longest = longest.max(current);
        }
        longest
    }
}

fn halved(bins: &[u64]) -> Vec<u64> {
    bins.chunks(2).map(|pair| pair.iter().sum()).collect()
}

/// Bytes between two moments; the bins at both ends count in proportion.
fn share(bins: &[u64], bin_ns: u64, from_ns: u64, to_ns: u64) -> f64 {
    let whole = |(n, &bytes): (usize, &u64)| {
        let (begins, ends) = (n as u64 * bin_ns, (n as u64 + 1) * bin_ns);
        let within = ends.min(to_ns).saturating_sub(begins.max(from_ns));
        bytes as f64 * within as f64 / bin_ns as f64
    };
    bins.iter().enumerate().map(whole).sum()
}

/// Fills a [`Vmstat`] from the events of one queue or several.
#[derive(Clone)]
pub struct Listener(Rc<RefCell<Vmstat>>);

impl Observer for Listener {
    fn event(&mut self, now: Time, event: &Event<'_>) {
        let Event::Completed { request, dispatched, .. } = *event else { return };
        let mut vmstat = self.0.borrow_mut();
        vmstat.record(now, request.direction(), request.sectors.bytes());
        vmstat.longest_ns = vmstat.longest_ns.max(now.since(request.arrived).as_nanos());
        if now.as_nanos() < SCATTER_NS && vmstat.scatter.len() < MOST_POINTS {
            let (waited, served) = (dispatched.since(request.arrived), now.since(dispatched));
            vmstat.scatter.push([now.as_nanos(), waited.as_nanos(), served.as_nanos()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_rate_counts_bins_in_part() {
        let mut vmstat = Vmstat::default();
        for tenth in 0..20 {
            vmstat.record(Time::from_nanos(tenth * S / 10), Direction::Read, 1_000_000);
        }
        assert!((vmstat.rate(0, 2 * S) - 10.0).abs() < 1e-9);
        assert!((vmstat.rate(S / 20, S) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn bytes_are_counted_up_to_the_moment() {
        let mut vmstat = Vmstat::default();
        vmstat.record(Time::from_nanos(S / 1000), Direction::Read, 4096);
        vmstat.record(Time::from_nanos(S / 100), Direction::Write, 4096);
        assert_eq!(
            [0, S / 1000, S / 100, S / 20, 2 * S].map(|to| vmstat.bytes(to)),
            [0, 4096, 8192, 8192, 8192]
        );
        vmstat.record(Time::from_nanos(S / 20 + 1), Direction::Read, 4096);
        assert_eq!([S / 20, S / 10].map(|to| vmstat.bytes(to)), [8192, 12288]);
        for n in 1..=MOST_RECENT as u64 {
            vmstat.record(Time::from_nanos(S + n), Direction::Read, 512);
        }
        // Too many requests came later: half of the first bin.
        assert_eq!([S / 20, S + 1].map(|to| vmstat.bytes(to)), [6144, 12288 + 512]);
    }

    #[test]
    fn only_periods_without_reads_are_pauses() {
        let mut vmstat = Vmstat::default();
        for second in [0, 1, 5, 6] {
            vmstat.record(Time::from_nanos(second * S), Direction::Read, 4096);
            vmstat.record(Time::from_nanos(second * S), Direction::Write, 4096);
        }
        assert_eq!(vmstat.longest_without_reads(0, 7 * S), 3_900_000_000);
    }

    #[test]
    fn bins_do_not_grow_with_time() {
        let mut vmstat = Vmstat::default();
        for second in 0..100_000 {
            vmstat.record(Time::from_nanos(second * S), Direction::Write, 1_000_000);
        }
        assert!(vmstat.written.len() <= MOST_BINS);
        assert_eq!(vmstat.written.iter().sum::<u64>(), 100_000_000_000);
    }
}
