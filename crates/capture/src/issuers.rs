//! [`Issuers`]: the process behind a kernel worker's request.
//!
//! Kernel workers carry out the requests of a loop device, so that the server of its file sees only workers. Each submission was reported
//! when its process made it, before a worker took it, and is joined with the worker's request by sector and operation. A request without a
//! certain match stays unknown: no report, reports that do not cover it, or overlapping reports of several processes.

use std::time::Duration;

use elevator::{Flags, Op, Process, Sector, Sectors, Span, Time};

use crate::error::Error;
use crate::event::{Arrival, Batch, Completed};
use crate::source::Source;

/// The greatest number of submissions in flight; above it, completions were lost.
const UNDER_WAY_MAX: usize = 4096;
/// How often lost reports are checked for.
const CHECK_EVERY: Span = Span::from_secs(1);

/// The submissions in flight of a device.
pub struct Issuers<S> {
    source: S,
    batch: Batch,
    under_way: Vec<Arrival>,
    exited: Vec<Process>,
    checked: Time,
    lost: u64,
}

/// An issuer and its flags. Of several submissions, `meta` is set if any has it, the other flags if all have them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Issuer {
    /// The task.
    pub process: Process,
    /// `sync`, `meta` and `ahead`; the worker's own request carries the other flags.
    pub flags: Flags,
}

impl<S: Source> Issuers<S> {
    /// From a source that reports completions, every submission, and preferably exits.
    pub const fn new(source: S) -> Self {
        Self {
            source,
            batch: Batch { arrivals: Vec::new(), completed: Vec::new(), exited: Vec::new() },
            under_way: Vec::new(),
            exited: Vec::new(),
            checked: Time::ZERO,
            lost: 0,
        }
    }

    /// Reads the reports so far. Call it after a request arrived and before [`issuer`](Self::issuer).
    pub fn update(&mut self) -> Result<(), Error> {
        self.batch.clear();
        self.source.take(&mut self.batch, Duration::ZERO)?;
        let Self { batch, under_way, exited, .. } = self;
        under_way.extend(batch.arrivals.iter().filter(|arrival| arrival.op != Op::Flush));
        batch.completed.iter().for_each(|completed| forget(under_way, completed));
        exited.append(&mut batch.exited);
        self.check()
    }

    /// After a lost completion, a stale submission could match another process's request, so all are forgotten and the requests in flight stay
    /// unknown.
    fn check(&mut self) -> Result<(), Error> {
        let now = self.under_way.last().map_or(self.checked, |arrival| arrival.at);
        if now.since(self.checked) >= CHECK_EVERY || self.under_way.len() > UNDER_WAY_MAX {
            self.checked = now;
            let counts = self.source.counts()?;
            let missing = counts.skipped + counts.lost + counts.ends_lost;
            if missing != self.lost || self.under_way.len() > UNDER_WAY_MAX {
                self.lost = missing;
                self.under_way.clear();
            }
        }
        Ok(())
    }

    /// The issuer of a request that arrived; `None` if uncertain.
    pub fn issuer(&self, op: Op, start: Sector, sectors: Sectors) -> Option<Issuer> {
        let end = start + sectors;
        let (mut first, mut last) = (false, false);
        let mut issuer: Option<Issuer> = None;
        for arrival in self.under_way.iter().filter(|arrival| arrival.op == op) {
            let arrival_end = arrival.start + arrival.sectors;
            if arrival.start >= end || arrival_end <= start {
                continue;
            }
            first |= arrival.start <= start;
            last |= arrival_end >= end;
            let (process, flags) = (arrival.process?, arrival.flags);
            let known_flags =
                Flags { sync: flags.sync, meta: flags.meta, ahead: flags.ahead, ..Flags::default() };
            issuer = match issuer {
                None => Some(Issuer { process, flags: known_flags }),
                Some(known) if known.process == process => {
                    Some(Issuer { process, flags: both(known.flags, known_flags) })
                }
                Some(_) => return None,
            };
        }
        issuer.filter(|_| first && last)
    }

    /// An ended task that had submitted requests.
    pub fn exited(&mut self) -> Option<Process> {
        self.exited.pop()
    }
}

