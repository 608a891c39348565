//! The kernel's counters of a device, which the tuner reads on standby, and whose rates are those of iostat(1).
//!
//! # Idea
//! `/sys/block/NAME/stat` is read once per window, so that standby needs no capture. A capture has the requests as programs submit them; the counters
//! have those of the device, after merges and splits.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Error;
use tuner::Load;

/// How often `going_on` is called.
const STEP: Duration = Duration::from_millis(250);

/// The counters of one device.
pub struct Counters {
    /// One, or those of the members of an array.
    files: Vec<PathBuf>,
    name: String,
    latest: Option<(Instant, Counted)>,
}

/// Totals of reads and writes: requests, sectors, milliseconds.
#[derive(Clone, Copy, Default, Debug)]
struct Counted {
    reads: u64,
    requests: u64,
    sectors_read: u64,
    sectors: u64,
    ms: u64,
    /// With a request in flight.
    busy_ms: u64,
}

/// The reads and writes of some time.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Traffic {
    pub requests_per_second: f64,
    pub reads_per_second: f64,
    pub bytes_per_second: f64,
    /// Of a request.
    pub mean_bytes: f64,
    /// The share of the bytes, 0 to 1; 1 if there are none.
    pub read_share: f64,
    /// The share of the time with a request in flight, 0 to 1.
    pub busy: f64,
    /// Requests in flight, on average.
    pub in_flight: f64,
}

impl Counters {
    /// The counters of a device in a tree like `/sys/block`; `None` if its queue does not count (`iostats`).
    pub fn within(block: &Path, name: &str) -> Option<Self> {
        Self::of_several(block, &[name])
    }

    /// The sums of several devices, the members of an array; `None` if the queue of one of them does not count.
    pub fn of_several(block: &Path, names: &[&str]) -> Option<Self> {
        let counts = |name: &&str| {
            let device = block.join(name);
            let counts =
                fs::read_to_string(device.join("queue/iostats")).is_ok_and(|text| text.trim() != "0");
            counts && device.join("stat").exists()
        };
        let files = names.iter().map(|name| block.join(name).join("stat")).collect();
        names.iter().all(counts).then(|| Self { files, name: names.join("+"), latest: None })
    }

    /// Forgets the latest reading: the next window starts anew.
    pub fn reset(&mut self) {
        self.latest = None;
    }

    /// The load since the latest reading; empty at the first call.
    ///
    /// # Errors
    /// The device was removed, or its counters cannot be read.
    pub fn since(&mut self, now: Instant) -> Result<Load, Error> {
        let counted = self.read()?;
        let (then, before) = self.latest.replace((now, counted)).unwrap_or((now, counted));
        Ok(counted.since(&before, now.duration_since(then).as_secs_f64()))
    }

    /// The reads and writes since the latest reading; none at the first call.
    ///
    /// # Errors
    /// As [`since`](Self::since).
    pub fn traffic(&mut self, now: Instant) -> Result<Traffic, Error> {
        let counted = self.read()?;
        let (then, before) = self.latest.replace((now, counted)).unwrap_or((now, counted));
        let seconds = now.duration_since(then).as_secs_f64();
        let more = |of: fn(&Counted) -> u64| of(&counted).saturating_sub(of(&before)) as f64;
        let (requests, sectors) = (more(|c| c.requests), more(|c| c.sectors));
        let share = |part: f64, of: f64, none: f64| if of > 0.0 { part / of } else { none };
        Ok(Traffic {
            requests_per_second: share(requests, seconds, 0.0),
            reads_per_second: share(more(|c| c.reads), seconds, 0.0),
            bytes_per_second: share(sectors * 512.0, seconds, 0.0),
            mean_bytes: share(sectors * 512.0, requests, 0.0),
            read_share: share(more(|c| c.sectors_read), sectors, 1.0),
            busy: share(more(|c| c.busy_ms) / 1e3, seconds, 0.0).min(1.0),
            in_flight: share(more(|c| c.ms) / 1e3, seconds, 0.0),
        })
    }

    /// Waits for a window and returns its load; `None` if `going_on`, called about four times a second, returns false.
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
        let mut all = Counted::default();
        for file in &self.files {
            let one = self.read_one(file)?;
            all.reads += one.reads;
            all.requests += one.requests;
            all.sectors_read += one.sectors_read;
            all.sectors += one.sectors;
            all.ms += one.ms;
            all.busy_ms += one.busy_ms;
        }
        // Their mean: when all of them are busy, the array is.
        all.busy_ms /= self.files.len().max(1) as u64;
        Ok(all)
    }

    fn read_one(&self, file: &Path) -> Result<Counted, Error> {
        // A loop device without a file still exists, with size 0.
        if fs::read_to_string(file.with_file_name("size")).is_ok_and(|sectors| sectors.trim() == "0") {
            return Err(Error::Gone(self.name.clone()));
        }
        let text = fs::read_to_string(file).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::Gone(self.name.clone()),
            _ => Error::file(file, source),
        })?;
        // Linux Documentation/block/stat.rst: requests, merged, sectors, ms; for reads, then for writes.
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let &[reads, _, sectors_read, ms_read, writes, _, sectors_written, ms_written, ref rest @ ..] =
            &fields[..]
        else {
            let problem =
                std::io::Error::new(std::io::ErrorKind::InvalidData, "not the counters of a block device");
            return Err(Error::file(file, problem));
        };
        Ok(Counted {
            reads,
            requests: reads + writes,
            sectors_read,
            sectors: sectors_read + sectors_written,
            ms: ms_read + ms_written,
            // In flight, then the time with requests in flight.
            busy_ms: rest.get(1).copied().unwrap_or_default(),
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
            in_flight: waited / seconds,
            latency: waited / requests,
            ..Load::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn counters_of_members_are_added() {
        let tree = Tree::new("counters-members");
        for name in ["loop0", "loop1"] {
            tree.queue(name);
            tree.count(name, [0; 8]);
        }
        let mut counters = Counters::of_several(&tree.block(), &["loop0", "loop1"]).unwrap();
        let start = Instant::now();
        counters.traffic(start).unwrap();
        tree.count_more("loop0", "100 0 800 10 0 0 0 0 0 1000 0");
        tree.count_more("loop1", "100 0 800 10 100 0 800 0 0 2000 0");
        let traffic = counters.traffic(start + Duration::from_secs(2)).unwrap();
        assert_eq!(
            (traffic.requests_per_second, traffic.reads_per_second, traffic.busy),
            (150.0, 100.0, 0.75)
        );
    }

    #[test]
    fn counters_become_loads_and_a_removed_device_is_an_error() {
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
            in_flight: 0.5,
            latency: 2.5e-3,
            ..Load::default()
        };
        assert_eq!(load, expected);
        let before = start + Duration::from_secs(2);
        tree.count_more("sda", "400 9 3200 900 200 9 4800 800 7 1500 99");
        let traffic = counters.traffic(before + Duration::from_secs(2)).unwrap();
        let expected = Traffic {
            requests_per_second: 100.0,
            reads_per_second: 50.0,
            bytes_per_second: 1_228_800.0,
            mean_bytes: 12_288.0,
            read_share: 1.0 / 6.0,
            busy: 0.75,
            in_flight: 0.35,
        };
        assert_eq!(traffic, expected);
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
