//! A medium with a volatile cache, and the log on it.

use std::collections::BTreeMap;

use elevator::Random;

use super::super::{Tid, WriteId};
use crate::kernel::fs::{Block, Inode};

/// A location on the medium: a home block, a log block, the log's superblock, a file's data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum At {
    Home(Block),
    Log(Block),
    Superblock,
    Data(Inode),
}

/// Written content: a version or a transaction number.
pub(super) type Content = u64;

/// A device; completed writes may stay in its cache until a flush.
#[derive(Clone, Default)]
pub(super) struct Medium {
    /// Whether it has a volatile cache.
    pub(super) volatile: bool,
    pub(super) safe: BTreeMap<At, Content>,
    pub(super) cached: Vec<(At, Content)>,
}

impl Medium {
    /// Completes a write.
    pub(super) fn complete(&mut self, out: Out) -> Then {
        if out.preflush {
            self.safe.extend(self.cached.drain(..));
        }
        if self.volatile && !out.fua {
            self.cached.extend(out.contents);
        } else {
            self.safe.extend(out.contents);
        }
        out.then
    }

    /// Power failure: any part of the cache and of the writes in flight arrives, in any order; a write with a preceding flush
    /// only if the whole cache did.
    pub(super) fn after_failure(&self, under_way: &[Out], random: &mut Random) -> BTreeMap<At, Content> {
        let mut left = self.safe.clone();
        let flushed = random.once_in(2);
        let cached = self.cached.iter().filter(|_| flushed || random.once_in(2));
        left.extend(cached.copied());
        for out in under_way.iter().filter(|out| flushed || !out.preflush) {
            left.extend(out.contents.iter().filter(|_| random.once_in(2)).copied());
        }
        left
    }
}

/// A write in flight.
pub(super) struct Out {
    pub(super) contents: Vec<(At, Content)>,
    pub(super) preflush: bool,
    pub(super) fua: bool,
    pub(super) then: Then,
}

pub(super) enum Then {
    Written(WriteId),
    Data(Tid),
    Home(Block, Tid),
}

/// A transaction in the log.
#[derive(Clone, Default)]
pub(super) struct Logged {
    pub(super) tid: u64,
    pub(super) places: Vec<Block>,
    pub(super) record: Vec<Block>,
    pub(super) revokes: Vec<Block>,
    /// Versions of the copied blocks.
    pub(super) copies: BTreeMap<Block, u64>,
    pub(super) ordered: BTreeMap<Inode, u64>,
    /// The tail in its record (XFS-like).
    pub(super) from: u64,
}

impl Logged {
    pub(super) fn is_whole(&self, left: &BTreeMap<At, Content>) -> bool {
        let is_there = |place: &Block| left.get(&At::Log(*place)) == Some(&self.tid);
        !self.record.is_empty() && self.record.iter().chain(&self.places).all(is_there)
    }
}
