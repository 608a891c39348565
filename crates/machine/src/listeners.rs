//! Who hears what happens in a queue.

use elevator::queue::{Event, Observer};
use elevator::{Time, cold_path};

use crate::measure::Meter;

/// Who listens to the queue: the meter always, and whoever else was asked for.
pub(crate) struct Listeners {
    pub(crate) meter: Meter,
    pub(crate) others: Option<Box<dyn Observer>>,
}

impl Observer for Listeners {
    // Where the queue tells of something, it is known which event it is, and most matter to nobody.
    #[inline(always)]
    fn event(&mut self, now: Time, event: &Event<'_>) {
        self.meter.event(now, event);
        if let Some(others) = &mut self.others {
            cold_path();
            // A copy, so that it is put together only where somebody hears it.
            let event = *event;
            others.event(now, &event);
        }
    }
}
