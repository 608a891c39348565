//! A drive whose clock differs from its host's: started earlier, or slower in everything.

use elevator::{Angles, Positioning, Request, Sector, Sectors, Span, Time};

use crate::drive::{Ideal, delegate};
use crate::{Command, Completion, Drive, Service};

/// A drive with a clock of its own.
pub struct SkewedClock {
    drive: Box<dyn Drive>,
    /// The drive's time when the host's time is zero.
    ahead: Span,
    /// Durations for the host in percent of durations in the drive.
    percent: u64,
}

impl SkewedClock {
    /// `drive`, started `by` before the host's clock: the spindles of several drives turn at the same speed but not in phase.
    #[must_use]
    pub fn earlier(drive: Box<dyn Drive>, by: Span) -> Self {
        Self { drive, ahead: by, percent: 100 }
    }

    /// `drive` with all durations multiplied by `percent` / 100; at least 100. Seeks, rotation, transfer and overheads slow down alike, as
    /// in a drive that retries everything.
    #[must_use]
    pub fn slow(drive: Box<dyn Drive>, percent: u64) -> Self {
        Self { drive, ahead: Span::ZERO, percent: percent.max(100) }
    }

    /// The drive's time at the host's time `now`.
    fn inside(&self, now: Time) -> Time {
        let gone = (u128::from(now.as_nanos()) * 100 / u128::from(self.percent)) as u64;
        Time::from_nanos(gone.saturating_add(self.ahead.as_nanos()))
    }

    /// The first host time at which the drive's time is `inside`; saturates.
    fn outside(&self, inside: Time) -> Time {
        let gone = u128::from(inside.as_nanos().saturating_sub(self.ahead.as_nanos()));
        let nanos = (gone * u128::from(self.percent)).div_ceil(100);
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn longer(&self, span: Span) -> Span {
        span.percent(self.percent)
    }

    /// The longest duration in the drive that is not longer than `span` for the host.
    fn shorter(&self, span: Span) -> Span {
        let inside = ((u128::from(span.as_nanos()) + 1) * 100 - 1) / u128::from(self.percent);
        Span::from_nanos(u64::try_from(inside).unwrap_or(u64::MAX))
    }
}

impl Drive for SkewedClock {
    delegate!(capacity, depth, travel);

    fn submit(&mut self, now: Time, command: Command) {
        self.drive.submit(self.inside(now), command);
    }

    fn next_event(&self) -> Option<Time> {
        self.drive.next_event().map(|at| self.outside(at))
    }

    fn earliest_completion(&self) -> Option<Time> {
        self.drive.earliest_completion().map(|at| self.outside(at))
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

    fn ideal(&self) -> Option<&dyn Ideal> {
        self.drive.ideal().is_some().then_some(self)
    }
}

impl Ideal for SkewedClock {
    fn least_seek(&self, from: Sector, to: Sector) -> Span {
        self.drive.ideal().map_or(Span::ZERO, |ideal| self.longer(ideal.least_seek(from, to)))
    }

    fn sequential_transfer(&self, start: Sector, sectors: Sectors) -> Span {
        self.drive.ideal().map_or(Span::ZERO, |ideal| self.longer(ideal.sequential_transfer(start, sectors)))
    }

    fn full_duplex(&self) -> bool {
        self.drive.ideal().is_some_and(Ideal::full_duplex)
    }

    fn interface_picos(&self) -> [u64; 2] {
        let inside = self.drive.ideal().map_or([0; 2], Ideal::interface_picos);
        inside.map(|picos| picos.saturating_mul(self.percent) / 100)
    }

    fn least_pass(&self, extents: &mut dyn Iterator<Item = (Sector, Sector)>, moves: bool) -> (Span, u64) {
        let inside = self.drive.ideal().map(|ideal| ideal.least_pass(extents, moves));
        inside.map_or((Span::ZERO, 0), |(time, moves)| (self.longer(time), moves))
    }

    fn buffered_writes(&self) -> Option<Span> {
        self.drive.ideal()?.buffered_writes().map(|span| self.longer(span) + Span::from_nanos(1))
    }
}

impl Positioning for SkewedClock {
    fn positioning_time(&self, now: Time, request: &Request) -> Span {
        let inside = self.drive.positioning();
        inside.map_or(Span::ZERO, |oracle| self.longer(oracle.positioning_time(self.inside(now), request)))
    }

    fn angle(&self, sector: Sector) -> u32 {
        self.drive.positioning().map_or(0, |oracle| oracle.angle(sector))
    }

    fn reached_at_or_above(&self, now: Time, sector: Sector, within: Span) -> Option<Angles> {
        let within = self.shorter(within);
        self.drive.positioning()?.reached_at_or_above(self.inside(now), sector, within)
    }

    fn reached_at_or_below(&self, now: Time, sector: Sector, within: Span) -> Option<Angles> {
        let within = self.shorter(within);
        self.drive.positioning()?.reached_at_or_below(self.inside(now), sector, within)
    }

    fn buffered(&self, n: usize) -> Option<(Sector, Sector)> {
        self.drive.positioning()?.buffered(n)
    }
}

#[cfg(test)]
mod tests {
    use elevator::Op;

    use super::*;
    use crate::Tag;

    #[test]
    fn lower_bounds_are_those_of_the_drive_scaled() {
        let drive = || crate::open("ide-2003", &mut |_| unreachable!("built in")).unwrap().0;
        let times = |drive: &dyn Drive| {
            let ideal = drive.ideal().expect("a rotating drive has lower bounds");
            let seek = ideal.least_seek(Sector(8), Sector(9_000_000));
            [seek, ideal.sequential_transfer(Sector(0), Sectors(10_000))].map(Span::as_nanos)
        };
        let usual = times(&*drive());
        assert_eq!(times(&SkewedClock::earlier(drive(), Span::from_secs(1))), usual);
        assert_eq!(times(&SkewedClock::slow(drive(), 300)), usual.map(|nanos| nanos * 3));
    }

    #[test]
    fn reached_angles_are_those_of_the_scaled_time() {
        for percent in [100, 101, 150, 333] {
            let drive = crate::open("ide-2003", &mut |_| unreachable!("built in")).unwrap().0;
            let slow = SkewedClock::slow(drive, percent);
            for nanos in [0, 1, 2, 99, 100, 12_345, u64::MAX / 400] {
                let inside = slow.shorter(Span::from_nanos(nanos));
                assert!(slow.longer(inside).as_nanos() <= nanos);
                assert!(slow.longer(inside + Span::from_nanos(1)).as_nanos() > nanos);
            }
        }
    }

    /// The completion time of a read at a distant sector.
    fn read(by_us: u64) -> Time {
        let (drive, _) =
            crate::open("ide-2003", &mut |_| Err(std::io::ErrorKind::NotFound.into())).expect("built in");
        let mut drive = SkewedClock::earlier(drive, Span::from_micros(by_us));
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
    fn an_offset_shifts_the_platter_and_whole_revolutions_have_no_effect() {
        // 7,200 rpm: three revolutions take 25 ms.
        let (none, part, three) = (read(0), read(25_000 / 9), read(25_000));
        let apart = |a: Time, b: Time| a.as_nanos().abs_diff(b.as_nanos());
        assert!(apart(none, part) > 1_000_000, "{none:?} {part:?}");
        assert!(apart(none, three) < 2_000, "{none:?} {three:?}");
    }
}
