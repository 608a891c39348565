//! The scheduler that a queue hosts, and the policy that replaces a faulty one.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::fault::Fault;
use crate::capability::Capabilities;
use crate::cold_path;
use crate::reason::Reason;
use crate::request::{Request, RequestId};
use crate::scheduler::{Decision, Growth, Scheduler};
use crate::time::Time;
use crate::view::View;

/// Runs a closure and returns whether it ended without a panic; see [`Queue::contain_panics`](super::Queue::contain_panics).
pub type Contain = fn(&mut dyn FnMut()) -> bool;

/// A scheduler, and whether it is faulty. A faulty one is not called again; the queue replaces it before the
/// next decision.
pub(super) struct Hosted {
    scheduler: Box<dyn Scheduler>,
    pub(super) contain: Option<Contain>,
    pub(super) fault: Option<Fault>,
    /// It is the queue's own policy, which replaced a faulty one.
    pub(super) is_fallback: bool,
    /// It works above the block layer, too.
    pub(super) is_split: bool,
}

impl Hosted {
    pub(super) fn new(mut scheduler: Box<dyn Scheduler>) -> Self {
        let is_split = scheduler.split().is_some();
        Self { scheduler, contain: None, fault: None, is_fallback: false, is_split }
    }

    pub(super) fn get(&self) -> &dyn Scheduler {
        &*self.scheduler
    }

    pub(super) fn get_mut(&mut self) -> &mut dyn Scheduler {
        &mut *self.scheduler
    }

    /// Calls the scheduler. `None` if it panics, or was faulty before.
    #[inline(always)]
    pub(super) fn call<R>(
        &mut self,
        method: &'static str,
        call: impl FnOnce(&mut dyn Scheduler) -> R,
    ) -> Option<R> {
        if self.fault.is_some() {
            cold_path();
            return None;
        }
        let Some(contain) = self.contain else { return Some(call(&mut *self.scheduler)) };
        let result = contained(contain, || call(&mut *self.scheduler));
        if result.is_none() {
            self.fault = Some(Fault::Panicked { method });
        }
        result
    }

    /// Puts another scheduler in its place; the queue's own if there is none.
    pub(super) fn replace(&mut self, scheduler: Option<Box<dyn Scheduler>>) {
        self.fault = None;
        self.is_fallback = scheduler.is_none();
        let old =
            core::mem::replace(&mut self.scheduler, scheduler.unwrap_or_else(|| Box::<Noop>::default()));
        self.discard(old);
        self.is_split = self.call("split", |scheduler| scheduler.split().is_some()).unwrap_or(false);
    }

    /// Drops a scheduler, which may panic like any of its methods.
    pub(super) fn discard(&self, scheduler: Box<dyn Scheduler>) {
        match self.contain {
            Some(contain) => drop(contained(contain, || drop(scheduler))),
            None => drop(scheduler),
        }
    }
}

/// A panic in the scheduler's drop must not affect the host.
impl Drop for Hosted {
    fn drop(&mut self) {
        if self.contain.is_some() {
            self.replace(None);
        }
    }
}

/// Runs a closure once; `None` if it panics.
#[inline(always)]
pub(super) fn contained<R>(contain: Contain, call: impl FnOnce() -> R) -> Option<R> {
    let (mut call, mut result) = (Some(call), None);
    let whole = contain(&mut || result = call.take().map(|call| call()));
    if whole { result } else { None }
}

/// First come, first served: needs nothing but the ids, and cannot fail.
#[derive(Default)]
pub(super) struct Noop(VecDeque<RequestId>);

impl Scheduler for Noop {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.0.push_back(request.id);
    }

    fn merged(&mut self, _now: Time, _request: &Request, growth: Growth<'_>) {
        if let Some(absorbed) = growth.absorbed {
            self.0.retain(|&id| id != absorbed.id);
        }
    }

    fn next(&mut self, _now: Time, _view: &View<'_>) -> Decision {
        match self.0.pop_front() {
            Some(id) => Decision::Dispatch { id, reason: Reason::FirstCome },
            None => Decision::Idle,
        }
    }
}

impl Capabilities for Noop {}
