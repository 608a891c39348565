//! State that the jobs of a run share: the order in which they start, and which have to end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;

use elevator::{Span, Time};

use super::job::{Ends, Job};

/// A job that may have to end sleeps no longer than this at a time.
pub(crate) const NAP: Span = Span::from_millis(10);

/// Jobs of a section, by their numbers, which start together, and those that start when they have ended (`wait_for`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    pub(crate) jobs: Range<usize>,
    pub(crate) then: Vec<Self>,
}

impl Start {
    /// The jobs of a group, of which `first` is the number of the first one. A job that waits for one of another group, which has ended, waits
    /// for none.
    pub(super) fn all(group: &[Job], first: usize) -> Vec<Self> {
        let mut at = first;
        let section = |jobs: &[Job]| {
            let from = at;
            at += jobs.len();
            (jobs[0].section, jobs[0].waits_for, from..at)
        };
        let sections: Vec<_> = group.chunk_by(|a, b| a.section == b.section).map(section).collect();
        let in_group = |of: Option<usize>| of.filter(|of| sections.iter().any(|(own, ..)| own == of));
        let sections: Vec<Section> =
            sections.iter().map(|(own, waits, jobs)| (*own, in_group(*waits), jobs.clone())).collect();
        Self::after(None, &sections)
    }

    fn after(of: Option<usize>, sections: &[Section]) -> Vec<Self> {
        let waiting = sections.iter().filter(|(_, waits, _)| *waits == of);
        waiting
            .map(|(own, _, jobs)| Self { jobs: jobs.clone(), then: Self::after(Some(*own), sections) })
            .collect()
    }
}

/// A section's number, the section for which it waits, and its jobs.
type Section = (usize, Option<usize>, Range<usize>);

/// The state of a run.
#[derive(Default)]
pub(crate) struct Run {
    began: Cell<Option<Time>>,
    all_end: Cell<bool>,
    groups: RefCell<BTreeSet<u32>>,
    stages: RefCell<BTreeSet<usize>>,
}

impl Run {
    /// When the first job of the run began; `now` if this is the first one. As in fio, `startdelay` counts from then.
    pub(crate) fn began(&self, now: Time) -> Time {
        let began = self.began.get().unwrap_or(now);
        self.began.set(Some(began));
        began
    }

    /// A job of this stage has ended.
    pub(crate) fn ended(&self, job: &Job, stage: usize) {
        match job.ends {
            None => {}
            Some(Ends::Group) => _ = self.groups.borrow_mut().insert(job.group),
            Some(Ends::Stage) => _ = self.stages.borrow_mut().insert(stage),
            Some(Ends::All) => self.all_end.set(true),
        }
    }

    /// Whether a job has to end because another one has ended.
    pub(crate) fn must_end(&self, job: &Job, stage: usize) -> bool {
        job.ends.is_some()
            && (self.all_end.get()
                || self.groups.borrow().contains(&job.group)
                || self.stages.borrow().contains(&stage))
    }
}
