//! What a device is asked while nobody looks: the kernel's own counters, which it keeps anyway.
//!
//! # Idea
//! Where a choice does not matter the tuner rests, and a tuner at rest must cost nothing: the capture is let go of. Whether the
//! device is still asked for what the answer was found for, `/sys/block/NAME/stat` says, once a window: how large requests are, how
//! many of them read, how many are under way at a time and how long each takes. A window that is like none of those at which nothing
//! was found, several times in a row, is a reason to ask again.
//!
//! # What counts as another
//! Requests of half or twice the size; a quarter more or fewer of them reads; three times as many under way, or three times as slow.
//! Being asked for less is no reason: a device is asked for less most of the time. Fewer under way, or faster, is therefore like.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use elevator::Op;
use tuner::Window;

use crate::error::Error;

/// Requests of so many times the size, or of that part of it, are others.
const SIZE: f64 = 2.0;
/// A share of reads that differs by so much is another.
const SHARE: f64 = 0.25;
/// So many times as many under way, or as slow, is another load. Two would come of a busy processor.
const MORE: f64 = 3.0;
/// Seconds; what is faster is as good as this.
const FAST: f64 = 1e-4;
/// Windows in a row that are like nothing known before it is a reason.
const IN_A_ROW: u32 = 3;
/// Loads that are remembered; beyond them the oldest goes.
const KEPT: usize = 16;
/// How often somebody is asked whether to go on.
const STEP: Duration = Duration::from_millis(250);

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

/// The loads for which no choice mattered.
#[derive(Clone, Default, Debug)]
pub(crate) struct Known {
    loads: Vec<Load>,
    /// What the question is asked for again.
    asked_for: Option<Load>,
    /// The next one is what the answer was found for.
    settling: bool,
    strange: u32,
}

impl Known {
    /// Nothing matters for what it was asked for, nor for what comes next.
    pub(crate) fn answered(&mut self) {
        (self.settling, self.strange) = (true, 0);
        if let Some(load) = self.asked_for.take() {
            self.keep(load);
        }
    }

    /// It does matter.
    pub(crate) const fn refuted(&mut self) {
        self.asked_for = None;
    }

    /// A window at rest: why to ask again, if there is a reason.
    pub(crate) fn watch(&mut self, load: &Load) -> Option<String> {
        let others: Option<Vec<String>> = self.loads.iter().map(|known| load.differs_from(known)).collect();
        let Some(mut others) = others else {
            (self.settling, self.strange) = (false, 0);
            return None;
        };
        if std::mem::take(&mut self.settling) {
            self.keep(*load);
            return None;
        }
        self.strange += 1;
        let again = self.strange >= IN_A_ROW;
        self.asked_for = again.then_some(*load);
        // The latest one known is what it was asked for before.
        others.pop().filter(|_| again)
    }

    fn keep(&mut self, load: Load) {
        if self.loads.len() == KEPT {
            self.loads.remove(0);
        }
        self.loads.push(load);
    }
}

/// The kernel's counters of one device.
pub struct Counters {
    file: PathBuf,
    name: String,
    latest: Option<(Instant, Counted)>,
}

/// Requests, sectors and milliseconds so far, of reads and of writes.
#[derive(Clone, Copy, Default, Debug)]
struct Counted {
    reads: u64,
    requests: u64,
    sectors: u64,
    ms: u64,
}

impl Counters {
    /// Of a device by its name in a tree like `/sys/block`; `None` if its queue does not count.
    #[must_use]
    pub fn within(block: &Path, name: &str) -> Option<Self> {
        let device = block.join(name);
        let counts = fs::read_to_string(device.join("queue/iostats")).is_ok_and(|text| text.trim() != "0");
        let file = device.join("stat");
        (counts && file.exists()).then(|| Self { file, name: name.to_owned(), latest: None })
    }

    /// Forgets where it was: what comes before the next window is nobody's.
    pub fn let_go(&mut self) {
        self.latest = None;
    }

    /// What was asked since the last time; of the first time, nothing.
    ///
    /// # Errors
    /// The device is gone, or its counters cannot be read.
    pub fn since(&mut self, now: Instant) -> Result<Load, Error> {
        let counted = self.read()?;
        let (then, before) = self.latest.replace((now, counted)).unwrap_or((now, counted));
        Ok(counted.since(&before, now.duration_since(then).as_secs_f64()))
    }

