//! What the array was asked for, and the parts of it that are on their way.

use elevator::queue::{Submission, Token};
use elevator::{Outcome, Time};

/// What a job's parts on their way are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The flush that goes before it, or that it is.
    Flush,
    /// What must be read first, if anything must.
    Before,
    /// The rest.
    Then,
}

/// A submission to the array on its way.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub(super) submission: Submission,
    pub(super) submitted: Time,
    pub(super) stage: Stage,
    /// Whether this is its first stage, in which its submitter may have to sleep.
    pub(super) is_first: bool,
    /// Unfinished parts of the stage.
    pub(super) waits_for: u32,
    /// When the first of its parts went to a drive.
    pub(super) dispatched: Option<Time>,
    /// Done, until a part fails.
    pub(super) outcome: Outcome,
    /// Parts whose queues have no room yet.
    asleep: u32,
    /// Whether the coordinator knows of it.
    announced: bool,
    in_use: bool,
}

/// A part on its way.
#[derive(Clone, Copy, Default)]
struct PartOf {
    job: u32,
    asleep: bool,
}

/// Every job and part on its way, by number; numbers are used again.
#[derive(Default)]
pub(super) struct Jobs {
    jobs: Vec<Job>,
    free_jobs: Vec<u32>,
    parts: Vec<PartOf>,
    free_parts: Vec<u32>,
    /// Parts of others that a job waits for as well: (part, job).
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

    /// Whether the coordinator must be told of it now; once.
    pub(super) fn announce(&mut self, id: u32) -> bool {
        !std::mem::replace(&mut self.job_mut(id).announced, true)
    }

    pub(super) fn is_announced(&self, id: u32) -> bool {
        self.job(id).announced
    }

    /// Whether the submitter of this token, which began that job, must sleep. A job that has ended at once may have a
    /// successor under its number.
    pub(super) fn is_asleep(&self, id: u32, token: Token) -> bool {
        let job = self.job(id);
        job.in_use && job.submission.token == token && job.asleep > 0
    }

    /// A new part of a job.
    pub(super) fn part(&mut self, job: u32) -> u32 {
        let part = PartOf { job, asleep: false };
        if let Some(id) = self.free_parts.pop() {
            self.parts[id as usize] = part;
            return id;
        }
        self.parts.push(part);
        self.parts.len() as u32 - 1
    }

    /// There is no room for the part, and its job's submitter has to wait until there is.
    pub(super) fn sleeps(&mut self, part: u32) {
        let part = &mut self.parts[part as usize];
        part.asleep = true;
        self.jobs[part.job as usize].asleep += 1;
    }

    /// There was room for the part; the token of the job's submitter if it can go on.
    pub(super) fn woken(&mut self, part: u32) -> Option<Token> {
        let part = &mut self.parts[part as usize];
        if !std::mem::take(&mut part.asleep) {
            return None;
        }
        let job = &mut self.jobs[part.job as usize];
        job.asleep -= 1;
        (job.asleep == 0).then_some(job.submission.token)
    }

    /// The job's stage is not over before that part of another job is done.
    pub(super) fn awaits(&mut self, id: u32, part: u32) {
        self.awaited.push((part, id));
    }

    /// A part is done. Those for whose stage it was the last are added to `over`.
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

    /// A job has one part more that is done; whether it was the last of the stage.
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
