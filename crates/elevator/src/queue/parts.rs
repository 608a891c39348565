//! The parts of requests: each is one submission, and a request carries a chain of them in sector order.

use alloc::vec::Vec;

use super::Token;
use crate::request::{Flags, Op, Priority, Process};
use crate::sector::{Sector, Sectors};
use crate::time::Time;
use crate::{CauseSet, Request, RequestId};

/// A submission of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submission {
    /// The host's identifier, in use until the submission has finished.
    pub token: Token,
    /// The operation.
    pub op: Op,
    /// First sector.
    pub start: Sector,
    /// Length; zero only for a flush.
    pub sectors: Sectors,
    /// The submitter's flags.
    pub flags: Flags,
    /// The submitter's priority.
    pub priority: Priority,
    /// The submitter, if known.
    pub process: Option<Process>,
    /// The processes on whose behalf it was submitted, if known.
    pub causes: Option<CauseSet>,
}

impl Submission {
    /// A read or write by a process of ordinary priority.
    #[must_use]
    pub fn new(token: Token, op: Op, start: Sector, sectors: Sectors) -> Self {
        Self {
            token,
            op,
            start,
            sectors,
            flags: Flags::default(),
            priority: Priority::default(),
            process: None,
            causes: None,
        }
    }

    /// The request that carries this submission alone.
    pub(super) fn as_request(&self, now: Time) -> Request {
        Request {
            id: RequestId(u32::MAX),
            serial: 0,
            op: self.op,
            start: self.start,
            sectors: self.sectors,
            flags: self.flags,
            priority: self.priority,
            process: self.process,
            causes: self.causes,
            arrived: now,
        }
    }
}

/// A part's index in the slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartId(u32);

impl PartId {
    /// No part.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// An unfinished submission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) submission: Submission,
    pub(super) submitted: Time,
    /// The next part of its chain, or the next free entry.
    next: PartId,
}

/// Every accepted, unfinished submission.
pub(super) struct Parts {
    slots: Vec<Part>,
    /// The first free entry.
    free: PartId,
    live: usize,
}

/// The parts of one request in order of sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: PartId,
    last: PartId,
    /// Memory segments of all of them.
    pub(super) segments: u32,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { first: PartId::NONE, last: PartId::NONE, segments: 0 };

    /// The chain of one part.
    pub(super) fn of(id: PartId, submission: &Submission) -> Self {
        Self { first: id, last: id, segments: segments(submission.sectors) }
    }
}

impl Default for Parts {
    fn default() -> Self {
        Self { slots: Vec::new(), free: PartId::NONE, live: 0 }
    }
}

impl Parts {
    #[inline(always)]
    pub(super) fn add(&mut self, submission: Submission, submitted: Time) -> PartId {
        if self.free == PartId::NONE {
            self.grow();
        }
        let id = self.free;
        let slot = &mut self.slots[id.0 as usize];
        self.free = slot.next;
        self.live += 1;
        *slot = Part { submission, submitted, next: PartId::NONE };
        id
    }

    /// Adds a free entry.
    #[cold]
    fn grow(&mut self) {
        let submission = Submission::new(Token(0), Op::Flush, Sector(0), Sectors::ZERO);
        self.free = PartId(self.slots.len() as u32);
        self.slots.push(Part { submission, submitted: Time::ZERO, next: PartId::NONE });
    }

    pub(super) fn get(&self, id: PartId) -> &Part {
        &self.slots[id.0 as usize]
    }

    /// The chain of `front` followed by `back`.
    pub(super) fn join(&mut self, front: Chain, back: Chain) -> Chain {
        self.slots[front.last.0 as usize].next = back.first;
        Chain { first: front.first, last: back.last, segments: front.segments + back.segments }
    }

    /// Removes the first part of a chain and frees it.
    pub(super) fn take_first(&mut self, chain: &mut Chain) -> Option<Part> {
        if chain.first == PartId::NONE {
            return None;
        }
        let part = self.remove(chain.first);
        chain.first = part.next;
        Some(part)
    }

    /// The submissions of a chain in order of sectors.
    pub(super) fn submissions(&self, chain: Chain) -> impl Iterator<Item = &Submission> {
        let mut next = chain.first;
        core::iter::from_fn(move || {
            if next == PartId::NONE {
                return None;
            }
            let part = self.get(next);
            next = part.next;
            Some(&part.submission)
        })
    }

    /// The first part of a chain.
    pub(super) fn first(&self, chain: Chain) -> Option<PartId> {
        (chain.first != PartId::NONE).then_some(chain.first)
    }

    pub(super) fn remove(&mut self, id: PartId) -> Part {
        let slot = &mut self.slots[id.0 as usize];
        let part = *slot;
        slot.next = core::mem::replace(&mut self.free, id);
        self.live -= 1;
        part
    }

    /// The number of unfinished submissions.
    pub(super) fn len(&self) -> usize {
        self.live
    }
}

/// Memory segments that a part needs: one for each 64 KiB begun.
pub(crate) fn segments(sectors: Sectors) -> u32 {
    sectors.0.div_ceil(128).max(1)
}
