//! Windows: the accesses to a device in `t` seconds, above the scheduler.

use elevator::{Op, Sector, Sectors, Span, Time};

/// A request as submitted, before merging and scheduling.
///
/// The paper traces "timestamp, sector position, operation (write or read), block size and physical device" (III-C); a
/// window is of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The time of submission.
    pub time: Time,
    /// Its first sector.
    pub position: Sector,
    /// The operation.
    pub op: Op,
    /// The length.
    pub size: Sectors,
}

/// The accesses within `length` from `start`, in the order of submission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    pub start: Time,
    /// The paper's `t`.
    pub length: Span,
    /// The accesses. Flushes have no sector and are neither counted nor compared.
    pub accesses: Vec<Access>,
}

impl Window {
    /// The accesses with a sector.
    pub fn placed(&self) -> impl Iterator<Item = &Access> {
        self.accesses.iter().filter(|access| access.op != Op::Flush)
    }

    /// The number of accesses with a sector.
    pub fn requests(&self) -> u64 {
        self.placed().count() as u64
    }

    /// Whether it is analysed: "we only consider traces over 1 IOPS" (II-B).
    pub fn counts(&self) -> bool {
        u128::from(self.requests()) * 1_000_000_000 > u128::from(self.length.as_nanos())
    }

    /// Mean size of an access in bytes; 0 if there is none.
    pub fn mean_size(&self) -> f64 {
        ratio(self.placed().map(|access| access.size.bytes() as f64).sum(), self.requests() as f64)
    }

    /// The share of bytes that are read, 0 to 1; 1 if there are none.
    pub fn read_share(&self) -> f64 {
        let bytes = |read: bool| -> f64 {
            self.placed()
                .filter(|access| (access.op == Op::Read) == read)
                .map(|access| access.size.bytes() as f64)
                .sum()
        };
        let (read, written) = (bytes(true), bytes(false));
        if read + written == 0.0 { 1.0 } else { read / (read + written) }
    }

    /// The share of accesses that do not start at the end of the previous one, 0 to 1.
    pub fn random_share(&self) -> f64 {
        let placed: Vec<&Access> = self.placed().collect();
        let far = placed.windows(2).filter(|two| two[1].position != two[0].position + two[0].size).count();
        ratio(far as f64, placed.len().saturating_sub(1) as f64)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

/// Cuts a device's accesses into consecutive windows.
///
/// Empty windows are omitted. An access with a time before the window, from a clock that runs backwards, belongs to the present window.
#[derive(Clone, Debug)]
pub struct Windows {
    length: Span,
    open: Option<Window>,
}

impl Windows {
    /// Windows of `length` (the paper's `t`), starting with the first access. A length of 0 counts as 1 ns.
    pub fn of(length: Span) -> Self {
        Self { length: if length == Span::ZERO { Span::from_nanos(1) } else { length }, open: None }
    }

    /// Adds an access; returns the window that ended before it.
    pub fn push(&mut self, access: Access) -> Option<Window> {
        let ended = self.until(access.time);
        let start = access.time;
        let length = self.length;
        self.open.get_or_insert_with(|| Window { start, length, accesses: Vec::new() }).accesses.push(access);
        ended
    }

    /// Advances the time to `now`; returns the window that ended, unless it is empty.
    pub fn until(&mut self, now: Time) -> Option<Window> {
        let open = self.open.as_mut()?;
        let passed = now.since(open.start).as_nanos() / self.length.as_nanos();
        if passed == 0 {
            return None;
        }
        let next = open.start + self.length * passed;
        let fresh = Window { start: next, length: self.length, accesses: Vec::new() };
        Some(core::mem::replace(open, fresh)).filter(|ended| !ended.accesses.is_empty())
    }

    /// The last, unfinished window.
    pub fn finish(self) -> Option<Window> {
        self.open.filter(|window| !window.accesses.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ms: u64, position: u64) -> Access {
        Access {
            time: Time::ZERO + Span::from_millis(ms),
            position: Sector(position),
            op: Op::Read,
            size: Sectors(8),
        }
    }

    #[test]
    fn windows_are_consecutive_and_empty_ones_are_omitted() {
        let mut windows = Windows::of(Span::from_secs(5));
        assert_eq!(windows.push(read(1000, 0)), None);
        assert_eq!(windows.push(read(5999, 8)), None);
        let first = windows.push(read(6000, 16)).unwrap();
        assert_eq!((first.start, first.accesses.len()), (Time::ZERO + Span::from_secs(1), 2));
        let second = windows.push(read(30_000, 24)).unwrap();
        assert_eq!((second.start, second.accesses.len()), (Time::ZERO + Span::from_secs(6), 1));
        assert_eq!(windows.until(Time::ZERO + Span::from_secs(30)), None);
        assert_eq!(windows.finish().unwrap().start, Time::ZERO + Span::from_secs(26));
    }

    #[test]
    fn a_clock_that_runs_backwards_stays_in_the_window() {
        let mut windows = Windows::of(Span::from_secs(5));
        windows.push(read(9000, 0));
        assert_eq!(windows.push(read(10, 8)), None);
        assert_eq!(windows.finish().unwrap().accesses.len(), 2);
    }

    #[test]
    fn windows_with_at_most_one_access_per_second_do_not_count() {
        let window = |n| Window {
            start: Time::ZERO,
            length: Span::from_secs(5),
            accesses: (0..n).map(|i| read(i * 100, i * 8)).collect(),
        };
        assert!(!window(5).counts());
        assert!(window(6).counts());
        assert_eq!(window(6).random_share(), 0.0);
        assert_eq!(window(6).mean_size(), 4096.0);
        assert_eq!(window(0).mean_size(), 0.0);
    }
}
