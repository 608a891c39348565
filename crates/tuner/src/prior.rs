//! The expected gain of each scheduler before the first trial, which orders the trials.
//!
//! # Idea
//! The gain depends on two facts that one window shows: whether seeks cost the device much time, and whether synchronous readers read
//! sequentially. Such readers suffer from *deceptive idleness* (Iyer and Druschel, SOSP 2001): each has no request queued for
//! a moment after its last one, and a scheduler that does not wait moves the head to another reader. Schedulers that wait gain a multiple; all
//! others only sort. Without positioning costs, no scheduler gains and each costs processor time.
//!
//! A scheduler that does not wait also leaves a sequential reader few requests among random ones: 5% beside random reads at depth 4. Its share of the
//! requests is an effect of that scheduler, so that one long sequence counts as a reader, whatever its share.
//!
//! The figures are the medians of `docs/duel-results.md` (real programs on an emulated disk, against `none` or `noop`), rounded down. Only
//! their order and rough size matter: each scheduler is measured before it is used.
//!
//! # Not for
//! A forecast of the gain. A trial that disagrees overrules the figure.

use std::collections::HashMap;

use elevator::Op;
use observation::{Access, Metric, Window};

/// Earlier accesses that an access may continue.
const LOOK_BEHIND: usize = 32;
/// An access continues another one within this distance, in sectors: 1 MiB, so that files of one directory are one stream.
const NEAR: u64 = 1 << 11;
/// It is also this many times nearer to one of the preceding accesses than to those half a window away: a stream moves on, while random accesses in a
/// small file are near to all. Of random accesses, one in `1 + NEARER` is so by chance.
const NEARER: u64 = 4;
/// A service time per change of position from which on positioning counts, in seconds. Disks take 3 to 15 ms, solid-state drives 0.1 ms.
const SLOW: f64 = 1e-3;
/// Changes between streams per second from which on several streams are active.
const SEVERAL: f64 = 2.0;
/// Reads in a row that each begin at the end of the one before are of a sequential reader from this number on. Fewer may be one record of a database.
const LONG: i32 = 8;
/// The expected number of random sequences of that length, above which a sequence may be random: reads of a small file continue each other by chance.
const BY_CHANCE: f64 = 1e-3;

/// Classes of loads with different gains of schedulers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadClass {
    /// Seeks cost the device no time.
    Fast,
    /// Several readers, each sequential or nearly so.
    Streams,
    /// The same with writes.
    StreamsWithWrites,
    /// One sequential reader.
    OneStream,
    /// Random requests, and a sequential reader with a small share of them.
    StreamAmongRandom,
    /// Reads at random positions.
    RandomReads,
    /// Random reads with writes.
    RandomMix,
    /// Almost only writes.
    Writes,
}

impl LoadClass {
    /// The class of a window in which the device was busy for this share of the time.
    pub fn of(window: &Window, busy: f64) -> Self {
        let (mut reads, mut all, mut local, mut changes) = (0.0, 0.0, 0.0, 0.0);
        let placed: Vec<&Access> = window.placed().collect();
        let ends: Vec<u64> =
            placed.iter().map(|access| access.position.0 + u64::from(access.size.0)).collect();
        for (n, access) in placed.iter().enumerate() {
            let start = access.position.0;
            let is_read = access.op == Op::Read;
            all += 1.0;
            reads += f64::from(u8::from(is_read));
            let continues_last = n > 0 && ends[n - 1].abs_diff(start) <= NEAR;
            local += f64::from(u8::from(is_read && continues(&ends, n, start)));
            changes += f64::from(u8::from(!continues_last));
        }
        let seconds = window.length.as_secs_f64();
        if busy * seconds / f64::max(changes, 1.0) < SLOW {
            return Self::Fast;
        }
        let (share, local) = (reads / f64::max(all, 1.0), local / f64::max(reads, 1.0));
        match (share >= 0.1, share >= 0.9, local >= 0.4) {
            (false, ..) => Self::Writes,
            (true, true, true) if changes / seconds < SEVERAL => Self::OneStream,
            (true, true, true) => Self::Streams,
            (true, false, true) => Self::StreamsWithWrites,
            (true, _, false) if has_stream(&placed) => Self::StreamAmongRandom,
            (true, true, false) => Self::RandomReads,
            (true, false, false) => Self::RandomMix,
        }
    }

