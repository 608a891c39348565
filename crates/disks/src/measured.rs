//! A drive with the measured service times of a real one.
//!
//! # Idea
//! A request takes the time that was measured for its distance from the end of the previous one ([`ServiceCurve`]), and the transfer of its
//! sectors. A device that serves several requests at once has that many lanes, which take requests in the order of arrival. With one lane the
//! nearest of the queued requests is served first, as drives with a command queue do; the oldest is passed by at most [`PASSED_MAX`] others.
//!
//! # Not for
//! Effects of the mechanics that a distance does not determine: the position of the platter, read-ahead beyond what the curve holds, a
//! write cache. Writes take as long as reads.

use std::collections::VecDeque;

use elevator::service_time::ServiceCurve;
use elevator::{Op, Outcome, Positioning, Sector, Span, Time};

use crate::{Command, Completion, Drive, Service, Travel};

/// A backward distance costs this per cent of a forward one, as in the stream paper.
const BACKWARD_PERCENT: u64 = 150;
/// How many later requests may be served before the oldest one.
const PASSED_MAX: u32 = 64;

/// A drive that was measured.
#[derive(Debug)]
pub struct MeasuredDrive {
    capacity: Sector,
    depth: u32,
    lanes: usize,
    curve: ServiceCurve,
    /// With their time of arrival, oldest first.
    waiting: VecDeque<(Time, Command)>,
    /// In service, with their completion.
    serving: Vec<Completion>,
    /// The end of the request that was started last.
    position: Sector,
    passed: u32,
    travel: Travel,
}

impl MeasuredDrive {
    /// A drive of this size that queues `depth` commands, serves `lanes` of them at once and takes the curve's times.
    #[must_use]
    pub fn new(capacity: Sector, depth: u32, lanes: u32, curve: ServiceCurve) -> Self {
        Self {
            capacity,
            depth: depth.max(1),
            lanes: lanes.max(1) as usize,
            curve,
            waiting: VecDeque::new(),
            serving: Vec::new(),
            position: Sector(0),
            passed: 0,
            travel: Travel::default(),
        }
    }

    fn positioning_time(&self, to: Sector) -> Span {
        self.curve.service_time(self.position, to, BACKWARD_PERCENT)
    }

    /// The queued command to serve next.
    fn choose(&self) -> Option<usize> {
        if self.lanes > 1 || self.passed >= PASSED_MAX {
            return (!self.waiting.is_empty()).then_some(0);
        }
        let cost = |(index, (_, command)): (usize, &(Time, Command))| match command.op {
            Op::Read | Op::Write => (self.positioning_time(command.start), index),
            Op::Flush | Op::Discard => (Span::ZERO, index),
        };
        self.waiting.iter().enumerate().map(cost).min().map(|(_, index)| index)
    }

    /// Starts commands on the lanes that are free at `now`.
    fn begin(&mut self, now: Time) {
        while self.serving.len() < self.lanes
            && let Some(index) = self.choose()
            && let Some((_, command)) = self.waiting.remove(index)
        {
            self.passed = if index == 0 { 0 } else { self.passed + 1 };
            let started = self.started(now, command);
            self.serving.push(started);
        }
    }

    fn started(&mut self, now: Time, command: Command) -> Completion {
        let end = command.start.0.checked_add(command.sectors.0.into());
        let moves = matches!(command.op, Op::Read | Op::Write);
        let failed = command.op != Op::Flush && end.is_none_or(|end| end > self.capacity.0);
        let mut service = Service { started: now, ..Service::default() };
        if moves && !failed {
            service.seek = self.positioning_time(command.start);
            service.transfer = self.curve.transfer(command.sectors);
            let distance = self.position.distance(command.start);
            self.travel.sectors += distance;
            self.travel.seeks += u64::from(distance > 0);
            self.position = Sector(command.start.0 + u64::from(command.sectors.0));
        }
        let outcome = if failed { Outcome::Failed } else { Outcome::Done };
        Completion { tag: command.tag, at: now + service.seek + service.transfer, outcome, service }
    }

