//! The block layer and the device under it, as one thing with one clock.

use disks::{Command, Drive, Tag};
use elevator::queue::{Accepted, Notice, Observer, Options, Plugging, Queue, Step, Submission, Ticket};
use elevator::{Direction, Op, Process, RequestId, Scheduler, Time};

use crate::limit::{Limit, Witness};
use crate::listeners::Listeners;
use crate::measure::Meter;
use crate::storage::{Storage, sooner};

/// A queue in front of a modelled drive.
pub(crate) struct Block {
    queue: Queue<Listeners>,
    drive: Box<dyn Drive>,
    /// What is in the drive, by tag.
    tickets: Vec<Option<Ticket>>,
    free: Vec<Tag>,
    /// When the drive may next have something to tell: it is asked after each change, not at each event.
    device: Option<Time>,
    /// When the queue wants to be asked again.
    wake: Option<Time>,
    /// When the queue had nothing for the drive, if nothing has happened in it since: at that instant it still has not.
    answered: Option<Time>,
}

impl Block {
    /// `others` hears every event of the queue.
    pub(crate) fn new(
        options: Options,
        scheduler: Box<dyn Scheduler>,
        drive: Box<dyn Drive>,
        others: Option<Box<dyn Observer>>,
    ) -> Self {
        let depth = options.depth.min(drive.depth()).max(1);
        let listeners = Listeners { meter: Meter::default(), others };
        Self {
            queue: Queue::observed(Options { depth, ..options }, scheduler, listeners),
            device: drive.next_event(),
            drive,
            tickets: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().map(Tag).collect(),
            wake: None,
            answered: None,
        }
    }

    /// The queue, for something to happen in it.
    pub(crate) const fn queue(&mut self) -> &mut Queue<Listeners> {
        self.answered = None;
        &mut self.queue
    }

    /// What the scheduler would send if it never waited.
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
            fua: request.flags.fua && request.op == Op::Write,
        };
        self.drive.submit(now, command);
        self.device = self.drive.next_event();
        self.tickets[tag.0 as usize] = Some(ticket);
    }
}

impl Storage for Block {
    fn submit(&mut self, now: Time, submission: Submission) -> Accepted {
        self.queue().submit(now, submission)
    }

    fn notice(&mut self) -> Option<Notice> {
        self.queue.notice()
    }

    fn next_event(&self) -> Option<Time> {
        sooner(self.device, self.wake)
    }

    fn collect(&mut self, now: Time) {
        // Where somebody may be asked what to send, the drive has come to this instant before: its oracle tells from there.
        if self.free.is_empty() && self.device.is_none_or(|at| at > now) {
            return;
        }
        while let Some(completion) = &self.drive.poll(now) {
            let Tag(tag) = completion.tag;
            let Some(ticket) = self.tickets[tag as usize].take() else { continue };
            self.free.push(completion.tag);
            let queue = self.queue();
            let request = *queue.request(&ticket);
            queue.observer().meter.served(&request, completion);
            queue.complete(now, ticket, completion.outcome);
        }
        self.device = self.drive.next_event();
    }

    fn pump(&mut self, now: Time) {
        if self.answered == Some(now) {
            return;
        }
        (self.wake, self.answered) = (None, Some(now));
        while let Some(&tag) = self.free.last() {
            match self.queue.next(now, self.drive.positioning()) {
                Step::Dispatch(ticket) => {
                    self.free.pop();
                    self.send(now, tag, ticket);
                }
                Step::Wait(hold) => {
                    self.wake = hold.until;
                    break;
                }
                Step::Full | Step::Idle => break,
            }
        }
    }

    fn plug(&mut self) {
        self.queue.plug();
    }

    fn unplug(&mut self, now: Time, waits: bool) {
        if waits || !matches!(self.queue.options().plugging, Plugging::Queue { .. }) {
            self.queue().unplug(now);
        }
    }

    fn requests(&self, direction: Direction) -> u32 {
        self.queue.allocated(direction)
    }

    fn exited(&mut self, now: Time, process: Process) {
        self.queue().exited(now, process);
    }

    fn meters(&mut self) -> Vec<&Meter> {
        vec![&self.queue.observer().meter]
    }

    fn queue(&mut self) -> Option<&mut Queue<Listeners>> {
        Some(self.queue())
    }

    fn limit(&self, witness: Witness) -> Option<Limit> {
        Some(witness.limit_on(self.drive.ideal()?))
    }
}
