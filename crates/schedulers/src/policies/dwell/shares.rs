//! The share of light flows in the time of the disk, and the credit that they have of it while others wait.

use elevator::{Span, Time};

/// Least work of heavy flows or writes between two turns of light flows.
const TURN: Span = Span::from_millis(60);
/// Most credit: light flows that begin have seven tenths of a second for themselves.
const CREDIT_MAX: Span = Span::from_millis(90);
/// The share of light flows falls with the age of the oldest other request, from this age on.
const SHARED: Span = Span::from_secs(1);

/// Light flows on one side, heavy flows and asynchronous writes (*the others*) on the other.
pub(super) struct Shares {
    /// Nanoseconds of the others' time that light flows may still take.
    pub(super) credit: i64,
    /// The credit was used up, and the others have not had a turn since.
    pub(super) is_exhausted: bool,
    /// Until when `credit` is up to date.
    updated: Time,
    /// Estimated work of the others that `credit` includes and that has not been done yet.
    prepaid: Span,
    /// The present share of light flows, in percent.
    light: u64,
}

impl Shares {
    pub(super) const fn new(light: u64) -> Self {
        Self {
            credit: CREDIT_MAX.as_nanos() as i64,
            is_exhausted: false,
            updated: Time::ZERO,
            prepaid: Span::ZERO,
            light,
        }
    }

    /// Until when the credit is up to date.
    pub(super) const fn updated(&self) -> Time {
        self.updated
    }

    /// Brings the credit up to date. Since the last call, the owner has been a light flow or not. `age` is that of the others' oldest queued
    /// request, and `most` is the share of light flows beside a young one.
    pub(super) fn pass_time(&mut self, now: Time, is_owner_light: bool, age: Option<Span>, most: u64) {
        let passed = now.since(self.updated).min(Span::from_secs(10));
        self.updated = now;
        self.light = share_beside(most, age);
        if !is_owner_light {
            let unpaid = passed.saturating_sub(self.prepaid);
            self.prepaid = self.prepaid.saturating_sub(passed);
            self.repay(unpaid);
        } else if age.is_some() {
            self.credit -= (passed * (100 - self.light) / 100).as_nanos() as i64;
        }
        let turn = if self.is_exhausted { TURN * self.light / 100 } else { Span::ZERO };
        self.is_exhausted = self.credit <= turn.as_nanos() as i64;
    }

    /// The others have had so much time.
    fn repay(&mut self, time: Span) {
        let earned = (time * self.light / 100).as_nanos() as i64;
        self.credit = (self.credit + earned).min(CREDIT_MAX.as_nanos() as i64);
    }

    /// The device has accepted work of the others. It counts at once, although the device may do it later: a cache for writes accepts
    /// them at once.
    pub(super) fn prepay(&mut self, work: Span) {
        self.prepaid += work;
        self.repay(work);
    }

    /// A light flow owns the disk: work that the device has not done is not expected any more.
    pub(super) const fn end_prepaid(&mut self) {
        self.prepaid = Span::ZERO;
    }
}

/// The share of light flows while the others' oldest request has this age.
fn share_beside(most: u64, age: Option<Span>) -> u64 {
    let age = age.unwrap_or(Span::ZERO).max(SHARED);
    most * SHARED.as_nanos() / age.as_nanos()
}
