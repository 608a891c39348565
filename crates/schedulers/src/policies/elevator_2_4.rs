//! An approximation of the Linux 2.4 elevator.
//!
//! # Idea
//! One list in approximate sector order. A new request goes to its place in sector order, before older requests; each older
//! request tolerates only a limited amount of passing.
//!
//! # State
//! The list, and for each request the number of sectors that may still pass it (its patience).
//!
//! # Order of decisions
//! 1. The request at the front of the list.
//!
//! The place of a new request, searched from the end of the list: behind the first request that lies below it; at the end if
//! there is none. The search stops at a request without patience. A passed request loses as much patience as the passing
//! sectors, both of new requests and of growth in front of it.
//!
//! Waiting is bounded (`longest_wait`): a request waits for those that were queued at its arrival, and for at most as many others as its
//! patience in sectors.
//!
//! # Where it differs from the source
//! This is an approximation of `elevator_linus`, written from descriptions, with the latencies that `elvtune` prints for late
//! 2.4 kernels. Linux 2.4.32 counts patience in requests instead of sectors: a fixed cost for every request behind the place of
//! a new one, and 1 for a merge. Its search also ends where a request fits between two neighbours, or where the order breaks
//! (the end of a sweep); this search ends at the first request that lies below. The low speed of 2.4 in the benchmarks of 2003
//! came in part from its virtual memory (page allocations that wait for writeback), which no scheduler models.
//!
//! # Not for
//! Readers beside a writer: patience is counted in sectors, so a read behind a full queue of large writes waits for all of
//! them. The policy does not anticipate.
//!
//! # Sources
//! `elvtune(8)`; A. Morton, mails to linux-kernel, February 2003; Linux 2.4.32 `drivers/block/elevator.c`
//! (for the differences).

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use elevator::{
    Candidate, Capabilities, Decision, Direction, Growth, Load, Reason, Request, RequestId, Scheduler,
    Sector, Sectors, Span, Time, View, WorkConserving, tunables, tuned_by,
};

use crate::listing::{Listing, Make};
use crate::parts::per_request::PerRequest;

tunables! {
    /// Tunables; the names are those of `elvtune`.
    pub struct Tunables {
        /// Sectors that may pass a read. Smaller: nearer to first come, first served.
        read_latency: Sectors = 2048, 0, 1 << 24;
        /// Sectors that may pass a write.
        write_latency: Sectors = 8192, 0, 1 << 24;
    }
}

#[derive(Clone, Copy, Default)]
struct Record {
    start: Sector,
    /// Sectors that may still pass.
    patience: u64,
}

/// The elevator of 2.4, approximately.
#[derive(Default)]
pub struct Elevator2_4 {
    tunables: Tunables,
    list: VecDeque<RequestId>,
    records: PerRequest<Record>,
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "elevator",
    "approximate 2.4 elevator: sector order as far as patience allows",
    Make::WorkConserving(|_| Box::new(Elevator2_4::default())),
)
.with_version("2.4")
.with_source("an approximation of Linux 2.4's elevator_linus, from descriptions")
.with_tunables(Tunables::TABLE)];

impl Elevator2_4 {
    /// The place in the list for a request at this sector.
    fn place(&self, start: Sector) -> usize {
        for (place, &id) in self.list.iter().enumerate().rev() {
            let record = self.records[id];
            if record.start <= start {
                return place + 1;
            }
            if record.patience == 0 {
                break;
            }
        }
        self.list.len()
    }

    /// `sectors` pass all requests from this place on.
    fn pass(&mut self, from: usize, sectors: Sectors) {
        for &id in self.list.iter().skip(from) {
            let record = &mut self.records[id];
            record.patience = record.patience.saturating_sub(sectors.0.into());
        }
    }

    fn remove(&mut self, id: RequestId) {
        self.list.retain(|&other| other != id);
    }
}

impl Scheduler for Elevator2_4 {
    fn insert(&mut self, _now: Time, request: &Request) {
        let place = self.place(request.start);
        self.pass(place, request.sectors);
        self.list.insert(place, request.id);
        let patience = match request.direction() {
            Direction::Read => self.tunables.read_latency,
            Direction::Write => self.tunables.write_latency,
        };
        self.records.set(request.id, Record { start: request.start, patience });
    }