    /// Waits for a window and says what was asked in it; `None` if `going_on`, which is asked about four times a second, says no.
    ///
    /// # Errors
    /// As [`since`](Self::since).
    pub fn window(
        &mut self,
        length: Duration,
        going_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Load>, Error> {
        if self.latest.is_none() {
            self.since(Instant::now())?;
        }
        let end = Instant::now() + length;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if !going_on() {
                return Ok(None);
            }
            std::thread::sleep(left.min(STEP));
        }
        self.since(Instant::now()).map(Some)
    }

    fn read(&self) -> Result<Counted, Error> {
        // A loop device stays when its file is taken off, without a sector.
        if fs::read_to_string(self.file.with_file_name("size")).is_ok_and(|sectors| sectors.trim() == "0") {
            return Err(Error::Gone(self.name.clone()));
        }
        let text = fs::read_to_string(&self.file).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::Gone(self.name.clone()),
            _ => Error::file(&self.file, source),
        })?;
        // Documentation/block/stat.rst: requests, merged, sectors, ms; of reads, then of writes.
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let &[reads, _, sectors_read, ms_read, writes, _, sectors_written, ms_written, ..] = &fields[..]
        else {
            let problem =
                std::io::Error::new(std::io::ErrorKind::InvalidData, "no counters of a block device");
            return Err(Error::file(&self.file, problem));
        };
        Ok(Counted {
            reads,
            requests: reads + writes,
            sectors: sectors_read + sectors_written,
            ms: ms_read + ms_written,
        })
    }
}

impl Counted {
    fn since(&self, before: &Self, seconds: f64) -> Load {
        let more = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before)) as f64;
        let (requests, bytes) = (more(|c| c.requests), more(|c| c.sectors) * 512.0);
        let waited = more(|c| c.ms) / 1e3;
        if requests == 0.0 || seconds <= 0.0 {
            return Load::default();
        }
        Load {
            iops: requests / seconds,
            bandwidth: bytes / seconds,
            size: bytes / requests,
            reads: more(|c| c.reads) / requests,
            under_way: waited / seconds,
            latency: waited / requests,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

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

    #[test]
    fn it_takes_three_in_a_row_and_what_was_asked_about_is_known() {
        let large = Load { size: 131_072.0, ..SMALL };
        let mut known = Known::default();
        known.answered();
        let watched = [SMALL, large, large, SMALL, large, large].map(|load| known.watch(&load));
        assert!(watched.iter().all(Option::is_none));
        assert!(known.watch(&large).is_some(), "the third in a row");
        known.answered();
        for load in [large, SMALL, SMALL, SMALL, large, large, large] {
            assert_eq!(known.watch(&load), None, "both were asked about");
        }
    }

    #[test]
    fn the_kernels_counters_are_read_and_a_device_that_vanished_is_gone() {
        let tree = Tree::new("counters");
        tree.queue("sda");
        assert!(Counters::within(&tree.block(), "sda").is_none(), "this one does not count");
        tree.count("sda", [0; 8]);
        let mut counters = Counters::within(&tree.block(), "sda").unwrap();
        let start = Instant::now();
        assert_eq!(counters.since(start).unwrap(), Load::default());
        tree.count("sda", [300, 9, 2400, 600, 100, 9, 800, 400]);
        let load = counters.since(start + Duration::from_secs(2)).unwrap();
        let expected = Load {
            iops: 200.0,
            bandwidth: 819_200.0,
            size: 4096.0,
            reads: 0.75,
            under_way: 0.5,
            latency: 2.5e-3,
        };
        assert_eq!(load, expected);
        assert_eq!(counters.window(Duration::from_millis(1), &mut || true).unwrap(), Some(Load::default()));
        assert_eq!(counters.window(Duration::from_secs(60), &mut || false).unwrap(), None);
        let size = tree.block().join("sda/size");
        fs::write(&size, "0\n").unwrap();
        assert!(
            matches!(counters.since(Instant::now()), Err(Error::Gone(_))),
            "a loop device without its file"
        );
        fs::remove_file(size).unwrap();
        tree.unplug("sda");
        assert!(matches!(counters.since(Instant::now()), Err(Error::Gone(_))));
    }
}
