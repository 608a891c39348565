//! A drive that takes longer for everything.

use elevator::{Positioning, Request, Sector, Span, Time};

use crate::{Command, Completion, Drive, Service};

/// A drive whose clock runs slow: whatever takes the drive inside a time takes this one `percent` of it. Seeks, rotation,
/// transfer and electronics slow down alike, as with a drive that retries everything it does.
pub struct Slow {
    drive: Box<dyn Drive>,
    percent: u64,
}

impl Slow {
    /// `drive`, slowed down to `percent` of its times; at least 100.
    #[must_use]
    pub fn new(drive: Box<dyn Drive>, percent: u64) -> Self {
        Self { drive, percent: percent.max(100) }
    }

    /// The drive's own time at `now`.
    fn inside(&self, now: Time) -> Time {
        Time::from_nanos((u128::from(now.as_nanos()) * 100 / u128::from(self.percent)) as u64)
    }

    /// The first time at which it is `inside` there; times that no run reaches stay at the end of time.
    fn outside(&self, inside: Time) -> Time {
        let nanos = (u128::from(inside.as_nanos()) * u128::from(self.percent)).div_ceil(100);
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn longer(&self, span: Span) -> Span {
        span.percent(self.percent)
    }
}

impl Drive for Slow {
    fn capacity(&self) -> Sector {
        self.drive.capacity()
    }

    fn depth(&self) -> u32 {
        self.drive.depth()
    }

    fn submit(&mut self, now: Time, command: Command) {
        self.drive.submit(self.inside(now), command);
    }

    fn next_event(&self) -> Option<Time> {
        self.drive.next_event().map(|at| self.outside(at))
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        let completion = self.drive.poll(self.inside(now))?;
        let Service { started, overhead, seek, rotation, transfer, from_buffer } = completion.service;
        let service = Service {
            started: self.outside(started),
            overhead: self.longer(overhead),
            seek: self.longer(seek),
            rotation: self.longer(rotation),
            transfer: self.longer(transfer),
            from_buffer,
        };
        Some(Completion { at: self.outside(completion.at).min(now), service, ..completion })
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        self.drive.positioning().is_some().then_some(self)
    }
}

impl Positioning for Slow {
    fn positioning_time(&self, now: Time, request: &Request) -> Span {
        let inside = self.drive.positioning();
        inside.map_or(Span::ZERO, |oracle| self.longer(oracle.positioning_time(self.inside(now), request)))
    }
}
