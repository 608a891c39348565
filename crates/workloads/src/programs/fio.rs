//! A job of a fio job file as system calls, through the page cache or with direct I/O.
//!
//! Calls are synchronous. Linux executes the buffered I/O of an asynchronous engine synchronously as well; the queue depth of direct
//! I/O is modelled at the level of requests only.

use elevator::Direction;
use machine::kernel::{Open, Path};

use super::os::Os;
use crate::fio::{Access, Job, Sequence, Sync};

/// A job with the file that it works on.
#[derive(Clone, Debug)]
pub struct FioJob {
    /// The job.
    pub job: Job,
    /// Its file.
    pub file: String,
    /// Its number among all jobs, which selects its random numbers.
    pub number: u64,
}

impl FioJob {
    /// Runs it.
    pub async fn run(&self, os: &Os) {
        let job = &self.job;
        let how =
            Open { create: job.reads_percent < 100, direct: job.direct, sync: job.sync, ..Open::default() };
        let file = os.open(&Path::from(self.file.as_str()), how).await;
        let mut sequence = Sequence::new(job, self.number);
        let started = os.now();
        loop {
            let (way, at) = sequence.draw(os.now().since(started));
            os.think((started + at).since(os.now())).await;
            if sequence.is_over(os.now().since(started)) {
                break;
            }
            let Access { at, bytes } = sequence.take(way);
            let at = job.file_offset + at;
            match way {
                Direction::Read => _ = os.read_at(file, at, bytes).await,
                Direction::Write => os.write_at(file, at, bytes).await,
            }
            match sequence.sync_due() {
                Some(Sync::All) => os.fsync(file).await,
                Some(Sync::Data) => os.fdatasync(file).await,
                None => {}
            }
            let passed = os.now().since(started);
            if sequence.think_due(passed) {
                os.think(sequence.think(passed)).await;
            }
        }
        if job.fsync_end && sequence.written() > 0 {
            os.fsync(file).await;
        }
        os.close(file).await;
    }
}
