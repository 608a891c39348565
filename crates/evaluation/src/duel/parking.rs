//! Parking: a loop device has at least four tags, so a device of depth 1 is emulated by keeping three of them busy.
//!
//! A parking area is behind the drive's end. A read there completes when the area's last block is read. The first one completes
//! earlier: when more reads have arrived than can be parked. The first read occupies the first scheduler tag until then, because no parked
//! request may hold that tag: BFQ makes processes above their share wait for exactly that tag, forever (`limit = 1` in
//! `bfq_limit_depth`).

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use disks::Tag;
use elevator::queue::Barriers;
use elevator::{Op, Positioning, Sector, Sectors, Time};
use server::backend::{Backend, Done, Extent, Geometry, Job};

/// Number of parked requests for a drive of depth 1.
pub const PARKED: u32 = 3;

/// Size of the parking area.
const ROOM: Sectors = Sectors(2048);

/// Position of the block whose read completes all parked reads, in bytes before the end.
pub(crate) const EXIT_BYTES: u64 = 4096;

/// Positions of the parked reads of [`EXIT_BYTES`], in order, in bytes before the end. They are not adjacent to each other or to the exit
/// block, because the server's queue merges adjacent requests, and a merged request of two tags would count once.
pub(crate) fn places() -> impl Iterator<Item = u64> {
    (1..=PARKED + 1).map(|n| EXIT_BYTES * u64::from(2 * n + 1))
}

/// A back end with a parking area behind its end.
pub(crate) struct Parking {
    inner: Box<dyn Backend>,
    /// Start of the parking area.
    begins: Sector,
    parked: Vec<Job>,
    /// The exit block was read. Later reads of the area complete at once, because nothing would complete them otherwise.
    over: bool,
    /// Jobs to complete: released parked jobs, and jobs that were never sent to the drive.
    out: Vec<Job>,
    /// Jobs that arrived before parking was complete and found the drive full.
    waiting: VecDeque<Job>,
    /// The device's tag of each job in the drive, by the drive's tag.
    tags: Vec<Option<Tag>>,
}

impl Parking {
    pub(crate) fn new(inner: Box<dyn Backend>) -> Self {
        let Geometry { capacity, depth, .. } = inner.geometry();
        let tags = vec![None; depth as usize];
        Self {
            inner,
            begins: capacity,
            parked: Vec::new(),
            over: false,
            out: Vec::new(),
            waiting: VecDeque::new(),
            tags,
        }
    }

    fn enter(&mut self, job: Job) {
        let exit = self.begins + ROOM - Sectors::from_bytes(EXIT_BYTES);
        if job.op == Op::Read && job.start >= exit {
            self.over = true;
            self.out.append(&mut self.parked);
            self.out.push(job);
        } else if job.op == Op::Read && !self.over {
            self.parked.push(job);
            if self.parked.len() > PARKED as usize {
                self.out.push(self.parked.remove(0));
            }
        } else {
            self.out.push(job);
        }
    }
}

impl Backend for Parking {
    fn geometry(&self) -> Geometry {
        let own = self.inner.geometry();
        Geometry {
            capacity: self.begins + ROOM,
            depth: own.depth + PARKED,
            // Parked requests stay in the drive, so a flush must not wait for them.
            barriers: Barriers::Completed,
            ..own
        }
    }

    fn start(&mut self, now: Time, mut job: Job) {
        if job.start >= self.begins {
            return self.enter(job);
        }
        let Some(tag) = self.tags.iter().position(Option::is_none) else {
            return self.waiting.push_back(job);
        };
        self.tags[tag] = Some(job.tag);
        job.tag = Tag(tag as u32);
        self.inner.start(now, job);
    }

    fn submit(&mut self) {
        self.inner.submit();
    }

    fn poll(&mut self, now: Time) -> Option<Done> {
        if let Some(job) = self.out.pop() {
            return Some(Done { job, at: now, result: Ok(()) });
        }
        let mut done = self.inner.poll(now)?;
        if let Some(tag) = self.tags[done.job.tag.0 as usize].take() {
            done.job.tag = tag;
        }
        if let Some(job) = self.waiting.pop_front() {
            self.start(now, job);
            self.inner.submit();
        }
        Some(done)
    }