    /// Whether random requests have a sequential reader among them, whichever share of them it has; `None` for requests that are not random.
    pub(crate) fn stream_among_random(window: &Window) -> Option<bool> {
        match Self::of(window, f64::INFINITY) {
            Self::StreamAmongRandom => Some(true),
            Self::RandomReads | Self::RandomMix => Some(false),
            _ => None,
        }
    }

    /// The class in words.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Fast => "a device without positioning costs",
            Self::Streams => "several sequential readers",
            Self::StreamsWithWrites => "sequential readers with writes",
            Self::OneStream => "one sequential reader",
            Self::StreamAmongRandom => "a sequential reader among random requests",
            Self::RandomReads => "random reads",
            Self::RandomMix => "random reads with writes",
            Self::Writes => "writes",
        }
    }
}

/// The share of a window's accesses that begin farther than 1 MiB from the end of the one before, 0 to 1.
pub fn change_share(window: &Window) -> f64 {
    let placed: Vec<&Access> = window.placed().collect();
    let is_change = |two: &&[&Access]| {
        let end = two[0].position.0 + u64::from(two[0].size.0);
        end.abs_diff(two[1].position.0) > NEAR
    };
    placed.windows(2).filter(is_change).count() as f64 / placed.len().max(1) as f64
}

/// Whether the access `n`, which begins at `start`, continues one of the preceding accesses, by the ends of all.
fn continues(ends: &[u64], n: usize, start: u64) -> bool {
    let nearest = |ends: &mut dyn Iterator<Item = &u64>| ends.map(|end| end.abs_diff(start)).min();
    let preceding = &ends[n.saturating_sub(LOOK_BEHIND)..n];
    let Some(near) = nearest(&mut preceding.iter()).filter(|near| *near <= NEAR) else { return false };
    // As many, half of the window before or after; fewer in a short window, so that they are not the preceding ones.
    let (half, some) = (ends.len() / 2, LOOK_BEHIND.min(ends.len() / 3));
    let mut others = (n + half - some / 2..).take(some).map(|other| &ends[other % ends.len()]);
    nearest(&mut others).is_none_or(|other| near.saturating_mul(NEARER) <= other)
}

/// Whether some of the reads continue each other so often that a process reads in sequence, at any distance from each other in the window.
fn has_stream(placed: &[&Access]) -> bool {
    // The number of reads that a read at this position would continue.
    let mut sequences: HashMap<u64, i32> = HashMap::new();
    let (mut reads, mut continued, mut longest) = (0.0, 0.0, 0);
    for access in placed.iter().filter(|access| access.op == Op::Read) {
        let start = access.position.0;
        let before = sequences.remove(&start).unwrap_or(0);
        reads += 1.0;
        continued += f64::from(u8::from(before > 0));
        longest = longest.max(before);
        sequences.insert(start + u64::from(access.size.0), before + 1);
    }
    let by_chance = reads * f64::powi(continued / f64::max(reads, 1.0), longest);
    longest >= LONG && by_chance <= BY_CHANCE
}

/// The properties of schedulers on which the gain depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    /// First come, first served.
    None,
    /// Sorts, and limits the wait of each request.
    Deadline,
    /// Limits the number of requests in flight by latency.
    Kyber,
    /// Waits for the next request of the process or stream that was served.
    Waits,
    /// The same where the device rewards it: `dwell`.
    WaitsIfRewarded,
    /// The same as `Waits` unless it classifies the processes as a burst of one application: `bfq` with `low_latency`, which then merges their
    /// queues and stops waiting.
    WaitsUnlessBurst,
    /// Sorts by position only.
    Sorts,
    Unknown,
}

