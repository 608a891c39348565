//! The waits of a policy's requests, compared with the bound that the policy states.
//!
//! A wait is the time from a request's insertion to its dispatch for which the policy is responsible: that in which it held the device, or the
//! device's slots were taken by the policy's requests. Flushes, and requests that the device gave back, take slots without the policy; meanwhile
//! the queue does not call [`next`](elevator::Scheduler::next) although the policy has a request and a slot.

use std::collections::{BTreeSet, HashMap};

use elevator::{Load, Span, Time};

/// The waits of the requests of one policy.
#[derive(Default)]
pub(crate) struct Waits {
    /// Queued requests by the policy's time of their insertion, and that time of each.
    order: BTreeSet<(u64, u32)>,
    inserted: HashMap<u32, u64>,
    /// When the device got the requests that it has.
    in_device: HashMap<u32, Time>,
    /// Since when the policy waits for a call of `next`; in a hold, its end.
    uncalled: Option<Time>,
    /// Nanoseconds in which it did.
    foreign: u64,
    depth: u32,
    /// The maximum number of requests, queued and in the device.
    most: u32,
    /// The longest time of a request in the device.
    service: Span,
    /// The bound that the policy stated last. A greater load has no lower one.
    bound: Option<Span>,
}

/// A wait that is longer than the bound under this load.
pub(crate) struct TooLong {
    pub(crate) request: u32,
    pub(crate) waited: Span,
    pub(crate) load: Load,
}

impl Waits {
    /// The time in which the queue could call the policy.
    fn clock(&self, now: Time) -> u64 {
        now.as_nanos() - self.foreign
    }

    /// The policy may decide from now on.
    fn awaits_call(&mut self, now: Time) {
        let has_slot = self.in_device.len() < self.depth.max(1) as usize;
        self.uncalled =
            (has_slot && !self.order.is_empty()).then(|| self.uncalled.map_or(now, |since| since.min(now)));
    }

    pub(crate) fn insert(&mut self, now: Time, request: u32) {
        let at = self.clock(now) - self.uncalled.map_or(0, |since| now.since(since).as_nanos());
        self.inserted.insert(request, at);
        self.order.insert((at, request));
        self.most = self.most.max((self.order.len() + self.in_device.len()) as u32);
        self.awaits_call(now);
    }

    pub(crate) fn remove(&mut self, request: u32) {
        if let Some(at) = self.inserted.remove(&request) {
            self.order.remove(&(at, request));
        }
    }

    /// A call of `next`; returns the request that waits longest, with the load until now, unless the stated bound permits it.
    pub(crate) fn called(&mut self, now: Time, depth: u32) -> Option<TooLong> {
        self.foreign += self.uncalled.take().map_or(0, |since| now.since(since).as_nanos());
        self.depth = depth;
        let &(at, request) = self.order.first()?;
        let waited = Span::from_nanos(self.clock(now) - at);
        let running = self.in_device.values().map(|since| now.since(*since)).max().unwrap_or_default();
        let service = self.service.max(running);
        let is_known = self.bound.is_some_and(|bound| waited <= bound);
        (!is_known).then_some(TooLong { request, waited, load: Load { requests: self.most, depth, service } })
    }

    /// The policy states this bound under the load of `wait`; returns whether the wait exceeds it.
    pub(crate) fn exceeds(&mut self, wait: &TooLong, bound: Option<Span>) -> bool {
        self.bound = bound.or(Some(Span::MAX));
        bound.is_some_and(|bound| wait.waited > bound)
    }

    pub(crate) fn dispatched(&mut self, now: Time, request: u32) {
        self.remove(request);
        self.in_device.insert(request, now);
        self.awaits_call(now);
    }

    /// `next` returned a hold.
    pub(crate) fn held(&mut self, until: Option<Time>) {
        self.uncalled = until;
    }

    pub(crate) fn ended(&mut self, now: Time, request: u32) {
        if let Some(since) = self.in_device.remove(&request) {
            self.service = self.service.max(now.since(since));
        }
        self.awaits_call(now);
    }
}
