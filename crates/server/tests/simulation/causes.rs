//! The faults of a disk that explain why a request failed. An error without a cause is a violation.

use std::ops::Range;

use elevator::{Op, Time};
use rustix::io::Errno;
use server::backend::Job;

/// A job of several pieces that failed under a tag. The server repeats its pieces one by one, and their times count as one.
#[derive(Clone)]
struct Repeated {
    op: Op,
    sectors: Range<u64>,
    begun: Time,
}

/// The latest fault of each kind that can fail a request.
pub struct Causes {
    /// When a job with the sector failed, for lack of space and otherwise.
    jobs: Vec<[Option<Time>; 2]>,
    flush: Option<Time>,
    /// When a job was returned after the request timeout.
    overdue: Option<Time>,
    /// By tag.
    repeated: Vec<Option<Repeated>>,
}

fn sectors(job: &Job) -> Range<u64> {
    job.start.0..job.start.0 + u64::from(job.sectors.0)
}

impl Causes {
    pub fn new(sectors: usize) -> Self {
        Self { jobs: vec![[None; 2]; sectors], flush: None, overdue: None, repeated: Vec::new() }
    }

    /// When the server started the job, or the job whose piece this one repeats.
    pub fn begun(&mut self, now: Time, job: &Job) -> Time {
        let Some(repeated) = self.repeated.get_mut(job.tag.0 as usize) else { return now };
        let own = sectors(job);
        let fits = |whole: &mut Repeated| {
            whole.op == job.op && whole.sectors.start <= own.start && own.end <= whole.sectors.end
        };
        match repeated.take_if(|whole| !fits(whole)) {
            None => repeated.as_ref().map_or(now, |whole| whole.begun),
            Some(_) => now,
        }
    }

    /// The sectors of a job that has begun, or of the job whose piece it repeats.
    pub fn whole(&self, job: &Job) -> Range<u64> {
        let repeated = self.repeated.get(job.tag.0 as usize).and_then(Option::as_ref);
        repeated.map_or_else(|| sectors(job), |whole| whole.sectors.clone())
    }

    /// A job failed.
    pub fn failed(&mut self, now: Time, begun: Time, job: &Job, error: Errno) {
        if job.op == Op::Flush {
            self.flush = Some(now);
            return;
        }
        let own = sectors(job);
        if job.pieces.len() > 1 {
            let tag = job.tag.0 as usize;
            self.repeated.resize(self.repeated.len().max(tag + 1), None);
            self.repeated[tag] = Some(Repeated { op: job.op, sectors: own.clone(), begun });
            // The server repeats the pieces of reads and writes. Only the failure of a piece explains that of a request.
            if matches!(job.op, Op::Read | Op::Write) {
                return;
            }
        }
        for causes in &mut self.jobs[own.start as usize..own.end as usize] {
            causes[usize::from(error == Errno::NOSPC)] = Some(now);
        }
    }

    /// A job was returned after the request timeout.
    pub const fn was_overdue(&mut self, now: Time) {
        self.overdue = Some(now);
    }

    /// Whether a job was returned after the request timeout since then.
    pub fn overdue_since(&self, since: Time) -> bool {
        self.overdue >= Some(since)
    }

    /// Whether a flush failed since then.
    pub fn flush_failed_since(&self, since: Time) -> bool {
        self.flush >= Some(since)
    }

    /// Whether a job with one of the sectors failed since then. `full`: for lack of space.
    pub fn job_failed_since(&self, first: u32, sectors: u32, full: bool, since: Time) -> bool {
        let own = &self.jobs[first as usize..(first + sectors) as usize];
        own.iter().any(|causes| causes[usize::from(full)] >= Some(since))
    }
}
