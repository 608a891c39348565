//! Queued requests in lanes, each served in one-way sector order: one lane for each account's own requests, and one for all other writes. Own are
//! its reads and, if the policy has it so, its direct writes.

use alloc::vec::Vec;

use elevator::{Growth, Op, Request, RequestId, Sector};

use crate::parts::sorted::{Key, SortedIndex};

/// The maximum number of requests that pass the oldest one of a lane: a batch of `deadline`. Without a limit, several sequential readers in
/// one account (processes of a virtual machine) would wait for the end of the first one.
/// Lower: more seeks between them.
const PASSES: u32 = 16;

/// Requests of one lane.
#[derive(Clone, Debug, Default)]
struct Lane {
    sorted: SortedIndex,
    /// By serial number.
    arrivals: SortedIndex,
    /// Requests that have passed the oldest one.
    passed: u32,
    /// Submissions of which the requests consist.
    submissions: u32,
    /// The sector behind the last request that was taken.
    position: Sector,
}

const fn age(request: &Request) -> Key {
    Key::by(request.serial, 0)
}

impl Lane {
    fn merged(&mut self, request: &Request, growth: Growth<'_>) {
        if growth.was_start != request.start {
            self.sorted.remove_key(Key::at(growth.was_start, request.serial));
            self.sorted.insert(request);
        }
        if let Some(absorbed) = growth.absorbed {
            self.sorted.remove(absorbed);
            self.arrivals.remove_key(age(absorbed));
        }
    }

    fn insert(&mut self, request: &Request) {
        self.sorted.insert(request);
        self.arrivals.insert_key(age(request), request.id);
    }

    /// The first request at or behind the end of the last one, else the lowest; the oldest if too many have passed it.
    fn next(&self) -> Option<RequestId> {
        if self.passed >= PASSES {
            return self.arrivals.first();
        }
        self.sorted.at_or_after(self.position).or_else(|| self.sorted.first())
    }

    fn take(&mut self, request: &Request) -> u64 {
        self.passed = if self.arrivals.first() == Some(request.id) { 0 } else { self.passed + 1 };
        self.arrivals.remove_key(age(request));
        self.sorted.remove(request);
        let distance = self.position.distance(request.start);
        self.position = request.end();
        distance
    }
}

/// All queued requests. `place` is an account's index in the policy's list.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// Direct writes are an account's own.
    has_direct: bool,
    reads: Vec<Lane>,
    writes: Lane,
    queued_reads: u32,
    queued_writes: u32,
    /// The submissions of each request, by its id: merged ones keep their places in the device's queue.
    submissions: Vec<u32>,
}

impl Lanes {
    /// Empty; direct writes are an account's own.
    #[must_use]
    pub fn with_direct_writes() -> Self {
        Self { has_direct: true, ..Self::default() }
    }

    /// Whether a request is its account's own.
    #[must_use]
    pub const fn is_own(&self, request: &Request) -> bool {
        matches!(request.op, Op::Read) || self.has_direct && request.flags.direct
    }

    /// The number of submissions of an account's own requests.
    #[must_use]
    pub fn own(&self, place: usize) -> u32 {
        self.reads.get(place).map_or(0, |lane| lane.submissions)
    }

    /// Whether nothing is queued.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.queued_reads + self.queued_writes == 0
    }

    /// Whether reads of any account are queued.
    #[must_use]
    pub const fn reads_wait(&self) -> bool {
        self.queued_reads > 0
    }

    /// Whether reads of this account are queued.
    #[must_use]
    pub fn has_reads(&self, place: usize) -> bool {
        self.reads.get(place).is_some_and(|lane| !lane.sorted.is_empty())
    }

    /// Whether writes are queued.
    #[must_use]
    pub const fn writes_wait(&self) -> bool {
        self.queued_writes > 0
    }

    /// The indexes of accounts with queued reads.
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

    fn lane(&mut self, place: usize, request: &Request) -> (&mut Lane, &mut u32) {
        if !self.is_own(request) {
            return (&mut self.writes, &mut self.queued_writes);
        }
        if place >= self.reads.len() {
            self.reads.resize(place + 1, Lane::default());
        }
        (&mut self.reads[place], &mut self.queued_reads)
    }

    /// Adds a request of the account at `place`.
    pub fn insert(&mut self, place: usize, request: &Request) {
        let index = request.id.index();
        if index >= self.submissions.len() {
            self.submissions.resize(index + 1, 0);
        }
        self.submissions[index] = 1;
        let (lane, queued) = self.lane(place, request);
        lane.insert(request);
        lane.submissions += 1;
        *queued += 1;
    }

    /// A queued request grew, with the arguments of [`Scheduler::merged`](elevator::Scheduler::merged). Returns the number of bytes that were not
    /// queued before.
    pub fn merged(&mut self, place: usize, request: &Request, growth: Growth<'_>) -> u64 {
        let absorbed = growth.absorbed.map(|absorbed| self.submissions[absorbed.id.index()]);
        self.submissions[request.id.index()] += absorbed.unwrap_or(1);
        let (lane, queued) = self.lane(place, request);
        lane.merged(request, growth);
        if growth.absorbed.is_some() {
            *queued -= 1;
            return 0;
        }
        lane.submissions += 1;
        request.sectors.bytes() - growth.was_sectors.bytes()
    }

    /// Removes a request that is dispatched; returns its distance from the end of its lane's last one, in sectors.
    pub fn take(&mut self, place: usize, request: &Request) -> u64 {
        let submissions = self.submissions[request.id.index()];
        let (lane, queued) = self.lane(place, request);
        *queued -= 1;
        lane.submissions -= submissions;
        lane.take(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;

    #[test]
    fn merged_submissions_count_until_their_request_is_taken() {
        let mut lanes = Lanes::default();
        let nth = |n: u32, start, sectors| Request {
            id: RequestId(n),
            serial: n.into(),
            ..request(start, sectors)
        };
        let (first, second) = (nth(0, 0, 8), nth(1, 16, 8));
        [&first, &second].into_iter().for_each(|request| lanes.insert(0, request));
        let grown = nth(0, 0, 16);
        let growth = |was_sectors, absorbed| Growth { was_start: Sector(0), was_sectors, absorbed };
        assert_eq!(lanes.merged(0, &grown, growth(first.sectors, None)), 4096);
        assert_eq!(lanes.own(0), 3);
        let whole = nth(0, 0, 24);
        assert_eq!(lanes.merged(0, &whole, growth(grown.sectors, Some(&second))), 0);
        assert_eq!(lanes.own(0), 3);
        lanes.take(0, &whole);
        assert_eq!((lanes.own(0), lanes.is_empty()), (0, true));
    }

    #[test]
    fn the_oldest_request_is_next_after_a_limited_number_of_passes() {
        let mut lanes = Lanes::default();
        let nth = |n: u32| Request { id: RequestId(n), serial: n.into(), ..request(u64::from(n) * 8, 8) };
        let far = Request { id: RequestId(0), serial: 0, ..request(1_000_000, 8) };
        lanes.insert(0, &far);
        for n in 1..=PASSES {
            lanes.insert(0, &nth(n));
            assert_eq!(lanes.next_read(0), Some(RequestId(n)));
            lanes.take(0, &nth(n));
        }
        lanes.insert(0, &nth(PASSES + 1));
        assert_eq!(lanes.next_read(0), Some(far.id));
        lanes.take(0, &far);
        assert_eq!(lanes.next_read(0), Some(RequestId(PASSES + 1)));
    }
}
