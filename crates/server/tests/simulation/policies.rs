//! The policies that serve the simulated disk: healthy ones, faulty ones, and one that breaks the bound that it states.

use std::collections::VecDeque;
use std::sync::Arc;

use elevator::{
    Capabilities, Decision, Growth, Hold, HoldReason, Load, Reason, Request, RequestId, Scheduler, Span,
    Time, View, Wake,
};
use schedulers::{Environment, Spec};

use crate::faulty::{self, Faulty, Wrong};

pub const SCHEDULERS: [&str; 12] = [
    "noop",
    "deadline",
    "mq-deadline",
    "stream(deadline)",
    "anticipatory",
    "bfq",
    "kyber",
    "look",
    "sstf",
    "c-scan",
    "cfq-2.6.32",
    "cooperative",
];

const WRONG: [Wrong; 11] = [
    Wrong::Forgets,
    Wrong::Idle,
    Wrong::HoldsWithoutEnd,
    Wrong::AwaitsNoCompletion,
    Wrong::HoldsInThePast,
    Wrong::HoldsAgainAndAgain,
    Wrong::UnknownId,
    Wrong::DispatchedId,
    Wrong::IdsFromBeforeASwitch,
    Wrong::Panics("next"),
    Wrong::Panics("completed"),
];

/// First come, first served, with the bound of that policy, but every five-hundredth request waits for longer.
#[derive(Default)]
struct Delaying {
    fifo: VecDeque<RequestId>,
    delayed: Option<(Time, RequestId)>,
    inserted: u64,
}

impl Scheduler for Delaying {
    fn insert(&mut self, _now: Time, request: &Request) {
        self.inserted += 1;
        self.fifo.push_back(request.id);
    }

    fn merged(&mut self, _now: Time, _request: &Request, growth: Growth<'_>) {
        if let Some(absorbed) = growth.absorbed {
            self.fifo.retain(|&id| id != absorbed.id);
            self.delayed.take_if(|(_, id)| *id == absorbed.id);
        }
    }

    fn next(&mut self, now: Time, _view: &View<'_>) -> Decision {
        let dispatch = |id| Decision::Dispatch { id, reason: Reason::FirstCome };
        if self.delayed.is_none() && self.inserted >= 500 {
            self.inserted = 0;
            self.delayed = self.fifo.pop_front().map(|id| (now + DELAY, id));
        }
        match (self.delayed, self.fifo.pop_front()) {
            (_, Some(id)) => dispatch(id),
            (Some((until, id)), None) if until <= now => {
                self.delayed = None;
                dispatch(id)
            }
            (Some((until, _)), None) => Decision::Hold(Hold {
                until: Some(until),
                wake: Wake::Timer,
                reason: HoldReason::AwaitProcess,
            }),
            (None, None) => Decision::Idle,
        }
    }

    fn longest_wait(&self, load: Load) -> Option<Span> {
        Some(load.service * u64::from(load.requests))
    }
}

impl Capabilities for Delaying {}

/// Shorter than the longest hold that the queue permits.
const DELAY: Span = Span::from_secs(25);

/// Makes the policies of the simulation by name; `ids` are those that faulty policies have received.
pub fn schedulers(ids: faulty::Shared) -> server::control::SchedulerFactory {
    Arc::new(move |name| {
        if name == "delays" {
            return Ok(Box::<Delaying>::default());
        }
        if let Some(n) = name.strip_prefix("faulty-") {
            let n: usize = n.parse().map_err(|_| "a number".to_string())?;
            return Ok(Faulty::new(WRONG[n % WRONG.len()], (n / WRONG.len() * 50) as u64, &ids));
        }
        let spec = Spec::parse(name).map_err(|error| error.to_string())?;
        spec.build(&Environment::default())
            .map(|made| made as Box<dyn Scheduler>)
            .map_err(|error| error.to_string())
    })
}
