//! What is queued, in lanes that are each served one way in sector order: every account's reads, and all writes together.

use alloc::vec::Vec;

use elevator::{Growth, Op, Request, RequestId, Sector};

use crate::sorted::{Key, SortedIndex};

/// Requests of one lane.
#[derive(Clone, Debug, Default)]
struct Lane {
    sorted: SortedIndex,
    /// The sector behind the last request that was taken.
    position: Sector,
}

impl Lane {
    fn merged(&mut self, request: &Request, growth: Growth<'_>) {
        if growth.was_start != request.start {
            self.sorted.remove_key(Key::at(growth.was_start, request.serial));
            self.sorted.insert(request);
        }
        if let Some(absorbed) = growth.absorbed {
            self.sorted.remove(absorbed);
        }
    }

    /// At or behind the last one's end, else the lowest.
    fn next(&self) -> Option<RequestId> {
        self.sorted.at_or_after(self.position).or_else(|| self.sorted.first())
    }
}

/// Everything that is queued. An account is named by its place in the policy's own list.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    reads: Vec<Lane>,
    writes: Lane,
    queued_reads: u32,
    queued_writes: u32,
}

impl Lanes {
    /// Whether nothing is queued.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.queued_reads + self.queued_writes == 0
    }

    /// Whether anybody's reads are queued,
    #[must_use]
    pub const fn reads_wait(&self) -> bool {
        self.queued_reads > 0
    }

    /// or this account's,
    #[must_use]
    pub fn has_reads(&self, place: usize) -> bool {
        self.reads.get(place).is_some_and(|lane| !lane.sorted.is_empty())
    }

    /// or writes.
    #[must_use]
    pub const fn writes_wait(&self) -> bool {
        self.queued_writes > 0
    }

    /// The places of accounts whose reads are queued.
    pub fn readers(&self) -> impl Iterator<Item = usize> {
        (0..self.reads.len()).filter(|&place| self.has_reads(place))
    }

    /// An account's next read.
    #[must_use]
    pub fn next_read(&self, place: usize) -> Option<RequestId> {
        self.reads.get(place).and_then(Lane::next)
    }

    /// The next write.
    #[must_use]
    pub fn next_write(&self) -> Option<RequestId> {
        self.writes.next()
    }

    fn lane(&mut self, place: usize, op: Op) -> (&mut Lane, &mut u32) {
        if op != Op::Read {
            return (&mut self.writes, &mut self.queued_writes);
        }
        if place >= self.reads.len() {
            self.reads.resize(place + 1, Lane::default());
        }
        (&mut self.reads[place], &mut self.queued_reads)
    }

    /// A request of the account at `place` joins.
    pub fn insert(&mut self, place: usize, request: &Request) {
        let (lane, queued) = self.lane(place, request.op);
        lane.sorted.insert(request);
        *queued += 1;
    }

    /// A queued one grew, as [`Scheduler::merged`](elevator::Scheduler::merged) has it; by how many bytes that were not
    /// queued before.
    pub fn merged(&mut self, place: usize, request: &Request, growth: Growth<'_>) -> u64 {
        let (lane, queued) = self.lane(place, request.op);
        lane.merged(request, growth);
        if growth.absorbed.is_some() {
            *queued -= 1;
            return 0;
        }
        request.sectors.bytes() - growth.was_sectors.bytes()
    }

    /// A request leaves for the device; how far it lies from the end of its lane's last one, in sectors.
    pub fn take(&mut self, place: usize, request: &Request) -> u64 {
        let (lane, queued) = self.lane(place, request.op);
        *queued -= 1;
        lane.sorted.remove(request);
        let distance = lane.position.distance(request.start);
        lane.position = request.end();
        distance
    }
}
