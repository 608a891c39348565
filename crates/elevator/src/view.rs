//! What a policy may read for a decision: the requests, and the device with its positioning times.

use crate::request::Request;
use crate::requests::Requests;
use crate::sector::Sector;
use crate::time::{Span, Time};

/// The information that a policy may read for a decision.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Every queued and every dispatched request.
    pub requests: &'a Requests,
    /// The device.
    pub device: Device<'a>,
}

/// The device as a policy sees it.
#[derive(Clone, Copy)]
pub struct Device<'a> {
    /// The number of requests that the device accepts at once.
    pub depth: u32,
    /// The number of requests that the device has now.
    pub in_flight: u32,
    /// The most recently dispatched request: the best estimate of the head's position for the next one.
    pub last_dispatched: Option<LastDispatched>,
    /// A source of positioning times, if the host has one.
    pub positioning: Option<&'a dyn Positioning>,
}

/// The most recently dispatched request; valid after its completion too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastDispatched {
    /// Its serial number.
    pub serial: u64,
    /// Its first sector.
    pub start: Sector,
    /// The sector behind its last.
    pub end: Sector,
    /// When it was dispatched.
    pub at: Time,
}

/// Positioning times from a model of the drive.
///
/// A model that also implements the angle methods spares a policy from computing the positioning time of every queued
/// request. The defaults exclude no request.
pub trait Positioning {
    /// The time from `now` until the request's first sector passes under the head, if the device began at once.
    fn positioning_time(&self, now: Time, request: &Request) -> Span;

    /// The angle of a sector on its platter, constant over time, in 2^-32 of a revolution.
    fn angle(&self, _sector: Sector) -> u32 {
        0
    }

    /// Angles that include those of all reads and writes which begin at `sector` or above and are reached within `within`;
    /// `None` if there can be none. Requests that begin in a [`buffered`](Self::buffered) run may have any angle.
    fn reached_at_or_above(&self, _now: Time, _sector: Sector, _within: Span) -> Option<Angles> {
        Some(Angles::ALL)
    }

    /// The same for requests that begin at `sector` or below.
    fn reached_at_or_below(&self, _now: Time, _sector: Sector, _within: Span) -> Option<Angles> {
        Some(Angles::ALL)
    }

    /// The `n`-th run of sectors that the device serves without positioning, as (first, one past the last); `None` if there
    /// are no more than `n`.
    fn buffered(&self, _n: usize) -> Option<(Sector, Sector)> {
        None
    }
}

/// A range of angles, in 2^-32 of a revolution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Angles {
    /// The first angle.
    pub first: u32,
    /// The distance from the first angle to the last.
    pub length: u32,
}

impl Angles {
    /// A whole revolution.
    pub const ALL: Self = Self { first: 0, length: u32::MAX };

    /// Whether the range contains `angle`.
    #[must_use]
    pub const fn contains(self, angle: u32) -> bool {
        angle.wrapping_sub(self.first) <= self.length
    }
}
