//! The queue and the drive, advanced together.

use disks::{Command, Drive, Ideal, Tag};
use elevator::queue::{
    Accepted, Event, Notice, Observer, Options, Plugging, Queue, Step, Submission, Ticket,
};
use elevator::{Direction, Process, RequestId, Scheduler, Span, Time, cold_path};

use crate::alarms::earlier;
use crate::limit::{Interface, Single};
use crate::measure::DeviceStats;

/// A queue in front of a modelled drive.
pub(crate) struct Block {
    queue: Queue<Listeners>,
    drive: Box<dyn Drive>,
    /// Requests in the drive, by tag.
    tickets: Vec<Option<Ticket>>,
    free: Vec<Tag>,
    /// The drive's next event, updated after each change instead of queried at each event.
    device: Option<Time>,
    /// When the queue asked to be called again.
    wake: Option<Time>,
    /// The queue dispatches nothing before this time unless it changes: it is empty, or has answered at this instant.
    asked_from: Time,
}

impl Block {
    /// `others` observes every event of the queue.
    pub(crate) fn new(
        options: Options,
        scheduler: Box<dyn Scheduler>,
        drive: Box<dyn Drive>,
        others: Option<Box<dyn Observer>>,
    ) -> Self {
        let depth = options.depth.min(drive.depth()).max(1);
        let listeners = Listeners { stats: DeviceStats::default(), others };
        Self {
            queue: Queue::observed(Options { depth, ..options }, scheduler, listeners),
            device: drive.next_event(),
            drive,
            tickets: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().map(Tag).collect(),
            wake: None,
            asked_from: Time::ZERO,
        }
    }

    /// The queue, for a change.
    #[inline]
    pub(crate) const fn queue(&mut self) -> &mut Queue<Listeners> {
        self.asked_from = Time::ZERO;
        &mut self.queue
    }

    /// The request that the scheduler would dispatch if it never waited.
    pub(crate) fn selected(&mut self, now: Time) -> Option<RequestId> {
        self.queue.selected(now, self.drive.positioning())
    }

    fn send(&mut self, now: Time, tag: Tag, ticket: Ticket) {
        let request = self.queue.request(&ticket);
        let command = Command {
            tag,
            op: request.op,
            start: request.start,
            sectors: request.sectors,
            fua: self.queue.is_forced(&ticket),
        };
        self.drive.submit(now, command);
        self.device = self.drive.next_event();
        self.tickets[tag.0 as usize] = Some(ticket);
    }

    #[inline(always)]
    pub(crate) fn submit(&mut self, now: Time, submission: Submission) -> Accepted {
        self.queue().submit(now, submission)
    }

    #[inline]
    pub(crate) fn has_notice(&self) -> bool {
        self.queue.has_notice()
    }

    #[inline]
    pub(crate) fn notice(&mut self) -> Option<Notice> {
        self.queue.notice()
    }

    #[inline]
    pub(crate) fn next_event(&self) -> Option<Time> {
        earlier(self.device, self.wake)
    }

    #[inline]
    pub(crate) fn collect(&mut self, now: Time) {
        // Schedulers use the drive's position, so the drive must have advanced to now before the queue can be asked.
        if !self.free.is_empty() || self.device.is_some_and(|at| at <= now) {
            self.poll(now);
        }
    }

    fn poll(&mut self, now: Time) {
        while let Some(completion) = &self.drive.poll(now) {
            let Tag(tag) = completion.tag;
            let Some(ticket) = self.tickets[tag as usize].take() else { continue };
            self.free.push(completion.tag);
            let queue = self.queue();
            let request = *queue.request(&ticket);
            queue.observer().stats.served(&request, completion);
            queue.complete(now, ticket, completion.outcome);
        }
        self.device = self.drive.next_event();
    }

    #[inline]
    pub(crate) fn pump(&mut self, now: Time) {
        if now >= self.asked_from {
            (self.wake, self.asked_from) = (None, now + Span::from_nanos(1));
            while let Some(&tag) = self.free.last()
                && self.feed(now, tag)
            {}
        }
    }

    /// Asks the queue for a request for a free tag; returns whether it dispatched one.
    fn feed(&mut self, now: Time, tag: Tag) -> bool {
        match self.queue.next(now, self.drive.positioning()) {
            Step::Dispatch(ticket) => {
                self.free.pop();
                self.send(now, tag, ticket);
                return true;
            }
            Step::Wait(hold) => self.wake = hold.until,
            Step::Idle => self.asked_from = Time::MAX,
            Step::Full => {}
        }
        false
    }

    #[inline]
    pub(crate) fn plug(&mut self) {
        self.queue.plug();
    }

    #[inline]
    pub(crate) fn unplug(&mut self, now: Time, waits: bool) {
        if waits || !matches!(self.queue.options().plugging, Plugging::Queue { .. }) {
            self.queue().unplug(now);
        }
    }

    pub(crate) fn requests(&self, direction: Direction) -> u32 {
        self.queue.allocated(direction)
    }

    pub(crate) fn exited(&mut self, now: Time, process: Process) {
        self.queue().exited(now, process);
    }

    pub(crate) fn device_stats(&mut self) -> Vec<&DeviceStats> {
        let travel = self.drive.travel();
        let stats = &mut self.queue.observer().stats;
        stats.travel = travel;
        vec![stats]
    }

    /// The drive's ideal times, if they are known.
    pub(crate) fn ideal(&self) -> Option<&dyn Ideal> {
        self.drive.ideal()
    }

    /// The drive's interface; transfers take no time if its ideal times are unknown.
    pub(crate) fn interface(&self) -> Interface {
        let ideal = self.ideal();
        Interface {
            picos: ideal.map_or([0; 2], Ideal::interface_picos),
            full_duplex: ideal.is_some_and(Ideal::full_duplex),
            capacity: self.drive.capacity().0,
            reach: ideal.and_then(Ideal::reach),
        }
    }

    pub(crate) fn as_devices(&self) -> Single<'_> {
        Single(self.ideal())
    }
}

/// Observers of the queue: the statistics, and an optional external observer.
pub(crate) struct Listeners {
    pub(crate) stats: DeviceStats,
    pub(crate) others: Option<Box<dyn Observer>>,
}

impl Observer for Listeners {
    // Inlined because the event's variant is constant at each call in the queue, and most variants are ignored.
    #[inline(always)]
    fn event(&mut self, now: Time, event: &Event<'_>) {
        self.stats.event(now, event);
        if let Some(others) = &mut self.others {
            cold_path();
            // A copy, so that the event is built only if there is an external observer.
            let event = *event;
            others.event(now, &event);
        }
    }
}