impl Family {
    /// By a name such as `bfq`, `deadline-2.6.32`, `stream(deadline)`, `bfq{slice_idle=0}`, or of the kernel module, `dwell-as`.
    fn of(name: &str) -> Self {
        let plain = name.strip_prefix("dwell-").unwrap_or(name);
        match plain.split(['{', '(', '-']).next().unwrap_or(plain) {
            "none" | "noop" => Self::None,
            "mq" | "deadline" => Self::Deadline,
            "kyber" => Self::Kyber,
            "bfq" if !name.contains("low_latency=0") => Self::WaitsUnlessBurst,
            "bfq" | "cfq" | "anticipatory" | "anticipat" | "as" | "cooperative" | "stream" | "array" => {
                Self::Waits
            }
            "dwell" => Self::WaitsIfRewarded,
            "elevator" | "look" | "c" | "sstf" | "sptf" => Self::Sorts,
            _ => Self::Unknown,
        }
    }
}

/// Whether a scheduler needs more than one window until its effect shows: one that waits first learns how long its processes think.
pub fn warms_up(name: &str) -> bool {
    matches!(Family::of(name), Family::Waits | Family::WaitsIfRewarded | Family::WaitsUnlessBurst)
}

/// The expected gain over `none`, as a part of `none`'s value.
pub fn gain(name: &str, class: LoadClass, metric: Metric) -> f64 {
    let family = Family::of(name);
    if !metric.is_rate() {
        return in_latency(class, family);
    }
    match (class, family) {
        (_, Family::None) => 0.0,
        (LoadClass::Fast, Family::Waits | Family::WaitsUnlessBurst) => -0.25,
        (LoadClass::Fast, _) => -0.03,
        (LoadClass::Streams, Family::Waits | Family::WaitsIfRewarded) => 2.0,
        (
            LoadClass::StreamsWithWrites | LoadClass::StreamAmongRandom,
            Family::Waits | Family::WaitsIfRewarded,
        ) => 1.0,
        (
            LoadClass::Streams | LoadClass::StreamsWithWrites | LoadClass::StreamAmongRandom,
            Family::WaitsUnlessBurst,
        ) => 0.4,
        (LoadClass::RandomReads | LoadClass::RandomMix, Family::Waits | Family::WaitsUnlessBurst) => -0.1,
        (LoadClass::Writes, Family::Waits | Family::WaitsUnlessBurst) => 0.0,
        (LoadClass::OneStream, _) => 0.0,
        (LoadClass::StreamsWithWrites, Family::Deadline) => 0.2,
        (LoadClass::Writes | LoadClass::RandomMix, Family::Deadline | Family::WaitsIfRewarded) => 0.1,
        (_, Family::Deadline | Family::WaitsIfRewarded | Family::Sorts) => 0.05,
        (_, Family::Kyber | Family::Unknown) => 0.01,
    }
}