const fn both(one: Flags, other: Flags) -> Flags {
    Flags {
        sync: one.sync && other.sync,
        meta: one.meta || other.meta,
        ahead: one.ahead && other.ahead,
        fua: false,
        preflush: false,
        direct: false,
    }
}

/// A completed submission cannot match any more.
fn forget(under_way: &mut Vec<Arrival>, completed: &Completed) {
    if let Some(index) = under_way.iter().position(|arrival| *arrival == completed.arrival) {
        under_way.remove(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Name;
    use crate::fake::Fake;

    fn arrival(task: u32, start: u64, sectors: u32) -> Arrival {
        Arrival {
            at: Time::from_nanos(start + 1),
            op: Op::Read,
            start: Sector(start),
            sectors: Sectors(sectors),
            flags: Flags { ahead: true, ..Flags::default() },
            priority: None,
            process: Some(Process::single(task)),
            name: Name::default(),
        }
    }

    fn issuers(batches: impl IntoIterator<Item = Batch>) -> Issuers<Fake> {
        Issuers::new(Fake::new(batches))
    }

    fn task(issuers: &Issuers<Fake>, start: u64, sectors: u32) -> Option<u32> {
        issuers.issuer(Op::Read, Sector(start), Sectors(sectors)).map(|issuer| issuer.process.task)
    }

    #[test]
    fn a_request_matches_the_submissions_that_it_contains_or_is_part_of() {
        let arrivals = vec![arrival(1, 0, 8), arrival(1, 8, 8), arrival(2, 16, 256)];
        let mut issuers = issuers([Batch { arrivals, ..Batch::default() }]);
        issuers.update().unwrap();
        assert_eq!(task(&issuers, 0, 16), Some(1), "merged");
        assert_eq!((task(&issuers, 16, 128), task(&issuers, 144, 128)), (Some(2), Some(2)), "split");
        assert!(issuers.issuer(Op::Read, Sector(0), Sectors(8)).unwrap().flags.ahead);
    }

    #[test]
    fn uncertain_requests_stay_unknown() {
        let arrivals = vec![arrival(1, 0, 8), arrival(2, 8, 8), arrival(3, 100, 8)];
        let mut issuers = issuers([Batch { arrivals, ..Batch::default() }]);
        assert_eq!(task(&issuers, 0, 8), None, "no report");
        issuers.update().unwrap();
        assert_eq!(task(&issuers, 0, 16), None, "of two");
        assert_eq!(task(&issuers, 96, 12), None, "begins before the reported range");
        assert_eq!(task(&issuers, 100, 16), None, "ends behind the reported range");
        assert_eq!(issuers.issuer(Op::Write, Sector(0), Sectors(8)), None, "another operation");
    }

    #[test]
    fn completed_submissions_match_no_request() {
        let (old, new) = (arrival(1, 0, 8), arrival(2, 0, 8));
        let done = Completed { arrival: old, at: Time::from_nanos(50), failed: false };
        let first = Batch { arrivals: vec![old], ..Batch::default() };
        let then = Batch { arrivals: vec![new], completed: vec![done], exited: vec![Process::single(1)] };
        let mut issuers = issuers([first, then]);
        issuers.update().unwrap();
        assert_eq!(task(&issuers, 0, 8), Some(1));
        issuers.update().unwrap();
        assert_eq!(task(&issuers, 0, 8), Some(2));
        assert_eq!((issuers.exited(), issuers.exited()), (Some(Process::single(1)), None));
    }

    #[test]
    fn after_a_loss_all_requests_in_flight_are_unknown() {
        let late = Arrival { at: Time::ZERO + Span::from_secs(2), ..arrival(1, 0, 8) };
        let source = Fake::new([Batch { arrivals: vec![late], ..Batch::default() }]);
        for source in [source.clone().missing(0, 1), source.clone().missing(1, 0), source.missing_ends(1)] {
            let mut issuers = Issuers::new(source);
            issuers.update().unwrap();
            assert_eq!(task(&issuers, 0, 8), None);
        }
    }
}
