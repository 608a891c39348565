//! AFQ, actually fair queueing: the device in proportion to priority, writes included.
//!
//! # Idea
//! A block-level fair queue charges a write to whoever submits it, which is the kernel's writeback thread; and once data
//! is in a transaction it cannot be put back. So charge each request to its causes, schedule reads where they are
//! requests, and schedule writes where they can still be held: at the call that would dirty pages or force them out.
//!
//! # State
//! Per account its *service*: cost divided by share (`shares`); its held calls (`calls`); its queued reads in sector order
//! and how sequential they are (`reads`). One index for all writes. Writes are charged when a page is dirtied.
//!
//! # Order of decisions
//! At the call (`calls`):
//! 1. A write, creat or mkdir of an account whose service is more than `ahead` above the least of all active accounts is
//!    held. The least served of the held goes on as soon as it is within `ahead`, or when there has been nothing else to do for
//!    `kick`.
//! 2. Every fsync queues. They go on in batches: the least served first, `batch_least` if so many wait. The next batch
//!    begins when every fsync of the last has returned, or after `batch_longest` if the device has fewer than
//!    `in_flight_least` requests. An account that has had less and reads goes before them.
//!
//! At the block (`block`):
//! 1. The account whose turn it is goes on with its reads in one-way sector order, for at most `slice` and `batch` requests.
//! 2. Writes go straight out: what they block may be more important than they are. After `batch` of them in a row,
//!    reads that wait have a turn.
//! 3. If it has no more, was sequential, and there is time left: wait for it, while it has reads in the device and `idle`
//!    longer (only when AFQ runs alone; inside the stream framework, that decides about waiting).
//! 4. Else the account of least service.
//!
//! # Where it differs from the source
//! - The source computes what work costs by its disk model, and then counts every charge as one, whatever it amounts to: a
//!   page dirtied is 840 over the share, and so is a request that reads. So a write costs its pages there and nothing for
//!   the way, which is what the paper's 7% are made of; here as well (see `seeks`). A read is charged its bytes and its way:
//!   counted as one, a small one anywhere would weigh as much as a long one nearby.
//! - A block of the journal is one for everybody in its transaction there; here they share it.
//! - The source queues held writes with fsyncs and reads, and lets the least served go however far ahead it is. Here one
//!   that is ahead waits.
//! - The source's batches of reads are turns here, and the device's queue is filled as its depth allows.
//! - An account counts as active while it has a call, a dirty page, a queued request or one in flight. The source
//!   looks at the last 20 seconds, which lets nobody run ahead of one that has gone to sleep.
//! - One that comes back has saved up at most `ahead`, however long it was away. In the source it has saved up everything
//!   for 300 seconds, and then nothing.
//! - The source looks every 40 ms whether a held call may go on, come what may; here one that is ahead goes on after 40 ms
//!   with nothing to do. The moment between two calls is not that: everybody who waited for a commit wakes in it.
//!
//! # Not for
//! A host that does not tag causes: without them nobody is ever charged.
//!
//! # Sources
//! Yang et al., *Split-Level I/O Scheduling*, SOSP 2015, "Priority Scheduler"; its published code for constants and for what
//! is counted.

mod block;
mod calls;
mod reads;
mod shares;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;

use elevator::split::Account;
use elevator::{Span, tunables};

use self::calls::Calls;
use self::reads::Reads;
use self::shares::Shares;
use super::lane::Lanes;
use super::ledger::Ledger;
use crate::listing::{Listing, Make};

tunables! {
    /// What can be tuned.
    pub struct Tunables {
        /// How far an account's service may be above the least served one's before its writes are held: pages × 840 / share.
        /// Smaller: fairer over short times. Source: 204,800.
        ahead: Count = 204_800, 0, 1 << 40;
        /// Charges writes their way, too, as the source's disk model has it and its counter does not: shares are then of the
        /// device's time. A small share's runs are short, so each of its bytes costs more.
        seeks: Flag = false, false, true;
        /// When a held write goes on because there is nothing else to do: after so long of that. The source looks that often.
        kick: Span = Span::from_millis(40), Span::ZERO, Span::from_secs(1);
        /// Fsyncs that go on together, if so many wait. Source: 5. More: better commits, shares nearer to equal.
        batch_least: Count = 5, 1, 1_000_000;
        /// After so long the next fsyncs need not wait for the last ones if the device has little to do. Source: HZ / 5.
        batch_longest: Span = Span::from_millis(200), Span::from_millis(1), Span::from_secs(60);
        /// And little is fewer requests than this. Source: 2.
        in_flight_least: Count = 2, 0, 1_000_000;
        /// How long one account's reads may go on while others wait. Source: HZ / 4.
        slice: Span = Span::from_millis(250), Span::from_millis(1), Span::from_secs(10);
        /// Requests in a turn, of an account's reads and of writes. Source: 100.
        batch: Count = 100, 1, 1_000_000;
        /// How long to wait for a sequential reader's next request. Source: 20 ms.
        idle: Span = Span::from_millis(20), Span::ZERO, Span::from_secs(1);
        /// Requests in a row, each near the last, that make a reader sequential. Source: 12.
        sequential_after: Count = 12, 0, 1_000_000;
        /// What near means. Source: 1024 sectors.
        near: Sectors = 1024, 0, 1 << 40;
    }
}

pub(crate) const LISTINGS: &[Listing] = &[Listing {
    name: "afq",
    version: "",
    plain: true,
    about: "split-level fair queueing: shares by priority, charged by cause, writes held at the call",
    source: "Yang et al., Split-Level I/O Scheduling, SOSP 2015",
    split: true,
    tunables: Tunables::TABLE,
    make: Make::WorkConserving(|_| Box::new(Afq::default())),
}];

/// AFQ without anticipation of its own: what a wrapper wraps.
pub struct Afq {
    tunables: Tunables,
    ledger: Ledger,
    shares: Shares,
    calls: Calls,
    reads: Reads,
    lanes: Lanes,
    /// Writes sent since reads had a turn.
    writes_in_a_row: u64,
    in_flight: u32,
}

impl Default for Afq {
    fn default() -> Self {
        let tunables = Tunables::default();
        Self {
            tunables,
            ledger: Ledger::new(tunables.seeks),
            shares: Shares::default(),
            calls: Calls::default(),
            reads: Reads::default(),
            lanes: Lanes::default(),
            writes_in_a_row: 0,
            in_flight: 0,
        }
    }
}

impl Afq {
    fn place(&mut self, account: Account) -> usize {
        let place = self.ledger.place(account);
        self.shares.grow(self.ledger.accounts());
        place
    }

    /// How far one may be above the least served.
    fn ahead(&self) -> i64 {
        i64::try_from(self.tunables.ahead).unwrap_or(i64::MAX)
    }

    fn is_ahead(&self, place: usize) -> bool {
        self.shares.lead(place) > self.ahead()
    }
}