/// The same for latencies and fairness: what delays one request for another helps, even without positioning costs.
const fn in_latency(class: LoadClass, family: Family) -> f64 {
    match (class, family) {
        (_, Family::None) => 0.0,
        (
            LoadClass::Streams | LoadClass::StreamsWithWrites,
            Family::Waits | Family::WaitsIfRewarded | Family::WaitsUnlessBurst,
        ) => 0.6,
        (LoadClass::RandomMix | LoadClass::StreamsWithWrites, Family::Deadline | Family::WaitsIfRewarded) => {
            0.4
        }
        (LoadClass::RandomMix, Family::Waits | Family::WaitsUnlessBurst) => 0.3,
        (LoadClass::RandomMix | LoadClass::StreamsWithWrites, Family::Kyber) => 0.2,
        (_, Family::Kyber) => 0.05,
        (_, Family::Deadline | Family::WaitsIfRewarded) => 0.02,
        (_, Family::Waits | Family::WaitsUnlessBurst) => -0.1,
        (_, Family::Sorts | Family::Unknown) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevator::Random;
    use elevator::{Sector, Sectors, Span, Time};
    use observation::{LatencyClass, LatencyStatistic};

    fn class(accesses: impl Iterator<Item = (Op, u64)>, busy: f64) -> LoadClass {
        let access =
            |(op, position)| Access { time: Time::ZERO, position: Sector(position), op, size: Sectors(8) };
        let accesses = accesses.map(access).collect();
        LoadClass::of(&Window { start: Time::ZERO, length: Span::from_secs(5), accesses }, busy)
    }

    #[test]
    fn loads_are_classified_by_reads_writes_and_order() {
        let (mut random, far) = (Random::new(1), 1 << 30);
        let mut at_random = |_| (Op::Read, random.below(far));
        let reader = |n: u64| (Op::Read, (n % 4) * far + n / 4 * 8);
        assert_eq!(class((0..500).map(reader), 1.0), LoadClass::Streams);
        assert_eq!(class((0..50_000).map(|n| (Op::Read, n * 8)), 1.0), LoadClass::OneStream);
        assert_eq!(class((0..500).map(&mut at_random), 1.0), LoadClass::RandomReads);
        assert_eq!(class((0..50_000).map(&mut at_random), 1.0), LoadClass::Fast);
        let beside = |n: u64| if n.is_multiple_of(2) { reader(n / 2) } else { (Op::Write, n * 4_000_000) };
        assert_eq!(class((0..500).map(beside), 1.0), LoadClass::StreamsWithWrites);
        assert_eq!(class((0..500).map(|n| (Op::Write, n * 4_000_000)), 1.0), LoadClass::Writes);
    }

    /// Of 40 MB, the 32 preceding accesses are within 1 MiB of most positions.
    #[test]
    fn random_reads_in_a_small_file_are_no_streams() {
        const FILE: u64 = 40_000_000 / 512;
        for seed in 1..=20 {
            let mut random = Random::new(seed);
            for n in [60, 500, 5_000] {
                let mut at_random = |_| (Op::Read, random.below(FILE));
                assert_eq!(
                    class((0..n).map(&mut at_random), 1.0),
                    LoadClass::RandomReads,
                    "{n} of seed {seed}"
                );
                let in_four = |n: u64| (Op::Read, (n % 4) * (1 << 28) + random.below(FILE));
                assert_eq!(class((0..n).map(in_four), 1.0), LoadClass::RandomReads, "{n} in four files");
            }
            // Two readers of the files of a directory, with gaps, and four slow readers.
            let mut at = [0, 1 << 28];
            let in_files = |n: u64| {
                let at = &mut at[n as usize % 2];
                *at += 8 + random.below(400);
                (Op::Read, *at)
            };
            assert_eq!(class((0..500).map(in_files), 1.0), LoadClass::Streams, "files, seed {seed}");
        }
        let slowly = |n: u64| (Op::Read, n % 4 * (FILE / 4) + n / 4 * 8);
        for n in [40, 80, 500] {
            assert_eq!(class((0..n).map(slowly), 1.0), LoadClass::Streams, "{n} of four readers in one file");
        }
    }

    /// Regression: `none` leaves a sequential reader one request in twenty beside random reads, and the class was that of the other nineteen, so that
    /// the best scheduler was tried last.
    #[test]
    fn a_sequential_reader_counts_however_few_requests_it_has() {
        let (mut random, far) = (Random::new(1), 1 << 30);
        let mut beside = |every: u64, op: fn(u64) -> Op| {
            class(
                (0..500).map(|n| match n % every {
                    0 => (Op::Read, far + n / every * 8),
                    _ => (op(n), random.below(far)),
                }),
                1.0,
            )
        };
        for every in [3, 5, 20, 50] {
            assert_eq!(beside(every, |_| Op::Read), LoadClass::StreamAmongRandom, "one in {every}");
        }
        assert_eq!(beside(100, |_| Op::Read), LoadClass::RandomReads, "a record of five reads");
        let some = |n: u64| if n.is_multiple_of(3) { Op::Write } else { Op::Read };
        assert_eq!(beside(20, some), LoadClass::StreamAmongRandom);
        assert_eq!(beside(20, |_| Op::Write), LoadClass::Writes);
        // In 8 MB, a third of the random reads continue an earlier one.
        for seed in 1..=200 {
            let mut random = Random::new(seed);
            let small = |_| (Op::Read, random.below(2_000) * 8);
            assert_eq!(class((0..2_000).map(small), 1.0), LoadClass::RandomReads, "seed {seed}");
        }
    }

    #[test]
    fn schedulers_that_wait_come_first_for_readers_and_last_for_fast_devices() {
        let best = |class, metric| {
            let names = ["mq-deadline", "kyber", "bfq", "bfq{low_latency=0}", "none"];
            names.into_iter().max_by(|a, b| gain(a, class, metric).total_cmp(&gain(b, class, metric)))
        };
        assert_eq!(best(LoadClass::Streams, Metric::Bandwidth), Some("bfq{low_latency=0}"));
        assert_eq!(best(LoadClass::RandomMix, Metric::Iops), Some("mq-deadline"));
        assert_eq!(best(LoadClass::Fast, Metric::Bandwidth), Some("none"));
        let names = "bfq{low_latency=0} stream(deadline) cfq-2.6.32 anticipatory-2.6.32 cooperative dwell array-stream(deadline) \
                     dwell-stream dwell-as dwell-anticipat dwell-cooperative dwell-cfq";
        for name in names.split(' ') {
            assert!(warms_up(name) && gain(name, LoadClass::Streams, Metric::Bandwidth) > 1.0, "{name}");
        }
    }

    #[test]
    fn each_family_has_its_expected_gain() {
        let latency = Metric::Latency(LatencyStatistic::P99, LatencyClass::Reads);
        for (name, class, metric, expected) in [
            ("none", LoadClass::Streams, Metric::Bandwidth, 0.0),
            ("mq-deadline", LoadClass::StreamsWithWrites, Metric::Bandwidth, 0.2),
            ("deadline-2.6.32", LoadClass::Writes, Metric::Iops, 0.1),
            ("kyber", LoadClass::RandomMix, Metric::Bandwidth, 0.01),
            ("kyber", LoadClass::RandomMix, latency, 0.2),
            ("kyber", LoadClass::RandomReads, latency, 0.05),
            ("sptf", LoadClass::RandomReads, Metric::Bandwidth, 0.05),
            ("sptf", LoadClass::RandomReads, latency, 0.0),
            ("unheard-of", LoadClass::RandomReads, latency, 0.0),
            ("bfq", LoadClass::Streams, Metric::Bandwidth, 0.4),
            ("bfq", LoadClass::Streams, latency, 0.6),
            ("bfq{low_latency=0}", LoadClass::StreamAmongRandom, Metric::Bandwidth, 1.0),
            ("bfq", LoadClass::StreamAmongRandom, Metric::Iops, 0.4),
            ("mq-deadline", LoadClass::StreamAmongRandom, Metric::Bandwidth, 0.05),
            ("bfq", LoadClass::StreamAmongRandom, latency, -0.1),
            ("bfq{low_latency=0}", LoadClass::StreamsWithWrites, Metric::Bandwidth, 1.0),
            ("cfq", LoadClass::RandomReads, Metric::Bandwidth, -0.1),
            ("cfq", LoadClass::Fast, Metric::Bandwidth, -0.25),
            ("mq-deadline", LoadClass::Fast, Metric::Bandwidth, -0.03),
        ] {
            assert_eq!(gain(name, class, metric), expected, "{name}, {class:?}, {metric:?}");
        }
    }

    #[test]
    fn positioning_counts_from_a_millisecond_per_change() {
        let far = |n: u64| (Op::Read, n * 99_999_999 % (1 << 30));
        assert_eq!(class((0..5_000).map(far), 1.0), LoadClass::RandomReads);
        assert_eq!(class((0..5_001).map(far), 1.0), LoadClass::Fast);
        assert_eq!(
            class((0..2_501).map(far), 0.5),
            LoadClass::Fast,
            "half of the time for half of the changes"
        );
    }

    #[test]
    fn shares_decide_between_reads_mixes_and_writes() {
        let of = |reads: u64| {
            let access = |n: u64| (if n < reads { Op::Read } else { Op::Write }, n * 99_999_999 % (1 << 30));
            class((0..100).map(access), 1.0)
        };
        assert_eq!(
            [9, 10, 89, 90].map(of),
            [LoadClass::Writes, LoadClass::RandomMix, LoadClass::RandomMix, LoadClass::RandomReads]
        );
        // Two of five reads continue another one.
        let pair =
            |local: u64| move |n: u64| (Op::Read, if n % 100 < local { n * 8 } else { (n + 1) * 10_000_000 });
        let streams = |local| class((0..500).map(pair(local)), 1.0);
        assert_ne!(streams(30), streams(60));
    }
}
