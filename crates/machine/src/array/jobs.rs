//! Submissions to the array and their unfinished parts.

use elevator::queue::{Submission, Token};
use elevator::{Outcome, Time};

/// The stage of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The flush before it, or the job itself if it is a flush.
    Flush,
    /// Reads that have to precede it.
    Before,
    /// The access itself.
    Then,
}

/// An unfinished submission to the array.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub(super) submission: Submission,
    pub(super) submitted: Time,
    pub(super) stage: Stage,
    /// Whether this is the first stage, the only one in which the submitter may sleep.
    pub(super) is_first: bool,
    /// Unfinished parts of the stage.
    pub(super) waits_for: u32,
    /// When its first part was dispatched to a drive.
    pub(super) dispatched: Option<Time>,
    /// `Done` unless a part fails.
    pub(super) outcome: Outcome,
    /// Parts whose queues are full.
    asleep: u32,
    /// Whether the coordinator was notified of the job.
    announced: bool,
    in_use: bool,
}

/// An unfinished part.
#[derive(Clone, Copy, Default)]
struct PartOf {
    job: u32,
    asleep: bool,
}

/// All unfinished jobs and parts, by number. Numbers are reused.
#[derive(Default)]
pub(super) struct Jobs {
    jobs: Vec<Job>,
    free_jobs: Vec<u32>,
    parts: Vec<PartOf>,
    free_parts: Vec<u32>,
    /// Parts of other jobs that a job waits for: (part, job).
    awaited: Vec<(u32, u32)>,
}

impl Jobs {
    pub(super) fn begin(&mut self, submission: Submission, now: Time, stage: Stage) -> u32 {
        let job = Job {
            submission,
            submitted: now,
            stage,
            is_first: true,
            waits_for: 0,
            dispatched: None,
            outcome: Outcome::Done,
            asleep: 0,
            announced: false,
            in_use: true,
        };
        if let Some(id) = self.free_jobs.pop() {
            self.jobs[id as usize] = job;
            return id;
        }
        self.jobs.push(job);
        self.jobs.len() as u32 - 1
    }

    pub(super) fn job(&self, id: u32) -> &Job {
        &self.jobs[id as usize]
    }

    pub(super) fn job_mut(&mut self, id: u32) -> &mut Job {
        &mut self.jobs[id as usize]
    }

    pub(super) fn end(&mut self, id: u32) -> Job {
        self.free_jobs.push(id);
        self.jobs[id as usize].in_use = false;
        self.jobs[id as usize]
    }

    /// Whether the coordinator must be notified of the job now, which happens once.
    pub(super) fn announce(&mut self, id: u32) -> bool {
        !std::mem::replace(&mut self.job_mut(id).announced, true)
    }

    pub(super) fn is_announced(&self, id: u32) -> bool {
        self.job(id).announced
    }

    /// Whether the submitter of this token sleeps. A job that ended at once may have a successor with the same number.
    pub(super) fn is_asleep(&self, id: u32, token: Token) -> bool {
        let job = self.job(id);
        job.in_use && job.submission.token == token && job.asleep > 0
    }

    /// Allocates a part of a job.
    pub(super) fn part(&mut self, job: u32) -> u32 {
        let part = PartOf { job, asleep: false };
        if let Some(id) = self.free_parts.pop() {
            self.parts[id as usize] = part;
            return id;
        }
        self.parts.push(part);
        self.parts.len() as u32 - 1
    }

    /// A part's queue is full: the job's submitter sleeps.
    pub(super) fn sleeps(&mut self, part: u32) {
        let part = &mut self.parts[part as usize];
        part.asleep = true;
        self.jobs[part.job as usize].asleep += 1;
    }

    /// A part's queue has room again; returns the token of the job's submitter if it can continue.
    pub(super) fn woken(&mut self, part: u32) -> Option<Token> {
        let part = &mut self.parts[part as usize];
        if !std::mem::take(&mut part.asleep) {
            return None;
        }
        let job = &mut self.jobs[part.job as usize];
        job.asleep -= 1;
        (job.asleep == 0).then_some(job.submission.token)
    }

    /// Makes a job's stage wait for a part of another job.
    pub(super) fn awaits(&mut self, id: u32, part: u32) {
        self.awaited.push((part, id));
    }

    /// Finishes a part. Jobs whose stage ends with it are added to `over`.
    pub(super) fn part_done(&mut self, part: u32, outcome: Outcome, dispatched: Time, over: &mut Vec<u32>) {
        self.free_parts.push(part);
        let owner = self.parts[part as usize].job;
        over.extend(self.has_part(owner, outcome, dispatched).then_some(owner));
        let mut awaited = std::mem::take(&mut self.awaited);
        for (_, id) in awaited.extract_if(.., |(awaited, _)| *awaited == part) {
            over.extend(self.has_part(id, outcome, dispatched).then_some(id));
        }
        self.awaited = awaited;
    }

    /// Counts a finished part for a job; returns whether it was the last of the stage.
    fn has_part(&mut self, id: u32, outcome: Outcome, dispatched: Time) -> bool {
        let job = &mut self.jobs[id as usize];
        job.waits_for -= 1;
        job.dispatched = Some(job.dispatched.map_or(dispatched, |first| first.min(dispatched)));
        if outcome != Outcome::Done {
            job.outcome = outcome;
        }
        job.waits_for == 0
    }
}
