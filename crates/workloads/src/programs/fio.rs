//! A job of a fio job file as system calls, through the page cache or with direct I/O.
//!
//! Calls are synchronous. Linux executes the buffered I/O of an asynchronous engine synchronously as well; the queue depth of direct
//! I/O is modelled at the level of requests only.

use elevator::{Direction, Span, Time};
use machine::kernel::{Descriptor, Open, Path};

use super::os::Os;
use crate::fio::{Access, Job, NAP, Sequence, Sync};

/// A job with the files that it works on.
#[derive(Clone, Debug)]
pub struct FioJob {
    pub job: Job,
    /// Its files, one for each region.
    pub files: Vec<String>,
    /// Its number among all jobs, which selects its random numbers.
    pub number: u64,
    /// The number of its group between two `stonewall`.
    pub stage: usize,
}

impl FioJob {
    pub async fn run(&self, os: &Os) {
        let job = &self.job;
        let began = os.session().fio().began(os.now());
        self.sleep(os, (began + job.start_delay).since(os.now())).await;
        let mut files: Vec<Option<Descriptor>> = vec![None; self.files.len()];
        self.open(os, &mut files, 0).await;
        let mut sequence = Sequence::new(job, self.number);
        let started = os.now();
        loop {
            let (way, at) = sequence.draw(os.now().since(started));
            self.sleep(os, (started + at).since(os.now())).await;
            if self.must_end(os) || sequence.is_over(os.now().since(started)) {
                break;
            }
            let Access { file: number, at, bytes, .. } = sequence.take(way);
            let file = self.open(os, &mut files, number).await;
            let at = job.regions[number].file_offset + at;
            match way {
                Direction::Read => _ = os.read_at(file, at, bytes).await,
                Direction::Write => os.write_at(file, at, bytes).await,
            }
            if let Some(sync) = sequence.sync_due() {
                let file = self.open(os, &mut files, sequence.sync_file()).await;
                match sync {
                    Sync::All => os.fsync(file).await,
                    Sync::Data => os.fdatasync(file).await,
                }
            }
            let passed = os.now().since(started);
            if sequence.think_due(passed) {
                self.sleep(os, sequence.think(passed)).await;
            }
        }
        for file in files.into_iter().flatten() {
            if job.fsync_end && sequence.written() > 0 {
                os.fsync(file).await;
            }
            os.close(file).await;
        }
        os.session().fio().ended(job, self.stage);
    }

    /// One of its files, which is opened when it is first used.
    async fn open(&self, os: &Os, files: &mut [Option<Descriptor>], number: usize) -> Descriptor {
        if let Some(file) = files[number] {
            return file;
        }
        let job = &self.job;
        let how =
            Open { create: job.reads_percent < 100, direct: job.direct, sync: job.sync, ..Open::default() };
        let file = os.open(&Path::from(self.files[number].as_str()), how).await;
        files[number] = Some(file);
        file
    }

    fn must_end(&self, os: &Os) -> bool {
        os.session().fio().must_end(&self.job, self.stage)
    }

    /// Sleeps, in naps if the job may have to end meanwhile.
    async fn sleep(&self, os: &Os, span: Span) {
        if self.job.ends.is_none() {
            return os.think(span).await;
        }
        let until: Time = os.now() + span;
        while os.now() < until && !self.must_end(os) {
            os.think(until.since(os.now()).min(NAP)).await;
        }
    }
}