    /// The command in service that ends first.
    fn first(&self) -> Option<usize> {
        (0..self.serving.len()).min_by_key(|&index| self.serving[index].at)
    }
}

impl Drive for MeasuredDrive {
    fn capacity(&self) -> Sector {
        self.capacity
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn submit(&mut self, now: Time, command: Command) {
        self.waiting.push_back((now, command));
        self.begin(now);
    }

    fn next_event(&self) -> Option<Time> {
        self.first().map(|index| self.serving[index].at)
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        let first = self.first().filter(|&index| self.serving[index].at <= now)?;
        let done = self.serving.swap_remove(first);
        self.begin(done.at);
        Some(done)
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        None
    }

    fn travel(&self) -> Travel {
        self.travel
    }
}

#[cfg(test)]
mod tests {
    use elevator::Sectors;
    use elevator::service_time::MeasuredPoint;

    use super::*;
    use crate::Tag;

    /// 1 ms at a distance of 0, 11 ms at 1000 sectors and beyond; 10 us a sector.
    fn drive(lanes: u32) -> MeasuredDrive {
        let point = |distance, ms| MeasuredPoint { distance, time: Span::from_millis(ms) };
        let curve = ServiceCurve::fit(&[point(0, 1), point(1000, 11)], Span::from_micros(10));
        MeasuredDrive::new(Sector(1 << 20), 32, lanes, curve)
    }

    fn submit(drive: &mut MeasuredDrive, tag: u32, op: Op, start: u64) {
        let command = Command { tag: Tag(tag), op, start: Sector(start), sectors: Sectors(8), fua: false };
        drive.submit(Time::ZERO, command);
    }

    /// Tags with their times in microseconds, until the drive is idle.
    fn all(drive: &mut MeasuredDrive) -> Vec<(u32, u64, Outcome)> {
        let mut done = Vec::new();
        while let Some(at) = drive.next_event() {
            let one = drive.poll(at).expect("it announced it");
            done.push((one.tag.0, one.at.as_nanos() / 1000, one.outcome));
        }
        done
    }

    #[test]
    fn a_request_takes_the_time_of_its_distance_and_its_transfer() {
        let mut drive = drive(1);
        submit(&mut drive, 0, Op::Read, 1000);
        assert_eq!(all(&mut drive), [(0, 11_080, Outcome::Done)]);
        assert_eq!((drive.travel().sectors, drive.travel().seeks), (1000, 1));
        submit(&mut drive, 1, Op::Read, 1008);
        assert_eq!(all(&mut drive)[0].1, 1_080, "it continues the one before");
    }

    #[test]
    fn one_lane_serves_the_nearest_first_and_several_serve_at_once() {
        let mut one = drive(1);
        [(0, 0), (1, 100_000), (2, 8)].into_iter().for_each(|(tag, at)| submit(&mut one, tag, Op::Read, at));
        let order: Vec<u32> = all(&mut one).iter().map(|done| done.0).collect();
        assert_eq!(order, [0, 2, 1]);
        let mut two = drive(2);
        [(0, 0), (1, 100_000)].into_iter().for_each(|(tag, at)| submit(&mut two, tag, Op::Read, at));
        assert_eq!(all(&mut two), [(0, 1_080, Outcome::Done), (1, 11_080, Outcome::Done)]);
    }

    #[test]
    fn requests_beyond_the_end_fail_and_none_waits_forever() {
        let mut drive = drive(1);
        submit(&mut drive, 0, Op::Read, 1 << 20);
        assert_eq!(all(&mut drive)[0].2, Outcome::Failed);
        submit(&mut drive, 0, Op::Read, 0);
        submit(&mut drive, 1, Op::Read, 500_000);
        // The head stays near 0 as long as near requests arrive.
        let mut served = Vec::new();
        for tag in 2..200 {
            submit(&mut drive, tag, Op::Read, u64::from(tag) * 8);
            let at = drive.next_event().expect("it is busy");
            served.push(drive.poll(at).expect("it announced it").tag.0);
        }
        assert!(served.iter().position(|&tag| tag == 1).is_some_and(|at| at <= 66), "{served:?}");
    }
}