    fn merged(&mut self, _now: Time, request: &Request, growth: Growth<'_>) {
        if let Some(absorbed) = growth.absorbed {
            self.remove(absorbed.id);
        }
        self.records[request.id].start = request.start;
        let grown = Sectors(request.sectors.0.saturating_sub(growth.was_sectors.0));
        if let Some(place) = self.list.iter().position(|&id| id == request.id) {
            self.pass(place + 1, grown);
        }
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.dispatch_candidate(now, view).unwrap_or(Decision::Idle)
    }

    /// Before a request are dispatched those that were queued at its arrival, and at most as many others as its patience in
    /// sectors.
    fn longest_wait(&self, load: Load) -> Option<Span> {
        let passing = self.tunables.read_latency.max(self.tunables.write_latency);
        Some(load.service * (u64::from(load.requests) + passing))
    }
}

impl WorkConserving for Elevator2_4 {
    fn candidate(&mut self, _now: Time, _view: &View<'_>) -> Option<Candidate> {
        let id = *self.list.front()?;
        Some(Candidate { id, urgent: false, reason: Reason::SectorOrder })
    }

    fn take(&mut self, _now: Time, request: &Request) {
        self.remove(request.id);
    }
}

impl Capabilities for Elevator2_4 {
    tuned_by!(tunables);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Table, request};
    use elevator::Op;

    fn table() -> Table {
        Table::new(Elevator2_4::default())
    }

    #[test]
    fn a_request_goes_to_where_it_fits() {
        let mut t = table();
        let [far, near, between] = [9_000, 100, 4_000].map(|sector| t.read(sector));
        // Nothing lies below 100, so it went to the end; 4000 fits behind it.
        for id in [far, near, between] {
            t.serves(id, Reason::SectorOrder);
        }
        let [low, high] = [1_000, 3_000].map(|sector| t.read(sector));
        let middle = t.read(2_000);
        for id in [low, middle, high] {
            t.serves(id, Reason::SectorOrder);
        }
        t.idles();
    }

    #[test]
    fn no_request_is_passed_beyond_its_patience() {
        let mut t = table();
        let low = t.read(0);
        let waiting = t.read(1_000_000);
        // 2048 sectors pass, in eight requests of 256; the ninth has to go behind.
        let passing: [RequestId; 8] =
            core::array::from_fn(|n| t.insert(request(1_000 + 1_000 * n as u64, 256)));
        let late = t.read(10_000);
        t.serves(low, Reason::SectorOrder);
        for id in passing {
            t.serves(id, Reason::SectorOrder);
        }
        t.serves(waiting, Reason::SectorOrder);
        t.serves(late, Reason::SectorOrder);
    }

    #[test]
    fn a_request_goes_behind_one_at_its_sector_and_where_one_begins_now_counts() {
        let mut t = table();
        let [first, high] = [100, 2_000].map(|sector| t.read(sector));
        let twin = t.read(100);
        let grown = t.read(1_000);
        let front = t.read(992);
        t.absorb(grown, front);
        let inside = t.read(996);
        for id in [first, twin, grown, inside, high] {
            t.serves(id, Reason::SectorOrder);
        }
        t.idles();
    }

    #[test]
    fn reads_let_2048_sectors_pass_and_writes_8192() {
        for (op, patience) in [(Op::Read, 2_048), (Op::Write, 8_192)] {
            let mut t = table();
            let low = t.read(0);
            let waiting = t.insert(Request { op, ..request(1_000_000, 8) });
            let passing = [patience - 1, 8].map(|sectors| t.insert(request(1_000, sectors)));
            let late = t.read(10_000);
            for id in [low, passing[0], passing[1], waiting, late] {
                t.serves(id, Reason::SectorOrder);
            }
        }
    }

    #[test]
    fn a_request_that_grows_has_not_been_passed() {
        let mut t = table();
        let [low, growing] = [0, 1_000].map(|sector| t.read(sector));
        let more = t.insert(request(1_008, 4_000));
        t.absorb(growing, more);
        let between = t.read(500);
        for id in [low, between, growing] {
            t.serves(id, Reason::SectorOrder);
        }
    }

    #[test]
    fn growth_in_front_is_passing_too() {
        let mut t = table();
        let first = t.insert(request(0, 2_040));
        let waiting = t.read(1_000_000);
        let more = t.insert(request(2_040, 2_048));
        t.absorb(first, more);
        let late = t.read(500_000);
        t.serves(first, Reason::SectorOrder);
        t.serves(waiting, Reason::SectorOrder);
        t.serves(late, Reason::SectorOrder);
    }
}
