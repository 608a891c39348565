//! Reads that the medium must serve after their submission, because nothing can have brought their first sector into the drive's buffer: the
//! visits of the head. They lie on its path in a known order.
//!
//! When such a read is submitted, its process has no request in flight, and no other process ever accesses, nor did its own process before,
//! anything near enough for the drive to have read ahead to it. The first sector then passes under the head between submission and completion. So
//! - the visits of one process are in its order. Two consecutive ones are apart by at least the travel of the head, the pauses between them, and
//!   the angle between the two sectors, which no order of requests changes;
//! - of all visits in the order of time, two consecutive ones are apart by at least that minimum if both belong to one process, otherwise by the travel from the
//!   nearest visit of another process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use disks::{Gap, Ideal};
use elevator::{Op, Sector, Span, Time};

use super::chain::Chain;
use crate::program::Io;

/// Most parts of the device that are remembered: 8 MiB. Reads in later ones are no visits.
const BLOCKS_MAX: usize = 1 << 18;

/// Several processes, or no visit.
const NONE: u32 = u32::MAX;

/// The accesses to a part of the device as long as the reach of a request.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The only process that accesses it, or [`NONE`].
    process: u32,
    /// The read that began in it before any other access, or [`NONE`].
    visit: u32,
}

#[derive(Clone, Debug)]
struct Visit {
    process: u32,
    sector: Sector,
    /// The earliest submission.
    at: Time,
    /// Submission by the process's clock without sleeps, and the time from which it had no request in flight.
    submitted: Span,
    done: Option<Span>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Visits {
    blocks: HashMap<u64, Block>,
    visits: Vec<Visit>,
    recent: Vec<Recent>,
}

/// What a process did last.
#[derive(Clone, Debug, Default)]
struct Recent {
    /// The blocks of its last request, from the first to the one before the second.
    blocks: (u64, u64),
    /// Its visit in flight.
    open: Option<u32>,
}

/// Lower bounds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The end of all, since the machine's start.
    pub(super) elapsed: Span,
    /// The end of each process that has visits, since its own start.
    pub(super) own: Vec<(usize, Span)>,
}

impl Visits {
    /// A process submits a request with data; `chain` contains it already.
    pub(super) fn submitted(&mut self, process: usize, io: &Io, at: Time, chain: &Chain, reach: u64) {
        self.recent.resize_with(self.recent.len().max(process + 1), Recent::default);
        let blocks = (io.start.0 / reach, ((io.start + io.sectors).0 + reach) / reach + 1);
        let recent = &mut self.recent[process];
        if std::mem::replace(&mut recent.blocks, blocks) == blocks {
            return;
        }
        let (process, number) = (process as u32, self.visits.len() as u32);
        let may_visit = io.op == Op::Read && chain.in_flight() == 1;
        for block in blocks.0..blocks.1 {
            let is_full = self.blocks.len() >= BLOCKS_MAX;
            match self.blocks.entry(block) {
                Entry::Occupied(mut known) if known.get().process != process => {
                    known.get_mut().process = NONE;
                }
                Entry::Vacant(new) if !is_full => {
                    let is_visit = may_visit && block == blocks.0;
                    new.insert(Block { process, visit: if is_visit { number } else { NONE } });
                    if is_visit {
                        recent.open = Some(number);
                        let submitted = chain.busy();
                        self.visits.push(Visit { process, sector: io.start, at, submitted, done: None });
                    }
                }
                _ => {}
            }
        }
    }

    /// A process without visits submits a request with data.
    pub(super) fn passed(&mut self, io: &Io, reach: u64) {
        for block in io.start.0 / reach..((io.start + io.sectors).0 + reach) / reach + 1 {
            let is_full = self.blocks.len() >= BLOCKS_MAX;
            match self.blocks.entry(block) {
                Entry::Occupied(mut known) => known.get_mut().process = NONE,
                Entry::Vacant(new) if !is_full => {
                    new.insert(Block { process: NONE, visit: NONE });
                }
                Entry::Vacant(_) => {}
            }
        }
    }

    /// The process has no request in flight.
    pub(super) fn completed(&mut self, process: usize, chain: &Chain) {
        if let Some(visit) = self.recent.get_mut(process).and_then(|recent| recent.open.take()) {
            self.visits[visit as usize].done = Some(chain.busy());
        }
    }

