//! AFQ, actually fair queueing: device time in proportion to priority, writes included.
//!
//! # Idea
//! A block-level fair queue charges a write to its submitter, the kernel's writeback thread; and data that is in a transaction
//! cannot be delayed any more. AFQ charges each request to its causes, schedules reads as requests, and schedules writes where
//! they can still be delayed: at the call that dirties pages or forces them out.
//!
//! # State
//! Per account: its *service*, which is cost divided by share (`shares`); its held calls (`calls`); its queued reads in sector
//! order and how sequential they are (`reads`). One index for all writes. Writes are charged when a page is dirtied.
//!
//! # Order of decisions
//! At the call (`calls`):
//! 1. A write, creat or mkdir of an account whose service exceeds the least service of all active accounts by more than `ahead`
//!    is held. The least served held call proceeds as soon as it is within `ahead`, or when the device has been idle for `kick`.
//! 2. Every fsync queues. Fsyncs proceed in batches: the least served first, `batch_least` if so many wait. The next batch begins
//!    when every fsync of the last has returned, or after `batch_longest` if the device has fewer than `in_flight_least` requests.
//!    An account with less service that reads goes first.
//!
//! At the block layer (`block`):
//! 1. The account in turn continues with its reads in one-way sector order, for at most `slice` and `batch` requests.
//! 2. Writes are dispatched at once, because other work may depend on them. After `batch` writes in a row, waiting reads have a
//!    turn.
//! 3. If the account has no more reads, was sequential and has time left: wait for it while it has reads in the device, and `idle`
//!    longer. Inside the stream framework, the framework decides about waiting.
//! 4. Else the account with the least service.
//!
//! # Where it differs from the source
//! - The source computes a cost by its disk model, but then counts every charge as one: a dirtied page is 840 over the share, and so
//!   is a request that reads. There, a write costs its pages and no seek, which gives the paper's 7%; here as well (`seeks`). A
//!   read is charged its bytes and its seek: counted as one, a small random read would weigh as much as a long sequential one. In front of a device
//!   without a head it costs its bytes.
//! - A journal block is charged as one to every account in its transaction; here they share it.
//! - The source queues held writes with fsyncs and reads, and the least served one proceeds, independent of its advance. Here an
//!   account that is ahead waits.
//! - The source's batches of reads are turns here, and the device's queue is filled as its depth allows.
//! - An account is active while it has a call, a dirty page, or a request queued or in flight. The source uses the last 20 seconds,
//!   in which no account may run ahead of an idle one.
//! - An account that returns has saved at most `ahead`, however long it was away. In the source it has saved everything for 300
//!   seconds, and then nothing.
//! - The source checks every 40 ms whether a held call may proceed; here a call that is ahead proceeds after 40 ms without other
//!   work, and no account has saved more than `ahead` from then on: those with less service do not use the device (programs that
//!   overwrite dirty pages). The moment between two calls does not count: all calls that waited for a commit wake in it.
//!
//! # Not for
//! Hosts that do not tag causes: nothing is charged there. There is no bound on waiting: a request's wait depends on its account's
//! share, and accounts are not limited in number.
//!
//! # Sources
//! Yang et al., "Split-Level I/O Scheduling", SOSP 2015, "Priority Scheduler"; its published code for constants and for the
//! charges.

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
    /// Tunables.
    pub struct Tunables {
        /// How far an account's service may be above the least served one's before its writes are held: pages × 840 / share.
        /// Smaller: fairer over short times. Source: 204,800.
        ahead: Count = 204_800, 0, 1 << 40;
        /// Whether writes are charged their seeks too, as in the source's disk model but not in its counter. Shares are then shares of
        /// device time. Accounts with small shares have short sequential runs, so that each of their bytes costs more.
        seeks: Flag = false, false, true;
        /// Idle time after which a held write proceeds. The source checks with this period.
        kick: Span = Span::from_millis(40), Span::ZERO, Span::from_secs(1);
        /// Maximum number of fsyncs in a batch. Source: 5. More: larger commits, shares nearer to equal.
        batch_least: Count = 5, 1, 1_000_000;
        /// Age of a batch after which the next one may begin if the device has little to do. Source: HZ / 5.
        batch_longest: Span = Span::from_millis(200), Span::from_millis(1), Span::from_secs(60);
        /// The device has little to do with fewer requests than this. Source: 2.
        in_flight_least: Count = 2, 0, 1_000_000;
        /// Maximum duration of one account's turn while others wait. Source: HZ / 4.
        slice: Span = Span::from_millis(250), Span::from_millis(1), Span::from_secs(10);
        /// Requests in a turn, for an account's reads and for writes. Source: 100.
        batch: Count = 100, 1, 1_000_000;
        /// Maximum wait for a sequential reader's next request. Source: 20 ms.
        idle: Span = Span::from_millis(20), Span::ZERO, Span::from_secs(1);
        /// Consecutive near requests from which a reader counts as sequential. Source: 12.
        sequential_after: Count = 12, 0, 1_000_000;
        /// Maximum distance of near requests. Source: 1024 sectors.
        near: Sectors = 1024, 0, 1 << 40;
    }
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "afq",
    "split-level fair queueing: shares by priority, charged by cause, writes held at the call",
    Make::WorkConserving(|environment| Box::new(Afq::for_device(environment.rotational))),
)
.with_source("Yang et al., Split-Level I/O Scheduling, SOSP 2015")
.with_split()
.with_tunables(Tunables::TABLE)];

/// AFQ without anticipation of its own, for a wrapper.
pub struct Afq {
    tunables: Tunables,
    ledger: Ledger,
    shares: Shares,
    calls: Calls,
    reads: Reads,
    lanes: Lanes,
    /// Writes dispatched since the last turn of reads.
    writes_in_a_row: u64,
    in_flight: u32,
}

impl Default for Afq {
    /// For a device with a head.
    fn default() -> Self {
        Self::for_device(true)
    }
}

impl Afq {
    fn for_device(has_head: bool) -> Self {
        let tunables = Tunables::default();
        Self {
            tunables,
            ledger: Ledger::new(tunables.seeks).for_device(has_head),
            shares: Shares::default(),
            calls: Calls::default(),
            reads: Reads::default(),
            lanes: Lanes::default(),
            writes_in_a_row: 0,
            in_flight: 0,
        }
    }

    fn place(&mut self, account: Account) -> usize {
        let place = self.ledger.place(account);
        self.shares.grow(self.ledger.accounts());
        place
    }

    /// The maximum lead over the least served account.
    fn ahead(&self) -> i64 {
        i64::try_from(self.tunables.ahead).unwrap_or(i64::MAX)
    }

    /// How far an account is ahead of the least served one, relative to the maximum.
    fn percent_ahead(&self, place: usize) -> u64 {
        let lead = self.shares.lead(place).max(0).unsigned_abs();
        lead.saturating_mul(100).checked_div(self.tunables.ahead).unwrap_or(0)
    }

    fn is_ahead(&self, place: usize) -> bool {
        self.shares.lead(place) > self.ahead()
    }
}
