//! A job of a fio job file, through the page cache or past it.
//!
//! Calls are synchronous: an asynchronous engine's buffered I/O is so in Linux as well, and a direct one's depth is the
//! level of requests' business.

use elevator::Direction;
use machine::kernel::{Descriptor, Open, Path};

use super::os::Os;
use crate::fio::{Job, Sequence};

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
        let mut sequence = Sequence::new(job, self.number);
        let started = os.now();
        loop {
            let (way, at) = sequence.draw();
            os.think((started + at).since(os.now())).await;
            if sequence.is_over(os.now().since(started)) {
                break;
            }
            let at = job.file_offset + sequence.take(way);
            match way {
                Direction::Read => {
                    os.read_at(file, at, job.block.bytes()).await;
                }
                Direction::Write => {
                    os.write_at(file, at, job.block.bytes()).await;
                    self.sync(os, file, sequence.written()).await;
                }
            }
            if let Some(think) = sequence.thinks(os.now().since(started)) {
                os.think(think).await;
            }
        }
        if job.fsync_end && sequence.written() > 0 {
            os.fsync(file).await;
        }
        os.close(file).await;
    }

    async fn sync(&self, os: &Os, file: Descriptor, writes: u64) {
        let due = self.job.fsync > 0 && writes.is_multiple_of(self.job.fsync);
        match due {
            true if self.job.fsync_data => os.fdatasync(file).await,
            true => os.fsync(file).await,
            false => {}
        }
    }
}
