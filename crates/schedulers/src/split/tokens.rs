//! Token accounting: the price of a request, and a bucket that may go into debt.
//!
//! The price is in byte equivalents: a request costs its size, and for the seek before it the distance, at most 2 MiB.
//!
//! # Sources
//! Yang et al., "Split-Level I/O Scheduling", SOSP 2015: the simple disk model of Split-Token.

use elevator::{SECTOR_BYTES, Sector, Sectors, Span, Time};

/// The longest seek, in byte equivalents: about 20 ms at 100 MB/s. Larger: random work is charged more.
pub const LONGEST_SEEK: u64 = 2 << 20;

/// The price of a seek over `distance` bytes of address space.
#[must_use]
pub const fn seek(distance: u64) -> u64 {
    if distance < LONGEST_SEEK { distance } else { LONGEST_SEEK }
}

/// Tracks the position of the head.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head {
    at: Option<Sector>,
}

impl Head {
    /// Without a position.
    #[must_use]
    pub const fn new() -> Self {
        Self { at: None }
    }

    /// Moves the head; returns the price of the seek to `start` and of the transfer, in byte equivalents. The first
    /// request is charged no seek.
    pub fn moves(&mut self, start: Sector, sectors: Sectors) -> u64 {
        let distance = self.at.map_or(0, |at| at.distance(start).saturating_mul(SECTOR_BYTES));
        self.at = Some(start + sectors);
        seek(distance) + sectors.bytes()
    }
}

/// A token bucket. Tokens are byte equivalents.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// Tokens per second; `None` for an account without limit.
    rate: Option<u64>,
    /// The most that can be saved.
    cap: u64,
    /// The credit in tokens × 10^9, so that no fraction is lost; negative in debt.
    credit: i128,
    at: Time,
}

const SCALE: i128 = 1_000_000_000;

impl Bucket {
    /// An empty bucket that refills at `rate`; its capacity is the refill of the time `saves`.
    #[must_use]
    pub fn new(now: Time, rate: Option<u64>, saves: Span) -> Self {
        let mut bucket = Self { rate, cap: 0, credit: 0, at: now };
        bucket.set(now, rate, saves);
        bucket
    }

    /// Changes rate and capacity from now on.
    pub fn set(&mut self, now: Time, rate: Option<u64>, saves: Span) {
        self.refill(now);
        self.rate = rate;
        let cap = u128::from(rate.unwrap_or(0)) * u128::from(saves.as_nanos()) / SCALE as u128;
        self.cap = u64::try_from(cap).unwrap_or(u64::MAX);
    }

    fn refill(&mut self, now: Time) {
        let passed = now.since(self.at);
        self.at = now;
        if let Some(rate) = self.rate {
            let most = i128::from(self.cap) * SCALE;
            let refilled = self.credit + i128::from(rate) * i128::from(passed.as_nanos());
            self.credit = refilled.min(most.max(self.credit));
        }
    }

    /// Spends tokens, or gives some back. Without a limit nothing is counted.
    pub fn spend(&mut self, now: Time, tokens: i64) {
        self.refill(now);
        if self.rate.is_some() {
            self.credit -= i128::from(tokens) * SCALE;
        }
    }

    /// Whether a call or request may begin now: there is no limit, or no debt.
    pub fn is_open(&mut self, now: Time) -> bool {
        self.has(now, 0)
    }

    /// Whether there are as many tokens, or no limit.
    pub(crate) fn has(&mut self, now: Time, tokens: u64) -> bool {
        self.refill(now);
        self.rate.is_none() || self.credit >= i128::from(tokens) * SCALE
    }

    /// The tokens at `now`, negative in debt; `None` without a limit.
    #[must_use]
    pub(crate) fn tokens(&self, now: Time) -> Option<i64> {
        self.rate?;
        let mut then = *self;
        then.refill(now);
        Some(i64::try_from(then.credit.div_euclid(SCALE)).unwrap_or(i64::MIN))
    }

    /// When the debt will be paid if no more tokens are spent; `None` without debt, or if the rate is 0.
    #[must_use]
    pub fn opens(&self) -> Option<Time> {
        self.has_at(0)
    }

    /// When there will be as many tokens if no more are spent; `None` if there are, if the bucket never has as many, or if the rate is 0.
    pub(crate) fn has_at(&self, tokens: u64) -> Option<Time> {
        let missing = i128::from(tokens) * SCALE - self.credit;
        let rate = self.rate.filter(|&rate| rate > 0 && missing > 0 && tokens <= self.cap)?;
        let ns = (missing + i128::from(rate) - 1) / i128::from(rate);
        Some(self.at + Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX / 2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at_ms;

    #[test]
    fn debt_is_paid_at_the_rate_and_savings_end_at_the_cap() {
        let mut bucket = Bucket::new(Time::ZERO, Some(1000), Span::from_secs(2));
        assert!(bucket.is_open(Time::ZERO));
        bucket.spend(Time::ZERO, 500);
        assert!(!bucket.is_open(at_ms(499)));
        assert_eq!((bucket.tokens(at_ms(499)), bucket.tokens(at_ms(1500))), (Some(-1), Some(1000)));
        assert_eq!(bucket.opens(), Some(at_ms(500)));
        assert!(bucket.is_open(at_ms(500)));
        bucket.spend(at_ms(60_000), 2000); // the saved credit is limited to two seconds
        assert!(bucket.is_open(at_ms(60_000)));
        bucket.spend(at_ms(60_000), 1);
        assert!(!bucket.is_open(at_ms(60_000)));
    }

    #[test]
    fn the_time_of_tokens_is_rounded_up_and_known_up_to_the_cap() {
        let mut bucket = Bucket::new(Time::ZERO, Some(3), Span::from_secs(2));
        assert_eq!(bucket.opens(), None, "it is open");
        assert_eq!(bucket.has_at(6), Some(at_ms(2_000)));
        assert_eq!(bucket.has_at(7), None, "more than it saves");
        bucket.spend(Time::ZERO, 1);
        let opens = Time::from_nanos(333_333_334);
        assert_eq!(bucket.opens(), Some(opens));
        assert!(!bucket.is_open(Time::from_nanos(333_333_333)) && bucket.is_open(opens));
    }

    #[test]
    fn without_a_limit_it_is_always_open() {
        let mut bucket = Bucket::new(Time::ZERO, None, Span::from_secs(1));
        bucket.spend(Time::ZERO, i64::MAX);
        assert!(bucket.is_open(Time::ZERO));
        assert_eq!((bucket.opens(), bucket.tokens(Time::ZERO)), (None, None));
    }

    #[test]
    fn a_rate_of_zero_never_opens_again() {
        let mut bucket = Bucket::new(Time::ZERO, Some(0), Span::from_secs(1));
        bucket.spend(Time::ZERO, 1);
        assert!(!bucket.is_open(at_ms(1_000_000)));
        assert_eq!(bucket.opens(), None);
    }
}