    /// The bounds on a drive, for processes that end at these times by their clocks without sleeps.
    pub(super) fn least(&self, ends: &[Span], ideal: &dyn Ideal, reach: u64) -> Bounds {
        let is_sure = |&(index, visit): &(usize, &Visit)| {
            let block = self.blocks.get(&(visit.sector.0 / reach));
            block.is_some_and(|block| (block.process, block.visit) == (visit.process, index as u32))
        };
        let sure = self.visits.iter().enumerate().filter(is_sure);
        let sure: Vec<(&Visit, Span)> = sure.filter_map(|(_, visit)| Some((visit, visit.done?))).collect();
        // Fewer have no path between them.
        if sure.len() < 2 {
            return Bounds::default();
        }
        let (own, others) = (own_gaps(&sure), gaps_to_others(&sure, ideal));
        let gaps: Vec<Gap> = own.iter().chain(&others).flatten().copied().collect();
        let mut least = ideal.least_gaps(&gaps).into_iter();
        let mut of = |gaps: Vec<Option<Gap>>| -> Vec<Option<Span>> {
            gaps.into_iter().map(|gap| gap.and_then(|_| least.next())).collect()
        };
        let (own, others) = (of(own), of(others));
        let mut bounds = Bounds::default();
        // The path over all visits, without the move to the first one.
        let step = |index: usize| {
            let others = others[2 * index..][..2].iter();
            others.chain([&own[index]]).flatten().min().copied().unwrap_or(Span::ZERO)
        };
        let steps = (0..sure.len()).map(step);
        let path: Span = steps.clone().fold(Span::ZERO, |sum, step| sum + step);
        let start = sure.iter().map(|(visit, _)| visit.at).min().unwrap_or(Time::ZERO);
        bounds.elapsed = start.since(Time::ZERO) + path.saturating_sub(steps.max().unwrap_or(Span::ZERO));
        let mut paths: HashMap<u32, (&Visit, Span, Span)> = HashMap::new();
        for (&(visit, done), gap) in sure.iter().zip(&own) {
            let path = paths.entry(visit.process).or_insert((visit, Span::ZERO, done));
            (path.1, path.2) = (path.1 + gap.unwrap_or(Span::ZERO), done);
        }
        for (process, (first, path, done)) in paths {
            let rest = ends.get(process as usize).map_or(Span::ZERO, |end| end.saturating_sub(done));
            bounds.elapsed = bounds.elapsed.max(first.at.since(Time::ZERO) + path + rest);
            bounds.own.push((process as usize, first.submitted + path + rest));
        }
        bounds.own.sort_unstable();
        bounds
    }
}

/// From each process's visit before.
fn own_gaps(sure: &[(&Visit, Span)]) -> Vec<Option<Gap>> {
    let mut last: HashMap<u32, (Sector, Span)> = HashMap::new();
    let gap = |&(visit, done): &(&Visit, Span)| {
        let before = last.insert(visit.process, (visit.sector, done));
        before.map(|(from, done)| {
            let at_least = visit.submitted.saturating_sub(done);
            Gap { from, to: visit.sector, at_least, turns: true }
        })
    };
    sure.iter().map(gap).collect()
}

/// From the nearest visits of other processes below and above.
fn gaps_to_others(sure: &[(&Visit, Span)], ideal: &dyn Ideal) -> Vec<Option<Gap>> {
    let mut order: Vec<(u32, usize)> =
        sure.iter().enumerate().map(|(index, (visit, _))| (ideal.cylinder(visit.sector), index)).collect();
    order.sort_unstable();
    let mut gaps = vec![None; 2 * sure.len()];
    for (side, upwards) in [true, false].into_iter().enumerate() {
        // The last visit, and the last one of another process than that.
        let (mut last, mut other): (Option<&Visit>, Option<&Visit>) = (None, None);
        for n in 0..order.len() {
            let (_, index) = order[if upwards { n } else { order.len() - 1 - n }];
            let visit = sure[index].0;
            if last.is_some_and(|last| last.process != visit.process) {
                other = last;
            }
            last = Some(visit);
            gaps[2 * index + side] = other.map(|from| Gap {
                from: from.sector,
                to: visit.sector,
                at_least: Span::ZERO,
                turns: false,
            });
        }
    }
    gaps
}
