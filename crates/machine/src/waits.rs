//! Deliberate waits, as opposed to idleness: the device is idle, a request is queued, and the scheduler holds it for a
//! reason.

use elevator::queue::Event;
use elevator::{HoldReason, Time};

/// Follows a queue's events and reports each deliberate wait when it ends.
#[derive(Default)]
pub(crate) struct WaitClock {
    holding: Option<(HoldReason, Time)>,
    in_flight: u32,
    idle_since: Time,
}

/// A wait that has ended.
pub(crate) struct Waited {
    pub(crate) from: Time,
    pub(crate) to: Time,
    pub(crate) reason: HoldReason,
}

impl WaitClock {
    #[inline(always)]
    pub(crate) fn event(&mut self, now: Time, event: &Event<'_>) -> Option<Waited> {
        match event {
            Event::Dispatched { .. } => {
                let waited = self.end(now);
                self.in_flight += 1;
                waited
            }
            Event::Idle { .. } => self.end(now),
            Event::Held { hold, .. } => {
                let waited =
                    self.holding.is_some_and(|(reason, _)| reason != hold.reason).then(|| self.end(now));
                let since = self.holding.map_or(now, |(_, since)| since);
                self.holding = Some((hold.reason, since));
                waited.flatten()
            }
            Event::Completed { .. } => {
                self.in_flight -= 1;
                self.idle_since = now;
                None
            }
            _ => None,
        }
    }

    fn end(&mut self, now: Time) -> Option<Waited> {
        let (reason, since) = self.holding.take()?;
        let from = since.max(self.idle_since);
        (self.in_flight == 0 && now > from).then_some(Waited { from, to: now, reason })
    }
}