    fn next_event(&self) -> Option<Time> {
        self.inner.next_event()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wake_fd()
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        self.inner.positioning()
    }

    fn extent(&mut self, offset: u64, most: u64) -> Extent {
        if offset >= self.begins.bytes() {
            return Extent { bytes: most, data: false };
        }
        self.inner.extent(offset, most.min(self.begins.bytes() - offset))
    }

    fn keeps_time(&self) -> bool {
        self.inner.keeps_time()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[cfg(test)]
mod tests {
    use elevator::Flags;
    use elevator::queue::{Options, Queue};
    use schedulers::{Environment, Spec};
    use server::backend::{Nothing, Payload};
    use server::{Device, FrontEndEvent, NewOperation, Watch};

    use super::*;

    #[test]
    fn reads_that_arrive_together_are_parked_one_by_one() {
        let parking = Parking::new(Box::new(Nothing::new(1 << 20, 1)));
        let end = parking.geometry().capacity;
        let options = Options { depth: 1 + PARKED, ..Options::default() };
        let noop = Spec::parse("noop").unwrap().build(&Environment::default()).unwrap();
        let watch = Watch::new(None);
        let mut device = Device::new(Queue::observed(options, noop, watch), Box::new(parking));
        // A server that was not scheduled for a while receives all of them at once.
        device.plug();
        for (cookie, place) in (0..).zip(places()) {
            let (start, sectors) = (end - Sectors::from_bytes(place), Sectors::from_bytes(EXIT_BYTES));
            let (op, flags, payload) = (Op::Read, Flags::default(), Payload::None);
            let ask = NewOperation { cookie, op, start, sectors, flags, process: None, payload };
            let _ = device.submit(Time::ZERO, 0, ask);
        }
        device.unplug();
        device.advance(Time::ZERO);
        assert!(
            matches!(device.next_event(Time::ZERO), Some(FrontEndEvent::Answer(answer)) if answer.cookie == 0)
        );
        assert!(device.next_event(Time::ZERO).is_none(), "the other reads stay parked");
    }

    #[test]
    fn a_read_during_unparking_is_not_parked_for_ever() {
        let mut parking = Parking::new(Box::new(Nothing::new(1 << 20, 4)));
        let end = Sector((1 << 20) / 512) + ROOM;
        let read = |tag: u32, before: u64| Job {
            tag: Tag(tag),
            op: Op::Read,
            start: end - Sectors::from_bytes(before),
            sectors: Sectors(8),
            fua: false,
            pieces: Vec::new(),
        };
        let answered = |parking: &mut Parking| {
            let mut tags: Vec<u32> =
                std::iter::from_fn(|| parking.poll(Time::ZERO)).map(|done| done.job.tag.0).collect();
            tags.sort_unstable();
            tags
        };
        parking.start(Time::ZERO, read(0, 3 * EXIT_BYTES));
        assert!(answered(&mut parking).is_empty());
        parking.start(Time::ZERO, read(1, EXIT_BYTES));
        parking.start(Time::ZERO, read(2, 2 * EXIT_BYTES));
        assert_eq!(answered(&mut parking), [0, 1, 2]);
    }

    #[test]
    fn with_one_read_too_many_the_first_completes_and_the_others_stay() {
        let mut parking = Parking::new(Box::new(Nothing::new(1 << 20, 4)));
        let end = Sector((1 << 20) / 512) + ROOM;
        for tag in 0..=PARKED {
            assert!(parking.poll(Time::ZERO).is_none());
            let start = end - Sectors::from_bytes(EXIT_BYTES * u64::from(tag + 2));
            let (op, sectors) = (Op::Read, Sectors(8));
            let job = Job { tag: Tag(tag), op, start, sectors, fua: false, pieces: Vec::new() };
            parking.start(Time::ZERO, job);
        }
        assert_eq!(parking.poll(Time::ZERO).map(|done| done.job.tag), Some(Tag(0)));
        assert!(parking.poll(Time::ZERO).is_none());
    }
}
