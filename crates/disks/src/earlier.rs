//! A drive that was switched on before others.

use elevator::{Positioning, Request, Sector, Span, Time};

use crate::{Command, Completion, Drive, Service};

/// A drive whose platters began to turn earlier than its host's clock: spindles of several drives turn at the same speed but
/// not in step.
pub struct Earlier {
    drive: Box<dyn Drive>,
    by: Span,
}

impl Earlier {
    /// `drive`, switched on so long before the host's clock began.
    #[must_use]
    pub fn new(drive: Box<dyn Drive>, by: Span) -> Self {
        Self { drive, by }
    }

    fn inside(&self, now: Time) -> Time {
        Time::from_nanos(now.as_nanos().saturating_add(self.by.as_nanos()))
    }

    fn outside(&self, inside: Time) -> Time {
        Time::from_nanos(inside.as_nanos().saturating_sub(self.by.as_nanos()))
    }
}

impl Drive for Earlier {
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
        let service = Service { started: self.outside(completion.service.started), ..completion.service };
        Some(Completion { at: self.outside(completion.at), service, ..completion })
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        self.drive.positioning().is_some().then_some(self)
    }
}

impl Positioning for Earlier {
    fn positioning_time(&self, now: Time, request: &Request) -> Span {
        let inside = self.drive.positioning();
        inside.map_or(Span::ZERO, |oracle| oracle.positioning_time(self.inside(now), request))
    }
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sectors};

    use super::*;
    use crate::Tag;

    /// When a read of a far place is done.
    fn read(by_us: u64) -> Time {
        let (drive, _) =
            crate::open("ide-2003", &mut |_| Err(std::io::ErrorKind::NotFound.into())).expect("built in");
        let mut drive = Earlier::new(drive, Span::from_micros(by_us));
        let command =
            Command { tag: Tag(0), op: Op::Read, start: Sector(9_000_000), sectors: Sectors(8), fua: false };
        drive.submit(Time::ZERO, command);
        loop {
            let at = drive.next_event().expect("it has a command");
            if let Some(completion) = drive.poll(at) {
                return completion.at;
            }
        }
    }

    #[test]
    fn the_platter_stands_elsewhere_and_a_whole_turn_changes_nothing() {
        // 7,200 rpm: three turns are 25 ms.
        let (none, part, three) = (read(0), read(25_000 / 9), read(25_000));
        let apart = |a: Time, b: Time| a.as_nanos().abs_diff(b.as_nanos());
        assert!(apart(none, part) > 1_000_000, "{none:?} {part:?}");
        assert!(apart(none, three) < 2_000, "{none:?} {three:?}");
    }
}
