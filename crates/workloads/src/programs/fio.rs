//! A job of a fio job file, through the page cache or past it.
//!
//! Calls are synchronous: an asynchronous engine's buffered I/O is so in Linux as well, and a direct one's depth is the
//! level of requests' business.

use elevator::model::Random;
use elevator::{Span, Time};
use machine::kernel::{Descriptor, Open, Path};

use super::os::Os;
use crate::fio::{Job, Pattern};

/// A job with the file that it works on.
#[derive(Clone, Debug)]
pub struct FioJob {
    /// What it does.
    pub job: Job,
    /// Its file.
    pub file: String,
    /// Its number among all jobs, which its random offsets depend on.
    pub number: u64,
}

impl FioJob {
    /// Runs it.
    pub async fn run(&self, os: &Os) {
        let job = &self.job;
        let how = Open { create: job.reads_percent < 100, direct: job.direct, ..Open::default() };
        let file = os.open(&Path::from(self.file.as_str()), how).await;
        let mut random = Random::new(job.seed ^ self.number.rotate_left(32));
        let (started, block) = (os.now(), job.block.bytes());
        let blocks = (job.region_bytes / block).max(1);
        let (mut issued, mut writes) = (0u64, 0u64);
        while !self.is_over(os.now(), started, issued) {
            let drawn = match job.pattern {
                Pattern::Random => Some(random.below(blocks)),
                Pattern::Sequential => None,
            };
            let reads = random.below(100) < job.reads_percent;
            // fio keeps a place for sequential reads and one for sequential writes.
            let passed = if reads { issued - writes } else { writes };
            let at = job.file_offset + drawn.unwrap_or(passed % blocks) * block;
            issued += 1;
            if reads {
                os.read_at(file, at, block).await;
            } else {
                os.write_at(file, at, block).await;
                writes += 1;
                self.sync(os, file, writes).await;
            }
            self.pause(os, started, issued).await;
        }
        if job.fsync_end && writes > 0 {
            os.fsync(file).await;
        }
        os.close(file).await;
    }

    fn is_over(&self, now: Time, started: Time, issued: u64) -> bool {
        let out_of_time = self.job.runtime.is_some_and(|runtime| now.since(started) >= runtime);
        let out_of_bytes = issued * self.job.block.bytes() >= self.job.io_bytes && !self.job.time_based;
        out_of_time || out_of_bytes
    }

    async fn sync(&self, os: &Os, file: Descriptor, writes: u64) {
        let due = self.job.fsync > 0 && writes.is_multiple_of(self.job.fsync);
        match due {
            true if self.job.fsync_data => os.fdatasync(file).await,
            true => os.fsync(file).await,
            false => {}
        }
    }

    async fn pause(&self, os: &Os, started: Time, issued: u64) {
        let job = &self.job;
        if issued.is_multiple_of(job.think_every.max(1)) {
            os.think(job.think).await;
        }
        if job.pace > Span::ZERO {
            let due = started + job.pace * issued;
            os.think(due.since(os.now())).await;
        }
    }
}
